//! Rows of what makes pods reachable.
//!
//! # In Kubernetes
//! `printService`, `printEndpointSlice`, `printIngress` … in `pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::cells::{self, list, text, text_or};
use super::{AGE, NAME, Printer, string};

/// Longer lists are cut and counted.
const MAX_LISTED: usize = 3;

static SERVICE: Printer = Printer::new(
    &[
        NAME,
        string("Type", "type determines how the Service is exposed."),
        string("Cluster-IP", "clusterIP is the IP address of the service and is usually assigned randomly."),
        string(
            "External-IP",
            "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service.",
        ),
        string("Port(s)", "The list of ports that are exposed by this service."),
        AGE,
        string(
            "Selector",
            "Route service traffic to pods with label keys and values matching this selector.",
        )
        .wide(),
    ],
    service_row,
);
static ENDPOINTS: Printer = Printer::new(
    &[NAME, string("Endpoints", "The set of all endpoints is the union of all subsets."), AGE],
    |o, now| vec![cells::name(o), json!(endpoints(o)), cells::age(o, now)],
);
static ENDPOINT_SLICE: Printer = Printer::new(
    &[
        NAME,
        string("AddressType", "addressType specifies the type of address carried by this EndpointSlice."),
        string("Ports", "ports specifies the list of network ports exposed by each endpoint in this slice."),
        string("Endpoints", "endpoints is a list of unique endpoints in this slice."),
        AGE,
    ],
    slice_row,
);
static INGRESS: Printer = Printer::new(
    &[
        NAME,
        string(
            "Class",
            "The name of the IngressClass resource that should be used for additional configuration",
        ),
        string("Hosts", "Hosts that incoming requests are matched against before the ingress rule"),
        string("Address", "Address is a list containing ingress points for the load-balancer"),
        string("Ports", "Ports of TLS configurations that open"),
        AGE,
    ],
    ingress_row,
);
static INGRESS_CLASS: Printer = Printer::new(
    &[
        NAME,
        string("Controller", "Controller that is responsible for handling this class"),
        string("Parameters", "A reference to a resource with additional parameters"),
        AGE,
    ],
    |o, now| {
        let parameters = match text(o, "/spec/parameters/kind") {
            "" => "<none>".to_owned(),
            kind => {
                let group = text(o, "/spec/parameters/apiGroup");
                let dot = if group.is_empty() { "" } else { "." };
                format!("{kind}{dot}{group}/{}", text(o, "/spec/parameters/name"))
            }
        };
        vec![cells::name(o), json!(text(o, "/spec/controller")), json!(parameters), cells::age(o, now)]
    },
);
static NETWORK_POLICY: Printer = Printer::new(
    &[NAME, string("Pod-Selector", "Selects the pods to which this NetworkPolicy object applies."), AGE],
    |o, now| vec![cells::name(o), json!(cells::selector(o, "/spec/podSelector")), cells::age(o, now)],
);
static IP_ADDRESS: Printer = Printer::new(
    &[NAME, string("ParentRef", "The reference to the resource that owns the address."), AGE],
    |o, now| vec![cells::name(o), json!(parent_reference(o)), cells::age(o, now)],
);
static SERVICE_CIDR: Printer = Printer::new(
    &[
        NAME,
        string(
            "CIDRs",
            "CIDRs defines the IP blocks in CIDR notation from which to assign service cluster IPs.",
        ),
        AGE,
    ],
    |o, now| vec![cells::name(o), json!(join(list(o, "/spec/cidrs"), ",")), cells::age(o, now)],
);

pub(super) fn core_printer(kind: &str) -> Option<&'static Printer> {
    match kind {
        "Service" => Some(&SERVICE),
        "Endpoints" => Some(&ENDPOINTS),
        _ => None,
    }
}

pub(super) fn printer(kind: &str) -> Option<&'static Printer> {
    Some(match kind {
        "EndpointSlice" => &ENDPOINT_SLICE,
        "Ingress" => &INGRESS,
        "IngressClass" => &INGRESS_CLASS,
        "NetworkPolicy" => &NETWORK_POLICY,
        "IPAddress" => &IP_ADDRESS,
        "ServiceCIDR" => &SERVICE_CIDR,
        _ => return None,
    })
}

fn join(values: &[Value], separator: &str) -> String {
    values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(separator)
}

