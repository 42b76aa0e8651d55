//! Conditions: five yes-or-no answers about a pod, each with a reason.
//!
//! *Step 5 of a pod's journey.* Before: phase and container statuses. After: `kubectl wait --for=condition=Ready`, the EndpointSlice
//! controller, rolling updates.
//!
//! # Invariants
//! 1. `Ready` is never true while `ContainersReady` is not.
//! 2. A finished pod is not ready, whatever its containers said last.
//!
//! # In Kubernetes
//! `pkg/kubelet/status/generate.go`, `updateLastTransitionTime` in `status_manager.go`.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodCondition, PodStatus};

use super::{all_container_statuses, seconds};
use crate::pod::{PodExt, is_sidecar};
use crate::pod_actions::pod_sandbox_changed;
use crate::runtime_view::RuntimePod;

/// The condition types that the kubelet owns, in the order in which it writes them.
pub const OWNED: [&str; 5] =
    ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"];

/// Conditions that others own.
pub(super) fn kept(previous: &PodStatus, pod: &Pod) -> Vec<PodCondition> {
    let source = pod.status.as_ref().and_then(|s| s.conditions.as_ref()).or(previous.conditions.as_ref());
    source.into_iter().flatten().filter(|c| !OWNED.contains(&c.type_.as_str())).cloned().collect()
}

fn condition(type_: &str, answer: bool, reason: &str, message: String) -> PodCondition {
    let text = |s: String| (!s.is_empty()).then_some(s);
    PodCondition {
        type_: type_.to_owned(),
        status: if answer { "True" } else { "False" }.to_owned(),
        reason: text(reason.to_owned()),
        message: text(message),
        ..PodCondition::default()
    }
}

/// The kubelet's five conditions.
pub(super) fn generate(
    pod: &Pod,
    runtime: &RuntimePod,
    status: &PodStatus,
    previous: &PodStatus,
) -> Vec<PodCondition> {
    let containers_ready = containers_ready(pod, status);
    let mut ready = if containers_ready.status == "True" {
        readiness_gates(pod, previous)
    } else {
        containers_ready.clone()
    };
    ready.type_ = "Ready".to_owned();
    vec![
        condition(OWNED[0], pod_sandbox_changed(pod, runtime).is_none(), "", String::new()),
        initialized(pod, status),
        ready,
        containers_ready,
        condition("PodScheduled", true, "", String::new()),
    ]
}

/// `lastTransitionTime`: from the previous status where the answer is the same, else now.
pub(super) fn keep_transition_times(conditions: &mut [PodCondition], previous: &PodStatus, now: Timestamp) {
    for c in conditions.iter_mut().filter(|c| OWNED.contains(&c.type_.as_str())) {
        let old = find(previous, &c.type_).filter(|old| old.status == c.status);
        c.last_transition_time =
            old.and_then(|o| o.last_transition_time.clone()).or_else(|| Some(seconds(now)));
    }
}

/// The condition of that type.
pub fn find<'a>(status: &'a PodStatus, type_: &str) -> Option<&'a PodCondition> {
    status.conditions.iter().flatten().find(|c| c.type_ == type_)
}

/// Whether any regular container runs or has run.
pub fn has_any_regular_container_started(pod: &Pod, status: &PodStatus) -> bool {
    let started = |s: &ContainerStatus| {
        let has_run = |x: &Option<k8s_openapi::api::core::v1::ContainerState>| {
            x.as_ref().is_some_and(|x| x.running.is_some() || x.terminated.is_some())
        };
        has_run(&s.state) || has_run(&s.last_state)
    };
    let statuses = status.container_statuses.as_deref().unwrap_or_default();
    pod.containers().iter().any(|c| statuses.iter().any(|s| s.name == c.name && started(s)))
}

/// Go's `%s` of a list of strings.
fn list(names: &[&str]) -> String {
    format!("[{}]", names.join(" "))
}

fn complaint(unknown: &[&str], bad: &[&str], word: &str) -> String {
    let mut parts = Vec::new();
    if !unknown.is_empty() {
        parts.push(format!("containers with unknown status: {}", list(unknown)));
    }
    if !bad.is_empty() {
        parts.push(format!("containers with {word} status: {}", list(bad)));
    }
    parts.join(", ")
}

fn containers_ready(pod: &Pod, status: &PodStatus) -> PodCondition {
    const TYPE: &str = "ContainersReady";
    let (mut unknown, mut unready) = (Vec::new(), Vec::new());
    let sidecars = pod.init_containers().iter().filter(|c| is_sidecar(c));
    for c in sidecars.chain(pod.containers()) {
        match all_container_statuses(status).find(|s| s.name == c.name) {
            None => unknown.push(c.name.as_str()),
            Some(s) if !s.ready => unready.push(c.name.as_str()),
            Some(_) => {}
        }
    }
    match status.phase.as_deref() {
        Some("Succeeded") if unknown.is_empty() => {
            return condition(TYPE, false, "PodCompleted", String::new());
        }
        Some("Failed") => return condition(TYPE, false, "PodFailed", String::new()),
        _ => {}
    }
    let message = complaint(&unknown, &unready, "unready");
    let reason = if message.is_empty() { "" } else { "ContainersNotReady" };
    condition(TYPE, message.is_empty(), reason, message)
}

fn readiness_gates(pod: &Pod, previous: &PodStatus) -> PodCondition {
    let source = pod.status.as_ref().unwrap_or(previous);
    let mut messages = Vec::new();
    for gate in pod.spec_ref().readiness_gates.iter().flatten() {
        let name = &gate.condition_type;
        match find(source, name) {
            None => messages
                .push(format!("corresponding condition of pod readiness gate \"{name}\" does not exist.")),
            Some(c) if c.status != "True" => {
                messages.push(format!(
                    "the status of pod readiness gate \"{name}\" is not \"True\", but {}",
                    c.status
                ));
            }
            Some(_) => {}
        }
    }
    let reason = if messages.is_empty() { "" } else { "ReadinessGatesNotReady" };
    condition("Ready", messages.is_empty(), reason, messages.join(", "))
}

fn initialized(pod: &Pod, status: &PodStatus) -> PodCondition {
    const TYPE: &str = "Initialized";
    let (mut unknown, mut incomplete) = (Vec::new(), Vec::new());
    for c in pod.init_containers() {
        match all_container_statuses(status).find(|s| s.name == c.name) {
            None => unknown.push(c.name.as_str()),
            Some(s) if is_sidecar(c) && s.started != Some(true) => incomplete.push(c.name.as_str()),
            Some(s) if !is_sidecar(c) && !s.ready => incomplete.push(c.name.as_str()),
            Some(_) => {}
        }
    }
    if status.phase.as_deref() == Some("Succeeded") && unknown.is_empty() {
        return condition(TYPE, true, "PodCompleted", String::new());
    }
    if has_any_regular_container_started(pod, status) {
        return condition(TYPE, true, "", String::new());
    }
    let message = complaint(&unknown, &incomplete, "incomplete");
    let reason = if message.is_empty() { "" } else { "ContainersNotInitialized" };
    condition(TYPE, message.is_empty(), reason, message)
}
