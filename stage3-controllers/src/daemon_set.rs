//! DaemonSet controller: one pod on every node that wants it.
//!
//! *Beside a pod's journey.* Before: a node joined. After: its agents (log collectors, network plugins, …) run there.
//!
//! For each node one question decides: does the pod belong there ([`node_fit`])? The pod is made for that node by a required affinity to its name; the scheduler
//! still binds it. It gets tolerations that let it stay on a node that is in trouble, since the agents are often what repairs it.
//!
//! An update replaces pods node by node: an old pod is deleted only while fewer than `maxUnavailable` nodes are without a working one.
//!
//! # Invariants
//! 1. At most one pod of the DaemonSet is kept on a node, the oldest.
//! 2. An update never makes more than `maxUnavailable` nodes unavailable that were not before.
//!
//! # In Kubernetes
//! `pkg/controller/daemon/{daemon_controller,update}.go`. Left out: `maxSurge`, back-off for failed pods.

pub mod node_fit;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, DaemonSet, DaemonSetSpec, DaemonSetStatus};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;

use crate::action::{Action, EventText, reference_to};
use crate::controller::{Controller, Wakes};
use crate::controller_revision::{self, hash_of};
use crate::deployment::limits::scaled_value;
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::owner::{CONTROLLER_INDEX, claim, controller_index, is_empty_selector};
use crate::pod::PodExt;

/// All that a decision about one DaemonSet depends on.
#[derive(Clone)]
pub struct World {
    /// The DaemonSet.
    pub daemon_set: Arc<DaemonSet>,
    /// Its pods, and the pods of the namespace that nobody owns and that match.
    pub pods: Vec<Arc<Pod>>,
    /// All nodes.
    pub nodes: Vec<Arc<Node>>,
    /// Its old templates.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copies that it reads.
pub struct DaemonSetController {
    daemon_sets: Store<DaemonSet>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    revisions: Store<ControllerRevision>,
}

impl DaemonSetController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> Self {
        let (pods, revisions) = (factory.store::<Pod>(), factory.store::<ControllerRevision>());
        pods.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        revisions.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        DaemonSetController { daemon_sets: factory.store(), pods, nodes: factory.store(), revisions }
    }
}

impl Controller for DaemonSetController {
    const NAME: &'static str = "daemonset-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<DaemonSet>();
        wakes.on_owned::<Pod>("DaemonSet");
        wakes.on_owned::<ControllerRevision>("DaemonSet");
        let daemon_sets = self.daemon_sets.clone();
        wakes.on::<Node>(move |event| match event {
            crate::informer::Event::Modified { old, new } if node_fit::facts(old) == node_fit::facts(new) => {
                Vec::new()
            }
            _ => daemon_sets.keys(),
        });
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let daemon_set = self.daemon_sets.get(key)?;
        let pods = self.pods.by_index(CONTROLLER_INDEX, daemon_set.uid());
        let revisions = self.revisions.by_index(CONTROLLER_INDEX, daemon_set.uid());
        Some(World { daemon_set, pods, nodes: self.nodes.list(), revisions, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

/// One node's part of the picture.
struct Place<'a> {
    node: &'a Node,
    should_run: bool,
    may_stay: bool,
    pods: Vec<Arc<Pod>>,
}

fn places<'a>(world: &'a World, spec: &DaemonSetSpec, owned: &[Arc<Pod>]) -> Vec<Place<'a>> {
    let mut by_node: BTreeMap<String, Vec<Arc<Pod>>> = BTreeMap::new();
    for pod in owned {
        by_node.entry(node_fit::target_node(pod)).or_default().push(pod.clone());
    }
    let mut places: Vec<Place<'a>> = world
        .nodes
        .iter()
        .map(|node| {
            let (should_run, may_stay) = node_fit::should_run(&spec.template, node);
            let mut pods = by_node.remove(node.object_name()).unwrap_or_default();
            pods.sort_by_key(|pod| {
                (pod.node_name().is_empty(), pod.created().map(|time| time.0), pod.object_name().to_owned())
            });
            Place { node, should_run, may_stay, pods }
        })
        .collect();
    places.sort_by_key(|place| place.node.object_name().to_owned());
    places
}

// ANCHOR: reconcile-daemon-set
/// Decides what to do for one DaemonSet.
pub fn reconcile(world: &World) -> Vec<Action> {
    let daemon_set = world.daemon_set.as_ref();
    let Some(spec) = &daemon_set.spec else { return Vec::new() };
    if is_empty_selector(&spec.selector) {
        let text = "This daemon set is selecting all pods. A non-empty selector is required.";
        return vec![Action::record(daemon_set, EventText::warning("SelectingAll", text))];
    }
    if daemon_set.is_being_deleted() {
        return Vec::new();
    }
    let claimed = claim(daemon_set, &spec.selector, &world.pods);
    let collisions = daemon_set.status.as_ref().and_then(|status| status.collision_count);
    let (revision, action) =
        controller_revision::current(daemon_set, &spec.template, collisions, &world.revisions);
    if let Some(action) = action {
        // The revision first: its echo brings the DaemonSet back.
        return claimed.actions.into_iter().chain([action]).collect();
    }
    let hash = hash_of(&revision);
    let places = places(world, spec, &claimed.owned);
    let mut actions = claimed.actions;
    let manage = manage(daemon_set, spec, &places, hash);
    let settled = manage.is_empty();
    actions.extend(manage);
    if settled {
        actions.extend(roll(daemon_set, spec, &places, hash, world.now));
        let in_use: Vec<&str> = claimed
            .owned
            .iter()
            .filter_map(|pod| pod.label(controller_revision::HASH))
            .chain([hash])
            .collect();
        actions.extend(controller_revision::clean_up(
            &world.revisions,
            &in_use,
            spec.revision_history_limit.unwrap_or(10),
        ));
    }
    actions.extend(status_action(daemon_set, spec, &places, hash, world.now));
    actions.extend(crate::replica_set::requeue_for_availability(
        spec.min_ready_seconds.unwrap_or(0),
        &claimed.owned,
        world.now,
    ));
    actions
}
// ANCHOR_END: reconcile-daemon-set

