//! Revisions: which ReplicaSet is the wanted one, and how the history is kept.
//!
//! The ReplicaSet whose template equals the Deployment's (but for the hash label) is the *new* one, however old it is: going
//! back to an old template finds its old ReplicaSet and gives it the next revision number. Each ReplicaSet carries its
//! number as an annotation, together with the Deployment's own annotations at that time and the numbers it had before.
//!
//! When no such ReplicaSet exists, one is made, named by the template's hash. A namesake with another template (a clash of hashes) raises
//! `status.collisionCount`, which gives another hash the next time.
//!
//! # Invariants
//! 1. The new ReplicaSet has the highest revision.
//! 2. A ReplicaSet is deleted from the history only when it wants no pods, has none, and was seen to have none.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/sync.go` (`getNewReplicaSet`, `cleanupDeployment`), `util/deployment_util.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use serde_json::json;

use super::status::{condition, has_progress_deadline, set_condition, with_status};
use super::{Rollout, World, limits, replicas_of, rolling, status};
use crate::action::{Action, EventText, reference_to};
use crate::indexer::Cached;
use crate::owner::{controller_reference, is_controlled_by};
use crate::pod_template::{POD_TEMPLATE_HASH, compute_hash, without_hash};

/// Revision number of a ReplicaSet, and of the Deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// Earlier revision numbers of a ReplicaSet.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// Replicas that the Deployment wanted when this ReplicaSet was scaled last.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// Those, plus the surge.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Characters that the revision history may have.
const MAX_REVISION_HISTORY_CHARS: usize = 2000;
/// Annotations of the Deployment that its ReplicaSets do not inherit.
const NOT_INHERITED: [&str; 6] = [
    "kubectl.kubernetes.io/last-applied-configuration",
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "deprecated.deployment.rollback.to",
];

/// The annotations that tell for which size of the Deployment a ReplicaSet was scaled.
pub(super) fn replicas_annotations(desired: i32, max: i32) -> BTreeMap<String, String> {
    BTreeMap::from([
        (DESIRED_REPLICAS.to_owned(), desired.to_string()),
        (MAX_REPLICAS.to_owned(), max.to_string()),
    ])
}

