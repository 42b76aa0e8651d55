//! The order of merged lists.
//!
//! Two orders compete: the patch's (what the user wrote) and the server's (what is there, with elements that only the
//! server knows). The patch wins among its own elements; the others keep their place relative to those that both know.
//!
//! # Invariants
//! 1. Nothing is lost or doubled: the result is a permutation.
//! 2. Elements of the patch come in the patch's order.
//!
//! # In Kubernetes
//! `mergePatchIntoOriginal`, `normalizeElementOrder`, `mergeSortedSlice` in `strategicpatch/patch.go`. Their comparison isn't a
//! total order, so the sort must be the same insertion sort for the same result.

use serde_json::{Map, Value};

use super::super::merge_keys::{MergeStrategy, Schema};
use super::super::{PatchError, go_value};
use super::lists::{is_delete, key_of};
use super::{Mode, SET_ELEMENT_ORDER, merge_list, without_directives};

/// Merges each list that has a `$setElementOrder`, and takes both out of the patch.
pub(super) fn merge_ordered_lists(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    schema: Schema<'_>,
    mode: Mode,
) -> Result<(), PatchError> {
    let directives: Vec<String> =
        patch.keys().filter(|k| k.starts_with(SET_ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let wanted = patch.remove(&directive).unwrap_or_default();
        if mode == Mode::JoinPatches {
            let kept = original.entry(directive.clone()).or_insert_with(|| wanted.clone());
            if *kept != wanted {
                return Err(bad_order());
            }
        }
        let Value::Array(wanted) = wanted else { return Err(bad_order()) };
        let name = &directive[SET_ELEMENT_ORDER.len()..];
        let (rule, inner) = schema.field(name);
        let key = match rule.strategy {
            MergeStrategy::MergeBy(key) => Some(key),
            _ => None,
        };
        let change = patch.remove(name).map(into_list).transpose()?;
        check_order(change.as_deref().unwrap_or_default(), &wanted, key)?;
        let old = original.remove(name).map(into_list).transpose()?;
        let server_order = old.clone().unwrap_or_default();
        let merged = match (old, change) {
            (None, None) => continue,
            (Some(old), None) => old,
            (None, Some(new)) if mode == Mode::Apply => {
                new.into_iter().filter_map(without_directives).collect()
            }
            (None, Some(new)) => new,
            (Some(old), Some(new)) => merge_list(old, new, rule, inner, mode)?,
        };
        let (from_patch, server_only) = partition(merged, &wanted, key);
        let ordered = normalize(from_patch, server_only, &wanted, &server_order, key)?;
        original.insert(name.to_string(), Value::Array(ordered));
    }
    Ok(())
}

fn bad_order() -> PatchError {
    PatchError::Bad("invalid patch format of setElementOrder list".into())
}

fn into_list(value: Value) -> Result<Vec<Value>, PatchError> {
    match value {
        Value::Array(items) => Ok(items),
        _ => Err(bad_order()),
    }
}

/// The patch's elements must appear in the same order in `$setElementOrder`.
fn check_order(patch: &[Value], wanted: &[Value], key: Option<&str>) -> Result<(), PatchError> {
    let mut places = wanted.iter();
    for element in patch.iter().filter(|e| key.is_none() || !is_delete(e)) {
        if !places.any(|place| same(place, element, key)) {
            let (patch, wanted) = (go_value(&patch.to_vec().into()), go_value(&wanted.to_vec().into()));
            return Err(PatchError::Bad(format!(
                "The order in patch list:\n{patch}\n doesn't match $setElementOrder list:\n{wanted}\n"
            )));
        }
    }
    Ok(())
}

fn same(a: &Value, b: &Value, key: Option<&str>) -> bool {
    match key {
        Some(key) => a.get(key).is_some() && a.get(key) == b.get(key),
        None => a == b,
    }
}

fn index(order: &[Value], element: &Value, key: Option<&str>) -> Option<usize> {
    order.iter().position(|o| same(o, element, key))
}

/// Splits into the elements that `by` names and the others.
pub(super) fn partition(merged: Vec<Value>, by: &[Value], key: Option<&str>) -> (Vec<Value>, Vec<Value>) {
    merged.into_iter().partition(|element| index(by, element, key).is_some())
}

/// Sorts each part by its own order, then interleaves them by the server's order.
pub(super) fn normalize(
    from_patch: Vec<Value>,
    server_only: Vec<Value>,
    patch_order: &[Value],
    server_order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    let right = sort_by_order(from_patch, patch_order, key)?;
    let left = sort_by_order(server_only, server_order, key)?;
    Ok(interleave(left, right, server_order, key))
}

/// Sorts by the position in `order`; elements to be deleted go to the end.
pub(in crate::patch) fn sort_by_order(
    elements: Vec<Value>,
    order: &[Value],
    key: Option<&str>,
) -> Result<Vec<Value>, PatchError> {
    if let Some(key) = key {
        elements.iter().chain(order).try_for_each(|e| key_of(e, key).map(drop))?;
    }
    let (deletions, mut sorted): (Vec<_>, Vec<_>) =
        elements.into_iter().partition(|e| key.is_some() && is_delete(e));
    // Not a total order (unknown elements count as smaller than everything), hence no library sort.
    let less = |a: &Value, b: &Value| match (index(order, a, key), index(order, b, key)) {
        (Some(a), Some(b)) => a < b,
        _ => true,
    };
    for i in 1..sorted.len() {
        let mut j = i;
        while j > 0 && less(&sorted[j], &sorted[j - 1]) {
            sorted.swap(j, j - 1);
            j -= 1;
        }
    }
    sorted.extend(deletions);
    Ok(sorted)
}

/// Inserts `left` into `right`: before the first element that the server has behind it.
fn interleave(left: Vec<Value>, right: Vec<Value>, server_order: &[Value], key: Option<&str>) -> Vec<Value> {
    let place = |element: &Value| index(server_order, element, key);
    let (mut left, mut right) = (left.into_iter().peekable(), right.into_iter().peekable());
    let mut all = Vec::with_capacity(left.len() + right.len());
    loop {
        let take_left = match (left.peek(), right.peek()) {
            (None, None) => return all,
            (Some(_), None) => true,
            (None, Some(_)) => false,
            (Some(l), Some(r)) => place(l).zip(place(r)).is_some_and(|(l, r)| l < r),
        };
        all.extend(if take_left { left.next() } else { right.next() });
    }
}