/// One pod on each node that should have one, none elsewhere.
fn manage(daemon_set: &DaemonSet, spec: &DaemonSetSpec, places: &[Place<'_>], hash: &str) -> Vec<Action> {
    let mut actions = Vec::new();
    for place in places {
        let alive: Vec<&Arc<Pod>> = place.pods.iter().filter(|pod| !pod.is_being_deleted()).collect();
        if !place.may_stay {
            actions.extend(alive.iter().map(|pod| delete(daemon_set, pod, "its node is not meant for it")));
        } else if place.pods.is_empty() && place.should_run {
            let pod = node_fit::pod_for(daemon_set, spec, place.node.object_name(), hash);
            actions.push(
                Action::create(&pod, format!("node {} has none", place.node.object_name())).announcing(
                    reference_to(daemon_set),
                    Some(EventText::normal("SuccessfulCreate", "Created pod: {name}")),
                    Some(EventText::warning("FailedCreate", "Error creating: {error}")),
                ),
            );
        } else {
            for pod in alive.iter().filter(|pod| pod.phase() == "Failed") {
                let text = format!(
                    "Found failed daemon pod {} on node {}, will try to kill it",
                    pod.key(),
                    place.node.object_name()
                );
                actions.push(Action::record(daemon_set, EventText::warning("FailedDaemonPod", text)));
                actions.push(delete(daemon_set, pod, "it failed"));
            }
            let running = alive.iter().filter(|pod| pod.phase() != "Failed");
            actions.extend(running.skip(1).map(|pod| delete(daemon_set, pod, "its node has an older one")));
        }
    }
    actions
}

fn delete(daemon_set: &DaemonSet, pod: &Pod, why: &str) -> Action {
    let told = EventText::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.object_name()));
    Action::delete(pod, why).announcing(reference_to(daemon_set), Some(told), None)
}

/// Deletes old pods, as many as `maxUnavailable` allows; those that do not work first.
fn roll(
    daemon_set: &DaemonSet,
    spec: &DaemonSetSpec,
    places: &[Place<'_>],
    hash: &str,
    now: Timestamp,
) -> Vec<Action> {
    let strategy = spec.update_strategy.clone().unwrap_or_default();
    if strategy.type_.as_deref() == Some("OnDelete") {
        return Vec::new();
    }
    let wanted: Vec<&Place<'_>> = places.iter().filter(|place| place.should_run).collect();
    let limit =
        strategy.rolling_update.and_then(|rolling| rolling.max_unavailable).unwrap_or(IntOrString::Int(1));
    let max_unavailable = scaled_value(&limit, wanted.len() as i32, true).max(0);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let is_available = |pod: &Pod| pod.is_available(min_ready, now) && !pod.is_being_deleted();
    let unavailable =
        wanted.iter().filter(|place| !place.pods.iter().any(|pod| is_available(pod))).count() as i32;
    let old: Vec<&Arc<Pod>> = wanted
        .iter()
        .flat_map(|place| &place.pods)
        .filter(|pod| pod.label(controller_revision::HASH) != Some(hash) && !pod.is_being_deleted())
        .collect();
    let (working, broken): (Vec<_>, Vec<_>) = old.into_iter().partition(|pod| is_available(pod));
    let room = (max_unavailable - unavailable).max(0) as usize;
    broken
        .into_iter()
        .chain(working.into_iter().take(room))
        .map(|pod| delete(daemon_set, pod, "it has an old template"))
        .collect()
}

fn status_action(
    daemon_set: &DaemonSet,
    spec: &DaemonSetSpec,
    places: &[Place<'_>],
    hash: &str,
    now: Timestamp,
) -> Option<Action> {
    let mut status =
        DaemonSetStatus { observed_generation: daemon_set.metadata.generation, ..DaemonSetStatus::default() };
    let old = daemon_set.status.clone().unwrap_or_default();
    (status.collision_count, status.conditions) = (old.collision_count, old.conditions.clone());
    let (mut updated, mut available) = (0, 0);
    for place in places {
        if !place.should_run {
            status.number_misscheduled += i32::from(!place.pods.is_empty());
            continue;
        }
        status.desired_number_scheduled += 1;
        let Some(pod) = place.pods.first() else { continue };
        status.current_number_scheduled += 1;
        status.number_ready += i32::from(pod.is_ready());
        available += i32::from(pod.is_available(spec.min_ready_seconds.unwrap_or(0), now));
        updated += i32::from(pod.label(controller_revision::HASH) == Some(hash));
    }
    let some = |number: i32| Some(number).filter(|number| *number != 0);
    status.number_available = some(available);
    status.updated_number_scheduled = some(updated);
    status.number_unavailable = some(status.desired_number_scheduled - available);
    (status != old).then(|| Action::update_status(&DaemonSet { status: Some(status), ..daemon_set.clone() }))
}

#[cfg(test)]
mod tests;
