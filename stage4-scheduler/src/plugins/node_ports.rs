//! NodePorts: two pods can't have the same port of one node.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/nodeports/node_ports.go`.

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, Status};
use crate::node_info::NodeInfo;
use crate::pod_info::{HostPort, PodInfo};
use crate::snapshot::Snapshot;

/// The reason that users see.
pub const ERR_REASON: &str = "node(s) didn't have free ports for the requested pod ports";

/// Refuses nodes where a host port of the pod is taken.
pub struct NodePorts;

fn free(pod: &PodInfo, node: &NodeInfo) -> bool {
    !pod.host_ports.iter().any(|wanted| node.used_ports.iter().any(|used| wanted.conflicts(used)))
}

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        "NodePorts"
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        if pod.host_ports.is_empty() { Depends::Silent } else { Depends::Node }
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        if pod.host_ports.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Run(Box::new(move |node, _| {
            if free(pod, node) { Status::success() } else { Status::unschedulable(ERR_REASON) }
        }))
    }

    fn waits_for_bindings(&self) -> bool {
        false
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        let frees = |gone: &PodInfo| {
            gone.host_ports.iter().any(|used| pod.host_ports.iter().any(|wanted| wanted.conflicts(used)))
        };
        match event {
            ClusterEvent::NodeAdded(_) => Hint::Queue,
            ClusterEvent::AssignedPodDeleted(gone) => Hint::queue_if(frees(gone)),
            _ => Hint::Skip,
        }
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, _snapshot: &Snapshot) -> Option<String> {
        let taken = |other: &PodInfo| {
            let ports = other.host_ports.iter();
            let wanted = |used: &&HostPort| pod.host_ports.iter().any(|wanted| wanted.conflicts(used));
            let shown = ports.filter(wanted).map(|port| format!("{}/{}", port.port, port.protocol));
            shown.map(|port| format!("{port} is used by {}", other.key)).collect::<Vec<_>>()
        };
        Some(node.pods.iter().flat_map(|other| taken(other)).collect::<Vec<_>>().join(", "))
    }
}
