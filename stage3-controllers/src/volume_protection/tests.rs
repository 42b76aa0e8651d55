//! Claims and volumes that are being deleted.
//!
//! # In Kubernetes
//! `pkg/controller/volume/pvcprotection/pvc_protection_controller_test.go`.

use super::*;
use serde_json::Value;

fn decode<K: serde::de::DeserializeOwned>(value: Value) -> Arc<K> {
    Arc::new(serde_json::from_value(value).unwrap())
}

fn claim(deleted: bool) -> Arc<PersistentVolumeClaim> {
    let at = deleted.then_some("2024-01-01T00:00:00Z");
    decode(
        json!({"metadata": {"namespace": "default", "name": "data", "uid": "c", "resourceVersion": "7", "deletionTimestamp": at,
        "finalizers": ["example.com/hold", CLAIM_FINALIZER]}}),
    )
}

fn pod(node: Option<&str>, grace: Option<i64>) -> Arc<Pod> {
    let at = grace.map(|_| "2024-01-01T00:00:00Z");
    decode(
        json!({"metadata": {"namespace": "default", "name": "p", "deletionTimestamp": at, "deletionGracePeriodSeconds": grace},
        "spec": {"nodeName": node, "containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}}),
    )
}

#[test]
fn a_claim_goes_when_no_pod_with_a_node_uses_it() {
    let decide = |claim, pods| ClaimProtection::reconcile(&(claim, pods));
    assert!(decide(claim(false), vec![]).is_empty());
    assert!(decide(claim(true), vec![pod(Some("n1"), None)]).is_empty());
    assert!(decide(claim(true), vec![pod(Some("n1"), Some(30))]).is_empty());
    for pods in [vec![], vec![pod(None, None)], vec![pod(Some("n1"), Some(0))]] {
        let actions = decide(claim(true), pods);
        let [Action::Patch { patch, .. }] = actions.as_slice() else { panic!("{actions:?}") };
        assert_eq!(patch["metadata"], json!({"finalizers": ["example.com/hold"], "resourceVersion": "7"}));
    }
}

#[test]
fn a_volume_goes_when_it_is_not_bound() {
    let volume = |phase: &str| {
        decode(
            json!({"metadata": {"name": "v", "deletionTimestamp": "2024-01-01T00:00:00Z", "finalizers": [VOLUME_FINALIZER]}, "status": {"phase": phase}}),
        )
    };
    assert!(VolumeProtection::reconcile(&volume("Bound")).is_empty());
    assert_eq!(VolumeProtection::reconcile(&volume("Released")).len(), 1);
}
