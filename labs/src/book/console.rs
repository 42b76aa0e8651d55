//! Console blocks: commands and what they print.
//!
//! A reader types what stands behind `$` and compares. So a test types it first, page by page in the order of the book, on a real
//! cluster, and compares; a block marked `nodes3` is typed at a cluster of three nodes, which is started for those blocks; what differs from run to run (times, random names, addresses, ages) is masked by the test. This file only
//! takes a page apart and puts it together again.
//!
//! # Invariants
//! 1. A page put together from its own steps is the same page.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

/// How a command line begins.
pub const PROMPT: &str = "$ ";
/// How the comment begins that says why a block is not run.
pub const REASON: &str = "<!-- not run:";

/// The word of a block that is typed at a cluster of three nodes.
pub const THREE_NODES: &str = "nodes3";

/// One command of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// Line of the prompt, from 1.
    pub line: usize,
    /// Whether it is typed at the cluster of three nodes.
    pub three_nodes: bool,
    /// What is typed.
    pub command: String,
    /// What is printed, up to the next prompt or the end of the block.
    pub output: String,
}

/// The commands of a page that are run, in order.
#[must_use]
pub fn steps(page: &str) -> Vec<Step> {
    let mut found: Vec<Step> = Vec::new();
    let (mut inside, mut three_nodes) = (false, false);
    for (at, line) in page.lines().enumerate() {
        if let Some(info) = line.strip_prefix("```") {
            inside = !inside && info.split(',').next() == Some("console") && !info.contains("norun");
            three_nodes = inside && info.split(',').any(|word| word == THREE_NODES);
        } else if inside && let Some(command) = line.strip_prefix(PROMPT) {
            found.push(Step {
                line: at + 1,
                three_nodes,
                command: command.to_owned(),
                output: String::new(),
            });
        } else if inside && let Some(step) = found.last_mut() {
            step.output.push_str(line);
            step.output.push('\n');
        }
    }
    found
}

/// The page with other outputs, one for each step.
#[must_use]
pub fn rewrite(page: &str, outputs: &[String]) -> String {
    let steps = steps(page);
    let mut lines: Vec<Option<String>> = page.lines().map(|line| Some(line.to_owned())).collect();
    for (step, output) in steps.iter().zip(outputs) {
        let old = step.output.lines().count();
        lines[step.line..step.line + old].fill(None);
        let end = output.trim_end_matches('\n');
        if !end.is_empty() {
            lines[step.line - 1] = Some(format!("{PROMPT}{}\n{end}", step.command));
        }
    }
    let mut text = lines.into_iter().flatten().collect::<Vec<_>>().join("\n");
    text.push('\n');
    text
}

/// The pages of the book in reading order, from its summary.
#[must_use]
pub fn reading_order(summary: &str) -> Vec<String> {
    let links = summary.match_indices("](").filter_map(|(at, _)| summary[at + 2..].split_once(')'));
    links.map(|(page, _)| page.to_owned()).filter(|page| page.ends_with(".md")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Page\n```console\n$ one\n1\n1\n$ two\n```\n```console,norun\n$ three\n```\n```text\n$ four\n```\n```console,nodes3\n$ five\n```\n";

    #[test]
    fn commands_are_found_with_what_they_print() {
        let found: Vec<(usize, bool, String, String)> =
            steps(PAGE).into_iter().map(|s| (s.line, s.three_nodes, s.command, s.output)).collect();
        let text = |text: &str| text.to_owned();
        let expected = [
            (3, false, text("one"), text("1\n1\n")),
            (6, false, text("two"), String::new()),
            (15, true, text("five"), String::new()),
        ];
        assert_eq!(found, expected);
    }

    #[test]
    fn a_page_is_put_together_again() {
        let own: Vec<String> = steps(PAGE).into_iter().map(|step| step.output).collect();
        assert_eq!(rewrite(PAGE, &own), PAGE);
        let other = rewrite(PAGE, &["a\n".to_owned(), "b\nb\n".to_owned(), String::new()]);
        assert!(other.contains("$ one\na\n$ two\nb\nb\n```\n"), "{other}");
        assert_eq!(steps(&other).len(), 3);
    }

    #[test]
    fn the_summary_says_in_which_order_pages_are_read() {
        assert_eq!(reading_order("[A](a.md)\n- [B](b/c.md)\n  - [C]()\n"), ["a.md", "b/c.md"]);
    }
}
