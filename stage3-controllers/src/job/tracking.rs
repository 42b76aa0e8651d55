//! Counting finished pods, each exactly once.
//!
//! A finished pod goes through three states: *new* (it has the finalizer, the status does not name it), *noted* (the status
//! names its UID), *counted* (the finalizer is gone, and the UID has become part of a number). Succeeded pods of an Indexed Job need no UID: their index is noted in `completedIndexes`.
//!
//! # In Kubernetes
//! `pkg/controller/job/job_controller.go` (`trackJobStatusAndRemoveFinalizers`, `flushUncountedAndRemoveFinalizers`).

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{indexed, is_indexed};
use crate::action::Action;
use crate::indexer::{Cached, NamespacedName};
use crate::owner::controller_of;
use crate::pod::PodExt;

/// The finalizer that holds a pod until it is counted.
pub const FINALIZER: &str = "batch.kubernetes.io/job-tracking";
/// UIDs noted in one status at most: the status must not grow without bound.
const MAX_UNCOUNTED: usize = 500;

/// Whether the pod still waits to be counted.
pub fn is_held(pod: &Pod) -> bool {
    pod.metadata.finalizers.iter().flatten().any(|finalizer| finalizer == FINALIZER)
}

/// Name of the index by [`held_index`].
pub const HELD_INDEX: &str = "job-tracking";

/// The Job that a pod belongs to: by its controller, or (nobody controls it, but it is held) by its label.
pub fn job_of(pod: &Pod) -> Option<NamespacedName> {
    let name = match controller_of(pod.meta()) {
        Some(owner) => Some(owner.name.as_str()).filter(|_| owner.kind == "Job"),
        None => pod.label("batch.kubernetes.io/job-name").filter(|_| is_held(pod)),
    };
    Some(NamespacedName::new(pod.object_namespace(), name?))
}

/// Values of [`HELD_INDEX`]: the Job by name, since its UID is not known any more once it is gone.
pub fn held_index(pod: &Pod) -> Vec<String> {
    job_of(pod).filter(|_| is_held(pod)).map(|key| key.to_string()).into_iter().collect()
}

/// Removes the finalizer.
pub fn release(pod: &Pod) -> Option<Action> {
    if !is_held(pod) {
        return None;
    }
    let rest: Vec<&String> =
        pod.metadata.finalizers.iter().flatten().filter(|finalizer| *finalizer != FINALIZER).collect();
    let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": pod.metadata.resource_version}});
    Some(Action::patch(pod, patch, ""))
}

// ANCHOR: job-tracking
/// Moves every finished pod one state on in the status; returns the finalizers to remove when the status did not change.
pub fn count(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>]) -> Vec<Action> {
    let mut uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    let held = |uid: &String| pods.iter().any(|pod| pod.uid() == uid && is_held(pod));
    let settle = |list: &mut Option<Vec<String>>, number: &mut Option<i32>| {
        let (waiting, done): (Vec<String>, Vec<String>) =
            list.take().unwrap_or_default().into_iter().partition(held);
        *list = Some(waiting).filter(|list| !list.is_empty());
        if !done.is_empty() {
            *number = Some(number.unwrap_or(0) + done.len() as i32);
        }
    };
    settle(&mut uncounted.succeeded, &mut status.succeeded);
    settle(&mut uncounted.failed, &mut status.failed);

    let mut releases = Vec::new();
    let mut completed = status.completed_indexes.as_deref().map(indexed::parse).unwrap_or_default();
    let mut failed_indexes = status.failed_indexes.as_deref().map(indexed::parse).unwrap_or_default();
    for pod in pods.iter().filter(|pod| is_held(pod)) {
        let ended = pod.is_terminal();
        let succeeded = pod.phase() == "Succeeded";
        if !ended && !pod.is_being_deleted() {
            continue;
        }
        releases.extend(release(pod));
        // A running pod that is deleted (scaled down, suspended) is no failure of the Job: it is let go uncounted.
        if !ended {
            continue;
        }
        if succeeded && is_indexed(spec) {
            completed.extend(indexed::index_of(pod));
            continue;
        }
        if let (Some(limit), Some(index), false) =
            (spec.backoff_limit_per_index, indexed::index_of(pod), succeeded)
        {
            let before: i32 =
                pod.annotation(indexed::FAILURE_COUNT).and_then(|text| text.parse().ok()).unwrap_or(0);
            if before >= limit {
                failed_indexes.insert(index);
            }
        }
        let list = if succeeded { &mut uncounted.succeeded } else { &mut uncounted.failed };
        let list = list.get_or_insert_default();
        if !list.iter().any(|uid| uid == pod.uid()) && list.len() < MAX_UNCOUNTED {
            list.push(pod.uid().to_owned());
        }
    }
    if uncounted.failed.as_ref().is_some_and(Vec::is_empty) {
        uncounted.failed = None;
    }
    if is_indexed(spec) {
        status.succeeded = Some(completed.len() as i32).filter(|number| *number > 0);
        status.completed_indexes = Some(indexed::format(&completed)).filter(|text| !text.is_empty());
        status.failed_indexes = spec.backoff_limit_per_index.map(|_| indexed::format(&failed_indexes));
    }
    status.uncounted_terminated_pods = Some(uncounted);
    releases
}
// ANCHOR_END: job-tracking

/// Whether no UID waits to become a number.
pub fn is_settled(status: &JobStatus) -> bool {
    let uncounted = status.uncounted_terminated_pods.clone().unwrap_or_default();
    uncounted.succeeded.is_none_or(|list| list.is_empty())
        && uncounted.failed.is_none_or(|list| list.is_empty())
}

/// Successes, noted ones included.
pub fn succeeded(status: &JobStatus, spec: &JobSpec, _pods: &[Arc<Pod>]) -> i32 {
    let noted = status
        .uncounted_terminated_pods
        .as_ref()
        .and_then(|uncounted| uncounted.succeeded.as_ref())
        .map_or(0, Vec::len) as i32;
    status.succeeded.unwrap_or(0) + if is_indexed(spec) { 0 } else { noted }
}

/// Failures, noted ones included.
pub fn failed(status: &JobStatus) -> i32 {
    let noted = status
        .uncounted_terminated_pods
        .as_ref()
        .and_then(|uncounted| uncounted.failed.as_ref())
        .map_or(0, Vec::len) as i32;
    status.failed.unwrap_or(0) + noted
}

/// With `restartPolicy: OnFailure` the kubelet restarts containers: their restarts count as retries, init containers' included.
pub fn restarts_exceed(spec: &JobSpec, pods: &[Arc<Pod>], limit: i32) -> bool {
    let on_failure =
        spec.template.spec.as_ref().and_then(|spec| spec.restart_policy.as_deref()) == Some("OnFailure");
    if !on_failure {
        return false;
    }
    let restarts = |pod: &Arc<Pod>| {
        let statuses = pod.status.iter().flat_map(|status| {
            status.container_statuses.iter().flatten().chain(status.init_container_statuses.iter().flatten())
        });
        statuses.map(|status| status.restart_count).sum::<i32>()
    };
    let total: i32 =
        pods.iter().filter(|pod| matches!(pod.phase(), "Running" | "Pending")).map(restarts).sum();
    if limit == 0 { total > 0 } else { total >= limit }
}
