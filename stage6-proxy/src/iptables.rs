//! The iptables dialect: kube-proxy's chains, rule for rule.
//!
//! *Step 6 of a pod's journey.* Before: [`crate::proxy_state`] has the Service and its endpoints. After: a packet
//! to the Service's address walks `KUBE-SERVICES` → `KUBE-SVC-…` → `KUBE-SEP-…` and leaves with the pod's address.
//!
//! iptables has no maps: `KUBE-SERVICES` is a list that is searched from the top, one rule a service port, and load
//! balancing is a chain of dice ("1/3 here, else 1/2 there, else the last"). It is how Services worked for
//! ten years, and what most clusters still have; the names of the chains are hashes because a chain's name has room
//! for 28 characters.
//!
//! [`render`] makes one fragment a service port. A change replaces one fragment, and the text for
//! `iptables-restore --noflush` then holds the shared chains and that port's own chains, nothing else.
//! [`trace`] reads such text back and says what a packet meets; [`restore`] talks to the kernel.
//!
//! # Invariants
//! 1. A chain is declared in the text (and thereby flushed) exactly when all of its rules follow.
//! 2. A chain that no service port has any more is deleted by the text that removes the last jump to it.
//!
//! # In Kubernetes
//! `pkg/proxy/iptables/proxier.go`. Left out: IPv6, large-cluster mode (chains are left undeleted for a
//! while), the `KUBE-PROXY-CANARY` watch of firewall flushes (the periodic full sync repairs them).

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write as _};
use std::sync::Arc;

use crate::packet::{Packet, Probability, Ruleset, Verdict};
use crate::proxy_state::{NodePortAddresses, NodeView, ProxyState, ServiceState};
use crate::service_map::ServicePortName;

pub mod render;
pub mod restore;
pub mod trace;

use render::{ServiceRules, render_service};

/// Jumps from the kernel's chains to ours, in the order in which they are inserted at the top: the last comes
/// first in the kernel's chain.
const JUMPS: [(&str, &str); 14] = [
    (
        "filter",
        "INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES",
    ),
    (
        "filter",
        "FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes externally-visible service portals\" -j KUBE-EXTERNAL-SERVICES",
    ),
    ("filter", "INPUT -m comment --comment \"kubernetes health check service ports\" -j KUBE-NODEPORTS"),
    (
        "filter",
        "FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
    ),
    (
        "filter",
        "OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES",
    ),
    ("filter", "FORWARD -m comment --comment \"kubernetes forwarding rules\" -j KUBE-FORWARD"),
    (
        "filter",
        "INPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
    ),
    (
        "filter",
        "OUTPUT -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
    ),
    (
        "filter",
        "FORWARD -m conntrack --ctstate NEW -m comment --comment \"kubernetes load balancer firewall\" -j KUBE-PROXY-FIREWALL",
    ),
    ("nat", "OUTPUT -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES"),
    ("nat", "PREROUTING -m comment --comment \"kubernetes service portals\" -j KUBE-SERVICES"),
    ("nat", "POSTROUTING -m comment --comment \"kubernetes postrouting rules\" -j KUBE-POSTROUTING"),
    ("filter", "INPUT -j KUBE-FIREWALL"),
    ("filter", "OUTPUT -j KUBE-FIREWALL"),
];

/// The filter table's chains that every sync rewrites.
const FILTER_CHAINS: [&str; 5] =
    ["KUBE-SERVICES", "KUBE-EXTERNAL-SERVICES", "KUBE-FORWARD", "KUBE-NODEPORTS", "KUBE-PROXY-FIREWALL"];
/// The nat table's.
const NAT_CHAINS: [&str; 4] = ["KUBE-SERVICES", "KUBE-NODEPORTS", "KUBE-POSTROUTING", "KUBE-MARK-MASQ"];

/// The rules of a whole node.
#[derive(Clone, Debug)]
pub struct Iptables {
    view: NodeView,
    services: BTreeMap<ServicePortName, Arc<ServiceRules>>,
}

