//! Deletion: now, later, or when the finalizers agree.
//!
//! *Step 2 of a pod's journey.* Before: somebody deleted the object. After: it is gone, or it carries a deletionTimestamp and
//! everybody who must clean up sees it.
//!
//! A Pod is not deleted by the API server alone: it is marked with the moment by which it must be gone, the kubelet stops its
//! containers and deletes it again with a grace period of 0. A second request may only shorten the time. Other kinds go at
//! once, unless finalizers hold them; `orphan` and `foregroundDeletion` are finalizers too, put there by the
//! request's propagationPolicy for the garbage collector.
//!
//! # Invariants
//! 1. A deletionTimestamp is never taken back or moved later.
//! 2. An object with finalizers is marked, never removed.
//!
//! # In Kubernetes
//! `BeforeDelete` in `apiserver/pkg/registry/rest/delete.go`; `deletionFinalizersForGarbageCollection` and `markAsDeleting` in
//! `registry/generic/registry/store.go`; `CheckGracefulDelete` in `pkg/registry/core/pod/strategy.go`.

use jiff::{SignedDuration, Timestamp, Unit};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

/// The finalizer that asks the garbage collector to let dependents live.
pub const FINALIZER_ORPHAN: &str = "orphan";
/// The finalizer that asks the garbage collector to delete dependents first.
pub const FINALIZER_FOREGROUND: &str = "foregroundDeletion";

/// What is to happen to dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They lose their owner and live on.
    Orphan,
    /// They are deleted later.
    Background,
    /// They are deleted first.
    Foreground,
}

/// DeleteOptions, and the time.
#[derive(Debug, Clone)]
pub struct DeleteRequest {
    /// `gracePeriodSeconds`.
    pub grace_period_seconds: Option<i64>,
    /// `propagationPolicy`, or the older `orphanDependents`.
    pub propagation: Option<Propagation>,
    /// `preconditions.uid`.
    pub uid: Option<String>,
    /// `preconditions.resourceVersion`.
    pub resource_version: Option<String>,
    /// Nothing is written.
    pub dry_run: bool,
    /// The time of the request.
    pub now: Timestamp,
}

impl DeleteRequest {
    /// A deletion without options.
    pub fn at(now: Timestamp) -> Self {
        DeleteRequest {
            grace_period_seconds: None,
            propagation: None,
            uid: None,
            resource_version: None,
            dry_run: false,
            now,
        }
    }
}

/// What the kind says about its deletion.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct DeletionPolicy {
    /// Whether objects are given time to stop (only Pods are).
    pub graceful: bool,
    /// Whether dependents are orphaned when the request doesn't say (Jobs, ReplicationControllers).
    pub orphan_by_default: bool,
}

/// What to write.
#[derive(Debug, Clone, PartialEq)]
pub enum DeletePlan {
    /// Remove it; its last state, as the client gets it.
    Remove(Object),
    /// Store this instead.
    Mark(Object),
    /// Nothing: it is on its way already.
    Wait,
}

// ANCHOR: delete-plan
/// Decides what deleting an object means.
///
/// # Errors
/// 409 when a precondition isn't met.
pub fn plan(
    object: &Object,
    request: &DeleteRequest,
    policy: &DeletionPolicy,
    group_resource: &str,
) -> Result<DeletePlan, Status> {
    check_preconditions(object, request, group_resource)?;
    let mut marked = object.clone();
    let finalizers = finalizers(object, request, policy);
    marked.set_finalizers(&finalizers.iter().map(String::as_str).collect::<Vec<_>>());
    let held = !finalizers.is_empty();
    let grace = match policy.graceful {
        true => match graceful(object, request) {
            Graceful::Pending => return Ok(DeletePlan::Wait),
            Graceful::Now => None,
            Graceful::Within(seconds) => Some(seconds),
        },
        false => None,
    };
    match grace {
        Some(seconds) => mark(&mut marked, request.now, seconds),
        None if held => mark_now(&mut marked, request.now),
        None => {}
    }
    let wait = held || grace.is_some_and(|seconds| seconds > 0);
    match wait {
        true if marked == *object => Ok(DeletePlan::Wait),
        true => Ok(DeletePlan::Mark(marked)),
        false => Ok(DeletePlan::Remove(marked)),
    }
}
// ANCHOR_END: delete-plan

