//! Pruning: fields that the schema doesn't know are dropped, and said.
//!
//! *Step 2 of a custom object's journey.* Before: [`super::decode`] read JSON. After: [`super::defaulting`] fills what is absent.
//!
//! What is stored is what the schema knows, so that a field which a later version gives a meaning can't lie in wait in old
//! objects. `x-kubernetes-preserve-unknown-fields` keeps them from there on down, until a declared field begins again.
//!
//! # Invariants
//! 1. Pruning twice is pruning once.
//! 2. apiVersion, kind and metadata of an object, embedded or not, are never pruned here.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/schema/pruning/algorithm.go`.

use serde_json::Value;

use super::structural::{Additional, Schema};

/// Fields that every object has.
pub const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

// ANCHOR: prune
/// Drops what the schema doesn't know; the answer are the paths of what was dropped, sorted.
pub fn prune(object: &mut Value, schema: &Schema) -> Vec<String> {
    let mut walk = Walk { path: String::new(), unknown: Vec::new() };
    walk.fields(object, schema, true);
    walk.unknown.sort();
    walk.unknown
}
// ANCHOR_END: prune

struct Walk {
    path: String,
    unknown: Vec<String>,
}

impl Walk {
    fn value(&mut self, value: &mut Value, schema: Option<&Schema>) {
        match (value, schema) {
            (value @ Value::Object(_), Some(schema)) => self.fields(value, schema, schema.embedded_resource),
            (Value::Object(fields), None) => {
                for name in std::mem::take(fields).keys() {
                    self.record(name);
                }
            }
            (Value::Array(items), schema) => {
                let keeps = schema.is_some_and(|schema| schema.preserve_unknown_fields);
                let of_items = schema.and_then(|schema| schema.items.as_deref());
                if keeps && of_items.is_none() {
                    return;
                }
                for (at, item) in items.iter_mut().enumerate() {
                    let length = self.enter(&format!("[{at}]"));
                    match (keeps, of_items) {
                        // Below a schema that keeps everything, only what is declared again is pruned.
                        (true, Some(items)) => self.kept(item, items),
                        (_, items) => self.value(item, items),
                    }
                    self.path.truncate(length);
                }
            }
            _ => {}
        }
    }

    /// A value below a schema that keeps unknown fields.
    fn kept(&mut self, value: &mut Value, schema: &Schema) {
        let mut lenient = schema.clone();
        lenient.preserve_unknown_fields = true;
        self.value(value, Some(&lenient));
    }

    fn fields(&mut self, object: &mut Value, schema: &Schema, is_object: bool) {
        let Value::Object(fields) = object else { return };
        let mut dropped = Vec::new();
        for (name, value) in fields.iter_mut() {
            if is_object && META_FIELDS.contains(&name.as_str()) {
                continue;
            }
            let declared = schema.properties.get(name);
            if declared.is_none() && matches!(schema.additional, Additional::Absent) {
                if !schema.preserve_unknown_fields {
                    dropped.push(name.clone());
                }
                continue;
            }
            let length = self.enter(name);
            self.value(value, declared.or_else(|| schema.additional.schema()));
            self.path.truncate(length);
        }
        for name in dropped {
            fields.remove(&name);
            self.record(&name);
        }
    }

    fn enter(&mut self, part: &str) -> usize {
        let length = self.path.len();
        if length > 0 && !part.starts_with('[') {
            self.path.push('.');
        }
        self.path.push_str(part);
        length
    }

    fn record(&mut self, name: &str) {
        let length = self.enter(name);
        self.unknown.push(self.path.clone());
        self.path.truncate(length);
    }
}
