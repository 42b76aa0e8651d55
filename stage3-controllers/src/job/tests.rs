//! Jobs in the simulator.
//!
//! # In Kubernetes
//! `pkg/controller/job/job_controller_test.go`.

use super::*;
use crate::simulator::harness::{Subject, check, settle};
use crate::simulator::{Cluster, make};
use serde_json::{Value, json};

fn job(spec: Value, fake: &str) -> Value {
    let mut job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"namespace": "default", "name": "j"},
        "spec": {"completions": 1, "parallelism": 1, "template": {"metadata": {"annotations": {"fake": fake}}, "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img"}]}}}});
    crate::simulator::merge(&mut job["spec"], &spec);
    job
}

fn summary(cluster: &Cluster) -> String {
    let lines = cluster.list("jobs").map(|(key, job)| {
        let status = &job["status"];
        let conditions = status["conditions"].as_array().cloned().unwrap_or_default();
        let told: Vec<String> = conditions
            .iter()
            .map(|one| format!("{}={} {}", one["type"], one["status"], one["reason"]))
            .collect();
        format!(
            "{key} succeeded {} failed {} {} {}",
            status["succeeded"],
            status["failed"],
            status["completedIndexes"],
            told.join(", ")
        )
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn subject(set_up: fn(&mut Cluster)) -> Subject {
    Subject {
        make: |factory| make(factory, JobController::new),
        primary: "jobs",
        set_up,
        others: Cluster::run_pods,
        summary,
    }
}

fn life(spec: Value, fake: &str) -> (Cluster, String) {
    let mut cluster = Cluster::new();
    cluster.create("jobs", job(spec, fake));
    for _ in 0..20 {
        settle(&subject(|_| {}), &mut cluster);
        cluster.wait(200);
    }
    let told = summary(&cluster);
    (cluster, told)
}

#[test]
fn promises_hold_for_jobs() {
    check(&subject(|cluster| {
        drop(cluster.create("jobs", job(json!({"completions": 3, "parallelism": 2}), "succeed")))
    }));
    check(&subject(|cluster| drop(cluster.create("jobs", job(json!({"backoffLimit": 0}), "fail:1")))));
    check(&subject(|cluster| {
        drop(cluster.create(
            "jobs",
            job(json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed"}), "succeed"),
        ))
    }));
}

#[test]
fn pods_are_counted_once_and_the_job_completes() {
    let (cluster, told) = life(json!({"completions": 3, "parallelism": 2}), "succeed");
    assert_eq!(
        told,
        r#"default/j succeeded 3 failed null null "SuccessCriteriaMet"="True" "CompletionsReached", "Complete"="True" "CompletionsReached""#
    );
    assert_eq!(cluster.list("pods").count(), 3);
    assert!(
        cluster.events.last().unwrap().ends_with("Normal Completed: Job completed"),
        "{:?}",
        cluster.events
    );
}

#[test]
fn failures_beyond_the_limit_fail_the_job_with_pauses_in_between() {
    let (cluster, told) = life(json!({"backoffLimit": 2}), "fail:1");
    assert!(
        told.contains(r#"failed 3"#) && told.contains(r#""Failed"="True" "BackoffLimitExceeded""#),
        "{told}"
    );
    assert_eq!(cluster.list("pods").count(), 3);
}

#[test]
fn an_index_that_failed_for_good_fails_the_job_at_the_end() {
    let spec =
        json!({"completions": 3, "parallelism": 3, "completionMode": "Indexed", "backoffLimitPerIndex": 0});
    let (cluster, told) = life(spec, "fail-index:1");
    assert!(
        told.contains(r#"succeeded 2 failed 1 "0,2""#) && told.contains(r#""Failed"="True" "FailedIndexes""#),
        "{told}"
    );
    assert_eq!(cluster.list("pods").count(), 3);
}

#[test]
fn a_suspended_job_has_no_pods_and_a_resumed_one_has() {
    let mut cluster = Cluster::new();
    let key = cluster.create("jobs", job(json!({"suspend": true}), "ready"));
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(cluster.list("pods").count(), 0);
    cluster.change("jobs", &key, |job| job["spec"]["suspend"] = json!(false));
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(cluster.list("pods").count(), 1);
    cluster.change("jobs", &key, |job| job["spec"]["suspend"] = json!(true));
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(cluster.list("pods").count(), 0);
    assert_eq!(cluster.events.iter().filter(|event| event.contains("Suspended")).count(), 2);
}

#[test]
fn sets_of_indexes_are_written_in_runs() {
    for text in ["", "0", "0,1", "0-2", "0,2-4,7", "1,3,5,6"] {
        assert_eq!(indexed::format(&indexed::parse(text)), text);
    }
}
