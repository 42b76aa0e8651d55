//! Nominator: who was promised room on which node.
//!
//! # In Kubernetes
//! `pkg/scheduler/backend/queue/nominator.go`.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// Nominated pods by node.
#[derive(Debug, Default)]
pub struct Nominator {
    by_node: HashMap<String, Vec<Arc<PodInfo>>>,
    node_of: HashMap<Arc<str>, String>,
    /// Nodes whose nominations the snapshot doesn't know yet.
    changed: HashSet<String>,
}

impl Nominator {
    /// Notes the pod's nomination: the given node, or what its status says. None takes nothing away, since the
    /// watch may not know yet what we nominated.
    pub fn set(&mut self, info: &Arc<PodInfo>, node: Option<&str>) {
        let known = self.node_of.get(&info.uid).cloned();
        let node = node.or(info.nominated_node_name()).map(str::to_owned).or(known);
        if let Some(node) = node {
            self.remove(&info.uid);
            self.by_node.entry(node.clone()).or_default().push(info.clone());
            self.changed.insert(node.clone());
            self.node_of.insert(info.uid.clone(), node);
        }
    }

    /// The pod is nominated no more.
    pub fn remove(&mut self, uid: &str) {
        let Some(node) = self.node_of.remove(uid) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| &*pod.uid != uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
        self.changed.insert(node);
    }

    /// Brings a snapshot's nominations up to date; costs what has changed.
    pub fn update(&mut self, snapshot: &mut Snapshot) {
        for node in self.changed.drain() {
            let pods = self.by_node.get(&node).cloned().unwrap_or_default();
            snapshot.nominate(&node, pods);
        }
    }

    /// A more important pod gets this node: whoever was promised it with a lower priority isn't any more.
    pub fn remove_lower(&mut self, node: &str, priority: i32) -> Vec<Arc<PodInfo>> {
        let of_node = self.by_node.get(node).into_iter().flatten();
        let outranked: Vec<_> = of_node.filter(|pod| pod.priority < priority).cloned().collect();
        outranked.iter().for_each(|pod| self.remove(&pod.uid));
        outranked
    }
}
