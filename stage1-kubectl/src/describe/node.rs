//! The page of a node: what it has, what is promised to its pods, what it says about itself.
//!
//! # In Kubernetes
//! `describeNode` and `describeNodeResource` in `kubectl/pkg/describe/describe.go`. Left out: resource slices of devices.

use std::collections::BTreeMap;

use serde_json::Value;

use super::access::{flag, list, or_none, pairs, scalar, text};
use super::doc::{Doc, rfc1123z};
use super::pod::write_resources;
use super::{Answers, Query};
use crate::object::Object;
use crate::quantity::Quantity;

const ROLE_LABEL: &str = "node-role.kubernetes.io/";
/// Resources that every node's page sums up; others appear when a node has them.
const USUAL: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];

/// The node's lease and the pods on it that have not ended.
pub fn queries(node: &Object) -> Vec<Query> {
    let running = format!("spec.nodeName={},status.phase!=Failed,status.phase!=Succeeded", node.name());
    vec![
        Query::new("coordination.k8s.io", "v1", "leases", Some("kube-node-lease"))
            .fields(format!("metadata.name={}", node.name())),
        Query::new("", "v1", "pods", None).fields(running),
    ]
}

/// Writes the page without its events.
pub fn write(doc: &mut Doc, node: &Object, answers: &Answers) {
    let value = node.as_value();
    doc.field(0, "Name", node.name());
    doc.field(0, "Roles", or_none(&roles(value)));
    doc.labels_and_annotations(value);
    doc.field(0, "CreationTimestamp", &doc.time(value.pointer("/metadata/creationTimestamp")));
    doc.multiline(0, "Taints", &list(value, "/spec/taints").iter().map(taint_text).collect::<Vec<_>>());
    doc.field(0, "Unschedulable", &flag(value, "/spec/unschedulable").to_string());
    write_lease(doc, answers);
    write_conditions(doc, value);
    doc.line(0, "Addresses:");
    for address in list(value, "/status/addresses") {
        doc.field(1, text(address, "/type"), text(address, "/address"));
    }
    write_resources(doc, 0, "Capacity", value, "/status/capacity");
    write_resources(doc, 0, "Allocatable", value, "/status/allocatable");
    write_system_info(doc, value);
    for (title, pointer) in [("PodCIDR", "/spec/podCIDR"), ("ProviderID", "/spec/providerID")] {
        if !text(value, pointer).is_empty() {
            doc.field(0, title, text(value, pointer));
        }
        let cidrs = list(value, "/spec/podCIDRs");
        if title == "PodCIDR" && !cidrs.is_empty() {
            doc.field(0, "PodCIDRs", &super::access::joined(cidrs, ","));
        }
    }
    write_pods(doc, value, answers.of("pods"));
}

fn roles(node: &Value) -> String {
    let mut roles: Vec<String> = Vec::new();
    for (label, value) in pairs(node, "/metadata/labels") {
        match label.strip_prefix(ROLE_LABEL) {
            Some(role) if !role.is_empty() => roles.push(role.to_owned()),
            None if label == "kubernetes.io/role" => roles.push(scalar(Some(value))),
            _ => {}
        }
    }
    roles.sort();
    roles.dedup();
    roles.join(",")
}

fn taint_text(taint: &Value) -> String {
    let (key, value, effect) = (text(taint, "/key"), text(taint, "/value"), text(taint, "/effect"));
    if value.is_empty() { format!("{key}:{effect}") } else { format!("{key}={value}:{effect}") }
}

fn write_lease(doc: &mut Doc, answers: &Answers) {
    doc.line(0, "Lease:");
    let Some(lease) = answers.of("leases").first().map(Object::as_value) else {
        return doc.line(1, "Failed to get lease: leases.coordination.k8s.io not found");
    };
    let unset = |text: &str| if text.is_empty() { "<unset>".to_owned() } else { text.to_owned() };
    let time = |pointer: &str| match text(lease, pointer) {
        "" => "<unset>".to_owned(),
        time => rfc1123z(time),
    };
    doc.field(1, "HolderIdentity", &unset(text(lease, "/spec/holderIdentity")));
    doc.field(1, "AcquireTime", &time("/spec/acquireTime"));
    doc.field(1, "RenewTime", &time("/spec/renewTime"));
}

fn write_conditions(doc: &mut Doc, node: &Value) {
    let conditions = list(node, "/status/conditions");
    if conditions.is_empty() {
        return;
    }
    doc.line(0, "Conditions:\n  Type\tStatus\tLastHeartbeatTime\tLastTransitionTime\tReason\tMessage");
    doc.line(1, "----\t------\t-----------------\t------------------\t------\t-------");
    for condition in conditions {
        let time = |name: &str| rfc1123z(text(condition, name));
        let (heartbeat, transition) = (time("/lastHeartbeatTime"), time("/lastTransitionTime"));
        let (kind, status) = (text(condition, "/type"), text(condition, "/status"));
        let (reason, message) = (text(condition, "/reason"), text(condition, "/message"));
        doc.line(1, &format!("{kind} \t{status} \t{heartbeat} \t{transition} \t{reason} \t{message}"));
    }
}

fn write_system_info(doc: &mut Doc, node: &Value) {
    let fields = [
        ("Machine ID", "machineID"),
        ("System UUID", "systemUUID"),
        ("Boot ID", "bootID"),
        ("Kernel Version", "kernelVersion"),
        ("OS Image", "osImage"),
        ("Operating System", "operatingSystem"),
        ("Architecture", "architecture"),
        ("Container Runtime Version", "containerRuntimeVersion"),
        ("Kubelet Version", "kubeletVersion"),
        ("Kube-Proxy Version", "kubeProxyVersion"),
    ];
    doc.line(0, "System Info:");
    for (title, field) in fields {
        doc.field(1, title, text(node, &format!("/status/nodeInfo/{field}")));
    }
}

