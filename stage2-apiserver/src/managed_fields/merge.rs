//! Merging: the live object with what an applier wants laid over it.
//!
//! Maps and keyed lists are merged part by part, everything else is replaced. The order of a list is a compromise: items that
//! the applier names come in the applier's order, the others stay where they were relative to their neighbours.
//!
//! # Invariants
//! 1. Merging what is already there changes nothing.
//! 2. Every item of either side is in the outcome once.
//!
//! # In Kubernetes
//! `structured-merge-diff/typed/merge.go`.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::field_types::{Form, ListType, MapType, ObjectType, TypeId};
use super::path_element;

/// Lays `applied` over `live`.
pub fn merge(object_type: &ObjectType, live: &Value, applied: &Value) -> Value {
    both(object_type, object_type.root, live, applied)
}

fn both(object_type: &ObjectType, id: TypeId, live: &Value, applied: &Value) -> Value {
    let form = match applied {
        Value::Null => object_type.form(id, live),
        applied => object_type.form(id, applied),
    };
    match (form, live, applied) {
        (Form::Map(MapType { atomic: false, .. }), Value::Object(entries), Value::Null)
            if !entries.is_empty() =>
        {
            live.clone()
        }
        (Form::List(ListType { atomic: false, .. }), Value::Array(items), Value::Null)
            if !items.is_empty() =>
        {
            live.clone()
        }
        (Form::Map(map), Value::Object(old), Value::Object(new))
            if !(map.atomic || old.is_empty() && new.is_empty()) =>
        {
            Value::Object(maps(object_type, map, old, new))
        }
        (Form::List(list), Value::Array(old), Value::Array(new))
            if !(list.atomic || old.is_empty() && new.is_empty()) =>
        {
            Value::Array(lists(object_type, list, old, new))
        }
        (_, _, applied) => applied.clone(),
    }
}

fn maps(
    object_type: &ObjectType,
    map: &MapType,
    live: &Map<String, Value>,
    applied: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = live.clone();
    for (name, new) in applied {
        let value = match (live.get(name), map.field(name)) {
            (Some(old), Some(id)) => both(object_type, id, old, new),
            _ => new.clone(),
        };
        merged.insert(name.clone(), value);
    }
    merged
}

// ANCHOR: merge-lists
/// Merges two lists whose items have keys: walks both at once, and takes from the live one what the applier doesn't name.
fn lists(object_type: &ObjectType, list: &ListType, live: &[Value], applied: &[Value]) -> Vec<Value> {
    let keyed = |items: &[Value]| -> Vec<String> {
        items.iter().map(|item| path_element::of_item(list, item).unwrap_or_default()).collect()
    };
    let (old_keys, new_keys) = (keyed(live), keyed(applied));
    let mut old_by_key: HashMap<&str, Option<&Value>> = HashMap::new();
    for (key, item) in old_keys.iter().zip(live) {
        // Of items that are there twice none can be merged with.
        old_by_key.entry(key).and_modify(|known| *known = None).or_insert(Some(item));
    }
    let named: HashSet<&str> = new_keys.iter().map(String::as_str).collect();
    let mut shared = new_keys.iter().filter(|key| old_by_key.contains_key(key.as_str())).peekable();
    let merged_item = |index: usize| match old_by_key.get(new_keys[index].as_str()) {
        Some(Some(old)) => both(object_type, list.element, old, &applied[index]),
        _ => applied[index].clone(),
    };
    let mut merged = Vec::with_capacity(live.len().max(applied.len()));
    let mut done: HashSet<&str> = HashSet::new();
    let (mut old, mut new) = (0, 0);
    while old < live.len() || new < applied.len() {
        if old < live.len() && new < applied.len() {
            let key = old_keys[old].as_str();
            if key == new_keys[new] {
                merged.push(merged_item(new));
                done.insert(key);
                (old, new) = (old + 1, new + 1);
                shared.next();
                continue;
            }
            if named.contains(key) && shared.peek().is_some_and(|next| *next != key) {
                // The applier wants it at another place.
                old += 1;
                continue;
            }
        }
        if old < live.len() {
            let key = old_keys[old].as_str();
            if !named.contains(key) {
                merged.push(live[old].clone());
                old += 1;
                continue;
            }
            if done.contains(key) {
                old += 1;
            }
        }
        if new < applied.len() {
            let key = new_keys[new].as_str();
            merged.push(merged_item(new));
            done.insert(key);
            new += 1;
            if shared.peek().is_some_and(|next| *next == key) {
                shared.next();
            }
        }
    }
    merged
}
// ANCHOR_END: merge-lists
