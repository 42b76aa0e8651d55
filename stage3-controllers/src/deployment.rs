//! Deployment controller: from one template to the next, without going dark.
//!
//! *Step 9 of a pod's journey.* Before: stage 2 stored the Deployment. After: [`crate::replica_set`] makes the pods.
//!
//! A Deployment owns one ReplicaSet for each template it ever had, named by the template's hash. A rollout is nothing but
//! moving the number of replicas from the old ReplicaSets to the new one, in steps small enough that never more than
//! `maxSurge` pods too many exist and never more than `maxUnavailable` are missing. History is free: the old
//! ReplicaSets stay, empty, and going back means making an old template the wanted one.
//!
//! The decision here goes one step at a time. Kubernetes' syncDeployment makes a ReplicaSet, writes the status, then
//! scales, all in one call; here each decision ends at its first write to the Deployment's own bookkeeping, and the echo of that write brings the
//! key up again. The sequence of states is the same, and a crash between two steps is just a longer pause.
//!
//! # Invariants
//! 1. Sum of wanted replicas ≤ replicas + maxSurge, unless the Deployment itself was scaled down.
//! 2. Only old ReplicaSets with nothing running in them are deleted.
//! 3. A paused Deployment scales, and rolls nothing out.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/`. Left out: `deprecated.deployment.rollback.to`, `status.terminatingReplicas` (alpha).

pub mod limits;
pub mod proportional;
pub mod revision;
pub mod rolling;
pub mod status;

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::action::{Action, EventText, reference_to};
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};
use crate::owner::{
    CONTROLLER_INDEX, ORPHAN_INDEX, claim, controller_index, controller_of, is_empty_selector, orphan_index,
    selects,
};
use crate::pod::PodExt;

/// All that a decision about one Deployment depends on.
#[derive(Clone)]
pub struct World {
    /// The Deployment.
    pub deployment: Arc<Deployment>,
    /// Its ReplicaSets, and those of the namespace that nobody owns.
    pub replica_sets: Vec<Arc<ReplicaSet>>,
    /// The ReplicaSet that already has the name the next new one would get.
    pub namesake: Option<Arc<ReplicaSet>>,
    /// Pods that have not ended, by the UID of their ReplicaSet (for Recreate).
    pub running: std::collections::BTreeMap<String, usize>,
    /// The last decision's failure to create a ReplicaSet.
    pub failure: Option<String>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copies that it reads.
pub struct DeploymentController {
    deployments: Store<Deployment>,
    replica_sets: Store<ReplicaSet>,
    pods: Store<Pod>,
    failures: parking_lot::Mutex<std::collections::HashMap<NamespacedName, String>>,
}

impl DeploymentController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> DeploymentController {
        let replica_sets = factory.store::<ReplicaSet>();
        let pods = factory.store::<Pod>();
        replica_sets.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        replica_sets.add_index(ORPHAN_INDEX, Arc::new(orphan_index));
        pods.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        DeploymentController {
            deployments: factory.store(),
            replica_sets,
            pods,
            failures: Default::default(),
        }
    }
}

fn deployments_of(deployments: &Store<Deployment>, event: &Event<ReplicaSet>) -> Vec<NamespacedName> {
    let mut keys = Vec::new();
    let mut wake = |set: &ReplicaSet, adopt: bool| match controller_of(set.meta()) {
        Some(owner) if owner.kind == "Deployment" => {
            keys.push(NamespacedName::new(set.object_namespace(), &owner.name))
        }
        None if adopt => keys.extend(
            deployments
                .in_namespace(set.object_namespace())
                .iter()
                .filter(|one| selects_set(one, set))
                .map(|one| one.key()),
        ),
        _ => {}
    };
    match event {
        Event::Modified { old, new } => {
            wake(old, false);
            wake(new, true);
        }
        Event::Added(set) => wake(set, true),
        Event::Deleted(set) => wake(set, false),
        Event::Resync => {}
    }
    keys.dedup();
    keys
}

fn selects_set(deployment: &Deployment, set: &ReplicaSet) -> bool {
    deployment.spec.as_ref().is_some_and(|spec| selects(&spec.selector, set.meta().labels.as_ref()))
}

