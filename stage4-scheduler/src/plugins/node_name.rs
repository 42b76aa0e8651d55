//! NodeName: a pod that asks for one node by name.
//!
//! `spec.nodeName` set by the user bypasses the scheduler altogether; this plugin covers the moment in
//! between, and what-if questions about one node.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/nodename/node_name.go`.

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, Status};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// The reason that users see.
pub const ERR_REASON: &str = "node(s) didn't match the requested node name";

/// Refuses nodes with another name.
pub struct NodeName;

impl Plugin for NodeName {
    fn name(&self) -> &'static str {
        "NodeName"
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        if pod.node_name().is_some() { Depends::Node } else { Depends::Silent }
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        let Some(wanted) = pod.node_name() else { return PreFilter::Skip };
        PreFilter::Run(Box::new(move |node, _| {
            if &*node.name == wanted { Status::success() } else { Status::unresolvable(ERR_REASON) }
        }))
    }

    fn waits_for_bindings(&self) -> bool {
        false
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        Hint::queue_if(matches!(event, ClusterEvent::NodeAdded(node) if pod.node_name() == Some(&*node.name)))
    }

    fn explain(&self, pod: &PodInfo, _node: &NodeInfo, _snapshot: &Snapshot) -> Option<String> {
        Some(format!("the pod asks for {}", pod.node_name()?))
    }
}
