//! Autoscalers, disruption budgets, priorities, runtimes, leases, events.
//!
//! # In Kubernetes
//! `pkg/apis/{autoscaling,policy,scheduling,node,coordination}/validation`, `pkg/apis/core/validation/events.go`. Left out: object
//! and external metrics beyond their targets.

use serde_json::Value;

use super::fields::{child, has, int, list, opt_int, text};
use super::metadata::NON_NEGATIVE;
use super::values::{not_more_than_100_percent, one_of_if_set, positive_int_or_percent, quantity, required};
use super::{Errors, FieldError, field, immutable, index, invalid_each, names, selector};

/// HorizontalPodAutoscaler, v1 and v2.
pub fn horizontal_pod_autoscaler(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    let (min, max) = (opt_int(spec, "minReplicas"), int(spec, "maxReplicas"));
    if let Some(min) = min.filter(|min| *min < 1) {
        errors.push(FieldError::invalid("spec.minReplicas", min, "must be greater than or equal to 1"));
    }
    if max < 1 {
        errors.push(FieldError::invalid("spec.maxReplicas", max, "must be greater than 0"));
    }
    if min.is_some_and(|min| max < min) {
        errors.push(FieldError::invalid(
            "spec.maxReplicas",
            max,
            "must be greater than or equal to `minReplicas`",
        ));
    }
    let target = child(spec, "scaleTargetRef");
    for name in ["kind", "name"] {
        if required(&mut errors, target, name, "spec.scaleTargetRef") {
            let value = text(target, name);
            invalid_each(
                &mut errors,
                &field("spec.scaleTargetRef", name),
                value,
                names::path_segment_name(value, false),
            );
        }
    }
    for (at, metric) in list(spec, "metrics").iter().enumerate() {
        metric_spec(&mut errors, metric, &index("spec.metrics", at));
    }
    // What v1 calls targetCPUUtilizationPercentage is a metric inside.
    if let Some(percent) = opt_int(spec, "targetCPUUtilizationPercentage").filter(|percent| *percent < 1) {
        let path = "spec.metrics[0].resource.target.averageUtilization";
        errors.push(FieldError::invalid(path, percent, "must be greater than 0"));
    }
    for direction in ["scaleUp", "scaleDown"] {
        let rules = child(child(spec, "behavior"), direction);
        if !rules.is_null() {
            scaling_rules(&mut errors, rules, &field("spec.behavior", direction));
        }
    }
    errors
}

fn metric_spec(errors: &mut Errors, metric: &Value, path: &str) {
    let sources = [
        ("Resource", "resource"),
        ("Pods", "pods"),
        ("Object", "object"),
        ("External", "external"),
        ("ContainerResource", "containerResource"),
    ];
    if text(metric, "type").is_empty() {
        errors.push(FieldError::required(field(path, "type"), "must specify a metric source type"));
    }
    for (_, name) in sources.iter().filter(|(_, name)| has(metric, name)) {
        let (source, path) = (child(metric, name), field(path, name));
        if name.ends_with("esource") && text(source, "name").is_empty() {
            errors.push(FieldError::required(field(&path, "name"), "must specify a resource name"));
        }
        metric_target(errors, child(source, "target"), &field(&path, "target"), name.ends_with("esource"));
    }
}

fn metric_target(errors: &mut Errors, target: &Value, path: &str, resource: bool) {
    if text(target, "type").is_empty() {
        errors.push(FieldError::required(field(path, "type"), "must specify a metric target type"));
    } else {
        one_of_if_set(errors, target, "type", path, &["Utilization", "Value", "AverageValue"]);
    }
    for name in ["value", "averageValue"] {
        if has(target, name) && quantity(child(target, name)).sign() != 1 {
            errors.push(FieldError::invalid(field(path, name), text(target, name), "must be positive"));
        }
    }
    let utilization = opt_int(target, "averageUtilization");
    if let Some(percent) = utilization.filter(|percent| *percent < 1) {
        errors.push(FieldError::invalid(
            field(path, "averageUtilization"),
            percent,
            "must be greater than 0",
        ));
    }
    if resource {
        match (utilization.is_some(), has(target, "averageValue")) {
            (false, false) => {
                let detail = "must set either a target raw value or a target utilization";
                errors.push(FieldError::required(field(path, "averageUtilization"), detail));
            }
            (true, true) => {
                let detail = "may not set both a target raw value and a target utilization";
                errors.push(FieldError::forbidden(field(path, "averageValue"), detail));
            }
            _ => {}
        }
    }
}

