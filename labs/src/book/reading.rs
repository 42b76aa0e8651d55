//! Reading: how long a page takes.
//!
//! A chapter's file says minutes, and a guess that nobody compares with anything rots like a copied snippet. So what is said must lie near
//! what the page's length gives: prose is read at 180 words a minute, code and output at 20 lines a minute, with what is included.
//!
//! # Invariants
//! 1. What is included counts as what it is: the lines between the anchors, or the whole file.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::path::Path;

use super::{Tree, cut, include_of, join};

const WORDS_A_MINUTE: usize = 180;
const LINES_A_MINUTE: usize = 20;

/// Minutes to read a page, rounded up.
#[must_use]
pub fn minutes(page: &Path, text: &str, tree: &Tree) -> usize {
    let (mut words, mut lines, mut inside) = (0, 0, false);
    for line in text.lines() {
        if line.trim_start().starts_with("```") {
            inside = !inside;
        } else if let Some(include) = include_of(line) {
            lines += included(page, include, tree);
        } else if inside {
            lines += 1;
        } else {
            words += line.split_whitespace().count();
        }
    }
    (words * LINES_A_MINUTE + lines * WORDS_A_MINUTE).div_ceil(WORDS_A_MINUTE * LINES_A_MINUTE)
}

/// Lines of an include; one that leads nowhere is another check's finding.
fn included(page: &Path, argument: &str, tree: &Tree) -> usize {
    let (file, anchor) = argument.split_once(':').unwrap_or((argument, ""));
    let Some(text) = tree.get(&join(page.parent().unwrap_or(Path::new("")), file)) else { return 0 };
    cut(text, anchor).map_or(0, |part| part.lines().count())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prose_code_and_what_is_included_take_their_time() {
        let source = format!("x\n// ANCHOR: a\n{}// ANCHOR_END: a\ny\n", "line\n".repeat(40));
        let tree = Tree::from([("src/a.rs".into(), source)]);
        let of = |text: &str| minutes(Path::new("book/src/p.md"), text, &tree);
        assert_eq!(of(&"word ".repeat(180)), 1);
        assert_eq!(of(&"word ".repeat(181)), 2);
        assert_eq!(of(&format!("```text\n{}```\n", "a b c\n".repeat(20))), 1);
        assert_eq!(of("```rust\n{{#include ../../src/a.rs:a}}\n```\n"), 2);
        assert_eq!(of("```rust\n{{#include ../../src/gone.rs:a}}\n```\n"), 0);
    }
}
