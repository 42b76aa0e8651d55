//! Node lifecycle: noticing that a node fell silent, and telling the scheduler what a node suffers from.
//!
//! *Step 19 of a pod's journey.* Before: a kubelet stopped renewing its Lease. After: [`crate::taint_eviction`] moves the pods away.
//!
//! Two jobs share one name. This file translates a node's conditions into `NoSchedule` taints (memory pressure, not ready,
//! cordoned …), one node at a time, as soon as they change; the scheduler reads nothing but taints. [`monitor`] is the watchdog over all nodes: every
//! five seconds it looks who was silent for too long.
//!
//! # Invariants
//! 1. Of the taints listed in [`CONDITION_TAINTS`], a node has exactly those that its conditions call for; other taints are left alone.
//!
//! # In Kubernetes
//! `pkg/controller/nodelifecycle/node_lifecycle_controller.go`. Left out: node labels reconciliation, cloud providers.

pub mod disruption_mode;
pub mod monitor;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::action::{Action, EventText, encode};
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;

/// Condition, its status, and the taint that says so.
pub const CONDITION_TAINTS: [(&str, &str, &str); 6] = [
    ("Ready", "False", "node.kubernetes.io/not-ready"),
    ("Ready", "Unknown", "node.kubernetes.io/unreachable"),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
];
/// Taint of a node that somebody cordoned.
pub const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

/// The condition of this type.
pub fn node_condition<'a>(node: &'a Node, kind: &str) -> Option<&'a NodeCondition> {
    node.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// The taints of a node.
pub fn taints_of(node: &Node) -> Vec<Taint> {
    node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default()
}

/// All that a decision about one node's taints depends on.
#[derive(Clone)]
pub struct World {
    /// The node.
    pub node: Arc<Node>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copy that it reads.
pub struct NodeTaints {
    nodes: Store<Node>,
}

impl NodeTaints {
    /// A controller on this copy.
    pub fn new(factory: &InformerFactory) -> Self {
        NodeTaints { nodes: factory.store() }
    }
}

impl Controller for NodeTaints {
    const NAME: &'static str = "node-lifecycle-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Node>();
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        Some(World { node: self.nodes.get(key)?, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

// ANCHOR: node-condition-taints
/// Decides the `NoSchedule` taints of one node.
pub fn reconcile(world: &World) -> Vec<Action> {
    let node = world.node.as_ref();
    let called_for = |(kind, status, _): &&(&str, &str, &str)| {
        node_condition(node, kind).is_some_and(|condition| condition.status == *status)
    };
    let mut wanted: Vec<&str> =
        CONDITION_TAINTS.iter().filter(called_for).map(|(_, _, taint)| *taint).collect();
    if node.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true) {
        wanted.push(UNSCHEDULABLE);
    }
    let present = taints_of(node);
    let ours = |taint: &Taint| {
        taint.effect == "NoSchedule"
            && (taint.key == UNSCHEDULABLE || CONDITION_TAINTS.iter().any(|(_, _, key)| taint.key == *key))
    };
    let mut taints: Vec<Taint> = present
        .iter()
        .filter(|taint| !ours(taint) || wanted.contains(&taint.key.as_str()))
        .cloned()
        .collect();
    for key in wanted {
        if !taints.iter().any(|taint| taint.key == key && taint.effect == "NoSchedule") {
            taints.push(Taint {
                key: key.to_owned(),
                effect: "NoSchedule".to_owned(),
                time_added: Some(Time(world.now)),
                value: None,
            });
        }
    }
    if taints == present { Vec::new() } else { vec![patch_taints(node, &taints, "its conditions changed")] }
}
// ANCHOR_END: node-condition-taints

/// Replaces a node's taints, if nobody changed the node meanwhile.
pub(crate) fn patch_taints(node: &Node, taints: &[Taint], why: &str) -> Action {
    let taints = (!taints.is_empty()).then(|| encode(&taints));
    Action::patch(
        node,
        json!({"spec": {"taints": taints}, "metadata": {"resourceVersion": node.metadata.resource_version}}),
        why,
    )
}

/// `Node node-1 status is now: NodeNotReady`.
pub(crate) fn status_event(node: &Node, status: &str) -> Action {
    Action::record(
        node,
        EventText::normal(status, format!("Node {} status is now: {status}", node.object_name())),
    )
}
