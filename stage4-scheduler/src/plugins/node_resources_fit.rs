//! NodeResourcesFit: does what the pod asks for still fit, and where fits it best?
//!
//! The filter compares the pod's requests with what is left: allocatable minus the sum of the requests of
//! the pods that are there. Not with what is *used*: requests are promises, and a promise kept only when
//! others happen to be idle is none.
//!
//! The score has three strategies. `LeastAllocated` (default) spreads: the emptier the better.
//! `MostAllocated` packs: the fuller the better, so that whole nodes become free.
//! `RequestedToCapacityRatio` follows a curve that the configuration file draws.
//!
//! The subtle thing: for scoring, and only there, a container without requests counts as 0.1 CPU and
//! 200 MiB, or pods without requests would all go to one node.
//!
//! # Invariants
//! 1. A pod that asks for nothing is refused only for the number of pods.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/noderesources/{fit,least_allocated,most_allocated,requested_to_capacity_ratio}.go`.

use std::borrow::Cow;

use crate::framework::{
    ClusterEvent, Code, Depends, Hint, MAX_NODE_SCORE, Plugin, PreFilter, PreScore, Scorer, Status,
};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::resource::Resource;
use crate::snapshot::Snapshot;

#[cfg(test)]
mod tests;

/// How nodes are graded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ScoringStrategy {
    /// The emptier the better.
    LeastAllocated,
    /// The fuller the better.
    MostAllocated,
    /// Points of a curve: utilisation in percent, score in 0..=10; straight lines in between.
    RequestedToCapacityRatio(Vec<(i64, i64)>),
}

/// Refuses nodes where the pod doesn't fit, grades the others by how full they would be.
pub struct NodeResourcesFit {
    /// How.
    pub strategy: ScoringStrategy,
    /// Which resources count, with their weights.
    pub resources: Vec<(String, i64)>,
    /// Extended resources that somebody else looks after.
    pub ignored_resources: Vec<String>,
    /// Prefixes (before the `/`) of such resources.
    pub ignored_resource_groups: Vec<String>,
}

impl Default for NodeResourcesFit {
    fn default() -> Self {
        NodeResourcesFit {
            strategy: ScoringStrategy::LeastAllocated,
            resources: vec![("cpu".to_owned(), 1), ("memory".to_owned(), 1)],
            ignored_resources: Vec::new(),
            ignored_resource_groups: Vec::new(),
        }
    }
}

// ANCHOR: fits-request
/// What is missing on the node for the requests; empty if they fit.
pub fn insufficient(
    wanted: &Resource,
    node: &NodeInfo,
    ignored: impl Fn(&str) -> bool,
) -> Vec<Cow<'static, str>> {
    let (has, used) = (node.allocatable(), &node.requested);
    let mut missing: Vec<Cow<'static, str>> = Vec::new();
    if node.pods.len() as i64 + 1 > has.allowed_pods {
        missing.push("Too many pods".into());
    }
    if wanted.is_zero() {
        return missing;
    }
    let lacks = |wanted: i64, has: i64, used: i64| wanted > 0 && wanted > has - used;
    if lacks(wanted.cpu_millis, has.cpu_millis, used.cpu_millis) {
        missing.push("Insufficient cpu".into());
    }
    if lacks(wanted.memory_bytes, has.memory_bytes, used.memory_bytes) {
        missing.push("Insufficient memory".into());
    }
    if lacks(wanted.ephemeral_storage_bytes, has.ephemeral_storage_bytes, used.ephemeral_storage_bytes) {
        missing.push("Insufficient ephemeral-storage".into());
    }
    for (name, amount) in &wanted.scalar {
        if !ignored(name) && lacks(*amount, has.get(name), used.get(name)) {
            missing.push(format!("Insufficient {name}").into());
        }
    }
    missing
}
// ANCHOR_END: fits-request

impl NodeResourcesFit {
    fn ignores(&self, resource: &str) -> bool {
        // Only extended resources can be ignored; they have a domain.
        let Some((group, _)) = resource.split_once('/') else { return false };
        self.ignored_resources.iter().any(|name| name == resource)
            || self.ignored_resource_groups.iter().any(|name| name == group)
    }

    fn check(&self, pod: &PodInfo, node: &NodeInfo) -> Status {
        let reasons = insufficient(&pod.requests, node, |name| self.ignores(name));
        if reasons.is_empty() {
            Status::success()
        } else {
            Status { code: Code::Unschedulable, reasons, plugin: "" }
        }
    }

