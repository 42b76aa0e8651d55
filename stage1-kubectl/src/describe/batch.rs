//! The pages of Job, CronJob and PodDisruptionBudget.
//!
//! # In Kubernetes
//! `describeJob`, `describeCronJob` and `describePodDisruptionBudget` in
//! `kubectl/pkg/describe/describe.go`.

use jiff::Timestamp;
use serde_json::Value;

use super::access::{flag, list, number, or_none, scalar, selector_text, text, title_bool};
use super::doc::Doc;
use super::pod::controlled_by;
use super::pod_template;
use crate::time::human_duration;

/// A number, or `<unset>`.
fn or_unset(value: &Value, pointer: &str) -> String {
    value.pointer(pointer).map_or_else(|| "<unset>".to_owned(), |found| scalar(Some(found)))
}

/// A Job's page without its events.
pub fn write_job(doc: &mut Doc, job: &Value) {
    doc.head(job);
    if job.pointer("/spec/selector").is_some() {
        doc.field(0, "Selector", &selector_text(job.pointer("/spec/selector")));
    }
    doc.labels_and_annotations(job);
    if let Some(owner) = controlled_by(job) {
        doc.field(0, "Controlled By", &owner);
    }
    doc.field(0, "Parallelism", &or_unset(job, "/spec/parallelism"));
    doc.field(0, "Completions", &or_unset(job, "/spec/completions"));
    let optional = [
        ("Completion Mode", "/spec/completionMode"),
        ("Suspend", "/spec/suspend"),
        ("Backoff Limit", "/spec/backoffLimit"),
        ("TTL Seconds After Finished", "/spec/ttlSecondsAfterFinished"),
    ];
    for (title, pointer) in optional {
        if let Some(value) = job.pointer(pointer) {
            doc.field(0, title, &scalar(Some(value)));
        }
    }
    let (start, end) = (text(job, "/status/startTime"), text(job, "/status/completionTime"));
    for (title, time) in [("Start Time", start), ("Completed At", end)] {
        if !time.is_empty() {
            doc.field(0, title, &super::doc::rfc1123z(time));
        }
    }
    if let (Ok(start), Ok(end)) = (start.parse::<Timestamp>(), end.parse::<Timestamp>()) {
        doc.field(0, "Duration", &human_duration(end.duration_since(start)));
    }
    if job.pointer("/spec/activeDeadlineSeconds").is_some() {
        doc.field(0, "Active Deadline Seconds", &format!("{}s", number(job, "/spec/activeDeadlineSeconds")));
    }
    let count = |name: &str| number(job, &format!("/status/{name}"));
    let ready = job
        .pointer("/status/ready")
        .map_or_else(String::new, |ready| format!(" ({} Ready)", scalar(Some(ready))));
    let (active, succeeded, failed) = (count("active"), count("succeeded"), count("failed"));
    doc.field(
        0,
        "Pods Statuses",
        &format!("{active} Active{ready} / {succeeded} Succeeded / {failed} Failed"),
    );
    if text(job, "/spec/completionMode") == "Indexed" {
        doc.field(0, "Completed Indexes", or_none(text(job, "/status/completedIndexes")));
    }
    pod_template::write(doc, job.pointer("/spec/template").unwrap_or(&Value::Null));
}

/// A CronJob's page without its events.
pub fn write_cron_job(doc: &mut Doc, cron: &Value) {
    doc.head(cron);
    doc.labels_and_annotations(cron);
    doc.field(0, "Schedule", text(cron, "/spec/schedule"));
    doc.field(0, "Concurrency Policy", text(cron, "/spec/concurrencyPolicy"));
    doc.field(0, "Suspend", title_bool(flag(cron, "/spec/suspend")));
    doc.field(0, "Successful Job History Limit", &or_unset(cron, "/spec/successfulJobsHistoryLimit"));
    doc.field(0, "Failed Job History Limit", &or_unset(cron, "/spec/failedJobsHistoryLimit"));
    let deadline = match cron.pointer("/spec/startingDeadlineSeconds") {
        Some(seconds) => format!("{}s", scalar(Some(seconds))),
        None => "<unset>".to_owned(),
    };
    doc.field(0, "Starting Deadline Seconds", &deadline);
    let job = cron.pointer("/spec/jobTemplate").unwrap_or(&Value::Null);
    let selector = job
        .pointer("/spec/selector")
        .map_or_else(|| "<unset>".to_owned(), |found| selector_text(Some(found)));
    doc.field(0, "Selector", &selector);
    doc.field(0, "Parallelism", &or_unset(job, "/spec/parallelism"));
    doc.field(0, "Completions", &or_unset(job, "/spec/completions"));
    if job.pointer("/spec/activeDeadlineSeconds").is_some() {
        doc.field(0, "Active Deadline Seconds", &format!("{}s", number(job, "/spec/activeDeadlineSeconds")));
    }
    pod_template::write(doc, job.pointer("/spec/template").unwrap_or(&Value::Null));
    let last = text(cron, "/status/lastScheduleTime");
    doc.field(
        0,
        "Last Schedule Time",
        &if last.is_empty() { "<unset>".to_owned() } else { super::doc::rfc1123z(last) },
    );
    let active: Vec<&str> = list(cron, "/status/active").iter().map(|job| text(job, "/name")).collect();
    doc.field(0, "Active Jobs", or_none(&active.join(", ")));
}

/// A PodDisruptionBudget's page without its events.
pub fn write_disruption_budget(doc: &mut Doc, budget: &Value) {
    doc.head(budget);
    for (title, pointer) in
        [("Min available", "/spec/minAvailable"), ("Max unavailable", "/spec/maxUnavailable")]
    {
        if let Some(value) = budget.pointer(pointer) {
            doc.field(0, title, &scalar(Some(value)));
        }
    }
    let selector = budget
        .pointer("/spec/selector")
        .map_or_else(|| "<unset>".to_owned(), |found| selector_text(Some(found)));
    doc.field(0, "Selector", &selector);
    doc.line(0, "Status:");
    let counts = [
        ("Allowed disruptions", "/status/disruptionsAllowed"),
        ("Current", "/status/currentHealthy"),
        ("Desired", "/status/desiredHealthy"),
        ("Total", "/status/expectedPods"),
    ];
    for (title, pointer) in counts {
        doc.field(2, title, &number(budget, pointer).to_string());
    }
}
