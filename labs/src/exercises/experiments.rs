//! Experiments: the change of a chapter's *Your turn* is made, its command is typed, and its tests must fail.
//!
//! "This test goes red" is a promise about a change that nobody has made. So it can be kept by a machine: a chapter's file says what the
//! change is, the page says what to type, and here both are done in the reader's own tree, one chapter after the other.
//!
//! # Invariants
//! 1. The source is afterwards as it was, whatever cargo says, and after Ctrl-C or SIGTERM.
//! 2. What the reader wrote is never overwritten: a source with changes that are not committed is left alone, and so is one that was edited
//!    while the experiment ran.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: changes sources for a moment, starts cargo")]

use std::collections::BTreeSet;
use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail, ensure};
use stage1_kubectl::signals::shutdown;
use tokio::process::Command;

use crate::book::console::reading_order;
use crate::book::front_matter::{self, Change, FrontMatter};
use crate::lab::texts::say;

/// A source that is put back.
struct Borrowed {
    path: PathBuf,
    text: String,
    changed: String,
}

impl Borrowed {
    /// Writes the change.
    fn change(path: PathBuf, text: String, changed: String) -> anyhow::Result<Self> {
        std::fs::write(&path, &changed).with_context(|| format!("can't write {}", path.display()))?;
        Ok(Borrowed { path, text, changed })
    }
}

impl Drop for Borrowed {
    fn drop(&mut self) {
        let file = self.path.display();
        if std::fs::read_to_string(&self.path).is_ok_and(|now| now != self.changed) {
            tracing::error!(%file, "The source was edited meanwhile and is not put back; the experiment's change is still in it");
        } else if let Err(error) = std::fs::write(&self.path, &self.text) {
            tracing::error!(%error, %file, "Cannot put the source back");
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
    let mut known = Vec::new();
    let mut chosen = Vec::new();
    for page in reading_order(&read(&root.join("book/src/SUMMARY.md"))?) {
        let page = root.join("book/src").join(page);
        let Ok(matter) = std::fs::read_to_string(front_matter::beside(&page)) else { continue };
        let matter = front_matter::parse(&matter).map_err(anyhow::Error::msg)?;
        if matter.task.change.is_empty() {
            continue;
        }
        known.push(matter.id.clone());
        if only.is_empty() || only.contains(&matter.id) {
            chosen.push((page, matter));
        }
    }
    if let Some(unknown) = only.iter().find(|id| !known.contains(*id)) {
        bail!("no chapter {unknown:?} has an experiment; those that have: {}", known.join(", "));
    }
    // One for all: what comes between two experiments counts, too.
    let mut stopping = Box::pin(shutdown());
    for (page, matter) in chosen {
        let green = runtime.block_on(make(root, &matter, &read(&page)?, &mut stopping))?;
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
async fn make(
    root: &Path,
    matter: &FrontMatter,
    page: &str,
    stopping: &mut (impl Future<Output = ()> + Unpin),
) -> anyhow::Result<Vec<String>> {
    let file = matter.task.files_to_edit.first().context("the task names no file")?;
    let path = root.join(file);
    let text = read(&path)?;
    let changed = changed(&text, &matter.task.change).with_context(|| format!("{}: {file}", matter.id))?;
    ensure!(
        !has_changes(root, file).await,
        "{}: {file} has changes that are not committed; commit or stash them first",
        matter.id
    );
    let command = command(page).with_context(|| format!("{}: the page says no cargo test", matter.id))?;
    let borrowed = Borrowed::change(path, text, changed)?;
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    // A failure that is wanted is no case to be remembered.
    cargo.args(command).current_dir(root).env("PROPTEST_DISABLE_FAILURE_PERSISTENCE", "1").kill_on_drop(true);
    let output = tokio::select! {
        output = cargo.output() => output,
        () = stopping => bail!("{}: interrupted", matter.id),
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

/// The text with all changes made.
fn changed(text: &str, changes: &[Change]) -> anyhow::Result<String> {
    changes.iter().try_fold(text.to_owned(), |text, change| {
        let times = text.matches(&change.from).count();
        ensure!(times == 1, "what is to be changed stands there {times} times, not once: {:?}", change.from);
        Ok(text.replacen(&change.from, &change.to, 1))
    })
}

/// Whether git knows of changes of a file that are in no commit; without git, or outside of a repository, it can't be known.
async fn has_changes(root: &Path, file: &str) -> bool {
    let status = Command::new("git").args(["status", "--porcelain", "--", file]).current_dir(root).output();
    status.await.is_ok_and(|output| output.status.success() && !output.stdout.is_empty())
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
        let both = changed("up down", &[change("up", "down"), change(" down", " up")]);
        assert_eq!(both.unwrap(), "down up");
        for (text, times) in [("up up", 2), ("down", 0)] {
            let refused = changed(text, &[change("up", "x")]).unwrap_err().to_string();
            assert!(refused.contains(&format!("{times} times")), "{refused}");
        }
    }

    #[test]
    fn a_chapter_that_nobody_knows_is_a_mistake() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let refused = run(root, &["s9-nothing".to_owned()]).unwrap_err().to_string();
        assert!(refused.starts_with("no chapter \"s9-nothing\" has an experiment"), "{refused}");
    }

    #[tokio::test]
    async fn a_readers_own_changes_are_seen() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("a.rs"), "mine").unwrap();
        assert!(!has_changes(dir.path(), "a.rs").await, "there is no repository");
        let git = |arguments: &[&str]| {
            let mut git = std::process::Command::new("git");
            git.args(["-c", "user.name=a", "-c", "user.email=a@example.com"]).args(arguments);
            assert!(git.current_dir(dir.path()).output().unwrap().status.success(), "git {arguments:?}");
        };
        git(&["init"]);
        assert!(has_changes(dir.path(), "a.rs").await, "it is in no commit");
        git(&["add", "a.rs"]);
        git(&["commit", "-m", "a"]);
        assert!(!has_changes(dir.path(), "a.rs").await);
        std::fs::write(dir.path().join("a.rs"), "changed").unwrap();
        assert!(has_changes(dir.path(), "a.rs").await);
    }

    #[test]
    fn a_source_is_put_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("a.rs");
        let borrow = || Borrowed::change(path.clone(), "mine".to_owned(), "changed".to_owned()).unwrap();
        let borrowed = borrow();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "changed");
        drop(borrowed);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "mine");
        let borrowed = borrow();
        std::fs::write(&path, "edited").unwrap();
        drop(borrowed);
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "edited", "the reader's work stays");
    }
}
