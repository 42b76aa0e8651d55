//! Pod actions: what must happen for the runtime to match the spec.
//!
//! *Step 5 of a pod's journey.* Before: the scheduler bound the pod to this node, [`crate::pod_workers`] woke up for it. After:
//! [`crate::sync_pod`] carries the actions out, in the order of the list.
//!
//! This is the kubelet's heart and it is a pure function: the pod's spec, what the runtime has, the back-off entries and the
//! time go in, a list of actions comes out. Nothing is remembered between two calls, so a kubelet that was killed in the
//! middle of anything finds the rest of the work by asking again.
//!
//! The questions, in order. Is there one ready sandbox with a network? If not: kill what is left and make one, unless the
//! pod has done its work. Are the init containers through, sidecars apart? If not: start the next one. Is each regular container
//! running, with the spec's image, and not failing its probes? If not: kill, restart or wait, by the restart policy. Is
//! nothing left that runs or shall run? Then stop the pod: that also ends the sidecars.
//!
//! The subtle thing is that init containers are judged from the last to the first: a later one that has run proves that
//! the earlier ones succeeded, even when their remains were garbage collected.
//!
//! # Invariants
//! 1. A deleted pod never starts anything.
//! 2. A container is never started while the one before it (same name) may still run.
//! 3. With `restartPolicy: Never` no regular container is ever started twice.
//! 4. An ordinary init container is started only when all before it succeeded.
//!
//! # In Kubernetes
//! `pkg/kubelet/kuberuntime/kuberuntime_manager.go` (`computePodActions`, `computeInitContainerActions`, `doBackOff`),
//! `util/util.go` (`PodSandboxChanged`). Left out: in-place resize, resizing of sandboxes.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Container, Pod};

use crate::backoff::Backoffs;
use crate::cri::{ContainerState, SandboxState};
use crate::pod::{PodExt, ephemeral_containers, hash_container, is_sidecar};
use crate::runtime_view::{ProbeResult, RuntimeContainer, RuntimePod};

mod init;

/// Why a container is killed; a failed probe may have a grace period of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KillReason {
    /// The spec asks for another container.
    DefinitionChanged,
    /// The liveness probe failed.
    LivenessProbe,
    /// The startup probe failed.
    StartupProbe,
    /// The runtime lost track of it.
    Unknown,
    /// The whole pod stops.
    PodStops,
}

/// One thing to do for a pod.
#[derive(Clone, Debug, PartialEq)]
pub enum PodAction {
    /// Stop everything of the pod, sandboxes included.
    KillPod,
    /// Stop one container.
    KillContainer {
        /// Which.
        id: String,
        /// Its name in the spec.
        name: String,
        /// Text of the `Killing` event.
        message: String,
        /// Why.
        reason: KillReason,
    },
    /// Make a sandbox.
    CreateSandbox {
        /// Its number, counted from zero.
        attempt: u32,
    },
    /// Start `spec.ephemeralContainers[i]`.
    StartEphemeralContainer(usize),
    /// Start `spec.initContainers[i]`.
    StartInitContainer(usize),
    /// Start `spec.containers[i]`.
    StartContainer(usize),
    /// Not yet: the container failed too recently.
    BackOff {
        /// Its name in the spec.
        container: String,
        /// When it may be tried.
        until: Timestamp,
        /// `back-off 10s restarting failed container=c pod=p_ns(uid)`
        message: String,
    },
}

/// Whether the pod needs a sandbox, and which attempt that would be.
pub fn pod_sandbox_changed(pod: &Pod, runtime: &RuntimePod) -> Option<u32> {
    let Some(newest) = runtime.sandboxes.first() else { return Some(0) };
    let ready = runtime.sandboxes.iter().filter(|s| s.state == SandboxState::Ready).count();
    let broken = ready > 1
        || newest.state != SandboxState::Ready
        || newest.host_network != pod.host_network()
        || (!pod.host_network() && newest.ips.is_empty());
    broken.then_some(newest.metadata.attempt + 1)
}

