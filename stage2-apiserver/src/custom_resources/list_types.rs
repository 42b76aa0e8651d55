//! List types: a list that is a set has nothing twice, a list that is a map has no key twice.
//!
//! `x-kubernetes-list-type` tells server-side apply how to merge; it is also a promise about what is stored, kept here.
//!
//! # Invariants
//! 1. A list that wasn't changed isn't refused again.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/schema/listtype/validation.go`.

use std::collections::HashSet;

use serde_json::{Map, Value, json};
use stage1_kubectl::status::FieldError;

use super::openapi_validation::{OldItems, identity};
use super::structural::Schema;
use crate::validation::{Errors, field, index, key};

/// What is wrong with the lists of an object.
pub fn validate(value: &Value, old: Option<&Value>, schema: &Schema) -> Errors {
    let mut errors = Errors::new();
    walk(&mut errors, value, old, schema, "");
    errors
}

fn walk(errors: &mut Errors, value: &Value, old: Option<&Value>, schema: &Schema, path: &str) {
    if old == Some(value) {
        return;
    }
    match value {
        Value::Object(fields) => {
            for (name, found) in fields {
                let before = old.and_then(|old| old.get(name));
                if let Some(property) = schema.properties.get(name) {
                    walk(errors, found, before, property, &field(path, name));
                } else if let Some(more) = schema.additional.schema() {
                    walk(errors, found, before, more, &key(path, name));
                }
            }
        }
        Value::Array(items) => {
            duplicates(errors, items, schema, path);
            if let Some(below) = schema.items.as_deref() {
                let before = OldItems::new(schema, old);
                for (at, item) in items.iter().enumerate() {
                    walk(errors, item, before.of(schema, item), below, &index(path, at));
                }
            }
        }
        _ => {}
    }
}

fn duplicates(errors: &mut Errors, items: &[Value], schema: &Schema, path: &str) {
    if !matches!(schema.list_type.as_str(), "set" | "map") {
        return;
    }
    let mut seen: HashSet<String> = HashSet::with_capacity(items.len());
    for (at, item) in items.iter().enumerate() {
        if !seen.insert(identity(schema, item)) {
            errors.push(FieldError::duplicate(index(path, at), shown(schema, item)));
        }
    }
}

/// What is there twice: the item, or its keys.
fn shown(schema: &Schema, item: &Value) -> Value {
    if schema.list_type != "map" {
        return if item.is_null() { json!("null") } else { go_map(item) };
    }
    let named = schema.list_map_keys.iter().zip(schema.keys_of(item));
    let keys: Map<String, Value> =
        named.filter_map(|(name, value)| Some((name.clone(), value?.clone()))).collect();
    go_map(&keys.into())
}

/// A map in a message is Go source there.
fn go_map(value: &Value) -> Value {
    let Value::Object(fields) = value else { return value.clone() };
    let entries: Vec<String> = fields
        .iter()
        .map(|(name, value)| format!("{}:{value}", stage1_kubectl::status::quote(name)))
        .collect();
    crate::validation::go_syntax::raw(format!("map[string]interface {{}}{{{}}}", entries.join(", ")))
}