fn scaling_rules(errors: &mut Errors, rules: &Value, path: &str) {
    if let Some(window) = opt_int(rules, "stabilizationWindowSeconds") {
        let at = field(path, "stabilizationWindowSeconds");
        if window < 0 {
            errors.push(FieldError::invalid(&at, window, "must be greater than or equal to zero"));
        }
        if window > 3600 {
            errors.push(FieldError::invalid(&at, window, "must be less than or equal to 3600"));
        }
    }
    one_of_if_set(errors, rules, "selectPolicy", path, &["Disabled", "Max", "Min"]);
    if list(rules, "policies").is_empty() {
        errors.push(FieldError::required(field(path, "policies"), "must specify at least one Policy"));
    }
    for (at, policy) in list(rules, "policies").iter().enumerate() {
        let path = index(&field(path, "policies"), at);
        one_of_if_set(errors, policy, "type", &path, &["Percent", "Pods"]);
        for (name, most) in [("value", i64::MAX), ("periodSeconds", 1800)] {
            let value = int(policy, name);
            if value <= 0 {
                errors.push(FieldError::invalid(field(&path, name), value, "must be greater than zero"));
            }
            if value > most {
                errors.push(FieldError::invalid(
                    field(&path, name),
                    value,
                    format!("must be less than or equal to {most}"),
                ));
            }
        }
    }
}

/// A changed autoscaler.
pub fn horizontal_pod_autoscaler_update(new: &Value, _: &Value) -> Errors {
    horizontal_pod_autoscaler(new)
}

/// PodDisruptionBudget.
pub fn pod_disruption_budget(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    if has(spec, "minAvailable") && has(spec, "maxUnavailable") {
        let detail = "minAvailable and maxUnavailable cannot be both set";
        errors.push(FieldError::invalid("spec", super::go_syntax::raw(spec.to_string()), detail));
    }
    for name in ["minAvailable", "maxUnavailable"] {
        let (amount, path) = (child(spec, name), field("spec", name));
        positive_int_or_percent(&mut errors, amount, &path);
        not_more_than_100_percent(&mut errors, amount, &path);
    }
    errors.extend(selector::label_selector(child(spec, "selector"), "spec.selector"));
    one_of_if_set(
        &mut errors,
        spec,
        "unhealthyPodEvictionPolicy",
        "spec",
        &["AlwaysAllow", "IfHealthyBudget"],
    );
    errors
}

/// A changed budget.
pub fn pod_disruption_budget_update(new: &Value, _: &Value) -> Errors {
    pod_disruption_budget(new)
}

/// Highest priority that a user may give.
const HIGHEST_USER_DEFINABLE_PRIORITY: i64 = 1_000_000_000;

/// PriorityClass.
pub fn priority_class(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let (name, priority) = (text(child(value, "metadata"), "name"), int(value, "value"));
    let system = matches!(name, "system-node-critical" | "system-cluster-critical");
    if name.starts_with("system-") && !system {
        let detail = "priority class names with 'system-' prefix are reserved for system use only. error: only \
                      'system-cluster-critical' and 'system-node-critical' are allowed";
        errors.push(FieldError::forbidden("metadata.name", detail));
    } else if !system && priority > HIGHEST_USER_DEFINABLE_PRIORITY {
        let detail =
            format!("maximum allowed value of a user defined priority is {HIGHEST_USER_DEFINABLE_PRIORITY}");
        errors.push(FieldError::forbidden("value", detail));
    }
    one_of_if_set(&mut errors, value, "preemptionPolicy", "", &["PreemptLowerPriority", "Never"]);
    errors
}

/// A changed PriorityClass: its number stays.
pub fn priority_class_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    if int(new, "value") != int(old, "value") {
        errors.push(FieldError::forbidden("value", "may not be changed in an update."));
    }
    immutable(
        &mut errors,
        child(new, "preemptionPolicy"),
        child(old, "preemptionPolicy"),
        "preemptionPolicy",
    );
    errors
}

/// RuntimeClass.
pub fn runtime_class(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let handler = text(value, "handler");
    invalid_each(&mut errors, "handler", handler, names::dns1123_label(handler));
    errors
}

/// A changed RuntimeClass: its handler stays.
pub fn runtime_class_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    immutable(&mut errors, child(new, "handler"), child(old, "handler"), "handler");
    errors
}

/// Lease.
pub fn lease(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    if let Some(seconds) = opt_int(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.push(FieldError::invalid("spec.leaseDurationSeconds", seconds, "must be greater than 0"));
    }
    if let Some(transitions) = opt_int(spec, "leaseTransitions").filter(|transitions| *transitions < 0) {
        errors.push(FieldError::invalid("spec.leaseTransitions", transitions, NON_NEGATIVE));
    }
    errors
}

/// A changed Lease.
pub fn lease_update(new: &Value, _: &Value) -> Errors {
    lease(new)
}

/// Event of the core group: it is in the namespace of what it is about.
pub fn event(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let namespace = text(child(value, "metadata"), "namespace");
    let about = text(child(value, "involvedObject"), "namespace");
    let fits = if about.is_empty() { matches!(namespace, "" | "default") } else { about == namespace };
    if !fits {
        errors.push(FieldError::invalid("involvedObject.namespace", about, "does not match event.namespace"));
    }
    errors
}
