//! Sync pod: one round of making a pod what its spec says.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::pod_workers`] decided that it is this pod's turn. After: the actions of [`crate::pod_actions`] are
//! carried out, the status is told, the worker knows when to come back.
//!
//! The round, in order: look at the runtime; tell the status; stop if the pod has ended; make its cgroup, folders and volumes;
//! compute the actions; carry them out. It can be cut off after any step: the next round begins by looking again.
//!
//! # Invariants
//! 1. Nothing is started for a pod whose phase is terminal.
//! 2. Each container that could not be started leaves a reason for its waiting state.
//!
//! # In Kubernetes
//! `SyncPod` in `pkg/kubelet/kubelet.go` and in `kuberuntime_manager.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock, makes folders")]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use stage1_kubectl::journey::{Stage, object_name};
use stage1_kubectl::journey_step;
use stage3_controllers::action::EventText;
use tokio_util::sync::CancellationToken;

use crate::backoff::Backoffs;
use crate::container_spec::pod_sandbox_config;
use crate::images::Keyring;
use crate::kubelet::Kubelet;
use crate::pod::{PodExt, ephemeral_containers};
use crate::pod_actions::{PodAction, compute_pod_actions};
use crate::pod_status::{StartErrors, StatusInput, generate_api_pod_status};
use crate::runtime_view::RuntimePod;
use crate::volumes::MountedVolume;

mod hooks;
mod kill;
mod mounts;
mod start;
mod view;

/// Pause after an error that nothing but time or the user can mend.
pub const BACK_OFF_PERIOD: SignedDuration = SignedDuration::from_secs(10);
/// Pause after a container ended or failed to start, as the relist would take.
const SOON: SignedDuration = SignedDuration::from_secs(1);
/// First pause after a failed mount; doubles up to [`MAX_MOUNT_WAIT`].
const MOUNT_WAIT: SignedDuration = SignedDuration::from_millis(500);
const MAX_MOUNT_WAIT: SignedDuration = SignedDuration::from_secs(122);

/// What a pod's worker remembers between rounds. Losing it costs a free restart, nothing more.
#[derive(Default)]
pub struct PodMemory {
    /// Restart back-offs of its containers.
    pub backoffs: Backoffs,
    /// Why containers wait.
    pub errors: StartErrors,
    /// Pause of the last failed mount.
    mount_wait: Option<SignedDuration>,
    /// Sandbox, volumes and keyring were prepared by this kubelet.
    prepared: bool,
    /// DNS complaints were told.
    dns_told: bool,
}

/// How a round ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// The pod has ended: stop what is left.
    pub terminal: bool,
    /// Look again at once: something was started.
    pub again: bool,
    /// Look again at this time.
    pub at: Option<Timestamp>,
}

impl Outcome {
    fn sooner(&mut self, at: Timestamp) {
        self.at = Some(self.at.map_or(at, |old| old.min(at)));
    }
}

/// One container that could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct StartError {
    reason: String,
    message: String,
    until: Option<Timestamp>,
}

/// What one round prepared for its containers.
pub(crate) struct Prepared {
    volumes: BTreeMap<String, MountedVolume>,
    keyring: Keyring,
}

