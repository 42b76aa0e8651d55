//! One service port as iptables rules.
//!
//! *Step 6 of a pod's journey.* Before: its endpoints are chosen. After: [`super::Iptables`] puts the fragments of
//! all ports together.
//!
//! | chain | who comes here |
//! |---|---|
//! | `KUBE-SVC-…` | traffic with policy Cluster: the dice over all endpoints |
//! | `KUBE-SVL-…` | traffic with policy Local: the dice over this node's |
//! | `KUBE-EXT-…` | whoever used an external address or a NodePort: marks for masquerade, short-circuits |
//! | `KUBE-FW-…` | whoever used a load balancer's address that has source ranges |
//! | `KUBE-SEP-…` | one endpoint: hairpin mark, affinity, DNAT |
//!
//! # Invariants
//! 1. With policy Cluster every external packet is marked for masquerade: the answer must come back
//!    through this node. With Local it isn't, and the endpoint sees the client.
//! 2. Without usable endpoints no nat rule is written, only a REJECT (none at all) or a DROP (none here).
//!
//! # In Kubernetes
//! The loop body of `syncProxyRules` in `pkg/proxy/iptables/proxier.go`; the names of chains are
//! `servicePortChainName` and its kin.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};

use sha2::{Digest as _, Sha256};

use crate::endpoints_map::Endpoint;
use crate::proxy_state::{LocalDetector, NodePortAddresses, NodeView, ServiceState};
use crate::service_map::ServicePortName;

/// How chains of service ports begin.
pub const SERVICE_CHAIN_PREFIXES: [&str; 5] =
    ["KUBE-SVC-", "KUBE-SVL-", "KUBE-EXT-", "KUBE-FW-", "KUBE-SEP-"];

/// The rules of one service port; each begins with the name of its chain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ServiceRules {
    /// Rules in the shared chains of the filter table.
    pub filter: Vec<String>,
    /// Rules in the shared chains of the nat table.
    pub nat: Vec<String>,
    /// The port's own chains in the nat table.
    pub chains: BTreeMap<String, Vec<String>>,
}

fn hash(text: &str) -> String {
    let mut encoded = data_encoding::BASE32.encode(&Sha256::digest(text.as_bytes()));
    encoded.truncate(16);
    encoded
}

/// The names of a service port's chains.
struct Names {
    text: String,
    protocol: &'static str,
    hash: String,
}

impl Names {
    fn new(name: &ServicePortName) -> Self {
        let (text, protocol) = (name.to_string(), name.protocol.as_str());
        let hash = hash(&format!("{text}{protocol}"));
        Self { text, protocol, hash }
    }

    fn chain(&self, kind: &str) -> String {
        format!("KUBE-{kind}-{}", self.hash)
    }

    fn endpoint(&self, address: SocketAddrV4) -> String {
        format!("KUBE-SEP-{}", hash(&format!("{}{}{address}", self.text, self.protocol)))
    }

    /// The comment that many rules carry; kube-proxy quotes it only where there is a blank.
    fn comment(&self, what: &str) -> String {
        let text = &self.text;
        format!("-m comment --comment \"{}\"", what.replace("{}", text))
    }

    fn plain_comment(&self) -> String {
        format!("-m comment --comment {}", self.text)
    }
}

/// All rules of one service port on one node.
pub fn render_service(name: &ServicePortName, service: &ServiceState, view: &NodeView) -> ServiceRules {
    let names = Names::new(name);
    let mut rules = ServiceRules::default();
    cluster_ip(&mut rules, &names, service, view);
    external_addresses(&mut rules, &names, service);
    node_port(&mut rules, &names, service, view);
    if service.port.health_check_node_port != 0 {
        // Load balancers must always get an answer, above all when the answer is "no endpoints here".
        let comment = names.comment("{} health check node port");
        rules.filter.push(format!(
            "KUBE-NODEPORTS {comment} -m tcp -p tcp --dport {} -j ACCEPT",
            service.port.health_check_node_port
        ));
    }
    external_chain(&mut rules, &names, service, view);
    firewall_chain(&mut rules, &names, service, view);
    if service.port.uses_cluster_endpoints() {
        balance(&mut rules, &names, &names.chain("SVC"), &service.endpoints.cluster, service);
    }
    if service.port.uses_local_endpoints() {
        balance(&mut rules, &names, &names.chain("SVL"), &service.endpoints.local, service);
    }
    for endpoint in &service.endpoints.all {
        endpoint_chain(&mut rules, &names, endpoint, service);
    }
    rules
}

