//! CronJob controller: Jobs by the clock.
//!
//! *Beside a pod's journey.* At each minute that the schedule names, a Job is made; the Job's name holds that minute, so that making it twice is impossible.
//!
//! The subtle thing is what was missed while nobody ran: of all missed times only the last one is made up for, and only when it is not older than
//! `startingDeadlineSeconds`. More than 100 missed times are reported, because they hint at a wrong clock.
//!
//! # Invariants
//! 1. A scheduled time makes at most one Job.
//! 2. With `concurrencyPolicy: Forbid` no Job is made while one runs.
//!
//! # In Kubernetes
//! `pkg/controller/cronjob/cronjob_controllerv2.go`, `utils.go`; the schedule's grammar is `robfig/cron`'s. Left out: time zones other than UTC when
//! the system knows none, `@every`.

pub mod schedule;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::batch::v1::{CronJob, CronJobStatus, Job};
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::{SignedDuration, Timestamp, tz::TimeZone};

use crate::action::{Action, EventText, Propagation, reference_to};
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::owner::{CONTROLLER_INDEX, controller_index, controller_of, controller_reference};
use crate::pod::positive;
use schedule::Schedule;

/// Annotation of a Job: the time that it was scheduled for.
pub const SCHEDULED_TIMESTAMP: &str = "batch.kubernetes.io/cronjob-scheduled-timestamp";
/// Missed times from which a warning is given.
const MANY_MISSED: usize = 100;

/// All that a decision about one CronJob depends on.
#[derive(Clone)]
pub struct World {
    /// The CronJob.
    pub cron_job: Arc<CronJob>,
    /// The Jobs that it made.
    pub jobs: Vec<Arc<Job>>,
    /// Now.
    pub now: Timestamp,
}

/// The controller with the copies that it reads.
pub struct CronJobController {
    cron_jobs: Store<CronJob>,
    jobs: Store<Job>,
}

impl CronJobController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> Self {
        let jobs = factory.store::<Job>();
        jobs.add_index(CONTROLLER_INDEX, Arc::new(controller_index));
        CronJobController { cron_jobs: factory.store(), jobs }
    }
}

