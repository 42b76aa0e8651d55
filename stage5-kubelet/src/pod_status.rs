//! Pod status: what the API server is told about a pod.
//!
//! *Step 5 of a pod's journey.* Before: the runtime's view changed, or a probe's result. After: [`crate::status_manager`] sends the
//! difference; controllers, the proxy and `kubectl get pods` read it.
//!
//! One pure function joins five sources: the spec (which containers there should be), the runtime (what they do), the
//! previous status (what was known of containers that are gone, since when a condition holds), the errors of the last try
//! to start something (why a container waits) and the probes (whether it is ready).
//!
//! The order matters: containers first, then the phase from the containers, then the conditions from both. A terminal
//! phase is never left again.
//!
//! # Invariants
//! 1. `Succeeded` and `Failed` are final.
//! 2. A condition's `lastTransitionTime` changes only with its `status`.
//! 3. Conditions of others (readiness gates) are kept as they are.
//!
//! # In Kubernetes
//! `generateAPIPodStatus` and its callees in `pkg/kubelet/kubelet_pods.go`, `pkg/kubelet/status/generate.go`. Left out: resize status,
//! allocated resources, user ids of containers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{ContainerStatus, HostIP, Pod, PodIP, PodStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::pod::PodExt;
use crate::runtime_view::RuntimePod;

pub mod conditions;
mod containers;
mod phase;
mod terminate;

pub use phase::get_phase;
pub use terminate::terminate_pod;

/// Why containers could not be started at the last try: name → (reason, message).
pub type StartErrors = BTreeMap<String, (String, String)>;

/// Everything that one status depends on.
#[derive(Clone, Copy)]
pub struct StatusInput<'a> {
    /// The pod.
    pub pod: &'a Pod,
    /// The runtime's view of it.
    pub runtime: &'a RuntimePod,
    /// The status told last.
    pub previous: &'a PodStatus,
    /// Errors of the last try to start something.
    pub errors: &'a StartErrors,
    /// Whether the pod's containers have been stopped for good.
    pub terminal: bool,
    /// Reason and message of the kubelet's own decision to end the pod.
    pub evicted: Option<(&'a str, &'a str)>,
    /// The node's addresses.
    pub host_ips: &'a [IpAddr],
    /// Scheme of container ids, `containerd`.
    pub scheme: &'a str,
    /// The time.
    pub now: Timestamp,
}

/// A time as the API writes it: whole seconds.
pub fn seconds(t: Timestamp) -> Time {
    Time(Timestamp::from_second(t.as_second()).unwrap_or(t))
}

// ANCHOR: generate-api-pod-status
/// The status to tell. Same input, same status.
pub fn generate_api_pod_status(input: &StatusInput<'_>) -> PodStatus {
    let StatusInput { pod, runtime, previous, .. } = *input;
    let mut status = PodStatus {
        qos_class: Some(pod.qos_class().as_str().to_owned()),
        start_time: previous.start_time.clone().or_else(|| Some(seconds(input.now))),
        nominated_node_name: previous.nominated_node_name.clone(),
        ..PodStatus::default()
    };
    containers::fill_container_statuses(input, &mut status);
    fill_phase(input, &mut status);
    fill_addresses(input, &mut status);
    let mut set = conditions::kept(previous, pod);
    set.extend(conditions::generate(pod, runtime, &status, previous));
    conditions::keep_transition_times(&mut set, previous, input.now);
    status.conditions = Some(set);
    status
}
// ANCHOR_END: generate-api-pod-status

fn fill_phase(input: &StatusInput<'_>, status: &mut PodStatus) {
    let StatusInput { pod, previous, .. } = *input;
    let mut phase = get_phase(pod, status, input.terminal);
    let final_phase = |p: Option<&str>| p.filter(|p| matches!(*p, "Failed" | "Succeeded")).map(str::to_owned);
    if final_phase(Some(&phase)).is_none() {
        let told = final_phase(previous.phase.as_deref());
        let stored = || final_phase(pod.status.as_ref().and_then(|s| s.phase.as_deref()));
        phase = told.or_else(stored).unwrap_or(phase);
    }
    if Some(&phase) == previous.phase.as_ref() {
        status.reason = previous.reason.clone();
        status.message = previous.message.clone();
    }
    if let Some((reason, message)) = input.evicted {
        phase = "Failed".to_owned();
        status.reason = Some(reason.to_owned());
        status.message = Some(message.to_owned());
    }
    status.phase = Some(phase);
}

fn fill_addresses(input: &StatusInput<'_>, status: &mut PodStatus) {
    let hosts: Vec<String> = input.host_ips.iter().map(ToString::to_string).collect();
    status.host_ip = hosts.first().cloned();
    status.host_ips = Some(hosts.iter().map(|ip| HostIP { ip: ip.clone() }).collect());
    let mut ips: Vec<String> = input.runtime.ips.clone();
    if ips.is_empty() {
        // The sandbox may be gone; what was told stays true for those who look at it afterwards.
        ips = input.previous.pod_ips.iter().flatten().map(|p| p.ip.clone()).collect();
    }
    if input.pod.host_network() && ips.is_empty() {
        ips = hosts;
    }
    status.pod_ip = ips.first().cloned();
    status.pod_ips = (!ips.is_empty()).then(|| ips.into_iter().map(|ip| PodIP { ip }).collect());
}

/// The status of a pod that this node refuses to run.
pub fn rejected_status(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> PodStatus {
    PodStatus {
        phase: Some("Failed".to_owned()),
        reason: Some(reason.to_owned()),
        message: Some(format!("Pod was rejected: {message}")),
        qos_class: Some(pod.qos_class().as_str().to_owned()),
        start_time: Some(seconds(now)),
        ..PodStatus::default()
    }
}

/// All container statuses of a status, init containers first.
pub fn all_container_statuses(status: &PodStatus) -> impl Iterator<Item = &ContainerStatus> {
    status.init_container_statuses.iter().flatten().chain(status.container_statuses.iter().flatten())
}

#[cfg(test)]
mod tests;
