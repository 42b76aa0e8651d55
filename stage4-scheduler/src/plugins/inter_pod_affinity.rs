//! InterPodAffinity: near these pods, away from those.
//!
//! "Near" and "away" are measured in domains of a node label: the same host, the same zone. Three rules
//! make the filter: the pod's own affinity, its own anti-affinity, and the anti-affinity of the pods that
//! are *already there*: who doesn't want a neighbour needn't accept one that comes later. Affinity has no
//! such symmetry in the filter, but in the score: a pod that requires (or prefers) neighbours like this one
//! draws it near.
//!
//! All three need counts over the whole cluster: pods that match, by (label, value). They are made once per
//! pod. A pod without any affinity looks only at nodes that host pods with affinity, usually few.
//!
//! The subtle thing: the first pod of a group that wants to be near itself could never start. So if no pod
//! in the cluster matches the terms and the pod matches them itself, any node with the labels will do.
//!
//! # Invariants
//! 1. After placing, no pod's required anti-affinity is violated, in either direction.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/interpodaffinity/{plugin,filtering,scoring}.go`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, PreScore, Status, WhatIf};
use crate::listers::Listers;
use crate::node_info::NodeInfo;
use crate::pod_info::{AffinityTerm, PodInfo};
use crate::snapshot::Snapshot;

mod scoring;

pub(crate) use scoring::weigh;

/// The reason if the pod's affinity isn't met.
pub const ERR_AFFINITY: &str = "node(s) didn't match pod affinity rules";
/// The reason if the pod's anti-affinity is violated.
pub const ERR_ANTI_AFFINITY: &str = "node(s) didn't match pod anti-affinity rules";
/// The reason if another pod's anti-affinity is violated.
pub const ERR_EXISTING_ANTI_AFFINITY: &str = "node(s) didn't satisfy existing pods anti-affinity rules";

/// Places pods by the pods around.
pub struct InterPodAffinity {
    /// How much a *required* affinity of an existing pod counts in the score of its wished neighbours.
    pub hard_pod_affinity_weight: i64,
    /// Don't look at wishes of existing pods if the pod has none.
    pub ignore_preferred_terms_of_existing_pods: bool,
}

impl Default for InterPodAffinity {
    fn default() -> Self {
        InterPodAffinity { hard_pod_affinity_weight: 1, ignore_preferred_terms_of_existing_pods: false }
    }
}

/// Matching pods by topology key and value.
#[derive(Default)]
struct Counts<'a>(HashMap<&'a str, HashMap<&'a str, i64>>);

impl<'a> Counts<'a> {
    fn add(&mut self, key: &'a str, node: &'a NodeInfo) {
        if let Some(value) = node.label(key) {
            *self.0.entry(key).or_default().entry(value).or_default() += 1;
        }
    }

    fn get(&self, key: &str, value: &str) -> i64 {
        self.0.get(key).and_then(|values| values.get(value)).copied().unwrap_or(0)
    }

    fn total(&self) -> i64 {
        self.0.values().flat_map(HashMap::values).sum()
    }
}

struct State<'a> {
    pod: &'a PodInfo,
    listers: &'a Listers,
    near: Counts<'a>,
    near_total: i64,
    apart: Counts<'a>,
    existing: Counts<'a>,
}

/// Is the other pod one that all of the terms mean? False if there are none.
pub(crate) fn matches_all(terms: &[AffinityTerm], other: &PodInfo, listers: &Listers) -> bool {
    !terms.is_empty() && terms.iter().all(|term| term.matches(other, listers))
}

impl<'a> State<'a> {
    fn new(pod: &'a PodInfo, snapshot: &'a Snapshot) -> Self {
        let listers = &*snapshot.listers;
        let mut state = State {
            pod,
            listers,
            near: Counts::default(),
            near_total: 0,
            apart: Counts::default(),
            existing: Counts::default(),
        };
        for node in snapshot.nodes_with_required_anti_affinity() {
            for other in &node.pods_with_required_anti_affinity {
                for term in other.required_anti_affinity.iter().filter(|term| term.matches(pod, listers)) {
                    state.existing.add(&term.topology_key, node);
                }
            }
        }
        if !(pod.required_affinity.is_empty() && pod.required_anti_affinity.is_empty()) {
            for node in snapshot.nodes() {
                for other in &node.pods {
                    state.count(other, node);
                }
            }
            state.near_total = state.near.total();
        }
        state
    }

    fn count(&mut self, other: &PodInfo, node: &'a NodeInfo) {
        if matches_all(&self.pod.required_affinity, other, self.listers) {
            for term in &self.pod.required_affinity {
                self.near.add(&term.topology_key, node);
            }
        }
        for term in &self.pod.required_anti_affinity {
            if term.matches(other, self.listers) {
                self.apart.add(&term.topology_key, node);
            }
        }
    }

    fn affinity_is_met(&self, node: &NodeInfo, what_if: &WhatIf<'_>) -> bool {
        let terms = &self.pod.required_affinity;
        let change = what_if.difference(|other| i64::from(matches_all(terms, other, self.listers)));
        let mut near = true;
        for term in terms {
            let Some(value) = node.label(&term.topology_key) else { return false };
            near &= self.near.get(&term.topology_key, value) + change > 0;
        }
        // No terms, or: the first of a group that wants to be together.
        let nobody = || self.near_total + change * terms.len() as i64 == 0;
        near || (nobody() && matches_all(terms, self.pod, self.listers))
    }

