//! OpenAPI validation: does an object fulfil its schema's value checks?
//!
//! *Step 4 of a custom object's journey.* Before: defaults and admission are done. After: [`super::list_types`] and CEL rules have the
//! rest to say, then it is stored.
//!
//! One walk over object and schema, that goes on after a mistake. The texts are those of the library that Kubernetes uses for this
//! (`spec.n in body should be less than or equal to 3`), dressed as field errors.
//!
//! *Ratcheting*: an update isn't refused for what it doesn't change. A part that is equal to what it was isn't looked at, so that a
//! stricter definition doesn't lock up the objects that were there before.
//!
//! # Invariants
//! 1. An update that changes nothing has no errors.
//!
//! # In Kubernetes
//! `kube-openapi/pkg/validation/validate/*.go`, `apiextensions-apiserver/pkg/apiserver/validation/{validation,ratcheting}.go`. Left out:
//! `uniqueItems`, `$ref` and patternProperties, which a definition may not have.

use std::collections::HashMap;

use serde_json::{Number, Value, json};
use stage1_kubectl::status::{ErrorType, FieldError};

use super::formats;
use super::structural::{Additional, Schema};
use crate::validation::Errors;

/// Where a value stands: as messages name it, and what stands before that in the path of the field.
pub struct At<'a> {
    /// `spec.n`; empty at the root.
    pub path: &'a str,
    /// What comes before it in a field's path: `status` when only the status is looked at.
    pub root: &'a str,
}

/// What is wrong with a value. `old` is what stood there before an update.
pub fn validate(value: &Value, old: Option<&Value>, schema: &Schema, at: &At<'_>) -> Errors {
    let mut walk = Walk { root: at.root, errors: Errors::new() };
    walk.value(value, old, schema, at.path);
    walk.errors
}

struct Walk<'a> {
    root: &'a str,
    errors: Errors,
}

/// A number as Go's `%v` prints it.
fn shown(number: &Number, as_integer: bool) -> String {
    match number.as_f64() {
        Some(float) if as_integer => format!("{}", float.trunc()),
        Some(float) => go_float(float),
        None => number.to_string(),
    }
}

/// The shortest form, with an exponent from 21 digits on (six when there are fewer digits than that).
fn go_float(float: f64) -> String {
    let text = format!("{float:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..21).contains(&exponent) {
        return float.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// The name of a value's type.
fn type_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Whether two values are one to JSON: 1 and 1.0 are.
pub fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a == b || a.as_f64() == b.as_f64(),
        _ => a == b,
    }
}