impl Kubelet {
    // ANCHOR: sync-pod
    /// One round for a pod that shall run.
    pub async fn sync_pod(
        self: &Arc<Self>,
        pod: &Arc<Pod>,
        memory: &mut PodMemory,
        stop: &CancellationToken,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        let Some(view) = self.view(pod.pod_uid()).await else {
            outcome.sooner(Timestamp::now() + SOON);
            return outcome;
        };
        let status = self.tell_status(pod, &view, memory, false);
        if matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
            return Outcome { terminal: true, ..outcome };
        }
        if let Some(deadline) = self.deadline_of(pod, &status) {
            outcome.sooner(deadline);
        }
        let prepared = match self.prepare(pod, &view, memory).await {
            Ok(prepared) => prepared,
            Err(at) => {
                outcome.sooner(at);
                return outcome;
            }
        };
        crate::probes::manager::add_pod(self, pod);
        let actions = compute_pod_actions(pod, &view, &memory.backoffs, Timestamp::now());
        if actions.is_empty() {
            return outcome;
        }
        self.execute(pod, view, actions, &prepared, memory, stop, &mut outcome).await;
        outcome
    }
    // ANCHOR_END: sync-pod

    /// Computes and hands in the status. Returns it.
    pub(crate) fn tell_status(
        &self,
        pod: &Arc<Pod>,
        view: &RuntimePod,
        memory: &PodMemory,
        terminal: bool,
    ) -> PodStatus {
        let previous = self.status.get(pod.pod_uid()).or_else(|| pod.status.clone()).unwrap_or_default();
        let now = Timestamp::now();
        let late = active_deadline(pod, &previous).is_some_and(|d| now >= d) && !pod.is_terminal();
        const LATE: (&str, &str) =
            ("DeadlineExceeded", "Pod was active on the node longer than the specified deadline");
        if late && previous.reason.as_deref() != Some(LATE.0) {
            self.pod_event(pod, EventText::normal(LATE.0, LATE.1));
        }
        let status = generate_api_pod_status(&StatusInput {
            pod,
            runtime: view,
            previous: &previous,
            errors: &memory.errors,
            terminal,
            evicted: late.then_some(LATE),
            host_ips: &[self.config.node_ip],
            scheme: self.runtime.scheme(),
            now,
        });
        if self.status.set(pod, status.clone()) {
            let phase = |s: &PodStatus| s.phase.clone().unwrap_or_default();
            if phase(&status) != phase(&previous) {
                let object = object_name("Pod", Some(pod.pod_namespace()), pod.pod_name());
                journey_step!(Stage::Kubelet, object, phase(&status), "containers changed");
            }
            self.probes.hurry(pod.pod_uid());
        }
        status
    }

    fn deadline_of(&self, pod: &Pod, status: &PodStatus) -> Option<Timestamp> {
        active_deadline(pod, status).filter(|d| *d > Timestamp::now())
    }

    /// Cgroup, folders, volumes, credentials.
    async fn prepare(
        &self,
        pod: &Arc<Pod>,
        view: &RuntimePod,
        memory: &mut PodMemory,
    ) -> Result<Prepared, Timestamp> {
        let now = Timestamp::now();
        if !memory.prepared && self.runtime.is_real() {
            if let Err(e) = self.cgroups.create_pod(pod) {
                self.pod_event(
                    pod,
                    EventText::warning(
                        "FailedToCreatePodContainer",
                        format!("unable to ensure pod container exists: {e}"),
                    ),
                );
                return Err(now + BACK_OFF_PERIOD);
            }
            if let Err(e) = std::fs::create_dir_all(self.pod_dir(pod.pod_uid())) {
                self.pod_event(
                    pod,
                    EventText::warning("Failed", format!("error making pod data directories: {e}")),
                );
                return Err(now + BACK_OFF_PERIOD);
            }
        }
        memory.prepared = true;
        let (volumes, failed) = self.volumes.mount(pod, &self.volume_facts(view)).await;
        if !failed.is_empty() {
            for (name, error) in failed {
                let text = format!("MountVolume.SetUp failed for volume \"{name}\" : {error}");
                self.pod_event(pod, EventText::warning("FailedMount", text));
            }
            let wait = memory.mount_wait.map_or(MOUNT_WAIT, |w| (w * 2).min(MAX_MOUNT_WAIT));
            memory.mount_wait = Some(wait);
            return Err(now + wait);
        }
        memory.mount_wait = None;
        let running = pod.all_containers().all(|c| view.container(&c.name).is_some());
        let keyring = if running { Keyring::default() } else { self.pull_keyring(pod).await };
        Ok(Prepared { volumes, keyring })
    }

    #[expect(clippy::too_many_arguments, reason = "one call site; a struct would only repeat the names")]
    async fn execute(
        self: &Arc<Self>,
        pod: &Arc<Pod>,
        mut view: RuntimePod,
        actions: Vec<PodAction>,
        prepared: &Prepared,
        memory: &mut PodMemory,
        stop: &CancellationToken,
        outcome: &mut Outcome,
    ) {
        let ephemeral = ephemeral_containers(pod);
        // As the plan saw it: what it kills now is no reason to wait.
        let planned = view.clone();
        let remakes = actions.iter().any(|action| matches!(action, PodAction::CreateSandbox { .. }));
        if remakes && !view.sandboxes.is_empty() {
            let text = "Pod sandbox changed, it will be killed and re-created.";
            self.pod_event(pod, EventText::normal("SandboxChanged", text));
        }
        for action in actions {
            if stop.is_cancelled() {
                return;
            }
            use crate::pod::ContainerKind::{Ephemeral, Init, Regular};
            let (kind, container) = match action {
                PodAction::KillPod => {
                    self.kill_pod(pod, &view, None).await;
                    outcome.again = true;
                    continue;
                }
                PodAction::KillContainer { id, name, message, reason } => {
                    self.kill_container(pod, &id, &name, Some(message), reason, None).await;
                    outcome.again = true;
                    view = self.view(pod.pod_uid()).await.unwrap_or(view);
                    continue;
                }
                PodAction::CreateSandbox { attempt } => {
                    if let Err(at) = self.create_sandbox(pod, attempt, memory).await {
                        outcome.sooner(at);
                        return;
                    }
                    view = self.view(pod.pod_uid()).await.unwrap_or(view);
                    outcome.again = true;
                    continue;
                }
                PodAction::BackOff { container, until, message } => {
                    self.tell_back_off(pod, &container);
                    // Told at the start of the next round, as the real one does: until then the pod shows why it ended. A long
                    // back-off is told long before it is over.
                    memory.errors.insert(container, ("CrashLoopBackOff".to_owned(), message));
                    outcome.sooner(until.min(Timestamp::now() + BACK_OFF_PERIOD));
                    continue;
                }
                PodAction::StartEphemeralContainer(i) => (Ephemeral, &ephemeral[i]),
                PodAction::StartInitContainer(i) => (Init, &pod.init_containers()[i]),
                PodAction::StartContainer(i) => (Regular, &pod.containers()[i]),
            };
            let last_exit = planned.last_exit(&container.name);
            let started =
                self.start_container(pod, kind, container, &view, last_exit, prepared, memory, stop).await;
            match started {
                Ok(()) => {
                    memory.errors.remove(&container.name);
                    outcome.again = true;
                }
                Err(error) => {
                    outcome.sooner(error.until.unwrap_or(Timestamp::now() + BACK_OFF_PERIOD));
                    // Told at the start of the next round, which the new sandbox's event or the back-off brings: so
                    // `ErrImagePull` is seen before `ImagePullBackOff` takes its place.
                    memory.errors.insert(container.name.clone(), (error.reason, error.message));
                }
            }
        }
    }

    fn tell_back_off(&self, pod: &Pod, container: &str) {
        if let Some((kind, _)) = crate::pod::find_container(pod, container) {
            let text = format!("Back-off restarting failed container {container} in pod {}", pod.format());
            self.container_event(pod, kind, container, EventText::warning("BackOff", text));
        }
    }

    /// Makes a sandbox; on failure returns when to try again.
    async fn create_sandbox(
        &self,
        pod: &Arc<Pod>,
        attempt: u32,
        memory: &mut PodMemory,
    ) -> Result<(), Timestamp> {
        let facts = self.facts.load_full();
        if !memory.dns_told {
            for text in crate::dns::pod_dns(pod, &facts.dns).1 {
                self.pod_event(pod, EventText::warning("DNSConfigForming", text));
            }
            memory.dns_told = true;
        }
        let config = pod_sandbox_config(pod, attempt, &self.cgroups.parent_of(pod), &facts);
        if self.runtime.is_real()
            && let Err(e) = std::fs::create_dir_all(&config.log_directory)
        {
            self.pod_event(pod, EventText::warning("Failed", format!("create pod log directory: {e}")));
            return Err(Timestamp::now() + BACK_OFF_PERIOD);
        }
        match self.runtime.run_pod_sandbox(&config).await {
            Ok(_) => {
                let object = object_name("Pod", Some(pod.pod_namespace()), pod.pod_name());
                journey_step!(
                    Stage::Kubelet,
                    object,
                    format!("made sandbox {attempt}"),
                    "the pod has no ready sandbox"
                );
                Ok(())
            }
            Err(e) => {
                let text = format!("Failed to create pod sandbox: rpc error: code = Unknown desc = {e}");
                self.pod_event(pod, EventText::warning("FailedCreatePodSandBox", text));
                Err(Timestamp::now() + BACK_OFF_PERIOD)
            }
        }
    }
}

/// When a pod has been active too long: `activeDeadlineSeconds` after its start.
pub fn active_deadline(pod: &Pod, status: &PodStatus) -> Option<Timestamp> {
    let seconds = pod.spec_ref().active_deadline_seconds?;
    let start = status.start_time.as_ref()?.0;
    Some(start + SignedDuration::from_secs(seconds))
}
