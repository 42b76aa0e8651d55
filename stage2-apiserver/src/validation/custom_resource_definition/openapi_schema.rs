//! OpenAPI in definitions: which of its words a schema may use, and Kubernetes' own extensions.
//!
//! # Invariants
//! 1. Rules are only compiled where the schema around them is right.
//!
//! # In Kubernetes
//! `ValidateCustomResourceDefinitionOpenAPISchema` in `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`,
//! `apiextensions-apiserver/pkg/apiserver/schema/defaulting/validation.go`.

use serde_json::Value;

use super::super::fields::{child, entries, flag, has, list, text, texts};
use super::super::{Errors, FieldError, field, go_syntax, index, key};
use super::rule_forms::{self, schema_at};
use super::structural::structural;
use crate::custom_resources::openapi_validation::{self, At};
use crate::custom_resources::prune;
use crate::custom_resources::rules;
use crate::custom_resources::structural::Schema;

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META: [&str; 3] = ["metadata", "kind", "apiVersion"];
/// Most fields that a list can be selected by.
const MAX_SELECTABLE_FIELDS: usize = 8;

/// `spec.validation`, or a version's `schema`.
pub fn validation(errors: &mut Errors, validation: &Value, has_status: bool, path: &str) {
    let schema = child(validation, "openAPIV3Schema");
    if !schema.is_object() {
        return;
    }
    let path = field(path, "openAPIV3Schema");
    if has_status && !text(schema, "type").is_empty() && text(schema, "type") != "object" {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.push(FieldError::invalid(field(&path, "type"), text(schema, "type"), why));
    }
    if flag(schema, "nullable") {
        errors.push(FieldError::forbidden(field(&path, "nullable"), "nullable cannot be true at the root"));
    }
    let mut found = structural(schema, &path);
    if found.is_empty() {
        defaults(&mut found, schema, &path);
    }
    let walk = Walk { no_defaults: None, in_meta: false };
    words(&mut found, schema, &path, &walk, true);
    if found.is_empty() {
        // Types can only be told from a schema that is right.
        found.extend(rules::check(schema, &path));
    }
    errors.extend(found);
}

/// A default must be something that the schema would let in.
fn defaults(errors: &mut Errors, schema: &Value, path: &str) {
    let default = child(schema, "default");
    if !default.is_null() {
        let path = field(path, "default");
        let parsed = Schema::parse(schema);
        let mut pruned = serde_json::json!({ "default": default });
        let mut around = Schema::default();
        around.properties.insert("default".to_owned(), parsed.clone());
        if !prune::prune(&mut pruned, &around).is_empty() {
            errors.push(FieldError::invalid(path.clone(), default.clone(), "must not have unknown fields"));
        }
        errors.extend(openapi_validation::validate(default, None, &parsed, &At { path: "", root: &path }));
    }
    if child(schema, "items").is_object() {
        defaults(errors, child(schema, "items"), &field(path, "items"));
    }
    for (name, property) in entries(schema, "properties") {
        defaults(errors, property, &key(&field(path, "properties"), name));
    }
}

#[derive(Clone)]
struct Walk {
    /// Why there may be no default here.
    no_defaults: Option<String>,
    /// Inside of apiVersion, kind or metadata of an object.
    in_meta: bool,
}

