//! One service port as items of the nftables table.
//!
//! *Step 6 of a pod's journey.* Before: its endpoints are chosen. After: [`super::Nftables`] puts the items of all
//! ports together.
//!
//! A service port is reached at several *fronts*: the cluster IP, external and load balancer's addresses, and the
//! node port. Each front is an element that names a shared chain, plus numbered elements with its endpoints:
//!
//! | shared chain | does |
//! |---|---|
//! | `cluster-N` | throws an N-sided die and sends to that endpoint of the front |
//! | `local-N` | the same among this node's endpoints (numbers from 65536) |
//! | `external-N` | marks for masquerade, then as `cluster-N` |
//! | `external-local-C-L` | pods and the node itself: `cluster-C`; everyone else: `local-L`, unmasqueraded |
//! | `nodeport-…` | the same four with the node port's key, which has no address in it |
//!
//! # Invariants
//! 1. Every element that goes to a chain comes with that chain in the same fragment.
//! 2. Without usable endpoints there is no `service-…` element, only a reject (none at all) or a drop (none here).
//!
//! # In Kubernetes
//! The loop body of `syncProxyRules` in `pkg/proxy/nftables/proxier.go`; names by `servicePortChainNameBase`
//! and `servicePortEndpointChainNameBase`.

use std::net::{Ipv4Addr, SocketAddrV4};

use sha2::{Digest as _, Sha256};

use super::{Body, Collection, Fragment, Key};
use crate::endpoints_map::Endpoint;
use crate::proxy_state::{LocalDetector, NodeView, ServiceState};
use crate::service_map::{Protocol, ServicePortName};

/// The number of the first endpoint that only policy Local uses; more than the endpoints of any Service.
pub const LOCAL_BASE: u32 = 65536;

/// Chain names have room for 256 characters, the longest prefix taken off.
const NAME_LENGTH_MAX: usize = 240;

/// How a packet finds the service port.
#[derive(Clone, Copy)]
enum Front {
    Address(Ipv4Addr, u16),
    NodePort(u16),
}

/// Collects one port's items.
struct Writer<'a> {
    fragment: Fragment,
    name: &'a ServicePortName,
    service: &'a ServiceState,
    view: &'a NodeView,
}

/// All items of one service port on one node.
pub fn render_service(name: &ServicePortName, service: &ServiceState, view: &NodeView) -> Fragment {
    let mut writer = Writer { fragment: Fragment::new(), name, service, view };
    let port = &service.port;
    let cluster_ip = Front::Address(port.cluster_ip, port.port);
    writer.element(Collection::ClusterIps, port.cluster_ip.to_string(), None);
    if service.has_internal_endpoints() {
        writer.internal(cluster_ip);
    } else {
        writer.refuse(cluster_ip);
    }
    let addresses = port.external_ips.iter().chain(&port.load_balancer_vips);
    let mut fronts: Vec<Front> = addresses.map(|address| Front::Address(*address, port.port)).collect();
    if port.node_port != 0 {
        fronts.push(Front::NodePort(port.node_port));
    }
    for front in fronts {
        if service.uses_external_chain() {
            writer.external(front);
        }
        if !service.has_external_endpoints() {
            writer.refuse(front);
        }
    }
    if service.uses_firewall() {
        writer.firewall();
    }
    if writer.has_own_chains() {
        writer.own_chains();
    }
    for endpoint in &service.endpoints.all {
        let ip = endpoint.address.ip();
        writer.element(Collection::HairpinConnections, format!("{ip} . {ip}"), None);
    }
    writer.fragment
}

fn hashed(name: &str) -> String {
    let hash = data_encoding::BASE32.encode(&Sha256::digest(name.as_bytes()));
    let mut hashed = format!("{}-{name}", &hash[..8]);
    if hashed.len() > NAME_LENGTH_MAX {
        hashed.truncate(NAME_LENGTH_MAX - 3);
        hashed.push_str("...");
    }
    hashed
}

/// `PREFIX-ns/name/proto/port`, hashed for uniqueness.
fn port_name(name: &ServicePortName) -> String {
    format!("{}/{}/{}", name.service, name.protocol.as_str(), name.port)
}

/// The rule part that finds packets from this node's pods; negated with `!= `.
fn from_pods(detector: &LocalDetector, not: &str) -> Option<String> {
    match detector {
        LocalDetector::None => None,
        LocalDetector::ClusterCidr(cidr) => Some(format!("ip saddr {not}{cidr}")),
        LocalDetector::BridgeInterface(name) => Some(format!("iifname {not}\"{name}\"")),
        LocalDetector::InterfaceNamePrefix(prefix) => Some(format!("iifname {not}\"{prefix}*\"")),
    }
}

