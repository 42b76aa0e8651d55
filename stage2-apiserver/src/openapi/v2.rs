//! OpenAPI v2: one document for everything.
//!
//! # In Kubernetes
//! `kube-openapi/pkg/builder/openapi.go`.

use serde_json::{Value, json};

use super::custom;
use crate::registry::Catalog;
use crate::schema;

/// The document.
pub fn document(catalog: &Catalog) -> Value {
    let mut definitions = schema::definitions();
    super::mark_kinds(catalog, &mut definitions);
    super::mark_merge_keys(&mut definitions);
    super::leave_json_open(&mut definitions);
    definitions.extend(custom::definitions(catalog.customs().iter().copied(), custom::Form::V2));
    for definition in definitions.values_mut() {
        rewrite(definition);
    }
    json!({
        "swagger": "2.0",
        "info": { "title": "Kubernetes", "version": crate::version::GIT_VERSION },
        "paths": super::paths(catalog.all(), 2),
        "definitions": definitions,
    })
}

/// References point elsewhere in v2, and a reference stands alone.
fn rewrite(value: &mut Value) {
    match value {
        Value::Object(map) => {
            let alone = map
                .get("allOf")
                .and_then(Value::as_array)
                .filter(|all| all.len() == 1)
                .and_then(|all| all[0].get("$ref"))
                .cloned();
            if let Some(reference) = alone {
                map.remove("allOf");
                map.insert("$ref".into(), reference);
            }
            if let Some(Value::String(reference)) = map.get_mut("$ref") {
                *reference = reference.replace("#/components/schemas/", "#/definitions/");
            }
            map.remove("default");
            for (key, value) in map {
                match value {
                    // Its keys are names of fields, and one of them may be `default`.
                    Value::Object(fields) if key == "properties" => fields.values_mut().for_each(rewrite),
                    value => rewrite(value),
                }
            }
        }
        Value::Array(items) => items.iter_mut().for_each(rewrite),
        _ => {}
    }
}
