//! Does a pod of this template belong on this node? And the pod made for it.
//!
//! Three questions: does the template name another node, does the node match its selector and affinity, does the pod tolerate
//! the node's taints. `NoSchedule` taints keep a pod from coming; only `NoExecute` taints make one leave.
//!
//! # In Kubernetes
//! `pkg/controller/daemon/daemon_controller.go` (`NodeShouldRunDaemonPod`), `util/daemonset_util.go` (`AddOrUpdateDaemonPodTolerations`, `ReplaceDaemonSetPodNodeNameNodeAffinity`).

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec};
use k8s_openapi::api::core::v1::{
    Affinity, Node, NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Pod,
    PodTemplateSpec, Taint, Toleration,
};

use crate::controller_revision;
use crate::indexer::Cached;
use crate::node_lifecycle::taints_of;
use crate::pod::PodExt;
use crate::pod_template::pod_from_template;
use crate::taint_eviction::tolerates;

/// What of a node can change the answer.
pub fn facts(node: &Node) -> (Option<&BTreeMap<String, String>>, Vec<Taint>) {
    (node.metadata.labels.as_ref(), taints_of(node))
}

/// `(should one be made there, may one stay there)`.
pub fn should_run(template: &PodTemplateSpec, node: &Node) -> (bool, bool) {
    let Some(spec) = &template.spec else { return (false, false) };
    if spec.node_name.as_deref().is_some_and(|name| !name.is_empty() && name != node.object_name()) {
        return (false, false);
    }
    let label = |key: &str| node.label(key);
    let selected = spec.node_selector.iter().flatten().all(|(key, value)| label(key) == Some(value));
    let affinity = spec.affinity.as_ref().and_then(|affinity| {
        affinity.node_affinity.as_ref()?.required_during_scheduling_ignored_during_execution.as_ref()
    });
    if !selected
        || affinity
            .is_some_and(|required| !required.node_selector_terms.iter().any(|term| term_matches(term, node)))
    {
        return (false, false);
    }
    let mut tolerations = spec.tolerations.clone().unwrap_or_default();
    tolerations.extend(daemon_tolerations(spec.host_network == Some(true)));
    let untolerated: Vec<Taint> = taints_of(node)
        .into_iter()
        .filter(|taint| !tolerations.iter().any(|toleration| tolerates(toleration, taint)))
        .collect();
    let repelled =
        untolerated.iter().any(|taint| taint.effect == "NoExecute" || taint.effect == "NoSchedule");
    (!repelled, !untolerated.iter().any(|taint| taint.effect == "NoExecute"))
}

fn term_matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let expressions = term
        .match_expressions
        .iter()
        .flatten()
        .all(|requirement| matches(requirement, node.label(&requirement.key)));
    let fields = term.match_fields.iter().flatten().all(|requirement| {
        requirement.key == "metadata.name" && matches(requirement, Some(node.object_name()))
    });
    let empty = term.match_expressions.as_ref().is_none_or(Vec::is_empty)
        && term.match_fields.as_ref().is_none_or(Vec::is_empty);
    !empty && expressions && fields
}

fn matches(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let values = requirement.values.as_deref().unwrap_or_default();
    let contains = |value: &str| values.iter().any(|other| other == value);
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let limit = number(values.first().map(String::as_str));
    match requirement.operator.as_str() {
        "In" => value.is_some_and(contains),
        "NotIn" => !value.is_some_and(contains),
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => number(value).zip(limit).is_some_and(|(value, limit)| value > limit),
        "Lt" => number(value).zip(limit).is_some_and(|(value, limit)| value < limit),
        _ => false,
    }
}

/// Tolerations that every daemon pod gets: it stays on a node that is in trouble.
fn daemon_tolerations(host_network: bool) -> Vec<Toleration> {
    let toleration = |key: &str, effect: &str| Toleration {
        key: Some(key.to_owned()),
        operator: Some("Exists".to_owned()),
        effect: Some(effect.to_owned()),
        ..Toleration::default()
    };
    let mut all = vec![
        toleration("node.kubernetes.io/not-ready", "NoExecute"),
        toleration("node.kubernetes.io/unreachable", "NoExecute"),
        toleration("node.kubernetes.io/disk-pressure", "NoSchedule"),
        toleration("node.kubernetes.io/memory-pressure", "NoSchedule"),
        toleration("node.kubernetes.io/pid-pressure", "NoSchedule"),
        toleration("node.kubernetes.io/unschedulable", "NoSchedule"),
    ];
    if host_network {
        all.push(toleration("node.kubernetes.io/network-unavailable", "NoSchedule"));
    }
    all
}

/// The node that a daemon pod is meant for.
pub fn target_node(pod: &Pod) -> String {
    if !pod.node_name().is_empty() {
        return pod.node_name().to_owned();
    }
    let affinity = pod.spec.as_ref().and_then(|spec| {
        spec.affinity
            .as_ref()?
            .node_affinity
            .as_ref()?
            .required_during_scheduling_ignored_during_execution
            .as_ref()
    });
    let terms = affinity.into_iter().flat_map(|required| &required.node_selector_terms);
    let mut fields = terms.flat_map(|term| term.match_fields.iter().flatten());
    let name = fields
        .find(|field| field.key == "metadata.name")
        .and_then(|field| field.values.as_ref()?.first().cloned());
    name.unwrap_or_default()
}

/// The pod for a node: bound to it by affinity, tolerant, labelled with its revision.
pub fn pod_for(daemon_set: &DaemonSet, spec: &DaemonSetSpec, node: &str, hash: &str) -> Pod {
    let mut pod = pod_from_template(&spec.template, daemon_set);
    pod.metadata.labels.get_or_insert_default().insert(controller_revision::HASH.to_owned(), hash.to_owned());
    if let Some(generation) = daemon_set.annotation("deprecated.daemonset.template.generation") {
        pod.metadata
            .labels
            .get_or_insert_default()
            .insert("pod-template-generation".to_owned(), generation.to_owned());
    }
    let Some(pod_spec) = &mut pod.spec else { return pod };
    let tolerations = pod_spec.tolerations.get_or_insert_default();
    for toleration in daemon_tolerations(pod_spec.host_network == Some(true)) {
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    }
    let field = NodeSelectorRequirement {
        key: "metadata.name".to_owned(),
        operator: "In".to_owned(),
        values: Some(vec![node.to_owned()]),
    };
    let affinity = pod_spec
        .affinity
        .get_or_insert_with(Affinity::default)
        .node_affinity
        .get_or_insert_with(NodeAffinity::default);
    // The name alone decides: the other terms were checked already when the node was chosen.
    let term = NodeSelectorTerm { match_fields: Some(vec![field]), match_expressions: None };
    affinity.required_during_scheduling_ignored_during_execution =
        Some(NodeSelector { node_selector_terms: vec![term] });
    pod
}
