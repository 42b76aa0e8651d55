//! The walks: which fields a value sets, what two values differ in, and a value without some fields.
//!
//! All three go down a value along its type. An atomic list or map is one field, whatever is in it; of a list that is a map
//! each item is one; a struct is no field of its own, but appears in a comparison when it wasn't there before.
//!
//! The comparison is on the way of every write, so it visits what differs and nothing else: equal parts are passed over
//! before their items' keys are made.
//!
//! # Invariants
//! 1. A value compared with itself differs in nothing.
//! 2. Taking nothing away changes nothing.
//!
//! # In Kubernetes
//! `structured-merge-diff/typed/{tofieldset,compare,remove}.go`.

use serde_json::Value;

use super::field_set::{self, FieldSet, Node, attach, mark};
use super::field_types::{Form, ListType, MapType, ObjectType, TypeId};
use super::path_element;

/// The fields that a value sets.
pub fn fields_of(object_type: &ObjectType, value: &Value) -> FieldSet {
    let node = set_fields(object_type, object_type.root, value);
    FieldSet::from_node(node.unwrap_or_default())
}

fn set_fields(object_type: &ObjectType, id: TypeId, value: &Value) -> Option<Node> {
    let mut node = None;
    match (object_type.form(id, value), value) {
        (Form::List(ListType { atomic: true, .. }) | Form::Map(MapType { atomic: true, .. }), _) => {
            mark(&mut node);
        }
        (Form::Scalar(_), _) => mark(&mut node),
        (Form::List(list), Value::Array(items)) => {
            for item in items {
                let Ok(element) = path_element::of_item(list, item) else { continue };
                let mut below = set_fields(object_type, list.element, item);
                if item.is_object() {
                    mark(&mut below);
                }
                attach(&mut node, &element, below);
            }
        }
        (Form::Map(map), Value::Object(entries)) => {
            for (name, entry) in entries {
                let Some(id) = map.field(name) else { continue };
                let mut below = set_fields(object_type, id, entry);
                let is_empty = entry.is_null() || entry.as_object().is_some_and(|entry| entry.is_empty());
                if is_empty || !map.fields.contains_key(name) {
                    mark(&mut below);
                }
                attach(&mut node, &path_element::field(name), below);
            }
        }
        _ => {}
    }
    node
}

// ANCHOR: comparison
/// What differs between an old and a new value.
#[derive(Debug, Default)]
pub struct Comparison {
    /// Fields that are new.
    pub added: FieldSet,
    /// Fields with another value.
    pub modified: FieldSet,
    /// Fields that are gone.
    pub removed: FieldSet,
}

/// Compares two values of a type.
pub fn compare(object_type: &ObjectType, old: &Value, new: &Value) -> Comparison {
    let changes = differences(object_type, object_type.root, Some(old), Some(new));
    let set = |node: Option<Node>| FieldSet::from_node(node.unwrap_or_default());
    Comparison { added: set(changes.added), modified: set(changes.modified), removed: set(changes.removed) }
}
// ANCHOR_END: comparison

impl Comparison {
    /// Nothing differs.
    pub fn is_empty(&self) -> bool {
        self.added.is_empty() && self.modified.is_empty() && self.removed.is_empty()
    }

    /// Without what is below a field.
    pub fn ignore(&mut self, path: &[&str]) {
        self.added.remove_tree(path);
        self.modified.remove_tree(path);
        self.removed.remove_tree(path);
    }
}

/// The differences at a node and below it.
#[derive(Default)]
struct Changes {
    added: Option<Node>,
    modified: Option<Node>,
    removed: Option<Node>,
}

impl Changes {
    fn attach(&mut self, element: &str, below: Changes) {
        attach(&mut self.added, element, below.added);
        attach(&mut self.modified, element, below.modified);
        attach(&mut self.removed, element, below.removed);
    }

    fn leaf(old: Option<&Value>, new: Option<&Value>) -> Changes {
        let mut changes = Changes::default();
        changes.ends(old, new);
        if let (Some(old), Some(new)) = (old, new)
            && old != new
        {
            mark(&mut changes.modified);
        }
        changes
    }

    /// A value that came or went is a difference itself.
    fn ends(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (None, Some(_)) => mark(&mut self.added),
            (Some(_), None) => mark(&mut self.removed),
            _ => {}
        }
    }
}

fn differences(object_type: &ObjectType, id: TypeId, old: Option<&Value>, new: Option<&Value>) -> Changes {
    let Some(shown) = new.or(old) else { return Changes::default() };
    let form = object_type.form(id, shown);
    if let (Some(old_value), Some(new_value)) = (old, new)
        && std::mem::discriminant(&form) != std::mem::discriminant(&object_type.form(id, old_value))
        && !old_value.is_null()
        && !new_value.is_null()
    {
        // A field that was a map and is a text now: one thing went, another came.
        return Changes::leaf(Some(old_value), Some(new_value));
    }
    let form = match (old, shown.is_null()) {
        (Some(old), true) => object_type.form(id, old),
        _ => form,
    };
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Array(items)) => items.is_empty(),
        Some(Value::Object(entries)) => entries.is_empty(),
        _ => false,
    };
    let leaf = match form {
        Form::Scalar(_) => true,
        Form::List(list) => list.atomic || (is_empty(old) && is_empty(new)),
        Form::Map(map) => map.atomic || (is_empty(old) && is_empty(new)),
    };
    if leaf {
        return Changes::leaf(old, new);
    }
    let mut changes = match form {
        Form::List(list) => list_differences(object_type, list, old, new),
        Form::Map(map) => map_differences(object_type, map, old, new),
        Form::Scalar(_) => Changes::default(),
    };
    changes.ends(old, new);
    changes
}

