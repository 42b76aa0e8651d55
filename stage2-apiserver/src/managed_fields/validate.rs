//! The check of an applied object: is every field declared, of the right kind, and every keyed item there once.
//!
//! Apply needs a type for every field, or it couldn't say who owns what; an unknown field is therefore an error here and not
//! a warning, whatever `fieldValidation` says.
//!
//! # In Kubernetes
//! `structured-merge-diff/typed/validate.go`; the texts are its.

use std::collections::HashSet;

use serde_json::Value;

use super::field_types::{Form, ObjectType, Scalar, TypeId};
use super::path_element;

/// What doesn't fit the type; `None` if all does. Several findings are a list, a line each.
pub fn validate(object_type: &ObjectType, value: &Value) -> Option<String> {
    let mut walk = Walk { object_type, path: Vec::new(), errors: Vec::new() };
    walk.value(object_type.root, value);
    match walk.errors.as_slice() {
        [] => None,
        [one] => Some(one.clone()),
        several => Some(format!("errors:\n  {}", several.join("\n  "))),
    }
}

struct Walk<'a> {
    object_type: &'a ObjectType,
    path: Vec<String>,
    errors: Vec<String>,
}

impl Walk<'_> {
    fn error(&mut self, message: String) {
        let path: String = self.path.concat();
        self.errors.push(if path.is_empty() { message } else { format!("{path}: {message}") });
    }

    fn below(&mut self, step: String, id: TypeId, value: &Value) {
        self.path.push(step);
        self.value(id, value);
        self.path.pop();
    }

    fn value(&mut self, id: TypeId, value: &Value) {
        let object_type = self.object_type;
        match (object_type.form(id, value), value) {
            (_, Value::Null) => {}
            (Form::Map(map), Value::Object(entries)) => {
                for (name, entry) in entries {
                    match map.field(name) {
                        Some(id) => self.below(format!(".{name}"), id, entry),
                        None => {
                            self.path.push(format!(".{name}"));
                            self.error("field not declared in schema".into());
                            self.path.pop();
                        }
                    }
                }
            }
            (Form::Map(_), other) => self.error(format!("expected map, got &{{{}}}", go_value(other))),
            (Form::List(list), Value::Array(items)) => {
                let mut seen = HashSet::new();
                for (index, item) in items.iter().enumerate() {
                    if list.atomic {
                        self.below(format!("[{index}]"), list.element, item);
                        continue;
                    }
                    match path_element::of_item(list, item) {
                        Err(why) => self.error(format!("element {index}: {why}")),
                        Ok(element) => {
                            let shown = path_element::shown(&element);
                            if !seen.insert(element) {
                                self.error(format!("duplicate entries for key {shown}"));
                            }
                            self.below(shown, list.element, item);
                        }
                    }
                }
            }
            (Form::List(_), other) => self.error(format!("expected list, got &{{{}}}", go_value(other))),
            (Form::Scalar(scalar), value) => self.scalar(scalar, value),
        }
    }

    fn scalar(&mut self, scalar: Scalar, value: &Value) {
        let wrapped = || format!("&value.valueUnstructured{{Value:{}}}", go_syntax(value));
        match scalar {
            Scalar::Numeric if !value.is_number() => {
                self.error(format!("expected numeric (int or float), got {}", go_type(value)));
            }
            Scalar::String if !value.is_string() => self.error(format!("expected string, got {}", wrapped())),
            Scalar::Boolean if !value.is_boolean() => {
                self.error(format!("expected boolean, got {}", wrapped()));
            }
            _ => {}
        }
    }
}

/// Go's name for the type of a decoded value.
fn go_type(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "string",
        Value::Bool(_) => "bool",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
        Value::Number(number) if number.is_f64() => "float64",
        Value::Number(_) => "int64",
        Value::Null => "<nil>",
    }
}

/// A value as Go prints it plainly.
fn go_value(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_value).collect();
            format!("[{}]", items.join(" "))
        }
        Value::Object(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(name, entry)| format!("{name}:{}", go_value(entry))).collect();
            format!("map[{}]", entries.join(" "))
        }
        Value::Null => "<nil>".into(),
        other => other.to_string(),
    }
}

/// A value as Go's source code would have it.
fn go_syntax(value: &Value) -> String {
    match value {
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(go_syntax).collect();
            format!("[]interface {{}}{{{}}}", items.join(", "))
        }
        Value::Object(entries) => {
            let entry = |(name, entry): (&String, &Value)| format!("{name:?}:{}", go_syntax(entry));
            let entries: Vec<String> = entries.iter().map(entry).collect();
            format!("map[string]interface {{}}{{{}}}", entries.join(", "))
        }
        Value::Null => "interface {}(nil)".into(),
        other => other.to_string(),
    }
}
