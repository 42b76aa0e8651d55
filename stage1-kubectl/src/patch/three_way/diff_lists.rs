//! The difference of two lists that merge.
//!
//! Lists of maps are compared by key, lists of scalars as sets. Besides the changed elements the patch says in which order
//! the manifest has them all (`$setElementOrder`), because the changed ones alone don't tell.
//!
//! # In Kubernetes
//! `diffLists`, `diffListsOfMaps`, `diffListsOfScalars` in `strategicpatch/patch.go`.

use serde_json::{Value, json};

use super::super::merge_keys::Schema;
use super::super::strategic::lists::{deduplicated, key_of};
use super::super::strategic::order::sort_by_order;
use super::super::{PatchError, go_value};
use super::{Half, diff_maps};

/// What goes into the patch for one list.
#[derive(Debug, Default)]
pub(super) struct ListDiff {
    pub(super) elements: Vec<Value>,
    /// Scalars to delete; maps to delete are elements with `$patch: delete`.
    pub(super) deletions: Vec<Value>,
    pub(super) order: Vec<Value>,
}

/// A list that was empty is added whole; a list that becomes empty needs no order.
fn whole(original: &[Value], modified: &[Value], half: Half) -> Option<ListDiff> {
    let elements = match half {
        _ if !original.is_empty() => return None,
        Half::Changes => modified.to_vec(),
        Half::Deletions => Vec::new(),
    };
    Some(ListDiff { elements, ..ListDiff::default() })
}

/// Elements with the text of their key, sorted by it.
fn keyed<'a>(list: &'a [Value], key: &str) -> Result<Vec<(String, &'a Value)>, PatchError> {
    let with_key = |element: &'a Value| Ok((go_value(key_of(element, key)?), element));
    let mut keyed = list.iter().map(with_key).collect::<Result<Vec<_>, PatchError>>()?;
    // Elements with the same key come out in reverse: upstream's comparison says "less" for equal ones.
    keyed.reverse();
    keyed.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(keyed)
}

pub(super) fn of_maps(
    original: &[Value],
    modified: &[Value],
    schema: Schema<'_>,
    key: &str,
    half: Half,
    build_retain_keys: bool,
) -> Result<ListDiff, PatchError> {
    if let Some(diff) = whole(original, modified, half) {
        return Ok(diff);
    }
    let (mut changed, mut deleted) = (Vec::new(), Vec::new());
    let (old, new) = (keyed(original, key)?, keyed(modified, key)?);
    let (mut old, mut new) = (old.into_iter().peekable(), new.into_iter().peekable());
    loop {
        let order = match (old.peek(), new.peek()) {
            (None, None) => break,
            (Some(_), None) => std::cmp::Ordering::Less,
            (None, Some(_)) => std::cmp::Ordering::Greater,
            (Some((old, _)), Some((new, _))) => old.cmp(new),
        };
        match order {
            std::cmp::Ordering::Equal => {
                let pair = old.next().zip(new.next());
                let ((_, before), (_, after)) = pair.expect("both were peeked");
                if let (Value::Object(before), Value::Object(after)) = (before, after) {
                    let mut patch = diff_maps(before, after, schema, half, build_retain_keys)?;
                    if !patch.is_empty() {
                        patch.insert(key.to_string(), after[key].clone());
                        changed.push(Value::Object(patch));
                    }
                }
            }
            std::cmp::Ordering::Greater => {
                let added = new.next().map(|(_, element)| element.clone());
                changed.extend(added.filter(|_| half == Half::Changes));
            }
            std::cmp::Ordering::Less => {
                let gone = old.next().map(|(_, element)| json!({"$patch": "delete", key: element[key]}));
                deleted.extend(gone.filter(|_| half == Half::Deletions));
            }
        }
    }
    let mut elements = sort_by_order(changed, modified, Some(key))?;
    elements.extend(deleted);
    let same_order = original.len() == modified.len()
        && original.iter().zip(modified).all(|(old, new)| old.get(key) == new.get(key));
    let wanted = !elements.is_empty() || (half == Half::Changes && !same_order);
    let order = modified.iter().filter(|_| wanted).map(|element| json!({key: element[key]})).collect();
    Ok(ListDiff { elements, deletions: Vec::new(), order })
}

pub(super) fn of_scalars(original: &[Value], modified: &[Value], half: Half) -> ListDiff {
    if let Some(diff) = whole(original, modified, half) {
        return diff;
    }
    let missing_in = |from: &[Value], other: &[Value]| -> Vec<Value> {
        deduplicated(from.iter().filter(|value| !other.contains(value)).cloned())
    };
    let (elements, mut deletions) = match half {
        Half::Changes => (missing_in(modified, original), Vec::new()),
        Half::Deletions => (Vec::new(), missing_in(original, modified)),
    };
    deletions.sort_by_key(go_value);
    let wanted = match half {
        Half::Changes => original != modified,
        Half::Deletions => !deletions.is_empty(),
    };
    let order = if wanted { modified.to_vec() } else { Vec::new() };
    ListDiff { elements, deletions, order }
}
