//! Transactions: from the table that the kernel has to the one that it should have.
//!
//! *Step 6 of a pod's journey.* Before: [`super::Nftables::update`] knows old and new items. After: [`super::run`] feeds
//! the text to `nft -f -`, which carries it out as a whole or not at all.
//!
//! The order of the commands is the order of dependencies: sets and chains exist before anything names them,
//! elements and rules that name a chain go before it does. A chain that goes is only emptied in the transaction; a
//! second one deletes it, because the kernel counts a verdict map's reference until the first is committed.
//!
//! # Invariants
//! 1. An element whose value changes is deleted and added in the same transaction: no packet misses it.
//!
//! # In Kubernetes
//! `knftables.Transaction`, and `staleChains` in `pkg/proxy/nftables/proxier.go` for the late deletion.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::render::services_chain;
use super::{Body, Collection, Key, TABLE};
use crate::proxy_state::{NodePortAddresses, NodeView};

/// The text of an update.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    /// For `nft -f -`; empty: nothing to do.
    pub text: String,
    /// A second one for afterwards; mostly empty.
    pub cleanup: String,
}

/// Base chains: name, what they hook into, rules.
const BASE_CHAINS: [(&str, &str, &[&str]); 8] = [
    ("filter-prerouting", "filter hook prerouting priority -110", &["ct state new jump firewall-check"]),
    (
        "filter-input",
        "filter hook input priority -110",
        &["ct state new jump nodeport-endpoints-check", "ct state new jump service-endpoints-check"],
    ),
    (
        "filter-forward",
        "filter hook forward priority -110",
        &["ct state new jump service-endpoints-check", "ct state new jump cluster-ips-check"],
    ),
    (
        "filter-output",
        "filter hook output priority -110",
        &["ct state new jump service-endpoints-check", "ct state new jump firewall-check"],
    ),
    ("filter-output-post-dnat", "filter hook output priority -90", &["ct state new jump cluster-ips-check"]),
    ("nat-prerouting", "nat hook prerouting priority -100", &["jump services"]),
    ("nat-output", "nat hook output priority -100", &["jump services"]),
    ("nat-postrouting", "nat hook postrouting priority 100", &["jump masquerading"]),
];

/// Regular chains that don't depend on Services.
const FIXED_CHAINS: [(&str, &[&str]); 7] = [
    (
        "nodeport-endpoints-check",
        &["ip daddr @nodeport-ips meta l4proto . th dport vmap @no-endpoint-nodeports"],
    ),
    ("service-endpoints-check", &["ip daddr . meta l4proto . th dport vmap @no-endpoint-services"]),
    ("firewall-check", &["ip daddr . meta l4proto . th dport vmap @firewall-ips"]),
    ("mark-for-masquerade", &["meta mark set meta mark | 0x00004000"]),
    (
        "masquerading",
        &[
            // Who reaches itself through a Service must see another address than its own.
            "ct status dnat ip saddr . ip daddr @hairpin-connections jump mark-for-masquerade",
            "meta mark & 0x00004000 == 0x00000000 return",
            "meta mark set meta mark ^ 0x00004000",
            "masquerade fully-random",
        ],
    ),
    (
        "cluster-ips-check",
        &["ip daddr @cluster-ips reject comment \"Reject traffic to invalid ports of ClusterIPs\""],
    ),
    ("reject-chain", &["reject"]),
];

/// The transaction that makes the whole table, whatever was there.
pub fn write_full<'a>(view: &NodeView, items: impl Iterator<Item = (&'a Key, &'a Body)>) -> String {
    let mut text = String::new();
    // Deleting what isn't there fails; adding what is there doesn't. So: add, delete, add.
    let _ = writeln!(text, "add table {TABLE}\ndelete table {TABLE}");
    let _ = writeln!(text, "add table {TABLE} {{ comment \"rules for kube-proxy\" ; }}");
    for collection in Collection::ALL {
        let (kind, declaration) = collection.declaration();
        let (name, comment) = (collection.name(), collection.comment());
        let _ = writeln!(text, "add {kind} {TABLE} {name} {{ {declaration} ; comment \"{comment}\" ; }}");
    }
    for (name, hook, _) in BASE_CHAINS {
        let _ = writeln!(text, "add chain {TABLE} {name} {{ type {hook} ; }}");
    }
    for (name, _) in FIXED_CHAINS {
        let _ = writeln!(text, "add chain {TABLE} {name}");
    }
    let _ = writeln!(text, "add chain {TABLE} services");
    for (name, _, rules) in BASE_CHAINS {
        write_rules(&mut text, name, rules);
    }
    for (name, rules) in FIXED_CHAINS {
        write_rules(&mut text, name, rules);
    }
    write_rules(&mut text, "services", &services_chain(view));
    let node_port_ips = match &view.node_port_addresses {
        NodePortAddresses::All => vec![view.node_ip],
        NodePortAddresses::Only(addresses) => addresses.clone(),
    };
    let node_port_ips = node_port_ips.iter().map(|ip| (Collection::NodeportIps, ip.to_string(), None));
    let items: Vec<_> = items.collect();
    let (sets_and_chains, elements) = split(items.iter().copied());
    write_additions(&mut text, &sets_and_chains);
    write_elements(&mut text, "add", node_port_ips.chain(elements));
    text
}

