//! Admission: whether this node can run a pod that was bound to it.
//!
//! *Step 5 of a pod's journey.* Before: a pod with this node's name appears. After: [`crate::pod_workers`] runs it, or its status says why not.
//!
//! The scheduler has checked the same things, but from an older picture, and a pod may be bound by hand. What does not
//! fit here ends as `Failed` at once; its controller makes another one.
//!
//! # Invariants
//! 1. A pod that was admitted once is not asked again: a running pod is never rejected.
//! 2. Resources that the node does not count (extended ones) do not reject a pod.
//!
//! # In Kubernetes
//! `pkg/kubelet/lifecycle/predicate.go`, scheduler plugins `noderesources`, `nodeaffinity`, `tainttoleration` as the kubelet calls them.
//! Left out: topology, device and CPU managers, OS selector, preemption of less important pods by critical ones.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSelectorRequirement, NodeSelectorTerm, Pod, Taint, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::pod::{Pick, PodExt, pod_total};
use crate::quantity::{milli_value, value};

/// Why a pod is refused: `status.reason` and the message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    /// `OutOfcpu`, `NodeAffinity`, …
    pub reason: String,
    /// The text after `Pod was rejected: `.
    pub message: String,
}

fn reject(reason: impl Into<String>, message: impl Into<String>) -> Result<(), Rejection> {
    Err(Rejection { reason: reason.into(), message: message.into() })
}

// ANCHOR: can-admit-pod
/// Whether the node can run `pod` beside the `others` that it has admitted.
///
/// # Errors
/// The first reason against it.
pub fn can_admit_pod(pod: &Pod, node: &Node, others: &[&Pod]) -> Result<(), Rejection> {
    let allocatable = node.status.as_ref().and_then(|s| s.allocatable.clone()).unwrap_or_default();
    fits_resources(pod, &allocatable, others)?;
    if !matches_node_affinity(pod, node) {
        return reject(
            "NodeAffinity",
            "Predicate NodeAffinity failed: node(s) didn't match Pod's node affinity/selector",
        );
    }
    fits_ports(pod, others)?;
    if !pod.is_static() && untolerated_no_execute(pod, node).is_some() {
        return reject(
            "TaintToleration",
            "Predicate TaintToleration failed: node(s) had untolerated taint(s)",
        );
    }
    Ok(())
}
// ANCHOR_END: can-admit-pod

fn fits_resources(
    pod: &Pod,
    allocatable: &BTreeMap<String, Quantity>,
    others: &[&Pod],
) -> Result<(), Rejection> {
    let capacity = |name: &str, of: fn(&Quantity) -> i64| allocatable.get(name).map(of);
    if let Some(most) = capacity("pods", value)
        && others.len() as i64 + 1 > most
    {
        let text = format!(
            "Node didn't have enough resource: pods, requested: 1, used: {}, capacity: {most}",
            others.len()
        );
        return reject("OutOfpods", text);
    }
    for (name, of) in
        [("cpu", milli_value as fn(&Quantity) -> i64), ("memory", value), ("ephemeral-storage", value)]
    {
        let requested = pod_total(pod, name, Pick::Requests, of);
        let Some(most) = capacity(name, of) else { continue };
        let used: i64 = others.iter().map(|p| pod_total(p, name, Pick::Requests, of)).sum();
        if requested > 0 && requested + used > most {
            let text = format!(
                "Node didn't have enough resource: {name}, requested: {requested}, used: {used}, capacity: {most}"
            );
            return reject(format!("OutOf{name}"), text);
        }
    }
    Ok(())
}

fn fits_ports(pod: &Pod, others: &[&Pod]) -> Result<(), Rejection> {
    let ports = |p: &Pod| -> Vec<(String, i32, String)> {
        let all = p.containers().iter().flat_map(|c| c.ports.iter().flatten());
        all.filter(|x| x.host_port.unwrap_or(0) > 0)
            .map(|x| {
                let ip = x.host_ip.clone().filter(|i| !i.is_empty()).unwrap_or_else(|| "0.0.0.0".to_owned());
                (x.protocol.clone().unwrap_or_else(|| "TCP".to_owned()), x.host_port.unwrap_or(0), ip)
            })
            .collect()
    };
    let clash = |a: &(String, i32, String), b: &(String, i32, String)| {
        a.0 == b.0 && a.1 == b.1 && (a.2 == b.2 || a.2 == "0.0.0.0" || b.2 == "0.0.0.0")
    };
    let wanted = ports(pod);
    if others.iter().any(|o| ports(o).iter().any(|t| wanted.iter().any(|w| clash(w, t)))) {
        return reject(
            "NodePorts",
            "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports",
        );
    }
    Ok(())
}

