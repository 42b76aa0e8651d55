//! Rows of what a cluster is made of: nodes, namespaces, events, configuration.
//!
//! # In Kubernetes
//! `printNode`, `printEvent`, `printSecret` … in `pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{self, count, list, number, text, text_or};
use super::{AGE, NAME, Printer, string};

static NODE: Printer = Printer::new(
    &[
        NAME,
        string("Status", "The status of the node"),
        string("Roles", "The roles of the node"),
        AGE,
        string("Version", "Kubelet Version reported by the node."),
        string("Internal-IP", "List of addresses reachable to the node.").wide(),
        string("External-IP", "List of addresses reachable to the node.").wide(),
        string("OS-Image", "OS Image reported by the node from /etc/os-release (e.g. Debian GNU/Linux 7 (wheezy)).").wide(),
        string(
            "Kernel-Version",
            "Kernel Version reported by the node from 'uname -r' (e.g. 3.16.0-0.bpo.4-amd64).",
        )
        .wide(),
        string(
            "Container-Runtime",
            "ContainerRuntime Version reported by the node through runtime remote API (e.g. containerd://1.4.2).",
        )
        .wide(),
    ],
    node_row,
);
static NAMESPACE: Printer =
    Printer::new(&[NAME, string("Status", "The status of the namespace"), AGE], |o, now| {
        vec![cells::name(o), json!(text(o, "/status/phase")), cells::age(o, now)]
    });
static EVENT: Printer = Printer::new(
    &[
        string("Last Seen", "The time at which the most recent occurrence of this event was recorded."),
        string("Type", "Type of this event (Normal, Warning), new types could be added in the future"),
        string("Reason", "This should be a short, machine understandable string that gives the reason for the transition into the object's current status."),
        string("Object", "The object that this event is about."),
        string("Subobject", "If referring to a piece of an object instead of an entire object, this string should contain a valid JSON/Go field access statement.").wide(),
        string("Source", "The component reporting this event. Should be a short machine understandable string.").wide(),
        string("Message", "A human-readable description of the status of this operation."),
        string("First Seen", "The time at which the event was first recorded. (Time of server receipt is in TypeMeta.)").wide(),
        string("Count", "The number of times this event has occurred.").wide(),
        string("Name", NAME.description).wide(),
    ],
    event_row,
);
static CONFIG_MAP: Printer =
    Printer::new(&[NAME, string("Data", "Data contains the configuration data."), AGE], |o, now| {
        vec![cells::name(o), json!(count(o, "/data") + count(o, "/binaryData")), cells::age(o, now)]
    });
static SECRET: Printer = Printer::new(
    &[
        NAME,
        string("Type", "Used to facilitate programmatic handling of secret data."),
        string("Data", "Data contains the secret data."),
        AGE,
    ],
    |o, now| vec![cells::name(o), json!(text(o, "/type")), json!(count(o, "/data")), cells::age(o, now)],
);
static SERVICE_ACCOUNT: Printer = Printer::new(
    &[
        NAME,
        string(
            "Secrets",
            "Secrets is a list of the secrets in the same namespace that pods running using this ServiceAccount are allowed to use.",
        ),
        AGE,
    ],
    |o, now| vec![cells::name(o), json!(count(o, "/secrets")), cells::age(o, now)],
);
static RESOURCE_QUOTA: Printer = Printer::new(
    &[
        NAME,
        string("Request", "Request represents a minimum amount of cpu/memory that a container may consume."),
        string(
            "Limit",
            "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
        ),
        AGE,
    ],
    quota_row,
);
static COMPONENT_STATUS: Printer = Printer::new(
    &[
        NAME,
        string("Status", "Status of the component conditions"),
        string("Message", "Message of the component conditions"),
        string("Error", "Error of the component conditions"),
    ],
    component_row,
);

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "Node" => &NODE,
        "Namespace" => &NAMESPACE,
        "Event" => &EVENT,
        "ConfigMap" => &CONFIG_MAP,
        "Secret" => &SECRET,
        "ServiceAccount" => &SERVICE_ACCOUNT,
        "ResourceQuota" => &RESOURCE_QUOTA,
        "ComponentStatus" => &COMPONENT_STATUS,
        _ => return None,
    })
}