    fn score(&self, pod: &PodInfo, node: &NodeInfo) -> i64 {
        let (mut sum, mut weights) = (0, 0);
        for (name, weight) in &self.resources {
            let (used, wanted) = match name.as_str() {
                "cpu" | "memory" => (node.non_zero_requested.get(name), pod.non_zero_requests.get(name)),
                other => (node.requested.get(other), pod.requests.get(other)),
            };
            let has = node.allocatable().get(name);
            let extended = !matches!(name.as_str(), "cpu" | "memory" | "ephemeral-storage");
            // A resource that the node hasn't, or that the pod doesn't want, says nothing.
            if has == 0 || (extended && wanted == 0) {
                continue;
            }
            let grade = self.strategy.grade(used + wanted, has);
            if matches!(self.strategy, ScoringStrategy::RequestedToCapacityRatio(_)) && grade <= 0 {
                continue;
            }
            sum += grade * weight;
            weights += weight;
        }
        match (&self.strategy, weights) {
            (_, 0) => 0,
            (ScoringStrategy::RequestedToCapacityRatio(_), _) => (sum as f64 / weights as f64).round() as i64,
            _ => sum / weights,
        }
    }
}

impl ScoringStrategy {
    /// The grade of one resource, 0..=100, if `requested` of `capacity` are taken.
    pub fn grade(&self, requested: i64, capacity: i64) -> i64 {
        match self {
            ScoringStrategy::LeastAllocated if requested > capacity => 0,
            ScoringStrategy::LeastAllocated => (capacity - requested) * MAX_NODE_SCORE / capacity,
            // Pods without requests can make the sum larger than the node.
            ScoringStrategy::MostAllocated => requested.min(capacity) * MAX_NODE_SCORE / capacity,
            ScoringStrategy::RequestedToCapacityRatio(shape) => {
                let utilization = if requested > capacity { 100 } else { requested * 100 / capacity };
                broken_line(shape, utilization)
            }
        }
    }
}

/// An amount as people write it.
fn shown(resource: &str, amount: i64) -> String {
    const BINARY: [(i64, &str); 3] = [(1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    match resource {
        "cpu" if amount % 1000 == 0 => (amount / 1000).to_string(),
        "cpu" => format!("{amount}m"),
        "memory" | "ephemeral-storage" => {
            let unit = BINARY.iter().find(|(size, _)| amount != 0 && amount % size == 0);
            unit.map_or_else(|| amount.to_string(), |(size, name)| format!("{}{name}", amount / size))
        }
        _ => amount.to_string(),
    }
}

/// The value of the curve at `x`, brought from 0..=10 to 0..=100; flat before the first and after the last point.
fn broken_line(shape: &[(i64, i64)], x: i64) -> i64 {
    let mut previous: Option<(i64, i64)> = None;
    for (at, value) in shape.iter().map(|(at, value)| (*at, value * (MAX_NODE_SCORE / 10))) {
        if x <= at {
            return match previous {
                None => value,
                Some((before, from)) => from + (value - from) * (x - before) / (at - before),
            };
        }
        previous = Some((at, value));
    }
    previous.map_or(0, |(_, value)| value)
}

impl Plugin for NodeResourcesFit {
    fn name(&self) -> &'static str {
        "NodeResourcesFit"
    }

    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Node
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        PreFilter::Run(Box::new(move |node, _| self.check(pod, node)))
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
        _feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        Scorer::plain(move |node| self.score(pod, node))
    }

    fn waits_for_bindings(&self) -> bool {
        false
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        let shares = |a: &Resource, b: &Resource| {
            (a.cpu_millis > 0 && b.cpu_millis > 0)
                || (a.memory_bytes > 0 && b.memory_bytes > 0)
                || (a.ephemeral_storage_bytes > 0 && b.ephemeral_storage_bytes > 0)
                || a.scalar.keys().any(|name| b.scalar.contains_key(name))
        };
        match event {
            // An end frees a place among the node's pods in any case.
            ClusterEvent::AssignedPodDeleted(_) | ClusterEvent::PodUpdated(_) => Hint::Queue,
            ClusterEvent::AssignedPodUpdated { old, new } => {
                Hint::queue_if(old.requests != new.requests && shares(&old.requests, &pod.requests))
            }
            ClusterEvent::NodeAdded(node) => {
                // With pods on it, it may be full only for now: those have their own events.
                let mut empty = NodeInfo::new(node.name.clone());
                empty.object = node.object.clone();
                Hint::queue_if(self.check(pod, &empty).is_success())
            }
            ClusterEvent::NodeUpdated { old, new } => {
                Hint::queue_if(old.allocatable() != new.allocatable() && self.check(pod, new).is_success())
            }
            _ => Hint::Skip,
        }
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> Option<String> {
        let pods = node.pods.len();
        let missing = insufficient(&pod.requests, node, |name| self.ignores(name));
        let numbers = missing.iter().map(|reason| {
            let Some(name) = reason.strip_prefix("Insufficient ") else {
                return format!("{pods} pod(s) of {}", node.allocatable().allowed_pods);
            };
            let (has, used) = (node.allocatable().get(name), node.requested.get(name));
            let [wants, free, has, used] =
                [pod.requests.get(name), has - used, has, used].map(|amount| shown(name, amount));
            format!("{name}: the pod requests {wants}, {free} of {has} are free, {used} are requested by {pods} pod(s)")
        });
        Some(numbers.collect::<Vec<_>>().join("; "))
    }
}
