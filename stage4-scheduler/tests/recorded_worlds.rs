//! Worlds recorded from a stock scheduler: the same world, the same node or the same words.
//!
//! Each file holds nodes, other objects, existing pods and a new pod, and what a stock scheduler made of it
//! over several runs. The pure decision must choose one of the nodes seen, or give the exact message, the
//! same nominated node and the same victims.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde_json::Value;
use stage4_scheduler::decision::{Decision, decide};
use stage4_scheduler::framework::PreBindAction;
use stage4_scheduler::listers::{self, Listers};
use stage4_scheduler::node_info::NodeInfo;
use stage4_scheduler::plugins::scheduling_gates::GATED_MESSAGE;
use stage4_scheduler::pod_info::PodInfo;
use stage4_scheduler::profile::Profile;
use stage4_scheduler::snapshot::Snapshot;

/// All worlds pass; fewer is a regression.
const FLOOR: usize = 76;

/// Worlds where five runs of the stock scheduler didn't see every equally good node: nodes that differ in
/// nothing that any plugin looks at.
const MISSED_TIES: [(&str, &str); 2] = [("065", "n3"), ("101", "n2")];

fn cases_dir() -> Option<PathBuf> {
    let root = std::env::var_os("STAGES_CASES_DIR")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases"));
    let dir = root.join("server/scheduler");
    dir.is_dir().then_some(dir)
}

fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// What the API server would have written: the priority, and requests where only limits are given.
fn pod(value: &Value, world: &Value) -> Arc<PodInfo> {
    let mut value = value.clone();
    let class = text(&value, "/spec/priorityClassName").to_owned();
    let priority = match class.as_str() {
        "system-cluster-critical" => 2_000_000_000,
        "system-node-critical" => 2_000_001_000,
        name => {
            let found = list(world, "objects")
                .iter()
                .find(|o| o["kind"] == "PriorityClass" && text(o, "/metadata/name") == name);
            if let Some(policy) = found.and_then(|class| class["preemptionPolicy"].as_str()) {
                value["spec"]["preemptionPolicy"] = policy.into();
            }
            found.and_then(|class| class["value"].as_i64()).unwrap_or(0)
        }
    };
    value["spec"]["priority"] = priority.into();
    for kind in ["containers", "initContainers"] {
        for container in value["spec"][kind].as_array_mut().into_iter().flatten() {
            let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
            for (name, limit) in limits {
                let request = &mut container["resources"]["requests"][name];
                if request.is_null() {
                    *request = limit;
                }
            }
        }
    }
    Arc::new(PodInfo::new(Arc::new(serde_json::from_value::<Pod>(value).unwrap())))
}

fn objects(world: &Value, deleting_claims: bool) -> Listers {
    let mut listers = Listers::default();
    for (name, labels) in [("w", Value::Null), ("w2", serde_json::json!({"team": "x"}))] {
        let mut labels: listers::Labels = serde_json::from_value(labels).unwrap_or_default();
        labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
        listers::set(&mut listers.namespaces, name, Some(Arc::new(labels)));
    }
    for object in list(world, "objects") {
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let key = format!("{namespace}/{name}");
        let mut object = object.clone();
        match text(&object.clone(), "/kind") {
            "Service" => {
                listers.set_service(
                    namespace,
                    name,
                    serde_json::from_value(object["spec"]["selector"].clone()).ok(),
                );
            }
            "PersistentVolumeClaim" => {
                if deleting_claims {
                    object["metadata"]["deletionTimestamp"] = "2024-01-01T00:00:00Z".into();
                }
                listers::set(
                    &mut listers.claims,
                    &key,
                    Some(Arc::new(serde_json::from_value(object).unwrap())),
                );
            }
            "PersistentVolume" => {
                listers::set(
                    &mut listers.volumes,
                    name,
                    Some(Arc::new(serde_json::from_value(object).unwrap())),
                );
            }
            "StorageClass" => {
                listers::set(
                    &mut listers.storage_classes,
                    name,
                    Some(Arc::new(serde_json::from_value(object).unwrap())),
                );
            }
            "PodDisruptionBudget" => {
                listers.set_budget(&key, Some(Arc::new(serde_json::from_value(object).unwrap())))
            }
            _ => {}
        }
    }
    listers
}