/// Whether a container that is not running should be started.
pub fn should_container_be_restarted(container: &Container, pod: &Pod, runtime: &RuntimePod) -> bool {
    if pod.is_deleting() {
        return false;
    }
    let Some(status) = runtime.container(&container.name) else { return true };
    match status.state {
        ContainerState::Running => false,
        ContainerState::Created | ContainerState::Unknown => true,
        ContainerState::Exited => match pod.restart_policy() {
            "Never" => false,
            "OnFailure" => status.exit_code != 0,
            _ => true,
        },
    }
}

/// What is collected before the actions are put in order.
#[derive(Default)]
struct Changes {
    kill_pod: bool,
    sandbox: Option<u32>,
    kill: Vec<PodAction>,
    ephemeral: Vec<usize>,
    init: Vec<usize>,
    start: Vec<usize>,
}

// ANCHOR: compute-pod-actions
/// What must happen for the runtime to match the spec. Same arguments, same actions.
pub fn compute_pod_actions(
    pod: &Pod,
    runtime: &RuntimePod,
    backoffs: &Backoffs,
    now: Timestamp,
) -> Vec<PodAction> {
    let changes = match pod_sandbox_changed(pod, runtime) {
        Some(attempt) => with_new_sandbox(pod, runtime, attempt),
        None => in_running_sandbox(pod, runtime),
    };
    let mut actions = Vec::new();
    if changes.kill_pod && (changes.sandbox.is_none() || !runtime.sandboxes.is_empty()) {
        actions.push(PodAction::KillPod);
    }
    if changes.kill_pod && changes.sandbox.is_none() {
        return actions;
    }
    actions.extend(changes.kill);
    actions.extend(changes.sandbox.map(|attempt| PodAction::CreateSandbox { attempt }));
    actions.extend(changes.ephemeral.into_iter().map(PodAction::StartEphemeralContainer));
    for i in changes.init {
        let wait = back_off(pod, &pod.init_containers()[i], runtime, backoffs, now);
        actions.push(wait.unwrap_or(PodAction::StartInitContainer(i)));
    }
    for i in changes.start {
        let wait = back_off(pod, &pod.containers()[i], runtime, backoffs, now);
        actions.push(wait.unwrap_or(PodAction::StartContainer(i)));
    }
    actions
}
// ANCHOR_END: compute-pod-actions

/// The key under which a container's restarts are counted: a new image starts afresh.
pub fn back_off_key(pod: &Pod, container: &Container) -> String {
    format!("{}_{}_{}", pod.pod_uid(), container.name, hash_container(container))
}

fn back_off(
    pod: &Pod,
    container: &Container,
    runtime: &RuntimePod,
    backoffs: &Backoffs,
    now: Timestamp,
) -> Option<PodAction> {
    // Of one that a probe has condemned and that runs yet, the run before counts.
    let last_exit = runtime.last_exit(&container.name)?;
    let (until, wait) = backoffs.until(&back_off_key(pod, container), last_exit, now)?;
    let message = format!(
        "back-off {} restarting failed container={} pod={}",
        go_duration(wait),
        container.name,
        pod.format()
    );
    Some(PodAction::BackOff { container: container.name.clone(), until, message })
}

/// Go's `Duration.String()` for whole seconds: `10s`, `1m20s`, `5m0s`.
pub fn go_duration(d: SignedDuration) -> String {
    let s = d.as_secs();
    match (s / 3600, s / 60 % 60, s % 60) {
        (0, 0, s) => format!("{s}s"),
        (0, m, s) => format!("{m}m{s}s"),
        (h, m, s) => format!("{h}h{m}m{s}s"),
    }
}

