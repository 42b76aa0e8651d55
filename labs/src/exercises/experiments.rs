//! Experiments: the change of a chapter's *Your turn* is made, its command is typed, and its tests must fail.
//!
//! "This test goes red" is a promise about a change that nobody has made. So it can be kept by a machine: a chapter's file says what the
//! change is, the page says what to type, and here both are done in the reader's own tree, one chapter after the other.
//!
//! # Invariants
//! 1. The source is afterwards as it was, whatever cargo says, and after Ctrl-C.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: changes sources for a moment, starts cargo")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use tokio::process::Command;

use crate::book::console::reading_order;
use crate::book::front_matter::{self, Change, FrontMatter};
use crate::lab::texts::say;

/// A source that is put back.
struct Borrowed {
    path: PathBuf,
    text: String,
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        if let Err(error) = std::fs::write(&self.path, &self.text) {
            tracing::error!(%error, file = %self.path.display(), "Cannot put the source back");
        }
    }
}

/// Makes the experiments of a repository, or those of some chapters, and prints how each went: whether all went as the book says.
///
/// # Errors
/// A file can't be read or written, or cargo can't be started.
pub(super) fn run(root: &Path, only: &[String]) -> anyhow::Result<bool> {
    let runtime = tokio::runtime::Runtime::new()?;
    let mut well = true;
    for page in reading_order(&read(&root.join("book/src/SUMMARY.md"))?) {
        let page = root.join("book/src").join(page);
        let Ok(matter) = std::fs::read_to_string(front_matter::beside(&page)) else { continue };
        let matter = front_matter::parse(&matter).map_err(anyhow::Error::msg)?;
        let wanted = only.is_empty() || only.contains(&matter.id);
        if matter.task.change.is_empty() || !wanted {
            continue;
        }
        let green = runtime.block_on(make(root, &matter, &read(&page)?))?;
        well &= green.is_empty();
        let (key, tests) = match green.is_empty() {
            true => ("experiment.red", &matter.task.expected_red),
            false => ("experiment.green", &green),
        };
        let line = say(key, &[("chapter", &matter.id), ("tests", &tests.join(", "))]);
        // At once: each takes a build.
        let _ = writeln!(std::io::stdout(), "{line}");
    }
    Ok(well)
}

/// Makes one; which of the tests that should fail don't.
async fn make(root: &Path, matter: &FrontMatter, page: &str) -> anyhow::Result<Vec<String>> {
    let file = matter.task.files_to_edit.first().context("the task names no file")?;
    let path = root.join(file);
    let text = read(&path)?;
    let changed = changed(&text, &matter.task.change);
    let command = command(page).with_context(|| format!("{}: the page says no cargo test", matter.id))?;
    let borrowed = Borrowed { path, text };
    std::fs::write(&borrowed.path, changed).with_context(|| file.clone())?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // A failure that is wanted is no case to be remembered.
    cargo.args(command).current_dir(root).env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").kill_on_drop(true);
    let output = tokio::select! {
        output = cargo.output() => output,
        _ = tokio::signal::ctrl_c() => bail!("{}: interrupted", matter.id),
    };
    drop(borrowed);
    let output = output.context("can't start cargo")?;
    let said = String::from_utf8_lossy(&output.stdout);
    ensure!(
        said.contains("test result:"),
        "{}: nothing was tested\n{}",
        matter.id,
        String::from_utf8_lossy(&output.stderr)
    );
    let red = failed(&said);
    Ok(matter.task.expected_red.iter().filter(|test| !red.contains(test.as_str())).cloned().collect())
}

fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("can't read {}", path.display()))
}

fn changed(text: &str, changes: &[Change]) -> String {
    changes.iter().fold(text.to_owned(), |text, change| text.replacen(&change.from, &change.to, 1))
}

/// What stands behind `cargo` in the page's command.
fn command(page: &str) -> Option<Vec<&str>> {
    let (_, part) = page.split_once("\n## Your turn\n")?;
    let typed = part.split('`').find(|code| code.starts_with("cargo test "))?;
    Some(typed.split(' ').skip(1).collect())
}

/// Names of the tests that failed, without their modules.
fn failed(output: &str) -> BTreeSet<&str> {
    let lines = output.lines().filter_map(|line| line.strip_prefix("test ")?.strip_suffix(" ... FAILED"));
    lines.map(|test| test.rsplit("::").next().unwrap_or(test)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tests_that_failed_are_read_from_what_cargo_prints() {
        let output = "running 3 tests\ntest a::b::one ... ok\ntest a::two ... FAILED\ntest three ... FAILED\n\ntest result: FAILED. 1 passed\n";
        assert_eq!(failed(output), BTreeSet::from(["three", "two"]));
    }

    #[test]
    fn the_command_is_the_pages_own_and_changes_are_made_once_each() {
        let page = "# A\n`cargo test no`\n## Your turn\nrun `cargo test -p a --lib b`: red.\n";
        assert_eq!(command(page), Some(vec!["test", "-p", "a", "--lib", "b"]));
        assert_eq!(command("# A\n`cargo test no`\n"), None);
        let change = |from: &str, to: &str| Change { from: from.to_owned(), to: to.to_owned() };
        assert_eq!(changed("up down", &[change("up", "down"), change(" down", " up")]), "down up");
    }

    #[test]
    fn a_source_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.rs");
        let borrowed = Borrowed { path: path.clone(), text: "mine".to_owned() };
        std::fs::write(&path, "changed").unwrap();
        drop(borrowed);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
    }
}