fn snapshot(world: &Value, deleting_claims: bool) -> Snapshot {
    let mut nodes: Vec<NodeInfo> = list(world, "nodes")
        .iter()
        .map(|node| NodeInfo::of(Arc::new(serde_json::from_value::<Node>(node.clone()).unwrap())))
        .collect();
    for existing in list(world, "existingPods") {
        let existing = pod(existing, world);
        let home = nodes.iter_mut().find(|node| Some(&*node.name) == existing.node_name());
        if let Some(node) = home.filter(|_| !existing.is_finished()) {
            node.add_pod(existing);
        }
    }
    Snapshot::new(nodes.into_iter().map(Arc::new).collect(), Arc::new(objects(world, deleting_claims)))
}

/// What the scheduler is seen to do for the pod.
fn check(number: &str, case: &Value) -> Result<(), String> {
    let (world, mode) = (&case["world"], text(case, "/mode"));
    let newcomer = pod(&world["pod"], world);
    let expect = |what: &str, ours: &str, theirs: &str| {
        if ours == theirs { Ok(()) } else { Err(format!("{what}\n   ours   {ours}\n   theirs {theirs}")) }
    };
    let run = &case["runs"][0];
    if mode == "direct" {
        // The pod has a node already: none of the scheduler's business.
        return expect("node", newcomer.node_name().unwrap_or(""), text(run, "/node"));
    }
    let profile = Profile::default();
    let theirs = text(run, "/podScheduled/message");
    if profile.pre_enqueue.iter().any(|plugin| !plugin.pre_enqueue(&newcomer).is_success()) {
        return expect("gated", GATED_MESSAGE, theirs);
    }
    let snapshot = snapshot(world, mode == "pvcdel");
    let seen: BTreeSet<&str> = list(case, "chosenSet").iter().filter_map(Value::as_str).collect();
    let mut chosen: BTreeSet<String> = BTreeSet::new();
    // Every way a tie among up to four nodes can break.
    for chance in 0..12 {
        match decide(&profile, &newcomer, &snapshot, chance) {
            Decision::Bind { before, .. } if mode == "wffc" => check_volumes(&before, run)?,
            Decision::Bind { result, .. } => {
                if !seen.contains(&*result.suggested_host)
                    && !MISSED_TIES.contains(&(number, &result.suggested_host))
                {
                    return Err(format!(
                        "chose {}, not of {seen:?} {theirs} {:?}",
                        result.suggested_host, result.top
                    ));
                }
                chosen.insert(result.suggested_host.to_string());
            }
            Decision::Unschedulable { error, preemption } => {
                expect("message", &error.to_string(), theirs)?;
                let nominated = preemption.nominated.as_ref();
                expect("nominated", nominated.map_or("", |n| &*n.node), text(run, "/nominatedNodeName"))?;
                let ours: BTreeSet<&str> =
                    nominated.iter().flat_map(|n| &n.victims).map(|v| v.name()).collect();
                let theirs: BTreeSet<&str> = list(run, "victims").iter().map(|v| text(v, "/name")).collect();
                expect("victims", &format!("{ours:?}"), &format!("{theirs:?}"))?;
            }
        }
    }
    match seen.iter().find(|node| mode == "repeat" && !chosen.contains(**node)) {
        Some(node) => Err(format!("{node} is as good as {chosen:?}")),
        None => Ok(()),
    }
}

fn check_volumes(before: &[PreBindAction], run: &Value) -> Result<(), String> {
    for action in before {
        match action {
            PreBindAction::BindVolume { volume, .. }
                if list(run, "pvsWithClaimRef").iter().any(|v| v == volume) => {}
            PreBindAction::SelectNode { claim, node, .. } if run["pvcSelectedNode"][claim] == **node => {}
            other => return Err(format!("{other:?}, theirs {run}")),
        }
    }
    if before.is_empty() { Err("nothing planned for the claim".to_owned()) } else { Ok(()) }
}

#[test]
fn the_recorded_worlds_end_as_they_did_in_kubernetes() {
    let Some(dir) = cases_dir() else {
        println!("skipped: no cases");
        return;
    };
    let mut files: Vec<_> = std::fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "json"));
    files.sort();
    let mut failed = Vec::new();
    for file in &files {
        let case: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
        let name = file.file_name().unwrap().to_string_lossy();
        if let Err(why) = check(&name[..3], &case) {
            failed.push(format!("{name}: {why}"));
        }
    }
    let passed = files.len() - failed.len();
    println!("scheduler worlds: {passed} passed, {} failed, 0 not yet", failed.len());
    failed.iter().for_each(|line| println!("  {line}"));
    assert!(
        passed >= FLOOR,
        "{passed} of {} worlds pass, the floor is {FLOOR}:\n{}",
        files.len(),
        failed.join("\n")
    );
}
