//! Pod garbage collector: pods that nobody else will ever finish.
//!
//! *After the last step of a pod's journey.* A pod ends by its kubelet's word. When the node is gone there is no kubelet to say it;
//! then the pod is marked as failed and deleted. So are pods that were deleted before they had a node, and the oldest
//! finished pods when there are more than [`TERMINATED_POD_THRESHOLD`].
//!
//! The subtle thing: a node that is missing from our copy may just be new. A pod's node must be missing for
//! [`QUARANTINE_SECONDS`] before its pods are touched.
//!
//! # Invariants
//! 1. A pod on an existing node is never touched, unless it is finished and there are too many.
//!
//! # In Kubernetes
//! `pkg/controller/podgc/gc_controller.go`. There a loop of 20 s; here an event and a wait. Left out: the `out-of-service` taint.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, PodCondition};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::json;

use crate::action::{Action, encode};
use crate::controller::{Controller, Wakes};
use crate::endpoint_slice::NODE_INDEX;
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};
use crate::pod::{PodExt, positive};

/// How long a node must be missing. Shorter: pods of a node that is just being registered are lost.
pub const QUARANTINE_SECONDS: i64 = 40;
/// Finished pods that are kept. More: the store fills up; fewer: logs and reasons are lost sooner.
pub const TERMINATED_POD_THRESHOLD: usize = 12500;
const FINISHED_INDEX: &str = "finished";

/// All that a decision depends on.
#[derive(Clone)]
pub enum World {
    /// One pod.
    Pod {
        /// The pod.
        pod: Arc<Pod>,
        /// Since when its node is missing; `None`: it is there, or the pod has none.
        node_missing_since: Option<Timestamp>,
        /// Now.
        now: Timestamp,
    },
    /// The finished pods, when there are more than may be kept.
    Finished {
        /// All finished pods.
        pods: Vec<Arc<Pod>>,
        /// How many are kept.
        threshold: usize,
    },
}

/// The controller with the copies that it reads.
pub struct PodGarbageCollector {
    pods: Store<Pod>,
    nodes: Store<Node>,
    threshold: usize,
    missing_since: Mutex<HashMap<String, Timestamp>>,
}

impl PodGarbageCollector {
    /// A controller that keeps this many finished pods.
    pub fn new(factory: &InformerFactory, threshold: usize) -> Self {
        let pods = factory.store::<Pod>();
        pods.add_index(
            FINISHED_INDEX,
            Arc::new(|pod: &Pod| if pod.is_terminal() { vec![String::new()] } else { Vec::new() }),
        );
        pods.add_index(NODE_INDEX, Arc::new(|pod: &Pod| vec![pod.node_name().to_owned()]));
        PodGarbageCollector { pods, nodes: factory.store(), threshold, missing_since: Mutex::default() }
    }
}

impl Controller for PodGarbageCollector {
    const NAME: &'static str = "pod-garbage-collector-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on::<Pod>(|event| match event {
            Event::Added(pod) => vec![pod.key(), NamespacedName::default()],
            Event::Modified { old, new } if !old.is_terminal() && new.is_terminal() => {
                vec![new.key(), NamespacedName::default()]
            }
            Event::Modified { old, new } if old.node_name() != new.node_name() || new.is_being_deleted() => {
                vec![new.key()]
            }
            _ => Vec::new(),
        });
        let controller = self.clone();
        wakes.on::<Node>(move |event| match event {
            Event::Deleted(node) => {
                controller.pods.by_index(NODE_INDEX, node.object_name()).iter().map(|pod| pod.key()).collect()
            }
            Event::Added(node) => {
                controller.missing_since.lock().remove(node.object_name());
                Vec::new()
            }
            _ => Vec::new(),
        });
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        if key.name.is_empty() {
            let finished = self.pods.count(FINISHED_INDEX, "");
            let pods = (self.threshold > 0 && finished > self.threshold)
                .then(|| self.pods.by_index(FINISHED_INDEX, ""));
            return pods.map(|pods| World::Finished { pods, threshold: self.threshold });
        }
        let pod = self.pods.get(key)?;
        let node = pod.node_name();
        let missing = !node.is_empty() && self.nodes.get(&NamespacedName::cluster(node)).is_none();
        let node_missing_since =
            missing.then(|| *self.missing_since.lock().entry(node.to_owned()).or_insert(now));
        Some(World::Pod { pod, node_missing_since, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        match world {
            World::Finished { pods, threshold } => {
                let mut oldest: Vec<&Arc<Pod>> = pods.iter().collect();
                oldest.sort_by_key(|pod| (pod.created().map(|time| time.0), pod.key()));
                let surplus = oldest.len().saturating_sub(*threshold);
                oldest[..surplus]
                    .iter()
                    .map(|pod| Action::delete(pod.as_ref(), "too many finished pods").with_grace(0))
                    .collect()
            }
            World::Pod { pod, node_missing_since: Some(since), now } => {
                let left = SignedDuration::from_secs(QUARANTINE_SECONDS) - now.duration_since(*since);
                if left > SignedDuration::ZERO {
                    return vec![Action::RequeueAfter(positive(left))];
                }
                let mut actions = Vec::new();
                if !pod.is_terminal() {
                    actions.push(fail(pod, *now));
                }
                actions.push(
                    Action::delete(pod.as_ref(), format!("node {} no longer exists", pod.node_name()))
                        .with_grace(0),
                );
                actions
            }
            World::Pod { pod, .. } if pod.is_being_deleted() && pod.node_name().is_empty() => {
                vec![Action::delete(pod.as_ref(), "deleted before it had a node").with_grace(0)]
            }
            World::Pod { .. } => Vec::new(),
        }
    }
}

fn fail(pod: &Pod, now: Timestamp) -> Action {
    let target = disruption_target("DeletionByPodGC", "PodGC: node no longer exists", now);
    let conditions = with_condition(pod, target);
    Action::patch_status(
        pod,
        json!({"status": {"phase": "Failed", "conditions": encode(&conditions)}, "metadata": {"resourceVersion": pod.metadata.resource_version}}),
        "its node no longer exists",
    )
}

/// The condition that says why a pod is about to be disrupted.
pub fn disruption_target(reason: &str, message: &str, now: Timestamp) -> PodCondition {
    PodCondition {
        type_: "DisruptionTarget".to_owned(),
        status: "True".to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: Some(Time(now)),
        ..PodCondition::default()
    }
}

/// The pod's conditions with this one put in or replaced.
pub fn with_condition(pod: &Pod, condition: PodCondition) -> Vec<PodCondition> {
    let mut conditions = pod.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default();
    conditions.retain(|other| other.type_ != condition.type_);
    conditions.push(condition);
    conditions
}
