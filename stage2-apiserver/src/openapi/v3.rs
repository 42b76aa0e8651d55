//! OpenAPI v3: one document a group version.
//!
//! # In Kubernetes
//! `kube-openapi/pkg/builder3/openapi.go`.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::custom;
use crate::registry::Catalog;
use crate::schema;

const REFERENCE: &str = "#/components/schemas/";

/// The document of a group version; `None` when it isn't served.
pub fn document(catalog: &Catalog, group: &str, version: &str) -> Option<Value> {
    let of_version = || catalog.all().filter(|i| i.group == group && i.version == version);
    of_version().next()?;
    let mut all = schema::definitions();
    super::mark_kinds(catalog, &mut all);
    super::mark_merge_keys(&mut all);
    super::leave_json_open(&mut all);
    all.extend(custom::definitions(of_version(), custom::Form::V3));
    let mut wanted: Vec<String> =
        of_version().filter(|info| info.custom.is_some()).map(custom::name).collect();
    let built_in =
        of_version().filter_map(|i| schema::schema_for(&i.gvk())).map(|schema| schema.definition.to_string());
    wanted.extend(built_in);
    let mut schemas = Map::new();
    let mut seen = BTreeSet::new();
    while let Some(name) = wanted.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(definition) = all.remove(&name) else { continue };
        references(&definition, &mut wanted);
        schemas.insert(name, definition);
    }
    Some(json!({
        "openapi": "3.0.0",
        "info": { "title": "Kubernetes", "version": crate::version::GIT_VERSION },
        "paths": super::paths(of_version(), 3),
        "components": { "schemas": schemas },
    }))
}

/// Collects the definitions that a schema names.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            if let Some(name) =
                map.get("$ref").and_then(Value::as_str).and_then(|r| r.strip_prefix(REFERENCE))
            {
                found.push(name.to_owned());
            }
            map.values().for_each(|v| references(v, found));
        }
        Value::Array(items) => items.iter().for_each(|v| references(v, found)),
        _ => {}
    }
}
