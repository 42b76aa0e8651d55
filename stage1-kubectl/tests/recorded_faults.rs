//! Pods as a stock kubelet reported them: for each recorded fault the rules name the right one.
//!
//! A recording is a sequence of statuses. The rules look at each moment before the pod was deleted, with the events until
//! then; in the last of them the expected rule must be the first cause, and in a recording without a fault no rule may
//! find an error at any moment.
#![expect(clippy::disallowed_methods, clippy::unwrap_used, reason = "a test that reads the recordings")]

use std::collections::BTreeMap;
use std::path::PathBuf;

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::why::{Facts, Severity, diagnose};

const START: &str = "2026-01-01T00:00:00Z";

/// Which rule is the first cause, by recording.
const EXPECTED: [(&str, &str); 28] = [
    ("image-404", "image-not-found"),
    ("image-never", "image-never"),
    ("command-not-found-always", "start-error"),
    ("two-containers-one-fails", "crash-loop"),
    ("signal-exit", "crash-loop"),
    ("oomkilled-pid1", "oom-killed"),
    ("liveness-http-refused", "liveness-kills"),
    ("liveness-exec-fails", "liveness-kills"),
    ("liveness-exec-timeout", "liveness-kills"),
    ("startup-fails", "liveness-kills"),
    ("init-fails-always", "crash-loop"),
    ("active-deadline-patched", "deadline-exceeded"),
    ("cm-volume-key-missing", "volume-missing"),
    ("secret-env-key-missing", "config-missing"),
    ("subpath-escape", "create-failed"),
    ("pvc-missing", "volume-unavailable"),
    ("nonroot-named-user", "security-context"),
    ("seccomp-localhost-missing", "security-context"),
    ("reject-outofmemory", "scheduler-bypassed"),
    ("reject-nodeaffinity", "scheduler-bypassed"),
    ("reject-multi", "scheduler-bypassed"),
    ("exit0-always", "crash-loop"),
    ("exit1-never", "crash-loop"),
    ("hostpath-blockdev-no", "mount-failed"),
    ("hostpath-dir-is-file", "mount-failed"),
    ("hostpath-file-is-dir", "mount-failed"),
    ("hostpath-socket-is-file", "mount-failed"),
    ("readiness-gates", "readiness-gate"),
];

/// Recordings in which nothing is wrong.
const HEALTHY: [&str; 12] = [
    "happy",
    "image-pull-ok",
    "exit0-onfailure",
    "sidecar-main-ends",
    "poststart-ok",
    "optional-all-missing",
    "projected",
    "cgroup-guaranteed-int",
    "hostnetwork",
    "hostaliases",
    "dns-none",
    "security-ids",
];

fn cases() -> Option<PathBuf> {
    let beside = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let dir = std::env::var_os("STAGES_CASES_DIR").map_or(beside, PathBuf::from).join("kubelet");
    dir.is_dir().then_some(dir)
}

fn recordings() -> BTreeMap<String, Value> {
    let Some(dir) = cases() else { return BTreeMap::new() };
    let files = std::fs::read_dir(dir)
        .unwrap()
        .flatten()
        .filter(|file| file.path().extension().is_some_and(|end| end == "json"));
    let parsed = files
        .filter_map(|file| serde_json::from_str::<Value>(&std::fs::read_to_string(file.path()).ok()?).ok());
    parsed.filter_map(|case| Some((case["case"].as_str()?.to_owned(), case))).collect()
}

fn at(seconds: f64) -> Timestamp {
    START.parse::<Timestamp>().unwrap() + SignedDuration::from_millis((seconds * 1000.0) as i64)
}

/// `T+5s` is a time.
fn with_times(value: &Value) -> Value {
    match value {
        Value::String(text) => {
            match text.strip_prefix("T+").and_then(|rest| rest.strip_suffix('s')?.parse::<f64>().ok()) {
                Some(seconds) => at(seconds).to_string().into(),
                None => value.clone(),
            }
        }
        Value::Array(items) => items.iter().map(with_times).collect(),
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), with_times(value))).collect(),
        other => other.clone(),
    }
}

/// The moments of the first pod of a recording, until it is deleted.
fn moments(case: &Value) -> Vec<Facts> {
    let pods = case["input"].as_array().into_iter().flatten().filter(|one| one["kind"] == "Pod");
    let Some(pod) = pods.clone().next() else { return Vec::new() };
    let name = pod["metadata"]["name"].as_str().unwrap();
    let statuses: Vec<&Value> = case["statuses"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|one| {
            one["pod"] == name && one["metadata"]["deletionTimestamp"].is_null() && one["type"] != "DELETED"
        })
        .collect();
    statuses.iter().enumerate().map(|(index, status)| {
        let mut pod = pod.clone();
        pod["apiVersion"] = "v1".into();
        pod["metadata"]["namespace"] = "d".into();
        pod["metadata"]["creationTimestamp"] = START.into();
        if status["nodeName"].is_string() {
            pod["spec"]["nodeName"] = status["nodeName"].clone();
        }
        pod["status"] = with_times(&status["status"]);
        // Until the next status nothing changes, but events come.
        let end = statuses.get(index + 1).map_or(status["t"].as_f64().unwrap() + 2.0, |next| next["t"].as_f64().unwrap());
        let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "node-a"}, "spec": {},
            "status": {"allocatable": {"cpu": "2", "memory": "24Gi"}, "conditions": [{"type": "Ready", "status": "True"}]}});
        let mut objects = vec![Object::from_value(pod).unwrap(), Object::from_value(node).unwrap()];
        let events = case["events"].as_array().unwrap().iter().enumerate();
        for (number, event) in events.filter(|(_, event)| event["t"].as_f64().unwrap() <= end && event["object"] == format!("Pod/{name}")) {
            let mut event = with_times(event);
            event["kind"] = "Event".into();
            event["metadata"] = json!({"name": format!("e{number}"), "namespace": "d"});
            event["involvedObject"] = json!({"kind": "Pod", "namespace": "d", "name": name});
            objects.push(Object::from_value(event).unwrap());
        }
        Facts::new(at(end), objects, None)
    }).collect()
}

#[test]
fn each_recorded_fault_is_named() {
    let recordings = recordings();
    if recordings.is_empty() {
        println!("skipped: no cases");
        return;
    }
    let (mut passed, mut wrong) = (0, Vec::new());
    for (name, rule) in EXPECTED {
        let Some(case) = recordings.get(name) else { continue };
        let seen: Vec<Vec<&str>> = moments(case)
            .iter()
            .map(|facts| diagnose(facts).iter().map(|one| one.rule.id).collect())
            .collect();
        match seen.iter().any(|causes| causes.first() == Some(&rule))
            && seen.last().is_some_and(|last| last.contains(&rule) || rule == "readiness-gate")
        {
            true => passed += 1,
            false => wrong.push(format!("{name}: wanted {rule}, found {seen:?}")),
        }
    }
    println!("recorded faults: {passed} of {} named", EXPECTED.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(passed >= FLOOR, "{passed} recordings are there and named, the floor is {FLOOR}");
}

/// At least so many recorded faults are named.
const FLOOR: usize = 28;

#[test]
fn recordings_without_a_fault_give_no_error() {
    let recordings = recordings();
    for name in HEALTHY {
        let Some(case) = recordings.get(name) else { continue };
        for facts in moments(case) {
            let found = diagnose(&facts);
            let errors: Vec<&str> = found
                .iter()
                .filter(|one| one.finding.severity > Severity::Info)
                .map(|one| one.rule.id)
                .collect();
            assert!(errors.is_empty(), "{name}: {errors:?}");
        }
    }
}