/// What a pod asks for and may use: its containers' sum, or what an init container needs alone, plus the overhead.
fn pod_resources(pod: &Value, list_name: &str) -> BTreeMap<String, Quantity> {
    let of = |container: &Value| quantities(container, &format!("/resources/{list_name}"));
    let mut total = BTreeMap::new();
    for container in list(pod, "/spec/containers") {
        add_all(&mut total, of(container));
    }
    // Sidecars stay, so they count for all that starts after them; a plain init container only for its own turn.
    let mut sidecars = BTreeMap::new();
    let mut peak: BTreeMap<String, Quantity> = BTreeMap::new();
    for container in list(pod, "/spec/initContainers") {
        let mut turn = sidecars.clone();
        add_all(&mut turn, of(container));
        if text(container, "/restartPolicy") == "Always" {
            add_all(&mut total, of(container));
            sidecars = turn.clone();
        }
        raise_all(&mut peak, turn);
    }
    raise_all(&mut total, peak);
    let overhead = quantities(pod, "/spec/overhead");
    for (name, quantity) in overhead
        .into_iter()
        .filter(|(name, _)| list_name == "requests" || total.contains_key(name))
        .collect::<Vec<_>>()
    {
        add_all(&mut total, BTreeMap::from([(name, quantity)]));
    }
    total
}

fn quantities(value: &Value, pointer: &str) -> BTreeMap<String, Quantity> {
    pairs(value, pointer)
        .into_iter()
        .filter_map(|(name, quantity)| {
            Some((name.to_owned(), Quantity::parse(&scalar(Some(quantity))).ok()?))
        })
        .collect()
}

fn add_all(total: &mut BTreeMap<String, Quantity>, more: BTreeMap<String, Quantity>) {
    for (name, quantity) in more {
        let sum = match total.remove(&name) {
            Some(present) => present + quantity,
            None => quantity,
        };
        total.insert(name, sum);
    }
}

fn raise_all(total: &mut BTreeMap<String, Quantity>, other: BTreeMap<String, Quantity>) {
    for (name, quantity) in other {
        if total.get(&name).is_none_or(|present| *present < quantity) {
            total.insert(name, quantity);
        }
    }
}

fn write_pods(doc: &mut Doc, node: &Value, pods: &[Object]) {
    let allocatable = match quantities(node, "/status/allocatable") {
        empty if empty.is_empty() => quantities(node, "/status/capacity"),
        allocatable => allocatable,
    };
    doc.field(0, "Non-terminated Pods", &format!("({} in total)", pods.len()));
    doc.line(1, "Namespace\tName\t\tCPU Requests\tCPU Limits\tMemory Requests\tMemory Limits\tAge");
    doc.line(1, "---------\t----\t\t------------\t----------\t---------------\t-------------\t---");
    let (mut requests, mut limits) = (BTreeMap::new(), BTreeMap::new());
    for pod in pods {
        let asked = pod_resources(pod.as_value(), "requests");
        let allowed = pod_resources(pod.as_value(), "limits");
        let cells = ["cpu", "memory"]
            .into_iter()
            .flat_map(|name| [share(&asked, &allocatable, name), share(&allowed, &allocatable, name)])
            .collect::<Vec<_>>();
        let age = doc.since(text(pod.as_value(), "/metadata/creationTimestamp"));
        doc.line(
            1,
            &format!(
                "{}\t{}\t\t{}\t{age}",
                pod.namespace().unwrap_or_default(),
                pod.name(),
                cells.join("\t")
            ),
        );
        add_all(&mut requests, asked);
        add_all(&mut limits, allowed);
    }
    doc.line(0, "Allocated resources:\n  (Total limits may be over 100 percent, i.e., overcommitted.)");
    doc.line(1, "Resource\tRequests\tLimits");
    doc.line(1, "--------\t--------\t------");
    for name in USUAL {
        doc.line(
            1,
            &format!(
                "{name}\t{}\t{}",
                share(&requests, &allocatable, name),
                share(&limits, &allocatable, name)
            ),
        );
    }
    for name in allocatable.keys().filter(|name| !USUAL.contains(&name.as_str()) && *name != "pods") {
        let shown = |map: &BTreeMap<String, Quantity>| {
            map.get(name).map_or_else(|| "0".to_owned(), ToString::to_string)
        };
        let huge = name.starts_with("hugepages-");
        let cell =
            |map: &BTreeMap<String, Quantity>| if huge { share(map, &allocatable, name) } else { shown(map) };
        doc.line(1, &format!("{name}\t{}\t{}", cell(&requests), cell(&limits)));
    }
}

/// `250m (12%)` of what the node can give.
fn share(of: &BTreeMap<String, Quantity>, allocatable: &BTreeMap<String, Quantity>, name: &str) -> String {
    let Some(quantity) = of.get(name) else { return "0 (0%)".to_owned() };
    // Parts of a CPU count; of all else there are whole ones only.
    let count = |quantity: &Quantity| match name {
        "cpu" => quantity.milli_value() as f64,
        _ => quantity.value() as f64,
    };
    let whole = allocatable.get(name).map_or(0.0, count);
    let percent = if whole == 0.0 { 0 } else { (count(quantity) / whole * 100.0) as i64 };
    format!("{quantity} ({percent}%)")
}
