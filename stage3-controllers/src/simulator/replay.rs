//! Replay: the recorded lives of a stock controller manager, lived again in the simulator.
//!
//! Each trace holds the requests that were made and all that followed. The requests are made again, each after the world has settled, and at the end the
//! workloads' statuses and the set of events are compared. Hashes and random names are replaced by a word; times are left out.
//!
//! # In Kubernetes
//! Nothing like it; the traces were recorded from release 1.32.

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

use super::harness::Process;
use super::{Cluster, make, merge};
use crate::cron_job::CronJobController;
use crate::daemon_set::{DaemonSetController, node_fit};
use crate::deployment::DeploymentController;
use crate::disruption::DisruptionController;
use crate::indexer::NamespacedName;
use crate::informer::factory::InformerFactory;
use crate::job::JobController;
use crate::replica_set::ReplicaSetController;
use crate::resource_quota::ResourceQuotaController;
use crate::stateful_set::StatefulSetController;

type Make = fn(&InformerFactory) -> Box<dyn super::Decide>;
const CONTROLLERS: [(&str, Make); 8] = [
    ("deployments", |factory| make(factory, DeploymentController::new)),
    ("replicasets", |factory| make(factory, ReplicaSetController::new)),
    ("jobs", |factory| make(factory, JobController::new)),
    ("cronjobs", |factory| make(factory, CronJobController::new)),
    ("daemonsets", |factory| make(factory, DaemonSetController::new)),
    ("statefulsets", |factory| make(factory, StatefulSetController::new)),
    ("poddisruptionbudgets", |factory| make(factory, DisruptionController::new)),
    ("resourcequotas", |factory| make(factory, ResourceQuotaController::new)),
];
const KINDS: [(&str, &str); 7] = [
    ("Deployment", "deployments"),
    ("ReplicaSet", "replicasets"),
    ("Job", "jobs"),
    ("DaemonSet", "daemonsets"),
    ("StatefulSet", "statefulsets"),
    ("PodDisruptionBudget", "poddisruptionbudgets"),
    ("ResourceQuota", "resourcequotas"),
];

/// Groups of traces, and how many of each must pass.
const FLOORS: [(&str, usize); 8] = [
    ("deployment", 7),
    ("replicaset", 1),
    ("job", 6),
    ("cronjob", 1),
    ("statefulset", 3),
    ("daemonset", 2),
    ("pdb", 4),
    ("quota", 1),
];

/// Lets all controllers, the scheduler and the kubelet work until nothing changes.
fn settle(cluster: &mut Cluster) {
    for _ in 0..60 {
        let before = cluster.revision;
        for (resource, new) in CONTROLLERS {
            let mut process = Process::start(new, cluster);
            let keys: Vec<NamespacedName> = cluster.list(resource).map(|(key, _)| key.clone()).collect();
            for key in keys {
                let _ = process.look(cluster, &key, usize::MAX, &mut |_, _| {});
            }
        }
        let bound: Vec<(NamespacedName, String)> = cluster
            .list("pods")
            .map(|(key, pod)| {
                (key.clone(), node_fit::target_node(&serde_json::from_value(pod.clone()).unwrap()))
            })
            .collect();
        for (key, node) in bound.into_iter().filter(|(_, node)| !node.is_empty()) {
            cluster.change("pods", &key, |pod| pod["spec"]["nodeName"] = json!(node));
        }
        cluster.run_pods();
        cluster.collect_garbage();
        cluster.wait(1);
        if cluster.revision == before {
            return;
        }
    }
}

