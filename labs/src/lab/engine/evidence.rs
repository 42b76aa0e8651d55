//! Proof: what stood where a learner points, and the API server's audit log.
//!
//! A repair wipes its own traces: the wrong flag is gone, the quota is large. So the proof of the cause is written down when
//! the fault is made, and evidence counts if it is there now or was there then.
//!
//! # Invariants
//! 1. A guard that can't be looked at is no guard that held: a log that can't be read is an error.
//!
//! # In Kubernetes
//! `audit.k8s.io/v1`, a line an event.
#![expect(clippy::disallowed_methods, reason = "shell: reads the audit log")]

use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::PathBuf;

use anyhow::{Context as _, ensure};
use stage1_kubectl::state_dir::StateDir;

use crate::lab::answer::Evidence;
use crate::lab::catalog::Lab;
use crate::lab::grade::Looked;
use crate::lab::real_world::RealWorld;
use crate::lab::session::{Recorded, Session};
use crate::lab::texts::say;
use crate::lab::world::{World as _, values};

/// What a lab's time may add to the audit log at most.
const MAX_AUDIT_BYTES: u64 = 256 << 20;

/// The proof of the cause as it stands now.
pub(super) fn record(lab: &Lab, world: &RealWorld) -> Vec<Recorded> {
    let value = |subject: &str, path: &str| {
        Some(values(&world.subject(subject).ok()??, path)).filter(|value| !value.is_empty())
    };
    lab.truth
        .evidence
        .iter()
        .filter_map(|key| Some(Recorded { value: value(&key.subject, &key.path)?, key: key.clone() }))
        .collect()
}

/// What stands, or stood, where a piece of evidence points.
pub(super) fn look_up(evidence: &Evidence, world: &RealWorld, session: &Session) -> Looked {
    let now = world.subject(&evidence.subject).ok().flatten().map(|value| values(&value, &evidence.path));
    let then = session
        .recorded
        .iter()
        .filter(|recorded| {
            recorded.key.path == evidence.path && recorded.key.subject.eq_ignore_ascii_case(&evidence.subject)
        })
        .map(|recorded| recorded.value.clone());
    let found = now.into_iter().chain(then).filter(|value| !value.is_empty()).collect();
    Looked { evidence: evidence.clone(), found }
}

fn audit_file(state_dir: &StateDir) -> PathBuf {
    state_dir.logs().join("audit.log")
}

/// Where the audit log ends now.
pub(super) fn audit_length(state_dir: &StateDir) -> u64 {
    std::fs::metadata(audit_file(state_dir)).map_or(0, |file| file.len())
}

/// The audit log from a place on. A guard that can't be looked at is no guard that held: an error.
pub(super) fn audit_log(state_dir: &StateDir, from: u64) -> anyhow::Result<String> {
    let path = audit_file(state_dir);
    let read = || -> anyhow::Result<Vec<u8>> {
        let mut file = std::fs::File::open(&path)?;
        let length = file.metadata()?.len();
        ensure!(length >= from, say("audit.rotated", &[]));
        let long = || say("audit.too-long", &[("bytes", &MAX_AUDIT_BYTES)]);
        ensure!(length - from <= MAX_AUDIT_BYTES, long());
        file.seek(SeekFrom::Start(from))?;
        let mut bytes = Vec::new();
        file.take(MAX_AUDIT_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().with_context(|| path.display().to_string())?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_that_was_rotated_since_is_no_guard_that_held() {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = StateDir::new(Some(dir.path().to_owned())).unwrap();
        std::fs::create_dir_all(state_dir.logs()).unwrap();
        std::fs::write(audit_file(&state_dir), "before\nafter\n").unwrap();
        assert_eq!(audit_log(&state_dir, 7).unwrap(), "after\n");
        std::fs::write(audit_file(&state_dir), "new\n").unwrap();
        assert!(format!("{:#}", audit_log(&state_dir, 7).unwrap_err()).contains("rotated"));
    }
}
