//! One answer.

use stage4_scheduler::framework::{ClusterEvent, Hint, Plugin, PreFilter, Status};
use stage4_scheduler::node_info::NodeInfo;
use stage4_scheduler::pod_info::PodInfo;
use stage4_scheduler::snapshot::Snapshot;

/// The reason that users read in the event.
pub const ERR_REASON: &str = "node(s) retire soon";

/// Keeps pods off nodes that retire soon.
#[derive(Debug, Default)]
pub struct RetiresSoon;

fn retires(node: &NodeInfo) -> bool {
    node.label("example.org/retires") == Some("soon")
}

impl Plugin for RetiresSoon {
    fn name(&self) -> &'static str {
        "RetiresSoon"
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        if pod.labels().get("example.org/short").is_some_and(|value| value == "true") {
            return PreFilter::Skip;
        }
        // No eviction makes a node younger: preemption need not try.
        PreFilter::Run(Box::new(|node, _| {
            if retires(node) { Status::unresolvable(ERR_REASON) } else { Status::success() }
        }))
    }

    fn hint(&self, _pod: &PodInfo, event: &ClusterEvent) -> Hint {
        Hint::queue_if(match event {
            ClusterEvent::NodeAdded(node) => !retires(node),
            ClusterEvent::NodeUpdated { old, new } => retires(old) && !retires(new),
            ClusterEvent::PodUpdated(_) => true,
            _ => false,
        })
    }
}
