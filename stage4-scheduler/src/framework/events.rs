//! Events: what an update of a node or a pod changed, in Kubernetes' words.
//!
//! *Beside a pod's journey through this stage.* Before: [`crate::event_handlers`] has an old and a new version. After: the queue hears of the
//! update only if something changed that scheduling may depend on, and counts whom it woke under what changed.
//!
//! A node is written every few seconds: its kubelet renews the time of each condition. Compared are the conditions' answers
//! and not their times, or every heartbeat would be news.
//!
//! # Invariants
//! 1. No word, no event.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/events.go` (`NodeSchedulingPropertiesChange`, `PodSchedulingPropertiesChange`). There an update with
//! several changes is an event for each; here it is one event, named by the first, in the same order. Cordoning a node is none in both.
//! Left out: resource claims.

use std::collections::BTreeMap;

use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::resource::Resource;

/// The first change of a node that matters, if there is one.
pub fn node_scheduling_properties_change(old: &NodeInfo, new: &NodeInfo) -> Option<&'static str> {
    if old.unschedulable() && !new.unschedulable() {
        Some("UpdateNodeTaint")
    } else if old.allocatable() != new.allocatable() {
        Some("UpdateNodeAllocatable")
    } else if old.labels() != new.labels() {
        Some("UpdateNodeLabel")
    } else if old.taints() != new.taints() {
        Some("UpdateNodeTaint")
    } else if answers(old) != answers(new) {
        Some("UpdateNodeCondition")
    } else if old.annotations() != new.annotations() {
        Some("UpdateNodeAnnotation")
    } else {
        None
    }
}

/// Conditions by type, without their times and words.
fn answers(node: &NodeInfo) -> BTreeMap<&str, &str> {
    node.conditions().iter().map(|condition| (condition.type_.as_str(), condition.status.as_str())).collect()
}

/// The first change of a pod that has a word of its own.
pub fn pod_scheduling_properties_change(old: &PodInfo, new: &PodInfo) -> Option<&'static str> {
    let gates = |pod: &PodInfo| pod.spec().scheduling_gates.as_ref().map_or(0, Vec::len);
    if old.labels() != new.labels() {
        Some("UpdatePodLabel")
    } else if asks_for_less(&old.requests, &new.requests) {
        Some("UpdatePodScaleDown")
    } else if gates(old) > 0 && gates(new) == 0 {
        Some("UpdatePodSchedulingGatesEliminated")
    } else if old.tolerations().len() != new.tolerations().len() {
        Some("UpdatePodToleration")
    } else {
        None
    }
}

/// Less of anything.
fn asks_for_less(old: &Resource, new: &Resource) -> bool {
    new.cpu_millis < old.cpu_millis
        || new.memory_bytes < old.memory_bytes
        || new.ephemeral_storage_bytes < old.ephemeral_storage_bytes
        || old.scalar.iter().any(|(name, amount)| new.scalar.get(name).is_none_or(|now| now < amount))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;

    fn merged(mut value: Value, patch: Value) -> Value {
        json_merge(&mut value, patch);
        value
    }

    fn json_merge(value: &mut Value, patch: Value) {
        match patch {
            Value::Object(fields) if value.is_object() => {
                for (key, field) in fields {
                    json_merge(&mut value[key], field);
                }
            }
            other => *value = other,
        }
    }

    fn node_change(before: Value, after: Value) -> Option<&'static str> {
        let base = json!({
            "metadata": {"name": "n", "labels": {"zone": "a"}, "annotations": {"a": "1"}},
            "spec": {},
            "status": {"allocatable": {"cpu": "2"}, "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": "2026-11-30T08:00:00Z"}]}
        });
        let node =
            |patch| NodeInfo::of(Arc::new(serde_json::from_value(merged(base.clone(), patch)).unwrap()));
        node_scheduling_properties_change(&node(before), &node(after))
    }

    #[test]
    fn an_update_of_a_node_is_named_by_what_changed() {
        let nothing = || json!({});
        let condition = |status: &str, at: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status, "lastHeartbeatTime": at, "reason": at}]}});
        let taint = || json!({"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}});
        let cordoned = || json!({"spec": {"unschedulable": true}});
        let changes = [
            (json!({"status": {"allocatable": {"cpu": "4"}}}), Some("UpdateNodeAllocatable")),
            (json!({"metadata": {"labels": {"zone": "b"}}}), Some("UpdateNodeLabel")),
            (taint(), Some("UpdateNodeTaint")),
            (condition("False", "2026-11-30T08:00:00Z"), Some("UpdateNodeCondition")),
            (json!({"metadata": {"annotations": {"a": "2"}}}), Some("UpdateNodeAnnotation")),
            (condition("True", "2026-11-30T08:00:05Z"), None),
            (json!({"status": {"images": [{"names": ["i"], "sizeBytes": 1}]}}), None),
            (cordoned(), None),
            (
                merged(taint(), json!({"status": {"allocatable": {"cpu": "4"}}})),
                Some("UpdateNodeAllocatable"),
            ),
        ];
        for (after, word) in changes {
            assert_eq!(node_change(nothing(), after.clone()), word, "{after}");
        }
        assert_eq!(node_change(cordoned(), nothing()), Some("UpdateNodeTaint"), "uncordoned");
        assert_eq!(node_change(taint(), nothing()), Some("UpdateNodeTaint"), "a taint is gone");
    }

    #[test]
    fn an_update_of_a_pod_is_named_by_what_changed() {
        let base = json!({"metadata": {"name": "p", "namespace": "w", "labels": {"app": "a"}}, "spec": {
            "schedulingGates": [{"name": "g"}],
            "containers": [{"name": "c", "resources": {"requests": {"cpu": "2", "example.com/gpu": "1"}}}]}});
        let pod =
            |patch| PodInfo::new(Arc::new(serde_json::from_value(merged(base.clone(), patch)).unwrap()));
        let requests = |requests: Value| json!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}});
        let changes = [
            (json!({"metadata": {"labels": {"app": "b"}}}), Some("UpdatePodLabel")),
            (requests(json!({"cpu": "1", "example.com/gpu": "1"})), Some("UpdatePodScaleDown")),
            (requests(json!({"cpu": "2"})), Some("UpdatePodScaleDown")),
            (requests(json!({"cpu": "3", "example.com/gpu": "1"})), None),
            (json!({"spec": {"schedulingGates": []}}), Some("UpdatePodSchedulingGatesEliminated")),
            (json!({"spec": {"tolerations": [{"operator": "Exists"}]}}), Some("UpdatePodToleration")),
            (json!({"metadata": {"annotations": {"a": "b"}}}), None),
        ];
        for (after, word) in changes {
            let (old, new) = (pod(json!({})), pod(after.clone()));
            assert_eq!(pod_scheduling_properties_change(&old, &new), word, "{after}");
        }
    }
}
