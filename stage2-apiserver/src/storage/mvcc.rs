//! MVCC: which revision of a key was live when.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::storage::Storage::commit`] names a key and what it expects. After: the
//! storage keeps the bytes under the revision that this index gave.
//!
//! Multi-version concurrency control in its smallest form. The index holds no values: for each key, the revisions that
//! wrote it, and for the whole store, the log of which revision wrote which key. A list at revision R picks for each
//! key the newest version that is not newer than R; a watch after R walks the log. Values are kept elsewhere by
//! revision (on disk: [`crate::storage::embedded`], in a map: [`crate::storage::memory`]), so that the logic which must be
//! right is small, pure, and tested against a naive model.
//!
//! The subtle thing is compaction. Forgetting everything before R must keep, for each key, the newest version at R if it is
//! live: nobody may ask for the past any more, but the present is made of it.
//!
//! # Invariants
//! 1. Versions of a key are sorted by revision; two of one key never share one.
//! 2. For every revision `r` with `compacted <= r <= current`, reads at `r` are exact.
//! 3. After compaction at R no key keeps more than one version older than or at R, and that one is live.
//!
//! # In Kubernetes
//! etcd's `server/mvcc/index.go` and `key_index.go`. Left out: generations, several writes in one revision.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use super::{Expect, Revision};

// ANCHOR: mvcc
/// One write of one key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Version {
    /// When.
    pub revision: Revision,
    /// Whether it put a value (`true`) or deleted it.
    pub live: bool,
}

/// The index over all keys and all revisions that are kept.
#[derive(Debug, Default)]
pub struct Mvcc {
    keys: BTreeMap<Arc<str>, Vec<Version>>,
    log: BTreeMap<u64, Arc<str>>,
    current: Revision,
    compacted: Revision,
}
// ANCHOR_END: mvcc

/// A change, as the log tells it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The key.
    pub key: Arc<str>,
    /// The write.
    pub version: Version,
    /// The revision of the live value that it replaced.
    pub previous: Option<Revision>,
}

/// What [`Mvcc::range`] found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Range {
    /// Key and the revision of its value.
    pub found: Vec<(Arc<str>, Revision)>,
    /// How many live keys of the prefix follow.
    pub remaining: u64,
}

impl Mvcc {
    /// Takes up the numbers that a storage wrote down when it last compacted: the newest write may be gone by then.
    pub fn restore(&mut self, current: Revision, compacted: Revision) {
        self.current = self.current.max(current);
        self.compacted = self.compacted.max(compacted);
    }

    /// Revision of the last write.
    pub fn current(&self) -> Revision {
        self.current
    }

    /// Reads before this are refused.
    pub fn compacted(&self) -> Revision {
        self.compacted
    }

    /// The revision of the key's value at a revision.
    pub fn get(&self, key: &str, at: Revision) -> Option<Revision> {
        live_at(self.keys.get(key)?, at)
    }

    /// Whether a write may happen.
    ///
    /// # Errors
    /// The revision of what is there instead (`None`: nothing).
    pub fn check(&self, key: &str, expect: Expect) -> Result<(), Option<Revision>> {
        let there = self.get(key, self.current);
        let holds = match expect {
            Expect::Anything => true,
            Expect::Absent => there.is_none(),
            Expect::At(revision) => there == Some(revision),
        };
        if holds { Ok(()) } else { Err(there) }
    }

    /// Notes a write. Its revision must be above [`Mvcc::current`]; gaps are fine (compaction leaves them).
    pub fn apply(&mut self, key: &str, version: Version) -> Change {
        assert!(version.revision > self.current, "revisions only grow");
        let shared = match self.keys.get_key_value(key) {
            Some((shared, _)) => shared.clone(),
            None => Arc::from(key),
        };
        let versions = self.keys.entry(shared.clone()).or_default();
        let previous = versions.last().filter(|v| v.live).map(|v| v.revision);
        versions.push(version);
        self.log.insert(version.revision.0, shared.clone());
        self.current = self.current.max(version.revision);
        Change { key: shared, version, previous }
    }

    /// The live keys under a prefix at a revision, from `start` on, at most `limit` (0: all).
    pub fn range(&self, prefix: &str, start: Option<&str>, limit: usize, at: Revision) -> Range {
        let from = start.filter(|s| *s > prefix).unwrap_or(prefix);
        let mut range = Range::default();
        for (key, versions) in self.keys.range::<str, _>((Bound::Included(from), Bound::Unbounded)) {
            if !key.starts_with(prefix) {
                break;
            }
            let Some(revision) = live_at(versions, at) else { continue };
            if limit != 0 && range.found.len() == limit {
                range.remaining += 1;
            } else {
                range.found.push((key.clone(), revision));
            }
        }
        range
    }

    /// What changed under a prefix after one revision, up to another, in order.
    pub fn changes(&self, prefix: &str, after: Revision, to: Revision) -> Vec<Change> {
        let span = (Bound::Excluded(after.0), Bound::Included(to.0));
        if after >= to {
            return Vec::new();
        }
        let mut changes = Vec::new();
        for (revision, key) in self.log.range(span).filter(|(_, key)| key.starts_with(prefix)) {
            let versions = self.keys.get(key).map(Vec::as_slice).unwrap_or_default();
            let Ok(i) = versions.binary_search_by_key(revision, |v| v.revision.0) else { continue };
            let previous = i.checked_sub(1).map(|p| versions[p]).filter(|v| v.live).map(|v| v.revision);
            changes.push(Change { key: key.clone(), version: versions[i], previous });
        }
        changes
    }

    /// The last write under a prefix that the log still holds.
    pub fn last_change(&self, prefix: &str) -> Revision {
        let last = self.log.iter().rev().find(|(_, key)| key.starts_with(prefix));
        last.map_or(self.compacted, |(revision, _)| Revision(*revision))
    }

    /// Forgets history before `at`; the answer: the revisions whose values nobody can ask for any more.
    pub fn compact(&mut self, at: Revision) -> Vec<Revision> {
        let at = at.min(self.current);
        if at <= self.compacted {
            return Vec::new();
        }
        self.compacted = at;
        let mut dead = Vec::new();
        // The log up to `at` names every key that can have something to forget (and all that are live).
        let touched: std::collections::BTreeSet<Arc<str>> =
            self.log.range(..=at.0).map(|(_, key)| key.clone()).collect();
        for key in touched {
            let Some(versions) = self.keys.get_mut(&key) else { continue };
            let kept = versions.iter().rposition(|v| v.revision <= at);
            let Some(newest) = kept else { continue };
            let keep_from = if versions[newest].live { newest } else { newest + 1 };
            dead.extend(versions.drain(..keep_from).map(|v| v.revision));
            if versions.is_empty() {
                self.keys.remove(&key);
            }
        }
        for revision in &dead {
            self.log.remove(&revision.0);
        }
        dead.sort();
        dead
    }
}

/// The revision of the value at a revision, from one key's versions.
fn live_at(versions: &[Version], at: Revision) -> Option<Revision> {
    let after = versions.partition_point(|v| v.revision <= at);
    versions[..after].last().filter(|v| v.live).map(|v| v.revision)
}

#[cfg(test)]
mod tests;
