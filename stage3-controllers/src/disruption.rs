//! Disruption: how many pods of a kind may go at the same time.
//!
//! *Beside a pod's journey.* Before: somebody made a PodDisruptionBudget. After: the API server's eviction takes one of
//! `status.disruptionsAllowed` for each pod it evicts, and answers 429 when there is none.
//!
//! The controller counts the healthy pods that the budget selects, and how many must stay healthy: a number, or a share of
//! what the pods' owners want ([`Scale`]). The difference may be disrupted.
//!
//! The subtle thing is the time between an eviction and its echo. The API server notes each evicted pod in `disruptedPods`; such a pod counts as
//! unhealthy although it still looks well. The note goes once the pod is being deleted, or after two minutes in which nothing happened.
//!
//! # Invariants
//! 1. A budget whose pods cannot be counted allows nothing.
//! 2. A budget that selects no pods allows nothing, so that the first pods are safe from the start.
//!
//! # In Kubernetes
//! `pkg/controller/disruption/disruption.go`. Left out: scales of custom controllers, the removal of a stale `DisruptionTarget` condition from pods.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, ReplicationController};
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec, PodDisruptionBudgetStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, LabelSelector, OwnerReference, Time};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::action::{Action, EventText};
use crate::controller::{Controller, Wakes};
use crate::deployment::limits::scaled_value;
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};
use crate::owner::{controller_of, selects};
use crate::pod::{PodExt, positive};

/// How long an evicted pod may take until its deletion begins.
pub const DELETION_TIMEOUT: SignedDuration = SignedDuration::from_secs(2 * 60);
/// A budget that could not be counted is looked at again after this time.
const RETRY: Duration = Duration::from_secs(10);
const CONDITION: &str = "DisruptionAllowed";

/// What the owner of some pods wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// The owner that has the number: for a ReplicaSet of a Deployment the Deployment.
    pub owner_uid: String,
    /// Pods wanted.
    pub replicas: i32,
}

/// All that a decision about one budget depends on.
pub struct World {
    /// The budget.
    pub budget: Arc<PodDisruptionBudget>,
    /// The pods that it selects.
    pub pods: Vec<Arc<Pod>>,
    /// The scales of their controllers, by the controllers' UIDs.
    pub scales: BTreeMap<String, Scale>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copies that it reads.
pub struct DisruptionController {
    budgets: Store<PodDisruptionBudget>,
    pods: Store<Pod>,
    replica_sets: Store<ReplicaSet>,
    deployments: Store<Deployment>,
    stateful_sets: Store<StatefulSet>,
    replication_controllers: Store<ReplicationController>,
}

impl DisruptionController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> DisruptionController {
        DisruptionController {
            budgets: factory.store(),
            pods: factory.store(),
            replica_sets: factory.store(),
            deployments: factory.store(),
            stateful_sets: factory.store(),
            replication_controllers: factory.store(),
        }
    }

    fn scale_of(&self, namespace: &str, controller: &OwnerReference) -> Option<Scale> {
        let key = NamespacedName::new(namespace, &controller.name);
        let uid = &controller.uid;
        let scale = |replicas: Option<i32>| Scale { owner_uid: uid.clone(), replicas: replicas.unwrap_or(1) };
        match controller.kind.as_str() {
            "ReplicaSet" => {
                let set = self.replica_sets.get(&key).filter(|set| set.uid() == uid)?;
                match controller_of(set.meta()).filter(|owner| owner.kind == "Deployment") {
                    Some(owner) => {
                        let deployment = self.deployments.get(&NamespacedName::new(namespace, &owner.name));
                        let deployment = deployment.filter(|deployment| deployment.uid() == owner.uid)?;
                        let replicas = deployment.spec.as_ref()?.replicas.unwrap_or(1);
                        Some(Scale { owner_uid: owner.uid.clone(), replicas })
                    }
                    None => Some(scale(set.spec.as_ref()?.replicas)),
                }
            }
            "StatefulSet" => {
                let set = self.stateful_sets.get(&key).filter(|set| set.uid() == uid)?;
                Some(scale(set.spec.as_ref()?.replicas))
            }
            "ReplicationController" => {
                let owner = self.replication_controllers.get(&key).filter(|owner| owner.uid() == uid)?;
                Some(scale(owner.spec.as_ref()?.replicas))
            }
            _ => None,
        }
    }
}

fn selects_pod(budget: &PodDisruptionBudget, pod: &Pod) -> bool {
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    selector.is_some_and(|selector| selects(selector, pod.meta().labels.as_ref()))
}

