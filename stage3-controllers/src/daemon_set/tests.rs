//! DaemonSets in the simulator.
//!
//! # In Kubernetes
//! `pkg/controller/daemon/daemon_controller_test.go`, `update_test.go`.

use super::*;
use crate::simulator::harness::{Subject, check, settle};
use crate::simulator::{Cluster, make};
use serde_json::{Value, json};

fn node(cluster: &mut Cluster, name: &str, taint: Option<&str>) {
    let taints = taint.map(|key| json!([{"key": key, "effect": "NoSchedule"}]));
    cluster.create(
        "nodes",
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": {"taints": taints}}),
    );
}

fn daemon_set(image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"namespace": "default", "name": "agent"},
        "spec": {"selector": {"matchLabels": {"app": "agent"}}, "updateStrategy": {"type": "RollingUpdate"},
            "template": {"metadata": {"labels": {"app": "agent"}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

/// Binds each pod to the node that its affinity names, as the scheduler does.
fn others(cluster: &mut Cluster) {
    let pods: Vec<(NamespacedName, Pod)> = cluster
        .list("pods")
        .map(|(key, pod)| (key.clone(), serde_json::from_value(pod.clone()).unwrap()))
        .collect();
    for (key, pod) in pods {
        cluster.change("pods", &key, |value| value["spec"]["nodeName"] = json!(node_fit::target_node(&pod)));
    }
    cluster.run_pods();
}

fn summary(cluster: &Cluster) -> String {
    let mut pods: Vec<String> = cluster
        .list("pods")
        .map(|(_, pod)| format!("{} {}", pod["spec"]["nodeName"], pod["spec"]["containers"][0]["image"]))
        .collect();
    pods.sort();
    let status = cluster.list("daemonsets").map(|(_, one)| one["status"].to_string()).collect::<String>();
    format!("{}\n{status}", pods.join("\n"))
}

fn set_up(cluster: &mut Cluster) {
    node(cluster, "n1", None);
    node(cluster, "n2", None);
    node(cluster, "n3", Some("dedicated"));
    node(cluster, "n4", Some("node.kubernetes.io/unschedulable"));
    cluster.create("daemonsets", daemon_set("img:1"));
}

fn subject(set_up: fn(&mut Cluster)) -> Subject {
    Subject {
        make: |factory| make(factory, DaemonSetController::new),
        primary: "daemonsets",
        set_up,
        others,
        summary,
    }
}

#[test]
fn promises_hold_for_daemon_sets() {
    check(&subject(set_up));
}

#[test]
fn every_node_that_fits_has_one_and_updates_go_one_by_one() {
    let mut cluster = Cluster::new();
    set_up(&mut cluster);
    settle(&subject(|_| {}), &mut cluster);
    assert!(
        summary(&cluster).starts_with("\"n1\" \"img:1\"\n\"n2\" \"img:1\"\n\"n4\" \"img:1\"\n"),
        "{}",
        summary(&cluster)
    );
    let key = NamespacedName::new("default", "agent");
    cluster.change("daemonsets", &key, |one| {
        one["spec"]["template"]["spec"]["containers"][0]["image"] = json!("img:2")
    });
    settle(&subject(|_| {}), &mut cluster);
    assert!(!summary(&cluster).contains("img:1"), "{}", summary(&cluster));
    assert_eq!(cluster.list("controllerrevisions").count(), 2);
    let status = &cluster.get("daemonsets", &key).unwrap()["status"];
    assert_eq!(
        (
            status["desiredNumberScheduled"].as_i64(),
            status["numberAvailable"].as_i64(),
            status["updatedNumberScheduled"].as_i64()
        ),
        (Some(3), Some(3), Some(3))
    );
}
