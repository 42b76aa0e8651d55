//! The pages of Service, Endpoints and EndpointSlice.
//!
//! # In Kubernetes
//! `describeService`, `describeEndpoints` and `describeEndpointSliceV1` in `kubectl/pkg/describe/describe.go`.

use serde_json::Value;

use super::access::{joined, list, map_text, number, or_none, scalar, text};
use super::doc::Doc;
use super::{Answers, Query};
use crate::object::Object;

/// How many endpoints a line names before it counts the rest.
const MAX_ENDPOINTS: usize = 3;

/// The EndpointSlices of a Service.
pub fn queries(service: &Object) -> Vec<Query> {
    let selector = format!("kubernetes.io/service-name={}", service.name());
    vec![Query::new("discovery.k8s.io", "v1", "endpointslices", service.namespace()).labels(selector)]
}

/// A Service's page without its events.
pub fn write(doc: &mut Doc, service: &Value, answers: &Answers) {
    doc.head(service);
    doc.labels_and_annotations(service);
    doc.field(0, "Selector", &map_text(service, "/spec/selector"));
    doc.field(0, "Type", text(service, "/spec/type"));
    if service.pointer("/spec/ipFamilyPolicy").is_some() {
        doc.field(0, "IP Family Policy", text(service, "/spec/ipFamilyPolicy"));
    }
    doc.field(0, "IP Families", or_none(&joined(list(service, "/spec/ipFamilies"), ",")));
    doc.field(0, "IP", text(service, "/spec/clusterIP"));
    doc.field(0, "IPs", or_none(&joined(list(service, "/spec/clusterIPs"), ",")));
    write_outside(doc, service);
    for port in list(service, "/spec/ports") {
        write_port(doc, port, answers.of("endpointslices"));
    }
    doc.field(0, "Session Affinity", text(service, "/spec/sessionAffinity"));
    let optional = [
        ("External Traffic Policy", "/spec/externalTrafficPolicy"),
        ("Internal Traffic Policy", "/spec/internalTrafficPolicy"),
        ("Traffic Distribution", "/spec/trafficDistribution"),
    ];
    for (title, pointer) in optional {
        if !text(service, pointer).is_empty() {
            doc.field(0, title, text(service, pointer));
        }
    }
    if number(service, "/spec/healthCheckNodePort") != 0 {
        doc.field(0, "HealthCheck NodePort", &number(service, "/spec/healthCheckNodePort").to_string());
    }
    let ranges = list(service, "/spec/loadBalancerSourceRanges");
    if !ranges.is_empty() {
        doc.field(0, "LoadBalancer Source Ranges", &joined(ranges, ","));
    }
}

/// Addresses by which a Service is reached from outside.
fn write_outside(doc: &mut Doc, service: &Value) {
    let external = list(service, "/spec/externalIPs");
    if !external.is_empty() {
        doc.field(0, "External IPs", &joined(external, ","));
    }
    if !text(service, "/spec/loadBalancerIP").is_empty() {
        doc.field(0, "Desired LoadBalancer IP", text(service, "/spec/loadBalancerIP"));
    }
    if !text(service, "/spec/externalName").is_empty() {
        doc.field(0, "External Name", text(service, "/spec/externalName"));
    }
    let ingress: Vec<String> =
        list(service, "/status/loadBalancer/ingress").iter().map(ingress_text).collect();
    if !ingress.is_empty() {
        doc.field(0, "LoadBalancer Ingress", &ingress.join(", "));
    }
}

fn ingress_text(ingress: &Value) -> String {
    let address =
        [text(ingress, "/ip"), text(ingress, "/hostname")].into_iter().find(|text| !text.is_empty());
    match text(ingress, "/ipMode") {
        "" => address.unwrap_or_default().to_owned(),
        mode => format!("{} ({mode})", address.unwrap_or_default()),
    }
}

fn write_port(doc: &mut Doc, port: &Value, slices: &[Object]) {
    let name = text(port, "/name");
    let shown = if name.is_empty() { "<unset>" } else { name };
    let protocol = text(port, "/protocol");
    doc.field(0, "Port", &format!("{shown}\t{}/{protocol}", number(port, "/port")));
    let target = match port.get("targetPort") {
        None => "0".to_owned(),
        target => scalar(target),
    };
    doc.field(0, "TargetPort", &format!("{target}/{protocol}"));
    if number(port, "/nodePort") > 0 {
        doc.field(0, "NodePort", &format!("{shown}\t{}/{protocol}", number(port, "/nodePort")));
    }
    doc.field(0, "Endpoints", &ready_endpoints(slices, name));
}

