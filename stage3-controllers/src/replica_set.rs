//! ReplicaSet controller: as many pods as asked for.
//!
//! *Step 10 of a pod's journey.* Before: [`crate::deployment`] made a ReplicaSet. After: stage 4 finds a node for each pod.
//!
//! The simplest controller, and the model of all: count the pods that are mine and alive; too few: make some; too many:
//! delete those that will be missed least ([`scale_down`]); then write down what was seen.
//!
//! The subtle thing is the status when creations fail (a quota says no). The failure belongs into the status as a condition,
//! but it is known only after the decision. So it comes in with the *next* world, and that decision writes it before it tries again.
//!
//! # Invariants
//! 1. At most [`BURST_REPLICAS`] pods are made or deleted in one decision.
//! 2. A ReplicaSet that is being deleted makes and deletes nothing.
//! 3. Pods that ended or are being deleted do not count.
//!
//! # In Kubernetes
//! `pkg/controller/replicaset/replica_set.go`, `replica_set_utils.go`. Left out: `status.terminatingReplicas` (alpha).

pub mod scale_down;

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{ReplicaSet, ReplicaSetCondition, ReplicaSetStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use parking_lot::Mutex;

use crate::action::{Action, EventText, reference_to};
use crate::controller::{Controller, Wakes};
use crate::executor::ExecuteError;
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};
use crate::owner::{
    CONTROLLER_INDEX, ORPHAN_INDEX, claim, controller_index, controller_of, orphan_index, selects,
};
use crate::pod::{PodExt, positive};
use crate::pod_template::pod_from_template;

/// Pods made or deleted in one decision. More: one ReplicaSet could starve the others of requests.
pub const BURST_REPLICAS: usize = 500;

