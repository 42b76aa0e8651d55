//! The sync loop: who is told about what.
//!
//! *Step 5 of a pod's journey.* Before: a pod was bound here, a container ended, a probe changed its mind. After: that pod's worker
//! ([`crate::pod_workers`]) has a round.
//!
//! The loop itself never waits for a pod. It holds the table of workers, admits new pods and hands on news.
//!
//! The subtle thing is the first second of a kubelet that was killed. Its pods run; the list of them is there before the loop
//! has heard of each. Who took the table of workers for the list would remove the containers and the logs of a pod whose
//! turn comes a moment later, and the pod would begin anew with a `restartCount` of 0.
//!
//! # Invariants
//! 1. Every pod that is bound here has one worker, until it is gone from the API server and from the runtime.
//! 2. What the runtime has and nobody wants is removed, but only after the API server's list is complete, and by that list.
//! 3. The runtime is asked before the first pod is admitted: one that runs already is not asked whether it fits.
//!
//! # In Kubernetes
//! `syncLoop` and `syncLoopIteration` in `pkg/kubelet/kubelet.go`, `HandlePodCleanups` in `kubelet_pods.go`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Pod;
use stage1_kubectl::journey::{Stage, object_name};
use stage1_kubectl::journey_step;
use stage3_controllers::action::EventText;
use stage3_controllers::informer::Event;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::admit::can_admit_pod;
use crate::kubelet::Kubelet;
use crate::pleg::{RELIST_PERIOD, Snapshot, changed_pods};
use crate::pod::PodExt;
use crate::pod_status::rejected_status;
use crate::pod_workers::PodWorker;

/// Time between two looks for pods that nobody wants.
const HOUSEKEEPING_PERIOD: Duration = Duration::from_secs(2);

struct SyncLoop {
    kubelet: Arc<Kubelet>,
    workers: HashMap<String, (Arc<Pod>, PodWorker)>,
    rejected: HashMap<String, Arc<Pod>>,
    removing: HashSet<String>,
    snapshot: Snapshot,
    shutdown: CancellationToken,
}

// ANCHOR: sync-loop
/// Hears and hands on until `shutdown`.
pub async fn run(
    kubelet: Arc<Kubelet>,
    mut woken: mpsc::UnboundedReceiver<String>,
    shutdown: CancellationToken,
) {
    let mut pods = kubelet.pods.subscribe();
    let mut relist = tokio::time::interval(RELIST_PERIOD);
    relist.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut housekeeping = tokio::time::interval(HOUSEKEEPING_PERIOD);
    housekeeping.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut this = SyncLoop {
        kubelet,
        workers: HashMap::new(),
        rejected: HashMap::new(),
        removing: HashSet::new(),
        snapshot: Snapshot::default(),
        shutdown: shutdown.clone(),
    };
    this.relist().await;
    loop {
        tokio::select! {
            event = pods.next() => match event {
                Some(event) => this.handle_pod(event),
                None => return,
            },
            Some(uid) = woken.recv() => this.wake(&uid),
            _ = relist.tick() => this.relist().await,
            _ = housekeeping.tick() => this.clean_up_pods(),
            () = shutdown.cancelled() => return,
        }
    }
}
// ANCHOR_END: sync-loop

impl SyncLoop {
    fn handle_pod(&mut self, event: Event<Pod>) {
        match event {
            Event::Added(pod) | Event::Modified { new: pod, .. } => self.handle_present(pod),
            Event::Deleted(pod) => self.handle_removed(pod.pod_uid()),
            Event::Resync => {
                let all = self.kubelet.pods.list();
                let present: HashSet<&str> = all.iter().map(|p| p.pod_uid()).collect();
                let known: Vec<String> = self.workers.keys().chain(self.rejected.keys()).cloned().collect();
                for uid in known.iter().filter(|u| !present.contains(u.as_str())) {
                    self.handle_removed(uid);
                }
                all.iter().for_each(|p| self.handle_present(p.clone()));
            }
        }
    }

    fn handle_present(&mut self, pod: Arc<Pod>) {
        let uid = pod.pod_uid().to_owned();
        if let Some((known, worker)) = self.workers.get_mut(&uid) {
            let only_status = known.metadata.generation == pod.metadata.generation
                && known.spec == pod.spec
                && known.metadata.deletion_timestamp == pod.metadata.deletion_timestamp
                && known.metadata.deletion_grace_period_seconds == pod.metadata.deletion_grace_period_seconds
                && known.metadata.labels == pod.metadata.labels
                && known.metadata.annotations == pod.metadata.annotations
                && foreign_conditions(known) == foreign_conditions(&pod);
            *known = pod.clone();
            self.kubelet.status.object_changed(&pod);
            if !only_status {
                // Our own status coming back is no news.
                worker.update(pod);
            }
            return;
        }
        if let Some(old) = self.rejected.get_mut(&uid) {
            *old = pod.clone();
            self.kubelet.status.object_changed(&pod);
            return;
        }
        self.add(uid, pod);
    }

