//! Exercises: one public trait of a stage each, to be implemented.
//!
//! An exercise is a crate in `exercises/`: `TASK.md`, a file to write, checks, hints, and an answer behind the feature `solution`. This is the
//! runner: it lists them, runs the checks of one (once or after every save), gives the next hint, puts the file back, and keeps what was
//! reached in one readable file. What an exercise must have is said in [`defects`] and tested for all of them; that a starter fails
//! every check and the solution passes them is a test in each crate, so no second build is needed to know it.
//!
//! # Invariants
//! 1. A hint is given once more only when all others were given.
//! 2. `reset` touches one file, and keeps the last answer in `target/`.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: reads and writes the learner's files, starts cargo")]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, bail, ensure};
use clap::Subcommand;
use serde::{Deserialize, Serialize};

use crate::lab::texts::say;
use crate::texts::Values;

mod experiments;

/// How often `watch` looks for a saved file.
const POLL: Duration = Duration::from_millis(500);

/// `labs exercises …`.
#[derive(Debug, Subcommand)]
pub enum ExerciseCommand {
    /// Show the exercises and how far you are
    List,
    /// Show the task and run the checks on your answer
    Run {
        /// The exercise
        name: String,
    },
    /// Run the checks whenever you save
    Watch {
        /// The exercise
        name: String,
    },
    /// Give the next hint
    Hint {
        /// The exercise
        name: String,
    },
    /// Put the file back as it was; yours is kept in target/
    Reset {
        /// The exercise
        name: String,
    },
    /// What you reached, as JSON
    Progress,
    /// Make the experiments of the book's chapters ("Your turn") and see that their tests fail; sources are put back
    Experiments {
        /// Only these chapters, by id (s6-names)
        chapters: Vec<String>,
    },
}

/// What a learner reached in one exercise.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reached {
    /// How often the checks ran.
    pub runs: u32,
    /// Hints that were given.
    pub hints: usize,
    /// Whether the checks ever passed.
    pub passed: bool,
}

/// Progress by exercise: the whole file.
pub type Progress = BTreeMap<String, Reached>;

/// The exercises of a repository, and where progress is kept.
#[derive(Debug)]
pub struct Exercises {
    root: PathBuf,
    progress: PathBuf,
}

impl Exercises {
    /// The exercises of the repository that `start` is in.
    ///
    /// # Errors
    /// It is in none.
    pub fn find(start: &Path) -> anyhow::Result<Self> {
        let root = start.ancestors().find(|dir| dir.join("exercises/controller/TASK.md").exists());
        let root = root.with_context(|| say("exercise.no-tree", &[]))?.to_owned();
        Ok(Self { progress: root.join("target/exercises.json"), root })
    }

    /// Names, sorted.
    ///
    /// # Errors
    /// The folder can't be read.
    pub fn names(&self) -> anyhow::Result<Vec<String>> {
        let entries = std::fs::read_dir(self.root.join("exercises"))?.flatten();
        let crates = entries.filter(|entry| entry.path().join("Cargo.toml").exists());
        let mut names: Vec<String> =
            crates.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        Ok(names)
    }

    /// Runs a subcommand: whether it went well (the checks pass), and what to print.
    ///
    /// # Errors
    /// In words, with what to type.
    pub fn run(&self, command: &ExerciseCommand) -> anyhow::Result<(bool, String)> {
        let text = match command {
            ExerciseCommand::Run { name } => return self.check(name),
            ExerciseCommand::Experiments { chapters } => {
                return Ok((experiments::run(&self.root, chapters)?, String::new()));
            }
            ExerciseCommand::List => self.list()?,
            ExerciseCommand::Watch { name } => self.watch(name)?,
            ExerciseCommand::Hint { name } => self.hint(name)?,
            ExerciseCommand::Reset { name } => self.reset(name)?,
            ExerciseCommand::Progress => format!("{}\n", serde_json::to_string_pretty(&self.progress())?),
        };
        Ok((true, text))
    }

    fn list(&self) -> anyhow::Result<String> {
        let progress = self.progress();
        let mut text = String::new();
        for name in self.names()? {
            let task = self.read(&name, "TASK.md")?;
            let reached = progress.get(&name).cloned().unwrap_or_default();
            let state = match (reached.passed, reached.runs) {
                (true, _) => say("exercise.done", &[]),
                (false, 0) => say("exercise.new", &[]),
                (false, _) => say("exercise.begun", &[]),
            };
            let _ = writeln!(text, "{name:<18} {state:<6} {}", title(&task));
        }
        let _ = writeln!(text, "\n{}", say("exercise.list-end", &[]));
        Ok(text)
    }

    fn check(&self, name: &str) -> anyhow::Result<(bool, String)> {
        let task = self.read(name, "TASK.md")?;
        let package = format!("exercise-{name}");
        // The first build takes minutes: cargo says what it does, and the checks are told by their names.
        let named: Values<'_> = &[("name", &name)];
        eprintln!("{}", say("exercise.checking", named));
        let status = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
            .args(["test", "-p", &package, "--features", &format!("{package}/check"), "--test", "check"])
            .current_dir(&self.root)
            .status()
            .context("can't start cargo")?;
        let passed = status.success();
        self.note(name, |reached| {
            reached.runs += 1;
            reached.passed |= passed;
        })?;
        let text = match passed {
            true => format!("\n{}\n", say("exercise.passed", named)),
            false => format!("\n{task}\n{}\n", say("exercise.not-yet", named)),
        };
        Ok((passed, text))
    }