impl Walk<'_> {
    fn field(&self, path: &str) -> String {
        let path = path.trim_start_matches('.');
        match (self.root, path) {
            ("", "") => "<nil>".to_owned(),
            (root, "") => root.to_owned(),
            ("", path) => path.to_owned(),
            (root, path) => format!("{root}.{path}"),
        }
    }

    fn invalid(&mut self, path: &str, value: impl Into<Value>, why: &str) {
        let error = FieldError::invalid(self.field(path), value, format!("{path} in body {why}"));
        self.errors.push(error);
    }

    fn of_type(&mut self, path: &str, wanted: &str, found: &str) {
        let why =
            format!("{path} in body must be of type {wanted}: {}", stage1_kubectl::status::quote(found));
        self.errors.push(FieldError::new(ErrorType::TypeInvalid, self.field(path), found, why));
    }

    fn about_schemas(&mut self, path: &str, why: &str) {
        let text = format!("{} {why}", stage1_kubectl::status::quote(path));
        self.errors.push(FieldError::invalid(self.field(""), "", text));
    }

    fn value(&mut self, value: &Value, old: Option<&Value>, schema: &Schema, path: &str) {
        if old == Some(value) {
            return;
        }
        self.type_check(value, schema, path);
        if !value.is_null() {
            self.schemas(value, old, schema, path);
            match value {
                Value::String(text) => self.text(text, schema, path),
                Value::Number(number) => self.number(number, schema, path),
                Value::Array(items) => self.items(items, old, schema, path),
                _ => {}
            }
        }
        let allowed = &schema.checks.enumeration;
        let is_listed = allowed.is_empty()
            || allowed.iter().any(|one| same(one, value))
            || (value.is_null() && schema.nullable);
        if !is_listed {
            let names: Vec<String> =
                allowed.iter().map(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned)).collect();
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let found = if value.is_null() { Value::from("null") } else { value.clone() };
            self.errors.push(FieldError::not_supported(self.field(path), found, &names));
        }
        if let Value::Object(fields) = value {
            self.fields(fields, old, schema, path);
        }
    }

    fn type_check(&mut self, value: &Value, schema: &Schema, path: &str) {
        let wanted = if schema.int_or_string { "integer,string" } else { schema.kind.as_str() };
        let found = type_of(value);
        let fits = |wanted: &str| match (wanted, value) {
            ("integer", Value::Number(number)) => {
                !number.is_f64() || number.as_f64().is_some_and(|float| float.fract() == 0.0)
            }
            ("number", Value::Number(_)) => true,
            _ => wanted == found,
        };
        let excused = value.is_null() && schema.nullable;
        if !wanted.is_empty() && !excused && !wanted.split(',').any(fits) {
            self.of_type(path, wanted, found);
        }
    }

    /// `anyOf`, `oneOf`, `allOf` and `not`.
    fn schemas(&mut self, value: &Value, old: Option<&Value>, schema: &Schema, path: &str) {
        let checks = &schema.checks;
        let root = self.root;
        let judge = |schema: &Schema| validate(value, old, schema, &At { path, root });
        let fewest = |errors: Vec<Errors>| errors.into_iter().min_by_key(Vec::len).unwrap_or_default();
        if !checks.any_of.is_empty() {
            let outcomes: Vec<Errors> = checks.any_of.iter().map(judge).collect();
            if outcomes.iter().all(|errors| !errors.is_empty()) {
                self.about_schemas(path, "must validate at least one schema (anyOf)");
                self.errors.extend(fewest(outcomes));
            }
        }
        if !checks.one_of.is_empty() {
            let outcomes: Vec<Errors> = checks.one_of.iter().map(judge).collect();
            let only_one = "must validate one and only one schema (oneOf).";
            match outcomes.iter().filter(|errors| errors.is_empty()).count() {
                1 => {}
                0 => {
                    self.about_schemas(path, &format!("{only_one} Found none valid"));
                    self.errors.extend(fewest(outcomes));
                }
                found => {
                    self.about_schemas(path, &format!("{only_one} Found {found} valid alternatives"));
                }
            }
        }
        if !checks.all_of.is_empty() {
            let outcomes: Vec<Errors> = checks.all_of.iter().map(judge).collect();
            let validated = outcomes.iter().filter(|errors| errors.is_empty()).count();
            self.errors.extend(outcomes.into_iter().flatten());
            if validated < checks.all_of.len() {
                let none = if validated == 0 { ". None validated" } else { "" };
                self.about_schemas(path, &format!("must validate all the schemas (allOf){none}"));
            }
        }
        if checks.not.as_ref().is_some_and(|not| judge(not).is_empty()) {
            self.about_schemas(path, "must not validate the schema (not)");
        }
    }

    fn text(&mut self, text: &str, schema: &Schema, path: &str) {
        let checks = &schema.checks;
        let length = text.chars().count() as u64;
        if let Some(max) = checks.max_length.filter(|max| length > *max) {
            self.errors
                .push(FieldError::too_long(self.field(path), usize::try_from(max).unwrap_or(usize::MAX)));
        }
        if let Some(min) = checks.min_length.filter(|min| length < *min) {
            self.invalid(path, text, &format!("should be at least {min} chars long"));
        }
        if let Some((written, Some(pattern))) = &checks.pattern
            && !pattern.is_match(text)
        {
            self.invalid(path, text, &format!("should match '{written}'"));
        }
        if !formats::fits(&checks.format, text) {
            self.of_type(path, &checks.format, text);
        }
    }

    fn number(&mut self, number: &Number, schema: &Schema, path: &str) {
        let checks = &schema.checks;
        let is_integer = !number.is_f64();
        let found = number.as_f64().unwrap_or_default();
        if checks.format == "int32" && (found < f64::from(i32::MIN) || found > f64::from(i32::MAX)) {
            let text = format!("Checked value must be of type integer with format int32 in {path}");
            self.errors.push(FieldError::invalid(self.field(""), "", text));
        }
        if let Some(divisor) = &checks.multiple_of
            && let Some(by) = divisor.as_f64().filter(|by| *by > 0.0)
            && (found / by).fract() != 0.0
        {
            self.invalid(
                path,
                number.clone(),
                &format!("should be a multiple of {}", shown(divisor, is_integer)),
            );
        }
        let bound = |(bound, exclusive): &(Number, bool)| (bound.as_f64().unwrap_or_default(), *exclusive);
        if let Some(maximum) = &checks.maximum {
            let (max, exclusive) = bound(maximum);
            if found > max || (exclusive && found >= max) {
                let than = if exclusive { "less than" } else { "less than or equal to" };
                let max = shown(&maximum.0, is_integer);
                self.invalid(path, number.clone(), &format!("should be {than} {max}"));
            }
        }
        if let Some(minimum) = &checks.minimum {
            let (min, exclusive) = bound(minimum);
            if found < min || (exclusive && found <= min) {
                let than = if exclusive { "greater than" } else { "greater than or equal to" };
                let min = shown(&minimum.0, is_integer);
                self.invalid(path, number.clone(), &format!("should be {than} {min}"));
            }
        }
    }

    fn items(&mut self, items: &[Value], old: Option<&Value>, schema: &Schema, path: &str) {
        let checks = &schema.checks;
        if let Some(below) = schema.items.as_deref() {
            let before = OldItems::new(schema, old);
            for (at, item) in items.iter().enumerate() {
                self.value(item, before.of(schema, item), below, &format!("{path}[{at}]"));
            }
        }
        let found = items.len();
        if let Some(min) = checks.min_items.filter(|min| (found as u64) < *min) {
            self.invalid(path, found, &format!("should have at least {min} items"));
        }
        if let Some(max) = checks.max_items.filter(|max| found as u64 > *max) {
            self.errors.push(FieldError::too_many(
                self.field(path),
                found,
                usize::try_from(max).unwrap_or(usize::MAX),
            ));
        }
    }

    fn fields(
        &mut self,
        fields: &serde_json::Map<String, Value>,
        old: Option<&Value>,
        schema: &Schema,
        path: &str,
    ) {
        let checks = &schema.checks;
        let found = fields.len();
        if let Some(min) = checks.min_properties.filter(|min| (found as u64) < *min) {
            return self.invalid(path, min, &format!("should have at least {min} properties"));
        }
        if let Some(max) = checks.max_properties.filter(|max| found as u64 > *max) {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            return self.errors.push(FieldError::too_many(self.field(path), found, max));
        }
        let below = |name: &str| if path.is_empty() { name.to_owned() } else { format!("{path}.{name}") };
        let before = |name: &str| old.and_then(|old| old.get(name));
        for (name, value) in fields {
            if schema.properties.contains_key(name) {
                continue;
            }
            match &schema.additional {
                Additional::Of(more) => self.value(value, before(name), more, &below(name)),
                Additional::Any(false) => {
                    let why = format!("{path}.{name} in body is a forbidden property");
                    self.errors.push(FieldError::invalid(self.field(path), name.as_str(), why));
                }
                _ => {}
            }
        }
        for (name, property) in &schema.properties {
            if let Some(value) = fields.get(name) {
                self.value(value, before(name), property, &below(name));
            }
        }
        for name in checks.required.iter().filter(|name| !fields.contains_key(*name)) {
            self.errors.push(FieldError::required(self.field(&below(name)), ""));
        }
    }
}

/// The items that a list had before, by their keys: what an item was is found at once, however long the list is.
pub struct OldItems<'v>(HashMap<String, &'v Value>);

impl<'v> OldItems<'v> {
    /// Of a list of type `map`; those of other lists can't be told apart.
    pub fn new(schema: &Schema, old: Option<&'v Value>) -> Self {
        let items = old.and_then(Value::as_array).filter(|_| schema.list_type == "map");
        OldItems(items.into_iter().flatten().map(|item| (identity(schema, item), item)).collect())
    }

    /// What an item was.
    pub fn of(&self, schema: &Schema, item: &Value) -> Option<&'v Value> {
        if self.0.is_empty() { None } else { self.0.get(&identity(schema, item)).copied() }
    }
}

/// What tells an item apart, as a text.
pub fn identity(schema: &Schema, item: &Value) -> String {
    match schema.list_type.as_str() {
        "map" => json!(schema.keys_of(item)).to_string(),
        _ => item.to_string(),
    }
}
