//! Init containers: which one is next.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::pod_actions`] found the sandbox ready. After: it looks at the regular containers, if
//! these here are through.
//!
//! Judged from the last to the first. The first one (from the end) that the runtime knows proves that everything before it
//! was initialized; below that only sidecars matter, for they must stay alive.
//!
//! # Invariants
//! 1. At most one ordinary init container is started at a time.
//! 2. An ordinary init container that succeeded is never run again in the same sandbox.
//!
//! # In Kubernetes
//! `computeInitContainerActions` of `pkg/kubelet/kuberuntime/kuberuntime_container.go`.

use k8s_openapi::api::core::v1::{Container, Pod};

use super::{Changes, KillReason, PodAction, has_any_regular_container_created, sidecar_has_started};
use crate::cri::ContainerState;
use crate::pod::{PodExt, is_sidecar};
use crate::runtime_view::{ProbeResult, RuntimeContainer, RuntimePod};

/// What the state of one init container means for the walk.
enum Verdict {
    /// Nothing to do about it.
    Wait,
    /// It is through (or a started sidecar): the one after it is next.
    Done,
    /// Start it (again).
    Start,
    /// The pod has failed.
    Failed,
}

// ANCHOR: init-containers
/// Adds the init containers to start or kill; returns whether the pod is initialized.
pub(super) fn compute_init_container_actions(pod: &Pod, runtime: &RuntimePod, changes: &mut Changes) -> bool {
    let containers = pod.init_containers();
    let mut initialized = containers.is_empty() || has_any_regular_container_created(pod, runtime);
    let mut seen_later = initialized;
    let mut start = Vec::new();
    for (i, container) in containers.iter().enumerate().rev() {
        let sidecar = is_sidecar(container);
        let Some(status) = runtime.container(&container.name) else {
            // Once initialized, a sidecar whose remains are gone has to come back.
            start.extend((seen_later && sidecar).then_some(i));
            continue;
        };
        if seen_later && !sidecar {
            continue;
        }
        match judge(pod, container, status, &mut changes.kill) {
            Verdict::Wait => {}
            Verdict::Start => start.push(i),
            Verdict::Failed => {
                changes.kill_pod = true;
                return false;
            }
            Verdict::Done if seen_later => {}
            Verdict::Done if i + 1 == containers.len() => initialized = true,
            Verdict::Done => start.push(i + 1),
        }
        seen_later = true;
    }
    if !seen_later {
        start.push(0);
    }
    start.reverse();
    start.dedup();
    changes.init = start;
    initialized
}
// ANCHOR_END: init-containers

fn judge(pod: &Pod, container: &Container, status: &RuntimeContainer, kill: &mut Vec<PodAction>) -> Verdict {
    let may_restart = pod.restart_policy() != "Never";
    let mut end = |message: String, reason| {
        kill.push(PodAction::KillContainer {
            id: status.id.clone(),
            name: status.name.clone(),
            message,
            reason,
        });
        Verdict::Start
    };
    match status.state {
        // Every container is started right after it was made; one that was not lost its kubelet in between.
        ContainerState::Created => Verdict::Start,
        ContainerState::Running if !is_sidecar(container) => Verdict::Wait,
        ContainerState::Running if status.startup == Some(ProbeResult::Failure) => {
            end(format!("Init container {} failed startup probe", container.name), KillReason::StartupProbe)
        }
        ContainerState::Running if status.liveness == Some(ProbeResult::Failure) => {
            end(format!("Init container {} failed liveness probe", container.name), KillReason::LivenessProbe)
        }
        ContainerState::Running if sidecar_has_started(container, status) => Verdict::Done,
        ContainerState::Running => Verdict::Wait,
        ContainerState::Exited if is_sidecar(container) => Verdict::Start,
        ContainerState::Exited if status.exit_code == 0 => Verdict::Done,
        ContainerState::Exited if may_restart => Verdict::Start,
        ContainerState::Exited => Verdict::Failed,
        ContainerState::Unknown if may_restart || is_sidecar(container) => end(
            "Init container is in \"CONTAINER_UNKNOWN\" state, try killing it before restart".to_owned(),
            KillReason::Unknown,
        ),
        ContainerState::Unknown => Verdict::Failed,
    }
}