/// What the API server fills in, as far as the controllers look at it.
fn default(resource: &str, object: &mut Value) {
    let defaults = match resource {
        "deployments" => {
            json!({"replicas": 1, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600, "strategy": {"type": "RollingUpdate"}})
        }
        "jobs" => {
            json!({"backoffLimit": 6, "parallelism": 1, "completionMode": "NonIndexed", "suspend": false})
        }
        "daemonsets" => json!({"updateStrategy": {"type": "RollingUpdate"}, "revisionHistoryLimit": 10}),
        "statefulsets" | "replicasets" => json!({"replicas": 1}),
        _ => return,
    };
    let mut spec = defaults;
    merge(&mut spec, &object["spec"]);
    if resource == "jobs" && spec["completions"].is_null() && object["spec"]["parallelism"].is_null() {
        spec["completions"] = json!(1);
    }
    object["spec"] = spec;
}

fn request(cluster: &mut Cluster, step: &Value) -> Option<()> {
    let path = step["path"].as_str()?.split('?').next()?;
    let parts: Vec<&str> = path.split("/namespaces/NS/").nth(1)?.split('/').collect();
    if step["code"].as_i64()? >= 300 {
        return Some(());
    }
    match (step["method"].as_str()?, parts.as_slice()) {
        ("POST", [resource]) => {
            let mut object = step["body"].clone();
            object["metadata"]["namespace"] = json!("NS");
            default(resource, &mut object);
            cluster.create(resource, object);
        }
        ("PATCH", [resource, name, ..]) if step["contentType"].as_str()?.contains("merge") => {
            cluster
                .change(resource, &NamespacedName::new("NS", *name), |object| merge(object, &step["body"]));
        }
        ("PUT", [resource, name]) => {
            cluster.change(resource, &NamespacedName::new("NS", *name), |object| {
                object["spec"] = step["body"]["spec"].clone()
            });
        }
        ("POST", ["pods", name, "eviction"]) if !name.contains('<') => {
            cluster.delete("pods", &NamespacedName::new("NS", *name), false);
        }
        ("DELETE", [resource, name]) => cluster.delete(resource, &NamespacedName::new("NS", *name), false),
        _ => return None,
    }
    Some(())
}

/// Hashes and random suffixes become one word.
fn normal(text: &str) -> String {
    let is_mark = |part: &str| {
        (part.len() >= 5
            && part.len() <= 10
            && part.bytes().all(|byte| b"bcdfghjklmnpqrstvwxz2456789".contains(&byte)))
            || (part.len() == 5 && part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let text =
        (1..60).fold(text.replace("<rand5>", "*"), |text, n| text.replace(&format!("<rand5-{n}>"), "*"));
    let words = text.split(' ').map(|word| {
        let trimmed = word.trim_end_matches(['"', ',', '.']);
        let parts: Vec<&str> =
            trimmed.split('-').map(|part| if is_mark(part) { "*" } else { part }).collect();
        format!("{}{}", parts.join("-"), &word[trimmed.len()..])
    });
    words.collect::<Vec<_>>().join(" ")
}

fn state(kind: &str, replicas: &Value, status: &Value, conditions: &Value) -> String {
    let number = |name: &str| status[name].as_i64().unwrap_or(0);
    let numbers: Vec<String> = [
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "unavailableReplicas",
        "succeeded",
        "failed",
        "active",
        "desiredNumberScheduled",
        "numberReady",
        "disruptionsAllowed",
        "currentHealthy",
        "desiredHealthy",
        "expectedPods",
    ]
    .map(|name| format!("{name}={}", number(name)))
    .to_vec();
    let mut told: Vec<String> = conditions
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            format!(
                "{}={} {} {}",
                one["type"],
                one["status"],
                one["reason"],
                normal(one["message"].as_str().unwrap_or_default())
            )
        })
        .collect();
    told.sort();
    let (wants, used) = (replicas.as_i64().unwrap_or(0), &status["used"]);
    format!("{kind} wants {wants} {} {} {used}", numbers.join(" "), told.join("; "))
}