fn map_differences(
    object_type: &ObjectType,
    map: &MapType,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Changes {
    let mut changes = Changes::default();
    let (old, new) = (old.and_then(Value::as_object), new.and_then(Value::as_object));
    let mut visit = |name: &str, before: Option<&Value>, after: Option<&Value>| {
        if let Some(id) = map.field(name) {
            let below = differences(object_type, id, before, after);
            if below.added.is_some() || below.modified.is_some() || below.removed.is_some() {
                changes.attach(&path_element::field(name), below);
            }
        }
    };
    for (name, after) in new.into_iter().flatten() {
        visit(name, old.and_then(|old| old.get(name)), Some(after));
    }
    for (name, before) in old.into_iter().flatten() {
        if new.is_none_or(|new| !new.contains_key(name)) {
            visit(name, Some(before), None);
        }
    }
    changes
}

fn list_differences(
    object_type: &ObjectType,
    list: &ListType,
    old: Option<&Value>,
    new: Option<&Value>,
) -> Changes {
    let mut changes = Changes::default();
    if old == new {
        return changes;
    }
    let (old, new) = (grouped(list, old), grouped(list, new));
    let item =
        |before: Option<&Value>, after: Option<&Value>| differences(object_type, list.element, before, after);
    let gone = old.iter().filter(|(element, _)| find(&new, element).is_empty());
    for (element, before, after) in new
        .iter()
        .map(|(element, after)| (element, find(&old, element), after.as_slice()))
        .chain(gone.map(|(element, before)| (element, before.as_slice(), [].as_slice())))
    {
        let mut below = match (before, after) {
            ([] | [_], [] | [_]) => item(before.first().copied(), after.first().copied()),
            // Items that are there twice have one owner for all: compared, added and removed together.
            ([_, _, ..], [_, _, ..]) => {
                let mut below = Changes::default();
                if before != after {
                    mark(&mut below.modified);
                }
                below
            }
            ([_, _, ..], _) => {
                let mut below = item(None, after.first().copied());
                mark(&mut below.removed);
                below
            }
            _ => {
                let mut below = item(before.first().copied(), None);
                mark(&mut below.added);
                below
            }
        };
        changes.attach(element, std::mem::take(&mut below));
    }
    changes
}

type Grouped<'a> = Vec<(String, Vec<&'a Value>)>;

/// The items of a list by their path element, in order.
fn grouped<'a>(list: &ListType, value: Option<&'a Value>) -> Grouped<'a> {
    let mut groups: Grouped<'a> = Vec::new();
    for item in value.and_then(Value::as_array).into_iter().flatten() {
        let Ok(element) = path_element::of_item(list, item) else { continue };
        match groups.iter_mut().find(|(known, _)| *known == element) {
            Some((_, items)) => items.push(item),
            None => groups.push((element, vec![item])),
        }
    }
    groups
}

fn find<'a, 'b>(groups: &'b Grouped<'a>, element: &str) -> &'b [&'a Value] {
    groups.iter().find(|(known, _)| known == element).map_or(&[], |(_, items)| items)
}

/// The value without some fields. What is emptied by that becomes null.
pub fn without(object_type: &ObjectType, value: &Value, fields: &FieldSet) -> Value {
    remove(object_type, object_type.root, value, fields.root())
}

fn remove(object_type: &ObjectType, id: TypeId, value: &Value, fields: &Node) -> Value {
    let gone = |element: &str| field_set::child(fields, element).is_some_and(field_set::is_member);
    match (object_type.form(id, value), value) {
        (Form::List(list), Value::Array(items)) if !list.atomic && !items.is_empty() => {
            let mut left = Vec::with_capacity(items.len());
            for item in items {
                let element = path_element::of_item(list, item).unwrap_or_default();
                if gone(&element) {
                    continue;
                }
                left.push(match field_set::child(fields, &element) {
                    Some(below) => remove(object_type, list.element, item, below),
                    None => item.clone(),
                });
            }
            if left.is_empty() { Value::Null } else { Value::Array(left) }
        }
        (Form::Map(map), Value::Object(entries)) if !map.atomic && !entries.is_empty() => {
            let mut left = serde_json::Map::new();
            for (name, entry) in entries {
                let element = path_element::field(name);
                if gone(&element) {
                    continue;
                }
                let below = field_set::child(fields, &element).zip(map.field(name));
                let kept = match below {
                    Some((below, id)) => remove(object_type, id, entry, below),
                    None => entry.clone(),
                };
                left.insert(name.clone(), kept);
            }
            if left.is_empty() { Value::Null } else { Value::Object(left) }
        }
        _ => value.clone(),
    }
}
