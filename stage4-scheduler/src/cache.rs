//! Cache: what runs where, including decisions the API server hasn't confirmed yet.
//!
//! *Step 8 of a pod's journey through this stage.* Before: [`crate::schedule_pod`] chose a node.
//! After: [`crate::binding_cycle`] writes the binding while the next pod is already being placed.
//!
//! Writing a binding takes milliseconds, and its echo through the watch some more. If the scheduler waited,
//! it would place a few hundred pods a second; if it didn't, it would give the same free memory away
//! twice. So it *assumes*: the pod counts on its node at once. Then either the watch confirms it, or the
//! binding fails and it is *forgotten*, or, if the binding succeeded but no echo ever comes, it *expires*.
//!
//! ```text
//!  assume        finish_binding           add (watch)
//! ──────▶ Assumed ──────▶ Assumed, deadline ──────▶ Added ──▶ remove
//!           │ forget          │ expire
//!           ▼                 ▼
//!          gone              gone
//! ```
//!
//! # Invariants
//! 1. A pod counts on at most one node.
//! 2. What the watch says wins over what was assumed.
//! 3. No two assumed pods together exceed a node, since each was placed on a snapshot with the others in it.
//!
//! # In Kubernetes
//! `pkg/scheduler/backend/cache/cache.go`. Expiry is off upstream by default (ttl 0): the watch can be
//! trusted to come or to start anew. We keep it off as well unless a time to live is given.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;

use crate::listers::Listers;
use crate::node_info::{NodeInfo, NodeObject};
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

#[cfg(test)]
mod tests;

/// A pod in the cache.
#[derive(Debug)]
struct PodState {
    info: Arc<PodInfo>,
    node: Arc<str>,
    assumed: bool,
    deadline: Option<Duration>,
}

/// The scheduler's picture of the cluster.
#[derive(Debug, Default)]
pub struct Cache {
    nodes: HashMap<Arc<str>, Arc<NodeInfo>>,
    pods: HashMap<Arc<str>, PodState>,
    image_nodes: Arc<HashMap<String, usize>>,
    /// Everything that is neither a node nor a pod.
    pub listers: Arc<Listers>,
    generation: u64,
    changed: HashSet<Arc<str>>,
    nodes_came_or_went: bool,
    /// How long an assumed pod may stay unconfirmed after its binding; `None` is for ever.
    pub time_to_live: Option<Duration>,
}

impl Cache {
    fn node_mut(&mut self, name: &str) -> &mut NodeInfo {
        self.generation += 1;
        let name: Arc<str> = match self.nodes.get_key_value(name) {
            Some((name, _)) => name.clone(),
            None => Arc::from(name),
        };
        self.changed.insert(name.clone());
        let node = self.nodes.entry(name.clone()).or_insert_with(|| Arc::new(NodeInfo::new(name)));
        // Copies only if a snapshot still holds it.
        let node = Arc::make_mut(node);
        node.generation = self.generation;
        node
    }

    /// A node appeared or changed. Returns it as it was before, if it was known.
    pub fn set_node(&mut self, node: Arc<Node>) -> Option<Arc<NodeInfo>> {
        let name = node.metadata.name.clone().unwrap_or_default();
        let before = self.nodes.get(name.as_str()).filter(|info| info.object.is_some()).cloned();
        let object = Arc::new(NodeObject::new(node));
        self.count_images(before.as_ref().and_then(|info| info.object.clone()), Some(&object));
        let zone_changed = before.as_ref().is_none_or(|info| zone(info) != zone_of(&object));
        self.node_mut(&name).object = Some(object);
        self.nodes_came_or_went |= zone_changed;
        before
    }

    /// A node is gone. Its pods stay until the watch says that they are gone, too.
    pub fn remove_node(&mut self, name: &str) -> Option<Arc<NodeInfo>> {
        let before = self.nodes.get(name).filter(|info| info.object.is_some()).cloned()?;
        self.count_images(before.object.clone(), None);
        self.nodes_came_or_went = true;
        let node = self.node_mut(name);
        node.object = None;
        if node.pods.is_empty() {
            self.nodes.remove(name);
        }
        Some(before)
    }

    fn count_images(&mut self, old: Option<Arc<NodeObject>>, new: Option<&Arc<NodeObject>>) {
        let same = match (&old, new) {
            (Some(old), Some(new)) => {
                old.images.len() == new.images.len() && old.images.keys().all(|n| new.images.contains_key(n))
            }
            (None, None) => true,
            (Some(only), None) | (None, Some(only)) => only.images.is_empty(),
        };
        if same {
            return;
        }
        let counts = Arc::make_mut(&mut self.image_nodes);
        for name in new.iter().flat_map(|object| object.images.keys()) {
            *counts.entry(name.clone()).or_default() += 1;
        }
        for name in old.iter().flat_map(|object| object.images.keys()) {
            if let Some(count) = counts.get_mut(name) {
                *count -= 1;
                if *count == 0 {
                    counts.remove(name);
                }
            }
        }
    }

    // ANCHOR: assume
    /// Counts the pod on the node before the API server knows. False if the pod is there already.
    pub fn assume(&mut self, info: Arc<PodInfo>, node: &str) -> bool {
        if self.pods.contains_key(&info.uid) {
            return false;
        }
        self.insert(info, node, true);
        true
    }

