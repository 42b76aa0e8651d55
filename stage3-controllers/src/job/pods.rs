//! Which pods a Job needs now.
//!
//! At most `parallelism` at a time, and never more than are still missing. After a failure the next pod waits: 10 s, 20 s, 40 s … up to ten minutes, counted from
//! the time when the last pod failed, so that a broken image does not fill the cluster with failed pods.
//!
//! # In Kubernetes
//! `pkg/controller/job/job_controller.go` (`manageJob`), `backoff_utils.go`.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::{EnvVar, EnvVarSource, ObjectFieldSelector, Pod};
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use super::{World, announce_creation, indexed, is_indexed, tracking};
use crate::action::{Action, EventText, reference_to};
use crate::indexer::Cached;
use crate::pod::{PodExt, positive};
use crate::pod_template::pod_from_template;

/// First wait after a failure.
const BACKOFF_SECONDS: i64 = 10;
/// Longest wait after failures.
const MAX_BACKOFF_SECONDS: i64 = 600;
/// Pods made in one decision.
const MAX_CREATIONS: usize = 500;

/// How many creations are among the actions.
pub(super) fn creations(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Create { .. })).count()
}

/// How many deletions are among the actions.
pub(super) fn deletions(actions: &[Action]) -> usize {
    actions.iter().filter(|action| matches!(action, Action::Delete { .. })).count()
}

/// Deletes a pod of the Job.
pub(super) fn delete(job: &Job, pod: &Pod) -> Action {
    let told = EventText::normal("SuccessfulDelete", format!("Deleted pod: {}", pod.object_name()));
    Action::delete(pod, format!("Job {} does not need it", job.object_name())).announcing(
        reference_to(job),
        Some(told),
        None,
    )
}

/// Makes the pods that are missing, or deletes those that are too many.
pub(super) fn manage(world: &World, job: &Job, status: &JobStatus, active: &[Arc<Pod>]) -> Vec<Action> {
    let Some(spec) = &job.spec else { return Vec::new() };
    let succeeded = tracking::succeeded(status, spec, &world.pods);
    let parallelism = spec.parallelism.unwrap_or(1).max(0);
    let wanted = match spec.completions {
        Some(completions) => parallelism.min((completions - succeeded).max(0)),
        None if succeeded > 0 => active.len() as i32,
        None => parallelism,
    };
    let wanted = wanted.max(0) as usize;
    if active.len() > wanted {
        let ranked = crate::replica_set::scale_down::rank(active, &Default::default(), world.now);
        return ranked[..active.len() - wanted].iter().map(|pod| delete(job, pod)).collect();
    }
    let missing = (wanted - active.len()).min(MAX_CREATIONS);
    if missing == 0 {
        return Vec::new();
    }
    let wait = backoff(&world.pods, world.now);
    if wait > SignedDuration::ZERO {
        return vec![Action::RequeueAfter(positive(wait))];
    }
    let pods: Vec<Pod> = if is_indexed(spec) {
        free_indexes(spec, status, active)
            .into_iter()
            .take(missing)
            .map(|index| indexed_pod(job, spec, index, &world.pods))
            .collect()
    } else {
        (0..missing).map(|_| plain_pod(job, spec)).collect()
    };
    let why = format!("Job {} has {} of {wanted} pods", job.object_name(), active.len());
    pods.iter().map(|pod| announce_creation(job, Action::create(pod, why.clone()))).collect()
}

fn plain_pod(job: &Job, spec: &JobSpec) -> Pod {
    let mut pod = pod_from_template(&spec.template, job);
    pod.metadata.finalizers.get_or_insert_default().push(tracking::FINALIZER.to_owned());
    pod
}

/// Indexes that are neither done, failed for good, nor at work; lowest first.
fn free_indexes(spec: &JobSpec, status: &JobStatus, active: &[Arc<Pod>]) -> Vec<i32> {
    let mut taken: BTreeSet<i32> = active.iter().filter_map(|pod| indexed::index_of(pod)).collect();
    taken.extend(status.completed_indexes.as_deref().map(indexed::parse).unwrap_or_default());
    taken.extend(status.failed_indexes.as_deref().map(indexed::parse).unwrap_or_default());
    (0..spec.completions.unwrap_or(0)).filter(|index| !taken.contains(index)).collect()
}

fn indexed_pod(job: &Job, spec: &JobSpec, index: i32, pods: &[Arc<Pod>]) -> Pod {
    let mut pod = plain_pod(job, spec);
    let meta = &mut pod.metadata;
    meta.generate_name = Some(format!("{}-{index}-", job.object_name()));
    meta.labels.get_or_insert_default().insert(indexed::COMPLETION_INDEX.to_owned(), index.to_string());
    let annotations = meta.annotations.get_or_insert_default();
    annotations.insert(indexed::COMPLETION_INDEX.to_owned(), index.to_string());
    if spec.backoff_limit_per_index.is_some() {
        let failed = pods
            .iter()
            .filter(|pod| pod.phase() == "Failed" && indexed::index_of(pod) == Some(index))
            .count();
        annotations.insert(indexed::FAILURE_COUNT.to_owned(), failed.to_string());
    }
    if let Some(spec) = &mut pod.spec {
        spec.hostname = Some(format!("{}-{index}", job.object_name()));
        let path = format!("metadata.labels['{}']", indexed::COMPLETION_INDEX);
        let field = ObjectFieldSelector { field_path: path, api_version: None };
        let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
        let variable =
            EnvVar { name: "JOB_COMPLETION_INDEX".to_owned(), value: None, value_from: Some(source) };
        for container in spec.containers.iter_mut().chain(spec.init_containers.iter_mut().flatten()) {
            let env = container.env.get_or_insert_default();
            if !env.iter().any(|other| other.name == variable.name) {
                env.push(variable.clone());
            }
        }
    }
    pod
}

/// How long the next pod must wait because of earlier failures.
fn backoff(pods: &[Arc<Pod>], now: Timestamp) -> SignedDuration {
    let finished = |pod: &Arc<Pod>| {
        let statuses = pod.status.as_ref()?.container_statuses.as_ref()?;
        let ends = statuses.iter().filter_map(|status| {
            status.state.as_ref()?.terminated.as_ref()?.finished_at.as_ref().map(|time| time.0)
        });
        ends.max().or(pod.created().map(|time| time.0))
    };
    let last_success = pods.iter().filter(|pod| pod.phase() == "Succeeded").filter_map(finished).max();
    let failures: Vec<Timestamp> = pods
        .iter()
        .filter(|pod| pod.phase() == "Failed")
        .filter_map(finished)
        .filter(|time| last_success.is_none_or(|success| *time > success))
        .collect();
    let Some(last) = failures.iter().max() else { return SignedDuration::ZERO };
    let doubled = BACKOFF_SECONDS.saturating_mul(1_i64 << (failures.len() - 1).min(20));
    SignedDuration::from_secs(doubled.min(MAX_BACKOFF_SECONDS)) - now.duration_since(*last)
}
