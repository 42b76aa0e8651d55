//! Deployments in the simulator, with the real ReplicaSet controller beside them.
//!
//! # In Kubernetes
//! `pkg/controller/deployment/deployment_controller_test.go`, `rolling_test.go`, `sync_test.go`.

use super::*;
use crate::replica_set::ReplicaSetController;
use crate::simulator::harness::{Process, Subject, check, settle};
use crate::simulator::{Cluster, make};
use serde_json::Value;

fn deployment(name: &str, replicas: i32, image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "default", "name": name},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"app": name}}, "progressDeadlineSeconds": 600, "revisionHistoryLimit": 10,
            "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}},
            "template": {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "c", "image": image}]}}}})
}

fn key(name: &str) -> NamespacedName {
    NamespacedName::new("default", name)
}

/// ReplicaSet controller and kubelet take one turn.
fn others(cluster: &mut Cluster) {
    let mut process = Process::start(|factory| make(factory, ReplicaSetController::new), cluster);
    let keys: Vec<NamespacedName> = cluster.list("replicasets").map(|(key, _)| key.clone()).collect();
    for key in keys {
        process.refresh(cluster, |_| true);
        let _ = process.look(cluster, &key, usize::MAX, &mut |_, _| {});
    }
    cluster.run_pods();
}

fn summary(cluster: &Cluster) -> String {
    let sets = cluster.list("replicasets").map(|(key, set)| {
        format!("{key} wants {} has {}", set["spec"]["replicas"], set["status"]["replicas"])
    });
    let deployments = cluster.list("deployments").map(|(key, one)| {
        let conditions = one["status"]["conditions"].as_array().cloned().unwrap_or_default();
        let mut reasons: Vec<String> =
            conditions.iter().map(|condition| condition["reason"].to_string()).collect();
        reasons.sort();
        format!(
            "{key} revision {} available {} {}",
            one["metadata"]["annotations"][revision::REVISION],
            one["status"]["availableReplicas"],
            reasons.join(",")
        )
    });
    deployments.chain(sets).collect::<Vec<_>>().join("\n")
}

fn subject(set_up: fn(&mut Cluster)) -> Subject {
    Subject {
        make: |factory| make(factory, DeploymentController::new),
        primary: "deployments",
        set_up,
        others,
        summary,
    }
}

fn set_image(cluster: &mut Cluster, name: &str, image: &str) {
    cluster.change("deployments", &key(name), |one| {
        one["spec"]["template"]["spec"]["containers"][0]["image"] = json!(image)
    });
}

/// `wanted replicas of each ReplicaSet`, oldest first.
fn sizes(cluster: &Cluster) -> Vec<i64> {
    let mut sets: Vec<(String, i64)> = cluster
        .list("replicasets")
        .map(|(_, set)| {
            (
                set["metadata"]["annotations"][revision::REVISION].to_string(),
                set["spec"]["replicas"].as_i64().unwrap_or(0),
            )
        })
        .collect();
    sets.sort();
    sets.into_iter().map(|(_, size)| size).collect()
}

#[test]
fn promises_hold_for_new_deployments() {
    check(&subject(|cluster| {
        cluster.create("deployments", deployment("web", 3, "img:1"));
        cluster.create("deployments", deployment("db", 1, "img:1"));
    }));
}

#[test]
fn promises_hold_in_the_middle_of_a_rollout() {
    check(&subject(|cluster| {
        cluster.create("deployments", deployment("web", 4, "img:1"));
        settle(&subject(|_| {}), cluster);
        set_image(cluster, "web", "img:2");
    }));
}

#[test]
fn promises_hold_for_recreate() {
    check(&subject(|cluster| {
        let mut one = deployment("web", 2, "img:1");
        one["spec"]["strategy"] = json!({"type": "Recreate"});
        cluster.create("deployments", one);
        settle(&subject(|_| {}), cluster);
        set_image(cluster, "web", "img:2");
    }));
}

#[test]
fn a_rollout_never_leaves_its_limits() {
    for (replicas, most, least) in
        [(1, 2, 1), (2, 3, 2), (3, 4, 3), (4, 5, 3), (5, 7, 4), (6, 8, 5), (10, 13, 8)]
    {
        let mut cluster = Cluster::new();
        cluster.create("deployments", deployment("web", replicas, "img:1"));
        settle(&subject(|_| {}), &mut cluster);
        set_image(&mut cluster, "web", "img:2");
        let mut process = Process::start(|factory| make(factory, DeploymentController::new), &cluster);
        for _ in 0..80 {
            process.refresh(&cluster, |_| true);
            let _ = process.look(&mut cluster, &key("web"), usize::MAX, &mut |_, _| {});
            let alive: Vec<&Value> = cluster
                .list("pods")
                .map(|(_, pod)| pod)
                .filter(|pod| !pod["metadata"]["deletionTimestamp"].is_string())
                .collect();
            let ready = alive.iter().filter(|pod| pod["status"]["conditions"][0]["status"] == "True").count();
            assert!(
                alive.len() <= most && ready >= least,
                "{replicas} replicas: {ready} ready\n{}",
                summary(&cluster)
            );
            others(&mut cluster);
        }
        assert_eq!(sizes(&cluster), [0, replicas as i64], "{}", summary(&cluster));
    }
}

