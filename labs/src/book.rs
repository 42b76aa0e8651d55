//! The book's own checks: what mdbook is silent about.
//!
//! mdbook copies an unknown anchor, an unclosed one or a missing file into the page as if nothing had happened. A reader
//! would see a hole where the code should be, so our check fails on each of them, on a Rust block that is no include
//! (it would rot), on a link to a page or heading that isn't there, on a test that is named but gone, and on a block without contents.
//! [`chapter`] holds chapters to their template, [`front_matter`] compares what is said about a chapter with the chapter, [`reading`] says how long a page takes, [`appendix`] makes the pages that are collected from module docs, [`console`] takes
//! blocks of commands apart, so that a test can run them.
//!
//! # Invariants
//! 1. Every `{{#include file:anchor}}` names a file below the repository and an anchor that opens and closes in it once.
//! 2. Every block marked `rust` consists of one include.
//! 3. Every relative link leads to a file, and its `#part` to a heading of it.
//! 4. Every `file.rs::test` names a function of that file.
//! 5. A console block is run by a test, or a comment above it says why not; then it shows no output.
//! 6. What is typed stands in console blocks, in a form that the test reads: at the beginning of a line, one line a command.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; mdbook's preprocessor `links` expands includes in the same way.

pub mod appendix;
pub mod chapter;
pub mod console;
pub mod front_matter;
mod headings;
pub mod reading;
#[cfg(test)]
mod tests;

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
    let mut above = "";
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
            (None, Some(info)) => {
                if info.contains("norun") && !above.starts_with(console::REASON) {
                    report(at, format!("no `{} …` above says why this block is not run", console::REASON));
                }
                if line.starts_with(char::is_whitespace) && info.trim_start().starts_with("console") {
                    report(at, "console block is indented: no test would type it".to_owned());
                }
                block = Some((at, info.trim().to_owned(), Vec::new()));
            }
            (Some((start, info, lines)), Some(_)) => {
                if let Some(message) = block_defect(info, lines) {
                    report(*start, message);
                }
                block = None;
            }
            (Some((_, _, lines)), None) => lines.push(line),
            (None, None) => {
                if line.trim_start().starts_with("~~~") {
                    report(at, "fence of tildes: use backticks".to_owned());
                }
                links_of(line)
                    .into_iter()
                    .filter_map(|to| dead(page, text, to, tree))
                    .for_each(|m| report(at, m));
                tests_of(line).filter_map(|test| lost(test, tree)).for_each(|m| report(at, m));
            }
        }
        if !line.trim().is_empty() {
            above = line.trim();
        }
    }
    if let Some((start, ..)) = block {
        report(start, "code block is never closed".to_owned());
    }
    findings
}

/// What is wrong with a link.
fn dead(page: &Path, text: &str, target: &str, tree: &Tree) -> Option<String> {
    let (file, part) = target.split_once('#').unwrap_or((target, ""));
    let path = join(page.parent().unwrap_or(Path::new("")), file);
    let there = if file.is_empty() { Some(text) } else { tree.get(&path).map(String::as_str) };
    match there {
        None => Some(format!("link to {file}: there is no {}", path.display())),
        Some(_) if part.is_empty() => None,
        Some(other) => (!headings::ids(other).iter().any(|id| id == part))
            .then(|| format!("link to {target}: no heading has the id {part}")),
    }
}

/// Tests that a line names: `` `path/to/file.rs::name` ``.
fn tests_of(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('`').skip(1).step_by(2).filter_map(|code| {
        let (file, name) = code.split_once(".rs::")?;
        let word = !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (word && file.contains('/')).then(|| (&code[..file.len() + 3], name))
    })
}

fn lost((file, name): (&str, &str), tree: &Tree) -> Option<String> {
    let Some(text) = tree.get(Path::new(file)) else { return Some(format!("there is no {file}")) };
    (!text.contains(&format!("fn {name}("))).then(|| format!("{file} has no test {name}"))
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
    if matches!(language, "rust" | "rs") && foreign {
        return Some("Rust block is not an include of compiled source".to_owned());
    }
    let commands: Vec<&&str> =
        lines.iter().filter(|line| line.trim_start().starts_with(console::PROMPT)).collect();
    let said = |message: &str| Some(message.to_owned());
    match (language == "console", commands.is_empty()) {
        (true, true) => said("console block has no command"),
        (false, false) => said("commands stand in a block that isn't console: no test would type them"),
        (true, false) if commands.iter().any(|line| !line.starts_with(console::PROMPT)) => {
            said("a command doesn't begin its line: no test would type it")
        }
        (true, false) if commands.iter().any(|line| line.ends_with('\\')) => {
            said("a command goes on in the next line: write it in one")
        }
        (true, false) if info.contains("norun") && commands.len() < lines.len() => {
            said("a block that is not run shows output")
        }
        _ => None,
    }
}

