//! The page of a HorizontalPodAutoscaler: what is measured, what is wanted, and how fast it may change.
//!
//! # In Kubernetes
//! `describeHorizontalPodAutoscalerV2` and `printDirectionBehavior` in `kubectl/pkg/describe/describe.go`.

use serde_json::Value;

use super::access::{list, number, scalar, text};
use super::doc::Doc;

const UNKNOWN: &str = "<unknown>";

/// The page without its events.
pub fn write(doc: &mut Doc, autoscaler: &Value) {
    doc.head(autoscaler);
    doc.labels_and_annotations(autoscaler);
    doc.field(0, "CreationTimestamp", &doc.time(autoscaler.pointer("/metadata/creationTimestamp")));
    let target = autoscaler.pointer("/spec/scaleTargetRef").unwrap_or(&Value::Null);
    doc.field(0, "Reference", &format!("{}/{}", text(target, "/kind"), text(target, "/name")));
    doc.line(0, "Metrics:\t( current / target )");
    let currents = list(autoscaler, "/status/currentMetrics");
    for (at, metric) in list(autoscaler, "/spec/metrics").iter().enumerate() {
        let line = metric_line(metric, currents.get(at).unwrap_or(&Value::Null));
        doc.line(1, &line);
    }
    let least = autoscaler.pointer("/spec/minReplicas");
    doc.field(0, "Min replicas", &least.map_or_else(|| "<unset>".to_owned(), |least| scalar(Some(least))));
    doc.field(0, "Max replicas", &number(autoscaler, "/spec/maxReplicas").to_string());
    if let Some(behavior) = autoscaler.pointer("/spec/behavior") {
        doc.line(0, "Behavior:");
        for (title, field) in [("Scale Up", "scaleUp"), ("Scale Down", "scaleDown")] {
            if let Some(rules) = behavior.get(field) {
                write_rules(doc, title, rules);
            }
        }
    }
    let (current, desired) =
        (number(autoscaler, "/status/currentReplicas"), number(autoscaler, "/status/desiredReplicas"));
    let pods = format!("{} pods", text(target, "/kind"));
    doc.field(0, &pods, &format!("{current} current / {desired} desired"));
    let conditions = list(autoscaler, "/status/conditions");
    if !conditions.is_empty() {
        doc.line(0, "Conditions:\n  Type\tStatus\tReason\tMessage");
        doc.line(1, "----\t------\t------\t-------");
        for condition in conditions {
            let cells = ["/type", "/status", "/reason", "/message"].map(|field| text(condition, field));
            doc.line(1, &cells.join("\t"));
        }
    }
}

fn write_rules(doc: &mut Doc, title: &str, rules: &Value) {
    doc.line(1, &format!("{title}:"));
    if rules.get("stabilizationWindowSeconds").is_some() {
        let seconds = number(rules, "/stabilizationWindowSeconds");
        doc.line(2, &format!("Stabilization Window: {seconds} seconds"));
    }
    let policies = list(rules, "/policies");
    if policies.is_empty() {
        return;
    }
    let select = Some(text(rules, "/selectPolicy")).filter(|select| !select.is_empty());
    doc.line(2, &format!("Select Policy: {}", select.unwrap_or("Max")));
    doc.line(2, "Policies:");
    for policy in policies {
        let (value, period) = (number(policy, "/value"), number(policy, "/periodSeconds"));
        doc.line(3, &format!("- Type: {}\tValue: {value}\tPeriod: {period} seconds", text(policy, "/type")));
    }
}

/// One metric: how it stands and how it should.
fn metric_line(metric: &Value, current: &Value) -> String {
    let kind = text(metric, "/type");
    let field = match kind {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        other => return format!("<unknown metric type {other:?}>"),
    };
    let metric = metric.get(field).unwrap_or(&Value::Null);
    let now = |name: &str| match scalar(current.pointer(&format!("/{field}/current/{name}"))) {
        none if none.is_empty() => UNKNOWN.to_owned(),
        some => some,
    };
    let target = |name: &str| scalar(metric.pointer(&format!("/target/{name}")));
    let average = !target("averageValue").is_empty();
    let name = text(metric, "/metric/name");
    let by_value = |what: String| match average {
        true => {
            format!("{what} (target average value):\t{} / {}", now("averageValue"), target("averageValue"))
        }
        false => format!("{what} (target value):\t{} / {}", now("value"), target("value")),
    };
    let what = match field {
        "external" => return by_value(format!("{name:?}")),
        "pods" => {
            return format!("{name:?} on pods:\t{} / {}", now("averageValue"), target("averageValue"));
        }
        "object" => {
            let on = metric.get("describedObject").unwrap_or(&Value::Null);
            return by_value(format!("{name:?} on {}/{}", text(on, "/kind"), text(on, "/name")));
        }
        "resource" => format!("resource {} on pods", text(metric, "/name")),
        _ => {
            let (name, container) = (text(metric, "/name"), text(metric, "/container"));
            format!("resource {name} of container {container:?} on pods")
        }
    };
    if average {
        return format!("{what}:\t{} / {}", now("averageValue"), target("averageValue"));
    }
    let now = match now("averageUtilization") {
        unknown if unknown == UNKNOWN => unknown,
        percent => format!("{percent}% ({})", now("averageValue")),
    };
    let target = match target("averageUtilization") {
        none if none.is_empty() => "<auto>".to_owned(),
        percent => format!("{percent}%"),
    };
    format!("{what}  (as a percentage of request):\t{now} / {target}")
}
