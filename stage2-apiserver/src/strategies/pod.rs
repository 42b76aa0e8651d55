//! Pods: pending at first, gated if they say so, and given time to end.
//!
//! # In Kubernetes
//! `pkg/registry/core/pod/strategy.go`. Left out: AppArmor and seccomp annotations of releases before 1.19, in-place resize.

use serde_json::{Value, json};

use super::{Context, qos};
use crate::validation::fields::{at, child, child_mut, items_mut, list, remove, set, text, texts};

/// A new pod.
pub fn create(pod: &mut Value, context: &Context) {
    let class = qos::compute_pod_qos(child(pod, "spec"));
    let gated = !list(child(pod, "spec"), "schedulingGates").is_empty();
    set(pod, "status", json!({"phase": "Pending", "qosClass": class}));
    if gated {
        let condition = json!({
            "type": "PodScheduled", "status": "False", "lastProbeTime": null,
            "lastTransitionTime": context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
            "reason": "SchedulingGated", "message": "Scheduling is blocked due to non-empty scheduling gates",
        });
        set(child_mut(pod, "status"), "conditions", vec![condition]);
    }
    merge_match_label_keys(pod);
    app_armor_fields(pod);
}

/// Old manifests choose an AppArmor profile by annotation; kubelets read the field.
fn app_armor_fields(pod: &mut Value) {
    let annotations = at(pod, "/metadata/annotations").clone();
    let spec = child_mut(pod, "spec");
    for containers in ["initContainers", "containers"] {
        for container in items_mut(spec, containers) {
            let key = format!("{}{}", super::warnings::DEPRECATED_APP_ARMOR_PREFIX, text(container, "name"));
            let profile = match annotations.get(&key).and_then(Value::as_str) {
                Some("runtime/default") => json!({"type": "RuntimeDefault"}),
                Some("unconfined") => json!({"type": "Unconfined"}),
                Some(other) if other.starts_with("localhost/") => {
                    json!({"type": "Localhost", "localhostProfile": other.trim_start_matches("localhost/")})
                }
                _ => continue,
            };
            crate::validation::fields::default_to(
                child_mut(container, "securityContext"),
                "appArmorProfile",
                profile,
            );
        }
    }
}

/// `matchLabelKeys` of an affinity term become requirements of its selector, with the values of this pod.
fn merge_match_label_keys(pod: &mut Value) {
    let labels = at(pod, "/metadata/labels").clone();
    let Some(affinity) = pod.pointer_mut("/spec/affinity") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(terms) = affinity.get_mut(kind) else { continue };
        for term in items_mut(terms, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_term(term, &labels);
        }
        for weighted in items_mut(terms, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = weighted.get_mut("podAffinityTerm") {
                merge_term(term, &labels);
            }
        }
    }
}

fn merge_term(term: &mut Value, labels: &Value) {
    let mut added = Vec::new();
    for (name, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
        for key in texts(term, name) {
            if let Some(value) = labels.get(key) {
                added.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if !added.is_empty() && term.get("labelSelector").is_some() {
        let selector = child_mut(term, "labelSelector");
        crate::validation::fields::list_mut(selector, "matchExpressions").extend(added);
    }
}

/// A changed pod: its status stays.
pub fn update(_: &mut Value, _: &Value, _: &Context) {}

/// A changed status: owners and quality of service stay.
pub fn status_update(new: &mut Value, old: &Value, _: &Context) {
    match at(old, "/metadata/ownerReferences") {
        Value::Null => drop(remove(child_mut(new, "metadata"), "ownerReferences")),
        owners => set(child_mut(new, "metadata"), "ownerReferences", owners.clone()),
    }
    let class = text(child(old, "status"), "qosClass");
    let class = if class.is_empty() { qos::compute_pod_qos(child(old, "spec")) } else { class };
    set(child_mut(new, "status"), "qosClass", class);
}
