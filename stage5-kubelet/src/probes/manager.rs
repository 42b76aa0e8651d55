//! The probe manager: one small task for each probe of each running container.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_pod`] starts a pod. After: results change, and the pod's worker is woken.
//!
//! # Invariants
//! 1. A pod that is gone, or whose containers ended for good, is not asked any more.
//! 2. A result is stored under the container's id: a successor never inherits it.
//!
//! # In Kubernetes
//! `pkg/kubelet/prober/prober_manager.go`, `results/results_manager.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::collections::HashMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, ContainerStatus, Pod, PodStatus, Probe};
use parking_lot::Mutex;
use stage3_controllers::action::EventText;
use tokio::sync::{Notify, mpsc};
use tokio_util::sync::CancellationToken;

use super::prober::{Target, probe};
use super::{Answer, Observed, ProbeKind, ProbeState, Tick, period};
use crate::cri::ContainerState;
use crate::kubelet::Kubelet;
use crate::pod::{ContainerKind, PodExt, is_sidecar};
use crate::pod_status::all_container_statuses;
use crate::runtime_view::{ProbeResult, RuntimePod};

struct Running {
    stop: CancellationToken,
    /// Stops liveness and startup probes only: a pod that stops may still become unready.
    stop_killing: CancellationToken,
    ask_now: Arc<Notify>,
}

/// Results and tasks of all probes of this node.
pub struct ProbeManager {
    results: Mutex<HashMap<(String, ProbeKind), ProbeResult>>,
    pods: Mutex<HashMap<String, Running>>,
    wake: mpsc::UnboundedSender<String>,
}

impl ProbeManager {
    /// No probes yet; `wake` hears the UIDs of pods whose results changed.
    pub fn new(wake: mpsc::UnboundedSender<String>) -> Self {
        ProbeManager { results: Mutex::default(), pods: Mutex::default(), wake }
    }

    /// Puts the known results into the runtime's view.
    pub fn annotate(&self, view: &mut RuntimePod) {
        let results = self.results.lock();
        let of = |id: &str, kind| results.get(&(id.to_owned(), kind)).copied();
        for c in &mut view.containers {
            c.liveness = of(&c.id, ProbeKind::Liveness);
            c.readiness = of(&c.id, ProbeKind::Readiness);
            c.startup = of(&c.id, ProbeKind::Startup);
        }
    }

    fn set(&self, uid: &str, container_id: &str, kind: ProbeKind, result: ProbeResult) {
        let before = self.results.lock().insert((container_id.to_owned(), kind), result);
        if before != Some(result) {
            // The receiver lives as long as the kubelet.
            let _ = self.wake.send(uid.to_owned());
        }
    }

    /// A pod stops: nobody shall kill or judge its containers any more.
    pub fn stop_liveness_and_startup(&self, uid: &str) {
        if let Some(running) = self.pods.lock().get(uid) {
            running.stop_killing.cancel();
        }
    }

    /// Stops a pod's probes and forgets its results.
    pub fn remove_pod(&self, uid: &str, view: &RuntimePod) {
        if let Some(running) = self.pods.lock().remove(uid) {
            running.stop.cancel();
        }
        self.results.lock().retain(|(id, _), _| !view.containers.iter().any(|c| &c.id == id));
    }

    /// A status was told: a probe that waits for its container to start need not wait a whole period.
    pub fn hurry(&self, uid: &str) {
        if let Some(running) = self.pods.lock().get(uid) {
            running.ask_now.notify_waiters();
        }
    }
}

/// Starts the probes of a pod, once.
pub fn add_pod(kubelet: &Arc<Kubelet>, pod: &Arc<Pod>) {
    let uid = pod.pod_uid().to_owned();
    let sidecars = pod.init_containers().iter().filter(|c| is_sidecar(c)).map(|c| (ContainerKind::Init, c));
    let regular = pod.containers().iter().map(|c| (ContainerKind::Regular, c));
    let mut probes = Vec::new();
    for (place, container) in sidecars.chain(regular) {
        for kind in [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness] {
            if let Some(p) = kind.of(container) {
                probes.push((place, container.clone(), kind, p.clone()));
            }
        }
    }
    let mut pods = kubelet.probes.pods.lock();
    if probes.is_empty() || pods.contains_key(&uid) {
        return;
    }
    let stop = CancellationToken::new();
    let running = Running { stop_killing: stop.child_token(), stop, ask_now: Arc::default() };
    for (place, container, kind, spec) in probes {
        let worker = Worker {
            kubelet: kubelet.clone(),
            pod: pod.clone(),
            place,
            container,
            kind,
            spec,
            ask_now: running.ask_now.clone(),
        };
        let stop = if kind == ProbeKind::Readiness { &running.stop } else { &running.stop_killing }.clone();
        tokio::spawn(worker.run(stop));
    }
    pods.insert(uid, running);
}

