//! Incoming: how many pods came into which queue, and what brought them there.
//!
//! Counted where a pod is put, as plain numbers; the shell takes them away once a second and adds them to the metric. What brought a
//! pod is the kind of object and what happened to it, or a word of the queue's own (`BackoffComplete`).
//!
//! # In Kubernetes
//! `pkg/scheduler/metrics/metrics.go` (`SchedulerQueueIncomingPods`), `pkg/scheduler/framework/{events,types}.go`
//! (`ClusterEvent.Label`). An object that isn't a node or a pod always counts as updated: the queue isn't told more. What changed of a
//! node or a pod is named in [`crate::framework::events`].

use std::collections::BTreeMap;

use crate::framework::ClusterEvent;
use crate::framework::events::{node_scheduling_properties_change, pod_scheduling_properties_change};
use crate::pod_info::PodInfo;

/// What brought a pod: kind and action, or a word and nothing.
pub type Why = (&'static str, &'static str);

/// The pod is new.
pub(super) const POD_ADD: Why = ("UnschedulablePod", "Add");
/// The pod itself changed.
pub(super) const POD_UPDATE: Why = ("UnschedulablePod", "Update");
/// The try failed.
pub(super) const SCHEDULE_ATTEMPT_FAILURE: Why = ("ScheduleAttemptFailure", "");
/// The pause is over.
pub(super) const BACKOFF_COMPLETE: Why = ("BackoffComplete", "");
/// Nobody else was ready: the pause was cut short.
pub(super) const POP_FROM_BACKOFF: Why = ("PopFromBackoffQ", "");
/// It slept too long.
pub(super) const UNSCHEDULABLE_TIMEOUT: Why = ("UnschedulableTimeout", "");

/// Pods by queue and by what brought them.
pub type Counts = BTreeMap<(&'static str, Why), u64>;

/// The counts since they were taken last.
#[derive(Debug, Default)]
pub(super) struct Incoming(Counts);

impl Incoming {
    pub(super) fn count(&mut self, queue: &'static str, why: Why) {
        *self.0.entry((queue, why)).or_default() += 1;
    }

    pub(super) fn take(&mut self) -> Counts {
        std::mem::take(&mut self.0)
    }
}

/// Kubernetes' label of an event.
pub(super) fn why(event: &ClusterEvent) -> Why {
    match event {
        ClusterEvent::NodeAdded(_) => ("Node", "Add"),
        ClusterEvent::NodeUpdated { old, new } => {
            ("Node", node_scheduling_properties_change(old, new).unwrap_or("Update"))
        }
        ClusterEvent::NodeDeleted(_) => ("Node", "Delete"),
        ClusterEvent::AssignedPodAdded(_) => ("AssignedPod", "Add"),
        ClusterEvent::AssignedPodUpdated { old, new } => ("AssignedPod", pod_action(old, new)),
        ClusterEvent::AssignedPodDeleted(_) => ("AssignedPod", "Delete"),
        ClusterEvent::PodUpdated(_) => POD_UPDATE,
        ClusterEvent::ObjectChanged(kind, _) => (kind, "Update"),
        ClusterEvent::Anything => ("ForceActivate", ""),
    }
}

/// Kubernetes' label of a waiting pod's own update.
pub(super) fn pod_update(old: &PodInfo, new: &PodInfo) -> Why {
    ("UnschedulablePod", pod_action(old, new))
}

fn pod_action(old: &PodInfo, new: &PodInfo) -> &'static str {
    pod_scheduling_properties_change(old, new).unwrap_or("Update")
}
