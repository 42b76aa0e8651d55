//! List types: which lists are maps or sets, and which structs are owned as a whole.
//!
//! *Step 2 of a pod's journey.* Before: a field manager writes `containers`. After: each container is a field of its own,
//! because this table says that the list is a map by `name`.
//!
//! In Kubernetes this stands in comments over Go fields (`+listType=map`, `+listMapKey=name`, `+structType=atomic`) and in the
//! published OpenAPI as `x-kubernetes-list-type`. The JSON Schemas of `k8s-openapi` leave those marks out, so they are
//! kept beside it as text, one line a definition; a list without a mark is atomic, a map without a mark granular.
//!
//! # Invariants
//! 1. Every name in the table is a field of a definition that we know, or belongs to a kind that isn't served.
//!
//! # In Kubernetes
//! `kube-openapi/pkg/generators/extension.go`; the values are those of `api/openapi-spec/swagger.json`.

use std::collections::HashMap;
use std::sync::LazyLock;

use serde_json::{Map, Value, json};

/// How the items of a list, or the entries of a map, are owned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Topology {
    /// As a whole.
    Atomic,
    /// Each scalar by itself.
    Set,
    /// Each item by itself, told apart by these keys.
    Map(Vec<MapKey>),
    /// Each entry by itself, although the type says otherwise.
    Granular,
}

/// A key of a list that is a map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MapKey {
    /// Name of the field.
    pub name: &'static str,
    /// What it means to leave it out.
    pub default: Option<&'static str>,
}

/// The rows of one definition.
#[derive(Debug, Default)]
pub struct Row {
    /// The struct is owned as a whole.
    pub atomic: bool,
    fields: HashMap<&'static str, Topology>,
}

impl Row {
    /// How a field is owned, if the table says it.
    pub fn field(&self, name: &str) -> Option<&Topology> {
        self.fields.get(name)
    }
}

static TABLE: LazyLock<HashMap<String, Row>> = LazyLock::new(|| parse(include_str!("list_types.txt")));

/// The rows of a definition (`io.k8s.api.core.v1.PodSpec`).
pub fn of(definition: &str) -> Option<&'static Row> {
    TABLE.get(definition)
}

fn parse(text: &'static str) -> HashMap<String, Row> {
    let lines = text.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap_or_default();
            let name = if name.starts_with("io.") { name.to_owned() } else { format!("io.k8s.api.{name}") };
            let mut row = Row::default();
            for (field, topology) in words.filter_map(|word| word.split_once('=')) {
                match field {
                    "*" => row.atomic = true,
                    field => drop(row.fields.insert(field, topology_of(topology))),
                }
            }
            (name, row)
        })
        .collect()
}

fn topology_of(word: &'static str) -> Topology {
    let key = |key: &'static str| match key.split_once('?') {
        Some((name, default)) => MapKey { name, default: Some(default) },
        None => MapKey { name: key, default: None },
    };
    match word.split_once(':') {
        Some((_, keys)) => Topology::Map(keys.split(',').map(key).collect()),
        None if word == "set" => Topology::Set,
        None if word == "granular" => Topology::Granular,
        None => Topology::Atomic,
    }
}

/// Writes the table into definitions, as `x-kubernetes-…` extensions.
pub fn annotate(definitions: &mut Map<String, Value>) {
    for (name, definition) in definitions.iter_mut() {
        let Some(row) = of(name) else { continue };
        if row.atomic {
            definition["x-kubernetes-map-type"] = json!("atomic");
        }
        let properties = definition.get_mut("properties").and_then(Value::as_object_mut);
        for (field, property) in properties.into_iter().flatten() {
            let is_list = property["type"] == "array";
            let kind = if is_list { "x-kubernetes-list-type" } else { "x-kubernetes-map-type" };
            match row.field(field) {
                None => {}
                Some(Topology::Atomic) => property[kind] = json!("atomic"),
                Some(Topology::Granular) => property[kind] = json!("granular"),
                Some(Topology::Set) => property[kind] = json!("set"),
                Some(Topology::Map(keys)) => {
                    let keys: Vec<&str> = keys.iter().map(|key| key.name).collect();
                    property["x-kubernetes-list-map-keys"] = json!(keys);
                    property[kind] = json!("map");
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schema::struct_type;

    #[test]
    fn ports_are_keyed_by_number_and_protocol() {
        let row = of("io.k8s.api.core.v1.Container").expect("a row");
        let keys = vec![
            MapKey { name: "containerPort", default: None },
            MapKey { name: "protocol", default: Some("TCP") },
        ];
        assert_eq!(row.field("ports"), Some(&Topology::Map(keys)));
        assert_eq!(row.field("args"), Some(&Topology::Atomic));
        assert!(of("io.k8s.apimachinery.pkg.apis.meta.v1.LabelSelector").is_some_and(|row| row.atomic));
    }

    #[test]
    fn every_row_is_about_a_field_that_exists() {
        for (name, row) in TABLE.iter() {
            let Some(definition) = struct_type(name) else { continue };
            for field in row.fields.keys() {
                assert!(definition.fields.contains_key(*field), "{name}.{field}");
            }
        }
        assert!(TABLE.keys().filter(|name| struct_type(name).is_some()).count() > 120);
    }
}
