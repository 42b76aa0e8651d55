//! Chapters: every one has the same parts in the same order.
//!
//! A reader who knows one chapter knows where to look in all others. So the parts are fixed, none is missing and none is
//! empty; every invariant names the test that guards it; the labs named are labs that exist; the quiz has its answers folded away.
//!
//! # Invariants
//! 1. A chapter's second-level headings are [`SECTIONS`], in this order.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::collections::BTreeSet;
use std::path::Path;

use super::{Finding, Tree};

/// The parts of a chapter.
pub const SECTIONS: [&str; 16] = [
    "You will be able to",
    "One command",
    "Before this stage",
    "Invariants",
    "Predict before you run",
    "How it works",
    "Your turn",
    "Run it alone",
    "Run it joined",
    "See it",
    "Break it",
    "Triage card",
    "Quiz",
    "Recap",
    "Read the real one",
    "What we left out",
];

/// Whether a page is a chapter: `stageN.md` or a page in `stageN/`.
#[must_use]
pub fn is_chapter(page: &Path) -> bool {
    let Ok(rest) = page.strip_prefix("book/src") else { return false };
    let first = rest.components().next().map(|part| part.as_os_str().to_string_lossy().into_owned());
    let markdown = page.extension().is_some_and(|extension| extension == "md");
    markdown && first.is_some_and(|name| name.starts_with("stage"))
}

/// The symptoms of the labs that exist.
#[must_use]
pub fn symptoms(tree: &Tree) -> BTreeSet<String> {
    let catalog = tree.iter().filter(|(path, _)| path.starts_with("labs/catalog"));
    catalog
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| line.strip_prefix("symptom: "))
        .map(|symptom| symptom.trim().to_owned())
        .collect()
}

/// Holds a chapter to the template.
#[must_use]
pub fn check_chapter(page: &Path, text: &str, symptoms: &BTreeSet<String>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line: usize, message: String| {
        findings.push(Finding { page: page.to_owned(), line, message });
    };
    let parts = parts_of(text);
    let names: Vec<&str> = parts.iter().map(|part| part.name).collect();
    if names != SECTIONS {
        let wrong = SECTIONS
            .iter()
            .zip(names.iter().copied().chain(std::iter::repeat("")))
            .find(|(want, has)| *want != has);
        report(
            1,
            match wrong {
                Some((want, has)) => format!("part {want:?} expected, found {has:?}"),
                None => format!("part {:?} is not in the template", names[SECTIONS.len()]),
            },
        );
        return findings;
    }
    for part in &parts {
        if part.lines.iter().all(|line| line.trim().is_empty()) {
            report(part.at, format!("part {:?} is empty", part.name));
        }
        for (at, line) in part.lines.iter().enumerate().map(|(at, line)| (part.at + 1 + at, line)) {
            let invariant = part.name == "Invariants" && line.starts_with(|c: char| c.is_ascii_digit());
            if invariant && !line.contains(".rs::") {
                report(at, "invariant without the test that guards it".to_owned());
            }
            for unknown in labs_of(line).filter(|symptom| !symptoms.contains(*symptom)) {
                report(at, format!("there is no lab {unknown}"));
            }
        }
    }
    let text_of = |name: &str| {
        parts
            .iter()
            .filter(|part| part.name == name)
            .flat_map(|part| &part.lines)
            .copied()
            .collect::<Vec<_>>()
    };
    if labs_of(&text_of("Break it").join(" ")).next().is_none() {
        report(1, "part \"Break it\" names no lab".to_owned());
    }
    if !text_of("Quiz").iter().any(|line| line.contains("<details>")) {
        report(1, "part \"Quiz\" has no answers folded in <details>".to_owned());
    }
    findings
}

pub(super) struct Part<'a> {
    pub(super) name: &'a str,
    at: usize,
    pub(super) lines: Vec<&'a str>,
}

pub(super) fn parts_of(text: &str) -> Vec<Part<'_>> {
    let mut parts: Vec<Part<'_>> = Vec::new();
    for (at, line) in text.lines().enumerate() {
        match line.strip_prefix("## ") {
            Some(name) => parts.push(Part { name: name.trim(), at: at + 1, lines: Vec::new() }),
            None => {
                if let Some(part) = parts.last_mut() {
                    part.lines.push(line);
                }
            }
        }
    }
    parts
}

/// Symptoms behind `labs start`.
pub(super) fn labs_of(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("labs start ").filter_map(|(at, found)| {
        let rest = &line[at + found.len()..];
        rest.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-')).next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chapter(change: impl Fn(&str) -> Option<String>) -> Vec<String> {
        let body = |name: &str| match name {
            "Invariants" => "1. It holds: `a/b.rs::t`.".to_owned(),
            "Break it" => "`labs start image`".to_owned(),
            "Quiz" => "<details>yes</details>".to_owned(),
            _ => "text".to_owned(),
        };
        let part = |name: &str| change(name).unwrap_or_else(|| format!("## {name}\n{}\n", body(name)));
        let text: String = SECTIONS.into_iter().map(part).collect();
        let symptoms = BTreeSet::from(["image".to_owned()]);
        check_chapter(Path::new("book/src/stage1.md"), &text, &symptoms)
            .into_iter()
            .map(|f| f.message)
            .collect()
    }

    fn with(part: &str, text: &str) -> Vec<String> {
        chapter(|name| (name == part).then(|| text.to_owned()))
    }

    #[test]
    fn a_chapter_on_the_template_has_no_findings() {
        assert_eq!(chapter(|_| None), Vec::<String>::new());
    }

    #[test]
    fn each_way_to_leave_the_template_is_found() {
        let cases = [
            ("Quiz", "", "part \"Quiz\" expected, found \"Recap\""),
            ("Recap", "## Recap\n\n", "part \"Recap\" is empty"),
            ("Invariants", "## Invariants\n1. It holds.\n", "invariant without the test that guards it"),
            ("Break it", "## Break it\n`labs start nothing`\n", "there is no lab nothing"),
            ("Break it", "## Break it\nnothing\n", "part \"Break it\" names no lab"),
            ("Quiz", "## Quiz\nWhy?\n", "part \"Quiz\" has no answers folded in <details>"),
            (
                "What we left out",
                "## What we left out\nx\n## More\nx\n",
                "part \"More\" is not in the template",
            ),
        ];
        for (part, text, expected) in cases {
            assert_eq!(with(part, text), [expected]);
        }
    }

    #[test]
    fn chapters_are_told_by_their_place() {
        assert!(
            is_chapter(Path::new("book/src/stage3/copies.md")) && is_chapter(Path::new("book/src/stage3.md"))
        );
        assert!(!is_chapter(Path::new("book/src/glossary.md")) && !is_chapter(Path::new("stage3/README.md")));
    }
}