fn revision_of(object: &impl Cached) -> i64 {
    object.annotation(REVISION).and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn template_hash(deployment: &Deployment) -> String {
    let template = deployment.spec.as_ref().map(|spec| spec.template.clone()).unwrap_or_default();
    compute_hash(&template, deployment.status.as_ref().and_then(|status| status.collision_count))
}

/// Name that a new ReplicaSet for the present template would get.
pub fn new_replica_set_name(deployment: &Deployment) -> String {
    format!("{}-{}", deployment.object_name(), template_hash(deployment))
}

fn has_template_of(set: &ReplicaSet, deployment: &Deployment) -> bool {
    let ours = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let wanted = deployment.spec.as_ref().map(|spec| &spec.template);
    ours.zip(wanted).is_some_and(|(ours, wanted)| without_hash(ours) == without_hash(wanted))
}

/// The oldest ReplicaSet with the wanted template, and the others.
pub(super) fn find(
    deployment: &Deployment,
    owned: &[Arc<ReplicaSet>],
) -> (Option<ReplicaSet>, Vec<ReplicaSet>) {
    let mut sets: Vec<ReplicaSet> = owned.iter().map(|set| set.as_ref().clone()).collect();
    sets.sort_by_key(|set| (set.created().map(|time| time.0), set.object_name().to_owned()));
    let found = sets.iter().position(|set| has_template_of(set, deployment));
    let new = found.map(|index| sets.remove(index));
    (new, sets)
}

fn next_revision(rollout: &Rollout<'_>) -> i64 {
    rollout.old.iter().map(revision_of).max().unwrap_or(0) + 1
}

/// Annotations that the ReplicaSet of revision `revision` lacks.
fn missing_annotations(
    deployment: &Deployment,
    existing: &BTreeMap<String, String>,
    revision: i64,
) -> BTreeMap<String, String> {
    let mut missing = BTreeMap::new();
    for (key, value) in deployment.metadata.annotations.iter().flatten() {
        if !NOT_INHERITED.contains(&key.as_str()) && existing.get(key) != Some(value) {
            missing.insert(key.clone(), value.clone());
        }
    }
    let before = existing.get(REVISION).cloned();
    if before.as_deref().and_then(|text| text.parse::<i64>().ok()).unwrap_or(0) < revision {
        missing.insert(REVISION.to_owned(), revision.to_string());
        if let Some(before) = before {
            missing.insert(
                REVISION_HISTORY.to_owned(),
                extended_history(existing.get(REVISION_HISTORY), &before),
            );
        }
    }
    missing
}

/// Appends a number to the history and drops the oldest ones when it grows too long.
fn extended_history(history: Option<&String>, revision: &str) -> String {
    let mut numbers: Vec<&str> = history
        .map(|history| history.split(',').filter(|number| !number.is_empty()).collect())
        .unwrap_or_default();
    numbers.push(revision);
    while numbers.len() > 1
        && numbers.iter().map(|number| number.len() + 1).sum::<usize>() > MAX_REVISION_HISTORY_CHARS
    {
        numbers.remove(0);
    }
    numbers.join(",")
}

/// Brings the revision of the new ReplicaSet, and then of the Deployment, up to date. `None`: they are.
pub(super) fn sync_revision(rollout: &mut Rollout<'_>) -> Option<Action> {
    let deployment = rollout.deployment;
    let revision = next_revision(rollout);
    let set = rollout.new.as_mut()?;
    let existing = set.metadata.annotations.clone().unwrap_or_default();
    let missing = missing_annotations(deployment, &existing, revision);
    let min_ready = rollout.spec.min_ready_seconds.unwrap_or(0);
    let spec = set.spec.as_ref();
    if !missing.is_empty() || spec.and_then(|spec| spec.min_ready_seconds).unwrap_or(0) != min_ready {
        let patch = json!({
            "metadata": {"annotations": missing, "resourceVersion": set.metadata.resource_version},
            "spec": {"minReadySeconds": min_ready},
        });
        return Some(Action::patch(
            set,
            patch,
            format!(
                "{} is revision {revision} of Deployment {}",
                set.object_name(),
                deployment.object_name()
            ),
        ));
    }
    let old = deployment.status.clone().unwrap_or_default();
    let mut status = old.clone();
    if has_progress_deadline(rollout.spec) && condition(&status, "Progressing").is_none() {
        let message = format!("Found new replica set \"{}\"", set.object_name());
        set_condition(
            &mut status,
            status::new_condition("Progressing", "True", "FoundNewReplicaSet", message, rollout.now),
        );
    }
    let recorded = set.annotation(REVISION);
    (status != old || deployment.annotation(REVISION) != recorded)
        .then(|| with_status(deployment, status, recorded))
}

/// Makes the ReplicaSet of the wanted template and notes it in the Deployment.
pub(super) fn create(world: &World, rollout: &Rollout<'_>) -> Vec<Action> {
    let deployment = rollout.deployment;
    if let Some(namesake) = &world.namesake {
        if is_controlled_by(namesake.meta(), deployment.uid()) && has_template_of(namesake, deployment) {
            // It was made already; the copy of owned ReplicaSets will show it.
            return Vec::new();
        }
        let mut status = deployment.status.clone().unwrap_or_default();
        status.collision_count = Some(status.collision_count.unwrap_or(0) + 1);
        return vec![with_status(deployment, status, None)];
    }
    let mut status = deployment.status.clone().unwrap_or_default();
    let set = new_replica_set(rollout);
    let name = set.object_name().to_owned();
    let revision = set.annotation(REVISION).unwrap_or_default().to_owned();
    let mut actions = Vec::new();
    if let Some(failure) = &world.failure
        && has_progress_deadline(rollout.spec)
    {
        let message = format!("Failed to create new replica set \"{name}\": {failure}");
        set_condition(
            &mut status,
            status::new_condition("Progressing", "False", "ReplicaSetCreateError", message, rollout.now),
        );
        if Some(&status) != deployment.status.as_ref() {
            actions.push(with_status(deployment, status.clone(), None));
        }
    }
    let replicas = replicas_of(&set);
    let scaled =
        EventText::normal("ScalingReplicaSet", format!("Scaled up replica set {name} from 0 to {replicas}"));
    let failed = EventText::warning(
        "ReplicaSetCreateError",
        format!("Failed to create new replica set \"{name}\": {{error}}"),
    );
    let why = format!(
        "Deployment {} has no ReplicaSet for its template yet: revision {revision}",
        deployment.object_name()
    );
    actions.push(Action::create(&set, why).announcing(
        reference_to(deployment),
        (replicas > 0).then_some(scaled),
        Some(failed),
    ));
    if world.failure.is_none() {
        if has_progress_deadline(rollout.spec) {
            let message = format!("Created new replica set \"{name}\"");
            set_condition(
                &mut status,
                status::new_condition("Progressing", "True", "NewReplicaSetCreated", message, rollout.now),
            );
        }
        actions.push(with_status(deployment, status, Some(&revision)));
    }
    actions
}

fn new_replica_set(rollout: &Rollout<'_>) -> ReplicaSet {
    let deployment = rollout.deployment;
    let hash = template_hash(deployment);
    let mut template = rollout.spec.template.clone();
    let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
    labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.clone());
    let labels = labels.clone();
    let mut match_labels = rollout.spec.selector.match_labels.clone().unwrap_or_default();
    match_labels.insert(POD_TEMPLATE_HASH.to_owned(), hash.clone());
    let wanted = rollout.replicas();
    let replicas = if super::is_recreate(deployment) { wanted } else { rolling::new_replicas(rollout, 0) };
    let mut annotations = missing_annotations(deployment, &BTreeMap::new(), next_revision(rollout));
    annotations.extend(replicas_annotations(wanted, wanted + limits::max_surge(rollout.spec)));
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(format!("{}-{hash}", deployment.object_name())),
            namespace: deployment.metadata.namespace.clone(),
            labels: Some(labels),
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(deployment)]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(replicas),
            min_ready_seconds: rollout.spec.min_ready_seconds,
            selector: LabelSelector { match_labels: Some(match_labels), ..rollout.spec.selector.clone() },
            template: Some(template),
        }),
        status: None,
    }
}

/// Deletes what the history limit no longer covers, lowest revision first.
pub(super) fn clean_up(rollout: &mut Rollout<'_>) {
    let limit = rollout.spec.revision_history_limit.unwrap_or(10);
    if limit == i32::MAX {
        return;
    }
    let mut cleanable: Vec<&ReplicaSet> = rollout.old.iter().filter(|set| !set.is_being_deleted()).collect();
    let surplus = cleanable.len().saturating_sub(limit.max(0) as usize);
    cleanable.sort_by_key(|set| (revision_of(*set), set.created().map(|time| time.0)));
    let deletions: Vec<Action> = cleanable[..surplus]
        .iter()
        .filter(|set| {
            let status = set.status.clone().unwrap_or_default();
            status.replicas == 0
                && replicas_of(set) == 0
                && set.metadata.generation <= status.observed_generation
        })
        .map(|set| {
            Action::delete(
                *set,
                format!("history of Deployment {} is limited to {limit}", rollout.deployment.object_name()),
            )
        })
        .collect();
    rollout.actions.extend(deletions);
}
