//! Status of a Deployment: numbers, and the conditions Available, Progressing and ReplicaFailure.
//!
//! `Available` says whether enough pods serve. `Progressing` tells the story of the rollout: a ReplicaSet was created, is
//! progressing, is complete, or (when nothing moved for `progressDeadlineSeconds`) has timed out. `kubectl rollout status` reads just these.
//!
//! The subtle thing is the clock of the deadline: `lastUpdateTime` of `Progressing` moves with every progress, so the condition is
//! replaced whenever a number improved, even when its reason stays the same; a condition with the same status and reason is otherwise kept.
//!
//! # Invariants
//! 1. A status is written only when it differs from the present one.
//! 2. A complete rollout never times out.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/progress.go`, `sync.go` (`calculateStatus`), `util/deployment_util.go`.

use k8s_openapi::api::apps::v1::{
    Deployment, DeploymentCondition, DeploymentSpec, DeploymentStatus, ReplicaSet,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::revision::REVISION;
use super::{Rollout, available_of, limits, replicas_of};
use crate::action::Action;
use crate::indexer::Cached;
use crate::pod::positive;

/// Whether the rollout has a deadline; the largest number means: none.
pub(super) fn has_progress_deadline(spec: &DeploymentSpec) -> bool {
    spec.progress_deadline_seconds.is_some_and(|seconds| seconds != i32::MAX)
}

/// The condition of this type.
pub(super) fn condition<'a>(status: &'a DeploymentStatus, kind: &str) -> Option<&'a DeploymentCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind)
}

/// A condition that changed now.
pub(super) fn new_condition(
    kind: &str,
    status: &str,
    reason: &str,
    message: String,
    now: Timestamp,
) -> DeploymentCondition {
    DeploymentCondition {
        type_: kind.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_update_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    }
}

/// Puts a condition in, at the end, unless one with the same status and reason is there.
pub(super) fn set_condition(status: &mut DeploymentStatus, mut new: DeploymentCondition) {
    if let Some(current) = condition(status, &new.type_) {
        if current.status == new.status && current.reason == new.reason {
            return;
        }
        if current.status == new.status {
            new.last_transition_time = current.last_transition_time.clone();
        }
    }
    remove_condition(status, &new.type_.clone());
    status.conditions.get_or_insert_default().push(new);
}

fn remove_condition(status: &mut DeploymentStatus, kind: &str) {
    if let Some(conditions) = &mut status.conditions {
        conditions.retain(|condition| condition.type_ != kind);
        if conditions.is_empty() {
            status.conditions = None;
        }
    }
}

/// Writes the status and, with it, the revision annotation (the status subresource lets annotations through).
pub(super) fn with_status(
    deployment: &Deployment,
    status: DeploymentStatus,
    revision: Option<&str>,
) -> Action {
    let mut deployment = Deployment { status: Some(status), ..deployment.clone() };
    if let Some(revision) = revision {
        deployment
            .metadata
            .annotations
            .get_or_insert_default()
            .insert(REVISION.to_owned(), revision.to_owned());
    }
    Action::update_status(&deployment)
}

fn some(number: i32) -> Option<i32> {
    Some(number).filter(|number| *number != 0)
}

