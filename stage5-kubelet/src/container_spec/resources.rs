//! Resources: cores and bytes as the kernel counts them.
//!
//! *Step 5 of a pod's journey.* Before: requests and limits of the spec. After: values for CRI ([`crate::cri::LinuxResources`]) and for the
//! pod's own cgroup ([`crate::cgroups`]).
//!
//! # Invariants
//! 1. A value is never below the kernel's minimum: two shares, a quota of 1 ms.
//! 2. `oom_score_adj` orders pods: Guaranteed before Burstable before BestEffort, and within Burstable by what they asked.
//!
//! # In Kubernetes
//! `pkg/kubelet/cm/helpers_linux.go`, `pkg/kubelet/qos/policy.go`, `kuberuntime_container_linux.go`. Left out: huge pages, memory QoS, swap.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use super::NodeFacts;
use crate::cri::LinuxResources;
use crate::pod::{PodExt, QosClass, is_sidecar, limit, request};
use crate::quantity::{milli_value, value};

/// Least weight that the kernel takes.
pub const MIN_SHARES: i64 = 2;
/// Greatest weight that the kernel takes.
pub const MAX_SHARES: i64 = 262_144;
/// Length of a CPU period, in microseconds.
pub const QUOTA_PERIOD: i64 = 100_000;
/// Least quota, in microseconds.
pub const MIN_QUOTA_PERIOD: i64 = 1_000;

/// Milli-cores as a relative weight.
pub fn milli_cpu_to_shares(milli: i64) -> i64 {
    (milli * 1024 / 1000).clamp(MIN_SHARES, MAX_SHARES)
}

/// Milli-cores as CPU time in a period, in microseconds; zero for no limit.
pub fn milli_cpu_to_quota(milli: i64) -> i64 {
    if milli <= 0 { 0 } else { (milli * QUOTA_PERIOD / 1000).max(MIN_QUOTA_PERIOD) }
}

/// The kernel's values for one container.
pub fn linux_resources(pod: &Pod, container: &Container, node: &NodeFacts) -> LinuxResources {
    let empty = Default::default();
    let r = container.resources.as_ref().unwrap_or(&empty);
    let cpu_request = request(r, "cpu").map_or(0, milli_value);
    let cpu_limit = limit(r, "cpu").map_or(0, milli_value);
    let unified = match node.cgroup_v2 {
        // One process out of memory ends the container, as users of v1 with pid 1 know it.
        true => BTreeMap::from([("memory.oom.group".to_owned(), "1".to_owned())]),
        false => BTreeMap::new(),
    };
    LinuxResources {
        cpu_period: QUOTA_PERIOD,
        cpu_quota: milli_cpu_to_quota(cpu_limit),
        cpu_shares: milli_cpu_to_shares(cpu_request),
        memory_limit_bytes: limit(r, "memory").map_or(0, value),
        oom_score_adj: oom_score_adj(pod, container, node.memory_bytes),
        unified,
    }
}

/// Priority from which on a pod is the node's own.
const SYSTEM_CRITICAL_PRIORITY: i32 = 2_000_001_000;
const GUARANTEED: i64 = -997;
const BEST_EFFORT: i64 = 1000;

/// How readily the kernel kills a container when memory runs out: from -997 to 1000.
pub fn oom_score_adj(pod: &Pod, container: &Container, node_memory_bytes: i64) -> i64 {
    if pod.spec_ref().priority.unwrap_or(0) >= SYSTEM_CRITICAL_PRIORITY {
        return GUARANTEED;
    }
    match pod.qos_class() {
        QosClass::Guaranteed => GUARANTEED,
        QosClass::BestEffort => BEST_EFFORT,
        QosClass::Burstable => {
            let of = |c: &Container| {
                let asked = c.resources.as_ref().and_then(|r| request(r, "memory")).map_or(0, value);
                1000 - 1000 * asked / node_memory_bytes.max(1)
            };
            let mut score = of(container);
            if is_sidecar(container) {
                // A sidecar must not die before the containers that need it.
                score = score.min(pod.containers().iter().map(of).min().unwrap_or(score));
            }
            score.clamp(1000 + GUARANTEED, BEST_EFFORT - 1)
        }
    }
}