/// The transaction from `before` to `after`; both hold only the items that an update touched.
pub fn write_update(before: &BTreeMap<Key, Body>, after: &BTreeMap<&Key, &Body>) -> Transaction {
    let new =
        after.iter().filter(|(key, body)| before.get(*key) != Some(**body)).map(|(key, body)| (*key, *body));
    let old = before.iter().filter(|(key, body)| after.get(*key) != Some(body));
    let (additions, new_elements) = split(new);
    let (_, old_elements) = split(old.clone());
    let gone: Vec<&Key> = old.map(|(key, _)| key).filter(|key| !after.contains_key(*key)).collect();

    let mut transaction = Transaction::default();
    let text = &mut transaction.text;
    write_additions(text, &additions);
    write_elements(text, "delete", old_elements.into_iter());
    write_elements(text, "add", new_elements.into_iter());
    let cleanup = &mut transaction.cleanup;
    for key in &gone {
        if let Key::Chain(name) = key {
            let _ = writeln!(text, "flush chain {TABLE} {name}");
            let _ = writeln!(cleanup, "delete chain {TABLE} {name}");
        }
    }
    for key in &gone {
        if let Key::Set(name) = key {
            let _ = writeln!(cleanup, "delete set {TABLE} {name}");
        }
    }
    transaction
}

type Element = (Collection, String, Option<String>);

fn split<'a>(items: impl Iterator<Item = (&'a Key, &'a Body)>) -> (Vec<(&'a str, &'a Body)>, Vec<Element>) {
    let (mut others, mut elements) = (Vec::new(), Vec::new());
    for (key, body) in items {
        match (key, body) {
            (Key::Element(collection, key), Body::Element(value)) => {
                elements.push((*collection, key.clone(), value.clone()));
            }
            (Key::Set(name) | Key::Chain(name), body) => others.push((name.as_str(), body)),
            (Key::Element(..), _) => {}
        }
    }
    (others, elements)
}

/// Sets, then chains, then rules: by the time a rule is read, all that it names is there.
fn write_additions(text: &mut String, items: &[(&str, &Body)]) {
    for (name, body) in items {
        if let Body::Set(declaration) = body {
            let _ = writeln!(text, "add set {TABLE} {name} {{ {declaration} }}");
        }
    }
    for (name, body) in items {
        if let Body::Chain(_) = body {
            let _ = writeln!(text, "add chain {TABLE} {name}\nflush chain {TABLE} {name}");
        }
    }
    for (name, body) in items {
        if let Body::Chain(rules) = body {
            write_rules(text, name, rules);
        }
    }
}

fn write_rules<R: AsRef<str>>(text: &mut String, chain: &str, rules: &[R]) {
    for rule in rules {
        let _ = writeln!(text, "add rule {TABLE} {chain} {}", rule.as_ref());
    }
}

/// One command a collection: `nft` reads ten thousand elements faster than ten thousand commands.
fn write_elements(text: &mut String, verb: &str, elements: impl Iterator<Item = Element>) {
    let mut by_collection: BTreeMap<Collection, Vec<String>> = BTreeMap::new();
    for (collection, key, value) in elements {
        let element = match value {
            // A deletion goes by the key alone.
            Some(value) if verb == "add" => format!("{key} : {value}"),
            _ => key,
        };
        by_collection.entry(collection).or_default().push(element);
    }
    for (collection, elements) in by_collection {
        let _ = writeln!(text, "{verb} element {TABLE} {} {{ {} }}", collection.name(), elements.join(", "));
    }
}