#[test]
fn a_blocked_rollout_is_scaled_in_proportion() {
    let mut cluster = Cluster::new();
    let mut one = deployment("web", 10, "img:1");
    one["spec"]["strategy"]["rollingUpdate"] = json!({"maxSurge": 3, "maxUnavailable": 2});
    cluster.create("deployments", one);
    settle(&subject(|_| {}), &mut cluster);
    cluster.change("deployments", &key("web"), |one| {
        one["spec"]["template"]["metadata"]["annotations"] = json!({"fake": "pending"})
    });
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(sizes(&cluster), [8, 5]);
    cluster.change("deployments", &key("web"), |one| one["spec"]["replicas"] = json!(15));
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(sizes(&cluster), [11, 7]);
    for (_, set) in cluster.list("replicasets") {
        let annotations = &set["metadata"]["annotations"];
        assert_eq!(
            (annotations[revision::DESIRED_REPLICAS].as_str(), annotations[revision::MAX_REPLICAS].as_str()),
            (Some("15"), Some("18"))
        );
    }
}

#[test]
fn going_back_renumbers_the_old_replica_set() {
    let mut cluster = Cluster::new();
    cluster.create("deployments", deployment("web", 1, "img:1"));
    for image in ["img:1", "img:2", "img:1"] {
        set_image(&mut cluster, "web", image);
        settle(&subject(|_| {}), &mut cluster);
    }
    assert_eq!(cluster.list("replicasets").count(), 2);
    let back = cluster.list("replicasets").find(|(_, set)| set["spec"]["replicas"] == 1).unwrap().1;
    assert_eq!(back["metadata"]["annotations"][revision::REVISION], "3");
    assert_eq!(back["metadata"]["annotations"][revision::REVISION_HISTORY], "1");
    assert_eq!(
        cluster.get("deployments", &key("web")).unwrap()["metadata"]["annotations"][revision::REVISION],
        "3"
    );
}

#[test]
fn a_history_of_zero_keeps_only_the_new_replica_set() {
    let mut cluster = Cluster::new();
    let mut one = deployment("web", 1, "img:1");
    one["spec"]["revisionHistoryLimit"] = json!(0);
    cluster.create("deployments", one);
    for image in ["img:1", "img:2", "img:3"] {
        set_image(&mut cluster, "web", image);
        settle(&subject(|_| {}), &mut cluster);
    }
    assert_eq!(cluster.list("replicasets").count(), 1);
}

#[test]
fn a_namesake_with_another_template_raises_the_collision_count() {
    let mut cluster = Cluster::new();
    cluster.create("deployments", deployment("web", 1, "img:1"));
    let wanted: Deployment =
        serde_json::from_value(cluster.get("deployments", &key("web")).unwrap().clone()).unwrap();
    let name = revision::new_replica_set_name(&wanted);
    cluster.create("replicasets", json!({"metadata": {"namespace": "default", "name": name, "labels": {"x": "y"}}, "spec": {"replicas": 0, "selector": {"matchLabels": {"x": "y"}}}}));
    settle(&subject(|_| {}), &mut cluster);
    let status = &cluster.get("deployments", &key("web")).unwrap()["status"];
    assert_eq!((status["collisionCount"].as_i64(), status["availableReplicas"].as_i64()), (Some(1), Some(1)));
}

#[test]
fn a_paused_deployment_scales_and_does_not_roll() {
    let mut cluster = Cluster::new();
    cluster.create("deployments", deployment("web", 2, "img:1"));
    settle(&subject(|_| {}), &mut cluster);
    cluster.change("deployments", &key("web"), |one| one["spec"]["paused"] = json!(true));
    set_image(&mut cluster, "web", "img:2");
    cluster.change("deployments", &key("web"), |one| one["spec"]["replicas"] = json!(4));
    settle(&subject(|_| {}), &mut cluster);
    assert_eq!(sizes(&cluster), [4]);
    let conditions = cluster.get("deployments", &key("web")).unwrap()["status"]["conditions"].to_string();
    assert!(conditions.contains("DeploymentPaused"), "{conditions}");
}

#[test]
fn a_rollout_that_does_not_move_times_out() {
    let mut cluster = Cluster::new();
    let mut one = deployment("web", 1, "img:1");
    one["spec"]["template"]["metadata"]["annotations"] = json!({"fake": "notready"});
    cluster.create("deployments", one);
    settle(&subject(|_| {}), &mut cluster);
    cluster.wait(700);
    settle(&subject(|_| {}), &mut cluster);
    let conditions = cluster.get("deployments", &key("web")).unwrap()["status"]["conditions"].to_string();
    assert!(
        conditions.contains("ProgressDeadlineExceeded") && conditions.contains("has timed out progressing."),
        "{conditions}"
    );
}
