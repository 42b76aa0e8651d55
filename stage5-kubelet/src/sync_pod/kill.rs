//! Stopping: containers first, in order, then the sandbox.
//!
//! *Step 5 of a pod's journey.* Before: the pod is deleted, has ended, or one container must go. After: no process of it runs.
//!
//! A container gets its `preStop` hook, then TERM, then, when the grace period is over, KILL. The hook's time counts. Sidecars are told
//! last, in reverse order of their start: what they serve must be gone first.
//!
//! # Invariants
//! 1. A stop ends: after the grace period the kernel ends it.
//! 2. At least two seconds lie between TERM and KILL, unless the caller insists.
//!
//! # In Kubernetes
//! `killContainer`, `killContainersWithSyncResult` in `kuberuntime_container.go`, `kuberuntime_termination_order.go`.
#![expect(clippy::disallowed_methods, reason = "shell: measures the time that a hook takes")]

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::future::join_all;
use k8s_openapi::api::core::v1::Pod;
use stage3_controllers::action::EventText;
use tokio::sync::watch;

use crate::cri::{ContainerState, SandboxState};
use crate::kubelet::Kubelet;
use crate::pod::{ContainerKind, PodExt, find_container, is_sidecar};
use crate::pod_actions::KillReason;
use crate::runtime_view::RuntimePod;

/// Least time between TERM and KILL, in seconds.
pub const MINIMUM_GRACE_PERIOD_IN_SECONDS: i64 = 2;

/// The grace period of one stop, in seconds.
pub fn termination_grace_period(pod: &Pod, container: &str, reason: KillReason) -> i64 {
    if pod.metadata.deletion_grace_period_seconds.is_some() {
        return pod.grace_period_seconds();
    }
    let spec = find_container(pod, container).map(|(_, c)| c);
    let of_probe =
        |p: Option<&k8s_openapi::api::core::v1::Probe>| p.and_then(|p| p.termination_grace_period_seconds);
    let own = match reason {
        KillReason::LivenessProbe => of_probe(spec.as_ref().and_then(|c| c.liveness_probe.as_ref())),
        KillReason::StartupProbe => of_probe(spec.as_ref().and_then(|c| c.startup_probe.as_ref())),
        _ => None,
    };
    own.unwrap_or_else(|| pod.grace_period_seconds())
}

impl Kubelet {
    /// Stops one container.
    pub(crate) async fn kill_container(
        &self,
        pod: &Arc<Pod>,
        id: &str,
        name: &str,
        message: Option<String>,
        reason: KillReason,
        grace_override: Option<i64>,
    ) {
        self.kill_in_turn(pod, id, name, message, reason, grace_override, None).await;
    }

    #[expect(clippy::too_many_arguments, reason = "the turn is known to the pod's stop only")]
    async fn kill_in_turn(
        &self,
        pod: &Arc<Pod>,
        id: &str,
        name: &str,
        message: Option<String>,
        reason: KillReason,
        grace_override: Option<i64>,
        turn: Option<watch::Receiver<usize>>,
    ) {
        let found = find_container(pod, name);
        let kind = found.as_ref().map_or(ContainerKind::Regular, |(k, _)| *k);
        let text = message.unwrap_or_else(|| format!("Stopping container {name}"));
        self.container_event(pod, kind, name, EventText::normal("Killing", text));
        let grace = grace_override.unwrap_or_else(|| termination_grace_period(pod, name, reason));
        let begun = Instant::now();
        let left = || grace - i64::try_from(begun.elapsed().as_secs()).unwrap_or(0);
        let hook = found.as_ref().and_then(|(_, c)| Some((c, c.lifecycle.as_ref()?.pre_stop.as_ref()?)));
        if let (Some((container, hook)), true) = (hook, grace > 0) {
            let ip = self.status.get(pod.pod_uid()).and_then(|s| s.pod_ip).unwrap_or_default();
            let limit = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
            if !matches!(
                tokio::time::timeout(limit, self.run_hook(hook, container, id, &ip)).await,
                Ok(Ok(()))
            ) {
                let text = EventText::warning("FailedPreStopHook", "PreStopHook failed");
                self.container_event(pod, kind, name, text);
            }
        }
        if let Some(mut turn) = turn {
            let limit = Duration::from_secs(u64::try_from(left()).unwrap_or(0));
            // Either way it is stopped now: in its turn, or because its time is over.
            let _ = tokio::time::timeout(limit, turn.wait_for(|others| *others == 0)).await;
        }
        let grace = left().max(if grace_override == Some(0) { 0 } else { MINIMUM_GRACE_PERIOD_IN_SECONDS });
        if let Err(error) = self.runtime.stop_container(id, grace).await {
            tracing::warn!(pod = %pod.key(), container = name, %error, "Failed to stop container");
        }
    }

    /// Stops a pod: every running container, then its sandboxes.
    pub(crate) async fn kill_pod(&self, pod: &Arc<Pod>, view: &RuntimePod, grace_override: Option<i64>) {
        let running = |name: &str| view.container(name).filter(|c| c.state == ContainerState::Running);
        let sidecars: Vec<&str> = pod
            .init_containers()
            .iter()
            .filter(|c| is_sidecar(c) && running(&c.name).is_some())
            .map(|c| c.name.as_str())
            .collect();
        // One counter for each sidecar: how many of those that must end before it still run.
        let counters: Vec<watch::Sender<usize>> = sidecars.iter().map(|_| watch::Sender::new(0)).collect();
        let mut stops = Vec::new();
        for c in view.containers.iter().filter(|c| c.state == ContainerState::Running) {
            let own = sidecars.iter().position(|s| *s == c.name);
            let before: Vec<_> = counters.iter().take(own.unwrap_or(counters.len())).collect();
            before.iter().for_each(|n| n.send_modify(|n| *n += 1));
            let turn = own.map(|i| counters[i].subscribe());
            stops.push(async move {
                self.kill_in_turn(pod, &c.id, &c.name, None, KillReason::PodStops, grace_override, turn)
                    .await;
                before.iter().for_each(|n| n.send_modify(|n| *n = n.saturating_sub(1)));
            });
        }
        join_all(stops).await;
        for sandbox in view.sandboxes.iter().filter(|s| s.state == SandboxState::Ready) {
            if let Err(error) = self.runtime.stop_pod_sandbox(&sandbox.id).await {
                tracing::warn!(pod = %pod.key(), %error, "Failed to stop pod sandbox");
                self.pod_event(pod, EventText::warning("FailedKillPod", format!("error killing pod: failed to \"KillPodSandbox\" with KillPodSandboxError: \"{error}\"")));
            }
        }
    }
}
