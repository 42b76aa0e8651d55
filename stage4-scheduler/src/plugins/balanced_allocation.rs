//! NodeResourcesBalancedAllocation: use up all resources at the same pace.
//!
//! A node with all CPU taken and half of its memory free wastes that half. The score is 100 minus the
//! standard deviation of the used shares: 100 when CPU and memory are used to the same degree.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`.

use crate::framework::{Depends, MAX_NODE_SCORE, Plugin, PreScore, Scorer};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::resource::Resource;
use crate::snapshot::Snapshot;

/// Prefers nodes whose resources would be used to the same degree.
pub struct NodeResourcesBalancedAllocation {
    /// Which resources.
    pub resources: Vec<String>,
}

impl Default for NodeResourcesBalancedAllocation {
    fn default() -> Self {
        NodeResourcesBalancedAllocation { resources: vec!["cpu".to_owned(), "memory".to_owned()] }
    }
}

/// Only CPU and memory: no map is looked into, no list is made.
fn deviation_of_two(wanted: &Resource, node: &NodeInfo) -> f64 {
    let (has, used) = (node.allocatable(), &node.requested);
    let cpu = share(used.cpu_millis, wanted.cpu_millis, has.cpu_millis);
    let memory = share(used.memory_bytes, wanted.memory_bytes, has.memory_bytes);
    match (cpu, memory) {
        (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
        _ => 0.0,
    }
}

/// The used share of a resource that the node has, at most 1.
fn share(used: i64, wanted: i64, of: i64) -> Option<f64> {
    (of > 0).then(|| ((used + wanted) as f64 / of as f64).min(1.0))
}

/// The standard deviation of the used shares; two of them lie at half their distance.
fn deviation(resources: &[String], wanted: &Resource, node: &NodeInfo) -> f64 {
    let shares: Vec<f64> = resources
        .iter()
        // An extended resource that the pod doesn't want says nothing.
        .filter(|name| matches!(&***name, "cpu" | "memory" | "ephemeral-storage") || wanted.get(name) != 0)
        .filter_map(|name| share(node.requested.get(name), wanted.get(name), node.allocatable().get(name)))
        .collect();
    match shares.as_slice() {
        [one, two] => ((one - two) / 2.0).abs(),
        [] | [_] => 0.0,
        several => {
            let mean = several.iter().sum::<f64>() / several.len() as f64;
            let squares = several.iter().map(|share| (share - mean) * (share - mean)).sum::<f64>();
            (squares / several.len() as f64).sqrt()
        }
    }
}

impl Plugin for NodeResourcesBalancedAllocation {
    fn name(&self) -> &'static str {
        "NodeResourcesBalancedAllocation"
    }

    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Node
    }

    fn pre_score<'a>(
        &'a self,
        pod: &'a PodInfo,
        _snapshot: &'a Snapshot,
        _feasible: &[&NodeInfo],
    ) -> PreScore<'a> {
        // A pod that asks for none of them changes no balance.
        if self.resources.iter().all(|name| pod.requests.get(name) == 0) {
            return PreScore::Skip;
        }
        let grade = |deviation: f64| ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64;
        if matches!(self.resources.as_slice(), [cpu, memory] if cpu == "cpu" && memory == "memory") {
            return Scorer::plain(move |node| grade(deviation_of_two(&pod.requests, node)));
        }
        Scorer::plain(move |node| grade(deviation(&self.resources, &pod.requests, node)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use std::sync::Arc;

    #[test]
    fn three_resources_have_a_deviation_and_two_are_the_fast_case() {
        let node = json!({"metadata": {"name": "n"},
            "status": {"allocatable": {"cpu": "10", "memory": "10", "example.com/gpu": "10"}}});
        let node = NodeInfo::of(Arc::new(serde_json::from_value(node).unwrap()));
        let mut wanted = Resource { cpu_millis: 1000, memory_bytes: 3, ..Resource::default() };
        let two = ["cpu", "memory"].map(str::to_owned);
        assert!((deviation(&two, &wanted, &node) - 0.1).abs() < 1e-9);
        assert!((deviation_of_two(&wanted, &node) - 0.1).abs() < 1e-9);
        let three = ["cpu", "memory", "example.com/gpu"].map(str::to_owned);
        // It doesn't want a GPU: the GPUs don't count.
        assert!((deviation(&three, &wanted, &node) - 0.1).abs() < 1e-9);
        wanted.scalar.insert("example.com/gpu".to_owned(), 5);
        // 0.1, 0.3, 0.5: mean 0.3, variance 0.08 / 3.
        assert!((deviation(&three, &wanted, &node) - (0.08f64 / 3.0).sqrt()).abs() < 1e-9);
    }
}
