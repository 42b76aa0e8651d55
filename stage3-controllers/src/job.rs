//! Job controller: pods that run to an end, as many times as asked for.
//!
//! *Beside a pod's journey.* A Deployment wants its pods to run for ever; a Job wants them to finish.
//!
//! The difficult word is "count". A finished pod must be counted once, though pods may be deleted by anybody and the controller
//! may crash between any two writes. So each pod carries a finalizer that only this controller removes, and counting
//! takes three steps: write the pod's UID into `uncountedTerminatedPods`; remove the finalizer; move the UID from that list into the number.
//! Whatever step a crash falls on, the next look sees which step comes next ([`tracking`]).
//!
//! The end takes two steps, too: `SuccessCriteriaMet` or `FailureTarget` says how it will end, `Complete` or `Failed` comes when every pod is counted and gone.
//!
//! # Invariants
//! 1. Each pod is counted exactly once.
//! 2. `Complete` and `Failed` come after the last pod ended, and nothing is made after them.
//!
//! # In Kubernetes
//! `pkg/controller/job/job_controller.go`, `tracking_utils.go`, `indexed_job_utils.go`, `backoff_utils.go`. Left out: `podFailurePolicy`, `successPolicy`, `maxFailedIndexes`,
//! `managedBy`, `podReplacementPolicy: Failed`.

pub mod indexed;
pub mod pods;
pub mod tracking;

use std::sync::Arc;

use k8s_openapi::api::batch::v1::{Job, JobCondition, JobSpec, JobStatus};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};

use crate::action::{Action, EventText, reference_to};
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::owner::{CONTROLLER_INDEX, controller_index, controller_of};
use crate::pod::{PodExt, positive};

/// All that a decision about one Job depends on.
#[derive(Clone)]
pub struct World {
    /// The Job; `None`: it is gone, only pods that waited to be counted are left.
    pub job: Option<Arc<Job>>,
    /// The pods that it controls.
    pub pods: Vec<Arc<Pod>>,
    /// Pods of an earlier Job of this name that still wait to be counted.
    pub strays: Vec<Arc<Pod>>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copies that it reads.
pub struct JobController {
    jobs: Store<Job>,
    pods: Store<Pod>,
}

impl JobController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> Self {
        let pods = factory.store::<Pod>();
        pods.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        pods.add_index(tracking::HELD_INDEX, Arc::new(tracking::held_index));
        JobController { jobs: factory.store(), pods }
    }
}

