//! Phase: five words for a whole pod.
//!
//! *Step 5 of a pod's journey.* Before: the containers' states. After: the conditions, and every controller that counts pods.
//!
//! `Pending` while something has never run, `Running` while something runs or will be restarted, `Succeeded` or `Failed` when
//! nothing will ever run again.
//!
//! # Invariants
//! 1. `Running` with `restartPolicy: Always` never ends by itself.
//! 2. Sidecars alone keep no pod from succeeding.
//!
//! # In Kubernetes
//! `getPhase` in `pkg/kubelet/kubelet_pods.go`.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::all_container_statuses;
use super::conditions::has_any_regular_container_started;
use crate::pod::{PodExt, is_sidecar};

#[derive(Default)]
struct Tally {
    pending_init: usize,
    pending_sidecars: usize,
    failed_init: usize,
    unknown: usize,
    running: usize,
    waiting: usize,
    stopped: usize,
    succeeded: usize,
}

/// The phase that the container statuses in `status` amount to.
pub fn get_phase(pod: &Pod, status: &PodStatus, pod_is_terminal: bool) -> String {
    let find = |name: &str| all_container_statuses(status).find(|s| s.name == name);
    let mut tally = Tally::default();
    for c in pod.init_containers() {
        if is_sidecar(c) {
            count_sidecar(&mut tally, find(&c.name));
        } else {
            count_init(&mut tally, find(&c.name));
        }
    }
    for c in pod.containers() {
        count_regular(&mut tally, find(&c.name));
    }
    decide(pod, status, &tally, pod_is_terminal).to_owned()
}

fn decide(pod: &Pod, status: &PodStatus, t: &Tally, pod_is_terminal: bool) -> &'static str {
    let policy = pod.restart_policy();
    if t.failed_init > 0 && policy == "Never" {
        return "Failed";
    }
    let uninitialized = t.pending_init > 0 || t.failed_init > 0 || t.pending_sidecars > 0;
    if (uninitialized && !has_any_regular_container_started(pod, status)) || t.waiting > 0 {
        return "Pending";
    }
    if t.unknown > 0 {
        return "Pending";
    }
    if t.running > 0 {
        return "Running";
    }
    match (t.stopped, t.stopped == t.succeeded) {
        (0, _) => "Pending",
        (_, true) if pod_is_terminal => "Succeeded",
        (_, false) if pod_is_terminal => "Failed",
        _ if policy == "Always" => "Running",
        (_, true) => "Succeeded",
        _ if policy == "Never" => "Failed",
        _ => "Running",
    }
}

fn last_exit(s: &ContainerStatus) -> Option<i32> {
    Some(s.last_state.as_ref()?.terminated.as_ref()?.exit_code)
}

fn count_init(t: &mut Tally, status: Option<&ContainerStatus>) {
    let state = status.and_then(|s| s.state.as_ref());
    match state {
        Some(s) if s.terminated.is_some() => {
            t.failed_init += usize::from(s.terminated.as_ref().is_some_and(|x| x.exit_code != 0));
        }
        Some(s) if s.waiting.is_some() => match status.and_then(last_exit) {
            Some(0) => {}
            Some(_) => t.failed_init += 1,
            None => t.pending_init += 1,
        },
        _ => t.pending_init += 1,
    }
}

fn count_sidecar(t: &mut Tally, status: Option<&ContainerStatus>) {
    let Some(status) = status else {
        t.unknown += 1;
        return;
    };
    match status.state.as_ref() {
        Some(s) if s.running.is_some() => {
            t.pending_sidecars += usize::from(status.started != Some(true));
            t.running += 1;
        }
        // A sidecar that ended does not decide anything: it is restarted, or the pod is over.
        Some(s) if s.terminated.is_some() => {}
        Some(s) if s.waiting.is_some() && last_exit(status).is_some() => {}
        Some(s) if s.waiting.is_some() => {
            t.pending_sidecars += 1;
            t.waiting += 1;
        }
        _ => t.unknown += 1,
    }
}

fn count_regular(t: &mut Tally, status: Option<&ContainerStatus>) {
    match status.and_then(|s| Some((s, s.state.as_ref()?))) {
        Some((_, s)) if s.running.is_some() => t.running += 1,
        Some((_, s)) if s.terminated.is_some() => {
            t.stopped += 1;
            t.succeeded += usize::from(s.terminated.as_ref().is_some_and(|x| x.exit_code == 0));
        }
        Some((status, s)) if s.waiting.is_some() && last_exit(status).is_some() => t.stopped += 1,
        Some((_, s)) if s.waiting.is_some() => t.waiting += 1,
        _ => t.unknown += 1,
    }
}
