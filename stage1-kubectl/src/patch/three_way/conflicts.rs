//! `kubectl apply --overwrite=false`: a patch that would undo what somebody else changed since the last apply is refused.
//!
//! *Step 1 of a pod's journey.* Before: the three-way patch. After: it is sent, or the two changes are shown side by side.
//!
//! Two patches are compared: ours, and the difference between the last manifest and the live object, which is what others did. They
//! conflict where both speak about one field and say different things. Lists that merge by key are compared element by element.
//!
//! # In Kubernetes
//! `mergingMapFieldsHaveConflicts` in `strategicpatch/patch.go`, `mergepatch.NewErrConflict`.

use serde_json::{Map, Value};

use super::three_way;
use crate::patch::PatchError;
use crate::patch::merge_keys::{MergeStrategy, Schema};
use crate::patch::strategic::SET_ELEMENT_ORDER;
use crate::resource::GroupVersionKind;
use crate::yaml;

/// Compares a patch with what was changed from `original` to `current` by others.
///
/// # Errors
/// [`PatchError::Conflict`], with both.
pub fn refuse_conflicts(
    patch: &Value,
    original: &Value,
    current: &Value,
    gvk: &GroupVersionKind,
) -> Result<(), PatchError> {
    let mut changed = three_way(original, current, original, gvk)?;
    without_order(&mut changed);
    match differ(patch, &changed, Schema::Kind(&gvk.kind), MergeStrategy::Default) {
        true => Err(PatchError::Conflict { patch: yaml::to_yaml(patch), changed: yaml::to_yaml(&changed) }),
        false => Ok(()),
    }
}

/// The order of lists is no change of theirs.
fn without_order(patch: &mut Value) {
    match patch {
        Value::Object(map) => {
            map.retain(|key, _| !key.starts_with(SET_ELEMENT_ORDER));
            map.values_mut().for_each(without_order);
        }
        Value::Array(list) => list.iter_mut().for_each(without_order),
        _ => {}
    }
}

fn differ(left: &Value, right: &Value, schema: Schema<'_>, strategy: MergeStrategy) -> bool {
    match (left, right) {
        (Value::Object(left), Value::Object(right)) => {
            if left.get("$patch") != right.get("$patch") {
                return true;
            }
            strategy != MergeStrategy::Replace && maps_differ(left, right, schema)
        }
        (Value::Array(left), Value::Array(right)) => lists_differ(left, right, schema, strategy),
        (left, right) => left != right,
    }
}

fn maps_differ(left: &Map<String, Value>, right: &Map<String, Value>, schema: Schema<'_>) -> bool {
    left.iter().filter(|(key, _)| !key.starts_with('$')).any(|(key, value)| {
        let (rule, inner) = schema.field(key);
        right.get(key).is_some_and(|other| differ(value, other, inner, rule.strategy))
    })
}

fn lists_differ(left: &[Value], right: &[Value], schema: Schema<'_>, strategy: MergeStrategy) -> bool {
    match strategy {
        MergeStrategy::MergeSet => false,
        MergeStrategy::MergeBy(key) => left.iter().any(|one| {
            let same = right.iter().find(|other| other[key] == one[key]);
            same.is_some_and(|other| differ(one, other, schema, MergeStrategy::Default))
        }),
        MergeStrategy::Default | MergeStrategy::Replace => {
            let sorted = |list: &[Value]| {
                let mut list = list.to_vec();
                if list.iter().all(|one| !one.is_object()) {
                    list.sort_by_key(Value::to_string);
                }
                list
            };
            left.len() != right.len()
                || sorted(left)
                    .iter()
                    .zip(&sorted(right))
                    .any(|(a, b)| differ(a, b, schema, MergeStrategy::Default))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_field_that_others_changed_otherwise_is_a_conflict() {
        let gvk = GroupVersionKind::new("apps", "v1", "Deployment");
        let object = |replicas: i64, image: &str| json!({"spec": {"replicas": replicas, "template": {"spec": {"containers": [{"name": "a", "image": image}]}}}});
        let check = |last: &Value, now: &Value, live: &Value| {
            refuse_conflicts(&three_way(last, now, live, &gvk).unwrap(), last, live, &gvk)
        };
        // They set the number, we change the image.
        let images = |image: &str| json!({"spec": {"template": {"spec": {"containers": [{"name": "a", "image": image}]}}}});
        assert_eq!(check(&images("x"), &images("y"), &object(5, "x")), Ok(()));
        // Both changed the number.
        let conflict = check(&object(1, "x"), &object(2, "x"), &object(5, "x")).unwrap_err();
        assert_eq!(
            conflict.to_string(),
            "patch:\nspec:\n  replicas: 2\n\nconflicts with changes made from original to current:\nspec:\n  replicas: 5\n"
        );
        // Both changed one container's image.
        assert!(check(&object(1, "x"), &object(1, "y"), &object(1, "z")).is_err());
    }
}