/// Rules that are there whatever Services exist.
pub fn services_chain(view: &NodeView) -> Vec<String> {
    let from = if view.masquerade_all { Some(String::new()) } else { from_pods(&view.local_detector, "!= ") };
    // From outside of the pod network, the endpoint's answer would go straight to the client, which waits for
    // one from the cluster IP.
    let masquerade = from.map(|from| {
        let from = if from.is_empty() { from } else { format!("{from} ") };
        format!("ip daddr @cluster-ips {from}jump mark-for-masquerade")
    });
    masquerade
        .into_iter()
        .chain([
            "ip daddr . meta l4proto . th dport vmap @service-ips".to_owned(),
            "ip daddr @nodeport-ips meta l4proto . th dport vmap @service-nodeports".to_owned(),
        ])
        .collect()
}

impl Writer<'_> {
    fn element(&mut self, collection: Collection, key: String, value: Option<String>) {
        self.fragment.push((Key::Element(collection, key), Body::Element(value)));
    }

    fn chain(&mut self, name: String, rules: Vec<String>) {
        self.fragment.push((Key::Chain(name), Body::Chain(rules)));
    }

    /// Session affinity needs a set for each endpoint. And the shared chains take only TCP: their maps' type is said by
    /// an example, `tcp dport`, which makes nft match TCP first (`th dport` it doesn't take; see [`Collection`]).
    fn has_own_chains(&self) -> bool {
        self.service.port.affinity_seconds.is_some() || self.name.protocol != Protocol::Tcp
    }

    fn own(&self, kind: &str) -> String {
        format!("{kind}-{}", hashed(&port_name(self.name)))
    }

    fn key(&self, front: Front) -> String {
        let protocol = self.name.protocol.as_str();
        match front {
            Front::Address(address, port) => format!("{address} . {protocol} . {port}"),
            Front::NodePort(port) => format!("{protocol} . {port}"),
        }
    }

    fn goto(&mut self, front: Front, chain: &str) {
        let collection = match front {
            Front::Address(..) => Collection::ServiceIps,
            Front::NodePort(_) => Collection::ServiceNodeports,
        };
        let key = self.key(front);
        self.element(collection, key, Some(format!("goto {chain}")));
    }

    fn refuse(&mut self, front: Front) {
        let collection = match front {
            Front::Address(..) => Collection::NoEndpointServices,
            Front::NodePort(_) => Collection::NoEndpointNodeports,
        };
        // Endpoints elsewhere: an answer would tell the client to give up on a working Service.
        let verdict = if self.service.endpoints.has_any { "drop" } else { "goto reject-chain" };
        let key = self.key(front);
        self.element(collection, key, Some(verdict.to_owned()));
    }

    /// The numbered endpoints of a front.
    fn numbered(&mut self, front: Front, base: u32, endpoints: &[Endpoint]) {
        let collection = match front {
            Front::Address(..) => Collection::ServiceEndpoints,
            Front::NodePort(_) => Collection::NodeportEndpoints,
        };
        let key = self.key(front);
        for (number, endpoint) in (base..).zip(endpoints) {
            let value = format!("{} . {}", endpoint.address.ip(), endpoint.address.port());
            self.element(collection, format!("{key} . {number}"), Some(value));
        }
    }

    fn internal(&mut self, front: Front) {
        let local = self.service.port.internal_policy_local;
        if self.has_own_chains() {
            let chain = self.own(if local { "local" } else { "service" });
            self.goto(front, &chain);
            return;
        }
        let service = self.service;
        let endpoints = service.internal_endpoints();
        self.numbered(front, 0, endpoints);
        let chain = self.cluster(front, endpoints.len());
        self.goto(front, &chain);
    }

    fn external(&mut self, front: Front) {
        if self.has_own_chains() {
            let chain = self.own("external");
            self.goto(front, &chain);
            return;
        }
        let service = self.service;
        let (cluster, local) = (&service.endpoints.cluster, &service.endpoints.local);
        self.numbered(front, 0, cluster);
        let chain = if service.port.external_policy_local {
            self.numbered(front, LOCAL_BASE, local);
            self.external_local(front, cluster.len(), local.len())
        } else {
            let target = self.cluster(front, cluster.len());
            let chain = format!("{}external-{}", prefix(front), cluster.len());
            self.chain(chain.clone(), external_rules(None, &target, None));
            chain
        };
        self.goto(front, &chain);
    }

    /// The shared chain that throws an n-sided die.
    fn cluster(&mut self, front: Front, n: usize) -> String {
        let chain = format!("{}cluster-{n}", prefix(front));
        self.chain(chain.clone(), vec![dice(front, n, "")]);
        chain
    }

    fn external_local(&mut self, front: Front, cluster: usize, local: usize) -> String {
        let to_cluster = self.cluster(front, cluster);
        let to_local = (local > 0).then(|| format!("{}local-{local}", prefix(front)));
        if let Some(chain) = &to_local {
            let offset = format!(" offset {LOCAL_BASE}");
            self.chain(chain.clone(), vec![dice(front, local, &offset)]);
        }
        let chain = format!("{}external-local-{cluster}-{local}", prefix(front));
        let rules = external_rules(Some(&self.view.local_detector), &to_cluster, to_local.as_deref());
        self.chain(chain.clone(), rules);
        chain
    }

    fn firewall(&mut self) {
        let chain = self.own("firewall");
        let port = self.service.port.clone();
        let mut rules: Vec<String> =
            port.source_ranges.iter().map(|range| format!("ip saddr {range} return")).collect();
        // A node that uses the load balancer's address has that address as source: it loops back.
        if port.source_ranges.iter().any(|range| range.contains(self.view.node_ip)) {
            rules.extend(port.load_balancer_vips.iter().map(|vip| format!("ip saddr {vip} return")));
        }
        rules.push("drop".to_owned());
        self.chain(chain.clone(), rules);
        for address in &port.load_balancer_vips {
            let key = self.key(Front::Address(*address, port.port));
            self.element(Collection::FirewallIps, key, Some(format!("goto {chain}")));
        }
    }

    /// Chains (and, for affinity, sets) as kube-proxy has them, but dice as plain rules.
    fn own_chains(&mut self) {
        let service = self.service;
        let endpoints = &service.endpoints;
        for endpoint in &endpoints.all {
            let name = self.endpoint_name(endpoint.address);
            let mut rules = Vec::new();
            if let Some(seconds) = service.port.affinity_seconds {
                let declaration =
                    format!("type ipv4_addr ; size 65535 ; flags dynamic,timeout ; timeout {seconds}s ;");
                self.fragment.push((Key::Set(format!("affinity-{name}")), Body::Set(declaration)));
                rules.push(format!("update @affinity-{name} {{ ip saddr }}"));
            }
            rules.push(format!("meta l4proto {} dnat to {}", self.name.protocol.as_str(), endpoint.address));
            self.chain(format!("endpoint-{name}"), rules);
        }
        if service.port.uses_cluster_endpoints() && !endpoints.cluster.is_empty() {
            self.own_dice("service", &endpoints.cluster);
        }
        if service.port.uses_local_endpoints() && !endpoints.local.is_empty() {
            self.own_dice("local", &endpoints.local);
        }
        if service.uses_external_chain() {
            let cluster = self.own("service");
            let rules = if service.port.external_policy_local {
                let local = (!endpoints.local.is_empty()).then(|| self.own("local"));
                external_rules(Some(&self.view.local_detector), &cluster, local.as_deref())
            } else {
                external_rules(None, &cluster, None)
            };
            let chain = self.own("external");
            self.chain(chain, rules);
        }
    }

    fn own_dice(&mut self, kind: &str, endpoints: &[Endpoint]) {
        let names: Vec<String> =
            endpoints.iter().map(|endpoint| self.endpoint_name(endpoint.address)).collect();
        let affinity = self.service.port.affinity_seconds.is_some();
        let known = names
            .iter()
            .filter(|_| affinity)
            .map(|name| format!("ip saddr @affinity-{name} goto endpoint-{name}"));
        let left = (1..=names.len()).rev();
        let dice = left.zip(&names).map(|(left, name)| match left {
            1 => format!("goto endpoint-{name}"),
            left => format!("numgen random mod {left} 0 goto endpoint-{name}"),
        });
        let rules = known.chain(dice).collect();
        let chain = self.own(kind);
        self.chain(chain, rules);
    }

    fn endpoint_name(&self, address: SocketAddrV4) -> String {
        hashed(&format!("{}__{}/{}", port_name(self.name), address.ip(), address.port()))
    }
}

