//! Scopes: which pods a quota is about.
//!
//! All scopes of a quota must hold for a pod. Other objects are in no scope: a quota with scopes counts none of them.
//!
//! # In Kubernetes
//! `pkg/quota/v1/evaluator/core/pods.go` (`podMatchesScopeFunc`).

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, PodSpec, ResourceQuotaSpec};
use stage1_kubectl::quantity::Quantity;

use super::usage::amounts;

/// Whether the quota has scopes at all.
pub fn any(quota: &ResourceQuotaSpec) -> bool {
    let plain = quota.scopes.as_ref().is_some_and(|scopes| !scopes.is_empty());
    let selected = quota.scope_selector.as_ref().and_then(|selector| selector.match_expressions.as_ref());
    plain || selected.is_some_and(|expressions| !expressions.is_empty())
}

/// Whether the quota is about this pod.
pub fn matches(quota: &ResourceQuotaSpec, pod: &Pod) -> bool {
    let plain = quota.scopes.iter().flatten().all(|scope| holds(scope, "Exists", &[], pod));
    let selector = quota.scope_selector.iter().filter_map(|selector| selector.match_expressions.as_ref());
    plain
        && selector
            .flatten()
            .all(|one| holds(&one.scope_name, &one.operator, one.values.as_deref().unwrap_or_default(), pod))
}

fn holds(scope: &str, operator: &str, values: &[String], pod: &Pod) -> bool {
    let Some(spec) = &pod.spec else { return false };
    match scope {
        "Terminating" => is_terminating(spec),
        "NotTerminating" => !is_terminating(spec),
        "BestEffort" => is_best_effort(pod, spec),
        "NotBestEffort" => !is_best_effort(pod, spec),
        "PriorityClass" => {
            let class = spec.priority_class_name.as_ref().filter(|class| !class.is_empty());
            match operator {
                "In" => class.is_some_and(|class| values.contains(class)),
                "NotIn" => class.is_none_or(|class| !values.contains(class)),
                "DoesNotExist" => class.is_none(),
                _ => class.is_some(),
            }
        }
        "CrossNamespacePodAffinity" => reaches_other_namespaces(spec),
        _ => false,
    }
}

/// It has an end in sight.
fn is_terminating(spec: &PodSpec) -> bool {
    spec.active_deadline_seconds.is_some_and(|seconds| seconds >= 0)
}

/// No container asks for processor time or memory. The API server wrote the class down; without it, it is computed.
fn is_best_effort(pod: &Pod, spec: &PodSpec) -> bool {
    if let Some(class) = pod.status.as_ref().and_then(|status| status.qos_class.as_deref()) {
        return class == "BestEffort";
    }
    let containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
    let resources = containers.filter_map(|container| container.resources.as_ref());
    let mut asked = resources.flat_map(|resources| [&resources.requests, &resources.limits]);
    !asked.any(|asked| {
        let asked = amounts(asked.as_ref());
        ["cpu", "memory"]
            .iter()
            .any(|name| asked.get(*name).is_some_and(|amount: &Quantity| amount.sign() > 0))
    })
}

fn reaches_other_namespaces(spec: &PodSpec) -> bool {
    let Some(affinity) = &spec.affinity else { return false };
    let other = |term: &PodAffinityTerm| {
        term.namespaces.as_ref().is_some_and(|names| !names.is_empty()) || term.namespace_selector.is_some()
    };
    let near = affinity.pod_affinity.iter().flat_map(|one| {
        let preferred = one.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = one.required_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term))
    });
    let far = affinity.pod_anti_affinity.iter().flat_map(|one| {
        let preferred = one.preferred_during_scheduling_ignored_during_execution.iter().flatten();
        let required = one.required_during_scheduling_ignored_during_execution.iter().flatten();
        required.chain(preferred.map(|weighted| &weighted.pod_affinity_term))
    });
    near.chain(far).any(other)
}
