//! The schema compiler: JSON Schema definitions to the compact table that decoding walks.
//!
//! A definition with its descriptions takes kilobytes; what decoding needs of a field is a [`Shape`], what an absent value looks like,
//! and whether the Go field is a pointer. The definitions are turned into that once, at first use, and dropped.
//!
//! # In Kubernetes
//! Go's reflection over struct tags does this at run time. `required` in the published schema means "no `omitempty`", which is what
//! makes `status.replicas: 0` appear; the exceptions are in [`super::go_types`].

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use serde_json::{Map, Value};
use stage1_kubectl::resource::GroupVersionKind;

use super::{Absent, Field, Schema, Shape, StructType, Table, go_types, roots};

/// Builds the table.
pub fn table(definitions: &Map<String, Value>) -> Table {
    let structs: HashMap<Arc<str>, StructType> = definitions
        .iter()
        .filter(|(_, schema)| schema.get("properties").is_some() || schema["type"] == "object")
        .map(|(name, schema)| (Arc::from(name.as_str()), struct_type(name, schema)))
        .collect();
    let roots = roots::all()
        .into_iter()
        .map(|root| {
            let gvk = GroupVersionKind::new(root.group, root.version, root.kind);
            let key = (root.group.to_owned(), root.version.to_owned(), root.kind.to_owned());
            (key, Schema { gvk, definition: Arc::from(root.definition) })
        })
        .collect();
    Table { structs, roots }
}

fn struct_type(definition: &str, schema: &Value) -> StructType {
    let go_name = definition.rsplit('.').next().unwrap_or(definition).to_owned();
    let mut parts = definition.rsplit('.').skip(1);
    let version = parts.next().unwrap_or_default();
    let group = parts.next().unwrap_or_default();
    let required: Vec<&str> =
        schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut fields = BTreeMap::new();
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        let shape = shape(property);
        let key = format!("{go_name}.{name}");
        let pointer = go_types::is_pointer(&key) || go_types::is_pointer(&format!("{group}.{key}"));
        let absent = absent(&key, &shape, required.contains(&name.as_str()), pointer);
        fields.insert(name.clone(), Field { shape, absent, pointer });
    }
    StructType { qualified: format!("{version}.{go_name}"), go_name, fields }
}

fn absent(key: &str, shape: &Shape, required: bool, pointer: bool) -> Absent {
    if go_types::omits_although_required(key) {
        return Absent::Omitted;
    }
    let list = matches!(shape, Shape::List(_) | Shape::Map(_));
    if go_types::null_when_absent(key) || (required && list) {
        return Absent::Null;
    }
    let zero = match shape {
        Shape::Struct(_) => (required && !go_types::is_struct_pointer(key)) || go_types::always_present(key),
        Shape::Time | Shape::MicroTime | Shape::Any | Shape::StructOr(_) | Shape::List(_) | Shape::Map(_) => {
            false
        }
        Shape::IntOrString | Shape::Quantity => false,
        _ => (required || go_types::always_present(key)) && !pointer,
    };
    if zero { Absent::Zero } else { Absent::Omitted }
}

/// The shape of one property.
fn shape(property: &Value) -> Shape {
    if let Some(definition) = reference(property) {
        return named_shape(definition);
    }
    match property["type"].as_str() {
        Some("string") => match property["format"].as_str() {
            Some("byte") => Shape::Bytes,
            Some("date-time") => Shape::Time,
            _ => Shape::String,
        },
        Some("boolean") => Shape::Bool,
        Some("integer") if property["format"] == "int64" => Shape::Int64,
        Some("integer") => Shape::Int32,
        Some("number") => Shape::Float,
        Some("array") => Shape::List(Box::new(shape(&property["items"]))),
        Some("object") if property.get("additionalProperties").is_some() => {
            Shape::Map(Box::new(shape(&property["additionalProperties"])))
        }
        _ => Shape::Any,
    }
}

fn reference(property: &Value) -> Option<&str> {
    let direct = property["$ref"].as_str();
    let wrapped = || property["allOf"][0]["$ref"].as_str();
    direct.or_else(wrapped)?.rsplit('/').next()
}

/// Types whose JSON is not that of a struct.
fn named_shape(definition: &str) -> Shape {
    match definition.rsplit('.').next().unwrap_or_default() {
        "Time" => Shape::Time,
        "MicroTime" => Shape::MicroTime,
        "Quantity" => Shape::Quantity,
        "IntOrString" => Shape::IntOrString,
        "RawExtension" | "JSON" | "FieldsV1" | "Patch" => Shape::Any,
        "JSONSchemaPropsOrArray" | "JSONSchemaPropsOrBool" | "JSONSchemaPropsOrStringArray" => {
            let owner = definition.rsplit_once('.').map_or("", |(owner, _)| owner);
            Shape::StructOr(Arc::from(format!("{owner}.JSONSchemaProps")))
        }
        _ => Shape::Struct(Arc::from(definition)),
    }
}
