//! Defaults of namespaces, quotas, limits, bindings, priorities and autoscalers.
//!
//! # In Kubernetes
//! `pkg/apis/{core,rbac,scheduling,autoscaling}/*/defaults.go`. A LimitRange for containers fills its gaps from the stronger values: the
//! default limit is the maximum, the default request is the default limit or else the minimum.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use super::pod::resource_list;
use crate::validation::fields::{
    child, child_mut, default_to, has, items_mut, list, present_mut, remove, set, size, text,
};

/// The label by which selectors can name a namespace.
pub const NAMESPACE_NAME_LABEL: &str = "kubernetes.io/metadata.name";

/// Namespace: its name as a label.
pub fn namespace(value: &mut Value) {
    let name = text(child(value, "metadata"), "name").to_owned();
    if !name.is_empty() {
        set(child_mut(child_mut(value, "metadata"), "labels"), NAMESPACE_NAME_LABEL, name);
    }
    default_to(child_mut(value, "status"), "phase", "Active");
}

/// Node: `podCIDR` is the first of `podCIDRs`; allocatable is capacity until the kubelet says otherwise.
pub fn node(value: &mut Value) {
    let spec = child_mut(value, "spec");
    match (text(spec, "podCIDR").to_owned(), list(spec, "podCIDRs").is_empty()) {
        (cidr, true) if !cidr.is_empty() => set(spec, "podCIDRs", vec![cidr]),
        (cidr, false) if cidr.is_empty() => {
            let first = spec["podCIDRs"][0].clone();
            set(spec, "podCIDR", first);
        }
        // An old client knows only the one.
        (cidr, false) if spec["podCIDRs"][0] != cidr.as_str() => set(spec, "podCIDRs", vec![cidr]),
        _ => {}
    }
    let Some(status) = present_mut(value, "status") else { return };
    for name in ["capacity", "allocatable"] {
        if let Some(list) = present_mut(status, name) {
            resource_list(list);
        }
    }
    if size(status, "allocatable") == 0 && size(status, "capacity") > 0 {
        let capacity = status["capacity"].clone();
        set(status, "allocatable", capacity);
    }
}

/// Secret: `stringData` is a way to write `data` without base64, and wins.
pub fn secret(value: &mut Value) {
    default_to(value, "type", "Opaque");
    if let Some(Value::Object(texts)) = remove(value, "stringData") {
        for (key, text) in texts {
            let encoded = STANDARD.encode(text.as_str().unwrap_or_default());
            set(child_mut(value, "data"), &key, encoded);
        }
    }
}

/// LimitRange.
pub fn limit_range(value: &mut Value) {
    for item in items_mut(child_mut(value, "spec"), "limits") {
        for name in ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"] {
            if let Some(list) = present_mut(item, name) {
                resource_list(list);
            }
        }
        if text(item, "type") == "Container" {
            fill(item, "default", "max");
            fill(item, "defaultRequest", "default");
            fill(item, "defaultRequest", "min");
        }
    }
}

fn fill(item: &mut Value, to: &str, from: &str) {
    let source: Map<String, Value> = child(item, from).as_object().cloned().unwrap_or_default();
    for (name, quantity) in source {
        default_to(child_mut(item, to), &name, quantity);
    }
}

/// ResourceQuota.
pub fn resource_quota(value: &mut Value) {
    if let Some(hard) = present_mut(child_mut(value, "spec"), "hard") {
        resource_list(hard);
    }
}

const RBAC_GROUP: &str = "rbac.authorization.k8s.io";

/// RoleBinding and ClusterRoleBinding.
pub fn role_binding(value: &mut Value) {
    let reference = child_mut(value, "roleRef");
    if text(reference, "apiGroup").is_empty() {
        set(reference, "apiGroup", RBAC_GROUP);
    }
    for subject in items_mut(value, "subjects") {
        if matches!(text(subject, "kind"), "User" | "Group") && text(subject, "apiGroup").is_empty() {
            set(subject, "apiGroup", RBAC_GROUP);
        }
    }
}

/// PriorityClass.
pub fn priority_class(value: &mut Value) {
    default_to(value, "preemptionPolicy", "PreemptLowerPriority");
}

/// HorizontalPodAutoscaler, v1 and v2.
pub fn horizontal_pod_autoscaler(value: &mut Value) {
    let v2 = text(value, "apiVersion") != "autoscaling/v1";
    let spec = child_mut(value, "spec");
    default_to(spec, "minReplicas", 1);
    if !v2 {
        return;
    }
    if list(spec, "metrics").is_empty() {
        let cpu = json!({"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}}});
        set(spec, "metrics", vec![cpu]);
    }
    if let Some(behavior) = present_mut(spec, "behavior") {
        scaling_rules(behavior);
    }
}

fn scaling_rules(behavior: &mut Value) {
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    let up = child_mut(behavior, "scaleUp");
    default_to(up, "stabilizationWindowSeconds", 0);
    default_to(up, "selectPolicy", "Max");
    if !has(up, "policies") {
        set(up, "policies", vec![pods, percent.clone()]);
    }
    let down = child_mut(behavior, "scaleDown");
    default_to(down, "selectPolicy", "Max");
    if !has(down, "policies") {
        set(down, "policies", vec![percent]);
    }
}
