//! Pod workers: one task for each pod.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_loop`] heard that something about a pod changed. After: that pod, and no other, is looked at.
//!
//! A pod is in one of three states here. *Syncing*: it shall run; rounds of [`crate::sync_pod`]. *Terminating*: it shall stop; everything is killed
//! within the grace period, which may be shortened meanwhile. *Terminated*: nothing runs; volumes and cgroup are removed and the
//! status manager may tell the end. There is no way back.
//!
//! News that arrives while a round runs is not queued: only the newest state counts, and the round after looks at it.
//!
//! # Invariants
//! 1. At most one round of a pod runs at a time.
//! 2. A pod that terminates never starts anything again.
//! 3. A slow pod delays no other.
//!
//! # In Kubernetes
//! `pkg/kubelet/pod_workers.go`. Left out: static pods waiting for their predecessor of the same name.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::kubelet::Kubelet;
use crate::pod::PodExt;
use crate::pod_status::terminate_pod;
use crate::runtime_view::RuntimePod;
use crate::sync_pod::PodMemory;

/// A running pod is looked at this often even without news: volumes are refreshed then.
pub const SYNC_FREQUENCY: Duration = Duration::from_secs(60);
/// Pause between rounds of a stop that did not succeed.
const STOP_RETRY: Duration = Duration::from_secs(1);
/// A pod that stops keeps its older dead containers for no longer than this after a newer one ended.
const RELIST_PERIOD: Duration = Duration::from_secs(1);

/// The newest that is known of a pod.
#[derive(Clone, Debug)]
pub struct Update {
    /// The object.
    pub pod: Arc<Pod>,
    /// The object is gone from the API server.
    pub removed: bool,
    /// Counts wake-ups: a change of it is a reason for a round.
    pub wakes: u64,
}

impl Update {
    /// Whether the pod shall stop.
    pub fn must_stop(&self) -> bool {
        self.removed || self.pod.is_deleting() || self.pod.is_terminal()
    }
}

/// A worker as the sync loop holds it.
pub struct PodWorker {
    updates: watch::Sender<Update>,
    stop: CancellationToken,
    task: tokio::task::JoinHandle<()>,
}

impl PodWorker {
    /// Starts the worker of a pod.
    pub fn start(kubelet: Arc<Kubelet>, pod: Arc<Pod>, shutdown: CancellationToken) -> Self {
        let first = Update { pod, removed: false, wakes: 0 };
        let stop = CancellationToken::new();
        if first.must_stop() {
            stop.cancel();
        }
        let (updates, heard) = watch::channel(first);
        let work = run(kubelet, heard, stop.clone());
        let task = tokio::spawn(async move {
            shutdown.run_until_cancelled(work).await;
        });
        PodWorker { updates, stop, task }
    }

    /// Hands in a newer object.
    pub fn update(&self, pod: Arc<Pod>) {
        self.updates.send_modify(|u| u.pod = pod);
        self.check_stop();
    }

    /// Tells that the object is gone.
    pub fn removed(&self) {
        self.updates.send_modify(|u| u.removed = true);
        self.check_stop();
    }

    /// Asks for a round.
    pub fn wake(&self) {
        self.updates.send_modify(|u| u.wakes += 1);
    }

    /// Whether the pod was terminated and nothing is left to do.
    pub fn is_finished(&self) -> bool {
        self.task.is_finished()
    }

    fn check_stop(&self) {
        if self.updates.borrow().must_stop() {
            self.stop.cancel();
        }
    }
}

// ANCHOR: pod-worker
async fn run(kubelet: Arc<Kubelet>, mut updates: watch::Receiver<Update>, stop: CancellationToken) {
    let mut memory = PodMemory::default();
    loop {
        let update = updates.borrow_and_update().clone();
        if update.must_stop() {
            break;
        }
        let outcome = kubelet.sync_pod(&update.pod, &mut memory, &stop).await;
        if outcome.terminal {
            break;
        }
        if outcome.again {
            continue;
        }
        let wait = outcome.at.map_or(SYNC_FREQUENCY, |at| until(at).min(SYNC_FREQUENCY));
        tokio::select! {
            changed = updates.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(wait) => {}
        }
    }
    let view = terminate(&kubelet, &mut updates, &mut memory).await;
    clean_up(&kubelet, &mut updates, &view, &memory).await;
}
// ANCHOR_END: pod-worker

