//! Taint eviction: pods leave a node that does not want them any longer.
//!
//! *Step 20 of a pod's journey.* Before: [`crate::node_lifecycle`] (or a person) tainted the node with `NoExecute`. After: the workload
//! controller replaces the pod elsewhere.
//!
//! A pod that does not tolerate a `NoExecute` taint is deleted at once. One that tolerates it for `tolerationSeconds` is deleted
//! after that time, unless the taint goes away first; one that tolerates it for ever stays. Admission gives every pod 300 s for `not-ready` and `unreachable`.
//!
//! The subtle thing is the countdown: it starts when the taint is first seen, and a later change of taints may only make
//! it shorter. Several tolerations: the shortest counts.
//!
//! # Invariants
//! 1. A pod that tolerates every taint for ever is never deleted.
//! 2. A countdown is never prolonged; when the taints go it is forgotten.
//!
//! # In Kubernetes
//! `pkg/controller/tainteviction/taint_eviction.go`.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Taint, Toleration};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use serde_json::json;

use crate::action::{Action, EventText, encode};
use crate::controller::{Controller, Wakes};
use crate::endpoint_slice::NODE_INDEX;
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};
use crate::pod::{PodExt, positive};
use crate::pod_gc::{disruption_target, with_condition};

/// A countdown that runs for a pod.
#[derive(Clone, Debug, PartialEq)]
pub struct Countdown {
    /// UID of the pod.
    pub uid: String,
    /// When it started.
    pub started: Timestamp,
    /// When the pod is deleted.
    pub due: Timestamp,
}

/// All that a decision about one pod depends on.
#[derive(Clone)]
pub struct World {
    /// The pod.
    pub pod: Arc<Pod>,
    /// The countdown that ran so far.
    pub before: Option<Countdown>,
    /// The countdown that runs now.
    pub countdown: Option<Countdown>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copies that it reads, and the countdowns.
pub struct TaintEviction {
    pods: Store<Pod>,
    nodes: Store<Node>,
    countdowns: Mutex<HashMap<NamespacedName, Countdown>>,
}

impl TaintEviction {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> Self {
        let pods = factory.store::<Pod>();
        pods.add_index(NODE_INDEX, Arc::new(|pod: &Pod| vec![pod.node_name().to_owned()]));
        TaintEviction { pods, nodes: factory.store(), countdowns: Mutex::default() }
    }
}

/// The `NoExecute` taints of a node.
pub fn no_execute_taints(node: &Node) -> Vec<Taint> {
    let taints = node.spec.iter().flat_map(|spec| spec.taints.iter().flatten());
    taints.filter(|taint| taint.effect == "NoExecute").cloned().collect()
}

/// Whether a toleration tolerates a taint.
pub fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let matches = |wanted: &Option<String>, value: &str| {
        wanted.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == value)
    };
    let value_matches = match toleration.operator.as_deref().unwrap_or("Equal") {
        "Exists" => true,
        "Equal" | "" => {
            toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        _ => false,
    };
    matches(&toleration.effect, &taint.effect) && matches(&toleration.key, &taint.key) && value_matches
}

/// How long a pod may stay: `None` for ever, otherwise this long (0: not at all).
pub fn time_to_stay(tolerations: &[Toleration], taints: &[Taint]) -> Option<SignedDuration> {
    let mut shortest: Option<i64> = None;
    for taint in taints {
        let mut used = tolerations.iter().filter(|toleration| tolerates(toleration, taint));
        let Some(first) = used.next() else { return Some(SignedDuration::ZERO) };
        if let Some(seconds) = first.toleration_seconds {
            shortest = Some(shortest.map_or(seconds, |shortest| shortest.min(seconds)));
        }
    }
    shortest.map(|seconds| SignedDuration::from_secs(seconds.max(0)))
}

// ANCHOR: taint-eviction-countdown
/// The countdown that must run for a pod on a node with these taints.
pub fn next_countdown(
    pod: &Pod,
    taints: &[Taint],
    running: Option<&Countdown>,
    now: Timestamp,
) -> Option<Countdown> {
    if taints.is_empty() || pod.is_being_deleted() || pod.is_terminal() {
        return None;
    }
    let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.clone()).unwrap_or_default();
    let stay = time_to_stay(&tolerations, taints)?;
    let running = running.filter(|running| running.uid == pod.uid());
    let started = running.map_or(now, |running| running.started);
    let due = started.checked_add(stay).unwrap_or(Timestamp::MAX);
    // What runs already may only become shorter.
    let due = running.map_or(due, |running| running.due.min(due));
    Some(Countdown { uid: pod.uid().to_owned(), started, due })
}
// ANCHOR_END: taint-eviction-countdown

impl Controller for TaintEviction {
    const NAME: &'static str = "taint-eviction-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on::<Pod>(|event| match event {
            Event::Added(pod) | Event::Deleted(pod) => vec![pod.key()],
            Event::Modified { old, new } => {
                let facts = |pod: &Pod| {
                    (
                        pod.node_name().to_owned(),
                        pod.is_being_deleted(),
                        pod.spec.as_ref().and_then(|spec| spec.tolerations.clone()),
                    )
                };
                if facts(old) == facts(new) { Vec::new() } else { vec![new.key()] }
            }
            Event::Resync => Vec::new(),
        });
        let pods = self.pods.clone();
        wakes.on::<Node>(move |event| match event {
            Event::Modified { old, new } if no_execute_taints(old) == no_execute_taints(new) => Vec::new(),
            event => event
                .object()
                .into_iter()
                .flat_map(|node| pods.by_index(NODE_INDEX, node.object_name()))
                .map(|pod| pod.key())
                .collect(),
        });
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let mut countdowns = self.countdowns.lock();
        let before = countdowns.remove(key);
        let pod = self.pods.get(key)?;
        let node = self.nodes.get(&NamespacedName::cluster(pod.node_name()));
        let taints = node.map(|node| no_execute_taints(&node)).unwrap_or_default();
        let countdown = next_countdown(&pod, &taints, before.as_ref(), now);
        if let Some(countdown) = &countdown {
            countdowns.insert(key.clone(), countdown.clone());
        }
        Some(World { pod, before, countdown, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        let pod = world.pod.as_ref();
        let told = |text: &str| {
            Action::record(
                pod,
                EventText::normal("TaintManagerEviction", format!("{text} Pod {}", pod.key())),
            )
        };
        match &world.countdown {
            None if world.before.is_some() && !pod.is_being_deleted() => vec![told("Cancelling deletion of")],
            None => Vec::new(),
            Some(countdown) if countdown.due > world.now => {
                vec![Action::RequeueAfter(positive(countdown.due.duration_since(world.now)))]
            }
            Some(_) => {
                let target = disruption_target(
                    "DeletionByTaintManager",
                    "Taint manager: deleting due to NoExecute taint",
                    world.now,
                );
                let patch = json!({"status": {"conditions": encode(&with_condition(pod, target))}, "metadata": {"resourceVersion": pod.metadata.resource_version}});
                vec![
                    told("Marking for deletion"),
                    Action::patch_status(
                        pod,
                        patch,
                        "its node has a NoExecute taint that it does not tolerate",
                    ),
                    Action::delete(pod, "its node has a NoExecute taint that it does not tolerate"),
                ]
            }
        }
    }
}
