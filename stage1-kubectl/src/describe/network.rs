//! The pages of Ingress, IngressClass and NetworkPolicy.
//!
//! # In Kubernetes
//! `describeIngressV1`, `describeIngressClassV1` and `describeNetworkPolicy` in `kubectl/pkg/describe/describe.go`.

use serde_json::Value;

use super::access::{joined, list, scalar, selector_text, text};
use super::doc::Doc;
use super::service::ready_endpoints;
use super::{Answers, Query};
use crate::object::Object;

/// Whose EndpointSlice it is.
const SERVICE_NAME: &str = "kubernetes.io/service-name";

/// The backends of an Ingress.
fn backends(ingress: &Value) -> impl Iterator<Item = &Value> {
    let rules = list(ingress, "/spec/rules").iter();
    let paths = rules.flat_map(|rule| list(rule, "/http/paths")).filter_map(|path| path.get("backend"));
    ingress.pointer("/spec/defaultBackend").into_iter().chain(paths)
}

/// The Services behind an Ingress and their EndpointSlices.
pub fn ingress_queries(ingress: &Object) -> Vec<Query> {
    let mut names: Vec<&str> = backends(ingress.as_value())
        .map(|backend| text(backend, "/service/name"))
        .filter(|name| !name.is_empty())
        .collect();
    names.sort_unstable();
    names.dedup();
    let namespace = ingress.namespace();
    let services = names
        .iter()
        .map(|name| Query::new("", "v1", "services", namespace).fields(format!("metadata.name={name}")));
    let slices = Query::new("discovery.k8s.io", "v1", "endpointslices", namespace)
        .labels(format!("{SERVICE_NAME} in ({})", names.join(",")));
    services.chain((!names.is_empty()).then_some(slices)).collect()
}

/// An IngressClass's page without its events.
pub fn write_ingress_class(doc: &mut Doc, class: &Value) {
    doc.field(0, "Name", text(class, "/metadata/name"));
    doc.labels_and_annotations(class);
    doc.field(0, "Controller", text(class, "/spec/controller"));
    if let Some(parameters) = class.pointer("/spec/parameters") {
        doc.line(0, "Parameters:");
        if parameters.get("apiGroup").is_some() {
            doc.field(1, "APIGroup", text(parameters, "/apiGroup"));
        }
        doc.field(1, "Kind", text(parameters, "/kind"));
        doc.field(1, "Name", text(parameters, "/name"));
    }
}

/// An Ingress's page without its events.
pub fn write_ingress(doc: &mut Doc, ingress: &Value, answers: &Answers) {
    let backend_text = |backend: &Value| backend_text(backend, answers);
    doc.field(0, "Name", text(ingress, "/metadata/name"));
    doc.map(0, "Labels", ingress, "/metadata/labels");
    doc.field(0, "Namespace", text(ingress, "/metadata/namespace"));
    let addresses: Vec<&str> = list(ingress, "/status/loadBalancer/ingress")
        .iter()
        .flat_map(|entry| [text(entry, "/ip"), text(entry, "/hostname")])
        .filter(|address| !address.is_empty())
        .collect();
    doc.field(0, "Address", &addresses.join(","));
    let class = text(ingress, "/spec/ingressClassName");
    doc.field(0, "Ingress Class", super::access::or_none(class));
    let default =
        ingress.pointer("/spec/defaultBackend").map_or_else(|| "<default>".to_owned(), backend_text);
    doc.field(0, "Default backend", &default);
    let tls = list(ingress, "/spec/tls");
    if !tls.is_empty() {
        doc.line(0, "TLS:");
        for entry in tls {
            let (secret, hosts) = (text(entry, "/secretName"), joined(list(entry, "/hosts"), ","));
            let end =
                if secret.is_empty() { "SNI routes".to_owned() } else { format!("{secret} terminates") };
            doc.line(1, &format!("{end} {hosts}"));
        }
    }
    doc.line(0, "Rules:\n  Host\tPath\tBackends");
    doc.line(1, "----\t----\t--------");
    let rules = list(ingress, "/spec/rules");
    for rule in rules {
        let host = text(rule, "/host");
        doc.line(1, &format!("{}\t", if host.is_empty() { "*" } else { host }));
        for path in list(rule, "/http/paths") {
            let backend = path.pointer("/backend").map(backend_text).unwrap_or_default();
            doc.line(1, &format!("\t{} \t{backend}", text(path, "/path")));
        }
    }
    if rules.is_empty() {
        doc.line(1, &format!("*\t* \t{default}"));
    }
    doc.annotations(0, ingress, "/metadata/annotations");
}

