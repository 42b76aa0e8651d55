//! Node to status: who refused which node, without saying the same thing five thousand times.
//!
//! *Step 11 of a pod's journey through this stage.* Before: [`crate::schedule_pod`] asked about every node.
//! After: [`crate::fit_error`] counts the reasons, [`crate::plugins::default_preemption`] looks for nodes
//! where an eviction could help.
//!
//! A pod that fits nowhere has an answer for each node, but only a handful of *different* answers: one for
//! each combination of reasons. So an answer is kept once, and a node is two small numbers: its position in
//! the snapshot, and which answer it got. The nodes' names are the snapshot's own list, shared. With that a
//! refusal by 5,000 nodes costs 40 kB and no allocation per node.
//!
//! # Invariants
//! 1. Answers come in the order in which the nodes were asked.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/types.go` (`NodeToStatus`), a map from name to a pointer.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::framework::Status;

/// Number of a status among the different ones.
pub type Kind = u16;

/// Refused nodes with the answers that they got.
#[derive(Clone, Debug, Default)]
pub struct NodeToStatus {
    names: Arc<[Arc<str>]>,
    kinds: Vec<Status>,
    refused: Vec<(u32, Kind)>,
}

impl NodeToStatus {
    /// No node refused yet; `names` are the nodes by position.
    pub fn new(names: Arc<[Arc<str>]>) -> Self {
        NodeToStatus { names, kinds: Vec::new(), refused: Vec::new() }
    }

    /// All at once: the different answers, and which node got which.
    pub fn of(names: Arc<[Arc<str>]>, kinds: Vec<Status>, refused: Vec<(u32, Kind)>) -> Self {
        NodeToStatus { names, kinds, refused }
    }

    /// The node at this position was refused.
    pub fn push(&mut self, at: usize, status: Status) {
        let kind = kind_of(&mut self.kinds, status);
        self.refused.push((u32::try_from(at).expect("a position in a list of nodes"), kind));
    }

    /// Number of refused nodes.
    pub fn len(&self) -> usize {
        self.refused.len()
    }

    /// True if no node was refused.
    pub fn is_empty(&self) -> bool {
        self.refused.is_empty()
    }

    /// Every refused node and its answer.
    pub fn iter(&self) -> impl Iterator<Item = (&Arc<str>, &Status)> {
        self.positions().map(|(at, status)| (&self.names[at], status))
    }

    /// The same, by position.
    pub fn positions(&self) -> impl Iterator<Item = (usize, &Status)> {
        self.refused.iter().map(|(at, kind)| (*at as usize, &self.kinds[usize::from(*kind)]))
    }

    /// The different answers with the number of nodes that got each.
    pub fn kinds(&self) -> Vec<(&Status, usize)> {
        let mut counts = vec![0; self.kinds.len()];
        for (_, kind) in &self.refused {
            counts[usize::from(*kind)] += 1;
        }
        self.kinds.iter().zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    /// Number of nodes by reason.
    pub fn histogram(&self) -> BTreeMap<&str, usize> {
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for (status, count) in self.kinds() {
            for reason in &status.reasons {
                *reasons.entry(reason.as_ref()).or_default() += count;
            }
        }
        reasons
    }
}

/// The number of a status among the different ones; new ones are added.
pub fn kind_of(kinds: &mut Vec<Status>, status: Status) -> Kind {
    let known = kinds.iter().position(|kind| *kind == status);
    let at = known.unwrap_or_else(|| {
        kinds.push(status);
        kinds.len() - 1
    });
    Kind::try_from(at).expect("reasons are combinations of a few texts")
}

impl FromIterator<(Arc<str>, Status)> for NodeToStatus {
    fn from_iter<I: IntoIterator<Item = (Arc<str>, Status)>>(refusals: I) -> Self {
        let (names, statuses): (Vec<_>, Vec<_>) = refusals.into_iter().unzip();
        let mut made = NodeToStatus::new(names.into());
        statuses.into_iter().enumerate().for_each(|(at, status)| made.push(at, status));
        made
    }
}
