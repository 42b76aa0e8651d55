//! The book's own checks: what mdbook is silent about.
//!
//! mdbook copies an unknown anchor, an unclosed one or a missing file into the page as if nothing had happened. A reader
//! would see a hole where the code should be, so our check fails on each of them, on a Rust block that is no include
//! (it would rot), on a link to a page that isn't there, and on a block without contents.
//!
//! # Invariants
//! 1. Every `{{#include file:anchor}}` names a file below the repository and an anchor that opens and closes in it once.
//! 2. Every block marked `rust` consists of one include.
//! 3. Every relative link leads to a file.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// A defect of a page, for a person: page, line and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// The page, relative to the book's source.
    pub page: PathBuf,
    /// Line, from 1.
    pub line: usize,
    /// What is wrong.
    pub message: String,
}

/// All that a check may look at: path relative to the repository → text.
pub type Tree = BTreeMap<PathBuf, String>;

/// Checks one page of the book against the repository.
#[must_use]
pub fn check_page(page: &Path, text: &str, tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut block: Option<(usize, String, Vec<&str>)> = None;
    let mut report = |line: usize, message: String| {
        findings.push(Finding { page: page.to_owned(), line, message });
    };
    for (at, line) in text.lines().enumerate().map(|(at, line)| (at + 1, line)) {
        if let Some(include) = include_of(line)
            && let Err(message) = resolve(page, include, tree)
        {
            report(at, message);
        }
        match (&mut block, line.trim_start().strip_prefix("```")) {
            (None, Some(info)) => block = Some((at, info.trim().to_owned(), Vec::new())),
            (Some((start, info, lines)), Some(_)) => {
                if let Some(message) = block_defect(info, lines) {
                    report(*start, message);
                }
                block = None;
            }
            (Some((_, _, lines)), None) => lines.push(line),
            (None, None) => {
                for target in links_of(line) {
                    let path = join(page.parent().unwrap_or(Path::new("")), target);
                    if !tree.contains_key(&path) {
                        report(at, format!("link to {target}: there is no {}", path.display()));
                    }
                }
            }
        }
    }
    if let Some((start, ..)) = block {
        report(start, "code block is never closed".to_owned());
    }
    findings
}

/// The argument of an include directive in this line.
fn include_of(line: &str) -> Option<&str> {
    let rest = line.split_once("{{#include ").or_else(|| line.split_once("{{#rustdoc_include "))?.1;
    rest.split_once("}}").map(|(argument, _)| argument.trim())
}

fn block_defect(info: &str, lines: &[&str]) -> Option<String> {
    if lines.iter().all(|line| line.trim().is_empty()) {
        return Some("code block is empty".to_owned());
    }
    let language = info.split([',', ' ']).next().unwrap_or_default();
    let foreign = lines.iter().any(|line| include_of(line).is_none() && !line.trim().is_empty());
    (language == "rust" && foreign).then(|| "Rust block is not an include of compiled source".to_owned())
}

/// Relative link targets that should be files.
fn links_of(line: &str) -> Vec<&str> {
    line.match_indices("](")
        .filter_map(|(at, _)| line[at + 2..].split_once(')').map(|(target, _)| target))
        .map(|target| target.split('#').next().unwrap_or_default())
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

fn resolve(page: &Path, argument: &str, tree: &Tree) -> Result<(), String> {
    let (file, anchor) = argument.split_once(':').unwrap_or((argument, ""));
    let path = join(page.parent().unwrap_or(Path::new("")), file);
    let Some(text) = tree.get(&path) else {
        return Err(format!("include of {file}: there is no {}", path.display()));
    };
    if anchor.is_empty() || anchor.chars().all(|c| c.is_ascii_digit() || c == ':') {
        return Ok(());
    }
    let count = |marker: &str| {
        text.lines().filter(|line| line.trim().ends_with(&format!("{marker}: {anchor}"))).count()
    };
    match (count("ANCHOR"), count("ANCHOR_END")) {
        (1, 1) => Ok(()),
        (0, _) => Err(format!("{} has no anchor {anchor}", path.display())),
        (_, 0) => Err(format!("anchor {anchor} in {} is never closed", path.display())),
        _ => Err(format!("anchor {anchor} stands more than once in {}", path.display())),
    }
}

/// Joins and resolves `..` by name: the tree is a map, not a disk.
fn join(base: &Path, relative: &str) -> PathBuf {
    let mut out = PathBuf::new();
    for part in base.join(relative).components() {
        match part {
            Component::ParentDir => {
                out.pop();
            }
            Component::CurDir => {}
            other => out.push(other),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(page: &str) -> Vec<String> {
        let tree = Tree::from([
            (
                PathBuf::from("a/lib.rs"),
                "// ANCHOR: open\nfn x() {}\n// ANCHOR: good\nfn y() {}\n// ANCHOR_END: good\n".to_owned(),
            ),
            (PathBuf::from("book/src/other.md"), String::new()),
        ]);
        check_page(Path::new("book/src/page.md"), page, &tree).into_iter().map(|f| f.message).collect()
    }

    #[test]
    fn a_good_page_has_no_findings() {
        let page = "```rust,ignore\n{{#include ../../a/lib.rs:good}}\n```\n[there](other.md#part) [web](https://example.org)\n";
        assert!(messages(page).is_empty());
    }

    #[test]
    fn each_kind_of_defect_is_found() {
        let cases = [
            ("{{#include ../../a/lib.rs:nope}}", "a/lib.rs has no anchor nope"),
            ("{{#include ../../a/lib.rs:open}}", "anchor open in a/lib.rs is never closed"),
            ("{{#include ../../a/gone.rs}}", "include of ../../a/gone.rs: there is no a/gone.rs"),
            ("```rust\nfn main() {}\n```", "Rust block is not an include of compiled source"),
            ("```console\n\n```", "code block is empty"),
            ("```console\n$ ls", "code block is never closed"),
            ("see [this](gone.md)", "link to gone.md: there is no book/src/gone.md"),
        ];
        for (page, expected) in cases {
            assert_eq!(messages(page), [expected], "page {page:?}");
        }
    }
}