impl Controller for DeploymentController {
    const NAME: &'static str = "deployment-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Deployment>();
        let deployments = self.deployments.clone();
        wakes.on::<ReplicaSet>(move |event| deployments_of(&deployments, event));
        // Recreate waits for the last old pod to be gone.
        let controller = self.clone();
        wakes.on::<Pod>(move |event| match event {
            Event::Deleted(pod) => controller.recreating_deployment_of(pod).into_iter().collect(),
            _ => Vec::new(),
        });
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let deployment = self.deployments.get(key)?;
        let mut replica_sets = self.replica_sets.by_index(CONTROLLER_INDEX, deployment.uid());
        let orphans = self.replica_sets.by_index(ORPHAN_INDEX, &key.namespace);
        replica_sets.extend(orphans.into_iter().filter(|set| selects_set(&deployment, set)));
        let name = revision::new_replica_set_name(&deployment);
        let namesake = self.replica_sets.get(&NamespacedName::new(&key.namespace, name));
        let count = |set: &Arc<ReplicaSet>| {
            let pods = self.pods.by_index(CONTROLLER_INDEX, set.uid());
            (set.uid().to_owned(), pods.iter().filter(|pod| !pod.is_terminal()).count())
        };
        let running = if is_recreate(&deployment) {
            replica_sets.iter().map(count).collect()
        } else {
            Default::default()
        };
        let failure = self.failures.lock().get(key).cloned();
        Some(World { deployment, replica_sets, namesake, running, failure, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }

    fn executed(&self, key: &NamespacedName, failure: Option<&crate::executor::ExecuteError>) {
        match failure.filter(|failure| failure.verb == "create" && !failure.source.is_already_exists()) {
            Some(failure) => drop(self.failures.lock().insert(key.clone(), failure.message())),
            None => drop(self.failures.lock().remove(key)),
        }
    }
}

impl DeploymentController {
    fn recreating_deployment_of(&self, pod: &Pod) -> Option<NamespacedName> {
        let owner = controller_of(pod.meta()).filter(|owner| owner.kind == "ReplicaSet")?;
        let set = self.replica_sets.get(&NamespacedName::new(pod.object_namespace(), &owner.name))?;
        let key = NamespacedName::new(set.object_namespace(), &controller_of(set.meta())?.name);
        self.deployments.get(&key).filter(|deployment| is_recreate(deployment)).map(|_| key)
    }
}

fn is_recreate(deployment: &Deployment) -> bool {
    let strategy = deployment
        .spec
        .as_ref()
        .and_then(|spec| spec.strategy.as_ref())
        .and_then(|strategy| strategy.type_.as_deref());
    strategy == Some("Recreate")
}

/// One decision in the making: the ReplicaSets as they will be, and the actions that make them so.
pub(crate) struct Rollout<'a> {
    pub deployment: &'a Deployment,
    pub spec: &'a DeploymentSpec,
    /// ReplicaSet with the wanted template, if there is one.
    pub new: Option<ReplicaSet>,
    /// All others.
    pub old: Vec<ReplicaSet>,
    pub actions: Vec<Action>,
    pub now: Timestamp,
}