/// Whether `spec.nodeSelector` and the required node affinity accept the node.
pub fn matches_node_affinity(pod: &Pod, node: &Node) -> bool {
    let empty = BTreeMap::new();
    let labels = node.metadata.labels.as_ref().unwrap_or(&empty);
    let selected = pod.spec_ref().node_selector.iter().flatten().all(|(k, v)| labels.get(k) == Some(v));
    let required = (|| {
        let affinity = pod.spec_ref().affinity.as_ref()?.node_affinity.as_ref()?;
        affinity.required_during_scheduling_ignored_during_execution.as_ref()
    })();
    let name = node.metadata.name.as_deref().unwrap_or_default();
    selected && required.is_none_or(|r| r.node_selector_terms.iter().any(|t| term_matches(t, labels, name)))
}

fn term_matches(term: &NodeSelectorTerm, labels: &BTreeMap<String, String>, name: &str) -> bool {
    let expressions = term.match_expressions.as_deref().unwrap_or_default();
    let fields = term.match_fields.as_deref().unwrap_or_default();
    // A term that asks for nothing selects nothing.
    (!expressions.is_empty() || !fields.is_empty())
        && expressions.iter().all(|e| requirement_matches(e, labels.get(&e.key).map(String::as_str)))
        && fields.iter().all(|e| e.key == "metadata.name" && requirement_matches(e, Some(name)))
}

fn requirement_matches(r: &NodeSelectorRequirement, actual: Option<&str>) -> bool {
    let values = r.values.as_deref().unwrap_or_default();
    let has = |v: &str| values.iter().any(|x| x == v);
    let number = |s: &str| s.parse::<i64>().ok();
    let bound = || values.first().and_then(|v| number(v));
    match r.operator.as_str() {
        "In" => actual.is_some_and(has),
        "NotIn" => !actual.is_some_and(has),
        "Exists" => actual.is_some(),
        "DoesNotExist" => actual.is_none(),
        "Gt" => actual.and_then(number).zip(bound()).is_some_and(|(a, b)| a > b),
        "Lt" => actual.and_then(number).zip(bound()).is_some_and(|(a, b)| a < b),
        _ => false,
    }
}

/// A `NoExecute` taint of the node that the pod does not tolerate.
pub fn untolerated_no_execute<'a>(pod: &Pod, node: &'a Node) -> Option<&'a Taint> {
    let tolerations = pod.spec_ref().tolerations.as_deref().unwrap_or_default();
    let taints = node.spec.as_ref()?.taints.as_deref()?;
    taints.iter().find(|t| t.effect == "NoExecute" && !tolerations.iter().any(|x| tolerates(x, t)))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let text = |s: &Option<String>| s.clone().unwrap_or_default();
    let (key, effect) = (text(&toleration.key), text(&toleration.effect));
    if !effect.is_empty() && effect != taint.effect {
        return false;
    }
    if !key.is_empty() && key != taint.key {
        return false;
    }
    match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => !key.is_empty() && text(&toleration.value) == text(&taint.value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": spec})).unwrap()
    }

    fn node() -> Node {
        serde_json::from_value(json!({"metadata": {"name": "n", "labels": {"disk": "ssd"}},
            "status": {"allocatable": {"cpu": "2", "memory": "25171202048", "pods": "2"}}}))
        .unwrap()
    }

    #[test]
    fn a_pod_that_asks_too_much_is_refused_with_the_numbers() {
        let p = pod(json!({"containers": [{"name": "c", "resources": {"requests": {"memory": "900Gi"}}}]}));
        assert_eq!(
            can_admit_pod(&p, &node(), &[]).unwrap_err(),
            Rejection {
                reason: "OutOfmemory".into(),
                message: "Node didn't have enough resource: memory, requested: 966367641600, used: 0, capacity: 25171202048".into(),
            }
        );
    }

    #[test]
    fn other_pods_and_the_pod_limit_count() {
        let p = pod(json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": "1500m"}}}]}));
        assert!(can_admit_pod(&p, &node(), &[]).is_ok());
        assert_eq!(can_admit_pod(&p, &node(), &[&p]).unwrap_err().reason, "OutOfcpu");
        let small = pod(json!({"containers": []}));
        assert_eq!(can_admit_pod(&small, &node(), &[&small, &small]).unwrap_err().reason, "OutOfpods");
    }

    #[test]
    fn selectors_and_affinity_must_match_the_labels() {
        let ok = |spec: serde_json::Value| can_admit_pod(&pod(spec), &node(), &[]).is_ok();
        assert!(ok(json!({"containers": [], "nodeSelector": {"disk": "ssd"}})));
        assert!(!ok(json!({"containers": [], "nodeSelector": {"disk": "hdd"}})));
        let affinity = |op: &str| {
            json!({"containers": [], "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
                {"nodeSelectorTerms": [{"matchExpressions": [{"key": "disk", "operator": op, "values": ["ssd"]}]}]}}}})
        };
        assert!(ok(affinity("In")));
        assert!(!ok(affinity("NotIn")));
    }
}
