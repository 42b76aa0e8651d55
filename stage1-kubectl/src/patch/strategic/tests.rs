use proptest::prelude::*;
use serde_json::json;

use super::*;

/// JSON maps of some depth without nulls (a merge patch can't express them).
pub(in crate::patch) fn maps() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        (0..5i64).prop_map(Value::from),
        "[a-c]{0,2}".prop_map(Value::from)
    ];
    let tree = leaf.prop_recursive(3, 20, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..3).prop_map(Value::from),
            proptest::collection::btree_map("[a-d]", inner, 0..4)
                .prop_map(|m| Value::Object(m.into_iter().collect())),
        ]
    });
    proptest::collection::btree_map("[a-d]", tree, 0..4).prop_map(|m| Value::Object(m.into_iter().collect()))
}

fn deployment() -> GroupVersionKind {
    GroupVersionKind::new("apps", "v1", "Deployment")
}

fn pod(containers: Value) -> Value {
    json!({"spec": {"template": {"spec": {"containers": containers}}}})
}

fn patched(original: Value, patch: Value) -> Result<Value, String> {
    let mut target = original;
    apply_strategic(&mut target, &patch, &deployment()).map_err(|e| e.to_string())?;
    Ok(target)
}

#[test]
fn a_container_is_changed_by_name_and_the_others_stay() {
    let before = pod(
        json!([{"name": "a", "image": "1", "env": [{"name": "X", "value": "1"}]}, {"name": "b", "image": "1"}]),
    );
    let after = patched(before, pod(json!([{"name": "a", "image": "2"}, {"name": "c", "image": "9"}])));
    let wanted = pod(json!([
        {"name": "a", "image": "2", "env": [{"name": "X", "value": "1"}]},
        {"name": "c", "image": "9"},
        {"name": "b", "image": "1"},
    ]));
    assert_eq!(after, Ok(wanted));
}

#[test]
fn directives_delete_replace_and_order() {
    let before = pod(json!([{"name": "a"}, {"name": "b"}, {"name": "c"}]));
    let deleted = patched(before.clone(), pod(json!([{"name": "b", "$patch": "delete"}])));
    assert_eq!(deleted, Ok(pod(json!([{"name": "a"}, {"name": "c"}]))));

    let replaced = patched(before.clone(), pod(json!([{"$patch": "replace"}, {"name": "z"}])));
    assert_eq!(replaced, Ok(pod(json!([{"name": "z"}]))));

    let order = json!({"spec": {"template": {"spec": {"$setElementOrder/containers": [{"name": "c"}, {"name": "a"}]}}}});
    assert_eq!(patched(before.clone(), order), Ok(pod(json!([{"name": "b"}, {"name": "c"}, {"name": "a"}]))));

    let unknown = patched(before, pod(json!([{"name": "a", "$patch": "explode"}])));
    assert_eq!(unknown, Err("unknown patch type: explode in map: map[$patch:explode name:a]".into()));
}

#[test]
fn primitive_lists_and_unions_have_their_own_directives() {
    let before = json!({"metadata": {"finalizers": ["a", "b"]}, "spec": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {}}}});
    let patch = json!({
        "metadata": {"$deleteFromPrimitiveList/finalizers": ["a"], "finalizers": ["c"]},
        "spec": {"strategy": {"$retainKeys": ["type"], "type": "Recreate"}},
    });
    let after = json!({"metadata": {"finalizers": ["c", "b"]}, "spec": {"strategy": {"type": "Recreate"}}});
    assert_eq!(patched(before, patch), Ok(after));
}

#[test]
fn an_element_without_its_key_is_refused() {
    let error = patched(pod(json!([{"name": "a"}])), pod(json!([{"image": "x"}]))).unwrap_err();
    assert_eq!(error, "map: map[image:x] does not contain declared merge key: name");
}

#[test]
fn custom_kinds_are_refused() {
    let gvk = GroupVersionKind::new("example.com", "v1", "Widget");
    let error = apply_strategic(&mut json!({}), &json!({}), &gvk).unwrap_err();
    assert_eq!(error.to_string(), "strategic merge patch is not supported for example.com/v1, Kind=Widget");
}

fn containers() -> impl Strategy<Value = Value> {
    let container = ("[a-e]", "[x-z]", proptest::collection::btree_map("[A-C]", "[0-9]", 0..3));
    proptest::collection::vec(container, 0..4).prop_map(|list| {
        let mut seen = std::collections::BTreeSet::new();
        let list = list.into_iter().filter(|(name, ..)| seen.insert(name.clone()));
        list.map(|(name, image, env)| {
            let env: Vec<Value> = env.iter().map(|(n, v)| json!({"name": n, "value": v})).collect();
            json!({"name": name, "image": image, "env": env})
        })
        .collect()
    })
}

proptest! {
    #[test]
    fn invariant_1_an_empty_patch_changes_nothing(before in maps()) {
        prop_assert_eq!(patched(before.clone(), json!({})), Ok(before));
    }

    #[test]
    fn invariant_2_a_second_time_changes_nothing(before in containers(), patch in containers()) {
        let once = patched(pod(before), pod(patch.clone())).unwrap();
        prop_assert_eq!(patched(once.clone(), pod(patch)), Ok(once));
    }

    #[test]
    fn invariant_3_no_directive_is_left(patch in containers()) {
        let mut patch = pod(patch);
        patch["spec"]["template"]["spec"]["$setElementOrder/containers"] = json!([]);
        patch["metadata"] = json!({"$deleteFromPrimitiveList/finalizers": ["x"], "labels": {"$patch": "replace", "a": "b"}});
        if let Ok(after) = patched(json!({}), patch) {
            prop_assert!(!after.to_string().contains('$'));
        }
    }
}