fn with_new_sandbox(pod: &Pod, runtime: &RuntimePod, attempt: u32) -> Changes {
    let mut changes = Changes { kill_pod: true, sandbox: Some(attempt), ..Changes::default() };
    let done = |mut c: Changes| {
        c.sandbox = None;
        c
    };
    if pod.is_deleting()
        || (pod.restart_policy() == "Never" && attempt != 0 && !runtime.containers.is_empty())
    {
        return done(changes);
    }
    let on_failure = pod.restart_policy() == "OnFailure";
    let succeeded = |c: &Container| {
        runtime.container(&c.name).is_some_and(|s| s.state == ContainerState::Exited && s.exit_code == 0)
    };
    changes.start =
        (0..pod.containers().len()).filter(|&i| !(on_failure && succeeded(&pod.containers()[i]))).collect();
    if changes.start.is_empty() && has_any_regular_container_created(pod, runtime) {
        return done(changes);
    }
    if !pod.init_containers().is_empty() {
        changes.init = vec![0];
        changes.start.clear();
    }
    changes
}

fn has_any_regular_container_created(pod: &Pod, runtime: &RuntimePod) -> bool {
    pod.containers().iter().any(|c| runtime.container(&c.name).is_some())
}

fn in_running_sandbox(pod: &Pod, runtime: &RuntimePod) -> Changes {
    let mut changes = Changes::default();
    if pod.is_deleting() {
        return changes;
    }
    let ephemeral = ephemeral_containers(pod);
    changes.ephemeral =
        (0..ephemeral.len()).filter(|&i| runtime.container(&ephemeral[i].name).is_none()).collect();
    let initialized = init::compute_init_container_actions(pod, runtime, &mut changes);
    if changes.kill_pod || !initialized {
        return changes;
    }
    let mut keep = 0;
    for (i, container) in pod.containers().iter().enumerate() {
        match runtime.container(&container.name) {
            Some(status) if status.state == ContainerState::Running => {
                match kill_running(pod, container, status) {
                    None => keep += 1,
                    Some((kill, restart)) => {
                        changes.kill.push(kill);
                        changes.start.extend(restart.then_some(i));
                    }
                }
            }
            status if should_container_be_restarted(container, pod, runtime) => {
                changes.start.push(i);
                changes.kill.extend(status.filter(|s| s.state == ContainerState::Unknown).map(kill_unknown));
            }
            _ => {}
        }
    }
    if keep == 0 && changes.start.is_empty() {
        changes.kill_pod = true;
        changes.init.clear();
    }
    changes
}

fn kill_unknown(status: &RuntimeContainer) -> PodAction {
    PodAction::KillContainer {
        id: status.id.clone(),
        name: status.name.clone(),
        message: "Container is in \"CONTAINER_UNKNOWN\" state, try killing it before restart".to_owned(),
        reason: KillReason::Unknown,
    }
}

/// Why a running container must go, and whether another one takes its place.
fn kill_running(pod: &Pod, container: &Container, status: &RuntimeContainer) -> Option<(PodAction, bool)> {
    let mut restart = pod.restart_policy() != "Never";
    let (mut message, reason) = if status.hash != hash_container(container) {
        restart = true;
        (format!("Container {} definition changed", container.name), KillReason::DefinitionChanged)
    } else if status.liveness == Some(ProbeResult::Failure) {
        (format!("Container {} failed liveness probe", container.name), KillReason::LivenessProbe)
    } else if status.startup == Some(ProbeResult::Failure) {
        (format!("Container {} failed startup probe", container.name), KillReason::StartupProbe)
    } else {
        return None;
    };
    if restart {
        message.push_str(", will be restarted");
    }
    let kill =
        PodAction::KillContainer { id: status.id.clone(), name: container.name.clone(), message, reason };
    Some((kill, restart))
}

/// Whether an init container counts as started, for what comes after it.
pub fn sidecar_has_started(container: &Container, status: &RuntimeContainer) -> bool {
    is_sidecar(container)
        && status.state == ContainerState::Running
        && (container.startup_probe.is_none() || status.startup == Some(ProbeResult::Success))
}

#[cfg(test)]
mod tests;
