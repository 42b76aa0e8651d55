//! The recorded worlds, end to end: the same node, condition, nomination, victims and events as in Kubernetes.

use std::collections::BTreeSet;
use std::path::PathBuf;

use http::Method;
use serde_json::{Value, json};
use stage4_scheduler::scheduler::Scheduler;

use crate::harness::Harness;

/// All worlds pass; fewer is a regression.
const FLOOR: usize = 76;
/// As in `recorded_worlds`: five runs of the stock scheduler didn't see every equally good node.
const MISSED_TIES: [(&str, &str); 2] = [("065", "n3"), ("101", "n2")];

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

async fn build(harness: &Harness, scheduler: &Scheduler, case: &Value) {
    let world = &case["world"];
    for object in list(world, "nodes").iter().chain(list(world, "objects")) {
        let mut object = object.clone();
        if case["mode"] == "pvcdel" && object["kind"] == "PersistentVolumeClaim" {
            object["metadata"]["finalizers"] = json!(["test/held"]);
        }
        harness.create(&object).await;
        if case["mode"] == "pvcdel" && object["kind"] == "PersistentVolumeClaim" {
            harness.delete("/api/v1/namespaces/w/persistentvolumeclaims/c1").await;
        }
    }
    for pod in list(world, "existingPods") {
        harness.create(pod).await;
    }
    let finished = |pod: &&Value| matches!(text(pod, "/status/phase"), "Succeeded" | "Failed");
    let running = list(world, "existingPods").iter().filter(|pod| !finished(pod)).count();
    harness.seen(scheduler, (list(world, "nodes").len(), running)).await;
    let objects = list(world, "objects").iter().filter(|object| object["kind"] != "PriorityClass").count();
    harness
        .wait_for("the scheduler's view of all objects", || async {
            let listers = scheduler.state.lock().cache.listers.clone();
            let seen = listers.claims.len() + listers.volumes.len() + listers.storage_classes.len();
            let services: usize = listers.services.values().map(|services| services.len()).sum();
            (seen + services + listers.budgets.len() >= objects).then_some(())
        })
        .await;
}

async fn clear(harness: &Harness, scheduler: &Scheduler, case: &Value) {
    let pods = ["w", "w2"].map(|namespace| format!("/api/v1/namespaces/{namespace}/pods"));
    for path in &pods {
        for pod in harness.items(path).await {
            harness.delete(&format!("{path}/{}", text(&pod, "/metadata/name"))).await;
        }
    }
    for event in harness.items("/api/v1/namespaces/w/events").await {
        harness.delete(&format!("/api/v1/namespaces/w/events/{}", text(&event, "/metadata/name"))).await;
    }
    for node in list(&case["world"], "nodes") {
        harness.delete(&format!("/api/v1/nodes/{}", text(node, "/metadata/name"))).await;
    }
    for object in list(&case["world"], "objects") {
        let name = text(object, "/metadata/name");
        let path = match text(object, "/kind") {
            "PersistentVolumeClaim" => format!("/api/v1/namespaces/w/persistentvolumeclaims/{name}"),
            "PersistentVolume" => format!("/api/v1/persistentvolumes/{name}"),
            "StorageClass" => format!("/apis/storage.k8s.io/v1/storageclasses/{name}"),
            "PriorityClass" => format!("/apis/scheduling.k8s.io/v1/priorityclasses/{name}"),
            "PodDisruptionBudget" => format!("/apis/policy/v1/namespaces/w/poddisruptionbudgets/{name}"),
            _ => format!("/api/v1/namespaces/{}/services/{name}", text(object, "/metadata/namespace")),
        };
        let free = json!({"metadata": {"finalizers": null}});
        let _ = harness.call(Method::PATCH, &path, Some(free)).await;
        harness.delete(&path).await;
    }
    harness.seen(scheduler, (0, 0)).await;
    harness
        .wait_for("the scheduler's view without objects", || async {
            let listers = scheduler.state.lock().cache.listers.clone();
            let none = listers.claims.is_empty() && listers.volumes.is_empty();
            (none && listers.storage_classes.is_empty() && listers.budgets.is_empty()).then_some(())
        })
        .await;
}

async fn check(harness: &Harness, number: &str, case: &Value) -> Result<(), String> {
    let (mode, run) = (text(case, "/mode"), &case["runs"][0]);
    let pod = &case["world"]["pod"];
    harness.create(pod).await;
    let name = text(pod, "/metadata/name");
    let differs = |what: &str, ours: &str, theirs: &str| {
        if ours == theirs { Ok(()) } else { Err(format!("{what}\n   ours   {ours}\n   theirs {theirs}")) }
    };
    if mode == "direct" {
        return differs("node", &harness.bound(name).await, text(run, "/node"));
    }
    if mode == "wffc" {
        return volumes(harness, run).await;
    }
    let seen: BTreeSet<&str> = list(case, "chosenSet").iter().filter_map(Value::as_str).collect();
    if !seen.is_empty() {
        let node = harness.bound(name).await;
        if !seen.contains(node.as_str()) && !MISSED_TIES.contains(&(number, node.as_str())) {
            return Err(format!("chose {node}, not of {seen:?}"));
        }
        return events(harness, run, name, true).await;
    }
    let theirs = &run["podScheduled"];
    let ours = harness.refusal(name, text(theirs, "/reason")).await;
    differs("message", &ours, text(theirs, "/message"))?;
    let wanted = text(run, "/nominatedNodeName");
    if !wanted.is_empty() {
        let path = format!("/api/v1/namespaces/w/pods/{name}");
        harness
            .wait_for("nomination", || async {
                (text(&harness.get(&path).await, "/status/nominatedNodeName") == wanted).then_some(())
            })
            .await;
    }
    victims(harness, run).await?;
    events(harness, run, name, false).await
}