impl Rollout<'_> {
    /// Replicas that the Deployment wants.
    pub fn replicas(&self) -> i32 {
        self.spec.replicas.unwrap_or(1)
    }

    /// Old and new ones.
    pub fn all(&self) -> impl Iterator<Item = &ReplicaSet> {
        self.old.iter().chain(self.new.iter())
    }

    /// Scales one ReplicaSet and keeps its annotations right; returns whether the number changed.
    pub fn scale(&mut self, which: Which, to: i32) -> bool {
        let deployment = self.deployment;
        let (desired, max) = (self.replicas(), self.replicas() + limits::max_surge(self.spec));
        let set = match which {
            Which::New => self.new.as_mut(),
            Which::Old(index) => self.old.get_mut(index),
        };
        let Some(set) = set else { return false };
        let from = replicas_of(set);
        let annotations = revision::replicas_annotations(desired, max);
        let stale = annotations.iter().any(|(key, value)| set.annotation(key) != Some(value));
        if from == to && !stale {
            return false;
        }
        let patch = json!({
            "metadata": {"annotations": annotations, "resourceVersion": set.metadata.resource_version},
            "spec": {"replicas": to},
        });
        let why = if from == to {
            String::new()
        } else {
            format!(
                "Deployment {} moves {} from {from} to {to} pods",
                deployment.object_name(),
                set.object_name()
            )
        };
        let mut action = Action::patch(set, patch, why);
        if from != to {
            let direction = if from < to { "up" } else { "down" };
            let message = format!("Scaled {direction} replica set {} from {from} to {to}", set.object_name());
            action = action.announcing(
                reference_to(deployment),
                Some(EventText::normal("ScalingReplicaSet", message)),
                None,
            );
        }
        self.actions.push(action);
        if let Some(spec) = &mut set.spec {
            spec.replicas = Some(to);
        }
        set.metadata.annotations.get_or_insert_default().extend(annotations);
        from != to
    }
}

/// Names one ReplicaSet of a rollout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Which {
    New,
    Old(usize),
}

/// Replicas that a ReplicaSet wants.
pub(crate) fn replicas_of(set: &ReplicaSet) -> i32 {
    set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1)
}

/// Available replicas of a ReplicaSet.
pub(crate) fn available_of(set: &ReplicaSet) -> i32 {
    set.status.as_ref().and_then(|status| status.available_replicas).unwrap_or(0)
}

// ANCHOR: reconcile-deployment
/// Decides what to do for one Deployment.
pub fn reconcile(world: &World) -> Vec<Action> {
    let deployment = world.deployment.as_ref();
    let Some(spec) = &deployment.spec else { return Vec::new() };
    if is_empty_selector(&spec.selector) {
        let text = "This deployment is selecting all pods. A non-empty selector is required.";
        return vec![Action::record(deployment, EventText::warning("SelectingAll", text))];
    }
    let claimed = claim(deployment, &spec.selector, &world.replica_sets);
    if !claimed.actions.is_empty() {
        // Owners first: the echo brings the ReplicaSets back with their owner in place.
        return claimed.actions;
    }
    let (new, old) = revision::find(deployment, &claimed.owned);
    let mut rollout = Rollout { deployment, spec, new, old, actions: Vec::new(), now: world.now };
    if deployment.is_being_deleted() {
        status::sync(&mut rollout);
        return rollout.actions;
    }
    if let Some(action) = status::pause_condition(&rollout) {
        return vec![action];
    }
    if let Some(action) = revision::sync_revision(&mut rollout) {
        return vec![action];
    }
    let paused = spec.paused == Some(true);
    if paused || proportional::is_scaling_event(&rollout) {
        proportional::scale(&mut rollout);
        if paused {
            revision::clean_up(&mut rollout);
        }
        status::sync(&mut rollout);
        return rollout.actions;
    }
    if is_recreate(deployment) {
        recreate(world, &mut rollout);
    } else if rollout.new.is_none() {
        return revision::create(world, &rollout);
    } else {
        rolling::roll(&mut rollout);
    }
    rollout.actions
}
// ANCHOR_END: reconcile-deployment

/// Recreate: the old ones end, all of them, before the first new one starts.
fn recreate(world: &World, rollout: &mut Rollout<'_>) {
    let mut scaled_down = false;
    for index in 0..rollout.old.len() {
        if replicas_of(&rollout.old[index]) > 0 {
            scaled_down |= rollout.scale(Which::Old(index), 0);
        }
    }
    let old_pods_run =
        rollout.old.iter().any(|set| world.running.get(set.uid()).is_some_and(|pods| *pods > 0));
    if scaled_down || old_pods_run {
        return status::sync_rollout(rollout);
    }
    if rollout.new.is_none() {
        rollout.actions.extend(revision::create(world, rollout));
        return;
    }
    rollout.scale(Which::New, rollout.replicas());
    if status::is_complete(rollout, &rollout.deployment.status.clone().unwrap_or_default()) {
        revision::clean_up(rollout);
    }
    status::sync_rollout(rollout);
}

#[cfg(test)]
mod tests;
