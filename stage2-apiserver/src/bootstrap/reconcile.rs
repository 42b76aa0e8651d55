//! Reconciling: what is there and what should be, joined.
//!
//! # Invariants
//! 1. What an administrator added stays; what a default needs comes back.
//! 2. `rbac.authorization.kubernetes.io/autoupdate: "false"` means hands off.
//!
//! # In Kubernetes
//! `pkg/registry/rbac/reconciliation`, `pkg/controlplane/reconcilers/endpointsadapter.go`.

use serde_json::Value;
use stage1_kubectl::object::Object;

use crate::authorization::rules::{missing, rules_of};

/// The object as it should be, if it isn't.
pub fn repaired(current: &Object, expected: &Object) -> Option<Object> {
    let mut repaired = current.clone();
    match expected.kind() {
        "ClusterRole" | "Role" | "ClusterRoleBinding" | "RoleBinding" => {
            if current.annotation("rbac.authorization.kubernetes.io/autoupdate") == Some("false") {
                return None;
            }
            add_metadata(&mut repaired, expected);
            add_rules(&mut repaired, expected);
            add_subjects(&mut repaired, expected);
        }
        // These say where the server is now.
        "Endpoints" => overwrite(&mut repaired, expected, &["/subsets"]),
        "EndpointSlice" => overwrite(&mut repaired, expected, &["/endpoints", "/ports"]),
        "Service" => overwrite(&mut repaired, expected, &["/spec/ports"]),
        "ConfigMap" => overwrite(&mut repaired, expected, &["/data/client-ca-file"]),
        _ => return None,
    }
    (repaired != *current).then_some(repaired)
}

fn overwrite(repaired: &mut Object, expected: &Object, pointers: &[&str]) {
    for pointer in pointers {
        if let Some(value) = expected.get(pointer) {
            repaired.set(pointer, value.clone());
        }
    }
}

fn add_metadata(repaired: &mut Object, expected: &Object) {
    for (key, value) in expected.labels() {
        repaired.set_label(&key, &value);
    }
    for (key, value) in expected.annotations() {
        repaired.set_annotation(&key, &value);
    }
}

fn add_rules(repaired: &mut Object, expected: &Object) {
    if repaired.get("/aggregationRule").is_some_and(|rule| !rule.is_null()) {
        return; // the aggregation loop owns them
    }
    let there = rules_of(repaired);
    let lacking = missing(&there, &rules_of(expected));
    if !lacking.is_empty() {
        let rules: Vec<_> = there.into_iter().chain(lacking).collect();
        repaired.set("/rules", serde_json::to_value(rules).expect("plain structs"));
    }
}

fn add_subjects(repaired: &mut Object, expected: &Object) {
    let list = |object: &Object| -> Vec<Value> {
        object.get("/subjects").and_then(Value::as_array).cloned().unwrap_or_default()
    };
    let there = list(repaired);
    let lacking: Vec<Value> = list(expected).into_iter().filter(|subject| !there.contains(subject)).collect();
    if !lacking.is_empty() {
        repaired.set("/subjects", [there, lacking].concat());
    }
}
