//! Schedules, and CronJobs in the simulator.
//!
//! # In Kubernetes
//! `pkg/controller/cronjob/cronjob_controllerv2_test.go`.

use super::*;
use crate::simulator::harness::Process;
use crate::simulator::{Cluster, make};
use serde_json::{Value, json};

fn next(schedule: &str, after: &str) -> String {
    let schedule = Schedule::parse(schedule).unwrap();
    schedule.times(after.parse().unwrap(), &TimeZone::UTC).next().unwrap().to_string()
}

#[test]
fn the_next_time_follows_the_fields() {
    assert_eq!(next("*/5 * * * *", "2024-01-01T00:02:10Z"), "2024-01-01T00:05:00Z");
    assert_eq!(next("30 8 * * MON-FRI", "2024-01-05T09:00:00Z"), "2024-01-08T08:30:00Z");
    assert_eq!(next("0 0 29 2 *", "2024-03-01T00:00:00Z"), "2028-02-29T00:00:00Z");
    assert_eq!(next("0 0 13 * FRI", "2024-01-01T00:00:00Z"), "2024-01-05T00:00:00Z", "either day may match");
    assert_eq!(next("@hourly", "2024-01-01T23:59:59Z"), "2024-01-02T00:00:00Z");
}

#[test]
fn wrong_schedules_are_refused_with_a_reason() {
    for (schedule, reason) in [
        ("* * * *", "expected exactly 5 fields"),
        ("60 * * * *", "above maximum"),
        ("* * 0 * *", "below minimum"),
        ("*/0 * * * *", "positive"),
        ("x * * * *", "failed to parse"),
        ("* * * * 7", "above maximum"),
    ] {
        assert!(Schedule::parse(schedule).unwrap_err().contains(reason), "{schedule}");
    }
}

fn cron_job(spec: Value) -> Value {
    let mut cron_job = json!({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {"namespace": "default", "name": "tick"},
        "spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img"}]}}}}}});
    crate::simulator::merge(&mut cron_job["spec"], &spec);
    cron_job
}

fn look(cluster: &mut Cluster) {
    let mut process = Process::start(|factory| make(factory, CronJobController::new), cluster);
    process.look(cluster, &NamespacedName::new("default", "tick"), usize::MAX, &mut |_, _| {}).unwrap();
}

fn finish_jobs(cluster: &mut Cluster) {
    let keys: Vec<NamespacedName> = cluster.list("jobs").map(|(key, _)| key.clone()).collect();
    let now = cluster.now.to_string();
    for key in keys {
        cluster.change("jobs", &key, |job| job["status"] = json!({"startTime": now, "completionTime": now, "conditions": [{"type": "Complete", "status": "True"}]}));
    }
}

#[test]
fn each_minute_makes_one_job_and_the_history_is_limited() {
    let mut cluster = Cluster::new();
    cluster.create("cronjobs", cron_job(json!({"successfulJobsHistoryLimit": 2})));
    for _ in 0..6 {
        cluster.wait(60);
        look(&mut cluster);
        look(&mut cluster);
        finish_jobs(&mut cluster);
    }
    look(&mut cluster);
    let names: Vec<String> = cluster.list("jobs").map(|(key, _)| key.name.clone()).collect();
    assert_eq!(names, ["tick-28401125", "tick-28401126"]);
    assert_eq!(
        cluster.events.iter().filter(|event| event.contains("SuccessfulCreate: Created job tick-")).count(),
        6
    );
}

#[test]
fn many_missed_times_make_one_job_and_a_warning() {
    let mut cluster = Cluster::new();
    cluster.create("cronjobs", cron_job(json!({})));
    cluster.wait(3 * 3600);
    look(&mut cluster);
    assert_eq!(cluster.list("jobs").count(), 1);
    assert!(cluster.events.iter().any(|event| event.contains("TooManyMissedTimes")));
}

#[test]
fn forbid_waits_for_the_running_job_and_suspend_for_ever() {
    let mut cluster = Cluster::new();
    let key = cluster.create("cronjobs", cron_job(json!({"concurrencyPolicy": "Forbid"})));
    for _ in 0..3 {
        cluster.wait(60);
        look(&mut cluster);
    }
    assert_eq!(cluster.list("jobs").count(), 1);
    finish_jobs(&mut cluster);
    cluster.change("cronjobs", &key, |one| one["spec"]["suspend"] = json!(true));
    cluster.wait(600);
    look(&mut cluster);
    assert_eq!(cluster.list("jobs").count(), 1);
}
