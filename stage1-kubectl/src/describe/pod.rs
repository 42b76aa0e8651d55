//! The page of a pod: where it runs, what its containers do, why it waits.
//!
//! # In Kubernetes
//! `describePod` in `kubectl/pkg/describe/describe.go`. Left out: pod-level `resourceClaims`.

use serde_json::Value;

use super::access::{amount, list, number, pairs, selector_text, text};
use super::container::{Field, write_containers};
use super::doc::Doc;
use super::volume::write_volumes;

/// Writes the page without its events.
pub fn write(doc: &mut Doc, pod: &Value) {
    write_head(doc, pod);
    let field = Field::of_pod(pod);
    if !list(pod, "/spec/initContainers").is_empty() {
        write_containers(
            doc,
            "",
            "Init Containers",
            list(pod, "/spec/initContainers"),
            list(pod, "/status/initContainerStatuses"),
            &field,
        );
    }
    write_containers(
        doc,
        "",
        "Containers",
        list(pod, "/spec/containers"),
        list(pod, "/status/containerStatuses"),
        &field,
    );
    let ephemeral = list(pod, "/spec/ephemeralContainers");
    if !ephemeral.is_empty() {
        write_containers(
            doc,
            "",
            "Ephemeral Containers",
            ephemeral,
            list(pod, "/status/ephemeralContainerStatuses"),
            &field,
        );
    }
    write_conditions(doc, pod);
    write_volumes(doc, "", list(pod, "/spec/volumes"));
    doc.field(0, "QoS Class", text(pod, "/status/qosClass"));
    doc.map(0, "Node-Selectors", pod, "/spec/nodeSelector");
    doc.multiline(0, "Tolerations", &tolerations(list(pod, "/spec/tolerations")));
    let spread = spread_constraints(list(pod, "/spec/topologySpreadConstraints"));
    if !spread.is_empty() {
        doc.multiline(0, "Topology Spread Constraints", &spread);
    }
}

fn write_head(doc: &mut Doc, pod: &Value) {
    doc.head(pod);
    if pod.pointer("/spec/priority").is_some() {
        doc.field(0, "Priority", &number(pod, "/spec/priority").to_string());
    }
    let optional = [
        ("Priority Class Name", "/spec/priorityClassName"),
        ("Runtime Class Name", "/spec/runtimeClassName"),
        ("Service Account", "/spec/serviceAccountName"),
    ];
    write_present(doc, pod, &optional);
    match text(pod, "/spec/nodeName") {
        "" => doc.field(0, "Node", "<none>"),
        node => doc.field(0, "Node", &format!("{node}/{}", text(pod, "/status/hostIP"))),
    }
    if let Some(start) = pod.pointer("/status/startTime") {
        doc.field(0, "Start Time", &doc.time(Some(start)));
    }
    doc.labels_and_annotations(pod);
    let phase = text(pod, "/status/phase");
    let deletion = text(pod, "/metadata/deletionTimestamp");
    if !deletion.is_empty() && !matches!(phase, "Failed" | "Succeeded") {
        doc.field(0, "Status", &format!("Terminating (lasts {})", doc.since(deletion)));
        let grace = number(pod, "/metadata/deletionGracePeriodSeconds");
        doc.field(0, "Termination Grace Period", &format!("{grace}s"));
    } else {
        doc.field(0, "Status", phase);
    }
    let reasons = [
        ("Reason", "/status/reason"),
        ("Message", "/status/message"),
        ("SeccompProfile", "/spec/securityContext/seccompProfile/type"),
        ("LocalhostProfile", "/spec/securityContext/seccompProfile/localhostProfile"),
    ];
    write_present(doc, pod, &reasons);
    doc.field(0, "IP", text(pod, "/status/podIP"));
    let ips = list(pod, "/status/podIPs");
    doc.line(0, if ips.is_empty() { "IPs:\t<none>" } else { "IPs:" });
    for ip in ips {
        doc.field(1, "IP", text(ip, "/ip"));
    }
    if let Some(owner) = controlled_by(pod) {
        doc.field(0, "Controlled By", &owner);
    }
    write_present(doc, pod, &[("NominatedNodeName", "/status/nominatedNodeName")]);
}