/// All that a decision about one ReplicaSet depends on.
#[derive(Clone)]
pub struct World {
    /// The ReplicaSet.
    pub replica_set: Arc<ReplicaSet>,
    /// Its pods, and the pods of the namespace that nobody owns.
    pub pods: Vec<Arc<Pod>>,
    /// For each node, how many active pods of the same Deployment run there (for the choice of pods to delete).
    pub related_on_node: BTreeMap<String, usize>,
    /// Reason and message of the last decision's failure.
    pub failure: Option<(&'static str, String)>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copies that it reads.
pub struct ReplicaSetController {
    replica_sets: Store<ReplicaSet>,
    pods: Store<Pod>,
    failures: Mutex<HashMap<NamespacedName, (&'static str, String)>>,
}

impl ReplicaSetController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> ReplicaSetController {
        let (replica_sets, pods) = (factory.store::<ReplicaSet>(), factory.store::<Pod>());
        replica_sets.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        pods.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        pods.add_index(ORPHAN_INDEX, Arc::new(orphan_index));
        ReplicaSetController { replica_sets, pods, failures: Mutex::default() }
    }

    fn related_on_node(&self, replica_set: &ReplicaSet) -> BTreeMap<String, usize> {
        let mut on_node = BTreeMap::new();
        let siblings = match controller_of(replica_set.meta()) {
            Some(owner) => self.replica_sets.by_index(CONTROLLER_INDEX, &owner.uid),
            None => Vec::new(),
        };
        let uids = siblings.iter().map(|sibling| sibling.uid()).chain(std::iter::once(replica_set.uid()));
        for uid in uids.collect::<std::collections::BTreeSet<_>>() {
            for pod in self.pods.by_index(CONTROLLER_INDEX, uid).iter().filter(|pod| pod.is_active()) {
                *on_node.entry(pod.node_name().to_owned()).or_default() += 1;
            }
        }
        on_node
    }
}

/// Keys that a change of a pod wakes: its owner's, or those that might adopt it.
fn owners_of(replica_sets: &Store<ReplicaSet>, event: &Event<Pod>) -> Vec<NamespacedName> {
    let mut keys = Vec::new();
    let mut wake = |pod: &Pod| match controller_of(pod.meta()) {
        Some(owner) if owner.kind == "ReplicaSet" => {
            keys.push(NamespacedName::new(pod.object_namespace(), &owner.name))
        }
        Some(_) => {}
        None => keys.extend(
            replica_sets
                .in_namespace(pod.object_namespace())
                .iter()
                .filter(|candidate| selects_pod(candidate, pod))
                .map(|set| set.key()),
        ),
    };
    match event {
        Event::Modified { old, new } => {
            // A pod that lost its owner must wake the former one, too.
            wake(old);
            wake(new);
        }
        Event::Added(pod) => wake(pod),
        Event::Deleted(pod) if controller_of(pod.meta()).is_some() => wake(pod),
        _ => {}
    }
    keys.dedup();
    keys
}

fn selects_pod(replica_set: &ReplicaSet, pod: &Pod) -> bool {
    replica_set.spec.as_ref().is_some_and(|spec| selects(&spec.selector, pod.meta().labels.as_ref()))
}

impl Controller for ReplicaSetController {
    const NAME: &'static str = "replicaset-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<ReplicaSet>();
        let replica_sets = self.replica_sets.clone();
        wakes.on::<Pod>(move |event| owners_of(&replica_sets, event));
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let replica_set = self.replica_sets.get(key)?;
        let mut pods = self.pods.by_index(CONTROLLER_INDEX, replica_set.uid());
        pods.extend(
            self.pods
                .by_index(ORPHAN_INDEX, &key.namespace)
                .into_iter()
                .filter(|pod| selects_pod(&replica_set, pod)),
        );
        let related_on_node = self.related_on_node(&replica_set);
        let failure = self.failures.lock().get(key).cloned();
        Some(World { replica_set, pods, related_on_node, failure, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }

    fn executed(&self, key: &NamespacedName, failure: Option<&ExecuteError>) {
        let reason = match failure {
            Some(failure) if failure.verb == "create" => "FailedCreate",
            Some(failure) if failure.verb == "delete" => "FailedDelete",
            _ => {
                self.failures.lock().remove(key);
                return;
            }
        };
        self.failures
            .lock()
            .insert(key.clone(), (reason, failure.map(ExecuteError::message).unwrap_or_default()));
    }
}

// ANCHOR: reconcile-replica-set
/// Decides what to do for one ReplicaSet.
pub fn reconcile(world: &World) -> Vec<Action> {
    let replica_set = world.replica_set.as_ref();
    let Some(spec) = &replica_set.spec else { return Vec::new() };
    let claimed = claim(replica_set, &spec.selector, &world.pods);
    let active: Vec<Arc<Pod>> = claimed.owned.into_iter().filter(|pod| pod.is_active()).collect();
    let desired = spec.replicas.unwrap_or(1).max(0) as usize;

    let mut manage = Vec::new();
    if !replica_set.is_being_deleted() {
        if active.len() < desired {
            let missing = (desired - active.len()).min(BURST_REPLICAS);
            manage.extend((0..missing).map(|_| create_pod(replica_set, active.len(), desired)));
        } else if active.len() > desired {
            let surplus = (active.len() - desired).min(BURST_REPLICAS);
            let victims = scale_down::rank(&active, &world.related_on_node, world.now);
            manage.extend(
                victims[..surplus].iter().map(|pod| delete_pod(replica_set, pod, active.len(), desired)),
            );
        }
    }
    let status = status_action(world, &active);
    let mut actions = claimed.actions;
    if world.failure.is_some() {
        // The failure is written down before the next try, which may fail the same way and end the list.
        actions.extend(status);
        actions.extend(manage);
    } else {
        actions.extend(manage);
        actions.extend(status);
    }
    actions.extend(requeue_for_availability(spec.min_ready_seconds.unwrap_or(0), &active, world.now));
    actions
}
// ANCHOR_END: reconcile-replica-set

fn create_pod(replica_set: &ReplicaSet, active: usize, desired: usize) -> Action {
    let template = replica_set.spec.as_ref().and_then(|spec| spec.template.clone()).unwrap_or_default();
    let why = format!("ReplicaSet {} has {active} of {desired} pods", replica_set.object_name());
    Action::create(&pod_from_template(&template, replica_set), why).announcing(
        reference_to(replica_set),
        Some(EventText::normal("SuccessfulCreate", "Created pod: {name}")),
        Some(EventText::warning("FailedCreate", "Error creating: {error}")),
    )
}

fn delete_pod(replica_set: &ReplicaSet, pod: &Pod, active: usize, desired: usize) -> Action {
    let why = format!("ReplicaSet {} has {active} pods and wants {desired}", replica_set.object_name());
    Action::delete(pod, why).announcing(
        reference_to(replica_set),
        Some(EventText::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.object_name()))),
        Some(EventText::warning("FailedDelete", "Error deleting: {error}")),
    )
}

/// Asks to be woken when the next ready pod becomes available.
pub fn requeue_for_availability(min_ready_seconds: i32, pods: &[Arc<Pod>], now: Timestamp) -> Option<Action> {
    let waits = pods
        .iter()
        .filter(|pod| !pod.is_available(min_ready_seconds, now))
        .filter_map(|pod| pod.available_in(min_ready_seconds, now));
    // API times have whole seconds: one more makes sure that the pod is available by then.
    waits.min().map(|wait| Action::RequeueAfter(positive(wait) + std::time::Duration::from_millis(50)))
}

fn status_action(world: &World, active: &[Arc<Pod>]) -> Option<Action> {
    let replica_set = world.replica_set.as_ref();
    let old = replica_set.status.clone().unwrap_or_default();
    let new = compute_status(world, active, &old);
    if new == old {
        return None;
    }
    Some(Action::update_status(&ReplicaSet { status: Some(new), ..replica_set.clone() }))
}

fn compute_status(world: &World, active: &[Arc<Pod>], old: &ReplicaSetStatus) -> ReplicaSetStatus {
    let replica_set = world.replica_set.as_ref();
    let spec = replica_set.spec.clone().unwrap_or_default();
    let template_labels = spec
        .template
        .as_ref()
        .and_then(|template| template.metadata.as_ref()?.labels.clone())
        .unwrap_or_default();
    let count = |fits: &dyn Fn(&Pod) -> bool| active.iter().filter(|pod| fits(pod)).count() as i32;
    // Kubernetes omits zeroes; so do we, or the status would never equal what the server stores.
    let counted = |fits: &dyn Fn(&Pod) -> bool| Some(count(fits)).filter(|number| *number > 0);
    let fully_labeled = |pod: &Pod| template_labels.iter().all(|(key, value)| pod.label(key) == Some(value));
    ReplicaSetStatus {
        replicas: active.len() as i32,
        fully_labeled_replicas: counted(&fully_labeled),
        ready_replicas: counted(&|pod| pod.is_ready()),
        available_replicas: counted(&|pod| pod.is_available(spec.min_ready_seconds.unwrap_or(0), world.now)),
        observed_generation: replica_set.metadata.generation,
        conditions: compute_conditions(world, old.conditions.clone()),
        ..ReplicaSetStatus::default()
    }
}

fn compute_conditions(
    world: &World,
    conditions: Option<Vec<ReplicaSetCondition>>,
) -> Option<Vec<ReplicaSetCondition>> {
    let mut conditions = conditions.unwrap_or_default();
    let known = conditions.iter().any(|condition| condition.type_ == "ReplicaFailure");
    match &world.failure {
        Some((reason, message)) if !known => conditions.push(ReplicaSetCondition {
            type_: "ReplicaFailure".to_owned(),
            status: "True".to_owned(),
            reason: Some((*reason).to_owned()),
            message: Some(message.clone()),
            last_transition_time: Some(Time(world.now)),
        }),
        Some(_) => {}
        None => conditions.retain(|condition| condition.type_ != "ReplicaFailure"),
    }
    (!conditions.is_empty()).then_some(conditions)
}

#[cfg(test)]
mod tests;
