//! Structural schemas: is what an object *is* said outside of what it must fulfil?
//!
//! Pruning and defaulting walk types, properties and items; they can't reason about `anyOf`. So inside `allOf`, `anyOf`, `oneOf` and
//! `not` nothing of the structure may stand, and whatever is checked there must be declared outside.
//!
//! # Invariants
//! 1. A schema without errors can be pruned, defaulted and published.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/schema/{validation,complete}.go`.

use serde_json::Value;

use super::super::fields::{child, entries, flag, has, list, text};
use super::super::{Errors, FieldError, field, go_regex, index, key};

#[derive(Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// What is wrong with a schema, sorted by its text as there.
pub fn structural(schema: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    invariants(&mut errors, schema, Level::Root, path);
    completeness(&mut errors, schema, path);
    errors.sort_by_key(ToString::to_string);
    errors
}

fn properties(schema: &Value) -> impl Iterator<Item = (&String, &Value)> {
    entries(schema, "properties")
}

fn more(schema: &Value) -> Option<&Value> {
    Some(child(schema, "additionalProperties")).filter(|more| more.is_object())
}

fn invariants(errors: &mut Errors, schema: &Value, level: Level, path: &str) {
    let kind = text(schema, "type");
    let items = child(schema, "items");
    if kind == "array" && !items.is_object() {
        errors.push(FieldError::required(field(path, "items"), "must be specified"));
    }
    if items.is_object() {
        invariants(errors, items, Level::Item, &field(path, "items"));
    }
    for (name, property) in properties(schema) {
        invariants(errors, property, Level::Field, &key(&field(path, "properties"), name));
    }
    let additional = field(path, "additionalProperties");
    if has(schema, "additionalProperties") && level == Level::Root {
        errors.push(FieldError::forbidden(&additional, "must not be used at the root"));
    }
    if let Some(more) = more(schema) {
        invariants(errors, more, Level::Field, &additional);
    }
    let (preserves, embedded, int_or_string) = (
        flag(schema, "x-kubernetes-preserve-unknown-fields"),
        flag(schema, "x-kubernetes-embedded-resource"),
        flag(schema, "x-kubernetes-int-or-string"),
    );
    for (name, is_set) in
        [("x-kubernetes-preserve-unknown-fields", preserves), ("x-kubernetes-embedded-resource", embedded)]
    {
        if int_or_string && is_set {
            let why = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(field(path, name), true, why));
        }
    }
    value_checks(
        errors,
        schema,
        is_int_or_string(schema),
        is_int_or_string(&child(schema, "allOf")[0]),
        path,
    );
    type_of(errors, schema, level, path);
    if embedded && has(schema, "additionalProperties") {
        let why = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(additional, why));
    }
    meta(errors, schema, level, path);
    if embedded && !preserves && properties(schema).next().is_none() {
        let why = "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(field(path, "properties"), why));
    }
}

fn type_of(errors: &mut Errors, schema: &Value, level: Level, path: &str) {
    let (kind, path) = (text(schema, "type"), field(path, "type"));
    let needs_none =
        flag(schema, "x-kubernetes-int-or-string") || flag(schema, "x-kubernetes-preserve-unknown-fields");
    if flag(schema, "x-kubernetes-embedded-resource") && kind != "object" {
        let why = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(path.clone(), why),
            kind => FieldError::invalid(path.clone(), kind, why),
        });
    } else if kind.is_empty() && !needs_none {
        let whose = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(path.clone(), whose));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(path, kind, "must be object at the root"));
    }
}

/// What every object has may be restricted, not redefined.
fn meta(errors: &mut Errors, schema: &Value, level: Level, path: &str) {
    let checks = level == Level::Root || flag(schema, "x-kubernetes-embedded-resource");
    let declared = child(schema, "properties");
    let path = field(path, "properties");
    for name in ["kind", "apiVersion"] {
        if checks && has(declared, name) && text(child(declared, name), "type") != "string" {
            let found = text(child(declared, name), "type");
            errors.push(FieldError::invalid(field(&key(&path, name), "type"), found, "must be string"));
        }
    }
    let metadata = child(declared, "metadata");
    if !metadata.is_object() {
        return;
    }
    let path = key(&path, "metadata");
    if checks && text(metadata, "type") != "object" {
        errors.push(FieldError::invalid(field(&path, "type"), text(metadata, "type"), "must be object"));
    }
    if level != Level::Root {
        return;
    }
    let only_names = properties(metadata).all(|(name, _)| matches!(name.as_str(), "name" | "generateName"));
    let nothing_else = metadata
        .as_object()
        .into_iter()
        .flatten()
        .all(|(word, _)| matches!(word.as_str(), "type" | "properties" | "default"));
    if !only_names || !nothing_else {
        let why = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.push(FieldError::forbidden(path, why));
    }
}

