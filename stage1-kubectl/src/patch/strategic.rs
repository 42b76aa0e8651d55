//! Strategic merge patch: a merge patch that knows which lists are maps.
//!
//! *Step 2 of a pod's journey* (and step 1 with `--local`). Before: `kubectl apply` sent a patch. After: validation.
//!
//! `containers: [{name: web, image: v2}]` changes one container and leaves the others, because the list merges by `name`.
//! What that can't express is said with directives beside the data: `$patch: delete|replace|merge` in a map,
//! `$deleteFromPrimitiveList/finalizers`, `$setElementOrder/containers`, `$retainKeys`. `null` removes a field.
//!
//! The same merge also joins two patches ([`Mode::JoinPatches`], for three-way): then directives are kept, not obeyed.
//!
//! The subtle thing is order: elements that the patch names come in the patch's order, those that only the server has stay
//! where they were relative to the others, as far as both wishes can be met ([`order`]).
//!
//! # Invariants
//! 1. An empty patch changes nothing.
//! 2. Applying the same patch twice gives the same as once, but for lists without a merge key that grow.
//! 3. No directive is left in an object that a patch was applied to.
//!
//! # In Kubernetes
//! `mergeMap` and below in `apimachinery/pkg/util/strategicpatch/patch.go`.

use serde_json::{Map, Value};

use super::merge_keys::{FieldRule, MergeStrategy, Schema, is_built_in};
use super::{PatchError, go_value};
use crate::resource::GroupVersionKind;

pub(super) mod lists;
pub(super) mod order;

pub(super) const DIRECTIVE: &str = "$patch";
pub(super) const RETAIN_KEYS: &str = "$retainKeys";
pub(super) const SET_ELEMENT_ORDER: &str = "$setElementOrder/";
pub(super) const DELETE_FROM_PRIMITIVE_LIST: &str = "$deleteFromPrimitiveList/";

/// What the merge is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// A patch is applied to an object: directives are obeyed.
    Apply,
    /// Two patches become one: directives are kept.
    JoinPatches,
}

/// Applies a strategic merge patch to an object of a built-in kind.
///
/// # Errors
/// [`PatchError::Unsupported`] for custom kinds, else what is wrong with the patch.
pub fn apply_strategic(target: &mut Value, patch: &Value, gvk: &GroupVersionKind) -> Result<(), PatchError> {
    if !is_built_in(gvk) {
        return Err(PatchError::Unsupported(gvk.clone()));
    }
    let (Value::Object(original), Value::Object(patch)) = (&*target, patch) else {
        return Err(PatchError::Bad("invalid JSON document".into()));
    };
    *target =
        Value::Object(merge_map(original.clone(), patch.clone(), Schema::Kind(&gvk.kind), Mode::Apply)?);
    Ok(())
}

/// Merges a patch map into a map.
// ANCHOR: strategic-merge-map
pub(super) fn merge_map(
    mut original: Map<String, Value>,
    mut patch: Map<String, Value>,
    schema: Schema<'_>,
    mode: Mode,
) -> Result<Map<String, Value>, PatchError> {
    if let Some(directive) = patch.remove(DIRECTIVE) {
        return match directive.as_str() {
            Some("replace") => Ok(patch),
            Some("delete") => Ok(Map::new()),
            _ => {
                patch.insert(DIRECTIVE.into(), directive.clone());
                Err(bad_patch_type(&directive, patch))
            }
        };
    }
    retain_keys(&mut original, &mut patch, mode)?;
    order::merge_ordered_lists(&mut original, &mut patch, schema, mode)?;
    for (key, change) in patch {
        match (key.strip_prefix(DELETE_FROM_PRIMITIVE_LIST), mode) {
            (Some(_), Mode::JoinPatches) => drop(original.insert(key, change)),
            (Some(list), Mode::Apply) => lists::delete_scalars(&mut original, list, &change),
            (None, _) => merge_field(&mut original, key, change, schema, mode)?,
        }
    }
    Ok(original)
}
// ANCHOR_END: strategic-merge-map