/// Fields that have a line only when they are set.
fn write_present(doc: &mut Doc, object: &Value, fields: &[(&str, &str)]) {
    for (title, pointer) in fields {
        let value = text(object, pointer);
        if !value.is_empty() {
            doc.field(0, title, value);
        }
    }
}

/// `Kind/name` of the controlling owner.
pub fn controlled_by(object: &Value) -> Option<String> {
    list(object, "/metadata/ownerReferences")
        .iter()
        .find(|owner| super::access::flag(owner, "/controller"))
        .map(|owner| format!("{}/{}", text(owner, "/kind"), text(owner, "/name")))
}

fn write_conditions(doc: &mut Doc, pod: &Value) {
    let conditions = list(pod, "/status/conditions");
    let gates = list(pod, "/spec/readinessGates");
    if !gates.is_empty() {
        doc.line(0, "Readiness Gates:\n  Type\tStatus");
        for gate in gates {
            let kind = text(gate, "/conditionType");
            let condition = conditions.iter().find(|condition| text(condition, "/type") == kind);
            let status = condition.map_or("<none>", |condition| text(condition, "/status"));
            doc.line(1, &format!("{kind} \t{status} "));
        }
    }
    if !conditions.is_empty() {
        doc.line(0, "Conditions:\n  Type\tStatus");
        for condition in conditions {
            doc.line(1, &format!("{} \t{} ", text(condition, "/type"), text(condition, "/status")));
        }
    }
}

/// Tolerations in the order of their keys, as `key=value:Effect op=Exists for 300s`.
pub fn tolerations(tolerations: &[Value]) -> Vec<String> {
    let mut sorted: Vec<&Value> = tolerations.iter().collect();
    sorted.sort_by_key(|toleration| text(toleration, "/key"));
    sorted.into_iter().map(toleration_text).collect()
}

fn toleration_text(toleration: &Value) -> String {
    let (key, value, effect) =
        (text(toleration, "/key"), text(toleration, "/value"), text(toleration, "/effect"));
    let mut line = key.to_owned();
    if !value.is_empty() {
        line.push_str(&format!("={value}"));
    }
    if !effect.is_empty() {
        line.push_str(&format!(":{effect}"));
    }
    if text(toleration, "/operator") == "Exists" && value.is_empty() {
        line.push_str(if line.is_empty() { "op=Exists" } else { " op=Exists" });
    }
    if toleration.pointer("/tolerationSeconds").is_some() {
        line.push_str(&format!(" for {}s", number(toleration, "/tolerationSeconds")));
    }
    line
}

/// Spread constraints in the order of their keys, a line each.
pub fn spread_constraints(constraints: &[Value]) -> Vec<String> {
    let mut sorted: Vec<&Value> = constraints.iter().collect();
    sorted.sort_by_key(|constraint| text(constraint, "/topologyKey"));
    sorted
        .into_iter()
        .map(|constraint| {
            let (key, when) = (text(constraint, "/topologyKey"), text(constraint, "/whenUnsatisfiable"));
            let line = format!("{key}:{when} when max skew {} is exceeded", number(constraint, "/maxSkew"));
            match constraint.pointer("/labelSelector") {
                Some(selector) => format!("{line} for selector {}", selector_text(Some(selector))),
                None => line,
            }
        })
        .collect()
}

/// A resource list, a line a resource.
pub fn write_resources(doc: &mut Doc, level: usize, title: &str, value: &Value, pointer: &str) {
    let resources = pairs(value, pointer);
    if resources.is_empty() {
        return;
    }
    doc.line(level, &format!("{title}:"));
    for (name, quantity) in resources {
        doc.field(level + 1, name, &amount(Some(quantity)));
    }
}