async fn volumes(harness: &Harness, run: &Value) -> Result<(), String> {
    for volume in list(run, "pvsWithClaimRef") {
        let path = format!("/api/v1/persistentvolumes/{}", volume.as_str().unwrap());
        let ask = || async { harness.get(&path).await["spec"]["claimRef"]["uid"].as_str().map(drop) };
        harness.wait_for("claimRef", ask).await;
    }
    for (claim, node) in run["pvcSelectedNode"].as_object().into_iter().flatten() {
        let Some(node) = node.as_str() else { continue };
        let path = format!("/api/v1/namespaces/w/persistentvolumeclaims/{claim}");
        let ask = || async {
            let claim = harness.get(&path).await;
            (claim["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == node).then_some(())
        };
        harness.wait_for("selected node", ask).await;
    }
    Ok(())
}

/// The victims, and no others, are asked to go, with the condition that says why.
async fn victims(harness: &Harness, run: &Value) -> Result<(), String> {
    let theirs: BTreeSet<&str> = list(run, "victims").iter().map(|victim| text(victim, "/name")).collect();
    for victim in list(run, "victims") {
        let path = format!("/api/v1/namespaces/w/pods/{}", text(victim, "/name"));
        let ask = || async {
            let pod = harness.get(&path).await;
            pod["metadata"]["deletionTimestamp"].is_string().then_some(pod)
        };
        let pod = harness.wait_for("eviction", ask).await;
        for wanted in list(victim, "conditions") {
            let same = |have: &Value| {
                ["type", "status", "reason", "message"].iter().all(|field| have[*field] == wanted[*field])
            };
            if !list(&pod["status"], "conditions").iter().any(same) {
                return Err(format!(
                    "{} has no condition {wanted}: {}",
                    text(victim, "/name"),
                    pod["status"]
                ));
            }
        }
    }
    let pods = harness.items("/api/v1/namespaces/w/pods").await;
    let ours: BTreeSet<&str> = pods
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_string())
        .map(|pod| text(pod, "/metadata/name"))
        .collect();
    if ours == theirs { Ok(()) } else { Err(format!("victims {ours:?}, theirs {theirs:?}")) }
}

async fn events(harness: &Harness, run: &Value, name: &str, bound: bool) -> Result<(), String> {
    let mut wanted: Vec<Value> = list(run, "events").to_vec();
    if wanted.is_empty() && bound {
        let node = harness.bound(name).await;
        wanted.push(json!({"type": "Normal", "reason": "Scheduled", "action": "Binding",
            "reportingComponent": "default-scheduler", "message": format!("Successfully assigned w/{name} to {node}")}));
    }
    let mut about: Vec<(String, Value)> = wanted.into_iter().map(|event| (name.to_owned(), event)).collect();
    for (victim, events) in run["victimEvents"].as_object().into_iter().flatten() {
        about.extend(events.as_array().into_iter().flatten().map(|event| (victim.clone(), event.clone())));
    }
    for (pod, mut wanted) in about {
        if let Some(message) = wanted["message"].as_str().filter(|message| message.contains("<uid>")) {
            let preemptor = harness.get(&format!("/api/v1/namespaces/w/pods/{name}")).await;
            wanted["message"] = message.replace("<uid>", text(&preemptor, "/metadata/uid")).into();
        }
        let same = |event: &Value| {
            ["type", "reason", "message", "action", "reportingComponent"]
                .iter()
                .all(|field| event[*field] == wanted[*field])
        };
        let ask = || async { harness.events(&pod).await.iter().any(same).then_some(()) };
        harness.wait_for(&format!("event {wanted} about {pod}"), ask).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn the_recorded_worlds_end_as_they_did_in_kubernetes() {
    let root = std::env::var_os("STAGES_CASES_DIR").map(PathBuf::from);
    let root = root.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases"));
    let Ok(dir) = std::fs::read_dir(root.join("server/scheduler")) else {
        println!("skipped: no cases");
        return;
    };
    let mut files: Vec<_> = dir.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let harness = Harness::start().await;
    let (scheduler, shutdown) = harness.scheduler("").await;
    let mut failed = Vec::new();
    for file in &files {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        println!("{name}");
        build(&harness, &scheduler, &case).await;
        if let Err(why) = check(&harness, &name[..3], &case).await {
            failed.push(format!("{name}: {why}"));
        }
        clear(&harness, &scheduler, &case).await;
    }
    shutdown.cancel();
    let passed = files.len() - failed.len();
    println!("scheduler worlds end to end: {passed} passed, {} failed, 0 not yet", failed.len());
    assert!(
        passed >= FLOOR,
        "{passed} of {} pass, the floor is {FLOOR}:\n{}",
        files.len(),
        failed.join("\n")
    );
}
