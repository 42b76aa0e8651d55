//! Defaults of Jobs and CronJobs.
//!
//! A Job without numbers is one pod that must succeed once and may fail six times. With only `completions` given, one pod runs at a time;
//! with only `parallelism` given, the Job is a work queue and has no completions.
//!
//! # In Kubernetes
//! `pkg/apis/batch/v1/defaults.go`.

use serde_json::Value;

use super::{pod, workloads};
use crate::validation::fields::{
    at, child, child_mut, default_to, has, items_mut, present_mut, set, size, text,
};

/// Job.
pub fn job(value: &mut Value) {
    workloads::template_of(value);
    // Only when the stored form is read, which has a UID: by then the strategy has added its own labels to the template's.
    let meta = child(value, "metadata");
    let labels = at(value, "/spec/template/metadata/labels").clone();
    if has(meta, "uid") && size(meta, "labels") == 0 && labels.as_object().is_some_and(|l| !l.is_empty()) {
        set(child_mut(value, "metadata"), "labels", labels);
    }
    let spec = child_mut(value, "spec");
    if !has(spec, "completions") && !has(spec, "parallelism") {
        default_to(spec, "completions", 1);
    }
    default_to(spec, "parallelism", 1);
    // With a limit for each index the limit of the whole is out of the way.
    let backoff_limit = if has(spec, "backoffLimitPerIndex") { i32::MAX } else { 6 };
    default_to(spec, "backoffLimit", backoff_limit);
    default_to(spec, "completionMode", "NonIndexed");
    default_to(spec, "suspend", false);
    default_to(spec, "manualSelector", false);
    let replacement = if has(spec, "podFailurePolicy") { "Failed" } else { "TerminatingOrFailed" };
    default_to(spec, "podReplacementPolicy", replacement);
    if let Some(policy) = present_mut(spec, "podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            items_mut(rule, "onPodConditions")
                .filter(|p| text(p, "status").is_empty())
                .for_each(|p| set(p, "status", "True"));
        }
    }
}

/// CronJob. The Job's own defaults come when the Job is created.
pub fn cron_job(value: &mut Value) {
    let spec = child_mut(value, "spec");
    default_to(spec, "concurrencyPolicy", "Allow");
    default_to(spec, "suspend", false);
    default_to(spec, "successfulJobsHistoryLimit", 3);
    default_to(spec, "failedJobsHistoryLimit", 1);
    let job_spec = child_mut(child_mut(spec, "jobTemplate"), "spec");
    pod::template(child_mut(job_spec, "template"));
    if let Some(policy) = present_mut(job_spec, "podFailurePolicy") {
        for rule in items_mut(policy, "rules") {
            items_mut(rule, "onPodConditions")
                .filter(|p| text(p, "status").is_empty())
                .for_each(|p| set(p, "status", "True"));
        }
    }
}
