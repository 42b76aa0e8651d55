//! Tests of the write steps.

use serde_json::json;

use super::update::{Part, before_update};
use super::*;

fn context() -> Context {
    Context { user: Requester::default(), now: Timestamp::UNIX_EPOCH }
}

fn object(value: Value) -> Object {
    Object::from_value(value).expect("a map")
}

fn deployment(replicas: i64, status: Value) -> Object {
    let mut object = object(json!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "d", "namespace": "ns", "uid": "u", "resourceVersion": "1", "generation": 1},
        "spec": {"replicas": replicas, "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
        "status": status,
    }));
    let gvk = object.gvk();
    crate::defaults::apply(&mut object, &gvk);
    object
}

#[test]
fn a_write_to_the_object_keeps_the_status_and_counts_the_generation() {
    let (old, mut new) = (deployment(1, json!({"replicas": 1})), deployment(3, json!({"replicas": 9})));
    let strategy = for_kind(&old.gvk(), true);
    before_update(strategy, Part::Main, &mut new, &old, &context()).expect("valid");
    assert_eq!(new.get("/status"), Some(&json!({"replicas": 1})));
    assert_eq!(new.generation(), 2);
}

#[test]
fn a_write_to_the_status_keeps_the_spec_and_the_generation() {
    let (old, mut new) = (deployment(1, json!({})), deployment(3, json!({"replicas": 3})));
    let strategy = for_kind(&old.gvk(), true);
    before_update(strategy, Part::Status, &mut new, &old, &context()).expect("valid");
    assert_eq!(new.get("/spec/replicas"), Some(&json!(1)));
    assert_eq!(new.get("/status"), Some(&json!({"replicas": 3})));
    assert_eq!(new.generation(), 1);
}

#[test]
fn pods_get_time_to_stop_and_jobs_leave_their_pods_behind() {
    let policy =
        |group: &str, kind: &str| for_kind(&GroupVersionKind::new(group, "v1", kind), true).deletion_policy();
    assert!(policy("", "Pod").graceful && !policy("", "Pod").orphan_by_default);
    assert!(
        policy("batch", "Job").orphan_by_default && policy("", "ReplicationController").orphan_by_default
    );
    assert_eq!(policy("apps", "Deployment"), DeletionPolicy::default());
}

#[test]
fn generated_names_have_five_letters_without_vowels() {
    let suffix = create::random_suffix(u64::MAX);
    assert_eq!(suffix.len(), 5);
    assert!(suffix.bytes().all(|letter| b"bcdfghjklmnpqrstvwxz2456789".contains(&letter)));
}
