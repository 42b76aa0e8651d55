//! Nominator: who was promised room on which node.
//!
//! # In Kubernetes
//! `pkg/scheduler/backend/queue/nominator.go`.

use std::collections::HashMap;
use std::sync::Arc;

use crate::pod_info::PodInfo;

/// Nominated pods by node.
#[derive(Debug, Default)]
pub struct Nominator {
    by_node: Arc<HashMap<String, Vec<Arc<PodInfo>>>>,
    node_of: HashMap<Arc<str>, String>,
}

impl Nominator {
    /// Notes the pod's nomination: the given node, or what its status says. None takes nothing away, since the
    /// watch may not know yet what we nominated.
    pub fn set(&mut self, info: &Arc<PodInfo>, node: Option<&str>) {
        let known = self.node_of.get(&info.uid).cloned();
        let node = node.or(info.nominated_node_name()).map(str::to_owned).or(known);
        if let Some(node) = node {
            self.remove(&info.uid);
            Arc::make_mut(&mut self.by_node).entry(node.clone()).or_default().push(info.clone());
            self.node_of.insert(info.uid.clone(), node);
        }
    }

    /// The pod is nominated no more.
    pub fn remove(&mut self, uid: &str) {
        let Some(node) = self.node_of.remove(uid) else { return };
        let by_node = Arc::make_mut(&mut self.by_node);
        if let Some(pods) = by_node.get_mut(&node) {
            pods.retain(|pod| &*pod.uid != uid);
            if pods.is_empty() {
                by_node.remove(&node);
            }
        }
    }

    /// All nominations, for a snapshot.
    pub fn shared(&self) -> Arc<HashMap<String, Vec<Arc<PodInfo>>>> {
        self.by_node.clone()
    }
}
