//! Node IPAM: each node gets its own range of pod addresses.
//!
//! *Step 3 of a node's journey.* Before: a kubelet registered the node. After: the kubelet sets the node's bridge up with the range.
//!
//! The cluster's range (`10.244.0.0/16`) is cut into ranges of one size (`/24`, 256 of them); a node without one gets the first that is free.
//!
//! # Invariants
//! 1. No two nodes have the same range, not even while our copy lags behind our own writes.
//!
//! # In Kubernetes
//! `pkg/controller/nodeipam/ipam/range_allocator.go`, `cidrset/cidr_set.go`. Left out: dual stack, IPv6 ranges.

use std::collections::{BTreeSet, HashMap};
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::json;

use crate::action::{Action, EventText};
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};

/// A range that is cut into equal parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidrSet {
    base: u32,
    prefix: u8,
    node_prefix: u8,
}

/// Why a cluster range cannot be used.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum CidrError {
    /// Not of the form `a.b.c.d/n`.
    #[error("invalid CIDR address: {0}")]
    Invalid(String),
    /// The nodes' ranges would be larger than the cluster's, or too many.
    #[error("node CIDR mask size /{node} does not fit into cluster CIDR {cluster}")]
    MaskSize {
        /// The cluster's range.
        cluster: String,
        /// Prefix length of a node's range.
        node: u8,
    },
}

impl CidrSet {
    /// Cuts `cluster` into ranges with this prefix length.
    pub fn new(cluster: &str, node_prefix: u8) -> Result<CidrSet, CidrError> {
        let invalid = || CidrError::Invalid(cluster.to_owned());
        let (address, prefix) = cluster.split_once('/').ok_or_else(invalid)?;
        let address: Ipv4Addr = address.parse().map_err(|_| invalid())?;
        let prefix: u8 = prefix.parse().ok().filter(|prefix| *prefix <= 32).ok_or_else(invalid)?;
        if node_prefix < prefix || node_prefix > 32 || node_prefix - prefix > 16 {
            return Err(CidrError::MaskSize { cluster: cluster.to_owned(), node: node_prefix });
        }
        let mask = u32::MAX.checked_shl(u32::from(32 - prefix)).unwrap_or(0);
        Ok(CidrSet { base: u32::from(address) & mask, prefix, node_prefix })
    }

    /// The first part that is not in `used`.
    pub fn first_free(&self, used: &BTreeSet<String>) -> Option<String> {
        let count = 1_u32 << (self.node_prefix - self.prefix);
        let size = 1_u64 << (32 - self.node_prefix);
        (0..count)
            .map(|index| {
                let start = u64::from(self.base) + u64::from(index) * size;
                format!("{}/{}", Ipv4Addr::from(start as u32), self.node_prefix)
            })
            .find(|range| !used.contains(range))
    }
}

/// All that a decision about one node depends on.
#[derive(Clone)]
pub struct World {
    /// The node.
    pub node: Arc<Node>,
    /// The range that was chosen for it; `None`: all are taken.
    pub range: Option<String>,
}

/// The controller with the copies that it reads.
pub struct NodeIpam {
    nodes: Store<Node>,
    set: CidrSet,
    /// Ranges that we gave away, by node; the copy may not show them yet.
    given: Mutex<HashMap<String, String>>,
}

impl NodeIpam {
    /// A controller that gives ranges out of this set.
    pub fn new(factory: &InformerFactory, set: CidrSet) -> Self {
        NodeIpam { nodes: factory.store(), set, given: Mutex::default() }
    }
}

fn range_of(node: &Node) -> Option<&str> {
    node.spec.as_ref()?.pod_cidr.as_deref().filter(|range| !range.is_empty())
}

impl Controller for NodeIpam {
    const NAME: &'static str = "node-ipam-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        let controller = self.clone();
        wakes.on::<Node>(move |event| match event {
            Event::Deleted(node) => {
                controller.given.lock().remove(node.object_name());
                // A node that found no range left may have one now.
                controller
                    .nodes
                    .list()
                    .iter()
                    .filter(|node| range_of(node).is_none())
                    .map(|node| node.key())
                    .collect()
            }
            event => event
                .object()
                .filter(|node| range_of(node).is_none())
                .map(|node| node.key())
                .into_iter()
                .collect(),
        });
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<World> {
        let node = self.nodes.get(key).filter(|node| range_of(node).is_none() && !node.is_being_deleted())?;
        let mut given = self.given.lock();
        if !given.contains_key(&key.name) {
            let mut used: BTreeSet<String> =
                self.nodes.list().iter().filter_map(|node| range_of(node).map(str::to_owned)).collect();
            used.extend(given.values().cloned());
            if let Some(range) = self.set.first_free(&used) {
                given.insert(key.name.clone(), range);
            }
        }
        Some(World { node, range: given.get(&key.name).cloned() })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        let node = world.node.as_ref();
        let Some(range) = &world.range else {
            let message = format!("Node {} status is now: CIDRNotAvailable", node.object_name());
            return vec![Action::record(node, EventText::normal("CIDRNotAvailable", message))];
        };
        let patch = json!({"spec": {"podCIDR": range, "podCIDRs": [range]}});
        vec![Action::patch(node, patch, format!("{range} is the first free range of the cluster"))]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_given_in_order_and_reused() {
        let set = CidrSet::new("10.244.0.0/16", 24).unwrap();
        let mut used = BTreeSet::new();
        assert_eq!(set.first_free(&used).as_deref(), Some("10.244.0.0/24"));
        used.extend(["10.244.0.0/24".to_owned(), "10.244.2.0/24".to_owned()]);
        assert_eq!(set.first_free(&used).as_deref(), Some("10.244.1.0/24"));
    }

    #[test]
    fn a_full_set_has_no_range_and_a_bad_one_is_refused() {
        let set = CidrSet::new("10.0.0.0/30", 31).unwrap();
        let used = BTreeSet::from(["10.0.0.0/31".to_owned(), "10.0.0.2/31".to_owned()]);
        assert_eq!(set.first_free(&used), None);
        assert!(CidrSet::new("10.0.0.0", 24).is_err());
        assert!(CidrSet::new("10.0.0.0/24", 16).is_err());
        assert!(CidrSet::new("10.0.0.0/8", 30).is_err());
    }
}
