//! Event handlers: what each change in the cluster means for the scheduler.
//!
//! *Step 17 of a pod's journey through this stage, and the first in time.* Before: a watch brought a change.
//! After: the pod is in the [`crate::scheduling_queue`], or the [`crate::cache`] is up to date and the queue
//! has heard of an event that may help somebody.
//!
//! A pod without a node and with our scheduler's name is work; a pod with a node is load. The same watch brings
//! both, and a pod turns from the one into the other when its binding comes back.
//!
//! The subtle thing: handlers don't trust the *kind* of change ("added", "modified") but compare with what
//! they know. After a lost connection, changes may be missing or come twice; saying the same thing twice does no harm.
//!
//! # Invariants
//! 1. Every call is idempotent.
//! 2. A node's heartbeat, which changes nothing that a plugin or an extender looks at, wakes nobody.
//!
//! # In Kubernetes
//! `pkg/scheduler/eventhandlers.go`. Left out: DynamicResources, custom resources as event sources.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};

use crate::cache::Cache;
use crate::framework::ClusterEvent;
use crate::framework::events::node_scheduling_properties_change;
use crate::pod_info::PodInfo;
use crate::profiles::Profiles;
use crate::scheduling_queue::SchedulingQueue;

#[cfg(test)]
mod tests;

/// All that the scheduler remembers.
pub struct State {
    /// What runs where.
    pub cache: Cache,
    /// What waits.
    pub queue: SchedulingQueue,
    profiles: Arc<Profiles>,
}

impl State {
    /// Nothing known yet.
    pub fn new(profiles: Arc<Profiles>) -> Self {
        State { cache: Cache::default(), queue: SchedulingQueue::new(profiles.clone()), profiles }
    }

    // ANCHOR: set-pod
    /// A pod is new or has changed.
    pub fn set_pod(&mut self, pod: Arc<Pod>, now: Duration) {
        let info = Arc::new(PodInfo::new(pod));
        if info.is_finished() {
            return self.remove_pod(&info.uid, now);
        }
        if info.node_name().is_some() {
            self.queue.delete(&info.uid);
            let assumed = self.cache.is_assumed(&info.uid);
            match self.cache.set_pod(info.clone()) {
                Some(_) if assumed => self.queue.on_event(ClusterEvent::AssignedPodAdded(info), now),
                None => self.queue.on_event(ClusterEvent::AssignedPodAdded(info), now),
                Some(old) if matters(&old, &info) => {
                    self.queue.on_event(ClusterEvent::AssignedPodUpdated { old, new: info }, now);
                }
                Some(_) => {}
            }
        } else if self.profiles.of(&info).is_some() && !self.cache.is_assumed(&info.uid) {
            self.queue.set(info, now);
        }
    }
    // ANCHOR_END: set-pod

    /// A pod is gone or has ended.
    pub fn remove_pod(&mut self, uid: &str, now: Duration) {
        self.queue.delete(uid);
        if let Some(gone) = self.cache.remove_pod(uid) {
            self.queue.on_event(ClusterEvent::AssignedPodDeleted(gone), now);
        }
    }

    /// A node is new or has changed.
    pub fn set_node(&mut self, node: Arc<Node>, now: Duration) {
        let name = node.metadata.name.clone().unwrap_or_default();
        let before = self.cache.set_node(node);
        let Some(new) = self.cache.node(&name).cloned() else { return };
        match before {
            None => self.queue.on_event(ClusterEvent::NodeAdded(new), now),
            Some(old) if node_scheduling_properties_change(&old, &new).is_some() => {
                self.queue.on_event(ClusterEvent::NodeUpdated { old, new }, now);
            }
            Some(_) => {}
        }
    }

    /// A node is gone.
    pub fn remove_node(&mut self, name: &str, now: Duration) {
        if let Some(gone) = self.cache.remove_node(name) {
            self.queue.on_event(ClusterEvent::NodeDeleted(gone), now);
        }
    }

    /// Some other object changed, and `change` has noted it in the listers.
    pub fn object_changed(&mut self, kind: &'static str, key: String, now: Duration) {
        self.queue.on_event(ClusterEvent::ObjectChanged(kind, key.into()), now);
    }
}

/// Does a change of a running pod change anything for others?
fn matters(old: &PodInfo, new: &PodInfo) -> bool {
    old.labels() != new.labels()
        || old.requests != new.requests
        || old.is_terminating() != new.is_terminating()
}