fn to(names: &Names, address: Ipv4Addr, port: u16) -> String {
    format!("-m {protocol} -p {protocol} -d {address} --dport {port}", protocol = names.protocol)
}

/// What becomes of packets that no endpoint may have.
fn refusal(names: &Names, service: &ServiceState) -> (String, &'static str) {
    if service.endpoints.has_any {
        (names.comment("{} has no local endpoints"), "DROP")
    } else {
        (names.comment("{} has no endpoints"), "REJECT")
    }
}

fn cluster_ip(rules: &mut ServiceRules, names: &Names, service: &ServiceState, view: &NodeView) {
    let destination = to(names, service.port.cluster_ip, service.port.port);
    if !service.has_internal_endpoints() {
        let (comment, target) = refusal(names, service);
        rules.filter.push(format!("KUBE-SERVICES {comment} {destination} -j {target}"));
        return;
    }
    let chain = names.chain(if service.port.internal_policy_local { "SVL" } else { "SVC" });
    let comment = names.comment("{} cluster IP");
    rules.nat.push(format!("KUBE-SERVICES {comment} {destination} -j {chain}"));
    // From outside of the pod network, the endpoint's answer would go straight to the client,
    // which waits for one from the cluster IP.
    let from = if view.masquerade_all { Some(String::new()) } else { if_not_local(&view.local_detector) };
    if let Some(from) = from {
        let rule = format!("{chain} {comment} {destination}{from} -j KUBE-MARK-MASQ");
        rules.chains.entry(chain).or_default().push(rule);
    }
}

fn if_local(detector: &LocalDetector) -> Option<String> {
    match detector {
        LocalDetector::None => None,
        LocalDetector::ClusterCidr(cidr) => Some(format!(" -s {cidr}")),
        LocalDetector::BridgeInterface(name) => Some(format!(" -i {name}")),
        LocalDetector::InterfaceNamePrefix(prefix) => Some(format!(" -i {prefix}+")),
    }
}

fn if_not_local(detector: &LocalDetector) -> Option<String> {
    if_local(detector).map(|local| format!(" !{local}"))
}

fn external_addresses(rules: &mut ServiceRules, names: &Names, service: &ServiceState) {
    let (comment, target) = refusal(names, service);
    let external = names.chain("EXT");
    for address in &service.port.external_ips {
        let destination = to(names, *address, service.port.port);
        if service.endpoints.has_any {
            let comment = names.comment("{} external IP");
            rules.nat.push(format!("KUBE-SERVICES {comment} {destination} -j {external}"));
        }
        if !service.has_external_endpoints() {
            rules.filter.push(format!("KUBE-EXTERNAL-SERVICES {comment} {destination} -j {target}"));
        }
    }
    let firewall = names.chain("FW");
    for address in &service.port.load_balancer_vips {
        let destination = to(names, *address, service.port.port);
        if service.endpoints.has_any {
            let chain = if service.uses_firewall() { &firewall } else { &external };
            let comment = names.comment("{} loadbalancer IP");
            rules.nat.push(format!("KUBE-SERVICES {comment} {destination} -j {chain}"));
        }
        if service.uses_firewall() {
            let comment = names.comment(&format!("{{}} traffic not accepted by {firewall}"));
            rules.filter.push(format!("KUBE-PROXY-FIREWALL {comment} {destination} -j DROP"));
        }
        if !service.has_external_endpoints() {
            rules.filter.push(format!("KUBE-EXTERNAL-SERVICES {comment} {destination} -j {target}"));
        }
    }
}

fn node_port(rules: &mut ServiceRules, names: &Names, service: &ServiceState, view: &NodeView) {
    let port = service.port.node_port;
    if port == 0 {
        return;
    }
    let (plain, protocol, external) = (names.plain_comment(), names.protocol, names.chain("EXT"));
    let head = format!("KUBE-NODEPORTS {plain} -m {protocol} -p {protocol}");
    if service.endpoints.has_any {
        if view.nfacct && view.localhost_node_ports && view.node_port_addresses == NodePortAddresses::All {
            rules.nat.push(format!("{head} -d 127.0.0.0/8 --dport {port} -m nfacct --nfacct-name localhost_nps_accepted_pkts -j {external}"));
        }
        rules.nat.push(format!("{head} --dport {port} -j {external}"));
    }
    if !service.has_external_endpoints() {
        let (comment, target) = refusal(names, service);
        rules.filter.push(format!("KUBE-EXTERNAL-SERVICES {comment} -m addrtype --dst-type LOCAL -m {protocol} -p {protocol} --dport {port} -j {target}"));
    }
}

