//! SchedulingGates: a pod waits until nobody holds it back any more.
//!
//! A quota system, say, creates the pod with a gate and removes the gate when there is budget. Until then
//! the pod must cost the scheduler nothing, so it doesn't even enter the queue.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/schedulinggates/scheduling_gates.go`.

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, Status};
use crate::pod_info::PodInfo;

/// The message of the `PodScheduled` condition of a gated pod.
pub const GATED_MESSAGE: &str = "Scheduling is blocked due to non-empty scheduling gates";

/// Refuses pods that have gates.
pub struct SchedulingGates;

impl Plugin for SchedulingGates {
    fn name(&self) -> &'static str {
        "SchedulingGates"
    }

    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Silent
    }

    fn pre_enqueue(&self, pod: &PodInfo) -> Status {
        let gates = pod.spec().scheduling_gates.as_deref().unwrap_or_default();
        if gates.is_empty() {
            return Status::success();
        }
        let names: Vec<&str> = gates.iter().map(|gate| gate.name.as_str()).collect();
        Status::unresolvable(format!("waiting for scheduling gates: [{}]", names.join(" ")))
    }

    fn hint(&self, _pod: &PodInfo, event: &ClusterEvent) -> Hint {
        let gone = |pod: &PodInfo| pod.spec().scheduling_gates.as_ref().is_none_or(Vec::is_empty);
        Hint::queue_if(matches!(event, ClusterEvent::PodUpdated(pod) if gone(pod)))
    }
}
