//! StatefulSet controller: pods with names, one after the other.
//!
//! *Beside a pod's journey.* `db-0`, `db-1`, `db-2`: each pod has a name, a DNS name and volumes that stay its own when it is replaced.
//!
//! With `OrderedReady` a pod is made only when all before it run and are ready, and the last one is deleted first; `Parallel` does not wait. An update goes from
//! the highest number down, one pod at a time, and stops at `partition`.
//!
//! # Invariants
//! 1. There is at most one pod for a number, ever: a new one is made when the old one is gone.
//! 2. In order: nothing is made or deleted while a pod with a lower number is not ready.
//!
//! # In Kubernetes
//! `pkg/controller/statefulset/stateful_set_control.go`, `stateful_set_utils.go`. Left out: retention policies of claims, `maxUnavailable` (alpha).

pub mod identity;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec, StatefulSetStatus};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;

use crate::action::{Action, EventText, reference_to};
use crate::controller::{Controller, Wakes};
use crate::controller_revision::{self, HASH, hash_of};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::owner::{CONTROLLER_INDEX, controller_index, is_empty_selector};
use crate::pod::PodExt;

/// All that a decision about one StatefulSet depends on.
#[derive(Clone)]
pub struct World {
    /// The StatefulSet.
    pub set: Arc<StatefulSet>,
    /// Its pods.
    pub pods: Vec<Arc<Pod>>,
    /// Its templates.
    pub revisions: Vec<Arc<ControllerRevision>>,
    /// Names of the claims of its namespace.
    pub claims: Vec<String>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copies that it reads.
pub struct StatefulSetController {
    sets: Store<StatefulSet>,
    pods: Store<Pod>,
    revisions: Store<ControllerRevision>,
    claims: Store<PersistentVolumeClaim>,
}

impl StatefulSetController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> Self {
        let (pods, revisions) = (factory.store::<Pod>(), factory.store::<ControllerRevision>());
        pods.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        revisions.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        StatefulSetController { sets: factory.store(), pods, revisions, claims: factory.store() }
    }
}

