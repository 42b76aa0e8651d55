//! Structural schemas: what a version of a custom kind may contain, read once into a tree that is walked quickly.
//!
//! *Step 1 of a custom object's journey.* Before: a CustomResourceDefinition was accepted. After: [`super::prune`],
//! [`super::defaulting`] and [`super::openapi_validation`] walk each object along this tree.
//!
//! A structural schema says twice what an object is. Its *structure* (types, properties, items) stands outside of any `allOf`,
//! `anyOf`, `oneOf` or `not`, so that pruning and defaulting need no logic; its *value checks* may use them. Both are one
//! [`Schema`] here: the schemas inside the four words only have checks.
//!
//! # Invariants
//! 1. A pattern is compiled when the definition is read, never when an object is.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/schema/{structural,convert}.go`. Left out: `title`, `example`, `externalDocs` (they are published
//! as they were written).

use std::collections::BTreeMap;
use std::sync::Arc;

use regex::Regex;
use serde_json::{Number, Value};

use super::rules::Rule;
use crate::validation::fields::{child, flag, list, text, texts};
use crate::validation::go_regex;

// ANCHOR: structural-schema
/// One schema with all below it.
#[derive(Clone, Debug, Default)]
pub struct Schema {
    /// `object`, `array`, `string`, …; empty if it isn't said.
    pub kind: String,
    /// `null` is a value, too.
    pub nullable: bool,
    /// Fields that aren't declared are kept.
    pub preserve_unknown_fields: bool,
    /// The value is an object with apiVersion, kind and metadata.
    pub embedded_resource: bool,
    /// An integer or a string.
    pub int_or_string: bool,
    /// Declared fields.
    pub properties: BTreeMap<String, Schema>,
    /// All other fields.
    pub additional: Additional,
    /// Items of an array.
    pub items: Option<Box<Schema>>,
    /// What an absent field becomes.
    pub default: Option<Value>,
    /// `atomic`, `set` or `map`; empty if it isn't said.
    pub list_type: String,
    /// What tells the items of a `map` list apart.
    pub list_map_keys: Vec<String>,
    /// `granular` or `atomic`; empty if it isn't said.
    pub map_type: String,
    /// What a value must fulfil.
    pub checks: Checks,
    /// Rules in CEL, as they were written.
    pub rules: Vec<Value>,
    /// The rules compiled, once [`super::rules::compile`] has been here.
    pub compiled: Vec<Arc<Rule>>,
    /// Whether there are compiled rules here or below.
    pub any_rules: bool,
}
// ANCHOR_END: structural-schema

/// `additionalProperties`.
#[derive(Clone, Debug, Default)]
pub enum Additional {
    /// Not said: no others are known.
    #[default]
    Absent,
    /// `true` or `false`.
    Any(bool),
    /// Others have this schema.
    Of(Box<Schema>),
}

/// The value checks of a schema.
#[derive(Clone, Debug, Default)]
pub struct Checks {
    /// `date-time`, `ipv4`, …; empty if it isn't said.
    pub format: String,
    /// Upper bound, and whether it is out of bounds itself.
    pub maximum: Option<(Number, bool)>,
    /// Lower bound, and whether it is out of bounds itself.
    pub minimum: Option<(Number, bool)>,
    /// Most characters.
    pub max_length: Option<u64>,
    /// Fewest characters.
    pub min_length: Option<u64>,
    /// What a text must match, as it was written and compiled.
    pub pattern: Option<(String, Option<Regex>)>,
    /// Most items.
    pub max_items: Option<u64>,
    /// Fewest items.
    pub min_items: Option<u64>,
    /// A divisor.
    pub multiple_of: Option<Number>,
    /// Most fields.
    pub max_properties: Option<u64>,
    /// Fewest fields.
    pub min_properties: Option<u64>,
    /// Fields that must be there.
    pub required: Vec<String>,
    /// The only values.
    pub enumeration: Vec<Value>,
    /// All of them must hold.
    pub all_of: Vec<Schema>,
    /// At least one.
    pub any_of: Vec<Schema>,
    /// Exactly one.
    pub one_of: Vec<Schema>,
    /// This must not.
    pub not: Option<Box<Schema>>,
}

