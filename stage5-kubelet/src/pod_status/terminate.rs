//! The last status: no container of a finished pod may look alive.
//!
//! *Step 5 of a pod's journey.* Before: everything of the pod has been stopped and cleaned up. After: the object can be deleted.
//!
//! # Invariants
//! 1. The phase is terminal afterwards.
//! 2. What was never proven to have succeeded counts as failed (137, `ContainerStatusUnknown`).
//!
//! # In Kubernetes
//! `TerminatePod`, `hasPodInitialized` and `initializedContainers` in `pkg/kubelet/status/status_manager.go`.

use k8s_openapi::api::core::v1::{ContainerState, ContainerStateTerminated, ContainerStatus, Pod, PodStatus};

use crate::pod::{PodExt, is_sidecar};

/// The status to tell when nothing of the pod is left on the node.
pub fn terminate_pod(pod: &Pod, status: &PodStatus) -> PodStatus {
    let mut status = status.clone();
    if has_pod_initialized(pod, &status) {
        status.container_statuses.iter_mut().flatten().for_each(mark_terminated);
    }
    let init = status.init_container_statuses.as_deref_mut().unwrap_or_default();
    // The tail of init containers that never started is left as it is.
    let started = init.iter().rposition(container_has_run).map_or(0, |i| i + 1);
    init[..started].iter_mut().for_each(mark_terminated);
    if !matches!(status.phase.as_deref(), Some("Succeeded" | "Failed")) {
        status.phase = Some("Failed".to_owned());
    }
    status
}

fn mark_terminated(status: &mut ContainerStatus) {
    if status.state.as_ref().is_some_and(|s| s.terminated.is_some()) {
        return;
    }
    let terminated = ContainerStateTerminated {
        exit_code: 137,
        reason: Some("ContainerStatusUnknown".to_owned()),
        message: Some("The container could not be located when the pod was terminated".to_owned()),
        ..ContainerStateTerminated::default()
    };
    status.state = Some(ContainerState { terminated: Some(terminated), ..ContainerState::default() });
}

fn container_has_run(s: &ContainerStatus) -> bool {
    let run = |x: &Option<ContainerState>| {
        x.as_ref().is_some_and(|x| x.running.is_some() || x.terminated.is_some())
    };
    run(&s.state) || run(&s.last_state)
}

fn has_pod_initialized(pod: &Pod, status: &PodStatus) -> bool {
    let Some(last) = pod.init_containers().last() else { return true };
    if status.container_statuses.iter().flatten().any(container_has_run) {
        return true;
    }
    let last_status = status.init_container_statuses.iter().flatten().find(|s| s.name == last.name);
    last_status.is_some_and(|s| {
        let done = s.state.as_ref().and_then(|x| x.terminated.as_ref()).is_some_and(|t| t.exit_code == 0);
        if is_sidecar(last) { s.started == Some(true) } else { done }
    })
}