/// Whether an update leaves nothing to wait for: the object was being deleted, and its last finalizer is gone.
pub fn is_over(current: &Object, changed: &Object) -> bool {
    let deleting = current.get("/metadata/deletionTimestamp").is_some_and(|t| !t.is_null());
    let grace = changed.get_i64("/metadata/deletionGracePeriodSeconds").unwrap_or_default();
    // A namespace has finalizers in its spec too: it waits until its contents are gone.
    let full = changed.get("/spec/finalizers").and_then(|f| f.as_array()).is_some_and(|f| !f.is_empty());
    deleting && changed.finalizers().is_empty() && !full && grace == 0
}

/// The object must be the one that the client means; `subject` is how the refusal calls it.
///
/// # Errors
/// 409 naming both.
pub fn check_preconditions(object: &Object, request: &DeleteRequest, subject: &str) -> Result<(), Status> {
    let conflict = |why: String| Err(Status::conflict(subject, object.name(), &why));
    match &request.uid {
        Some(uid) if uid != object.uid() => {
            return conflict(format!(
                "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
                object.uid()
            ));
        }
        _ => {}
    }
    match &request.resource_version {
        Some(version) if version != object.resource_version() => conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            object.resource_version()
        )),
        _ => Ok(()),
    }
}

enum Graceful {
    /// No time needed, or it is over.
    Now,
    /// It has been given its time already.
    Pending,
    /// It gets so many seconds.
    Within(i64),
}

fn graceful(object: &Object, request: &DeleteRequest) -> Graceful {
    let given = object.get_i64("/metadata/deletionGracePeriodSeconds");
    if object.deletion_timestamp().is_some() {
        return match (given, request.grace_period_seconds) {
            (None, _) => Graceful::Now,
            (Some(given), Some(asked)) if asked < given => Graceful::Within(asked.max(0)),
            (Some(0), _) => Graceful::Now,
            (Some(_), _) => Graceful::Pending,
        };
    }
    let own = || object.get_i64("/spec/terminationGracePeriodSeconds").unwrap_or_default();
    let seconds = request.grace_period_seconds.unwrap_or_else(own);
    let unscheduled = object.get_str("/spec/nodeName").unwrap_or_default().is_empty();
    let ended = matches!(object.get_str("/status/phase"), Some("Succeeded" | "Failed"));
    match seconds {
        _ if unscheduled || ended => Graceful::Within(0),
        negative if negative < 0 => Graceful::Within(1),
        seconds => Graceful::Within(seconds),
    }
}

fn mark(object: &mut Object, now: Timestamp, seconds: i64) {
    let given = object.get_i64("/metadata/deletionGracePeriodSeconds").unwrap_or_default();
    let by = match object.deletion_timestamp() {
        // The clock started with the first request.
        Some(by) => by - SignedDuration::from_secs(given) + SignedDuration::from_secs(seconds),
        None => {
            bump_generation(object);
            now + SignedDuration::from_secs(seconds)
        }
    };
    set_deletion(object, by, seconds);
}

fn mark_now(object: &mut Object, now: Timestamp) {
    let by = match object.deletion_timestamp() {
        Some(by) => by.min(now),
        None => {
            bump_generation(object);
            now
        }
    };
    set_deletion(object, by, 0);
}

fn set_deletion(object: &mut Object, by: Timestamp, seconds: i64) {
    let by = by.round(Unit::Second).unwrap_or(by);
    object.set("/metadata/deletionTimestamp", by.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    object.set("/metadata/deletionGracePeriodSeconds", seconds);
}

fn bump_generation(object: &mut Object) {
    if object.generation() > 0 {
        object.set_generation(object.generation() + 1);
    }
}

/// The finalizers after the request: the garbage collector's two follow its propagation policy, the others stay.
fn finalizers(object: &Object, request: &DeleteRequest, policy: &DeletionPolicy) -> Vec<String> {
    let has = |name: &str| object.finalizers().contains(&name);
    let orphan = match request.propagation {
        Some(asked) => asked == Propagation::Orphan,
        None => has(FINALIZER_ORPHAN) || (policy.orphan_by_default && !has(FINALIZER_FOREGROUND)),
    };
    let foreground = match request.propagation {
        Some(asked) => asked == Propagation::Foreground,
        None => has(FINALIZER_FOREGROUND),
    };
    let managed = [FINALIZER_ORPHAN, FINALIZER_FOREGROUND];
    let others = object.finalizers().into_iter().filter(|f| !managed.contains(f)).map(str::to_owned);
    let mut after: Vec<String> = others.collect();
    after.extend(orphan.then(|| FINALIZER_ORPHAN.to_owned()));
    after.extend(foreground.then(|| FINALIZER_FOREGROUND.to_owned()));
    after
}

#[cfg(test)]
mod tests;
