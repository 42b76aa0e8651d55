//! Sessions: the lab that is under way, and what was reached so far.
//!
//! Two readable files in the state directory: `lab.json` (the lab under way) and `progress.json` (one entry a lab; what `labs progress`
//! and `labs grade` show). Written as a whole beside the old one and renamed, so that a crash leaves one or the other.
//!
//! # Invariants
//! 1. Progress only grows: a later, worse try never takes a pass away.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.
#![expect(clippy::disallowed_methods, reason = "shell: reads and writes two files")]

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use stage1_kubectl::state_dir::StateDir;

use super::catalog::EvidenceKey;
use super::grade::{Diagnosis, Ruling, Verdict};

/// A lab under way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Session {
    /// The lab's id; not shown to the learner before the end.
    pub lab: String,
    /// What the learner started.
    pub symptom: String,
    /// Its seed.
    pub seed: u64,
    /// When the fault was made, RFC 3339.
    pub broken_at: String,
    /// Where the audit log ended then; what is before it is no matter of this lab.
    #[serde(default)]
    pub audit_from: u64,
    /// The proof of the cause as it stood when the fault was made, so that evidence counts after a repair too.
    pub recorded: Vec<Recorded>,
    /// Hints given.
    #[serde(default)]
    pub hints: Vec<String>,
    /// Submissions that were wrong.
    #[serde(default)]
    pub wrong: u32,
    /// When things were reached, in seconds after `broken_at`.
    #[serde(default)]
    pub times: BTreeMap<String, i64>,
}

/// A value that was there when the fault was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Recorded {
    /// Where it stood.
    pub key: EvidenceKey,
    /// What stood there.
    pub value: String,
}

/// What was reached in one lab.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Reached {
    /// What the learner started.
    pub symptom: String,
    /// Starts.
    pub starts: u32,
    /// Best diagnosis, in points of 100; absent: none was handed in.
    #[serde(default)]
    pub diagnosis: Option<u32>,
    /// Repaired?
    #[serde(default)]
    pub repaired: bool,
    /// Hints of the try that counts.
    #[serde(default)]
    pub hints: usize,
    /// Wrong submissions of the try that counts.
    #[serde(default)]
    pub wrong: u32,
    /// Times of the try that counts, in seconds.
    #[serde(default)]
    pub times: BTreeMap<String, i64>,
}

impl Reached {
    /// Named and repaired: the learner may know which lab it was.
    #[must_use]
    pub fn solved(&self) -> bool {
        self.repaired && self.times.contains_key("cause_named")
    }
}

/// `progress.json`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Who; for the teacher's table.
    #[serde(default)]
    pub learner: String,
    /// By the lab's id.
    #[serde(default)]
    pub labs: BTreeMap<String, Reached>,
}

impl Progress {
    /// A lab was started.
    pub fn started(&mut self, session: &Session) {
        let reached = self.labs.entry(session.lab.clone()).or_default();
        reached.symptom.clone_from(&session.symptom);
        reached.starts += 1;
    }

    /// A diagnosis was graded.
    pub fn diagnosed(&mut self, session: &Session, diagnosis: &Diagnosis) {
        let reached = self.labs.entry(session.lab.clone()).or_default();
        if reached.diagnosis.is_none_or(|best| diagnosis.points > best) {
            reached.diagnosis = Some(diagnosis.points);
            reached.hints = session.hints.len();
            reached.wrong = session.wrong;
        }
        // A right answer counts as one, even if an earlier, half right one had more points.
        if diagnosis.ruling.verdict == Verdict::Pass || reached.diagnosis == Some(diagnosis.points) {
            reached.times.extend(session.times.clone());
        }
    }

    /// A repair was graded.
    pub fn repaired(&mut self, session: &Session, ruling: &Ruling) {
        let reached = self.labs.entry(session.lab.clone()).or_default();
        if ruling.verdict == Verdict::Pass && !reached.repaired {
            reached.repaired = true;
            reached.times.extend(session.times.clone());
        }
    }
}