impl Additional {
    /// The schema of undeclared fields.
    pub fn schema(&self) -> Option<&Schema> {
        match self {
            Additional::Of(schema) => Some(schema),
            _ => None,
        }
    }
}

impl Schema {
    /// Reads `openAPIV3Schema`. What is wrong with it is said by validation; here it is passed over.
    pub fn parse(schema: &Value) -> Schema {
        Schema {
            kind: text(schema, "type").to_owned(),
            nullable: flag(schema, "nullable"),
            preserve_unknown_fields: flag(schema, "x-kubernetes-preserve-unknown-fields"),
            embedded_resource: flag(schema, "x-kubernetes-embedded-resource"),
            int_or_string: flag(schema, "x-kubernetes-int-or-string"),
            properties: child(schema, "properties")
                .as_object()
                .into_iter()
                .flatten()
                .map(|(name, property)| (name.clone(), Schema::parse(property)))
                .collect(),
            additional: match child(schema, "additionalProperties") {
                Value::Bool(allowed) => Additional::Any(*allowed),
                more @ Value::Object(_) => Additional::Of(Box::new(Schema::parse(more))),
                _ => Additional::Absent,
            },
            items: child(schema, "items").as_object().map(|_| Box::new(Schema::parse(&schema["items"]))),
            default: schema.get("default").filter(|default| !default.is_null()).cloned(),
            list_type: text(schema, "x-kubernetes-list-type").to_owned(),
            list_map_keys: owned(texts(schema, "x-kubernetes-list-map-keys")),
            map_type: text(schema, "x-kubernetes-map-type").to_owned(),
            checks: Checks::parse(schema),
            rules: list(schema, "x-kubernetes-validations").to_vec(),
            compiled: Vec::new(),
            any_rules: false,
        }
    }

    /// Whether the schema or one below it fulfils a condition.
    pub fn any(&self, holds: &dyn Fn(&Schema) -> bool) -> bool {
        holds(self)
            || self.properties.values().any(|property| property.any(holds))
            || self.additional.schema().is_some_and(|more| more.any(holds))
            || self.items.as_ref().is_some_and(|items| items.any(holds))
    }

    /// Whether there is a default anywhere.
    pub fn has_defaults(&self) -> bool {
        self.any(&|schema| schema.default.is_some())
    }

    /// The schema of a declared or additional field.
    pub fn field(&self, name: &str) -> Option<&Schema> {
        self.properties.get(name).or_else(|| self.additional.schema())
    }

    /// The values of an item's keys in a list of type `map`, with the keys' defaults.
    pub fn keys_of<'a>(&'a self, item: &'a Value) -> Vec<Option<&'a Value>> {
        let default = |key: &str| self.items.as_ref()?.properties.get(key)?.default.as_ref();
        self.list_map_keys.iter().map(|key| item.get(key).or_else(|| default(key))).collect()
    }
}

impl Checks {
    fn parse(schema: &Value) -> Checks {
        let number = |name: &str| child(schema, name).as_number().cloned();
        let count = |name: &str| child(schema, name).as_u64();
        let schemas = |name: &str| list(schema, name).iter().map(Schema::parse).collect();
        Checks {
            format: text(schema, "format").to_owned(),
            maximum: number("maximum").map(|bound| (bound, flag(schema, "exclusiveMaximum"))),
            minimum: number("minimum").map(|bound| (bound, flag(schema, "exclusiveMinimum"))),
            max_length: count("maxLength"),
            min_length: count("minLength"),
            pattern: Some(text(schema, "pattern"))
                .filter(|pattern| !pattern.is_empty())
                .map(|pattern| (pattern.to_owned(), go_regex::compile(pattern).ok())),
            max_items: count("maxItems"),
            min_items: count("minItems"),
            multiple_of: number("multipleOf"),
            max_properties: count("maxProperties"),
            min_properties: count("minProperties"),
            required: owned(texts(schema, "required")),
            enumeration: list(schema, "enum").to_vec(),
            all_of: schemas("allOf"),
            any_of: schemas("anyOf"),
            one_of: schemas("oneOf"),
            not: child(schema, "not").as_object().map(|_| Box::new(Schema::parse(&schema["not"]))),
        }
    }
}

fn owned(texts: Vec<&str>) -> Vec<String> {
    texts.into_iter().map(str::to_owned).collect()
}
