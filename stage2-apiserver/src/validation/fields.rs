//! Fields: reading and writing parts of an object as Go code reads a struct.
//!
//! Validation and defaults are ported from code over Go structs, where an absent field is its zero value. These small functions give the
//! same view of JSON: an absent string is `""`, an absent list is empty, an absent struct is `null` with no fields.
//!
//! # In Kubernetes
//! Nothing: there the decoder fills structs. [`crate::schema`] has made sure of the types before any of this runs.

use serde_json::{Map, Value};

static NULL: Value = Value::Null;

/// A field; `null` when absent.
pub fn child<'a>(value: &'a Value, name: &str) -> &'a Value {
    value.get(name).unwrap_or(&NULL)
}

/// A field by JSON pointer; `null` when absent.
pub fn at<'a>(value: &'a Value, pointer: &str) -> &'a Value {
    value.pointer(pointer).unwrap_or(&NULL)
}

/// The field is there and not `null`.
pub fn has(value: &Value, name: &str) -> bool {
    !child(value, name).is_null()
}

/// A string field; `""` when absent.
pub fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    child(value, name).as_str().unwrap_or_default()
}

/// An integer field; `0` when absent.
pub fn int(value: &Value, name: &str) -> i64 {
    opt_int(value, name).unwrap_or_default()
}

/// An integer field that is a pointer in Go.
pub fn opt_int(value: &Value, name: &str) -> Option<i64> {
    child(value, name).as_i64()
}

/// A boolean field; `false` when absent.
pub fn flag(value: &Value, name: &str) -> bool {
    opt_flag(value, name).unwrap_or_default()
}

/// A boolean field that is a pointer in Go.
pub fn opt_flag(value: &Value, name: &str) -> Option<bool> {
    child(value, name).as_bool()
}

/// A list field; empty when absent.
pub fn list<'a>(value: &'a Value, name: &str) -> &'a [Value] {
    child(value, name).as_array().map(Vec::as_slice).unwrap_or_default()
}

/// A list of strings.
pub fn texts<'a>(value: &'a Value, name: &str) -> Vec<&'a str> {
    list(value, name).iter().filter_map(Value::as_str).collect()
}

/// The entries of a map field, in key order.
pub fn entries<'a>(value: &'a Value, name: &str) -> impl Iterator<Item = (&'a String, &'a Value)> {
    child(value, name).as_object().into_iter().flatten()
}

/// The number of entries of a map field.
pub fn size(value: &Value, name: &str) -> usize {
    child(value, name).as_object().map_or(0, Map::len)
}

/// Sets a field that is absent.
pub fn default_to(value: &mut Value, name: &str, to: impl Into<Value>) {
    if let Value::Object(object) = value {
        let slot = object.entry(name).or_insert(Value::Null);
        if slot.is_null() {
            *slot = to.into();
        }
    }
}

/// A field, made an empty struct when absent.
pub fn child_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    let object = value.as_object_mut().expect("made a map just above");
    let slot = object.entry(name).or_insert(Value::Null);
    if slot.is_null() {
        *slot = Value::Object(Map::new());
    }
    slot
}

/// A field that is there.
pub fn present_mut<'a>(value: &'a mut Value, name: &str) -> Option<&'a mut Value> {
    value.get_mut(name).filter(|child| !child.is_null())
}

/// The items of a list field.
pub fn items_mut<'a>(value: &'a mut Value, name: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(name).and_then(Value::as_array_mut).into_iter().flatten()
}

/// A list field to push to, made empty when absent.
pub fn list_mut<'a>(value: &'a mut Value, name: &str) -> &'a mut Vec<Value> {
    let slot = child_slot(value, name);
    if !slot.is_array() {
        *slot = Value::Array(Vec::new());
    }
    slot.as_array_mut().expect("made a list just above")
}

fn child_slot<'a>(value: &'a mut Value, name: &str) -> &'a mut Value {
    if !value.is_object() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut().expect("made a map just above").entry(name).or_insert(Value::Null)
}

/// Sets a field.
pub fn set(value: &mut Value, name: &str, to: impl Into<Value>) {
    *child_slot(value, name) = to.into();
}

/// Removes a field.
pub fn remove(value: &mut Value, name: &str) -> Option<Value> {
    value.as_object_mut().and_then(|object| object.remove(name))
}
