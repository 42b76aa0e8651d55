//! Quotas in the simulator, and what single objects count for.
//!
//! # In Kubernetes
//! `pkg/controller/resourcequota/resource_quota_controller_test.go`, `pkg/quota/v1/evaluator/core/pods_test.go`.

use super::*;
use crate::simulator::harness::{Subject, check};
use crate::simulator::{Cluster, make};
use serde_json::{Value, json};

fn quota(name: &str, spec: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"namespace": "default", "name": name}, "spec": spec})
}

fn pod(name: &str, cpu: Option<&str>) -> Value {
    let resources = cpu.map_or(json!({}), |cpu| json!({"requests": {"cpu": cpu}, "limits": {"cpu": "2"}}));
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "default", "name": name},
        "spec": {"containers": [{"name": "c", "image": "img", "resources": resources}]}})
}

fn used(cluster: &Cluster, name: &str) -> Value {
    cluster.get("resourcequotas", &NamespacedName::new("default", name)).unwrap()["status"]["used"].clone()
}

fn settled(cluster: &mut Cluster) {
    let subject = subject(|_| {});
    crate::simulator::harness::settle(&subject, cluster);
}

fn subject(set_up: fn(&mut Cluster)) -> Subject {
    Subject {
        make: |factory| make(factory, ResourceQuotaController::new),
        primary: "resourcequotas",
        set_up,
        others: Cluster::run_pods,
        summary: |cluster| {
            let all = cluster.list("resourcequotas").map(|(key, quota)| format!("{key} {}", quota["status"]));
            all.collect::<Vec<_>>().join("\n")
        },
    }
}

#[test]
fn what_admission_reserves_asks_for_no_count_and_a_new_limit_does() {
    let typed = |hard: &str, used: &str| {
        let mut quota = quota("q", json!({"hard": {"pods": hard}}));
        quota["status"] = json!({"hard": {"pods": "2"}, "used": {"pods": used}});
        Arc::new(serde_json::from_value::<ResourceQuota>(quota).unwrap())
    };
    let change = |new| Event::Modified { old: typed("2", "0"), new };
    assert!(!asks_for_a_count(&change(typed("2", "1"))));
    assert!(asks_for_a_count(&change(typed("3", "0"))));
    assert!(asks_for_a_count(&Event::Added(typed("2", "0"))));
}

#[test]
fn promises_hold_for_quotas() {
    check(&subject(|cluster| {
        cluster.create(
            "resourcequotas",
            quota("all", json!({"hard": {"pods": "4", "requests.cpu": "2", "count/pods": "9"}})),
        );
        cluster.create(
            "resourcequotas",
            quota("idle", json!({"hard": {"pods": "4"}, "scopes": ["BestEffort"]})),
        );
        cluster.create("pods", pod("a", Some("500m")));
        cluster.create("pods", pod("b", None));
    }));
}

#[test]
fn every_name_is_counted_and_written_as_kubernetes_writes_it() {
    let mut cluster = Cluster::new();
    let hard = json!({"pods": "4", "cpu": "2", "limits.cpu": "4", "services": "5", "services.nodeports": "3", "services.loadbalancers": "1",
        "configmaps": "9", "count/configmaps": "9", "count/deployments.apps": "1", "count/widgets.example.com": "1",
        "requests.storage": "10Gi", "gold.storageclass.storage.k8s.io/requests.storage": "5Gi", "persistentvolumeclaims": "2"});
    cluster.create("resourcequotas", quota("q", json!({"hard": hard})));
    cluster.create("pods", pod("a", Some("500m")));
    cluster.create("pods", pod("b", Some("250m")));
    cluster.create(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "default", "name": "c"}}),
    );
    cluster.create(
        "configmaps",
        json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": "other", "name": "c"}}),
    );
    cluster.create(
        "services",
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"namespace": "default", "name": "s"},
        "spec": {"type": "LoadBalancer", "ports": [{"port": 80}, {"port": 81}]}}),
    );
    cluster.create("persistentvolumeclaims", json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"namespace": "default", "name": "p"},
        "spec": {"storageClassName": "gold", "resources": {"requests": {"storage": "3Gi"}}}}));
    settled(&mut cluster);
    assert_eq!(
        used(&cluster, "q"),
        json!({"pods": "2", "cpu": "750m", "limits.cpu": "4", "services": "1", "services.nodeports": "2", "services.loadbalancers": "1",
            "configmaps": "1", "count/configmaps": "1", "count/deployments.apps": "0",
            "requests.storage": "3Gi", "gold.storageclass.storage.k8s.io/requests.storage": "3Gi", "persistentvolumeclaims": "1"})
    );
}

#[test]
fn a_pod_that_ended_frees_its_quota_but_not_its_place_in_the_store() {
    let mut cluster = Cluster::new();
    cluster
        .create("resourcequotas", quota("q", json!({"hard": {"pods": "1", "cpu": "1", "count/pods": "3"}})));
    let key = cluster.create("pods", pod("a", Some("500m")));
    settled(&mut cluster);
    assert_eq!(used(&cluster, "q"), json!({"pods": "1", "cpu": "500m", "count/pods": "1"}));
    cluster.change("pods", &key, |pod| pod["status"]["phase"] = json!("Succeeded"));
    settled(&mut cluster);
    assert_eq!(used(&cluster, "q"), json!({"pods": "0", "cpu": "0", "count/pods": "1"}));
}

#[test]
fn a_quota_counts_only_the_pods_in_its_scopes() {
    let mut cluster = Cluster::new();
    let high =
        json!({"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]});
    cluster.create("resourcequotas", quota("best", json!({"hard": {"pods": "9"}, "scopes": ["BestEffort"]})));
    cluster.create(
        "resourcequotas",
        quota("rest", json!({"hard": {"pods": "9"}, "scopes": ["NotBestEffort", "NotTerminating"]})),
    );
    cluster.create("resourcequotas", quota("high", json!({"hard": {"pods": "9"}, "scopeSelector": high})));
    cluster.create("pods", pod("a", None));
    cluster.create("pods", pod("b", Some("1")));
    let mut ends = pod("c", Some("1"));
    ends["spec"]["activeDeadlineSeconds"] = json!(60);
    ends["spec"]["priorityClassName"] = json!("high");
    cluster.create("pods", ends);
    settled(&mut cluster);
    for (name, number) in [("best", "1"), ("rest", "1"), ("high", "1")] {
        assert_eq!(used(&cluster, name), json!({"pods": number}), "{name}");
    }
}

#[test]
fn init_containers_count_where_they_are_larger_and_sidecars_always() {
    let mut value = pod("a", Some("100m"));
    value["spec"]["initContainers"] = json!([
        {"name": "side", "restartPolicy": "Always", "resources": {"requests": {"cpu": "50m"}}},
        {"name": "large", "resources": {"requests": {"cpu": "300m", "memory": "1Gi"}}}]);
    value["spec"]["overhead"] = json!({"cpu": "10m"});
    let pod: Pod = serde_json::from_value(value).unwrap();
    let used = usage::of_pod(&pod, Timestamp::UNIX_EPOCH);
    assert_eq!(used["requests.cpu"].to_string(), "360m");
    assert_eq!(used["memory"].to_string(), "1Gi");
    assert_eq!(used["limits.cpu"].to_string(), "2010m");
}
