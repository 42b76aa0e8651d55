//! Merging lists: maps by key, scalars as sets.
//!
//! An element of the patch with `$patch: delete` removes its partner; one that is only `$patch: replace` throws the whole
//! old list away; all others are merged into the element with the same key, or added.
//!
//! # In Kubernetes
//! `mergeSlice`, `mergeSliceWithSpecialElements`, `mergeSliceWithoutSpecialElements` in `strategicpatch/patch.go`.

use serde_json::{Map, Value};

use super::super::merge_keys::Schema;
use super::super::{PatchError, go_value};
use super::{DIRECTIVE, Mode, merge_map, order, without_directives};

/// The value of the merge key of an element.
pub(in crate::patch) fn key_of<'a>(element: &'a Value, key: &str) -> Result<&'a Value, PatchError> {
    element.get(key).ok_or_else(|| PatchError::NoMergeKey { map: go_value(element), key: key.to_string() })
}

/// Whether an element only says that its partner is to be deleted.
pub(in crate::patch) fn is_delete(element: &Value) -> bool {
    element.get(DIRECTIVE).is_some_and(|d| d == "delete")
}

fn into_map(element: Value) -> Result<Map<String, Value>, PatchError> {
    match element {
        Value::Object(map) => Ok(map),
        other => Err(PatchError::Bad(format!(
            "expected a map in a list that merges by key, got {}",
            go_value(&other)
        ))),
    }
}

/// Merges two lists of maps by key.
pub(super) fn merge_maps(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    schema: Schema<'_>,
    mode: Mode,
) -> Result<Vec<Value>, PatchError> {
    let (original, patch) = obey_directives(original, patch, key)?;
    let mut merged = original.clone();
    for element in &patch {
        let value = key_of(element, key)?;
        let found = merged.iter().position(|m| m.get(key) == Some(value));
        match found {
            Some(at) => {
                let old = into_map(std::mem::take(&mut merged[at]))?;
                merged[at] = Value::Object(merge_map(old, into_map(element.clone())?, schema, mode)?);
            }
            None if mode == Mode::Apply => merged.extend(without_directives(element.clone())),
            None => merged.push(element.clone()),
        }
    }
    let (from_patch, server_only) = order::partition(merged, &patch, Some(key));
    order::normalize(from_patch, server_only, &patch, &original, Some(key))
}

/// Carries out `$patch` in elements; returns the list without what is deleted, and the patch without directives.
fn obey_directives(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), PatchError> {
    let mut data = Vec::new();
    let mut replace = false;
    for element in patch {
        match element.get(DIRECTIVE).map(|d| d.as_str().unwrap_or_default()) {
            None => data.push(element),
            Some("delete") => {
                let value = key_of(&element, key)?.clone();
                original.retain(|o| o.get(key) != Some(&value));
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(PatchError::Bad("merging lists cannot yet be specified in the patch".into()));
            }
            Some(other) => {
                let map = go_value(&element);
                return Err(PatchError::Bad(format!("unknown patch type: {other} in map: {map}")));
            }
        }
    }
    Ok(if replace { (data, Vec::new()) } else { (original, data) })
}

/// Joins two lists of scalars into one without duplicates.
pub(super) fn merge_scalars(original: Vec<Value>, patch: Vec<Value>) -> Vec<Value> {
    let merged = deduplicated(original.iter().chain(&patch).cloned());
    let (from_patch, server_only) = order::partition(merged, &patch, None);
    order::normalize(from_patch, server_only, &patch, &original, None)
        .expect("scalars have no merge key to miss")
}

/// `$deleteFromPrimitiveList/finalizers`: takes scalars out of a list.
pub(super) fn delete_scalars(original: &mut Map<String, Value>, list: &str, gone: &Value) {
    if let (Some(Value::Array(items)), Value::Array(gone)) = (original.get_mut(list), gone) {
        items.retain(|item| !gone.contains(item));
    }
}

/// The first of each value, in order.
pub(in crate::patch) fn deduplicated(values: impl IntoIterator<Item = Value>) -> Vec<Value> {
    let mut distinct: Vec<Value> = Vec::new();
    for value in values {
        if !distinct.contains(&value) {
            distinct.push(value);
        }
    }
    distinct
}