/// The two files of a state directory.
pub struct Files {
    session: PathBuf,
    progress: PathBuf,
}

impl Files {
    /// Those of a state directory.
    pub fn of(state_dir: &StateDir) -> Self {
        Self { session: state_dir.root().join("lab.json"), progress: state_dir.root().join("progress.json") }
    }

    /// The lab under way.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn session(&self) -> io::Result<Option<Session>> {
        read(&self.session)
    }

    /// Remembers, or forgets, the lab under way.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn set_session(&self, session: Option<&Session>) -> io::Result<()> {
        match session {
            Some(session) => write(&self.session, session),
            None => match std::fs::remove_file(&self.session) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
        }
    }

    /// What was reached so far.
    ///
    /// # Errors
    /// The file can't be read.
    pub fn progress(&self) -> io::Result<Progress> {
        Ok(read(&self.progress)?.unwrap_or_default())
    }

    /// Changes what was reached.
    ///
    /// # Errors
    /// The file can't be read or written.
    pub fn change_progress(&self, change: impl FnOnce(&mut Progress)) -> io::Result<()> {
        let mut progress = self.progress()?;
        change(&mut progress);
        write(&self.progress, &progress)
    }
}

fn read<T: DeserializeOwned>(path: &Path) -> io::Result<Option<T>> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(Some(serde_json::from_slice(&bytes).map_err(|error| named(path, &error))?)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(named(path, &error)),
    }
}

fn write<T: Serialize>(path: &Path, value: &T) -> io::Result<()> {
    let new = path.with_extension("json.new");
    std::fs::write(&new, serde_json::to_vec_pretty(value)?).map_err(|error| named(&new, &error))?;
    std::fs::rename(&new, path).map_err(|error| named(path, &error))
}

fn named(path: &Path, error: &dyn std::fmt::Display) -> io::Error {
    io::Error::other(format!("{}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        Session {
            lab: "4-B".to_owned(),
            symptom: "silent-pending".to_owned(),
            seed: 1,
            broken_at: "2026-01-01T00:00:00Z".to_owned(),
            audit_from: 0,
            recorded: Vec::new(),
            hints: Vec::new(),
            wrong: 0,
            times: BTreeMap::from([("repaired".to_owned(), 90)]),
        }
    }

    fn diagnosis(points: u32) -> Diagnosis {
        let ruling = Ruling { verdict: Verdict::Pass, text: String::new() };
        Diagnosis { ruling, points, evidence: Vec::new() }
    }

    #[test]
    fn a_later_worse_try_takes_nothing_away() {
        let dir = tempfile::tempdir().unwrap();
        let files = Files::of(&StateDir::new(Some(dir.path().to_owned())).unwrap());
        assert_eq!(files.session().unwrap(), None);
        files.set_session(Some(&session())).unwrap();
        assert_eq!(files.session().unwrap(), Some(session()));
        let pass = Ruling { verdict: Verdict::Pass, text: String::new() };
        let fail = Ruling { verdict: Verdict::StillBroken, text: String::new() };
        for (points, ruling) in [(90, &pass), (40, &fail)] {
            files
                .change_progress(|progress| {
                    progress.started(&session());
                    progress.diagnosed(&session(), &diagnosis(points));
                    progress.repaired(&session(), ruling);
                })
                .unwrap();
        }
        let reached = files.progress().unwrap().labs.remove("4-B").unwrap();
        assert_eq!((reached.starts, reached.diagnosis, reached.repaired), (2, Some(90), true));
        assert_eq!(reached.times["repaired"], 90);
        files.set_session(None).unwrap();
        files.set_session(None).unwrap();
        assert_eq!(files.session().unwrap(), None);
    }

    #[test]
    fn a_broken_file_is_named() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("progress.json"), "{").unwrap();
        let files = Files::of(&StateDir::new(Some(dir.path().to_owned())).unwrap());
        assert!(files.progress().unwrap_err().to_string().contains("progress.json: "));
    }
}
