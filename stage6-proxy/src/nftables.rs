//! The nftables dialect: flat maps, so that neither loading nor looking up depends on how many Services there are.
//!
//! *Step 6 of a pod's journey.* Before: [`crate::proxy_state`] has the Service and its endpoints. After: a packet to
//! the Service's address is looked up in one map, dice are thrown, and the endpoint is looked up in another.
//!
//! kube-proxy's nftables mode finds the Service in a map (`service-ips`) and then goes to a chain of
//! that Service, whose rule holds an *anonymous* map of its endpoints. The lookup is fast, but the kernel finds a
//! name for each anonymous map by searching through all of them: loading 20,000 Services takes minutes. Here the
//! endpoints of all Services stand in one more map, keyed by the packet's destination *and a number*:
//!
//! ```text
//! service-ips        10.96.1.1 . tcp . 80       → goto cluster-3
//! chain cluster-3    dnat ip to ip daddr . meta l4proto . th dport . numgen random mod 3 map @service-endpoints
//! service-endpoints  10.96.1.1 . tcp . 80 . 0   → 10.244.0.5 . 8080     (and 1, and 2)
//! ```
//!
//! So there is one chain for all Services with three endpoints, and a Service is nothing but map elements. Some
//! things still need chains of their own, named as kube-proxy names them: session affinity (a set of known
//! clients for each endpoint), UDP and SCTP (see [`render`]), and source ranges. Maps that kube-proxy has too bear its names.
//!
//! Endpoints that only policy Local may use are numbered from [`render::LOCAL_BASE`] in the same map.
//!
//! # Invariants
//! 1. Applying an update's transaction to the old table gives the table of a full render.
//! 2. An item that two service ports want (a cluster IP with two ports, a shared chain) goes when the last one goes.
//!
//! # In Kubernetes
//! `pkg/proxy/nftables/proxier.go` and KEP-3866. Left out: IPv6.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use crate::packet::{Packet, Probability, Ruleset, Verdict};
use crate::proxy_state::{NodeView, ProxyState, ServiceState};
use crate::service_map::ServicePortName;

pub mod diff;
pub mod render;
pub mod run;
pub mod trace;

use diff::{Transaction, write_full, write_update};
use render::render_service;

/// The table that is ours alone; deleting it undoes everything.
pub const TABLE: &str = "ip kube-proxy";

/// The named sets and maps, in the order of their declaration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Collection {
    /// All cluster IPs.
    ClusterIps,
    /// The node's addresses that accept NodePort traffic.
    NodeportIps,
    /// Where nobody answers: reject or drop.
    NoEndpointServices,
    /// The same for NodePorts.
    NoEndpointNodeports,
    /// Addresses with source ranges.
    FirewallIps,
    /// Which chain a destination goes to.
    ServiceIps,
    /// The same for NodePorts.
    ServiceNodeports,
    /// The numbered endpoints of a destination.
    ServiceEndpoints,
    /// The same for NodePorts.
    NodeportEndpoints,
    /// (endpoint, endpoint): who reaches itself.
    HairpinConnections,
}

impl Collection {
    /// In the order of declaration.
    pub const ALL: [Self; 10] = [
        Self::ClusterIps,
        Self::NodeportIps,
        Self::NoEndpointServices,
        Self::NoEndpointNodeports,
        Self::FirewallIps,
        Self::ServiceIps,
        Self::ServiceNodeports,
        Self::ServiceEndpoints,
        Self::NodeportEndpoints,
        Self::HairpinConnections,
    ];

    /// Its name in the table.
    pub fn name(self) -> &'static str {
        match self {
            Self::ClusterIps => "cluster-ips",
            Self::NodeportIps => "nodeport-ips",
            Self::NoEndpointServices => "no-endpoint-services",
            Self::NoEndpointNodeports => "no-endpoint-nodeports",
            Self::FirewallIps => "firewall-ips",
            Self::ServiceIps => "service-ips",
            Self::ServiceNodeports => "service-nodeports",
            Self::ServiceEndpoints => "service-endpoints",
            Self::NodeportEndpoints => "nodeport-endpoints",
            Self::HairpinConnections => "hairpin-connections",
        }
    }

    /// `set` or `map`, and its declaration.
    pub fn declaration(self) -> (&'static str, &'static str) {
        const VERDICT: &str = "type ipv4_addr . inet_proto . inet_service : verdict";
        const PORT_VERDICT: &str = "type inet_proto . inet_service : verdict";
        // The type of a random number has no name: it is said by an example. The example of a port is TCP's because
        // nft 1.0.6 takes `th` here, but not in a rule that a later run adds ("conflicting protocols").
        const NUMBERED: &str =
            "typeof ip daddr . meta l4proto . th dport . numgen random mod 2 : ip daddr . tcp dport";
        const PORT_NUMBERED: &str =
            "typeof meta l4proto . th dport . numgen random mod 2 : ip daddr . tcp dport";
        match self {
            Self::ClusterIps | Self::NodeportIps => ("set", "type ipv4_addr"),
            Self::NoEndpointServices | Self::FirewallIps | Self::ServiceIps => ("map", VERDICT),
            Self::NoEndpointNodeports | Self::ServiceNodeports => ("map", PORT_VERDICT),
            Self::ServiceEndpoints => ("map", NUMBERED),
            Self::NodeportEndpoints => ("map", PORT_NUMBERED),
            Self::HairpinConnections => ("set", "type ipv4_addr . ipv4_addr"),
        }
    }

    /// What `nft list` shows a reader.
    pub fn comment(self) -> &'static str {
        match self {
            Self::ClusterIps => "Active ClusterIPs",
            Self::NodeportIps => "IPs that accept NodePort traffic",
            Self::NoEndpointServices => "vmap to drop or reject packets to services with no endpoints",
            Self::NoEndpointNodeports => {
                "vmap to drop or reject packets to service nodeports with no endpoints"
            }
            Self::FirewallIps => "destinations that are subject to LoadBalancerSourceRanges",
            Self::ServiceIps => "ClusterIP, ExternalIP and LoadBalancer IP traffic",
            Self::ServiceNodeports => "NodePort traffic",
            Self::ServiceEndpoints => "numbered endpoints of each destination",
            Self::NodeportEndpoints => "numbered endpoints of each NodePort",
            Self::HairpinConnections => "endpoints that reach themselves",
        }
    }
}