fn service_row(service: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(service, "/spec/ports")
        .iter()
        .map(|p| {
            let (port, node_port) = (cells::number(p, "/port"), cells::number(p, "/nodePort"));
            let protocol = text_or(p, "/protocol", "TCP");
            if node_port > 0 {
                format!("{port}:{node_port}/{protocol}")
            } else {
                format!("{port}/{protocol}")
            }
        })
        .collect();
    let ports = if ports.is_empty() { "<none>".to_owned() } else { ports.join(",") };
    vec![
        cells::name(service),
        json!(text(service, "/spec/type")),
        json!(text_or(service, "/spec/clusterIPs/0", text_or(service, "/spec/clusterIP", "<none>"))),
        json!(external_ip(service)),
        json!(ports),
        cells::age(service, now),
        json!(cells::labels(service, "/spec/selector")),
    ]
}

fn external_ip(service: &Value) -> String {
    let own = join(list(service, "/spec/externalIPs"), ",");
    match text(service, "/spec/type") {
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        "LoadBalancer" => match (own, balancer_addresses(service)) {
            (own, balancer) if own.is_empty() && balancer.is_empty() => "<pending>".into(),
            (own, balancer) if own.is_empty() => balancer,
            (own, balancer) if balancer.is_empty() => own,
            (own, balancer) => format!("{own},{balancer}"),
        },
        "ClusterIP" | "NodePort" if own.is_empty() => "<none>".into(),
        "ClusterIP" | "NodePort" => own,
        _ => "<unknown>".into(),
    }
}

fn balancer_addresses(object: &Value) -> String {
    let points = list(object, "/status/loadBalancer/ingress");
    let mut addresses: Vec<&str> = points.iter().map(|p| text_or(p, "/ip", text(p, "/hostname"))).collect();
    addresses.sort_unstable();
    addresses.dedup();
    addresses.join(",")
}

/// Shows the first three and counts the rest.
fn shorten(all: &[String], nothing: &str) -> String {
    match all.len() {
        0 => nothing.into(),
        n if n <= MAX_LISTED => all.join(","),
        n => format!("{} + {} more...", all[..MAX_LISTED].join(","), n - MAX_LISTED),
    }
}

fn endpoints(object: &Value) -> String {
    let mut all = Vec::new();
    for subset in list(object, "/subsets") {
        let addresses = list(subset, "/addresses").iter().map(|a| text(a, "/ip"));
        match list(subset, "/ports") {
            [] => all.extend(addresses.map(str::to_owned)),
            ports => {
                for port in ports {
                    let port = cells::number(port, "/port");
                    all.extend(addresses.clone().map(|ip| match ip.contains(':') {
                        true => format!("[{ip}]:{port}"),
                        false => format!("{ip}:{port}"),
                    }));
                }
            }
        }
    }
    shorten(&all, "<none>")
}

fn slice_row(slice: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<String> = list(slice, "/ports")
        .iter()
        .map(|p| match p.get("port").and_then(Value::as_i64) {
            Some(port) => port.to_string(),
            None => text_or(p, "/name", "*").to_owned(),
        })
        .collect();
    let addresses: Vec<String> = list(slice, "/endpoints")
        .iter()
        .flat_map(|e| list(e, "/addresses"))
        .filter_map(Value::as_str)
        .map(str::to_owned)
        .collect();
    vec![
        cells::name(slice),
        json!(text(slice, "/addressType")),
        json!(shorten(&ports, "<unset>")),
        json!(shorten(&addresses, "<unset>")),
        cells::age(slice, now),
    ]
}

fn ingress_row(ingress: &Value, now: Timestamp) -> Vec<Value> {
    let hosts: Vec<String> = list(ingress, "/spec/rules")
        .iter()
        .map(|r| text(r, "/host").to_owned())
        .filter(|h| !h.is_empty())
        .collect();
    let ports = if list(ingress, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        cells::name(ingress),
        json!(text_or(ingress, "/spec/ingressClassName", "<none>")),
        json!(shorten(&hosts, "*")),
        json!(balancer_addresses(ingress)),
        json!(ports),
        cells::age(ingress, now),
    ]
}

fn parent_reference(address: &Value) -> String {
    let part = |name: &str| text(address, &format!("/spec/parentRef/{name}")).to_owned();
    if part("resource").is_empty() {
        return "<none>".into();
    }
    let dot = if part("group").is_empty() { "" } else { "." };
    let resource = format!("{}{dot}{}", part("resource"), part("group")).to_lowercase();
    match part("namespace") {
        namespace if namespace.is_empty() => format!("{resource}/{}", part("name")),
        namespace => format!("{resource}/{namespace}/{}", part("name")),
    }
}
