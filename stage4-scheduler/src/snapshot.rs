//! Snapshot: the cluster as one scheduling cycle sees it.
//!
//! *Step 7 of a pod's journey through this stage.* Before: [`crate::cache`] follows the cluster.
//! After: [`crate::schedule_pod`] decides on this and nothing else.
//!
//! While a pod is being placed the cluster goes on changing. A decision made half on old, half on new
//! data is nobody's fault and nobody can reproduce it. So the cycle works on a snapshot.
//!
//! Copying 5,000 nodes for each pod would cost more than scheduling it. Nodes are shared by `Arc`; the
//! cache keeps a list of nodes changed since the last snapshot, and [`crate::cache::Cache::update`]
//! replaces just those. The lists "nodes that have pods with affinity" are kept the same way.
//!
//! Each replaced node is also noted in a [`ChangeLog`], so that whoever remembers answers about nodes
//! ([`crate::equivalence_cache`]) asks again only about those that have changed since.
//!
//! # Invariants
//! 1. A snapshot updated after any history equals one built from scratch.
//! 2. The cost of an update follows the number of changed nodes, unless nodes came or went.
//!
//! # In Kubernetes
//! `pkg/scheduler/backend/cache/snapshot.go`. Left out: a snapshot of a part of the nodes.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

mod change_log;

pub use change_log::{ChangeLog, Mark};

use crate::listers::Listers;
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;

/// The cluster at one moment.
#[derive(Clone, Debug, Default)]
pub struct Snapshot {
    nodes: Vec<Arc<NodeInfo>>,
    index: HashMap<Arc<str>, usize>,
    names: Arc<[Arc<str>]>,
    changes: ChangeLog,
    with_affinity: BTreeSet<usize>,
    with_required_anti_affinity: BTreeSet<usize>,
    /// How many nodes have an image, by name.
    pub image_nodes: Arc<HashMap<String, usize>>,
    /// All other objects.
    pub listers: Arc<Listers>,
    nominated: HashMap<String, Vec<Arc<PodInfo>>>,
    nominated_node: HashMap<Arc<str>, String>,
    nominated_with_affinity: usize,
    /// Where the search for feasible nodes starts, so that all nodes get their turn.
    pub start_node_index: usize,
}

impl Snapshot {
    /// A snapshot of these nodes (tests, simulations; the scheduler uses the cache).
    pub fn new(nodes: Vec<Arc<NodeInfo>>, listers: Arc<Listers>) -> Self {
        let mut images: HashMap<String, usize> = HashMap::new();
        for object in nodes.iter().filter_map(|node| node.object.as_ref()) {
            for name in object.images.keys() {
                *images.entry(name.clone()).or_default() += 1;
            }
        }
        let mut snapshot = Snapshot { image_nodes: Arc::new(images), listers, ..Snapshot::default() };
        snapshot.reset(nodes);
        snapshot
    }

    /// Replaces all nodes.
    pub(crate) fn reset(&mut self, nodes: Vec<Arc<NodeInfo>>) {
        self.index = nodes.iter().enumerate().map(|(at, node)| (node.name.clone(), at)).collect();
        self.names = nodes.iter().map(|node| node.name.clone()).collect();
        self.changes.forget_all();
        self.with_affinity.clear();
        self.with_required_anti_affinity.clear();
        self.nodes = nodes;
        for at in 0..self.nodes.len() {
            self.relist(at);
        }
        if self.start_node_index >= self.nodes.len() {
            self.start_node_index = 0;
        }
    }

    /// Replaces one node that the snapshot already has.
    pub(crate) fn replace(&mut self, node: Arc<NodeInfo>) {
        if let Some(&at) = self.index.get(&node.name) {
            self.nodes[at] = node;
            self.relist(at);
            self.changes.push(at, self.nodes.len());
        }
    }

    /// Replaces the pods that preemption made room for on this node.
    pub fn nominate(&mut self, node: &str, pods: Vec<Arc<PodInfo>>) {
        for old in self.nominated.remove(node).into_iter().flatten() {
            self.nominated_with_affinity -= usize::from(old.has_affinity());
            // It may be nominated elsewhere by now.
            if self.nominated_node.get(&old.uid).is_some_and(|known| known == node) {
                self.nominated_node.remove(&old.uid);
            }
        }
        for pod in &pods {
            self.nominated_with_affinity += usize::from(pod.has_affinity());
            self.nominated_node.insert(pod.uid.clone(), node.to_owned());
        }
        if !pods.is_empty() {
            self.nominated.insert(node.to_owned(), pods);
        }
        if let Some(&at) = self.index.get(node) {
            self.changes.push(at, self.nodes.len());
        }
    }

    fn relist(&mut self, at: usize) {
        let keep = |set: &mut BTreeSet<usize>, listed: bool| {
            if listed {
                set.insert(at)
            } else {
                set.remove(&at)
            };
        };
        keep(&mut self.with_affinity, !self.nodes[at].pods_with_affinity.is_empty());
        keep(
            &mut self.with_required_anti_affinity,
            !self.nodes[at].pods_with_required_anti_affinity.is_empty(),
        );
    }

    /// All nodes, neighbours in the list being in different zones.
    pub fn nodes(&self) -> &[Arc<NodeInfo>] {
        &self.nodes
    }

    /// A node by its name.
    pub fn get(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.index.get(name).map(|&at| &self.nodes[at])
    }

    /// Nodes with pods that have any affinity.
    pub fn nodes_with_affinity(&self) -> impl Iterator<Item = &Arc<NodeInfo>> {
        self.with_affinity.iter().map(|&at| &self.nodes[at])
    }

    /// Nodes with pods that have required anti-affinity.
    pub fn nodes_with_required_anti_affinity(&self) -> impl Iterator<Item = &Arc<NodeInfo>> {
        self.with_required_anti_affinity.iter().map(|&at| &self.nodes[at])
    }

    /// Position of a node in [`Snapshot::nodes`].
    pub fn position(&self, name: &str) -> Option<usize> {
        self.index.get(name).copied()
    }

    /// The nodes' names by position.
    pub fn names(&self) -> &Arc<[Arc<str>]> {
        &self.names
    }

    /// Which nodes changed, and when.
    pub fn changes(&self) -> &ChangeLog {
        &self.changes
    }

    /// True if nobody waits for room that preemption makes.
    pub fn nobody_is_nominated(&self) -> bool {
        self.nominated.is_empty()
    }

    /// True if a nominated pod has an affinity to other pods.
    pub fn nominated_have_affinity(&self) -> bool {
        self.nominated_with_affinity > 0
    }

    /// The node that a pod is nominated to.
    pub fn nominated_node(&self, uid: &str) -> Option<&str> {
        self.nominated_node.get(uid).map(String::as_str)
    }

    /// Pods nominated to a node.
    pub fn nominated_to(&self, node: &str) -> &[Arc<PodInfo>] {
        self.nominated.get(node).map_or(&[], Vec::as_slice)
    }
}