impl Controller for StatefulSetController {
    const NAME: &'static str = "statefulset-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<StatefulSet>();
        wakes.on_owned::<Pod>("StatefulSet");
        wakes.on_owned::<ControllerRevision>("StatefulSet");
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let set = self.sets.get(key)?;
        let pods = self.pods.by_index(CONTROLLER_INDEX, set.uid());
        let revisions = self.revisions.by_index(CONTROLLER_INDEX, set.uid());
        let claims = self
            .claims
            .in_namespace(&key.namespace)
            .iter()
            .map(|claim| claim.object_name().to_owned())
            .collect();
        Some(World { set, pods, revisions, claims, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

/// The templates that matter: the one that is current, and the one that is rolled out.
struct Revisions {
    current: String,
    update: ControllerRevision,
}

// ANCHOR: reconcile-stateful-set
/// Decides what to do for one StatefulSet.
pub fn reconcile(world: &World) -> Vec<Action> {
    let set = world.set.as_ref();
    let Some(spec) = &set.spec else { return Vec::new() };
    if is_empty_selector(&spec.selector) || set.is_being_deleted() {
        return Vec::new();
    }
    let old = set.status.clone().unwrap_or_default();
    let (update, action) =
        controller_revision::current(set, &spec.template, old.collision_count, &world.revisions);
    if let Some(action) = action {
        // The revision first: its echo brings the set back.
        return vec![action];
    }
    let known = |name: &String| world.revisions.iter().any(|revision| revision.object_name() == name);
    let current =
        old.current_revision.clone().filter(known).unwrap_or_else(|| update.object_name().to_owned());
    let revisions = Revisions { current, update };
    let mut actions = next_move(world, spec, &revisions);
    actions.extend(status_action(world, spec, &old, &revisions));
    let in_use: Vec<&str> =
        world.pods.iter().filter_map(|pod| pod.label(HASH)).chain([hash_of(&revisions.update)]).collect();
    let kept: Vec<Arc<ControllerRevision>> = world
        .revisions
        .iter()
        .filter(|revision| revision.object_name() != revisions.current)
        .cloned()
        .collect();
    actions.extend(controller_revision::clean_up(&kept, &in_use, spec.revision_history_limit.unwrap_or(10)));
    actions.extend(crate::replica_set::requeue_for_availability(
        spec.min_ready_seconds.unwrap_or(0),
        &world.pods,
        world.now,
    ));
    actions
}
// ANCHOR_END: reconcile-stateful-set

fn numbers(spec: &StatefulSetSpec) -> std::ops::Range<i32> {
    let start = spec.ordinals.as_ref().and_then(|ordinals| ordinals.start).unwrap_or(0);
    start..start + spec.replicas.unwrap_or(1).max(0)
}

fn partition(spec: &StatefulSetSpec) -> i32 {
    spec.update_strategy
        .as_ref()
        .and_then(|strategy| strategy.rolling_update.as_ref()?.partition)
        .unwrap_or(0)
}

/// The next step: make what is missing, delete what is too much, then update.
fn next_move(world: &World, spec: &StatefulSetSpec, revisions: &Revisions) -> Vec<Action> {
    let set = world.set.as_ref();
    let ordered = spec.pod_management_policy.as_deref() != Some("Parallel");
    let wanted = numbers(spec);
    let min_ready = spec.min_ready_seconds.unwrap_or(0);
    let pod_of = |number: i32| world.pods.iter().find(|pod| identity::number_of(set, pod) == Some(number));
    let mut actions = Vec::new();
    for number in wanted.clone() {
        match pod_of(number) {
            None => actions.extend(make(world, spec, revisions, number)),
            Some(pod) if pod.is_being_deleted() => {}
            Some(pod) if pod.is_terminal() => actions.push(delete(set, pod, "it ended")),
            Some(pod) if pod.is_available(min_ready, world.now) => continue,
            Some(_) => {}
        }
        // In order: whatever is not available holds up the rest.
        if ordered {
            return actions;
        }
    }
    let mut surplus: Vec<&Arc<Pod>> = world
        .pods
        .iter()
        .filter(|pod| identity::number_of(set, pod).is_none_or(|number| !wanted.contains(&number)))
        .collect();
    surplus.sort_by_key(|pod| std::cmp::Reverse(identity::number_of(set, pod)));
    for pod in &surplus {
        if !pod.is_being_deleted() {
            actions.push(delete(set, pod, "the set has fewer replicas"));
        }
        if ordered {
            return actions;
        }
    }
    if !actions.is_empty()
        || spec.update_strategy.as_ref().and_then(|strategy| strategy.type_.as_deref()) == Some("OnDelete")
    {
        return actions;
    }
    for number in wanted.rev().take_while(|number| *number >= numbers(spec).start + partition(spec)) {
        match pod_of(number) {
            Some(pod)
                if pod.label(HASH) != Some(revisions.update.object_name()) && !pod.is_being_deleted() =>
            {
                return vec![delete(set, pod, "it has an old template")];
            }
            Some(pod) if pod.is_available(min_ready, world.now) && !pod.is_being_deleted() => {}
            _ => return Vec::new(),
        }
    }
    actions
}

/// Makes the claims and the pod of a number.
fn make(world: &World, spec: &StatefulSetSpec, revisions: &Revisions, number: i32) -> Vec<Action> {
    let set = world.set.as_ref();
    let is_new = number >= numbers(spec).start + partition(spec);
    let current = world.revisions.iter().find(|revision| revision.object_name() == revisions.current);
    let revision = if is_new { &revisions.update } else { current.map_or(&revisions.update, AsRef::as_ref) };
    let template = identity::template_of(revision).unwrap_or_else(|| spec.template.clone());
    let claims = identity::claims(set, spec, number)
        .into_iter()
        .filter(|claim| !world.claims.iter().any(|name| name == claim.object_name()));
    let told = |what: &str, name: &str, failed: &str| {
        let success = EventText::normal(
            "SuccessfulCreate",
            format!("create {what} {name} in StatefulSet {} successful", set.object_name()),
        );
        let failure = EventText::warning(
            "FailedCreate",
            format!("create {what} {name} in StatefulSet {} failed error: {failed}", set.object_name()),
        );
        (Some(success), Some(failure))
    };
    let mut actions: Vec<Action> = claims
        .map(|claim| {
            let pod = identity::name(set, number);
            let (success, failure) = told("Claim", &format!("{} Pod {pod}", claim.object_name()), "{error}");
            let success = success
                .map(|text| EventText { message: text.message.replace(" successful", " success"), ..text });
            Action::create(&claim, format!("pod {pod} needs its volume")).announcing(
                reference_to(set),
                success,
                failure,
            )
        })
        .collect();
    let pod = identity::pod(set, spec, &template, number, revision.object_name());
    let (success, failure) = told("Pod", pod.object_name(), "{error}");
    let why = format!("StatefulSet {} has no pod {number}", set.object_name());
    actions.push(Action::create(&pod, why).announcing(reference_to(set), success, failure));
    actions
}

fn delete(set: &StatefulSet, pod: &Pod, why: &str) -> Action {
    let told = EventText::normal(
        "SuccessfulDelete",
        format!("delete Pod {} in StatefulSet {} successful", pod.object_name(), set.object_name()),
    );
    Action::delete(pod, why).announcing(reference_to(set), Some(told), None)
}

fn status_action(
    world: &World,
    spec: &StatefulSetSpec,
    old: &StatefulSetStatus,
    revisions: &Revisions,
) -> Option<Action> {
    let set = world.set.as_ref();
    let update = revisions.update.object_name();
    let count = |fits: &dyn Fn(&Pod) -> bool| world.pods.iter().filter(|pod| fits(pod)).count() as i32;
    let some = |number: i32| Some(number).filter(|number| *number != 0);
    let alive = |pod: &Pod| !pod.is_being_deleted();
    let is_ready = |pod: &Pod| pod.phase() == "Running" && pod.is_ready();
    let available =
        count(&|pod| is_ready(pod) && pod.is_available(spec.min_ready_seconds.unwrap_or(0), world.now));
    let mut status = StatefulSetStatus {
        observed_generation: set.metadata.generation,
        replicas: world.pods.len() as i32,
        ready_replicas: some(count(&is_ready)),
        available_replicas: Some(available),
        current_replicas: some(count(&|pod| alive(pod) && pod.label(HASH) == Some(&revisions.current))),
        updated_replicas: some(count(&|pod| alive(pod) && pod.label(HASH) == Some(update))),
        current_revision: Some(revisions.current.clone()),
        update_revision: Some(update.to_owned()),
        collision_count: Some(old.collision_count.unwrap_or(0)),
        conditions: old.conditions.clone(),
    };
    // The rollout is complete: what was new is current now.
    let done = status.updated_replicas == some(status.replicas)
        && status.ready_replicas == some(status.replicas)
        && status.replicas == spec.replicas.unwrap_or(1);
    if revisions.current != update && done && partition(spec) == 0 {
        status.current_replicas = status.updated_replicas;
        status.current_revision = status.update_revision.clone();
    }
    (status != *old).then(|| Action::update_status(&StatefulSet { status: Some(status), ..set.clone() }))
}

#[cfg(test)]
mod tests;
