//! Merge patch (RFC 7386): the changed part of an object; `null` removes.
//!
//! Lists are replaced as a whole: that is its weakness, and why strategic merge patch exists.
//!
//! # In Kubernetes
//! `jsonpatch.MergePatch` and `CreateMergePatch` of `github.com/evanphx/json-patch`.

use serde_json::{Map, Value};

/// Applies a merge patch.
// ANCHOR: merge-patch
pub fn apply_merge_patch(target: &mut Value, patch: &Value) {
    let Value::Object(changes) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Value::Object(Map::new());
    }
    let map = target.as_object_mut().expect("made a map just above");
    for (key, change) in changes {
        match change {
            Value::Null => drop(map.remove(key)),
            change => apply_merge_patch(map.entry(key.clone()).or_insert(Value::Null), change),
        }
    }
}
// ANCHOR_END: merge-patch

/// The merge patch that turns `from` into `to`; an empty map when they are equal.
pub fn create_merge_patch(from: &Map<String, Value>, to: &Map<String, Value>) -> Map<String, Value> {
    let mut patch = Map::new();
    for (key, new) in to {
        match (from.get(key), new) {
            (None, new) => drop(patch.insert(key.clone(), new.clone())),
            (Some(old), new) if old == new => {}
            (Some(Value::Object(old)), Value::Object(new)) => {
                let inner = create_merge_patch(old, new);
                if !inner.is_empty() {
                    patch.insert(key.clone(), Value::Object(inner));
                }
            }
            (Some(_), new) => drop(patch.insert(key.clone(), new.clone())),
        }
    }
    for key in from.keys().filter(|key| !to.contains_key(*key)) {
        patch.insert(key.clone(), Value::Null);
    }
    patch
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::patch::strategic::tests::maps;

    #[test]
    fn the_examples_of_the_rfc() {
        let cases = [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ];
        for (mut target, patch, wanted) in cases {
            apply_merge_patch(&mut target, &patch);
            assert_eq!(target, wanted);
        }
    }

    proptest! {
        #[test]
        fn a_created_patch_leads_from_one_to_the_other(from in maps(), to in maps()) {
            let patch = create_merge_patch(from.as_object().unwrap(), to.as_object().unwrap());
            let mut target = from.clone();
            apply_merge_patch(&mut target, &Value::Object(patch));
            prop_assert_eq!(target, to);
        }
    }
}