fn until(at: Timestamp) -> Duration {
    Duration::try_from(at.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO)
}

/// Stops everything; a shorter grace period that arrives meanwhile begins anew with it.
async fn terminate(
    kubelet: &Arc<Kubelet>,
    updates: &mut watch::Receiver<Update>,
    memory: &mut PodMemory,
) -> RuntimePod {
    loop {
        let update = updates.borrow_and_update().clone();
        let pod = &update.pod;
        let grace = pod.grace_period_seconds();
        kubelet.probes.stop_liveness_and_startup(pod.pod_uid());
        let Some(mut view) = kubelet.view(pod.pod_uid()).await else {
            tokio::time::sleep(STOP_RETRY).await;
            continue;
        };
        view.forget_older();
        // Why containers waited is of no interest any more: nothing will be started.
        memory.errors.clear();
        if !update.removed {
            kubelet.tell_status(pod, &view, memory, false);
        }
        if !view.is_running() {
            return view;
        }
        let ended = view.ended();
        let begun = Instant::now();
        let shorter = async {
            loop {
                if updates.changed().await.is_err() || updates.borrow().pod.grace_period_seconds() < grace {
                    return;
                }
            }
        };
        tokio::select! {
            () = kubelet.kill_pod(pod, &view, None) => {}
            () = shorter => continue,
        }
        match kubelet.view(pod.pod_uid()).await {
            Some(mut after) if !after.is_running() => {
                // What ended while others were being stopped, a relist ago or before, has been cleaned up behind.
                let long = begun.elapsed() >= RELIST_PERIOD;
                after.forget_older_of(|name| long || ended.contains(name));
                let newest = updates.borrow().clone();
                if !newest.removed {
                    kubelet.tell_status(&newest.pod, &after, memory, true);
                }
                return after;
            }
            _ => tokio::time::sleep(STOP_RETRY).await,
        }
    }
}

/// Removes what the pod had on the node and lets the end be told.
async fn clean_up(
    kubelet: &Arc<Kubelet>,
    updates: &mut watch::Receiver<Update>,
    view: &RuntimePod,
    memory: &PodMemory,
) {
    let pod = updates.borrow().pod.clone();
    let uid = pod.pod_uid().to_owned();
    kubelet.probes.remove_pod(&uid, view);
    if !updates.borrow().removed {
        let status = kubelet.tell_status(&pod, view, memory, true);
        // The volumes go first: a replacement may want what they hold.
        remove_files(kubelet, &uid);
        kubelet.status.terminated(&pod, terminate_pod(&pod, &status));
    }
    // Containers of a finished pod stay for `kubectl logs` until the object is gone.
    while !updates.borrow_and_update().removed {
        if updates.changed().await.is_err() {
            return;
        }
        kubelet.status.object_changed(&updates.borrow().pod.clone());
    }
    kubelet.remove_pod_remains(&uid).await;
}

fn remove_files(kubelet: &Kubelet, uid: &str) {
    if !kubelet.runtime.is_real() {
        return;
    }
    if let Err(error) = kubelet.volumes.remove_pod(uid) {
        tracing::warn!(pod_uid = uid, %error, "Failed to remove the pod's folder");
    }
    kubelet.cgroups.remove_pod(uid);
}

impl Kubelet {
    /// Removes sandboxes, containers, files and cgroup of a pod that nobody wants any more.
    pub async fn remove_pod_remains(&self, uid: &str) {
        for sandbox in self.runtime.list_pod_sandbox(Some(uid)).await.unwrap_or_default() {
            let stopped = self.runtime.stop_pod_sandbox(&sandbox.id).await;
            if let Err(error) = match stopped {
                Ok(()) => self.runtime.remove_pod_sandbox(&sandbox.id).await,
                refused => refused,
            } {
                tracing::warn!(pod_uid = uid, %error, "Failed to remove pod sandbox");
            }
        }
        remove_files(self, uid);
        crate::container_gc::remove_pod_logs(&self.config.pod_logs_dir, uid);
        self.status.forget(uid);
    }
}