/// Ready addresses of the port of this name, the first few spelled out.
pub(super) fn ready_endpoints(slices: &[Object], port_name: &str) -> String {
    let mut shown = Vec::new();
    let mut count = 0;
    for slice in slices.iter().map(Object::as_value) {
        for port in list(slice, "/ports").iter().filter(|port| text(port, "/name") == port_name) {
            let ready = list(slice, "/endpoints").iter().filter(|endpoint| {
                endpoint.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true)
            });
            for address in ready.flat_map(|endpoint| list(endpoint, "/addresses")).filter_map(Value::as_str) {
                count += 1;
                if shown.len() < MAX_ENDPOINTS {
                    shown.push(host_port(address, number(port, "/port")));
                }
            }
        }
    }
    let more =
        if count > MAX_ENDPOINTS { format!(" + {} more...", count - MAX_ENDPOINTS) } else { String::new() };
    // Slices without a ready endpoint show nothing, no slice at all is said.
    if slices.is_empty() { "<none>".to_owned() } else { format!("{}{more}", shown.join(",")) }
}

fn host_port(address: &str, port: i64) -> String {
    if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") }
}

/// An Endpoints object's page without its events.
pub fn write_endpoints(doc: &mut Doc, endpoints: &Value) {
    doc.head(endpoints);
    doc.labels_and_annotations(endpoints);
    doc.line(0, "Subsets:");
    for subset in list(endpoints, "/subsets") {
        for (title, pointer) in [("Addresses", "/addresses"), ("NotReadyAddresses", "/notReadyAddresses")] {
            let ips: Vec<&str> = list(subset, pointer).iter().map(|address| text(address, "/ip")).collect();
            doc.field(1, title, or_none(&ips.join(",")));
        }
        let ports = list(subset, "/ports");
        if !ports.is_empty() {
            doc.line(1, "Ports:");
            doc.line(2, "Name\tPort\tProtocol");
            doc.line(2, "----\t----\t--------");
            for port in ports {
                let name = text(port, "/name");
                let name = if name.is_empty() { "<unset>" } else { name };
                doc.line(2, &format!("{name}\t{}\t{}", number(port, "/port"), text(port, "/protocol")));
            }
        }
        doc.line(0, "");
    }
}

/// An EndpointSlice's page without its events.
pub fn write_endpoint_slice(doc: &mut Doc, slice: &Value) {
    doc.head(slice);
    doc.labels_and_annotations(slice);
    doc.field(0, "AddressType", text(slice, "/addressType"));
    let ports = list(slice, "/ports");
    if ports.is_empty() {
        doc.line(0, "Ports: <unset>");
    } else {
        doc.line(0, "Ports:\n  Name\tPort\tProtocol");
        doc.line(1, "----\t----\t--------");
        for port in ports {
            let unset = |text: String| if text.is_empty() { "<unset>".to_owned() } else { text };
            let (name, number) = (unset(scalar(port.get("name"))), unset(scalar(port.get("port"))));
            doc.line(1, &format!("{name}\t{number}\t{}", text(port, "/protocol")));
        }
    }
    let endpoints = list(slice, "/endpoints");
    doc.line(0, if endpoints.is_empty() { "Endpoints: <none>" } else { "Endpoints:" });
    for endpoint in endpoints {
        doc.line(1, &format!("- Addresses:\t{}", joined(list(endpoint, "/addresses"), ", ")));
        let unset = |pointer: &str| match scalar(endpoint.pointer(pointer)) {
            text if text.is_empty() => "<unset>".to_owned(),
            text => text,
        };
        doc.line(2, "Conditions:");
        doc.field(3, "Ready", &unset("/conditions/ready"));
        doc.field(2, "Hostname", &unset("/hostname"));
        if let Some(target) = endpoint.get("targetRef") {
            doc.field(2, "TargetRef", &format!("{}/{}", text(target, "/kind"), text(target, "/name")));
        }
        doc.field(2, "NodeName", &unset("/nodeName"));
        doc.field(2, "Zone", &unset("/zone"));
    }
}
