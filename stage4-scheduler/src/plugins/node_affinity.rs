//! NodeAffinity: nodes by their labels, required and preferred.
//!
//! Required: `nodeSelector` and `requiredDuringScheduling…` must both match. If every term names its nodes
//! (`matchFields: metadata.name`, as DaemonSet pods have it), only those nodes are looked at: with 5,000
//! nodes that is the difference between one check and 5,000.
//!
//! Preferred: the weights of the terms that match, added up.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/nodeaffinity/node_affinity.go`.

use k8s_openapi::api::core::v1 as api;

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, PreScore, Scorer, Status, WhatIf};
use crate::node_info::NodeInfo;
use crate::node_selector::{NodeSelector, NodeSelectorTerm};
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// The reason that users see.
pub const ERR_REASON_POD: &str = "node(s) didn't match Pod's node affinity/selector";
/// The reason for the affinity that the configuration file adds to every pod.
pub const ERR_REASON_ENFORCED: &str = "node(s) didn't match scheduler-enforced node affinity";

/// Refuses nodes that don't match, prefers those that match more.
#[derive(Default)]
pub struct NodeAffinity {
    added_required: Option<NodeSelector>,
    added_preferred: Vec<(i64, NodeSelectorTerm)>,
}

impl NodeAffinity {
    /// With the `addedAffinity` of the configuration file.
    pub fn with_added(affinity: &api::NodeAffinity) -> Self {
        let required = affinity.required_during_scheduling_ignored_during_execution.as_ref();
        let preferred = affinity.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        NodeAffinity {
            added_required: required.map(NodeSelector::parse),
            added_preferred: preferred
                .map(|term| (i64::from(term.weight), NodeSelectorTerm::parse(&term.preference)))
                .collect(),
        }
    }

    fn check(&self, pod: &PodInfo, node: &NodeInfo) -> Status {
        if self.added_required.as_ref().is_some_and(|added| !added.matches(&node.name, node.labels())) {
            return Status::unresolvable(ERR_REASON_ENFORCED);
        }
        if pod.node_affinity.matches(&node.name, node.labels()) {
            Status::success()
        } else {
            Status::unresolvable(ERR_REASON_POD)
        }
    }
}

impl Plugin for NodeAffinity {
    fn name(&self) -> &'static str {
        "NodeAffinity"
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        // Named nodes need no memory: only they are looked at.
        if pod.node_affinity.names().is_some() { Depends::Cluster } else { Depends::Node }
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        if pod.node_affinity.is_empty() && self.added_required.is_none() {
            return PreFilter::Skip;
        }
        let rule = Box::new(move |node: &NodeInfo, _: &WhatIf<'_>| self.check(pod, node));
        match pod.node_affinity.names() {
            // Terms that contradict each other: no node can have two names.
            Some(names) if names.is_empty() => {
                PreFilter::Reject(Status::unresolvable("pod affinity terms conflict"))
            }
            Some(names) => PreFilter::Only(names, rule),
            None => PreFilter::Run(rule),
        }
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
        _feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        if pod.preferred_nodes.is_empty() && self.added_preferred.is_empty() {
            return PreScore::Skip;
        }
        Scorer::proportional(false, move |node| {
            let terms = pod.preferred_nodes.iter().chain(&self.added_preferred);
            terms.filter(|(_, term)| term.matches(&node.name, node.labels())).map(|(weight, _)| weight).sum()
        })
    }

    fn waits_for_bindings(&self) -> bool {
        false
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(node) => Hint::queue_if(self.check(pod, node).is_success()),
            ClusterEvent::NodeUpdated { old, new } => {
                Hint::queue_if(!self.check(pod, old).is_success() && self.check(pod, new).is_success())
            }
            ClusterEvent::PodUpdated(_) => Hint::Queue,
            _ => Hint::Skip,
        }
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> Option<String> {
        let added = self.added_required.as_ref().and_then(|added| added.mismatch(&node.name, node.labels()));
        added.or_else(|| pod.node_affinity.mismatch(&node.name, node.labels()))
    }
}
