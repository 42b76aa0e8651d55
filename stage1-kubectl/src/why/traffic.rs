//! Traffic: a Service, its slices, and the pods behind it.
//!
//! *Step 6 of a pod's journey.* Before: pods are Ready. After: the rules of stage ⑥ ask whether anybody is sent to them.
//!
//! # Invariants
//! 1. An endpoint without the condition `ready` is ready, as the API says.
//!
//! # In Kubernetes
//! `pkg/controller/util/endpoint`, `discovery/v1/types.go`.

use serde_json::Value;

use super::facts::{Facts, selects};
use crate::object::Object;

/// The slices of a Service.
pub fn slices<'a>(facts: &'a Facts, service: &'a Object) -> impl Iterator<Item = &'a Object> {
    facts.all("EndpointSlice").iter().filter(|slice| {
        slice.namespace() == service.namespace()
            && slice.label("kubernetes.io/service-name") == Some(service.name())
    })
}

/// The endpoints of a Service.
pub fn endpoints<'a>(facts: &'a Facts, service: &'a Object) -> impl Iterator<Item = &'a Value> {
    slices(facts, service)
        .flat_map(|slice| slice.get("/endpoints").and_then(Value::as_array).into_iter().flatten())
}

/// Whether an endpoint gets traffic.
#[must_use]
pub fn is_ready(endpoint: &Value) -> bool {
    endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true)
}

/// The living pods that a Service selects.
pub fn pods_of<'a>(facts: &'a Facts, service: &'a Object) -> impl Iterator<Item = &'a Object> {
    facts.all("Pod").iter().filter(|pod| {
        let over = matches!(pod.get_str("/status/phase"), Some("Failed" | "Succeeded"));
        pod.namespace() == service.namespace()
            && pod.deletion_timestamp().is_none()
            && !over
            && selects(service, &pod.labels())
    })
}

/// The workloads whose template a Service selects.
pub fn templates_of<'a>(facts: &'a Facts, service: &'a Object) -> impl Iterator<Item = &'a Object> {
    let kinds = ["Deployment", "StatefulSet", "DaemonSet", "ReplicaSet"];
    kinds.into_iter().flat_map(|kind| facts.all(kind)).filter(|owner| {
        owner.namespace() == service.namespace()
            && selects(service, &owner.string_map("/spec/template/metadata/labels"))
    })
}

/// Whether a Service has a selector and traffic to send.
#[must_use]
pub fn has_selector(service: &Object) -> bool {
    service.get_str("/spec/type") != Some("ExternalName") && !service.string_map("/spec/selector").is_empty()
}
