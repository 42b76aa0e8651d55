//! One APIService for each group version that this server itself serves: local ones, always available.
//!
//! Clients that want to know which APIs come from where (and `kubectl get apiservices`) read them.
//!
//! # In Kubernetes
//! `pkg/controlplane/apiserver/aggregator.go`. What points to other servers is [`crate::aggregation`]'s.

use serde_json::json;
use stage1_kubectl::object::Object;

use super::defaults::object;
use crate::registry;

/// How groups are ordered: higher first.
const GROUP_PRIORITIES: [(&str, i64); 18] = [
    ("", 18_000),
    ("apps", 17_800),
    ("events.k8s.io", 17_750),
    ("authentication.k8s.io", 17_700),
    ("authorization.k8s.io", 17_600),
    ("autoscaling", 17_500),
    ("batch", 17_400),
    ("certificates.k8s.io", 17_300),
    ("networking.k8s.io", 17_200),
    ("policy", 17_100),
    ("rbac.authorization.k8s.io", 17_000),
    ("storage.k8s.io", 16_800),
    ("scheduling.k8s.io", 16_600),
    ("coordination.k8s.io", 16_500),
    ("node.k8s.io", 16_300),
    ("discovery.k8s.io", 16_200),
    ("flowcontrol.apiserver.k8s.io", 16_100),
    // Also apiextensions.k8s.io, and whatever comes.
    ("admissionregistration.k8s.io", OTHER_GROUPS),
];
const OTHER_GROUPS: i64 = 16_700;

/// All of them; `now` is when they became available.
pub fn api_services(now: &str) -> Vec<Object> {
    let groups = ["", "apiextensions.k8s.io"].into_iter().chain(registry::GROUP_ORDER.iter().copied());
    let mut made: Vec<Object> = Vec::new();
    for group in groups.filter(|group| *group != "apiregistration.k8s.io") {
        for version in registry::versions(group) {
            let service = api_service(group, version, now);
            if !made.iter().any(|other| other.name() == service.name()) {
                made.push(service);
            }
        }
    }
    made
}

fn api_service(group: &str, version: &str, now: &str) -> Object {
    let minimum = GROUP_PRIORITIES.iter().find(|(name, _)| *name == group).map_or(OTHER_GROUPS, |(_, p)| *p);
    let priority = match (group, version) {
        ("", _) => 1,
        ("flowcontrol.apiserver.k8s.io", _) => 21,
        ("autoscaling", "v2") => 30,
        _ => 15,
    };
    let mut service = object(json!({
        "apiVersion": "apiregistration.k8s.io/v1",
        "kind": "APIService",
        "metadata": {
            "name": format!("{version}.{group}"),
            "labels": {"kube-aggregator.kubernetes.io/automanaged": "onstart"},
        },
        "spec": {"version": version, "groupPriorityMinimum": minimum, "versionPriority": priority},
        "status": {"conditions": [{
            "type": "Available", "status": "True", "lastTransitionTime": now,
            "reason": "Local", "message": "Local APIServices are always available",
        }]},
    }));
    if !group.is_empty() {
        service.set("/spec/group", group);
    }
    service
}