fn replay(trace: &[Value]) -> Result<(), String> {
    let mut cluster = Cluster::new();
    for (name, labels, taints) in [
        ("n1", json!({"disk": "ssd"}), Value::Null),
        ("n2", Value::Null, Value::Null),
        ("n3", Value::Null, json!([{"key": "dedicated", "value": "x", "effect": "NoSchedule"}])),
    ] {
        cluster.create("nodes", json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}, "spec": {"taints": taints}}));
    }
    for step in trace.iter().filter(|entry| entry["event"] == "STEP" && entry["name"] == "request") {
        request(&mut cluster, step).ok_or_else(|| format!("not yet: {} {}", step["method"], step["path"]))?;
        settle(&mut cluster);
    }
    let mut last: std::collections::BTreeMap<(String, String), &Value> = Default::default();
    let mut events = BTreeSet::new();
    for entry in trace {
        let (kind, name) =
            (entry["kind"].as_str().unwrap_or_default(), entry["name"].as_str().unwrap_or_default());
        if kind == "Event" && entry["component"] != "default-scheduler" {
            let about = entry["about"].as_str().unwrap_or_default();
            events.insert(normal(&format!(
                "{about} {}: {}",
                entry["reason"].as_str().unwrap_or_default(),
                entry["message"].as_str().unwrap_or_default()
            )));
        } else if KINDS.iter().any(|(known, _)| *known == kind) {
            last.insert((kind.to_owned(), name.to_owned()), entry);
        }
    }
    last.retain(|_, entry| entry["event"] != "DELETED");
    let mut wanted: Vec<String> = last
        .iter()
        .map(|((kind, _), entry)| state(kind, &entry["replicas"], &entry["status"], &entry["conditions"]))
        .collect();
    let found = KINDS.iter().flat_map(|(kind, resource)| {
        cluster.list(resource).map(move |(_, object)| {
            state(kind, &object["spec"]["replicas"], &object["status"], &object["status"]["conditions"])
        })
    });
    let mut found: Vec<String> = found.collect();
    wanted.sort();
    found.sort();
    if wanted != found {
        return Err(format!(
            "states\n    wanted {}\n    found  {}",
            wanted.join("\n           "),
            found.join("\n           ")
        ));
    }
    let ours: BTreeSet<String> = cluster
        .events
        .iter()
        .map(|event| normal(&event.replacen(" Normal", "", 1).replacen(" Warning", "", 1)))
        .collect();
    if ours != events {
        let missing: Vec<_> = events.difference(&ours).collect();
        let surplus: Vec<_> = ours.difference(&events).collect();
        return Err(format!("events missing {missing:?} surplus {surplus:?}"));
    }
    Ok(())
}

#[test]
fn recorded_lives_end_as_they_ended() {
    let beside = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases");
    #[expect(clippy::disallowed_methods, reason = "a test reads its cases")]
    let root = std::env::var_os("STAGES_CASES_DIR")
        .map_or_else(|| PathBuf::from(beside), PathBuf::from)
        .join("server/controllers");
    #[expect(clippy::disallowed_methods, reason = "a test reads its cases")]
    let Ok(index) = std::fs::read_to_string(root.join("INDEX.tsv")) else {
        println!("skipped: no cases");
        return;
    };
    let mut short = Vec::new();
    for (group, floor) in FLOORS {
        let (mut passed, mut failed, mut not_yet) = (0, Vec::new(), 0);
        for line in index.lines().filter(|line| line.split('\t').nth(1) == Some(group)) {
            let file = line.split('\t').next().unwrap();
            #[expect(clippy::disallowed_methods, reason = "a test reads its cases")]
            let text = std::fs::read_to_string(root.join(file)).unwrap();
            let trace: Value = serde_json::from_str(&text).unwrap();
            match replay(trace["trace"].as_array().unwrap()) {
                Ok(()) => passed += 1,
                Err(why) if why.starts_with("not yet") => not_yet += 1,
                Err(why) => failed.push(format!("  {file}: {why}")),
            }
        }
        println!("{group}: passed {passed} failed {} not yet {not_yet}\n{}", failed.len(), failed.join("\n"));
        if passed < floor {
            short.push(format!("{group}: {passed} < {floor}"));
        }
    }
    assert!(short.is_empty(), "{short:?}");
}
