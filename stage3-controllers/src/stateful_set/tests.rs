//! StatefulSets in the simulator.
//!
//! # In Kubernetes
//! `pkg/controller/statefulset/stateful_set_control_test.go`.

use super::*;
use crate::simulator::harness::{Subject, check, settle};
use crate::simulator::{Cluster, make};
use serde_json::{Value, json};

fn stateful_set(spec: Value) -> Value {
    let mut set = json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"namespace": "default", "name": "db"},
        "spec": {"replicas": 3, "serviceName": "db", "selector": {"matchLabels": {"app": "db"}},
            "template": {"metadata": {"labels": {"app": "db"}}, "spec": {"containers": [{"name": "c", "image": "img:1"}]}}}});
    crate::simulator::merge(&mut set["spec"], &spec);
    set
}

fn summary(cluster: &Cluster) -> String {
    let pods = cluster
        .list("pods")
        .map(|(key, pod)| format!("{} {}", key.name, pod["spec"]["containers"][0]["image"]));
    let status = cluster.list("statefulsets").map(|(_, set)| {
        let status = &set["status"];
        format!(
            "replicas {} ready {} current {} updated {} {}",
            status["replicas"],
            status["readyReplicas"],
            status["currentReplicas"],
            status["updatedReplicas"],
            status["currentRevision"] == status["updateRevision"]
        )
    });
    pods.chain(status).collect::<Vec<_>>().join("\n")
}

fn subject(set_up: fn(&mut Cluster)) -> Subject {
    Subject {
        make: |factory| make(factory, StatefulSetController::new),
        primary: "statefulsets",
        set_up,
        others: Cluster::run_pods,
        summary,
    }
}

fn settled(set: Value) -> Cluster {
    let mut cluster = Cluster::new();
    cluster.create("statefulsets", set);
    settle(&subject(|_| {}), &mut cluster);
    cluster
}

fn created(cluster: &Cluster) -> usize {
    cluster.list("pods").count()
}

#[test]
fn promises_hold_for_stateful_sets() {
    check(&subject(|cluster| drop(cluster.create("statefulsets", stateful_set(json!({}))))));
    check(&subject(|cluster| {
        drop(cluster.create("statefulsets", stateful_set(json!({"podManagementPolicy": "Parallel"}))))
    }));
}

#[test]
fn a_pod_that_is_not_ready_holds_up_the_next_one_unless_parallel() {
    let fake = json!({"template": {"metadata": {"annotations": {"fake": "notready"}}}});
    assert_eq!(created(&settled(stateful_set(fake.clone()))), 1);
    let mut parallel = stateful_set(fake);
    parallel["spec"]["podManagementPolicy"] = json!("Parallel");
    assert_eq!(created(&settled(parallel)), 3);
}

#[test]
fn status_counts_are_complete_and_updates_go_down_to_the_partition() {
    let mut cluster = settled(stateful_set(json!({})));
    assert!(
        summary(&cluster).ends_with("replicas 3 ready 3 current 3 updated 3 true"),
        "{}",
        summary(&cluster)
    );
    let key = NamespacedName::new("default", "db");
    let set_image = |cluster: &mut Cluster, partition: i32| {
        cluster.change("statefulsets", &key, |set| {
            set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("img:2");
            set["spec"]["updateStrategy"] =
                json!({"type": "RollingUpdate", "rollingUpdate": {"partition": partition}});
        });
        settle(&subject(|_| {}), cluster);
    };
    set_image(&mut cluster, 2);
    assert_eq!(
        summary(&cluster),
        "db-0 \"img:1\"\ndb-1 \"img:1\"\ndb-2 \"img:2\"\nreplicas 3 ready 3 current 2 updated 1 false"
    );
    set_image(&mut cluster, 0);
    assert_eq!(
        summary(&cluster),
        "db-0 \"img:2\"\ndb-1 \"img:2\"\ndb-2 \"img:2\"\nreplicas 3 ready 3 current 3 updated 3 true"
    );
    let deleted: Vec<&String> =
        cluster.events.iter().filter(|event| event.contains("SuccessfulDelete")).collect();
    assert!(deleted[1].contains("db-1") && deleted[2].contains("db-0"), "{deleted:?}");
}

#[test]
fn claims_are_made_once_and_stay_when_the_set_shrinks() {
    let claim = json!({"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let mut cluster = settled(stateful_set(json!({"volumeClaimTemplates": [claim]})));
    let key = NamespacedName::new("default", "db");
    for replicas in [1, 3] {
        cluster.change("statefulsets", &key, |set| set["spec"]["replicas"] = json!(replicas));
        settle(&subject(|_| {}), &mut cluster);
        assert_eq!(created(&cluster), replicas);
    }
    let names: Vec<&str> = cluster.list("persistentvolumeclaims").map(|(key, _)| key.name.as_str()).collect();
    assert_eq!(names, ["data-db-0", "data-db-1", "data-db-2"]);
}