/// The numbers, and `Available`.
fn compute_status(rollout: &Rollout<'_>) -> DeploymentStatus {
    let old = rollout.deployment.status.clone().unwrap_or_default();
    let sum = |number: &dyn Fn(&ReplicaSet) -> i32| rollout.all().map(number).sum::<i32>();
    let current = |set: &ReplicaSet| set.status.as_ref().map_or(0, |status| status.replicas);
    let ready = |set: &ReplicaSet| set.status.as_ref().and_then(|status| status.ready_replicas).unwrap_or(0);
    let available = sum(&available_of);
    let mut status = DeploymentStatus {
        observed_generation: rollout.deployment.metadata.generation,
        replicas: some(sum(&current)),
        updated_replicas: some(rollout.new.as_ref().map_or(0, current)),
        ready_replicas: some(sum(&ready)),
        available_replicas: some(available),
        unavailable_replicas: some((sum(&replicas_of) - available).max(0)),
        collision_count: old.collision_count,
        conditions: old.conditions,
        ..DeploymentStatus::default()
    };
    let enough = available >= rollout.replicas() - limits::max_unavailable(rollout.spec);
    let (value, reason, message) = if enough {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    set_condition(&mut status, new_condition("Available", value, reason, message.to_owned(), rollout.now));
    status
}

/// Whether the rollout is done: all replicas are of the new template and available.
pub(super) fn is_complete(rollout: &Rollout<'_>, status: &DeploymentStatus) -> bool {
    let wanted = Some(rollout.replicas()).filter(|number| *number != 0);
    let observed =
        status.observed_generation.unwrap_or(0) >= rollout.deployment.metadata.generation.unwrap_or(0);
    status.updated_replicas.filter(|n| *n != 0) == wanted
        && status.replicas.filter(|n| *n != 0) == wanted
        && status.available_replicas.filter(|n| *n != 0) == wanted
        && observed
}

/// Whether the new numbers are better than the old ones.
fn is_progressing(old: &DeploymentStatus, new: &DeploymentStatus) -> bool {
    let number = |value: Option<i32>| value.unwrap_or(0);
    let old_pods = |status: &DeploymentStatus| number(status.replicas) - number(status.updated_replicas);
    number(new.updated_replicas) > number(old.updated_replicas)
        || old_pods(new) < old_pods(old)
        || number(new.ready_replicas) > number(old.ready_replicas)
        || number(new.available_replicas) > number(old.available_replicas)
}

/// How long until the deadline passes; negative: it passed.
fn time_left(
    spec: &DeploymentSpec,
    progressing: &DeploymentCondition,
    now: Timestamp,
) -> Option<SignedDuration> {
    let from = progressing.last_update_time.as_ref()?.0;
    let deadline = SignedDuration::from_secs(spec.progress_deadline_seconds?.into());
    Some(deadline - now.duration_since(from))
}

fn has_timed_out(rollout: &Rollout<'_>, status: &DeploymentStatus) -> bool {
    let Some(progressing) = condition(status, "Progressing") else { return false };
    match progressing.reason.as_deref() {
        Some("NewReplicaSetAvailable") => false,
        Some("ProgressDeadlineExceeded") => true,
        _ => {
            time_left(rollout.spec, progressing, rollout.now).is_some_and(|left| left < SignedDuration::ZERO)
        }
    }
}

/// Status outside of a rollout: numbers and `Available` only.
pub(super) fn sync(rollout: &mut Rollout<'_>) {
    let status = compute_status(rollout);
    if Some(&status) != rollout.deployment.status.as_ref() {
        rollout.actions.push(with_status(rollout.deployment, status, None));
    }
}

// ANCHOR: sync-rollout-status
/// Status during a rollout, with its progress.
pub(super) fn sync_rollout(rollout: &mut Rollout<'_>) {
    let mut status = compute_status(rollout);
    let old = rollout.deployment.status.clone().unwrap_or_default();
    if !has_progress_deadline(rollout.spec) {
        remove_condition(&mut status, "Progressing");
    }
    let current = condition(&old, "Progressing").cloned();
    let was_complete = status.replicas == status.updated_replicas
        && current
            .as_ref()
            .is_some_and(|current| current.reason.as_deref() == Some("NewReplicaSetAvailable"));
    if has_progress_deadline(rollout.spec) && !was_complete {
        let subject = match &rollout.new {
            Some(set) => format!("ReplicaSet \"{}\"", set.object_name()),
            None => format!("Deployment \"{}\"", rollout.deployment.object_name()),
        };
        let told = |value: &str, reason: &str, text: &str| {
            new_condition("Progressing", value, reason, format!("{subject} {text}"), rollout.now)
        };
        if is_complete(rollout, &status) {
            set_condition(
                &mut status,
                told("True", "NewReplicaSetAvailable", "has successfully progressed."),
            );
        } else if is_progressing(&old, &status) {
            let mut progressing = told("True", "ReplicaSetUpdated", "is progressing.");
            if let Some(current) = current.filter(|current| current.status == "True") {
                progressing.last_transition_time = current.last_transition_time;
            }
            remove_condition(&mut status, "Progressing");
            set_condition(&mut status, progressing);
        } else if has_timed_out(rollout, &status) {
            set_condition(
                &mut status,
                told("False", "ProgressDeadlineExceeded", "has timed out progressing."),
            );
        }
    }
    carry_failure(rollout, &mut status);
    if status == old {
        rollout.actions.extend(requeue_stuck(rollout, &status));
    } else {
        rollout.actions.push(with_status(rollout.deployment, status, None));
    }
}
// ANCHOR_END: sync-rollout-status

/// A ReplicaSet's failure (of the new one before the others) becomes the Deployment's.
fn carry_failure(rollout: &Rollout<'_>, status: &mut DeploymentStatus) {
    let sets = rollout.new.iter().chain(&rollout.old);
    let mut conditions = sets.filter_map(|set| {
        set.status.as_ref()?.conditions.as_ref()?.iter().find(|condition| condition.type_ == "ReplicaFailure")
    });
    match conditions.next() {
        Some(failure) => set_condition(
            status,
            DeploymentCondition {
                type_: failure.type_.clone(),
                status: failure.status.clone(),
                reason: failure.reason.clone(),
                message: failure.message.clone(),
                last_update_time: failure.last_transition_time.clone(),
                last_transition_time: failure.last_transition_time.clone(),
            },
        ),
        None => remove_condition(status, "ReplicaFailure"),
    }
}

/// Nothing moves and the deadline has not passed: look again when it has.
fn requeue_stuck(rollout: &Rollout<'_>, status: &DeploymentStatus) -> Option<Action> {
    let current = condition(status, "Progressing").filter(|_| has_progress_deadline(rollout.spec))?;
    if is_complete(rollout, status) || current.reason.as_deref() == Some("ProgressDeadlineExceeded") {
        return None;
    }
    let left = time_left(rollout.spec, current, rollout.now)?;
    Some(Action::RequeueAfter(positive(left) + std::time::Duration::from_secs(1)))
}

/// `Progressing` says `DeploymentPaused` while paused, so that the deadline's clock stands still.
pub(super) fn pause_condition(rollout: &Rollout<'_>) -> Option<Action> {
    if !has_progress_deadline(rollout.spec) {
        return None;
    }
    let mut status = rollout.deployment.status.clone().unwrap_or_default();
    let reason = condition(&status, "Progressing").and_then(|condition| condition.reason.clone());
    if reason.as_deref() == Some("ProgressDeadlineExceeded") {
        return None;
    }
    let (paused, told) = (rollout.spec.paused == Some(true), reason.as_deref() == Some("DeploymentPaused"));
    let (reason, message) = match (paused, told) {
        (true, false) => ("DeploymentPaused", "Deployment is paused"),
        (false, true) => ("DeploymentResumed", "Deployment is resumed"),
        _ => return None,
    };
    set_condition(
        &mut status,
        new_condition("Progressing", "Unknown", reason, message.to_owned(), rollout.now),
    );
    Some(with_status(rollout.deployment, status, None))
}