    fn anti_affinity_is_met(&self, node: &NodeInfo, what_if: &WhatIf<'_>) -> bool {
        self.pod.required_anti_affinity.iter().all(|term| {
            let Some(value) = node.label(&term.topology_key) else { return true };
            let change = what_if.difference(|other| i64::from(term.matches(other, self.listers)));
            self.apart.get(&term.topology_key, value) + change <= 0
        })
    }

    fn existing_anti_affinity_is_met(&self, node: &NodeInfo, what_if: &WhatIf<'_>) -> bool {
        let objects = |other: &PodInfo, key: &str| {
            let terms = other.required_anti_affinity.iter();
            terms.filter(|term| term.topology_key == key && term.matches(self.pod, self.listers)).count()
                as i64
        };
        let calm = |key: &str| {
            let Some(value) = node.label(key) else { return true };
            self.existing.get(key, value) + what_if.difference(|other| objects(other, key)) <= 0
        };
        self.existing.0.keys().all(|key| calm(key))
            && what_if
                .added
                .iter()
                .flat_map(|other| &other.required_anti_affinity)
                .all(|term| calm(&term.topology_key))
    }

    // ANCHOR: affinity-filter
    fn check(&self, node: &NodeInfo, what_if: &WhatIf<'_>) -> Status {
        if !self.affinity_is_met(node, what_if) {
            // Removing pods brings no neighbours.
            return Status::unresolvable(ERR_AFFINITY);
        }
        if !self.anti_affinity_is_met(node, what_if) {
            return Status::unschedulable(ERR_ANTI_AFFINITY);
        }
        if !self.existing_anti_affinity_is_met(node, what_if) {
            return Status::unschedulable(ERR_EXISTING_ANTI_AFFINITY);
        }
        Status::success()
    }
    // ANCHOR_END: affinity-filter
}

impl Plugin for InterPodAffinity {
    fn name(&self) -> &'static str {
        "InterPodAffinity"
    }

    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Affinity(self)
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        let state = State::new(pod, snapshot);
        let nothing_asked = pod.required_affinity.is_empty() && pod.required_anti_affinity.is_empty();
        // Nominated pods may have anti-affinity, too.
        if nothing_asked && state.existing.0.is_empty() && !snapshot.nominated_have_affinity() {
            return PreFilter::Skip;
        }
        PreFilter::Run(Box::new(move |node, what_if| state.check(node, what_if)))
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        snapshot: &'a Snapshot,
        _feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        scoring::pre_score(self, pod, snapshot)
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        let terms = || pod.required_affinity.iter().chain(&pod.required_anti_affinity);
        let concerns = |other: &PodInfo| {
            terms().any(|term| term.could_match(other))
                || other.required_anti_affinity.iter().any(|term| term.could_match(pod))
        };
        match event {
            ClusterEvent::AssignedPodAdded(other) => {
                Hint::queue_if(pod.required_affinity.iter().any(|term| term.could_match(other)))
            }
            ClusterEvent::AssignedPodDeleted(other) => Hint::queue_if(concerns(other)),
            ClusterEvent::AssignedPodUpdated { old, new } => {
                Hint::queue_if(old.labels() != new.labels() && (concerns(old) || concerns(new)))
            }
            ClusterEvent::NodeAdded(_) | ClusterEvent::PodUpdated(_) => Hint::Queue,
            ClusterEvent::NodeUpdated { old, new } => Hint::queue_if(old.labels() != new.labels()),
            ClusterEvent::ObjectChanged(kind, _) => Hint::queue_if(*kind == "Namespace"),
            _ => Hint::Skip,
        }
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> Option<String> {
        let listers = &*snapshot.listers;
        let mut shown = Vec::new();
        for term in &pod.required_affinity {
            let Some(value) = node.label(&term.topology_key) else {
                shown.push(format!("no label {}", term.topology_key));
                continue;
            };
            let matching = |other: &&Arc<NodeInfo>| other.pods.iter().any(|p| term.matches(p, listers));
            let domains: std::collections::BTreeSet<&str> = snapshot
                .nodes()
                .iter()
                .filter(matching)
                .filter_map(|n| n.label(&term.topology_key))
                .collect();
            if !domains.contains(value) {
                let domains: Vec<&str> = domains.into_iter().collect();
                let near = if domains.is_empty() { "nowhere".to_owned() } else { domains.join(", ") };
                shown.push(format!("{}={value}: matching pods are in {near}", term.topology_key));
            }
        }
        let same =
            |other: &NodeInfo, key: &str| node.label(key).is_some() && other.label(key) == node.label(key);
        for other in snapshot.nodes() {
            for enemy in &other.pods {
                let mine = pod.required_anti_affinity.iter().filter(|term| term.matches(enemy, listers));
                let its = enemy.required_anti_affinity.iter().filter(|term| term.matches(pod, listers));
                if let Some(term) = mine.chain(its).find(|term| same(other, &term.topology_key)) {
                    shown.push(format!("{} on {} (same {})", enemy.key, other.name, term.topology_key));
                }
            }
        }
        let more = shown.len().saturating_sub(4);
        shown.truncate(4);
        if more > 0 {
            shown.push(format!("and {more} more"));
        }
        Some(shown.join("; "))
    }
}