impl Controller for CronJobController {
    const NAME: &'static str = "cronjob-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<CronJob>();
        wakes.on::<Job>(|event| {
            let job = event.object();
            let owner = job.and_then(|job| {
                Some((job, controller_of(job.meta()).filter(|owner| owner.kind == "CronJob")?))
            });
            owner
                .map(|(job, owner)| NamespacedName::new(job.object_namespace(), &owner.name))
                .into_iter()
                .collect()
        });
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<World> {
        let cron_job = self.cron_jobs.get(key)?;
        let jobs = self.jobs.by_index(CONTROLLER_INDEX, cron_job.uid());
        Some(World { cron_job, jobs, now })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

fn ended(job: &Job) -> Option<&'static str> {
    let conditions = job.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is = |kind: &str| {
        conditions
            .into_iter()
            .flatten()
            .any(|condition| condition.type_ == kind && condition.status == "True")
    };
    if is("Complete") { Some("Complete") } else { is("Failed").then_some("Failed") }
}

fn job_reference(job: &Job) -> ObjectReference {
    reference_to(job)
}

/// Decides what to do for one CronJob.
pub fn reconcile(world: &World) -> Vec<Action> {
    let cron_job = world.cron_job.as_ref();
    let (Some(spec), old) = (&cron_job.spec, cron_job.status.clone().unwrap_or_default()) else {
        return Vec::new();
    };
    let mut status = old.clone();
    let mut actions = follow_jobs(world, &mut status);
    actions.extend(clean_up(world));
    let after = if cron_job.is_being_deleted() || spec.suspend == Some(true) {
        Vec::new()
    } else {
        start_next(world, &mut status)
    };
    actions.extend(after);
    if status != old {
        actions.push(Action::update_status(&CronJob { status: Some(status), ..cron_job.clone() }));
    }
    actions
}

/// Keeps the list of active Jobs and the time of the last success.
fn follow_jobs(world: &World, status: &mut CronJobStatus) -> Vec<Action> {
    let cron_job = world.cron_job.as_ref();
    let mut actions = Vec::new();
    let mut active = status.active.take().unwrap_or_default();
    for job in &world.jobs {
        let listed = active.iter().any(|reference| reference.uid.as_deref() == Some(job.uid()));
        match ended(job) {
            Some(how) if listed => {
                active.retain(|reference| reference.uid.as_deref() != Some(job.uid()));
                let text = format!("Saw completed job: {}, condition: {how}", job.object_name());
                actions.push(Action::record(cron_job, EventText::normal("SawCompletedJob", text)));
            }
            None if !listed && !job.is_being_deleted() => active.push(job_reference(job)),
            _ => {}
        }
        let finished = job
            .status
            .as_ref()
            .and_then(|status| status.completion_time.clone())
            .filter(|_| ended(job) == Some("Complete"));
        if finished.as_ref().map(|time| time.0) > status.last_successful_time.as_ref().map(|time| time.0) {
            status.last_successful_time = finished;
        }
    }
    active.retain(|reference| world.jobs.iter().any(|job| Some(job.uid()) == reference.uid.as_deref()));
    status.active = Some(active).filter(|active| !active.is_empty());
    actions
}

/// Deletes finished Jobs beyond the history limits, oldest first.
fn clean_up(world: &World) -> Vec<Action> {
    let cron_job = world.cron_job.as_ref();
    let Some(spec) = &cron_job.spec else { return Vec::new() };
    let mut actions = Vec::new();
    for (how, limit) in [
        ("Complete", spec.successful_jobs_history_limit.unwrap_or(3)),
        ("Failed", spec.failed_jobs_history_limit.unwrap_or(1)),
    ] {
        let mut jobs: Vec<&Arc<Job>> =
            world.jobs.iter().filter(|job| ended(job) == Some(how) && !job.is_being_deleted()).collect();
        jobs.sort_by_key(|job| {
            (
                job.status.as_ref().and_then(|status| status.start_time.as_ref().map(|time| time.0)),
                job.object_name().to_owned(),
            )
        });
        let surplus = jobs.len().saturating_sub(limit.max(0) as usize);
        for job in &jobs[..surplus] {
            let told = EventText::normal("SuccessfulDelete", format!("Deleted job {}", job.object_name()));
            let action = Action::delete(job.as_ref(), "the history is limited")
                .with_propagation(Propagation::Background);
            actions.push(action.announcing(reference_to(cron_job), Some(told), None));
        }
    }
    actions
}

/// Makes the Job of the last scheduled time that was missed, if any, and asks to be woken at the next.
fn start_next(world: &World, status: &mut CronJobStatus) -> Vec<Action> {
    let cron_job = world.cron_job.as_ref();
    let Some(spec) = &cron_job.spec else { return Vec::new() };
    let zone = spec.time_zone.as_deref().and_then(|name| TimeZone::get(name).ok()).unwrap_or(TimeZone::UTC);
    let schedule = match Schedule::parse(&spec.schedule) {
        Ok(schedule) => schedule,
        Err(error) => {
            let text = format!("unparseable schedule: \"{}\" : {error}", spec.schedule);
            return vec![Action::record(cron_job, EventText::warning("UnparseableSchedule", text))];
        }
    };
    let now = world.now;
    let mut since = status.last_schedule_time.as_ref().or(cron_job.created()).map_or(now, |time| time.0);
    if let Some(deadline) = spec.starting_deadline_seconds {
        since = since.max(now - SignedDuration::from_secs(deadline));
    }
    let mut missed = schedule.times(since, &zone).take_while(|time| *time <= now);
    let (count, last) = missed.by_ref().fold((0_usize, None), |(count, _), time| (count + 1, Some(time)));
    let mut actions: Vec<Action> = schedule
        .times(now, &zone)
        .next()
        .map(|next| {
            Action::RequeueAfter(positive(next.duration_since(now)) + std::time::Duration::from_millis(100))
        })
        .into_iter()
        .collect();
    if count > MANY_MISSED {
        let text = format!(
            "too many missed start times: {count}. Set or decrease .spec.startingDeadlineSeconds or check clock skew"
        );
        actions.push(Action::record(cron_job, EventText::warning("TooManyMissedTimes", text)));
    }
    let Some(time) = last else { return actions };
    let running = status.active.as_ref().is_some_and(|active| !active.is_empty());
    match spec.concurrency_policy.as_deref() {
        Some("Forbid") if running => {
            let text = "Not starting job because prior execution is running and concurrency policy is Forbid";
            actions.push(Action::record(cron_job, EventText::normal("JobAlreadyActive", text)));
            return actions;
        }
        Some("Replace") => {
            let active = world.jobs.iter().filter(|job| ended(job).is_none() && !job.is_being_deleted());
            actions.extend(active.map(|job| {
                Action::delete(job.as_ref(), "a newer one replaces it")
                    .with_propagation(Propagation::Background)
            }));
        }
        _ => {}
    }
    let job = job_for(cron_job, time);
    if !world.jobs.iter().any(|existing| existing.object_name() == job.object_name()) {
        let told = EventText::normal("SuccessfulCreate", "Created job {name}");
        let failed = EventText::warning("FailedCreate", "Error creating job: {error}");
        actions.push(Action::create(&job, format!("it is scheduled for {time}")).announcing(
            reference_to(cron_job),
            Some(told),
            Some(failed),
        ));
    }
    status.last_schedule_time = Some(Time(time));
    actions
}

fn job_for(cron_job: &CronJob, time: Timestamp) -> Job {
    let template = cron_job.spec.as_ref().map(|spec| spec.job_template.clone()).unwrap_or_default();
    let meta = template.metadata.unwrap_or_default();
    let mut annotations: BTreeMap<String, String> = meta.annotations.unwrap_or_default();
    annotations.insert(SCHEDULED_TIMESTAMP.to_owned(), time.to_string());
    Job {
        metadata: ObjectMeta {
            name: Some(format!("{}-{}", cron_job.object_name(), time.as_second() / 60)),
            namespace: cron_job.metadata.namespace.clone(),
            labels: meta.labels,
            annotations: Some(annotations),
            owner_references: Some(vec![controller_reference(cron_job)]),
            ..ObjectMeta::default()
        },
        spec: template.spec,
        status: None,
    }
}

#[cfg(test)]
mod tests;