/// What an update changed: the chains to write anew and the chains to delete.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Service ports whose own chains must be written.
    pub write: BTreeSet<ServicePortName>,
    /// Chains that are gone.
    pub delete: BTreeSet<String>,
}

impl Iptables {
    /// All rules of a state.
    pub fn render(state: &ProxyState, view: &NodeView) -> Self {
        let services = state
            .iter()
            .map(|(name, service)| (name.clone(), Arc::new(render_service(name, service, view))))
            .collect();
        Self { view: view.clone(), services }
    }

    /// Takes changed service ports (`None`: gone); the cost follows their number.
    pub fn update(&mut self, changed: &BTreeMap<ServicePortName, Option<ServiceState>>) -> Changes {
        let mut changes = Changes::default();
        for (name, service) in changed {
            let old = self.services.remove(name);
            let old_chains = old.iter().flat_map(|rules| rules.chains.keys().cloned());
            changes.delete.extend(old_chains);
            if let Some(service) = service {
                let rules = render_service(name, service, &self.view);
                for chain in rules.chains.keys() {
                    changes.delete.remove(chain);
                }
                self.services.insert(name.clone(), Arc::new(rules));
                changes.write.insert(name.clone());
            }
        }
        changes
    }

    /// The input for `iptables-restore --noflush`: the shared chains, and of the service ports' own chains those
    /// that `write` picks. `missing_jumps`: rules of [`Self::jumps`] that the kernel lacks.
    fn restore_text(
        &self,
        write: impl Fn(&ServicePortName) -> bool,
        delete: &BTreeSet<String>,
        missing_jumps: &[(&str, &str)],
    ) -> String {
        let mut text = String::new();
        self.write_filter(&mut text, missing_jumps);
        self.write_nat(&mut text, write, delete, missing_jumps);
        text
    }

    /// A partial sync.
    pub fn partial(&self, changes: &Changes) -> String {
        self.restore_text(|name| changes.write.contains(name), &changes.delete, &[])
    }

    /// A full sync over what `iptables-save` printed: adds missing jumps, deletes chains of forgotten Services.
    pub fn full(&self, saved: &str) -> String {
        let ours: BTreeSet<&String> = self.services.values().flat_map(|rules| rules.chains.keys()).collect();
        let stale = saved
            .lines()
            .filter_map(|line| line.strip_prefix(':')?.split_whitespace().next())
            .filter(|chain| render::SERVICE_CHAIN_PREFIXES.iter().any(|prefix| chain.starts_with(prefix)))
            .map(str::to_owned)
            .filter(|chain| !ours.contains(chain))
            .collect();
        let present = trace::Tables::parse(saved);
        let missing: Vec<_> = self.jumps().filter(|(table, rule)| !present.has_jump(table, rule)).collect();
        let mut text = self.restore_text(|_| true, &stale, &missing);
        for table in ["mangle", "nat", "filter"] {
            // The canary chains tell other programs (and kube-proxy itself) that the tables were flushed.
            let _ = write!(text, "*{table}\n:KUBE-PROXY-CANARY - [0:0]\nCOMMIT\n");
        }
        text
    }

    fn jumps(&self) -> impl Iterator<Item = (&'static str, &'static str)> {
        let firewall = self.localhost_node_ports();
        JUMPS.into_iter().filter(move |(_, rule)| firewall || !rule.ends_with("-j KUBE-FIREWALL"))
    }

    fn localhost_node_ports(&self) -> bool {
        self.view.localhost_node_ports && self.view.node_port_addresses == NodePortAddresses::All
    }

