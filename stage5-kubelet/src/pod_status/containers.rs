//! Container statuses: one entry for every container of the spec.
//!
//! *Step 5 of a pod's journey.* Before: containers as the runtime lists them, newest first. After: phase and conditions.
//!
//! The newest container of a name gives `state`, the one before it `lastState`. A container that the runtime does not know
//! waits (`ContainerCreating`), and if the last try to start it failed, the reason for that is what users need to see.
//!
//! # Invariants
//! 1. The entries are the spec's containers, in its order.
//! 2. `restartCount` never falls.
//!
//! # In Kubernetes
//! `convertToAPIContainerStatuses` in `pkg/kubelet/kubelet_pods.go`, `UpdatePodStatus` in `prober/prober_manager.go`.

use k8s_openapi::api::core::v1::{
    Container, ContainerState as State, ContainerStateRunning, ContainerStateTerminated,
    ContainerStateWaiting, ContainerStatus, PodStatus, VolumeMountStatus,
};

use super::{StatusInput, seconds};
use crate::cri::ContainerState;
use crate::pod::{PodExt, ephemeral_containers, is_sidecar};
use crate::pod_actions::should_container_be_restarted;
use crate::runtime_view::{ProbeResult, RuntimeContainer};

/// Fills the three lists of container statuses.
pub(super) fn fill_container_statuses(input: &StatusInput<'_>, status: &mut PodStatus) {
    let pod = input.pod;
    let has_init = !pod.init_containers().is_empty();
    let waiting = if has_init { "PodInitializing" } else { "ContainerCreating" };
    let old = input.previous;
    let make = |list: &[Container], old: &Option<Vec<ContainerStatus>>, init: bool| {
        let old = old.as_deref().unwrap_or_default();
        let one =
            |c: &Container| container_status(input, c, old.iter().find(|s| s.name == c.name), waiting, init);
        (!list.is_empty()).then(|| list.iter().map(one).collect())
    };
    status.container_statuses = make(pod.containers(), &old.container_statuses, false);
    status.init_container_statuses = make(pod.init_containers(), &old.init_container_statuses, true);
    let ephemeral = ephemeral_containers(pod);
    status.ephemeral_container_statuses = make(&ephemeral, &old.ephemeral_container_statuses, false);
    for s in status.ephemeral_container_statuses.iter_mut().flatten() {
        // Ephemeral containers have no probes and no readiness.
        s.ready = false;
        s.started = None;
    }
}

fn container_status(
    input: &StatusInput<'_>,
    container: &Container,
    old: Option<&ContainerStatus>,
    default_waiting: &str,
    init: bool,
) -> ContainerStatus {
    let mut known = input.runtime.containers.iter().filter(|c| c.name == container.name);
    let mut status = match known.next() {
        Some(newest) => {
            let mut status = from_runtime(input, newest);
            status.last_state = Some(known.next().map_or_else(State::default, |c| state_of(input, c)));
            status
        }
        None => without_runtime(input, container, old, default_waiting),
    };
    if let Some((reason, message)) = input.errors.get(&container.name)
        && should_container_be_restarted(container, input.pod, input.runtime)
    {
        let before = status.state.take().unwrap_or_default();
        if before.terminated.is_some() {
            status.last_state = Some(before);
        }
        status.state = Some(waiting(reason, message));
    }
    status.volume_mounts = volume_mounts(container);
    apply_probes(input, container, &mut status, init);
    status
}

/// `started` and `ready`, from the probes.
fn apply_probes(input: &StatusInput<'_>, container: &Container, status: &mut ContainerStatus, init: bool) {
    let running = status.state.as_ref().is_some_and(|s| s.running.is_some());
    let probed = input.runtime.container(&container.name);
    let passed = |probe: bool, result: Option<ProbeResult>| !probe || result == Some(ProbeResult::Success);
    if init && !is_sidecar(container) {
        let done =
            status.state.as_ref().and_then(|s| s.terminated.as_ref()).is_some_and(|t| t.exit_code == 0);
        status.ready = done;
        status.started = Some(running);
        return;
    }
    let started = running && passed(container.startup_probe.is_some(), probed.and_then(|p| p.startup));
    status.started = Some(started);
    status.ready = started && passed(container.readiness_probe.is_some(), probed.and_then(|p| p.readiness));
}