struct Worker {
    kubelet: Arc<Kubelet>,
    pod: Arc<Pod>,
    place: ContainerKind,
    container: Container,
    kind: ProbeKind,
    spec: Probe,
    ask_now: Arc<Notify>,
}

impl Worker {
    /// A question that was asked is heard to its end, also when nobody asks again.
    async fn run(self, stop: CancellationToken) {
        let mut state = ProbeState::default();
        loop {
            let hurried = self.ask_now.notified();
            let asked = self.step(&mut state, &stop).await;
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(period(&self.spec)) => {}
                // Only who has not asked yet may be hurried: periods between questions are the user's.
                () = hurried, if !asked => {}
            }
        }
    }

    /// One tick; returns whether the container was asked.
    async fn step(&self, state: &mut ProbeState, stop: &CancellationToken) -> bool {
        let uid = self.pod.pod_uid();
        let Some(status) = self.kubelet.status.get(uid) else { return false };
        let seen = observe(&status, &self.container.name);
        loop {
            match state.tick(self.kind, &self.spec, seen.as_ref(), Timestamp::now()) {
                Tick::Idle => return false,
                Tick::Set(result) => {
                    let Some(seen) = &seen else { return false };
                    self.kubelet.probes.set(uid, &seen.container_id, self.kind, result);
                    if !seen.running {
                        return false;
                    }
                }
                Tick::Ask => break,
            }
        }
        if let Some(seen) = seen {
            self.ask(state, &seen, status.pod_ip.unwrap_or_default(), stop).await;
        }
        true
    }

    async fn ask(&self, state: &mut ProbeState, seen: &Observed, pod_ip: String, stop: &CancellationToken) {
        let target = Target { container_id: seen.container_id.clone(), pod_ip };
        let answer = probe(&self.kubelet.runtime, &self.spec, &self.container, &target).await;
        if let Answer::Errored(error) = &answer
            && (error.contains("stopped container") || !self.still_runs(&seen.container_id).await)
        {
            // It ended while it was asked: that says nothing, and its end is told elsewhere.
            return;
        }
        let word = self.kind.as_str();
        let text = match &answer {
            Answer::Success => None,
            Answer::Failure(output) => Some(format!("{word} probe failed: {output}")),
            Answer::Errored(error) => Some(format!("{word} probe errored: {error}")),
        };
        if let Some(text) = text {
            self.kubelet.container_event(
                &self.pod,
                self.place,
                &self.container.name,
                EventText::warning("Unhealthy", text),
            );
        }
        if stop.is_cancelled() {
            return;
        }
        if let Some(result) = state.heard(self.kind, &self.spec, &answer) {
            self.kubelet.probes.set(self.pod.pod_uid(), &seen.container_id, self.kind, result);
        }
    }
}

impl Worker {
    async fn still_runs(&self, container_id: &str) -> bool {
        let status = self.kubelet.runtime.container_status(container_id).await;
        status.is_ok_and(|s| s.state == ContainerState::Running)
    }
}

fn observe(status: &PodStatus, name: &str) -> Option<Observed> {
    let c: &ContainerStatus = all_container_statuses(status).find(|s| s.name == name)?;
    let id = c.container_id.as_deref()?.split_once("://")?.1.to_owned();
    let running = c.state.as_ref().and_then(|s| s.running.as_ref());
    Some(Observed {
        container_id: id,
        running: running.is_some(),
        started_at: running.and_then(|r| r.started_at.as_ref()).map_or(Timestamp::UNIX_EPOCH, |t| t.0),
        started: c.started == Some(true),
    })
}