fn external_chain(rules: &mut ServiceRules, names: &Names, service: &ServiceState, view: &NodeView) {
    if !service.uses_external_chain() {
        return;
    }
    let (chain, cluster) = (names.chain("EXT"), names.chain("SVC"));
    let mut add =
        |rule: String| rules.chains.entry(chain.clone()).or_default().push(format!("{chain} {rule}"));
    if service.port.external_policy_local {
        // A pod or this node that uses the external address is not external: it may go anywhere.
        if let Some(from) = if_local(&view.local_detector) {
            let comment = names.comment("pod traffic for {} external destinations");
            add(format!("{comment}{from} -j {cluster}"));
        }
        let comment = names.comment("masquerade LOCAL traffic for {} external destinations");
        add(format!("{comment} -m addrtype --src-type LOCAL -j KUBE-MARK-MASQ"));
        let comment = names.comment("route LOCAL traffic for {} external destinations");
        add(format!("{comment} -m addrtype --src-type LOCAL -j {cluster}"));
    } else {
        let comment = names.comment("masquerade traffic for {} external destinations");
        add(format!("{comment} -j KUBE-MARK-MASQ"));
    }
    if service.has_external_endpoints() {
        let target = if service.port.external_policy_local { names.chain("SVL") } else { cluster };
        add(format!("-j {target}"));
    }
}

fn firewall_chain(rules: &mut ServiceRules, names: &Names, service: &ServiceState, view: &NodeView) {
    if !service.uses_firewall() {
        return;
    }
    let (chain, external) = (names.chain("FW"), names.chain("EXT"));
    let comment = names.comment("{} loadbalancer IP");
    let mut own = Vec::new();
    for range in &service.port.source_ranges {
        own.push(format!("{chain} {comment} -s {range} -j {external}"));
    }
    // A node that uses the load balancer's address has that address as source: it loops back.
    if service.port.source_ranges.iter().any(|range| range.contains(view.node_ip)) {
        for address in &service.port.load_balancer_vips {
            own.push(format!("{chain} {comment} -s {address} -j {external}"));
        }
    }
    let comment = names.comment("other traffic to {} will be dropped by KUBE-PROXY-FIREWALL");
    own.push(format!("{chain} {comment}"));
    rules.chains.insert(chain, own);
}

/// The dice: endpoint i of n gets 1/(n-i) of what the ones before it left over.
fn balance(
    rules: &mut ServiceRules,
    names: &Names,
    chain: &str,
    endpoints: &[Endpoint],
    service: &ServiceState,
) {
    if endpoints.is_empty() {
        return;
    }
    let own = rules.chains.entry(chain.to_owned()).or_default();
    let comment = |endpoint: &Endpoint| names.comment(&format!("{{}} -> {}", endpoint.address));
    if let Some(seconds) = service.port.affinity_seconds {
        for endpoint in endpoints {
            let target = names.endpoint(endpoint.address);
            own.push(format!(
                "{chain} {} -m recent --name {target} --rcheck --seconds {seconds} --reap -j {target}",
                comment(endpoint)
            ));
        }
    }
    let mut left = endpoints.len();
    for endpoint in endpoints {
        let dice = match left {
            1 => String::new(),
            #[expect(clippy::cast_precision_loss, reason = "a Service has fewer than 2^53 endpoints")]
            left => format!(" -m statistic --mode random --probability {:.10}", 1.0 / left as f64),
        };
        own.push(format!("{chain} {}{dice} -j {}", comment(endpoint), names.endpoint(endpoint.address)));
        left -= 1;
    }
}

fn endpoint_chain(rules: &mut ServiceRules, names: &Names, endpoint: &Endpoint, service: &ServiceState) {
    let (chain, comment, protocol) =
        (names.endpoint(endpoint.address), names.plain_comment(), names.protocol);
    let affinity = match service.port.affinity_seconds {
        Some(_) => format!(" -m recent --name {chain} --set"),
        None => String::new(),
    };
    let own = vec![
        // Hairpin: a pod that reaches itself through its Service must see another address than its own.
        format!("{chain} {comment} -s {} -j KUBE-MARK-MASQ", endpoint.address.ip()),
        format!(
            "{chain} {comment}{affinity} -m {protocol} -p {protocol} -j DNAT --to-destination {}",
            endpoint.address
        ),
    ];
    rules.chains.insert(chain, own);
}