/// `anyOf: [{type: integer}, {type: string}]`, the one place where types may stand inside.
fn is_int_or_string(schema: &Value) -> bool {
    let types: Vec<String> = list(schema, "anyOf").iter().map(ToString::to_string).collect();
    types == [r#"{"type":"integer"}"#, r#"{"type":"string"}"#]
}

fn value_checks(errors: &mut Errors, schema: &Value, skip_any_of: bool, skip_first_all_of: bool, path: &str) {
    for word in ["anyOf", "allOf", "oneOf"] {
        if word == "anyOf" && skip_any_of {
            continue;
        }
        for (at, inner) in list(schema, word).iter().enumerate() {
            let skips = word == "allOf" && at == 0 && skip_first_all_of;
            nested(errors, inner, skips, &index(&field(path, word), at));
        }
    }
    if has(schema, "not") {
        nested(errors, child(schema, "not"), false, &field(path, "not"));
    }
    let pattern = text(schema, "pattern");
    if let Err(why) = go_regex::compile(pattern) {
        let why = format!("must be a valid regular expression, but isn't: {why}");
        errors.push(FieldError::invalid(field(path, "pattern"), pattern, why));
    }
}

fn nested(errors: &mut Errors, schema: &Value, skip_any_of: bool, path: &str) {
    value_checks(errors, schema, skip_any_of, false, path);
    if has(schema, "items") {
        nested(errors, child(schema, "items"), false, &field(path, "items"));
    }
    for (name, property) in properties(schema) {
        nested(errors, property, false, &key(&field(path, "properties"), name));
    }
    const EMPTY: &str = "must be empty to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    const FALSE: &str = "must be false to be structural";
    for (name, why) in [
        ("type", EMPTY),
        ("additionalProperties", UNDEFINED),
        ("default", UNDEFINED),
        ("title", EMPTY),
        ("description", EMPTY),
        ("nullable", FALSE),
        ("externalDocs", UNDEFINED),
        ("x-kubernetes-preserve-unknown-fields", FALSE),
        ("x-kubernetes-embedded-resource", FALSE),
        ("x-kubernetes-int-or-string", FALSE),
        ("x-kubernetes-list-map-keys", EMPTY),
        ("x-kubernetes-list-type", UNDEFINED),
        ("x-kubernetes-map-type", UNDEFINED),
        ("x-kubernetes-validations", EMPTY),
    ] {
        let is_set = match child(schema, name) {
            Value::Null | Value::Bool(false) => false,
            Value::String(text) => !text.is_empty(),
            Value::Array(items) => !items.is_empty(),
            _ => true,
        };
        if is_set {
            errors.push(FieldError::forbidden(field(path, name), why));
        }
    }
    if has(child(schema, "properties"), "metadata") {
        let path = key(&field(path, "properties"), "metadata");
        errors.push(FieldError::forbidden(path, "must not be specified in a nested context"));
    }
}

/// What is checked inside is declared outside, here and below.
fn completeness(errors: &mut Errors, schema: &Value, path: &str) {
    declared_for(errors, schema, Some(schema), path, path);
    if child(schema, "items").is_object() {
        completeness(errors, child(schema, "items"), &field(path, "items"));
    }
    for (name, property) in properties(schema) {
        completeness(errors, property, &key(&field(path, "properties"), name));
    }
    if let Some(more) = more(schema) {
        completeness(errors, more, &field(path, "additionalProperties"));
    }
}

/// The schemas of the four words of `checked`, against the structure `outside`.
fn declared_for(errors: &mut Errors, checked: &Value, outside: Option<&Value>, path: &str, inside: &str) {
    for word in ["allOf", "anyOf", "oneOf"] {
        for (at, inner) in list(checked, word).iter().enumerate() {
            declared(errors, inner, outside, path, &index(&field(inside, word), at));
        }
    }
    if has(checked, "not") {
        declared(errors, child(checked, "not"), outside, path, &field(inside, "not"));
    }
}

fn declared(errors: &mut Errors, inner: &Value, outside: Option<&Value>, path: &str, inside: &str) {
    let Some(outside) = outside else {
        errors.push(FieldError::required(path, format!("because it is defined in {inside}")));
        return;
    };
    declared_for(errors, inner, Some(outside), path, inside);
    if has(inner, "items") {
        let items = Some(child(outside, "items")).filter(|items| items.is_object());
        declared(errors, child(inner, "items"), items, &field(path, "items"), &field(inside, "items"));
    }
    for (name, property) in properties(inner) {
        let below = |path: &str| key(&field(path, "properties"), name);
        let known = child(child(outside, "properties"), name);
        match known.is_object() {
            true => declared(errors, property, Some(known), &below(path), &below(inside)),
            false => {
                let why = format!("because it is defined in {}", below(inside));
                errors.push(FieldError::required(below(path), why));
            }
        }
    }
}
