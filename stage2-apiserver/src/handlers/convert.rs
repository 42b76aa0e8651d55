//! Convert: the few kinds that are served in another version than they are stored in.
//!
//! An Event is one thing with two dresses: `core/v1` (involvedObject, message) and `events.k8s.io/v1` (regarding, note). A
//! HorizontalPodAutoscaler of `v1` has one CPU target where `v2` has a list of metrics. Everything else is stored as it is served.
//! Custom kinds do it themselves ([`crate::custom_resources`]): the version changes its name, and what it doesn't know is pruned. Where
//! a program outside converts them, [`super::prepare`] asked it beforehand.
//!
//! # Invariants
//! 1. There and back is the identity for what both versions can say.
//!
//! # In Kubernetes
//! `pkg/apis/events/v1/conversion.go`, `pkg/apis/autoscaling/v1/conversion.go`. Left out: the annotations in which v1
//! autoscalers keep what v1 can't say.

use std::borrow::Cow;

use serde_json::{Value, json};
use stage1_kubectl::object::Object;

use crate::custom_resources::conversion::known::Prepared;
use crate::registry::ResourceInfo;

/// Names of an event's fields: stored (core/v1), served (events.k8s.io/v1).
const EVENT_FIELDS: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Whether what is stored may have to be changed before it is served.
pub fn is_converted(resource: &ResourceInfo) -> bool {
    if let Some(kind) = resource.custom_kind() {
        return kind.is_converted;
    }
    resource.storage.is_some_and(|s| (s.group, s.version) != (resource.group, resource.version))
}

/// The object as the resource serves it. A program's work must have been prepared; without it, only the version's name changes.
pub fn to_served<'a>(resource: &ResourceInfo, stored: &'a Object, prepared: &Prepared) -> Cow<'a, Object> {
    if !is_converted(resource) {
        return Cow::Borrowed(stored);
    }
    if let Some(kind) = resource.custom_kind() {
        return kind.served(stored, prepared);
    }
    Cow::Owned(converted(resource, stored, &resource.group_version(), true))
}

/// The object as it is stored; the same holds.
pub fn to_stored(resource: &ResourceInfo, served: Object, prepared: &Prepared) -> Object {
    if !is_converted(resource) {
        return served;
    }
    if let Some(kind) = resource.custom_kind() {
        return kind.stored(served, prepared);
    }
    converted(resource, &served, &resource.storage_api_version(), false)
}

fn converted(resource: &ResourceInfo, object: &Object, api_version: &str, to_served: bool) -> Object {
    let mut value = object.as_value().clone();
    match resource.resource {
        "events" => rename_event_fields(&mut value, to_served),
        "horizontalpodautoscalers" if to_served => autoscaler_to_v1(&mut value),
        "horizontalpodautoscalers" => autoscaler_to_v2(&mut value),
        _ => {}
    }
    value["apiVersion"] = json!(api_version);
    Object::from_value(value).expect("renaming fields keeps a map a map")
}

fn rename_event_fields(event: &mut Value, to_served: bool) {
    let Some(map) = event.as_object_mut() else { return };
    for (stored, served) in EVENT_FIELDS {
        let (from, to) = if to_served { (stored, served) } else { (served, stored) };
        if let Some(value) = map.remove(from) {
            map.insert(to.into(), value);
        }
    }
}

fn autoscaler_to_v1(hpa: &mut Value) {
    let percentage = |metrics: Option<&Value>, part: &str| {
        let metrics = metrics.and_then(Value::as_array)?;
        let cpu = metrics.iter().find(|m| m["type"] == "Resource" && m["resource"]["name"] == "cpu")?;
        cpu["resource"][part]["averageUtilization"].as_i64()
    };
    let target = percentage(hpa.pointer("/spec/metrics"), "target");
    let current = percentage(hpa.pointer("/status/currentMetrics"), "current");
    if let Some(spec) = hpa.get_mut("spec").and_then(Value::as_object_mut) {
        spec.remove("metrics");
        spec.remove("behavior");
        target.and_then(|t| spec.insert("targetCPUUtilizationPercentage".into(), json!(t)));
    }
    if let Some(status) = hpa.get_mut("status").and_then(Value::as_object_mut) {
        status.remove("currentMetrics");
        status.remove("conditions");
        current.and_then(|c| status.insert("currentCPUUtilizationPercentage".into(), json!(c)));
    }
}

fn autoscaler_to_v2(hpa: &mut Value) {
    let metric = |part: &str, percentage: Value| {
        let mut value = json!({ "averageUtilization": percentage });
        if part == "target" {
            value["type"] = json!("Utilization");
        }
        json!([{ "type": "Resource", "resource": { "name": "cpu", part: value } }])
    };
    if let Some(spec) = hpa.get_mut("spec").and_then(Value::as_object_mut)
        && let Some(target) = spec.remove("targetCPUUtilizationPercentage")
    {
        spec.insert("metrics".into(), metric("target", target));
    }
    if let Some(status) = hpa.get_mut("status").and_then(Value::as_object_mut)
        && let Some(current) = status.remove("currentCPUUtilizationPercentage")
    {
        status.insert("currentMetrics".into(), metric("current", current));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry;

    #[test]
    fn an_event_keeps_what_it_says_in_both_dresses() {
        let none = Prepared::default();
        let events = registry::find("events.k8s.io", "v1", "events").expect("registered");
        let stored =
            json!({ "apiVersion": "v1", "kind": "Event", "message": "m", "involvedObject": { "name": "p" } });
        let stored = Object::from_value(stored).expect("object");
        let served = to_served(events, &stored, &none).into_owned();
        assert_eq!(served.get_str("/note"), Some("m"));
        assert_eq!(served.api_version(), "events.k8s.io/v1");
        assert_eq!(to_stored(events, served, &none), stored);
    }

    #[test]
    fn a_cpu_target_becomes_a_metric_and_back() {
        let none = Prepared::default();
        let v1 = registry::find("autoscaling", "v1", "horizontalpodautoscalers").expect("registered");
        let served = json!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
            "spec": { "maxReplicas": 3, "targetCPUUtilizationPercentage": 80 },
        });
        let served = Object::from_value(served).expect("object");
        let stored = to_stored(v1, served.clone(), &none);
        assert_eq!(stored.get_i64("/spec/metrics/0/resource/target/averageUtilization"), Some(80));
        assert_eq!(to_served(v1, &stored, &none).into_owned(), served);
    }
}
