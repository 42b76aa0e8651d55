//! Defaults of endpoints, network policies and ingress classes.
//!
//! # In Kubernetes
//! `pkg/apis/{core,discovery,networking}/v1/defaults.go`. A NetworkPolicy with egress rules applies to egress too; without any
//! `policyTypes` it applies to ingress even when it has no ingress rule, which isolates the pods.

use serde_json::{Value, json};

use crate::validation::fields::{child_mut, default_to, items_mut, list, present_mut, set};

/// Endpoints.
pub fn endpoints(value: &mut Value) {
    for subset in items_mut(value, "subsets") {
        items_mut(subset, "ports").for_each(|port| default_to(port, "protocol", "TCP"));
    }
}

/// EndpointSlice.
pub fn endpoint_slice(value: &mut Value) {
    for port in items_mut(value, "ports") {
        default_to(port, "name", "");
        default_to(port, "protocol", "TCP");
    }
}

/// NetworkPolicy.
pub fn network_policy(value: &mut Value) {
    let spec = child_mut(value, "spec");
    for direction in ["ingress", "egress"] {
        for rule in items_mut(spec, direction) {
            items_mut(rule, "ports").for_each(|port| default_to(port, "protocol", "TCP"));
        }
    }
    if list(spec, "policyTypes").is_empty() {
        let egress = !list(spec, "egress").is_empty();
        set(spec, "policyTypes", if egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) });
    }
}

/// IngressClass.
pub fn ingress_class(value: &mut Value) {
    if let Some(parameters) = present_mut(child_mut(value, "spec"), "parameters") {
        default_to(parameters, "scope", "Cluster");
    }
}