fn prefix(front: Front) -> &'static str {
    match front {
        Front::Address(..) => "",
        Front::NodePort(_) => "nodeport-",
    }
}

fn dice(front: Front, n: usize, offset: &str) -> String {
    let (key, map) = match front {
        Front::Address(..) => ("ip daddr . meta l4proto . th dport", Collection::ServiceEndpoints),
        Front::NodePort(_) => ("meta l4proto . th dport", Collection::NodeportEndpoints),
    };
    format!("dnat ip to {key} . numgen random mod {n}{offset} map @{}", map.name())
}

/// The entrance for external traffic. `local_policy`: how to tell pods; `None`: policy Cluster.
fn external_rules(local_policy: Option<&LocalDetector>, cluster: &str, local: Option<&str>) -> Vec<String> {
    let Some(detector) = local_policy else {
        return vec!["jump mark-for-masquerade".to_owned(), format!("goto {cluster}")];
    };
    let pods = from_pods(detector, "")
        .map(|from| format!("{from} goto {cluster} comment \"short-circuit pod traffic\""));
    pods.into_iter()
        .chain([
            "fib saddr type local jump mark-for-masquerade comment \"masquerade local traffic\"".to_owned(),
            format!("fib saddr type local goto {cluster} comment \"short-circuit local traffic\""),
        ])
        .chain(local.map(|local| format!("goto {local}")))
        .collect()
}