impl Controller for JobController {
    const NAME: &'static str = "job-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Job>();
        wakes.on::<Pod>(|event| event.object().and_then(|pod| tracking::job_of(pod)).into_iter().collect());
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let job = self.jobs.get(key);
        let uid = job.as_ref().map(|job| job.uid().to_owned());
        let pods = uid.as_ref().map(|uid| self.pods.by_index(CONTROLLER_INDEX, uid)).unwrap_or_default();
        let mut strays = self.pods.by_index(tracking::HELD_INDEX, &key.to_string());
        strays
            .retain(|pod| uid.is_none() || controller_of(pod.meta()).map(|owner| &owner.uid) != uid.as_ref());
        (job.is_some() || !strays.is_empty()).then_some(World { job, pods, strays, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

/// The condition of this type, when it is true.
fn condition<'a>(status: &'a JobStatus, kind: &str) -> Option<&'a JobCondition> {
    status.conditions.as_ref()?.iter().find(|condition| condition.type_ == kind && condition.status == "True")
}

fn set_condition(
    status: &mut JobStatus,
    kind: &str,
    value: &str,
    reason: &str,
    message: &str,
    now: Timestamp,
) {
    let conditions = status.conditions.get_or_insert_default();
    conditions.retain(|condition| condition.type_ != kind);
    conditions.push(JobCondition {
        type_: kind.to_owned(),
        status: value.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_probe_time: Some(Time(now)),
        last_transition_time: Some(Time(now)),
    });
}

fn is_finished(status: &JobStatus) -> bool {
    condition(status, "Complete").is_some() || condition(status, "Failed").is_some()
}

fn is_indexed(spec: &JobSpec) -> bool {
    spec.completion_mode.as_deref() == Some("Indexed")
}

/// Decides what to do for one name: about its Job, and about what a Job that is gone left behind.
pub fn reconcile(world: &World) -> Vec<Action> {
    // Nobody will count the pods of a Job that is gone: they must not be held for ever.
    let mut actions: Vec<Action> = world.strays.iter().filter_map(|pod| tracking::release(pod)).collect();
    if let Some(job) = &world.job {
        actions.extend(reconcile_job(world, job));
    }
    actions
}

// ANCHOR: reconcile-job
/// Decides what to do for one Job.
fn reconcile_job(world: &World, job: &Job) -> Vec<Action> {
    let (Some(spec), old) = (&job.spec, job.status.clone().unwrap_or_default()) else { return Vec::new() };
    if is_finished(&old) || job.is_being_deleted() {
        // Nobody counts any more: the pods may go.
        return world.pods.iter().filter_map(|pod| tracking::release(pod)).collect();
    }
    let mut status = old.clone();
    let suspended = spec.suspend == Some(true);
    let mut events = suspend_or_resume(job, &mut status, suspended, world.now);
    if status.start_time.is_none() && !suspended {
        status.start_time = Some(Time(world.now));
    }
    let releases = tracking::count(&mut status, spec, &world.pods);
    let active: Vec<Arc<Pod>> = world.pods.iter().filter(|pod| pod.is_active()).cloned().collect();
    judge(&mut status, spec, &world.pods, active.len(), world.now);

    let ending =
        condition(&status, "FailureTarget").is_some() || condition(&status, "SuccessCriteriaMet").is_some();
    let manage = if suspended || ending {
        active.iter().map(|pod| pods::delete(job, pod)).collect()
    } else {
        pods::manage(world, job, &status, &active)
    };
    let (made, deleted) = (pods::creations(&manage), pods::deletions(&manage));
    numbers(&mut status, &world.pods, &active, made, deleted);
    if ending && tracking::is_settled(&status) && active.is_empty() && status.terminating == Some(0) {
        events.extend(finish(job, &mut status, world.now));
    }
    let mut actions = manage;
    if status != old {
        actions.push(Action::update_status(&Job { status: Some(status.clone()), ..job.clone() }));
    } else {
        // Only what the server has noted may lose its finalizer.
        actions.extend(releases);
    }
    actions.extend(events);
    actions.extend(deadline(spec, &status, world.now));
    actions
}
// ANCHOR_END: reconcile-job

/// Keeps the `Suspended` condition and the start time in step with `spec.suspend`.
fn suspend_or_resume(job: &Job, status: &mut JobStatus, suspended: bool, now: Timestamp) -> Vec<Action> {
    let told = |reason: &str, message: &str| vec![Action::record(job, EventText::normal(reason, message))];
    match (suspended, condition(status, "Suspended").is_some()) {
        (true, false) => {
            set_condition(status, "Suspended", "True", "JobSuspended", "Job suspended", now);
            told("Suspended", "Job suspended")
        }
        (false, true) => {
            set_condition(status, "Suspended", "False", "JobResumed", "Job resumed", now);
            status.start_time = Some(Time(now));
            told("Resumed", "Job resumed")
        }
        _ => Vec::new(),
    }
}

/// Says how the Job will end, once that is clear.
fn judge(status: &mut JobStatus, spec: &JobSpec, pods: &[Arc<Pod>], active: usize, now: Timestamp) {
    if condition(status, "FailureTarget").is_some() || condition(status, "SuccessCriteriaMet").is_some() {
        return;
    }
    let (succeeded, failed) = (tracking::succeeded(status, spec, pods), tracking::failed(status));
    let past = |seconds: i64| {
        status
            .start_time
            .as_ref()
            .is_some_and(|start| now.duration_since(start.0) >= SignedDuration::from_secs(seconds))
    };
    let per_index = is_indexed(spec) && spec.backoff_limit_per_index.is_some();
    let limit = spec.backoff_limit.unwrap_or(if per_index { i32::MAX } else { 6 });
    let failed_indexes = status.failed_indexes.as_deref().map_or(0, indexed::count);
    let completions = spec.completions.unwrap_or(i32::MAX);
    let failure = if failed > limit || tracking::restarts_exceed(spec, pods, limit) {
        Some(("BackoffLimitExceeded", "Job has reached the specified backoff limit"))
    } else if spec.suspend != Some(true) && spec.active_deadline_seconds.is_some_and(past) {
        Some(("DeadlineExceeded", "Job was active longer than specified deadline"))
    } else if failed_indexes > 0 && failed_indexes + succeeded >= completions {
        Some(("FailedIndexes", "Job has failed indexes"))
    } else {
        None
    };
    let complete = match spec.completions {
        Some(wanted) => succeeded >= wanted,
        None => succeeded > 0 && active == 0,
    };
    if let Some((reason, message)) = failure {
        set_condition(status, "FailureTarget", "True", reason, message, now);
    } else if complete {
        set_condition(
            status,
            "SuccessCriteriaMet",
            "True",
            "CompletionsReached",
            "Reached expected number of succeeded pods",
            now,
        );
    }
}

fn numbers(status: &mut JobStatus, pods: &[Arc<Pod>], active: &[Arc<Pod>], made: usize, deleted: usize) {
    let ready = active.iter().filter(|pod| pod.is_ready()).count();
    let terminating = pods.iter().filter(|pod| pod.is_being_deleted() && !pod.is_terminal()).count();
    let running = (active.len() + made).saturating_sub(deleted) as i32;
    status.active = Some(running).filter(|number| *number > 0);
    status.ready = Some(if deleted > 0 { 0 } else { ready as i32 });
    status.terminating = Some((terminating + deleted) as i32);
    status.uncounted_terminated_pods.get_or_insert_default();
}

/// The last step: the Job is over.
fn finish(job: &Job, status: &mut JobStatus, now: Timestamp) -> Vec<Action> {
    if let Some(target) = condition(status, "FailureTarget").cloned() {
        let (reason, message) = (target.reason.unwrap_or_default(), target.message.unwrap_or_default());
        set_condition(status, "Failed", "True", &reason, &message, now);
        return vec![Action::record(job, EventText::warning(reason, message))];
    }
    set_condition(
        status,
        "Complete",
        "True",
        "CompletionsReached",
        "Reached expected number of succeeded pods",
        now,
    );
    status.completion_time = Some(Time(now));
    vec![Action::record(job, EventText::normal("Completed", "Job completed"))]
}

/// Asks to be woken when the active deadline passes.
fn deadline(spec: &JobSpec, status: &JobStatus, now: Timestamp) -> Option<Action> {
    let (limit, start) = (spec.active_deadline_seconds?, status.start_time.as_ref()?);
    let left = SignedDuration::from_secs(limit) - now.duration_since(start.0);
    (left > SignedDuration::ZERO && !is_finished(status)).then(|| Action::RequeueAfter(positive(left)))
}

/// Words for what came of making a pod.
fn announce_creation(job: &Job, action: Action) -> Action {
    action.announcing(
        reference_to(job),
        Some(EventText::normal("SuccessfulCreate", "Created pod: {name}")),
        Some(EventText::warning("FailedCreate", "Error creating: {error}")),
    )
}

#[cfg(test)]
mod tests;
