//! Expectations: read your own writes before deciding again.
//!
//! *Step 6 of a pod's journey.* Before: [`crate::workqueue`] handed out a key. After: [`crate::controller`] decides on a world that
//! contains what it did itself.
//!
//! A ReplicaSet controller makes three pods, and a moment later another event brings the same ReplicaSet up
//! again. The watch has not brought the three pods yet; the local copy says "none": it would make three more.
//! So after each decision that wrote something, the runner remembers the revision of each write, and does not
//! ask the controller again until the local copy reflects it.
//!
//! client-go's controllers count the creations and deletions that they expect to see. A count goes wrong when an
//! event is missed; the revision of a write does not, because a list taken after it contains it, too. Deletions have no
//! revision that a client can rely on: there we wait until the copy no longer shows the object as alive.
//!
//! # Invariants
//! 1. A controller never decides on a copy that lacks its own last writes, for at most [`TIMEOUT`].
//! 2. An expectation that is never met (the write was undone at once) delays, and never blocks for ever.
//!
//! # In Kubernetes
//! `pkg/controller/controller_utils.go` (`ControllerExpectations`, 5 minutes too); the way by revisions is that of the "consistency
//! store" of newer releases.

use std::collections::HashMap;
use std::time::Duration;

use crate::indexer::NamespacedName;

/// How long an unmet expectation holds a key back. Shorter: doubles under load; longer: a lost write is repaired later.
pub const TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Something that the local copy must show before the next decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Expected {
    /// The copy of this resource reflects the store up to `revision`.
    Revision {
        /// Plural name: `pods`.
        resource: String,
        /// Revision of our write.
        revision: u64,
    },
    /// The copy shows the object as being deleted, or no longer.
    Deleted {
        /// Plural name: `pods`.
        resource: String,
        /// The object.
        key: NamespacedName,
        /// Its UID.
        uid: String,
    },
}

/// The questions that expectations ask of the local copies.
pub trait Copies {
    /// The newest revision that the copy of this resource reflects; `None`: there is no copy.
    fn revision_of(&self, resource: &str) -> Option<u64>;
    /// Whether the copy shows this object as alive.
    fn shows_alive(&self, resource: &str, key: &NamespacedName, uid: &str) -> bool;
}

struct Pending {
    expected: Vec<Expected>,
    since: Duration,
}

/// What each key of one controller waits for.
#[derive(Default)]
pub struct Expectations {
    pending: HashMap<NamespacedName, Pending>,
}

impl Expectations {
    /// Remembers what was written for a key, at this time.
    pub fn expect(&mut self, key: &NamespacedName, expected: Vec<Expected>, now: Duration) {
        if !expected.is_empty() {
            self.pending.insert(key.clone(), Pending { expected, since: now });
        }
    }

    /// `None`: the key may be decided on. Otherwise how long to wait before asking again (an event usually comes first).
    pub fn wait_for(&mut self, key: &NamespacedName, copies: &dyn Copies, now: Duration) -> Option<Duration> {
        let pending = self.pending.get_mut(key)?;
        let waited = now.saturating_sub(pending.since);
        pending.expected.retain(|expected| match expected {
            Expected::Revision { resource, revision } => {
                copies.revision_of(resource).is_some_and(|seen| seen < *revision)
            }
            Expected::Deleted { resource, key, uid } => copies.shows_alive(resource, key, uid),
        });
        if pending.expected.is_empty() || waited >= TIMEOUT {
            self.pending.remove(key);
            return None;
        }
        Some((waited / 4).clamp(Duration::from_millis(10), Duration::from_secs(1)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Copy(u64, bool);
    impl Copies for Copy {
        fn revision_of(&self, resource: &str) -> Option<u64> {
            (resource == "pods").then_some(self.0)
        }
        fn shows_alive(&self, _: &str, _: &NamespacedName, _: &str) -> bool {
            self.1
        }
    }

    #[test]
    fn a_key_waits_until_the_copy_reflects_its_writes() {
        let key = NamespacedName::new("default", "web");
        let mut expectations = Expectations::default();
        let revision = |resource: &str| Expected::Revision { resource: resource.into(), revision: 7 };
        let deleted = Expected::Deleted { resource: "pods".into(), key: key.clone(), uid: "u".into() };
        expectations.expect(&key, vec![revision("pods"), revision("uncached"), deleted], Duration::ZERO);
        assert!(expectations.wait_for(&key, &Copy(6, true), Duration::ZERO).is_some());
        assert!(expectations.wait_for(&key, &Copy(7, true), Duration::ZERO).is_some());
        assert!(expectations.wait_for(&key, &Copy(7, false), Duration::ZERO).is_none());
    }

    #[test]
    fn an_unmet_expectation_ends_after_five_minutes() {
        let key = NamespacedName::new("default", "web");
        let mut expectations = Expectations::default();
        expectations.expect(
            &key,
            vec![Expected::Revision { resource: "pods".into(), revision: 7 }],
            Duration::ZERO,
        );
        assert!(expectations.wait_for(&key, &Copy(0, false), TIMEOUT - Duration::from_secs(1)).is_some());
        assert!(expectations.wait_for(&key, &Copy(0, false), TIMEOUT).is_none());
    }
}