/// The words of a schema, and of those below.
fn words(errors: &mut Errors, schema: &Value, path: &str, walk: &Walk, is_root: bool) {
    allowed(errors, schema, path, walk);
    if flag(schema, "uniqueItems") {
        let why = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(field(path, "uniqueItems"), why));
    }
    let additional = child(schema, "additionalProperties");
    let additional_path = field(path, "additionalProperties");
    let has_properties = entries(schema, "properties").next().is_some();
    if !additional.is_null() && additional != &Value::Bool(true) && has_properties {
        let why = "additionalProperties and properties are mutual exclusive";
        errors.push(FieldError::forbidden(&additional_path, why));
    }
    if additional.is_object() {
        let mut inner = walk.clone();
        if walk.in_meta {
            inner.no_defaults = Some(" inside additionalProperties applying to object metadata".into());
        }
        words(errors, additional, &additional_path, &inner, false);
    }
    for (name, property) in entries(schema, "properties") {
        let mut inner = walk.clone();
        let is_meta = META.contains(&name.as_str());
        if is_meta && (is_root || flag(schema, "x-kubernetes-embedded-resource")) {
            inner.in_meta = true;
            if is_root {
                inner.no_defaults = Some(format!(" in top-level {name}"));
            }
        }
        words(errors, property, &key(&field(path, "properties"), name), &inner, false);
    }
    if has(schema, "not") {
        words(errors, child(schema, "not"), &field(path, "not"), walk, false);
    }
    for word in ["allOf", "oneOf", "anyOf"] {
        for (at, inner) in list(schema, word).iter().enumerate() {
            words(errors, inner, &index(&field(path, word), at), walk, false);
        }
    }
    if child(schema, "items").is_object() {
        words(errors, child(schema, "items"), &field(path, "items"), walk, false);
    }
    extensions(errors, schema, path);
    rule_forms::check(errors, schema, path);
}

fn allowed(errors: &mut Errors, schema: &Value, path: &str, walk: &Walk) {
    let kind = text(schema, "type");
    if !kind.is_empty() && !TYPES.contains(&kind) {
        errors.push(FieldError::not_supported(field(path, "type"), kind, &TYPES));
    }
    if let (Some(why), true) = (&walk.no_defaults, has(schema, "default")) {
        errors.push(FieldError::forbidden(field(path, "default"), format!("must not be set{why}")));
    }
    for word in ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"] {
        let is_empty = match child(schema, word) {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Object(fields) => fields.is_empty(),
            _ => false,
        };
        if !is_empty {
            errors.push(FieldError::forbidden(field(path, word), format!("{word} is not supported")));
        }
    }
    if kind == "null" {
        let why = "type cannot be set to null, use nullable as an alternative";
        errors.push(FieldError::forbidden(field(path, "type"), why));
    }
    if child(schema, "items").is_array() {
        let why = "items must be a schema object and not an array";
        errors.push(FieldError::forbidden(field(path, "items"), why));
    }
    if walk.in_meta && flag(schema, "x-kubernetes-embedded-resource") {
        let why = "must not be used inside of resource meta";
        errors.push(FieldError::forbidden(field(path, "x-kubernetes-embedded-resource"), why));
    }
}

fn extensions(errors: &mut Errors, schema: &Value, path: &str) {
    let preserve = "x-kubernetes-preserve-unknown-fields";
    if child(schema, preserve) == &Value::Bool(false) {
        errors.push(FieldError::invalid(field(path, preserve), false, "must be true or undefined"));
    }
    let kind = text(schema, "type");
    for (word, wanted, values) in [
        ("x-kubernetes-map-type", "object", &["atomic", "granular"][..]),
        ("x-kubernetes-list-type", "array", &["atomic", "set", "map"][..]),
    ] {
        let Some(said) = child(schema, word).as_str() else { continue };
        if kind != wanted {
            let why = format!("must be {wanted} if {word} is specified");
            let path = field(path, "type");
            errors.push(match kind {
                "" => FieldError::required(path, why),
                kind => FieldError::invalid(path, kind, why),
            });
        } else if said == "set" {
            set_items(errors, child(schema, "items"), &field(path, "items"));
        }
        if !values.contains(&said) {
            errors.push(FieldError::not_supported(field(path, word), said, values));
        }
    }
    let (list_type, keys) =
        (text(schema, "x-kubernetes-list-type"), texts(schema, "x-kubernetes-list-map-keys"));
    if !keys.is_empty() && list_type != "map" {
        let (path, why) =
            (field(path, "x-kubernetes-list-type"), "must be map if x-kubernetes-list-map-keys is non-empty");
        errors.push(match list_type {
            "" => FieldError::required(path, why),
            other => FieldError::invalid(path, other, why),
        });
    }
    if list_type == "map" {
        map_items(errors, child(schema, "items"), &keys, path);
    }
    if matches!(list_type, "set" | "map") {
        not_nullable(errors, child(schema, "items"), list_type, &keys, &field(path, "items"));
    }
}