/// Link targets in this repository: `](target)`, `[name]: target`, `href="target"`, `src="target"`.
fn links_of(line: &str) -> Vec<&str> {
    let between = |open: &'static str, close: char| {
        line.match_indices(open)
            .filter_map(move |(at, _)| line[at + open.len()..].split_once(close).map(|(target, _)| target))
    };
    let named =
        line.starts_with('[').then(|| line.split_once("]: ").map(|(_, target)| target.trim())).flatten();
    between("](", ')')
        .chain(between("href=\"", '"'))
        .chain(between("src=\"", '"'))
        .chain(named)
        .filter(|target| !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:"))
        .collect()
}

fn resolve(page: &Path, argument: &str, tree: &Tree) -> Result<(), String> {
    let (file, anchor) = argument.split_once(':').unwrap_or((argument, ""));
    let path = join(page.parent().unwrap_or(Path::new("")), file);
    let Some(text) = tree.get(&path) else {
        return Err(format!("include of {file}: there is no {}", path.display()));
    };
    if path.extension().is_some_and(|extension| extension == "rs") && !compiled(&path, tree) {
        return Err(format!("{} belongs to no module: it is never compiled", path.display()));
    }
    if anchor.is_empty() || anchor.chars().all(|c| c.is_ascii_digit() || c == ':') {
        return Ok(());
    }
    let count = |marker: &str| {
        text.lines().filter(|line| line.trim().ends_with(&format!("{marker}: {anchor}"))).count()
    };
    match (count("ANCHOR"), count("ANCHOR_END")) {
        (1, 1) => match cut(text, anchor) {
            Some(lines) if lines.trim().is_empty() => {
                Err(format!("anchor {anchor} in {} encloses nothing", path.display()))
            }
            _ => Ok(()),
        },
        (0, _) => Err(format!("{} has no anchor {anchor}", path.display())),
        (_, 0) => Err(format!("anchor {anchor} in {} is never closed", path.display())),
        _ => Err(format!("anchor {anchor} stands more than once in {}", path.display())),
    }
}

/// Whether a Rust file is a root of its crate, or a module that its parent names.
fn compiled(path: &Path, tree: &Tree) -> bool {
    let (Some(folder), Some(name)) = (path.parent(), path.file_stem().and_then(|name| name.to_str())) else {
        return false;
    };
    if matches!(name, "lib" | "main") || folder.ends_with("tests") || folder.ends_with("benches") {
        return true;
    }
    let beside = folder.file_name().map(|name| folder.with_file_name(name).with_extension("rs"));
    let parents = [beside, Some(folder.join("lib.rs")), Some(folder.join("main.rs"))];
    let declares = |text: &String| {
        let mut items = text.lines().filter_map(|line| line.trim().split(';').next());
        items.any(|item| item.ends_with(&format!("mod {name}")))
    };
    parents.into_iter().flatten().any(|parent| tree.get(&parent).is_some_and(declares))
}

/// A page with its includes put in, as mdbook would: `read` gives a file's text by its path from the repository.
///
/// An include that can't be put in stays as it is written, so that a reader sees what is missing.
pub fn expand(page: &Path, text: &str, read: &dyn Fn(&Path) -> Option<String>) -> String {
    let mut out = String::with_capacity(text.len() * 2);
    for line in text.lines() {
        let put_in = include_of(line).and_then(|argument| {
            let (file, part) = argument.split_once(':').unwrap_or((argument, ""));
            cut(&read(&join(page.parent().unwrap_or(Path::new("")), file))?, part)
        });
        match put_in {
            Some(included) => out.push_str(included.trim_end()),
            None => out.push_str(line),
        }
        out.push('\n');
    }
    out
}

/// The lines of an anchor, or of a range `3:9`, or all; without the anchors' own lines.
fn cut(text: &str, part: &str) -> Option<String> {
    let marker = |line: &str| line.trim_start_matches(['/', '#', ' ', '\t']).starts_with("ANCHOR");
    let plain = |lines: &mut dyn Iterator<Item = &str>| {
        lines.filter(|line| !marker(line)).map(|line| format!("{line}\n")).collect::<String>()
    };
    if part.is_empty() {
        return Some(plain(&mut text.lines()));
    }
    if part.chars().all(|c| c.is_ascii_digit() || c == ':') {
        let (from, to) = part.split_once(':').unwrap_or((part, part));
        let (from, to) = (from.parse().unwrap_or(1_usize).max(1), to.parse().unwrap_or(usize::MAX));
        return Some(plain(&mut text.lines().take(to).skip(from - 1)));
    }
    let at = |word: &str| {
        let end = format!("{word}: {part}");
        text.lines().position(|line| line.trim().ends_with(&end))
    };
    let (open, close) = (at("ANCHOR")?, at("ANCHOR_END")?);
    Some(plain(&mut text.lines().take(close).skip(open + 1)))
}

/// Joins and resolves `..` by name: the tree is a map, not a disk.
pub(crate) fn join(base: &Path, relative: &str) -> PathBuf {
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
