//! ReplicaSets in the simulator.
//!
//! # In Kubernetes
//! `pkg/controller/replicaset/replica_set_test.go`.

use super::*;
use crate::simulator::harness::{Subject, check, settle};
use crate::simulator::{Cluster, make};
use serde_json::json;

fn replica_set(name: &str, app: &str, replicas: i32) -> serde_json::Value {
    json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "metadata": {"namespace": "default", "name": name, "labels": {"app": app}},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": app}},
            "template": {"metadata": {"labels": {"app": app}}, "spec": {"containers": [{"name": "c", "image": "img"}]}}}})
}

fn pod(name: &str, app: &str) -> serde_json::Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name, "labels": {"app": app}},
        "spec": {"containers": [{"name": "c", "image": "img"}]}})
}

fn summary(cluster: &Cluster) -> String {
    let mut lines: Vec<String> =
        cluster.list("replicasets").map(|(key, set)| format!("{key} {}", set["status"])).collect();
    for (key, pod) in cluster.list("pods") {
        let owner = pod["metadata"]["ownerReferences"][0]["name"].as_str().unwrap_or("nobody");
        let name = if key.name.contains('-') { "made" } else { &key.name };
        lines.push(format!("pod {name} of {owner} {}", pod["status"]["phase"]));
    }
    lines.sort();
    lines.join("\n")
}

fn subject(set_up: fn(&mut Cluster)) -> Subject {
    Subject {
        make: |factory| make(factory, ReplicaSetController::new),
        primary: "replicasets",
        set_up,
        others: Cluster::run_pods,
        summary,
    }
}

#[test]
fn promises_hold_when_pods_are_made_and_adopted() {
    check(&subject(|cluster| {
        cluster.create("replicasets", replica_set("web", "web", 3));
        cluster.create("replicasets", replica_set("db", "db", 2));
        cluster.create("pods", pod("orphan", "web"));
        cluster.create("pods", pod("other", "other"));
    }));
}

#[test]
fn promises_hold_when_there_are_too_many_pods() {
    check(&subject(|cluster| {
        cluster.create("replicasets", replica_set("web", "web", 1));
        cluster.create("pods", pod("a", "web"));
    }));
}

#[test]
fn a_pod_whose_labels_change_is_released_and_replaced() {
    let mut cluster = Cluster::new();
    cluster.create("replicasets", replica_set("web", "web", 1));
    let subject = subject(|_| {});
    settle(&subject, &mut cluster);
    let key = cluster.list("pods").next().unwrap().0.clone();
    cluster.change("pods", &key, |pod| pod["metadata"]["labels"]["app"] = json!("quarantine"));
    settle(&subject, &mut cluster);
    assert_eq!(cluster.list("pods").count(), 2);
    assert_eq!(cluster.get("pods", &key).unwrap()["metadata"]["ownerReferences"], json!([]));
}

#[test]
fn the_pod_that_is_missed_least_goes_first() {
    let now = Timestamp::from_second(1_700_000_000).unwrap();
    let pod = |name: &str, node: &str, phase: &str, ready_for: Option<i64>, cost: &str| {
        let conditions = ready_for.map(|seconds| json!([{"type": "Ready", "status": "True", "lastTransitionTime": (now - k8s_openapi::jiff::SignedDuration::from_secs(seconds)).to_string()}]));
        Arc::new(serde_json::from_value::<Pod>(json!({"metadata": {"name": name, "uid": name, "annotations": {scale_down::POD_DELETION_COST: cost}},
            "spec": {"nodeName": node, "containers": []}, "status": {"phase": phase, "conditions": conditions}})).unwrap())
    };
    let pods = [
        pod("old", "n1", "Running", Some(10_000), "0"),
        pod("young", "n1", "Running", Some(10), "0"),
        pod("crowded", "n2", "Running", Some(10_000), "0"),
        pod("cheap", "n1", "Running", Some(10_000), "-5"),
        pod("not-ready", "n1", "Running", None, "0"),
        pod("pending", "n1", "Pending", None, "0"),
        pod("nowhere", "", "Pending", None, "0"),
    ];
    let related = BTreeMap::from([("n1".to_owned(), 1), ("n2".to_owned(), 3)]);
    let order: Vec<String> =
        scale_down::rank(&pods, &related, now).iter().map(|pod| pod.object_name().to_owned()).collect();
    assert_eq!(order, ["nowhere", "pending", "not-ready", "cheap", "crowded", "young", "old"]);
}

#[test]
fn a_refused_creation_becomes_a_condition_and_goes_when_it_works() {
    let set: ReplicaSet = serde_json::from_value(replica_set("web", "web", 1)).unwrap();
    let mut world = World {
        replica_set: Arc::new(set),
        pods: Vec::new(),
        related_on_node: BTreeMap::new(),
        failure: Some(("FailedCreate", "quota".into())),
        now: Timestamp::UNIX_EPOCH,
    };
    let actions = reconcile(&world);
    let Action::UpdateStatus { object, .. } = &actions[0] else {
        panic!("the status comes before the next try: {actions:?}")
    };
    assert_eq!(object["status"]["conditions"][0]["reason"], "FailedCreate");
    assert!(matches!(actions[1], Action::Create { .. }));
    world.replica_set = Arc::new(serde_json::from_value(object.clone()).unwrap());
    world.failure = None;
    let Some(Action::UpdateStatus { object, .. }) =
        reconcile(&world).into_iter().find(|action| matches!(action, Action::UpdateStatus { .. }))
    else {
        panic!("no status")
    };
    assert!(object["status"]["conditions"].is_null());
}
