//! PLEG: the pod lifecycle event generator.
//!
//! *Step 5 of a pod's journey.* Before: a process ended, or a sandbox died, without anybody asking. After: [`crate::sync_loop`] wakes that pod's
//! worker.
//!
//! Once a second all sandboxes and containers are listed and compared with the list before. The difference is the news. Two
//! list calls cost about a millisecond whatever happens on the node; only pods that changed cost more.
//!
//! # Invariants
//! 1. Equal lists, no events.
//! 2. Everything that appears, changes or vanishes is an event of its pod, exactly once.
//!
//! # In Kubernetes
//! `pkg/kubelet/pleg/generic.go`. Left out: the evented PLEG (containerd 1.6 has no container events), the cache of statuses:
//! a worker asks the runtime itself, so it never acts on an old picture.

use std::collections::{BTreeSet, HashMap};

use crate::cri::{ContainerState, ContainerSummary, PodSandbox, SandboxState};
use crate::runtime_view::labels;

/// Time between two lists. Longer delays restarts; shorter costs idle CPU.
pub const RELIST_PERIOD: std::time::Duration = std::time::Duration::from_secs(1);
/// A list older than this makes the node not ready.
pub const RELIST_THRESHOLD: std::time::Duration = std::time::Duration::from_secs(180);

/// The states at one moment: id → (pod UID, state).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    states: HashMap<String, (String, State)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Running,
    Exited,
    Other,
}

impl Snapshot {
    /// What the runtime listed.
    pub fn new(sandboxes: &[PodSandbox], containers: &[ContainerSummary]) -> Self {
        let mut states = HashMap::with_capacity(sandboxes.len() + containers.len());
        for s in sandboxes {
            let state = if s.state == SandboxState::Ready { State::Running } else { State::Exited };
            states.insert(s.id.clone(), (s.metadata.uid.clone(), state));
        }
        for c in containers {
            let state = match c.state {
                ContainerState::Running => State::Running,
                ContainerState::Exited => State::Exited,
                ContainerState::Created | ContainerState::Unknown => State::Other,
            };
            let uid = c.labels.get(labels::POD_UID).cloned().unwrap_or_default();
            states.insert(c.id.clone(), (uid, state));
        }
        Snapshot { states }
    }

    /// UIDs of all pods that the runtime has anything of.
    pub fn pod_uids(&self) -> BTreeSet<&str> {
        self.states.values().map(|(uid, _)| uid.as_str()).collect()
    }
}

// ANCHOR: pleg-changes
/// The pods whose containers differ between two lists.
pub fn changed_pods(before: &Snapshot, after: &Snapshot) -> BTreeSet<String> {
    let mut changed = BTreeSet::new();
    for (id, (uid, state)) in &after.states {
        if before.states.get(id).map(|(_, s)| s) != Some(state) {
            changed.insert(uid.clone());
        }
    }
    for (id, (uid, _)) in &before.states {
        if !after.states.contains_key(id) {
            changed.insert(uid.clone());
        }
    }
    changed
}
// ANCHOR_END: pleg-changes

#[cfg(test)]
mod tests {
    use super::*;

    fn snapshot(list: &[(&str, &str, State)]) -> Snapshot {
        Snapshot { states: list.iter().map(|(id, uid, s)| ((*id).into(), ((*uid).into(), *s))).collect() }
    }

    #[test]
    fn appearing_changing_and_vanishing_are_news_and_rest_is_not() {
        let before =
            snapshot(&[("1", "a", State::Running), ("2", "b", State::Running), ("3", "c", State::Exited)]);
        let after =
            snapshot(&[("1", "a", State::Running), ("2", "b", State::Exited), ("4", "d", State::Other)]);
        assert_eq!(changed_pods(&before, &after).into_iter().collect::<Vec<_>>(), ["b", "c", "d"]);
        assert!(changed_pods(&after, &after.clone()).is_empty());
    }
}