fn waiting(reason: &str, message: &str) -> State {
    let message = (!message.is_empty()).then(|| message.to_owned());
    State {
        waiting: Some(ContainerStateWaiting { reason: Some(reason.to_owned()), message }),
        ..State::default()
    }
}

fn without_runtime(
    input: &StatusInput<'_>,
    container: &Container,
    old: Option<&ContainerStatus>,
    default_waiting: &str,
) -> ContainerStatus {
    if let Some(old) = old.filter(|o| o.state.as_ref().is_some_and(|s| s.terminated.is_some())) {
        return old.clone();
    }
    let mut status = ContainerStatus {
        name: container.name.clone(),
        image: container.image.clone().unwrap_or_default(),
        state: Some(waiting(default_waiting, "")),
        last_state: Some(old.and_then(|o| o.last_state.clone()).unwrap_or_default()),
        restart_count: old.map_or(0, |o| o.restart_count),
        ..ContainerStatus::default()
    };
    if old.is_some_and(|o| o.state.as_ref().is_some_and(|s| s.running.is_some())) {
        // It ran, and the runtime has forgotten it: nobody knows how it ended.
        let lost = ContainerStateTerminated {
            exit_code: 137,
            reason: Some("ContainerStatusUnknown".to_owned()),
            message: Some(
                "The container could not be located when the pod was deleted.  The container used to be Running".to_owned(),
            ),
            ..ContainerStateTerminated::default()
        };
        status.last_state = Some(State { terminated: Some(lost), ..State::default() });
        status.restart_count += i32::from(!input.pod.is_deleting());
    }
    status
}

fn from_runtime(input: &StatusInput<'_>, c: &RuntimeContainer) -> ContainerStatus {
    ContainerStatus {
        name: c.name.clone(),
        image: c.image.clone(),
        image_id: c.image_id.clone(),
        container_id: Some(container_id(input, c)),
        restart_count: c.restart_count,
        state: Some(state_of(input, c)),
        ..ContainerStatus::default()
    }
}

fn container_id(input: &StatusInput<'_>, c: &RuntimeContainer) -> String {
    format!("{}://{}", input.scheme, c.id)
}

fn state_of(input: &StatusInput<'_>, c: &RuntimeContainer) -> State {
    let text = |s: &str| (!s.is_empty()).then(|| s.to_owned());
    match c.state {
        ContainerState::Running => {
            let started_at = Some(seconds(c.started_at.unwrap_or(c.created_at)));
            State { running: Some(ContainerStateRunning { started_at }), ..State::default() }
        }
        // A container that was made and never started lost its kubelet: nobody will start it any more.
        ContainerState::Exited | ContainerState::Created => {
            let terminated = ContainerStateTerminated {
                exit_code: c.exit_code,
                reason: text(&c.reason),
                message: text(&c.message),
                // Go's zero time of a container that never started.
                started_at: Some(seconds(c.started_at.unwrap_or_default())),
                finished_at: Some(seconds(c.finished_at.unwrap_or_default())),
                container_id: Some(container_id(input, c)),
                signal: None,
            };
            State { terminated: Some(terminated), ..State::default() }
        }
        ContainerState::Unknown => {
            let terminated = ContainerStateTerminated {
                exit_code: 137,
                reason: Some("ContainerStatusUnknown".to_owned()),
                message: Some("The container could not be located when the pod was terminated".to_owned()),
                container_id: Some(container_id(input, c)),
                ..ContainerStateTerminated::default()
            };
            State { terminated: Some(terminated), ..State::default() }
        }
    }
}

fn volume_mounts(container: &Container) -> Option<Vec<VolumeMountStatus>> {
    let mounts = container.volume_mounts.as_ref().filter(|m| !m.is_empty())?;
    let one = |m: &k8s_openapi::api::core::v1::VolumeMount| VolumeMountStatus {
        name: m.name.clone(),
        mount_path: m.mount_path.clone(),
        read_only: m.read_only.filter(|ro| *ro),
        recursive_read_only: m.read_only.filter(|ro| *ro).map(|_| "Disabled".to_owned()),
    };
    Some(mounts.iter().map(one).collect())
}