    /// The binding was written: from now on the watch should confirm it.
    pub fn finish_binding(&mut self, uid: &str, now: Duration) {
        let time_to_live = self.time_to_live;
        if let Some(state) = self.pods.get_mut(uid).filter(|state| state.assumed) {
            state.deadline = time_to_live.map(|ttl| now + ttl);
        }
    }

    /// The binding failed: the pod doesn't count any more. Pods that the watch confirmed stay.
    pub fn forget(&mut self, uid: &str) -> bool {
        let assumed = self.is_assumed(uid);
        assumed && self.remove_pod(uid).is_some()
    }

    /// Drops assumed pods whose confirmation never came; returns them.
    pub fn expire(&mut self, now: Duration) -> Vec<Arc<PodInfo>> {
        if self.time_to_live.is_none() {
            return Vec::new();
        }
        let late = |state: &PodState| state.assumed && state.deadline.is_some_and(|deadline| deadline <= now);
        let uids: Vec<_> =
            self.pods.iter().filter(|(_, state)| late(state)).map(|(uid, _)| uid.clone()).collect();
        uids.iter().filter_map(|uid| self.remove_pod(uid)).collect()
    }
    // ANCHOR_END: assume

    /// The watch says that the pod has a node. Returns what was known of it before.
    pub fn set_pod(&mut self, info: Arc<PodInfo>) -> Option<Arc<PodInfo>> {
        let node = info.node_name()?.to_owned();
        let before = self.remove_pod(&info.uid);
        self.insert(info, &node, false);
        before
    }

    /// The pod is gone or has ended.
    pub fn remove_pod(&mut self, uid: &str) -> Option<Arc<PodInfo>> {
        let state = self.pods.remove(uid)?;
        let node = self.node_mut(&state.node);
        node.remove_pod(uid);
        if node.pods.is_empty() && node.object.is_none() {
            self.nodes.remove(&state.node);
        }
        Some(state.info)
    }

    fn insert(&mut self, info: Arc<PodInfo>, node: &str, assumed: bool) {
        let target = self.node_mut(node);
        target.add_pod(info.clone());
        let node = target.name.clone();
        self.pods.insert(info.uid.clone(), PodState { info, node, assumed, deadline: None });
    }

    /// Is the pod counted without the API server's word?
    pub fn is_assumed(&self, uid: &str) -> bool {
        self.pods.get(uid).is_some_and(|state| state.assumed)
    }

    /// The pod as the cache has it, and its node.
    pub fn pod(&self, uid: &str) -> Option<(&Arc<PodInfo>, &str)> {
        self.pods.get(uid).map(|state| (&state.info, &*state.node))
    }

    /// A node by its name.
    pub fn node(&self, name: &str) -> Option<&Arc<NodeInfo>> {
        self.nodes.get(name).filter(|info| info.object.is_some())
    }

    /// Number of pods that are counted without the API server's word.
    pub fn assumed(&self) -> usize {
        self.pods.values().filter(|state| state.assumed).count()
    }

    /// Number of nodes, and of pods on them.
    pub fn sizes(&self) -> (usize, usize) {
        (self.nodes.len(), self.pods.len())
    }

    /// Brings a snapshot up to date.
    pub fn update(&mut self, snapshot: &mut Snapshot) {
        if self.nodes_came_or_went {
            snapshot.reset(self.in_zone_order());
            self.nodes_came_or_went = false;
        } else {
            for name in &self.changed {
                if let Some(node) = self.nodes.get(name).filter(|node| node.object.is_some()) {
                    snapshot.replace(node.clone());
                }
            }
        }
        self.changed.clear();
        snapshot.image_nodes = self.image_nodes.clone();
        snapshot.listers = self.listers.clone();
    }

    /// Zones take turns, so that a search that ends early has seen all of them.
    fn in_zone_order(&self) -> Vec<Arc<NodeInfo>> {
        let mut zones: BTreeMap<(String, String), Vec<Arc<NodeInfo>>> = BTreeMap::new();
        for node in self.nodes.values().filter(|node| node.object.is_some()) {
            zones.entry(zone(node)).or_default().push(node.clone());
        }
        let mut queues: Vec<_> = zones
            .into_values()
            .map(|mut nodes| {
                nodes.sort_by(|a, b| b.name.cmp(&a.name));
                nodes
            })
            .collect();
        let mut order = Vec::with_capacity(self.nodes.len());
        while !queues.is_empty() {
            queues.retain_mut(|zone| {
                order.extend(zone.pop());
                !zone.is_empty()
            });
        }
        order
    }
}

fn zone(node: &NodeInfo) -> (String, String) {
    node.object.as_ref().map(|object| zone_of(object)).unwrap_or_default()
}

fn zone_of(object: &NodeObject) -> (String, String) {
    let label = |key: &str| {
        object.node.metadata.labels.as_ref().and_then(|labels| labels.get(key)).cloned().unwrap_or_default()
    };
    (label("topology.kubernetes.io/region"), label("topology.kubernetes.io/zone"))
}