    fn write_filter(&self, text: &mut String, jumps: &[(&str, &str)]) {
        text.push_str("*filter\n");
        declare(text, FILTER_CHAINS);
        if self.localhost_node_ports() {
            declare(text, ["KUBE-FIREWALL"]);
        }
        insert_jumps(text, "filter", jumps);
        for rules in self.services.values() {
            append(text, &rules.filter);
        }
        if self.localhost_node_ports() {
            // route_localnet lets packets to 127.0.0.1 leave through a real interface; nobody else may send such.
            text.push_str("-A KUBE-FIREWALL -m comment --comment \"block incoming localnet connections\" -d 127.0.0.0/8 ! -s 127.0.0.0/8 -m conntrack ! --ctstate RELATED,ESTABLISHED,DNAT -j DROP\n");
        }
        let nfacct =
            if self.view.nfacct { "-m nfacct --nfacct-name ct_state_invalid_dropped_pkts " } else { "" };
        let _ = writeln!(text, "-A KUBE-FORWARD -m conntrack --ctstate INVALID {nfacct}-j DROP");
        text.push_str("-A KUBE-FORWARD -m comment --comment \"kubernetes forwarding rules\" -m mark --mark 0x00004000/0x00004000 -j ACCEPT\n");
        text.push_str("-A KUBE-FORWARD -m comment --comment \"kubernetes forwarding conntrack rule\" -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT\n");
        text.push_str("COMMIT\n");
    }

    fn write_nat(
        &self,
        text: &mut String,
        write: impl Fn(&ServicePortName) -> bool,
        delete: &BTreeSet<String>,
        jumps: &[(&str, &str)],
    ) {
        text.push_str("*nat\n");
        declare(text, NAT_CHAINS);
        let written = || self.services.iter().filter(|(name, _)| write(name)).map(|(_, rules)| rules);
        declare(text, written().flat_map(|rules| rules.chains.keys()).map(String::as_str));
        declare(text, delete.iter().map(String::as_str));
        insert_jumps(text, "nat", jumps);
        text.push_str("-A KUBE-POSTROUTING -m mark ! --mark 0x00004000/0x00004000 -j RETURN\n");
        // The mark is cleared so that the packet isn't masqueraded again when it comes back around.
        text.push_str("-A KUBE-POSTROUTING -j MARK --xor-mark 0x00004000\n");
        text.push_str("-A KUBE-POSTROUTING -m comment --comment \"kubernetes service traffic requiring SNAT\" -j MASQUERADE --random-fully\n");
        text.push_str("-A KUBE-MARK-MASQ -j MARK --or-mark 0x00004000\n");
        for rules in self.services.values() {
            append(text, &rules.nat);
        }
        for rules in written() {
            rules.chains.values().for_each(|chain| append(text, chain));
        }
        for chain in delete {
            let _ = writeln!(text, "-X {chain}");
        }
        self.write_node_ports(text);
        text.push_str("COMMIT\n");
    }

    fn write_node_ports(&self, text: &mut String) {
        let head = "-A KUBE-SERVICES -m comment --comment \"kubernetes service nodeports; NOTE: this must be the last rule in this chain\"";
        match &self.view.node_port_addresses {
            NodePortAddresses::All => {
                let but = if self.view.localhost_node_ports { "" } else { "! -d 127.0.0.0/8 " };
                let _ = writeln!(text, "{head} -m addrtype --dst-type LOCAL {but}-j KUBE-NODEPORTS");
            }
            NodePortAddresses::Only(addresses) => {
                for address in addresses.iter().filter(|address| !address.is_loopback()) {
                    let _ = writeln!(text, "{head} -d {address} -j KUBE-NODEPORTS");
                }
            }
        }
    }
}

fn declare<'a>(text: &mut String, chains: impl IntoIterator<Item = &'a str>) {
    for chain in chains {
        let _ = writeln!(text, ":{chain} - [0:0]");
    }
}

fn append(text: &mut String, rules: &[String]) {
    for rule in rules {
        let _ = writeln!(text, "-A {rule}");
    }
}

fn insert_jumps(text: &mut String, of_table: &str, jumps: &[(&str, &str)]) {
    for (_, rule) in jumps.iter().filter(|(table, _)| *table == of_table) {
        let _ = writeln!(text, "-I {rule}");
    }
}

/// The text that loads everything into empty tables.
impl fmt::Display for Iptables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.full(""))
    }
}

impl Ruleset for Iptables {
    fn verdicts(&self, packet: &Packet) -> Vec<(Verdict, Probability)> {
        trace::Tables::parse(&self.to_string()).verdicts(packet)
    }
}
