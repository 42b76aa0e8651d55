//! Three-way patch: what `kubectl apply` sends.
//!
//! *Step 1 of a pod's journey.* Before: a manifest, and the live object. After: a patch goes to the server.
//!
//! Three objects: what the *last* apply said (kept in an annotation), what the manifest says *now*, and what is *live*. The
//! patch adds and changes whatever differs between live and manifest, and deletes only what the last manifest had and
//! this one lacks. So a field that an autoscaler or a person set is left alone, unless the manifest speaks about it.
//!
//! It is computed as two differences, each looking at half of the question, which are then merged like two patches:
//! additions and changes from live to manifest, deletions from last to manifest.
//!
//! # Invariants
//! 1. Applying the result to the live object gives every field of the manifest.
//! 2. Nothing is deleted that the last manifest didn't have.
//!
//! # In Kubernetes
//! `CreateThreeWayMergePatch` and `diffMaps` in `strategicpatch/patch.go`; `jsonmergepatch.CreateThreeWayJSONMergePatch` for custom kinds.

use serde_json::{Map, Value};

use super::PatchError;
use super::merge::{apply_merge_patch, create_merge_patch};
use super::merge_keys::{MergeStrategy, Schema};
use super::strategic::{DELETE_FROM_PRIMITIVE_LIST, Mode, RETAIN_KEYS, SET_ELEMENT_ORDER, merge_map};
use crate::resource::GroupVersionKind;

mod conflicts;
mod diff_lists;

pub use conflicts::refuse_conflicts;

/// Which half of the question a difference answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Half {
    /// What was added or changed.
    Changes,
    /// What was removed.
    Deletions,
}

/// The strategic merge patch from `current` to `modified`, with deletions from `original` to `modified`.
///
/// # Errors
/// Lists that merge by key whose elements lack it.
// ANCHOR: three-way
pub fn three_way(
    original: &Value,
    modified: &Value,
    current: &Value,
    gvk: &GroupVersionKind,
) -> Result<Value, PatchError> {
    let schema = Schema::Kind(&gvk.kind);
    let empty = Map::new();
    let map = |value: &Value| value.as_object().unwrap_or(&empty).clone();
    let changes = diff_maps(&map(current), &map(modified), schema, Half::Changes, false)?;
    let deletions = diff_maps(&map(original), &map(modified), schema, Half::Deletions, false)?;
    Ok(Value::Object(merge_map(deletions, changes, schema, Mode::JoinPatches)?))
}
// ANCHOR_END: three-way

/// The same as a merge patch (RFC 7386), for custom kinds.
pub fn three_way_merge(original: &Value, modified: &Value, current: &Value) -> Value {
    let empty = Map::new();
    let map = |value: &Value| value.as_object().unwrap_or(&empty).clone();
    let mut changes = Value::Object(create_merge_patch(&map(current), &map(modified)));
    let mut deletions = Value::Object(create_merge_patch(&map(original), &map(modified)));
    keep_nulls(&mut changes, false);
    keep_nulls(&mut deletions, true);
    join_merge_patches(&mut deletions, &changes);
    deletions
}

/// Keeps only deletions, or only what isn't one. Maps that become empty go; those that were empty are values.
fn keep_nulls(patch: &mut Value, nulls: bool) {
    let Value::Object(map) = patch else { return };
    map.retain(|_, value| match value {
        Value::Null => nulls,
        Value::Object(inner) if inner.is_empty() => !nulls,
        Value::Object(_) => {
            keep_nulls(value, nulls);
            value.as_object().is_some_and(|inner| !inner.is_empty())
        }
        _ => !nulls,
    });
}

/// Merges two merge patches; unlike applying one, nulls stay.
fn join_merge_patches(first: &mut Value, second: &Value) {
    match (first, second) {
        (Value::Object(first), Value::Object(second)) => {
            for (key, value) in second {
                join_merge_patches(first.entry(key.clone()).or_insert(Value::Object(Map::new())), value);
            }
        }
        (first, second) => *first = second.clone(),
    }
}

/// One half of the difference between two maps, as a patch.
fn diff_maps(
    original: &Map<String, Value>,
    modified: &Map<String, Value>,
    schema: Schema<'_>,
    half: Half,
    build_retain_keys: bool,
) -> Result<Map<String, Value>, PatchError> {
    let mut patch = Map::new();
    for (key, new) in modified {
        let (rule, inner) = schema.field(key);
        match (original.get(key), new) {
            (Some(Value::Object(old)), Value::Object(new)) if rule.strategy != MergeStrategy::Replace => {
                let changes = diff_maps(old, new, inner, half, rule.retain_keys)?;
                if !changes.is_empty() {
                    patch.insert(key.clone(), Value::Object(changes));
                }
            }
            (Some(Value::Array(old)), Value::Array(new)) => match rule.strategy {
                MergeStrategy::MergeBy(merge_key) => {
                    let diff = diff_lists::of_maps(old, new, inner, merge_key, half, rule.retain_keys)?;
                    insert_list_diff(&mut patch, key, diff);
                }
                MergeStrategy::MergeSet => {
                    insert_list_diff(&mut patch, key, diff_lists::of_scalars(old, new, half))
                }
                MergeStrategy::Default | MergeStrategy::Replace if half == Half::Changes && old != new => {
                    patch.insert(key.clone(), Value::Array(new.clone()));
                }
                MergeStrategy::Default | MergeStrategy::Replace => {}
            },
            (old, new) => {
                if half == Half::Changes && old != Some(new) {
                    patch.insert(key.clone(), new.clone());
                }
            }
        }
    }
    if half == Half::Deletions {
        for key in original.keys().filter(|key| !modified.contains_key(*key)) {
            patch.insert(key.clone(), Value::Null);
        }
    }
    if build_retain_keys {
        let mut keys: Vec<&String> = modified.iter().filter(|(_, v)| !v.is_null()).map(|(k, _)| k).collect();
        keys.sort();
        let has_more = original.keys().any(|key| !modified.contains_key(key));
        if !keys.is_empty() && (!patch.is_empty() || has_more) {
            patch.insert(RETAIN_KEYS.into(), keys.into_iter().cloned().collect());
        }
    }
    Ok(patch)
}

fn insert_list_diff(patch: &mut Map<String, Value>, key: &str, diff: diff_lists::ListDiff) {
    let mut insert = |key: String, list: Vec<Value>| {
        if !list.is_empty() {
            patch.insert(key, Value::Array(list));
        }
    };
    insert(key.to_string(), diff.elements);
    insert(format!("{DELETE_FROM_PRIMITIVE_LIST}{key}"), diff.deletions);
    insert(format!("{SET_ELEMENT_ORDER}{key}"), diff.order);
}

/// Applies a merge patch that [`three_way_merge`] made; for dry runs.
pub fn apply_three_way_merge(current: &mut Value, patch: &Value) {
    apply_merge_patch(current, patch);
}

#[cfg(test)]
mod tests;