fn node_row(node: &Value, now: Timestamp) -> Vec<Value> {
    let ready = list(node, "/status/conditions").iter().find(|c| text(c, "/type") == "Ready");
    let mut status = match ready.map(|c| text(c, "/status")) {
        Some("True") => "Ready".to_owned(),
        Some(_) => "NotReady".to_owned(),
        None => "Unknown".to_owned(),
    };
    if cells::truth(node, "/spec/unschedulable") {
        status.push_str(",SchedulingDisabled");
    }
    let address = |kind: &str| {
        let found = list(node, "/status/addresses").iter().find(|a| text(a, "/type") == kind);
        found.map_or("<none>", |a| text(a, "/address")).to_owned()
    };
    let system = |field: &str| text_or(node, &format!("/status/nodeInfo/{field}"), "<unknown>").to_owned();
    vec![
        cells::name(node),
        json!(status),
        json!(node_roles(node)),
        cells::age(node, now),
        json!(text(node, "/status/nodeInfo/kubeletVersion")),
        json!(address("InternalIP")),
        json!(address("ExternalIP")),
        json!(system("osImage")),
        json!(system("kernelVersion")),
        json!(system("containerRuntimeVersion")),
    ]
}

fn node_roles(node: &Value) -> String {
    let Some(labels) = node.pointer("/metadata/labels").and_then(Value::as_object) else {
        return "<none>".into();
    };
    let mut roles: Vec<&str> = labels
        .iter()
        .filter_map(|(key, value)| match key.strip_prefix("node-role.kubernetes.io/") {
            Some(role) => Some(role),
            None if key == "kubernetes.io/role" => value.as_str(),
            None => None,
        })
        .filter(|role| !role.is_empty())
        .collect();
    roles.sort_unstable();
    roles.dedup();
    if roles.is_empty() { "<none>".into() } else { roles.join(",") }
}

/// Events come in two dresses; each field has two names.
fn event_row(event: &Value, now: Timestamp) -> Vec<Value> {
    let either = |a: &str, b: &str| text_or(event, a, text(event, b)).to_owned();
    let first_time = text_or(
        event,
        "/firstTimestamp",
        text_or(event, "/deprecatedFirstTimestamp", text(event, "/eventTime")),
    );
    let mut last_time =
        text_or(event, "/lastTimestamp", text_or(event, "/deprecatedLastTimestamp", first_time));
    let mut occurrences = number(event, "/count").max(number(event, "/deprecatedCount")).max(1);
    if event.get("series").is_some_and(|s| !s.is_null()) {
        last_time = text(event, "/series/lastObservedTime");
        occurrences = number(event, "/series/count");
    }
    let reference = if event.get("regarding").is_some() { "/regarding" } else { "/involvedObject" };
    let kind = text(event, &format!("{reference}/kind")).to_lowercase();
    let target = match text(event, &format!("{reference}/name")) {
        "" => kind,
        name => format!("{kind}/{name}"),
    };
    let source_parts = [
        either("/source/component", "/deprecatedSource/component"),
        either("/source/host", "/deprecatedSource/host"),
    ];
    let [mut component, mut host] = source_parts;
    if component.is_empty() {
        component = either("/reportingComponent", "/reportingController");
        host = text(event, "/reportingInstance").to_owned();
    }
    let source = if host.is_empty() { component } else { format!("{component}, {host}") };
    vec![
        json!(cells::since(last_time, now)),
        json!(text(event, "/type")),
        json!(text(event, "/reason")),
        json!(target),
        json!(text(event, &format!("{reference}/fieldPath"))),
        json!(source),
        json!(either("/message", "/note").trim()),
        json!(cells::since(first_time, now)),
        json!(occurrences),
        cells::name(event),
    ]
}

fn quota_row(quota: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let hard = quota.pointer("/status/hard").and_then(Value::as_object);
    for (resource, hard) in hard.into_iter().flatten() {
        let used = quota
            .pointer("/status/used")
            .and_then(|u| u.get(resource))
            .and_then(Value::as_str)
            .unwrap_or("0");
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{}", hard.as_str().unwrap_or("")));
    }
    vec![cells::name(quota), json!(requests.join(", ")), json!(limits.join(", ")), cells::age(quota, now)]
}

fn component_row(component: &Value, _now: Timestamp) -> Vec<Value> {
    let healthy = list(component, "/conditions").iter().find(|c| text(c, "/type") == "Healthy");
    let status = match healthy.map(|c| text(c, "/status")) {
        Some("True") => "Healthy",
        Some(_) => "Unhealthy",
        None => "Unknown",
    };
    let field = |name: &str| healthy.map_or("", |c| text(c, name)).to_owned();
    vec![cells::name(component), json!(status), json!(field("/message")), json!(field("/error"))]
}
