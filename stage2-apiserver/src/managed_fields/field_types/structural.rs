//! The types of a custom kind, out of its structural schema.
//!
//! What a structural schema says for this is little: `x-kubernetes-list-type` with its keys, `x-kubernetes-map-type`, and
//! `x-kubernetes-preserve-unknown-fields` (entries without a schema are allowed, and owned one by one). `metadata`,
//! `apiVersion` and `kind` are typed as in every object, whatever the schema says.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/controller/openapi/builder`, `kube-openapi/pkg/schemaconv/openapi.go`.

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::Value;

use super::built_in::Builder;
use super::{Atom, DEDUCED, Key, ListType, MapType, ObjectType, Scalar, TypeId, UNTYPED_ATOMIC};

const OBJECT_META: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";

/// The type of a custom kind whose version has this `openAPIV3Schema`.
pub fn object_type(schema: &Value) -> ObjectType {
    let mut builder = Builder::new();
    let root = convert(&mut builder, schema);
    let mut atom = builder.types.get(root).clone();
    let metadata = builder.definition(OBJECT_META);
    let text = builder.types.scalar(Scalar::String);
    let map = atom.map.get_or_insert_default();
    map.fields.extend([
        ("metadata".to_owned(), metadata),
        ("apiVersion".to_owned(), text),
        ("kind".to_owned(), text),
    ]);
    let root = builder.types.add(atom);
    ObjectType::new(Arc::new(builder.types), root)
}

fn convert(builder: &mut Builder, schema: &Value) -> TypeId {
    let preserves = schema["x-kubernetes-preserve-unknown-fields"] == true;
    if schema["x-kubernetes-int-or-string"] == true {
        return builder.types.scalar(Scalar::Untyped);
    }
    match schema["type"].as_str() {
        Some("string") => builder.types.scalar(Scalar::String),
        Some("integer" | "number") => builder.types.scalar(Scalar::Numeric),
        Some("boolean") => builder.types.scalar(Scalar::Boolean),
        Some("array") => {
            let element = convert(builder, &schema["items"]);
            let kind = schema["x-kubernetes-list-type"].as_str().unwrap_or("atomic");
            let keys = if kind == "map" { keys(schema) } else { Vec::new() };
            let list = ListType { element, atomic: kind == "atomic", keys };
            builder.types.add(Atom { list: Some(list), ..Atom::default() })
        }
        Some("object") => {
            let properties = schema["properties"].as_object().into_iter().flatten();
            let fields: HashMap<String, TypeId> =
                properties.map(|(name, field)| (name.clone(), convert(builder, field))).collect();
            let element = match &schema["additionalProperties"] {
                more @ Value::Object(_) => Some(convert(builder, more)),
                Value::Bool(true) => Some(DEDUCED),
                _ if preserves || fields.is_empty() => Some(DEDUCED),
                _ => None,
            };
            let atomic = schema["x-kubernetes-map-type"] == "atomic";
            let map = MapType { fields, element, atomic };
            builder.types.add(Atom { map: Some(map), ..Atom::default() })
        }
        _ if preserves => DEDUCED,
        _ => UNTYPED_ATOMIC,
    }
}

fn keys(schema: &Value) -> Vec<Key> {
    let names =
        schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let default = |name: &str| schema["items"]["properties"][name].get("default").cloned();
    let mut keys: Vec<Key> =
        names.map(|name| Key { name: name.to_owned(), default: default(name) }).collect();
    keys.sort_by(|a, b| a.name.cmp(&b.name));
    keys
}
