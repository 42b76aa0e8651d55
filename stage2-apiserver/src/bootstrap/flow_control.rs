//! The flow schemas and priority levels that every cluster has.
//!
//! They steer [`crate::filters::fairness`]; whoever edits one, or adds a schema of their own, changes who waits for whom.
//!
//! # In Kubernetes
//! `apiserver/pkg/apis/flowcontrol/bootstrap/default.go`.

use serde_json::{Value, json};
use stage1_kubectl::object::Object;

use super::defaults::object;

const API_VERSION: &str = "flowcontrol.apiserver.k8s.io/v1";
const EVERYONE: [&str; 2] = ["system:unauthenticated", "system:authenticated"];

/// All of them.
pub fn objects() -> Vec<Object> {
    let mut all = priority_levels();
    all.extend(flow_schemas());
    all
}

fn metadata(name: &str) -> Value {
    json!({ "name": name, "generation": 1, "annotations": {"apf.kubernetes.io/autoupdate-spec": "true"} })
}

fn priority_levels() -> Vec<Object> {
    let level = |name: &str, spec: Value| {
        object(json!({
            "apiVersion": API_VERSION, "kind": "PriorityLevelConfiguration",
            "metadata": metadata(name), "spec": spec, "status": {},
        }))
    };
    let limited = |name: &str, shares: i64, queues: Option<(i64, i64)>, lendable: i64| {
        let response = match queues {
            Some((queues, hand)) => {
                json!({"type": "Queue", "queuing": {"queues": queues, "handSize": hand, "queueLengthLimit": 50}})
            }
            None => json!({"type": "Reject"}),
        };
        let limited = json!({"nominalConcurrencyShares": shares, "limitResponse": response, "lendablePercent": lendable});
        level(name, json!({"type": "Limited", "limited": limited}))
    };
    vec![
        limited("catch-all", 5, None, 0),
        level(
            "exempt",
            json!({"type": "Exempt", "exempt": {"nominalConcurrencyShares": 0, "lendablePercent": 0}}),
        ),
        limited("global-default", 20, Some((128, 6)), 50),
        limited("leader-election", 10, Some((16, 4)), 0),
        limited("node-high", 40, Some((64, 6)), 25),
        limited("system", 30, Some((64, 6)), 33),
        limited("workload-high", 40, Some((128, 6)), 50),
        limited("workload-low", 100, Some((128, 6)), 90),
    ]
}

fn groups(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"kind": "Group", "group": {"name": name}})).collect()
}

fn users(names: &[&str]) -> Vec<Value> {
    names.iter().map(|name| json!({"kind": "User", "user": {"name": name}})).collect()
}

fn kube_system_account(name: &str) -> Vec<Value> {
    vec![json!({"kind": "ServiceAccount", "serviceAccount": {"namespace": "kube-system", "name": name}})]
}

/// A rule about everything.
fn everything(subjects: Vec<Value>) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })
}

/// A rule about objects in namespaces.
fn some(subjects: Vec<Value>, group: &str, resource: &str) -> Value {
    json!({
        "subjects": subjects,
        "resourceRules": [{"verbs": ["get", "create", "update"], "apiGroups": [group], "resources": [resource], "namespaces": ["*"]}],
    })
}

/// Nodes about themselves.
fn own_node() -> Value {
    json!({
        "subjects": groups(&["system:nodes"]),
        "resourceRules": [
            {"verbs": ["*"], "apiGroups": [""], "resources": ["nodes", "nodes/status"], "clusterScope": true, "namespaces": ["*"]},
            {"verbs": ["*"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "namespaces": ["*"]},
        ],
    })
}

/// Health checks.
fn probes() -> Value {
    json!({
        "subjects": groups(&EVERYONE),
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz", "/readyz", "/livez"]}],
    })
}

fn flow_schemas() -> Vec<Object> {
    let (manager, scheduler) = ("system:kube-controller-manager", "system:kube-scheduler");
    let leases = |subjects| some(subjects, "coordination.k8s.io", "leases");
    let leaders = [users(&[manager, scheduler]), kube_system_account("*")].concat();
    let endpoints = [users(&[manager]), kube_system_account("endpoint-controller")].concat();
    let of_groups = |names: &[&str]| everything(groups(names));
    let of_user = |name: &str| everything(users(&[name]));
    let (accounts, by_space) = (everything(kube_system_account("*")), "ByNamespace");
    // Name, priority level, precedence, distinguisher, rule.
    let all: [(&str, &str, i64, &str, Value); 13] = [
        ("exempt", "exempt", 1, "", of_groups(&["system:masters"])),
        ("probes", "exempt", 2, "", probes()),
        ("system-leader-election", "leader-election", 100, "ByUser", leases(leaders)),
        ("endpoint-controller", "workload-high", 150, "ByUser", some(endpoints, "", "endpoints")),
        ("workload-leader-election", "leader-election", 200, "ByUser", leases(kube_system_account("*"))),
        ("system-node-high", "node-high", 400, "ByUser", own_node()),
        ("system-nodes", "system", 500, "ByUser", of_groups(&["system:nodes"])),
        ("kube-controller-manager", "workload-high", 800, by_space, of_user(manager)),
        ("kube-scheduler", "workload-high", 800, by_space, of_user(scheduler)),
        ("kube-system-service-accounts", "workload-high", 900, by_space, accounts),
        ("service-accounts", "workload-low", 9000, "ByUser", of_groups(&["system:serviceaccounts"])),
        ("global-default", "global-default", 9900, "ByUser", of_groups(&EVERYONE)),
        ("catch-all", "catch-all", 10_000, "ByUser", of_groups(&EVERYONE)),
    ];
    all.into_iter()
        .map(|(name, level, precedence, by, rule)| schema(name, level, precedence, by, rule))
        .collect()
}

fn schema(name: &str, level: &str, precedence: i64, distinguisher: &str, rule: Value) -> Object {
    let mut spec = json!({
        "priorityLevelConfiguration": {"name": level}, "matchingPrecedence": precedence, "rules": [rule],
    });
    if !distinguisher.is_empty() {
        spec["distinguisherMethod"] = json!({"type": distinguisher});
    }
    object(json!({
        "apiVersion": API_VERSION, "kind": "FlowSchema",
        "metadata": metadata(name), "spec": spec, "status": {},
    }))
}