/// What is compared as a whole must be owned as a whole.
fn set_items(errors: &mut Errors, items: &Value, path: &str) {
    let why = "must be atomic as item of a list with x-kubernetes-list-type=set";
    let (list_type, map_type) =
        (child(items, "x-kubernetes-list-type"), child(items, "x-kubernetes-map-type"));
    match text(items, "type") {
        "array" if !matches!(list_type.as_str(), None | Some("atomic")) => {
            errors.push(FieldError::invalid(field(path, "x-kubernetes-list-type"), list_type.clone(), why));
        }
        "object" if map_type.as_str() != Some("atomic") => {
            let shown = list_type.as_str().unwrap_or("null");
            errors.push(FieldError::invalid(field(path, "x-kubernetes-map-type"), shown, why));
        }
        _ => {}
    }
}

fn map_items(errors: &mut Errors, items: &Value, keys: &[&str], path: &str) {
    let keys_path = field(path, "x-kubernetes-list-map-keys");
    let path = field(path, "items");
    if keys.is_empty() {
        let why = "must not be empty if x-kubernetes-list-type is map";
        errors.push(FieldError::required(&keys_path, why));
    }
    if !items.is_object() {
        errors.push(FieldError::required(path, "must have a schema if x-kubernetes-list-type is map"));
        return;
    }
    let kind = text(items, "type");
    if kind != "object" {
        let why = "must be object if parent array's x-kubernetes-list-type is map";
        errors.push(FieldError::invalid(field(&path, "type"), kind, why));
        return;
    }
    let shown = || go_syntax::raw(go_syntax::strings("[]string", keys));
    for (at, name) in keys.iter().enumerate() {
        let property = child(child(items, "properties"), name);
        if !property.is_object() {
            let why = "entries must all be names of item properties";
            errors.push(FieldError::invalid(&keys_path, shown(), why));
        } else if matches!(text(property, "type"), "array" | "object") {
            let path = field(&key(&field(&path, "properties"), name), "type");
            let why = "must be a scalar type if parent array's x-kubernetes-list-type is map";
            errors.push(FieldError::invalid(path, kind, why));
        }
        if keys[..at].contains(name) {
            errors.push(FieldError::invalid(&keys_path, shown(), "must not contain duplicate entries"));
        }
    }
}

fn not_nullable(errors: &mut Errors, items: &Value, list_type: &str, keys: &[&str], path: &str) {
    if flag(items, "nullable") {
        let why = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(field(path, "nullable"), why));
    }
    let required = texts(items, "required");
    for name in keys {
        let property = child(child(items, "properties"), name);
        if !property.is_object() {
            continue;
        }
        let path = key(&field(path, "properties"), name);
        if !required.contains(name) && !has(property, "default") {
            let why = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.push(FieldError::required(field(&path, "default"), why));
        }
        if flag(property, "nullable") {
            let why = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(field(&path, "nullable"), why));
        }
    }
}

/// `selectableFields`.
pub fn selectable_fields(errors: &mut Errors, version: &Value, path: &str) {
    let schema = child(child(version, "schema"), "openAPIV3Schema");
    let path = field(path, "selectableFields");
    let mut seen: Vec<&str> = Vec::new();
    for (at, selectable) in list(version, "selectableFields").iter().enumerate() {
        let said = text(selectable, "jsonPath");
        let path = field(&index(&path, at), "jsonPath");
        if said.is_empty() {
            errors.push(FieldError::required(path, ""));
            continue;
        }
        let Some(found) = schema_at(schema, said) else {
            let why = "is an invalid path: does not refer to a valid field";
            errors.push(FieldError::invalid(path, said, why));
            continue;
        };
        if said.starts_with(".metadata") {
            errors.push(FieldError::invalid(path.clone(), said, "must not point to fields in metadata"));
        }
        if !matches!(text(found, "type"), "string" | "boolean" | "integer") {
            let why = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(path.clone(), said, why));
        }
        if seen.contains(&said) {
            errors.push(FieldError::duplicate(path, said));
        } else {
            seen.push(said);
        }
    }
    if seen.len() > MAX_SELECTABLE_FIELDS {
        errors.push(FieldError::too_many(path, seen.len(), MAX_SELECTABLE_FIELDS));
    }
}
