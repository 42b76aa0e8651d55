//! Waiting pods: placed, but not yet allowed to be bound.
//!
//! *Beside step 17 of a pod's journey through this stage.* Before: a Permit plugin said "wait". After: the plugin allowed the
//! pod, or it was rejected, or its time was up.
//!
//! A plugin that places groups of pods all or nothing lets each wait until the last one has a node. The pod's room is
//! taken meanwhile (it is assumed), which is why there is always a limit to the waiting.
//!
//! # Invariants
//! 1. A pod is bound only when every plugin that asked for time has allowed it.
//! 2. A pod that waits ends in exactly one of: allowed, rejected, timed out.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/runtime/waiting_pods_map.go`. No plugin of the tree makes pods wait.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use crate::framework::Status;

/// Longest time that a plugin can ask for.
pub const MAX_TIMEOUT: Duration = Duration::from_secs(15 * 60);

struct WaitingPod {
    pending: Vec<&'static str>,
    answer: oneshot::Sender<Status>,
}

/// All pods that wait, by UID. Cheap to clone; plugins keep one.
#[derive(Clone, Default)]
pub struct WaitingPods(Arc<Mutex<HashMap<Arc<str>, WaitingPod>>>);

impl WaitingPods {
    /// The pod waits for these plugins from now on. The receiver gets success or the rejection.
    pub fn add(&self, uid: Arc<str>, pending: Vec<&'static str>) -> oneshot::Receiver<Status> {
        let (answer, waiting) = oneshot::channel();
        self.0.lock().insert(uid, WaitingPod { pending, answer });
        waiting
    }

    /// The plugin has nothing against the pod any more.
    pub fn allow(&self, uid: &str, plugin: &str) {
        let mut pods = self.0.lock();
        let Some(pod) = pods.get_mut(uid) else { return };
        pod.pending.retain(|pending| *pending != plugin);
        if pod.pending.is_empty()
            && let Some(pod) = pods.remove(uid)
        {
            // Nobody waits any more: the scheduler is being stopped.
            let _ = pod.answer.send(Status::success());
        }
    }

    /// The pod won't be bound: a plugin says so, or it is evicted or deleted. False if it doesn't wait.
    pub fn reject(&self, uid: &str, plugin: &'static str, why: &str) -> bool {
        let Some(pod) = self.0.lock().remove(uid) else { return false };
        let _ = pod.answer.send(Status::unschedulable(why.to_owned()).by(plugin));
        true
    }

    /// UIDs of the pods that wait.
    pub fn uids(&self) -> Vec<Arc<str>> {
        self.0.lock().keys().cloned().collect()
    }

    /// Waits for the answer, so long at most.
    pub async fn wait(&self, uid: &str, waiting: oneshot::Receiver<Status>, limit: Duration) -> Status {
        match tokio::time::timeout(limit.min(MAX_TIMEOUT), waiting).await {
            Ok(Ok(status)) => status,
            Ok(Err(_)) => Status::unschedulable("the scheduler is stopping"),
            Err(_) => {
                let late = self.0.lock().remove(uid);
                let plugin = late.and_then(|pod| pod.pending.first().copied()).unwrap_or("");
                let why = format!("rejected due to timeout after waiting {limit:?} at plugin {plugin}");
                Status::unschedulable(why).by(plugin)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn every_plugin_must_allow_and_one_can_reject() {
        let pods = WaitingPods::default();
        let limit = Duration::from_secs(10);
        let waiting = pods.add("a".into(), vec!["One", "Two"]);
        pods.allow("a", "One");
        assert_eq!(pods.uids().len(), 1);
        pods.allow("a", "Two");
        assert!(pods.wait("a", waiting, limit).await.is_success() && pods.uids().is_empty());

        let waiting = pods.add("b".into(), vec!["One"]);
        assert!(pods.reject("b", "One", "no") && !pods.reject("b", "One", "no"));
        assert_eq!(pods.wait("b", waiting, limit).await, Status::unschedulable("no").by("One"));

        let waiting = pods.add("c".into(), vec!["Two"]);
        let late = pods.wait("c", waiting, limit).await;
        assert_eq!(late.message(), "rejected due to timeout after waiting 10s at plugin Two");
        assert!(pods.uids().is_empty());
    }
}
