//! NodeResourcesBalancedAllocation: use up CPU and memory at the same pace.
//!
//! A node with all CPU taken and half of its memory free wastes that half. The score is 100 minus the
//! standard deviation of the used shares: 100 when CPU and memory are used to the same degree.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/noderesources/balanced_allocation.go`. Left out: other resources than
//! CPU and memory.

use crate::framework::{Depends, MAX_NODE_SCORE, Plugin, PreScore, Scorer};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// Prefers nodes whose CPU and memory would be used to the same degree.
pub struct NodeResourcesBalancedAllocation;

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
        // A pod without requests changes no balance.
        if pod.requests.cpu_millis == 0 && pod.requests.memory_bytes == 0 {
            return PreScore::Skip;
        }
        Scorer::plain(move |node| {
            let has = node.allocatable();
            let share = |used: i64, wanted: i64, of: i64| {
                (of > 0).then(|| ((used + wanted) as f64 / of as f64).min(1.0))
            };
            let cpu = share(node.requested.cpu_millis, pod.requests.cpu_millis, has.cpu_millis);
            let memory = share(node.requested.memory_bytes, pod.requests.memory_bytes, has.memory_bytes);
            let deviation = match (cpu, memory) {
                (Some(cpu), Some(memory)) => ((cpu - memory) / 2.0).abs(),
                _ => 0.0,
            };
            ((1.0 - deviation) * MAX_NODE_SCORE as f64) as i64
        })
    }
}
