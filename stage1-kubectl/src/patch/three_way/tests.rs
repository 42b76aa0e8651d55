use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::patch::apply_strategic;

fn deployment() -> GroupVersionKind {
    GroupVersionKind::new("apps", "v1", "Deployment")
}

fn pod(containers: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

#[test]
fn a_variable_that_left_the_manifest_is_deleted_and_the_order_stated() {
    let with_b = json!([{"name": "a", "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}, {"name": "side"}]);
    let without = json!([{"name": "a", "env": [{"name": "A", "value": "1"}]}, {"name": "side"}]);
    let patch = three_way(&pod(with_b.clone()), &pod(without), &pod(with_b), &deployment()).unwrap();
    let wanted = json!({"spec": {"template": {"spec": {
        "$setElementOrder/containers": [{"name": "a"}, {"name": "side"}],
        "containers": [{"name": "a", "$setElementOrder/env": [{"name": "A"}], "env": [{"$patch": "delete", "name": "B"}]}],
    }}}});
    assert_eq!(patch, wanted);
}

#[test]
fn what_others_set_is_left_alone() {
    let manifest = json!({"spec": {"replicas": 2}, "metadata": {"labels": {"a": "1"}}});
    let live =
        json!({"spec": {"replicas": 2, "paused": true}, "metadata": {"labels": {"a": "1", "theirs": "x"}}});
    assert_eq!(three_way(&manifest, &manifest, &live, &deployment()).unwrap(), json!({}));
    let last = json!({"spec": {"replicas": 2, "minReadySeconds": 5}});
    let patch = three_way(&last, &manifest, &live, &deployment()).unwrap();
    assert_eq!(patch, json!({"spec": {"minReadySeconds": null}}));
}

#[test]
fn a_union_retains_only_the_named_keys() {
    let last = json!({"spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}});
    let now = json!({"spec": {"strategy": {"type": "Recreate"}}});
    let patch = three_way(&last, &now, &last, &deployment()).unwrap();
    let wanted =
        json!({"spec": {"strategy": {"$retainKeys": ["type"], "rollingUpdate": null, "type": "Recreate"}}});
    assert_eq!(patch, wanted);
}

#[test]
fn custom_kinds_get_a_merge_patch() {
    let last = json!({"spec": {"a": 1, "b": {"c": 1}, "list": [1]}});
    let now = json!({"spec": {"a": 2, "b": {}, "list": [1, 2]}});
    let live = json!({"spec": {"a": 1, "b": {"c": 1}, "list": [1], "theirs": 1}});
    let wanted = json!({"spec": {"a": 2, "b": {"c": null}, "list": [1, 2]}});
    assert_eq!(three_way_merge(&last, &now, &live), wanted);
}

/// Manifests of one kind: containers by name, with variables, and some labels.
fn manifests() -> impl Strategy<Value = Value> {
    let container = ("[x-z]", proptest::collection::btree_map("[A-C]", "[0-9]", 0..3));
    let containers = proptest::collection::btree_map("[a-d]", container, 0..4);
    let labels = proptest::collection::btree_map("[a-c]", "[0-9]", 0..3);
    (containers, labels).prop_map(|(containers, labels)| {
        let containers: Vec<Value> = containers
            .iter()
            .map(|(name, (image, env))| {
                let env: Vec<Value> = env.iter().map(|(n, v)| json!({"name": n, "value": v})).collect();
                json!({"name": name, "image": image, "env": env})
            })
            .collect();
        let mut manifest = pod(containers.into());
        manifest["metadata"] = json!({"labels": labels});
        manifest
    })
}

/// Whether `inner` is in `outer`: maps by key, lists by `name`.
fn contains(outer: &Value, inner: &Value) -> bool {
    match (outer, inner) {
        (Value::Object(outer), Value::Object(inner)) => {
            inner.iter().all(|(k, v)| outer.get(k).is_some_and(|o| contains(o, v)))
        }
        (Value::Array(outer), Value::Array(inner)) => {
            inner.iter().all(|i| outer.iter().any(|o| o.get("name") == i.get("name") && contains(o, i)))
        }
        (outer, inner) => outer == inner,
    }
}

proptest! {
    #[test]
    fn invariant_1_the_result_has_every_field_of_the_manifest(last in manifests(), now in manifests(), live in manifests()) {
        let patch = three_way(&last, &now, &live, &deployment()).unwrap();
        let mut result = live.clone();
        apply_strategic(&mut result, &patch, &deployment()).unwrap();
        prop_assert!(contains(&result, &now), "patch {patch} gives {result}");
    }

    #[test]
    fn invariant_2_without_a_last_manifest_nothing_is_deleted(now in manifests(), live in manifests()) {
        let patch = three_way(&json!({}), &now, &live, &deployment()).unwrap();
        prop_assert!(!patch.to_string().contains("delete") && !patch.to_string().contains("null"), "{patch}");
    }

    #[test]
    fn applying_the_same_manifest_again_sends_nothing(now in manifests()) {
        prop_assert_eq!(three_way(&now, &now, &now, &deployment()).unwrap(), json!({}));
    }
}