fn backend_text(backend: &Value, answers: &Answers) -> String {
    if let Some(resource) = backend.get("resource") {
        let group = text(resource, "/apiGroup");
        return format!(
            "APIGroup: {group}, Kind: {}, Name: {}",
            text(resource, "/kind"),
            text(resource, "/name")
        );
    }
    let port = backend.pointer("/service/port/number").or_else(|| backend.pointer("/service/port/name"));
    let name = text(backend, "/service/name");
    let Some(service) = answers.of("services").iter().find(|service| service.name() == name) else {
        return format!("{name}:{} (<error: services {name:?} not found>)", scalar(port));
    };
    let meant = list(service.as_value(), "/spec/ports")
        .iter()
        .find(|one| port.is_some() && (one.get("port") == port || one.get("name") == port));
    let port_name = meant.map_or("", |one| text(one, "/name"));
    let own = answers.of("endpointslices").iter();
    let slices: Vec<Object> = own.filter(|slice| slice.label(SERVICE_NAME) == Some(name)).cloned().collect();
    format!("{name}:{} ({})", scalar(port), ready_endpoints(&slices, port_name))
}

/// A NetworkPolicy's page.
pub fn write_network_policy(doc: &mut Doc, policy: &Value) {
    doc.head(policy);
    let created = text(policy, "/metadata/creationTimestamp").parse::<jiff::Timestamp>();
    let created =
        created.map(|time| time.strftime("%Y-%m-%d %H:%M:%S +0000 UTC").to_string()).unwrap_or_default();
    doc.field(0, "Created on", &created);
    doc.labels_and_annotations(policy);
    doc.line(0, "Spec:");
    let pods = selector_text(policy.pointer("/spec/podSelector"));
    if pods == "<none>" {
        doc.line(1, "PodSelector:     <none> (Allowing the specific traffic to all pods in this namespace)");
    } else {
        doc.line(1, &format!("PodSelector:     {pods}"));
    }
    let types: Vec<&str> = list(policy, "/spec/policyTypes").iter().filter_map(Value::as_str).collect();
    if types.is_empty() || types.contains(&"Ingress") {
        doc.line(1, "Allowing ingress traffic:");
        write_rules(doc, list(policy, "/spec/ingress"), &Direction::INGRESS);
    } else {
        doc.line(1, "Not affecting ingress traffic");
    }
    if types.contains(&"Egress") {
        doc.line(1, "Allowing egress traffic:");
        write_rules(doc, list(policy, "/spec/egress"), &Direction::EGRESS);
    } else {
        doc.line(1, "Not affecting egress traffic");
    }
    doc.line(1, &format!("Policy Types: {}", types.join(", ")));
}

/// What differs between the rules for traffic in and traffic out.
struct Direction {
    peers: &'static str,
    word: &'static str,
    isolated: &'static str,
    unrestricted: &'static str,
}

impl Direction {
    const INGRESS: Self = Self {
        peers: "/from",
        word: "From",
        isolated: "<none> (Selected pods are isolated for ingress connectivity)",
        unrestricted: "From: <any> (traffic not restricted by source)",
    };
    const EGRESS: Self = Self {
        peers: "/to",
        word: "To",
        isolated: "<none> (Selected pods are isolated for egress connectivity)",
        unrestricted: "To: <any> (traffic not restricted by destination)",
    };
}

fn write_rules(doc: &mut Doc, rules: &[Value], direction: &Direction) {
    if rules.is_empty() {
        return doc.line(2, direction.isolated);
    }
    for (at, rule) in rules.iter().enumerate() {
        let ports = list(rule, "/ports");
        if ports.is_empty() {
            doc.line(2, "To Port: <any> (traffic allowed to all ports)");
        }
        for port in ports {
            let protocol = match text(port, "/protocol") {
                "" => "TCP",
                protocol => protocol,
            };
            match port.get("endPort") {
                Some(end) => doc.line(
                    2,
                    &format!("To Port Range: {}-{}/{protocol}", scalar(port.get("port")), scalar(Some(end))),
                ),
                None => doc.line(2, &format!("To Port: {}/{protocol}", scalar(port.get("port")))),
            }
        }
        let peers = list(rule, direction.peers);
        if peers.is_empty() {
            doc.line(2, direction.unrestricted);
        }
        for peer in peers {
            write_peer(doc, peer, direction.word);
        }
        if at + 1 < rules.len() {
            doc.line(2, "----------");
        }
    }
}

fn write_peer(doc: &mut Doc, peer: &Value, word: &str) {
    doc.line(2, &format!("{word}:"));
    if let Some(selector) = peer.get("namespaceSelector") {
        doc.line(3, &format!("NamespaceSelector: {}", selector_text(Some(selector))));
    }
    if let Some(selector) = peer.get("podSelector") {
        doc.line(3, &format!("PodSelector: {}", selector_text(Some(selector))));
    }
    if let Some(block) = peer.get("ipBlock") {
        doc.line(3, "IPBlock:");
        doc.line(4, &format!("CIDR: {}", text(block, "/cidr")));
        doc.line(4, &format!("Except: {}", joined(list(block, "/except"), ", ")));
    }
}
