//! What deleting means, object by object.
//!
//! # In Kubernetes
//! `apiserver/pkg/registry/rest/delete_test.go`, `pkg/registry/core/pod/strategy_test.go`.

use serde_json::json;

use super::*;

fn pod(metadata: serde_json::Value, spec: serde_json::Value) -> Object {
    let mut object =
        Object::from_value(json!({"metadata": {"name": "web", "uid": "u1"}, "spec": spec})).unwrap();
    for (name, value) in metadata.as_object().unwrap() {
        object.set(&format!("/metadata/{name}"), value.clone());
    }
    object
}

fn request(grace: Option<i64>) -> DeleteRequest {
    let now = "2026-01-01T00:00:00Z".parse().unwrap();
    DeleteRequest { grace_period_seconds: grace, ..DeleteRequest::at(now) }
}

const POD: DeletionPolicy = DeletionPolicy { graceful: true, orphan_by_default: false };
const OTHER: DeletionPolicy = DeletionPolicy { graceful: false, orphan_by_default: false };
const JOB: DeletionPolicy = DeletionPolicy { graceful: false, orphan_by_default: true };

fn running() -> serde_json::Value {
    json!({"nodeName": "n1", "terminationGracePeriodSeconds": 30})
}

fn marks(plan: DeletePlan) -> (String, i64) {
    let DeletePlan::Mark(object) = plan else { panic!("not marked: {plan:?}") };
    let by = object.get_str("/metadata/deletionTimestamp").unwrap().to_owned();
    (by, object.get_i64("/metadata/deletionGracePeriodSeconds").unwrap())
}

#[test]
fn a_running_pod_gets_its_grace_period() {
    let object = pod(json!({"generation": 1}), running());
    let planned = plan(&object, &request(None), &POD, "pods").unwrap();
    let DeletePlan::Mark(marked) = &planned else { panic!("{planned:?}") };
    assert_eq!(marked.generation(), 2);
    assert_eq!(marks(planned), ("2026-01-01T00:00:30Z".into(), 30));
}

#[test]
fn a_pod_that_runs_nowhere_or_has_ended_goes_at_once() {
    let unscheduled = pod(json!({}), json!({"terminationGracePeriodSeconds": 30}));
    assert!(matches!(plan(&unscheduled, &request(None), &POD, "pods"), Ok(DeletePlan::Remove(_))));
    let mut ended = pod(json!({}), running());
    ended.set("/status/phase", "Succeeded");
    assert!(matches!(plan(&ended, &request(None), &POD, "pods"), Ok(DeletePlan::Remove(_))));
}

#[test]
fn a_second_deletion_can_only_shorten_the_time() {
    let marked = json!({"deletionTimestamp": "2026-01-01T00:00:20Z", "deletionGracePeriodSeconds": 30, "generation": 2});
    let object = pod(marked, running());
    assert_eq!(plan(&object, &request(None), &POD, "pods"), Ok(DeletePlan::Wait));
    assert_eq!(plan(&object, &request(Some(60)), &POD, "pods"), Ok(DeletePlan::Wait));
    let shorter = plan(&object, &request(Some(5)), &POD, "pods").unwrap();
    assert_eq!(marks(shorter), ("2025-12-31T23:59:55Z".into(), 5), "counted from the first request");
    assert!(matches!(plan(&object, &request(Some(0)), &POD, "pods"), Ok(DeletePlan::Remove(_))));
}

#[test]
fn finalizers_hold_an_object() {
    let object = pod(json!({"finalizers": ["example.com/wait"]}), json!({}));
    assert_eq!(
        marks(plan(&object, &request(None), &OTHER, "x").unwrap()),
        ("2026-01-01T00:00:00Z".into(), 0)
    );
    let mut waiting = pod(json!({"finalizers": ["a"]}), running());
    waiting.set("/metadata/deletionTimestamp", "2026-01-01T00:00:00Z");
    waiting.set("/metadata/deletionGracePeriodSeconds", 0);
    assert_eq!(plan(&waiting, &request(Some(0)), &POD, "pods"), Ok(DeletePlan::Wait));
    let mut done = waiting.clone();
    done.set_finalizers(&[]);
    assert!(is_over(&waiting, &done));
    assert!(!is_over(&waiting, &waiting));
    assert!(!is_over(&done, &{
        let mut grace = done.clone();
        grace.set("/metadata/deletionGracePeriodSeconds", 5);
        grace
    }));
}

#[test]
fn propagation_policy_becomes_a_finalizer() {
    let object = pod(json!({}), json!({}));
    let with = |propagation, policy: &DeletionPolicy| {
        let request = DeleteRequest { propagation, ..request(None) };
        match plan(&object, &request, policy, "x").unwrap() {
            DeletePlan::Mark(marked) => marked.finalizers().into_iter().map(str::to_owned).collect(),
            DeletePlan::Remove(_) => Vec::new(),
            DeletePlan::Wait => panic!(),
        }
    };
    assert_eq!(with(Some(Propagation::Foreground), &OTHER), ["foregroundDeletion"]);
    assert_eq!(with(Some(Propagation::Orphan), &OTHER), ["orphan"]);
    assert!(with(None, &OTHER).is_empty());
    assert_eq!(with(None, &JOB), ["orphan"], "a Job deleted without a policy orphans its Pods");
    assert!(with(Some(Propagation::Background), &JOB).is_empty());
}

#[test]
fn preconditions_are_kept() {
    let object = pod(json!({"resourceVersion": "5"}), json!({}));
    let other = DeleteRequest { uid: Some("u2".into()), ..request(None) };
    let refusal = plan(&object, &other, &OTHER, "pods").unwrap_err();
    assert_eq!(
        refusal.message,
        "Operation cannot be fulfilled on pods \"web\": the UID in the precondition (u2) does not match the UID in record (u1). The object might have been deleted and then recreated"
    );
    let stale = DeleteRequest { resource_version: Some("4".into()), ..request(None) };
    assert_eq!(plan(&object, &stale, &OTHER, "pods").unwrap_err().code, 409);
    let right = DeleteRequest { uid: Some("u1".into()), resource_version: Some("5".into()), ..request(None) };
    assert!(plan(&object, &right, &OTHER, "pods").is_ok());
}