/// What an item of the table is called.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Key {
    /// A set of affinity clients.
    Set(String),
    /// A chain.
    Chain(String),
    /// An element of a collection.
    Element(Collection, String),
}

/// What it holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The set's declaration.
    Set(String),
    /// The chain's rules.
    Chain(Vec<String>),
    /// The element's value; `None` in sets.
    Element(Option<String>),
}

/// What one service port wants in the table.
pub type Fragment = Vec<(Key, Body)>;

/// The table of a node.
#[derive(Clone, Debug)]
pub struct Nftables {
    view: NodeView,
    fragments: BTreeMap<ServicePortName, Fragment>,
    /// Who wants what: an item is in the table as long as someone is listed, and the first one listed decides.
    items: BTreeMap<Key, BTreeMap<ServicePortName, Body>>,
}

impl Nftables {
    /// The table of a state.
    pub fn render(state: &ProxyState, view: &NodeView) -> Self {
        let mut table = Self { view: view.clone(), fragments: BTreeMap::new(), items: BTreeMap::new() };
        for (name, service) in state {
            table.insert(name, render_service(name, service, view));
        }
        table
    }

    fn insert(&mut self, name: &ServicePortName, fragment: Fragment) {
        for (key, body) in &fragment {
            self.items.entry(key.clone()).or_default().insert(name.clone(), body.clone());
        }
        self.fragments.insert(name.clone(), fragment);
    }

    fn remove(&mut self, name: &ServicePortName) -> Option<Fragment> {
        let fragment = self.fragments.remove(name)?;
        for (key, _) in &fragment {
            if let Some(owners) = self.items.get_mut(key) {
                owners.remove(name);
                if owners.is_empty() {
                    self.items.remove(key);
                }
            }
        }
        Some(fragment)
    }

    fn body(&self, key: &Key) -> Option<&Body> {
        self.items.get(key)?.values().next()
    }

    // ANCHOR: incremental-update
    /// Takes changed service ports (`None`: gone) and answers the transaction that changes the kernel's table
    /// alike. The cost follows the number of changed ports, not that of all.
    pub fn update(&mut self, changed: &BTreeMap<ServicePortName, Option<ServiceState>>) -> Transaction {
        let fresh: BTreeMap<_, _> = changed
            .iter()
            .map(|(name, service)| {
                (name, service.as_ref().map(|service| render_service(name, service, &self.view)))
            })
            .collect();
        let old = changed.keys().filter_map(|name| self.fragments.get(name)).flatten();
        let touched: BTreeSet<Key> =
            old.chain(fresh.values().flatten().flatten()).map(|(key, _)| key.clone()).collect();
        let before: BTreeMap<Key, Body> =
            touched.iter().filter_map(|key| Some((key.clone(), self.body(key)?.clone()))).collect();
        for (name, fragment) in fresh {
            self.remove(name);
            if let Some(fragment) = fragment {
                self.insert(name, fragment);
            }
        }
        let after: BTreeMap<&Key, &Body> =
            touched.iter().filter_map(|key| Some((key, self.body(key)?))).collect();
        write_update(&before, &after)
    }
    // ANCHOR_END: incremental-update

    /// The transaction that replaces whatever table is there by this one.
    pub fn full(&self) -> String {
        let items = self.items.iter().filter_map(|(key, owners)| Some((key, owners.values().next()?)));
        write_full(&self.view, items)
    }

    /// How many service ports are in it.
    pub fn len(&self) -> usize {
        self.fragments.len()
    }

    /// None?
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }
}

impl fmt::Display for Nftables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full())
    }
}

impl Ruleset for Nftables {
    fn verdicts(&self, packet: &Packet) -> Vec<(Verdict, Probability)> {
        trace::Table::parse(&self.to_string()).verdicts(packet)
    }
}
