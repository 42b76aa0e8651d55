//! Budgets in the simulator.
//!
//! # In Kubernetes
//! `pkg/controller/disruption/disruption_test.go`.

use super::*;
use crate::simulator::harness::{Subject, check, settle};
use crate::simulator::{Cluster, make};
use serde_json::{Value, json};

fn budget(spec: Value) -> Value {
    let mut spec = spec;
    spec["selector"] = json!({"matchLabels": {"app": "a"}});
    json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"namespace": "default", "name": "b"}, "spec": spec})
}

fn pod(name: &str, owner: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name, "labels": {"app": "a"}, "ownerReferences": owner},
        "spec": {"containers": [{"name": "c", "image": "img"}]}})
}

fn subject(set_up: fn(&mut Cluster)) -> Subject {
    Subject {
        make: |factory| make(factory, DisruptionController::new),
        primary: "poddisruptionbudgets",
        set_up,
        others: Cluster::run_pods,
        summary: |cluster| {
            let mut all: Vec<Value> =
                cluster.list("poddisruptionbudgets").map(|(_, one)| one["status"].clone()).collect();
            all.iter_mut().for_each(|status| status["conditions"][0]["lastTransitionTime"] = Value::Null);
            json!(all).to_string()
        },
    }
}

/// A StatefulSet that wants five, with three pods.
fn three_of_five(cluster: &mut Cluster, spec: Value) {
    cluster.create("poddisruptionbudgets", budget(spec));
    let set = cluster.create("statefulsets", json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "default", "name": "s"},
        "spec": {"replicas": 5, "serviceName": "s", "selector": {"matchLabels": {"app": "a"}}, "template": {}}}));
    let uid = cluster.get("statefulsets", &set).unwrap()["metadata"]["uid"].clone();
    let owner = json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "uid": uid, "controller": true}]);
    for name in ["s-0", "s-1", "s-2"] {
        cluster.create("pods", pod(name, owner.clone()));
    }
}

fn numbers(cluster: &Cluster) -> (i64, i64, i64, i64) {
    let key = NamespacedName::new("default", "b");
    let status = &cluster.get("poddisruptionbudgets", &key).unwrap()["status"];
    let number = |name: &str| status[name].as_i64().unwrap();
    (number("disruptionsAllowed"), number("currentHealthy"), number("desiredHealthy"), number("expectedPods"))
}

fn settled(spec: Value) -> Cluster {
    let mut cluster = Cluster::new();
    three_of_five(&mut cluster, spec);
    settle(&subject(|_| {}), &mut cluster);
    cluster
}

#[test]
fn promises_hold_for_budgets() {
    check(&subject(|cluster| three_of_five(cluster, json!({"minAvailable": 1}))));
    check(&subject(|cluster| three_of_five(cluster, json!({"maxUnavailable": "50%"}))));
}

#[test]
fn a_number_counts_pods_and_a_share_counts_what_their_owner_wants() {
    assert_eq!(numbers(&settled(json!({"minAvailable": 1}))), (2, 3, 1, 3));
    assert_eq!(numbers(&settled(json!({"minAvailable": "50%"}))), (0, 3, 3, 5));
    assert_eq!(numbers(&settled(json!({"maxUnavailable": "30%"}))), (0, 3, 3, 5));
    assert_eq!(numbers(&settled(json!({"maxUnavailable": 3}))), (1, 3, 2, 5));
    assert_eq!(numbers(&settled(json!({"maxUnavailable": 9}))), (3, 3, 0, 5));
}

#[test]
fn an_evicted_pod_counts_as_gone_until_two_minutes_passed() {
    let mut cluster = settled(json!({"minAvailable": 1}));
    let (key, now) = (NamespacedName::new("default", "b"), cluster.now.to_string());
    cluster.change("poddisruptionbudgets", &key, |budget| {
        budget["status"]["disruptedPods"] = json!({"s-0": now, "gone": now});
        budget["status"]["disruptionsAllowed"] = json!(1);
    });
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(numbers(&cluster), (1, 2, 1, 3));
    let noted = &cluster.get("poddisruptionbudgets", &key).unwrap()["status"]["disruptedPods"];
    assert_eq!(noted.as_object().unwrap().keys().collect::<Vec<_>>(), ["s-0"]);
    cluster.wait(121);
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(numbers(&cluster), (2, 3, 1, 3));
    let told = "Pod/s-0 Warning NotDeleted: Pod was expected by PDB default/b to be deleted but it wasn't";
    assert!(cluster.events.iter().any(|event| event == told), "{:?}", cluster.events);
}

#[test]
fn pods_that_cannot_be_counted_may_not_be_disrupted() {
    let mut cluster = settled(json!({"maxUnavailable": 3}));
    assert_eq!(numbers(&cluster).0, 1);
    let owner =
        json!([{"apiVersion": "batch/v1", "kind": "Job", "name": "j", "uid": "j", "controller": true}]);
    cluster.create("pods", pod("j-1", owner));
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(numbers(&cluster).0, 0);
    let status =
        &cluster.get("poddisruptionbudgets", &NamespacedName::new("default", "b")).unwrap()["status"];
    assert_eq!(status["conditions"][0]["reason"], "SyncFailed");
    assert_eq!(status["conditions"][0]["message"], "jobs.batch does not implement the scale subresource");
}