    fn add(&mut self, uid: String, pod: Arc<Pod>) {
        let object = || object_name("Pod", Some(pod.pod_namespace()), pod.pod_name());
        let known_before = self.snapshot.pod_uids().contains(uid.as_str());
        if !pod.is_deleting() && !pod.is_terminal() && !known_before {
            let node = self.kubelet.node.load();
            let others: Vec<&Pod> =
                self.workers.values().map(|(p, _)| &**p).filter(|p| !p.is_terminal()).collect();
            if let Err(no) = can_admit_pod(&pod, &node, &others) {
                info!(pod = %pod.key(), reason = no.reason, "Pod was rejected");
                journey_step!(Stage::Kubelet, object(), "rejected", no.message.clone());
                self.kubelet.pod_event(&pod, EventText::warning(no.reason.clone(), no.message.clone()));
                let status = rejected_status(&pod, &no.reason, &no.message, now());
                self.kubelet.status.terminated(&pod, status);
                self.rejected.insert(uid, pod);
                return;
            }
            journey_step!(Stage::Kubelet, object(), "admitted", "the node has room for it");
        }
        debug!(pod = %pod.key(), "Pod is bound to this node");
        let worker = PodWorker::start(self.kubelet.clone(), pod.clone(), self.shutdown.clone());
        self.workers.insert(uid, (pod, worker));
        self.weigh();
    }

    fn weigh(&self) {
        let pods: Vec<Arc<Pod>> = self.workers.values().map(|(p, _)| p.clone()).collect();
        if let Err(error) = self.kubelet.cgroups.update_burstable(&pods) {
            debug!(%error, "Failed to update the weight of burstable pods");
        }
    }

    fn handle_removed(&mut self, uid: &str) {
        if self.rejected.remove(uid).is_some() {
            self.kubelet.status.forget(uid);
        }
        if let Some((_, worker)) = self.workers.get(uid) {
            worker.removed();
        }
    }

    fn wake(&mut self, uid: &str) {
        if let Some((_, worker)) = self.workers.get(uid) {
            worker.wake();
        }
    }

    async fn relist(&mut self) {
        let listed = futures::try_join!(
            self.kubelet.runtime.list_pod_sandbox(None),
            self.kubelet.runtime.list_containers(None)
        );
        let Ok((sandboxes, containers)) = listed else {
            debug!("Failed to list the runtime's pods");
            return;
        };
        let now = Snapshot::new(&sandboxes, &containers);
        for uid in changed_pods(&self.snapshot, &now) {
            self.wake(&uid);
        }
        self.snapshot = now;
    }

    /// Forgets workers that are done, and removes pods that the runtime has and nobody wants.
    fn clean_up_pods(&mut self) {
        let before = self.workers.len();
        self.workers.retain(|_, (_, worker)| !worker.is_finished());
        if self.workers.len() != before {
            self.weigh();
        }
        if !self.kubelet.pods.has_synced() {
            return;
        }
        let present = self.snapshot.pod_uids();
        self.removing.retain(|uid| present.contains(uid.as_str()));
        for uid in self.unwanted() {
            if !self.removing.insert(uid.clone()) {
                continue;
            }
            info!(pod_uid = uid, "Removing a pod that is not bound to this node any more");
            let kubelet = self.kubelet.clone();
            tokio::spawn(async move { kubelet.remove_pod_remains(&uid).await });
        }
    }

    // ANCHOR: unwanted-pods
    /// UIDs of pods that the runtime has and nobody wants. A pod of the API server's list is wanted, whether or not its
    /// event has been handled yet.
    fn unwanted(&self) -> Vec<String> {
        let listed = self.kubelet.pods.list();
        let wanted: HashSet<&str> =
            listed.iter().map(|p| p.pod_uid()).filter(|uid| !self.rejected.contains_key(*uid)).collect();
        let keep = |uid: &str| uid.is_empty() || self.workers.contains_key(uid) || wanted.contains(uid);
        self.snapshot.pod_uids().into_iter().filter(|uid| !keep(uid)).map(str::to_owned).collect()
    }
    // ANCHOR_END: unwanted-pods
}

/// Conditions that others set; a readiness gate may wait for one.
fn foreign_conditions(pod: &Pod) -> Vec<(&str, &str)> {
    let all = pod.status.iter().flat_map(|s| s.conditions.iter().flatten());
    let foreign = all.filter(|c| !crate::pod_status::conditions::OWNED.contains(&c.type_.as_str()));
    foreign.map(|c| (c.type_.as_str(), c.status.as_str())).collect()
}

#[expect(clippy::disallowed_methods, reason = "shell: stamps a rejection")]
fn now() -> jiff::Timestamp {
    jiff::Timestamp::now()
}

#[cfg(test)]
mod tests;