    /// Checks at once and after every save, until the checks pass.
    fn watch(&self, name: &str) -> anyhow::Result<String> {
        let file = self.file(name, "src/answer.rs")?;
        loop {
            let before = modified(&file);
            let (passed, text) = self.check(name)?;
            if passed {
                return Ok(text);
            }
            eprintln!("{text}{}", say("exercise.waiting", &[("file", &file.display())]));
            while modified(&file) == before {
                std::thread::sleep(POLL);
            }
        }
    }

    fn hint(&self, name: &str) -> anyhow::Result<String> {
        let text = self.read(name, "HINTS.md")?;
        let hints = hints(&text);
        ensure!(!hints.is_empty(), say("exercise.no-hints", &[("name", &name)]));
        let given = self.progress().get(name).map_or(0, |reached| reached.hints);
        let at = given % hints.len();
        self.note(name, |reached| reached.hints += 1)?;
        let places: Values<'_> = &[("number", &(at + 1)), ("count", &hints.len()), ("hint", &hints[at])];
        Ok(format!("{}\n", say("exercise.hint", places)))
    }

    fn reset(&self, name: &str) -> anyhow::Result<String> {
        let (answer, starter) = (self.file(name, "src/answer.rs")?, self.read(name, "src/starter.rs")?);
        if std::fs::read_to_string(&answer).is_ok_and(|own| own == starter) {
            return Ok(format!("{}\n", say("exercise.as-it-was", &[("name", &name)])));
        }
        let kept = self.root.join("target").join(format!("{name}-answer.rs"));
        std::fs::create_dir_all(self.root.join("target"))?;
        std::fs::copy(&answer, &kept)?;
        std::fs::write(&answer, starter)?;
        let places: Values<'_> = &[("name", &name), ("file", &kept.display())];
        Ok(format!("{}\n", say("exercise.kept", places)))
    }

    fn file(&self, name: &str, file: &str) -> anyhow::Result<PathBuf> {
        let names = self.names()?;
        if !names.iter().any(|known| known == name) {
            bail!(say("exercise.unknown", &[("name", &name), ("names", &names.join(", "))]));
        }
        Ok(self.root.join("exercises").join(name).join(file))
    }

    fn read(&self, name: &str, file: &str) -> anyhow::Result<String> {
        let path = self.file(name, file)?;
        std::fs::read_to_string(&path).with_context(|| format!("can't read {}", path.display()))
    }

    fn progress(&self) -> Progress {
        let text = std::fs::read(&self.progress).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    }

    fn note(&self, name: &str, change: impl FnOnce(&mut Reached)) -> anyhow::Result<()> {
        let mut progress = self.progress();
        change(progress.entry(name.to_owned()).or_default());
        std::fs::create_dir_all(self.root.join("target"))?;
        std::fs::write(&self.progress, serde_json::to_vec_pretty(&progress)?)?;
        Ok(())
    }
}

fn modified(file: &Path) -> Option<SystemTime> {
    std::fs::metadata(file).and_then(|data| data.modified()).ok()
}

fn title(task: &str) -> &str {
    task.lines().next().unwrap_or_default().trim_start_matches(['#', ' '])
}

fn hints(text: &str) -> Vec<&str> {
    text.lines().filter_map(|line| line.strip_prefix("- ")).collect()
}

/// What a file promises to others: its public items and the traits that it implements, without bodies.
fn promised(text: &str) -> Vec<&str> {
    let lines = text.lines().map(str::trim);
    let items = lines.filter(|line| line.starts_with("pub ") || line.starts_with("impl "));
    items.map(|line| line.trim_end_matches(['{', ' '])).collect()
}

/// What an exercise lacks; `read` gives its files.
#[must_use]
pub fn defects(name: &str, read: impl Fn(&str) -> Option<String>) -> Vec<String> {
    let mut found = Vec::new();
    let text = |file: &str| read(file).unwrap_or_default();
    let mut demand = |holds: bool, what: &str| {
        if !holds {
            found.push(format!("{name}: {what}"));
        }
    };
    demand(text("TASK.md").starts_with("# "), "TASK.md has no title");
    demand(hints(&text("HINTS.md")).len() >= 2, "fewer than two hints");
    demand(text("src/starter.rs").contains("todo!("), "the starter has nothing left to do");
    demand(!text("src/solution.rs").is_empty(), "there is no solution");
    demand(!text("src/solution.rs").contains("todo!("), "the solution has something left to do");
    demand(text("Cargo.toml").contains("solution = [\"check\"]"), "no feature swaps the solution in");
    demand(
        promised(&text("src/starter.rs")) == promised(&text("src/solution.rs")),
        "starter and solution promise different things",
    );
    demand(
        text("tests/check.rs").contains("fn the_starter_fails_every_check("),
        "no check that the starter fails",
    );
    found
}

#[cfg(test)]
mod tests;