fn bad_patch_type(directive: &Value, patch: Map<String, Value>) -> PatchError {
    let map = go_value(&Value::Object(patch));
    PatchError::Bad(format!("unknown patch type: {} in map: {map}", go_value(directive)))
}

fn merge_field(
    original: &mut Map<String, Value>,
    key: String,
    change: Value,
    schema: Schema<'_>,
    mode: Mode,
) -> Result<(), PatchError> {
    if change.is_null() {
        original.remove(&key);
        if mode == Mode::JoinPatches {
            original.insert(key, Value::Null);
        }
        return Ok(());
    }
    let (rule, inner) = schema.field(&key);
    let merged = match (original.remove(&key), change) {
        (Some(Value::Object(old)), Value::Object(new)) if rule.strategy != MergeStrategy::Replace => {
            Value::Object(merge_map(old, new, inner, mode)?)
        }
        (Some(Value::Array(old)), Value::Array(new)) => {
            Value::Array(merge_list(old, new, rule, inner, mode)?)
        }
        (Some(_) | None, new) => match mode {
            Mode::JoinPatches => new,
            Mode::Apply => without_directives(new).unwrap_or(Value::Object(Map::new())),
        },
    };
    original.insert(key, merged);
    Ok(())
}

/// Merges a list as its rule says, or replaces it.
pub(super) fn merge_list(
    original: Vec<Value>,
    patch: Vec<Value>,
    rule: FieldRule,
    schema: Schema<'_>,
    mode: Mode,
) -> Result<Vec<Value>, PatchError> {
    match rule.strategy {
        MergeStrategy::MergeBy(key) => lists::merge_maps(original, patch, key, schema, mode),
        MergeStrategy::MergeSet => Ok(lists::merge_scalars(original, patch)),
        MergeStrategy::Default | MergeStrategy::Replace => match mode {
            Mode::Apply => Ok(patch.into_iter().filter_map(without_directives).collect()),
            Mode::JoinPatches => Ok(patch),
        },
    }
}

/// What is new has nothing that its directives could refer to: nulls and directives go, and elements to be deleted too.
pub(super) fn without_directives(value: Value) -> Option<Value> {
    match value {
        Value::Object(map) if map.get(DIRECTIVE).is_some_and(|d| d == "delete") => None,
        Value::Object(map) => {
            let kept = map.into_iter().filter(|(key, value)| {
                !value.is_null()
                    && key != DIRECTIVE
                    && key != RETAIN_KEYS
                    && !key.starts_with(SET_ELEMENT_ORDER)
                    && !key.starts_with(DELETE_FROM_PRIMITIVE_LIST)
            });
            Some(Value::Object(kept.filter_map(|(k, v)| Some((k, without_directives(v)?))).collect()))
        }
        Value::Array(items) => Some(Value::Array(items.into_iter().filter_map(without_directives).collect())),
        other => Some(other),
    }
}

/// `$retainKeys` names every field of a union that stays: the others are removed.
fn retain_keys(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    mode: Mode,
) -> Result<(), PatchError> {
    let Some(wanted) = patch.remove(RETAIN_KEYS) else {
        return Ok(());
    };
    if mode == Mode::JoinPatches {
        original.entry(RETAIN_KEYS).or_insert(wanted);
        return Ok(());
    }
    let bad = || PatchError::Bad("invalid patch format of retainKeys".into());
    let keys = wanted.as_array().ok_or_else(bad)?;
    let retained = |key: &str| keys.iter().any(|k| k == key);
    let is_data = |key: &str, value: &Value| !value.is_null() && !key.starts_with('$');
    if patch.iter().any(|(key, value)| is_data(key, value) && !retained(key)) {
        return Err(bad());
    }
    original.retain(|key, _| retained(key));
    Ok(())
}

#[cfg(test)]
pub(super) mod tests;