impl Controller for DisruptionController {
    const NAME: &'static str = "disruption-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<PodDisruptionBudget>();
        let budgets = self.budgets.clone();
        wakes.on::<Pod>(move |event| {
            let pods: Vec<&Arc<Pod>> = match event {
                // Labels may have changed: the budget that lost the pod must count again, too.
                Event::Modified { old, new } => vec![old, new],
                event => event.object().into_iter().collect(),
            };
            let Some(namespace) = pods.first().map(|pod| pod.object_namespace()) else { return Vec::new() };
            let mut found = budgets.in_namespace(namespace);
            found.retain(|budget| pods.iter().any(|pod| selects_pod(budget, pod)));
            found.iter().map(|budget| budget.key()).collect()
        });
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let budget = self.budgets.get(key)?;
        let mut pods = self.pods.in_namespace(&key.namespace);
        pods.retain(|pod| selects_pod(&budget, pod));
        let mut scales = BTreeMap::new();
        for owner in pods.iter().filter_map(|pod| controller_of(pod.meta())) {
            if !scales.contains_key(&owner.uid)
                && let Some(scale) = self.scale_of(&key.namespace, owner)
            {
                scales.insert(owner.uid.clone(), scale);
            }
        }
        Some(World { budget, pods, scales, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

// ANCHOR: reconcile-disruption
/// Decides what to write into one budget's status.
pub fn reconcile(world: &World) -> Vec<Action> {
    let budget = world.budget.as_ref();
    let spec = budget.spec.clone().unwrap_or_default();
    let mut actions = Vec::new();
    if world.pods.is_empty() {
        actions.push(Action::record(budget, EventText::normal("NoPods", "No matching pods found")));
    }
    let needs = match needs(&spec, world) {
        Ok(needs) => needs,
        Err(why) => {
            let text = format!("Failed to calculate the number of expected pods: {why}");
            let event = EventText::warning("CalculateExpectedPodCountFailed", text);
            actions.push(Action::record(budget, event));
            actions.extend(write(world, fail_safe(budget, &why, world.now)));
            actions.push(Action::RequeueAfter(RETRY));
            return actions;
        }
    };
    if needs.unmanaged {
        actions.push(Action::record(budget, unmanaged_pods(&spec)));
    }
    let disrupted = disrupted_pods(world);
    for pod in disrupted.overdue {
        let text = format!("Pod was expected by PDB {} to be deleted but it wasn't", budget.key());
        actions.push(Action::record(pod, EventText::warning("NotDeleted", text)));
    }
    let is_healthy = |pod: &Pod| {
        !pod.is_being_deleted() && !disrupted.waiting.contains_key(pod.object_name()) && pod.is_ready()
    };
    let healthy = count(world.pods.iter().filter(|pod| is_healthy(pod)).count());
    let allowed = if needs.expected > 0 { (healthy - needs.healthy).max(0) } else { 0 };
    let old = budget.status.clone().unwrap_or_default();
    let (verdict, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    let observed = budget.metadata.generation;
    let status = PodDisruptionBudgetStatus {
        conditions: Some(with_condition(old.conditions, verdict, reason, "", observed, world.now)),
        current_healthy: healthy,
        desired_healthy: needs.healthy,
        disrupted_pods: (!disrupted.waiting.is_empty()).then_some(disrupted.waiting),
        disruptions_allowed: allowed,
        expected_pods: needs.expected,
        observed_generation: observed,
    };
    actions.extend(write(world, status));
    actions.extend(disrupted.recheck.map(|wait| Action::RequeueAfter(positive(wait))));
    actions
}
// ANCHOR_END: reconcile-disruption

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn write(world: &World, status: PodDisruptionBudgetStatus) -> Option<Action> {
    let budget = world.budget.as_ref();
    let same = budget.status.as_ref() == Some(&status);
    (!same).then(|| Action::update_status(&PodDisruptionBudget { status: Some(status), ..budget.clone() }))
}

/// What cannot be counted allows nothing; the other numbers stay as they were.
fn fail_safe(budget: &PodDisruptionBudget, why: &str, now: Timestamp) -> PodDisruptionBudgetStatus {
    let old = budget.status.clone().unwrap_or_default();
    let observed = old.observed_generation;
    let conditions = with_condition(old.conditions, "False", "SyncFailed", why, observed, now);
    PodDisruptionBudgetStatus { disruptions_allowed: 0, conditions: Some(conditions), ..old }
}

fn with_condition(
    conditions: Option<Vec<Condition>>,
    status: &str,
    reason: &str,
    message: &str,
    observed_generation: Option<i64>,
    now: Timestamp,
) -> Vec<Condition> {
    let mut conditions = conditions.unwrap_or_default();
    let old = conditions.iter().position(|one| one.type_ == CONDITION);
    // The time is that of the last change of `status`, not of the reason.
    let since = old.map(|at| &conditions[at]).filter(|one| one.status == status);
    let condition = Condition {
        type_: CONDITION.to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message: message.to_owned(),
        observed_generation,
        last_transition_time: since.map_or(Time(now), |one| one.last_transition_time.clone()),
    };
    match old {
        Some(at) => conditions[at] = condition,
        None => conditions.push(condition),
    }
    conditions
}

/// What the budget asks for.
struct Needs {
    expected: i32,
    healthy: i32,
    /// Some pods have no controller, so what they were meant to be is unknown.
    unmanaged: bool,
}

fn needs(spec: &PodDisruptionBudgetSpec, world: &World) -> Result<Needs, String> {
    match (&spec.max_unavailable, &spec.min_available) {
        (Some(unavailable), _) => {
            let (expected, unmanaged) = expected_scale(world)?;
            let healthy = (expected - scaled_value(unavailable, expected, true)).max(0);
            Ok(Needs { expected, healthy, unmanaged })
        }
        (None, Some(IntOrString::Int(healthy))) => {
            Ok(Needs { expected: count(world.pods.len()), healthy: *healthy, unmanaged: false })
        }
        (None, Some(share)) => {
            let (expected, unmanaged) = expected_scale(world)?;
            Ok(Needs { expected, healthy: scaled_value(share, expected, true), unmanaged })
        }
        (None, None) => Ok(Needs { expected: 0, healthy: 0, unmanaged: false }),
    }
}

/// The sum of what the pods' owners want, each owner once; and whether some pods have none.
fn expected_scale(world: &World) -> Result<(i32, bool), String> {
    let (mut sum, mut unmanaged, mut seen) = (0_i32, false, BTreeSet::new());
    for pod in &world.pods {
        let Some(owner) = controller_of(pod.meta()) else {
            unmanaged = true;
            continue;
        };
        let Some(scale) = world.scales.get(&owner.uid) else {
            return Err(match (owner.kind.as_str(), owner.api_version.as_str()) {
                ("Job", _) => "jobs.batch does not implement the scale subresource".to_owned(),
                ("DaemonSet", _) => "daemonsets.apps does not implement the scale subresource".to_owned(),
                ("Node", _) => "nodes does not implement the scale subresource".to_owned(),
                _ => format!("found no controllers for pod {:?}", pod.object_name()),
            });
        };
        if seen.insert(&scale.owner_uid) {
            sum = sum.saturating_add(scale.replicas);
        }
    }
    Ok((sum, unmanaged))
}

/// Pods that the API server let go and whose deletion has not begun.
struct Disrupted<'a> {
    waiting: BTreeMap<String, Time>,
    overdue: Vec<&'a Pod>,
    recheck: Option<SignedDuration>,
}

fn disrupted_pods(world: &World) -> Disrupted<'_> {
    let mut found = Disrupted { waiting: BTreeMap::new(), overdue: Vec::new(), recheck: None };
    let noted = world.budget.status.as_ref().and_then(|status| status.disrupted_pods.as_ref());
    for pod in world.pods.iter().filter(|pod| !pod.is_being_deleted()) {
        let Some(time) = noted.and_then(|noted| noted.get(pod.object_name())) else { continue };
        let left = DELETION_TIMEOUT - world.now.duration_since(time.0);
        if left < SignedDuration::ZERO {
            found.overdue.push(pod);
        } else {
            found.waiting.insert(pod.object_name().to_owned(), time.clone());
            found.recheck = Some(found.recheck.map_or(left, |earlier| earlier.min(left)));
        }
    }
    found
}

fn unmanaged_pods(spec: &PodDisruptionBudgetSpec) -> EventText {
    let selector = spec.selector.as_ref().map_or_else(|| "nil".to_owned(), go_selector);
    EventText::warning(
        "UnmanagedPods",
        format!(
            "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the PDB cannot be \
             calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
        ),
    )
}

/// A selector as Go prints it in that event.
fn go_selector(selector: &LabelSelector) -> String {
    let labels: String =
        selector.match_labels.iter().flatten().map(|(key, value)| format!("{key}: {value},")).collect();
    let expressions: String = selector
        .match_expressions
        .iter()
        .flatten()
        .map(|one| {
            let values = one.values.clone().unwrap_or_default().join(" ");
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},",
                one.key, one.operator
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests;
