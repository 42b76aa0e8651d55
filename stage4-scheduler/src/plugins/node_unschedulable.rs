//! NodeUnschedulable: a cordoned node takes no pods.
//!
//! `kubectl cordon` sets `spec.unschedulable`. A pod that tolerates the taint
//! `node.kubernetes.io/unschedulable` (DaemonSet pods do) goes there nevertheless.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/nodeunschedulable/node_unschedulable.go`.

use k8s_openapi::api::core::v1::Taint;

use super::taint_toleration::tolerates;
use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, Status};
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// The reason that users see.
pub const ERR_REASON: &str = "node(s) were unschedulable";

/// Refuses cordoned nodes.
pub struct NodeUnschedulable;

fn check(pod: &PodInfo, node: &NodeInfo) -> Status {
    if !node.unschedulable() {
        return Status::success();
    }
    let taint = Taint {
        key: "node.kubernetes.io/unschedulable".to_owned(),
        effect: "NoSchedule".to_owned(),
        ..Taint::default()
    };
    if pod.tolerations().iter().any(|toleration| tolerates(toleration, &taint)) {
        Status::success()
    } else {
        Status::unresolvable(ERR_REASON)
    }
}

impl Plugin for NodeUnschedulable {
    fn name(&self) -> &'static str {
        "NodeUnschedulable"
    }

    fn depends(&self, _pod: &PodInfo) -> Depends<'_> {
        Depends::Node
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, _snapshot: &'a Snapshot) -> PreFilter<'a> {
        PreFilter::Run(Box::new(move |node, _| check(pod, node)))
    }

    fn waits_for_bindings(&self) -> bool {
        false
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(node) => Hint::queue_if(check(pod, node).is_success()),
            ClusterEvent::NodeUpdated { old, new } => {
                Hint::queue_if(!check(pod, old).is_success() && check(pod, new).is_success())
            }
            ClusterEvent::PodUpdated(_) => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}
