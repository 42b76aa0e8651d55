//! Values: small rules about numbers, sets, quantities and paths that many kinds share.
//!
//! # In Kubernetes
//! The helper functions of `pkg/apis/core/validation/validation.go` and `apimachinery/pkg/api/validation/generic.go`.

use serde_json::Value;
use stage1_kubectl::quantity::Quantity;

use super::fields::{child, has, int, text};
use super::metadata::NON_NEGATIVE;
use super::names::{self, percent};
use super::{Errors, FieldError, field, go_syntax, invalid_each};

/// An integer field that may not be negative.
pub fn non_negative(errors: &mut Errors, owner: &Value, name: &str, path: &str) {
    let value = int(owner, name);
    if value < 0 {
        errors.push(FieldError::invalid(field(path, name), value, NON_NEGATIVE));
    }
}

/// Several of them.
pub fn all_non_negative(errors: &mut Errors, owner: &Value, names: &[&str], path: &str) {
    for name in names {
        non_negative(errors, owner, name, path);
    }
}

/// A string that must be one of a set: missing is `Required value`, another one `Unsupported value`.
pub fn one_of(errors: &mut Errors, owner: &Value, name: &str, path: &str, supported: &[&str]) {
    match text(owner, name) {
        "" => errors.push(FieldError::required(field(path, name), "")),
        _ => one_of_if_set(errors, owner, name, path, supported),
    }
}

/// A string that must be one of a set if it is given.
pub fn one_of_if_set(errors: &mut Errors, owner: &Value, name: &str, path: &str, supported: &[&str]) {
    if has(owner, name) && !supported.contains(&text(owner, name)) {
        errors.push(FieldError::not_supported(field(path, name), text(owner, name), supported));
    }
}

/// A string that must not be empty.
pub fn required(errors: &mut Errors, owner: &Value, name: &str, path: &str) -> bool {
    let empty = text(owner, name).is_empty();
    if empty {
        errors.push(FieldError::required(field(path, name), ""));
    }
    !empty
}

/// A string that must not be empty and must have a form.
pub fn required_form(
    errors: &mut Errors,
    owner: &Value,
    name: &str,
    path: &str,
    form: fn(&str) -> Vec<String>,
) {
    if required(errors, owner, name, path) {
        invalid_each(errors, &field(path, name), text(owner, name), form(text(owner, name)));
    }
}

/// A port by number or name.
pub fn port_number_or_name(errors: &mut Errors, value: &Value, path: &str) {
    match value {
        Value::String(name) => invalid_each(errors, path, name, names::port_name(name)),
        other => {
            let number = other.as_i64().unwrap_or_default();
            errors.extend(
                names::port_number(number)
                    .into_iter()
                    .map(|message| FieldError::invalid(path, number, message)),
            );
        }
    }
}

/// A count or a percentage.
pub fn positive_int_or_percent(errors: &mut Errors, value: &Value, path: &str) {
    match value {
        Value::String(text) => {
            let shown = go_syntax::raw(go_syntax::int_or_string(value));
            errors.extend(
                percent(text).into_iter().map(|message| FieldError::invalid(path, shown.clone(), message)),
            );
        }
        Value::Number(number) if number.as_i64().is_some_and(|n| n < 0) => {
            errors.push(FieldError::invalid(path, number.as_i64().unwrap_or_default(), NON_NEGATIVE));
        }
        _ => {}
    }
}

/// The number in `"25%"`.
pub fn percent_value(value: &Value) -> Option<i64> {
    value.as_str()?.strip_suffix('%')?.parse().ok()
}

/// A count or percentage that is zero.
pub fn is_zero_int_or_percent(value: &Value) -> bool {
    percent_value(value).or_else(|| value.as_i64()) == Some(0)
}

/// A percentage of at most 100.
pub fn not_more_than_100_percent(errors: &mut Errors, value: &Value, path: &str) {
    if percent_value(value).is_some_and(|percent| percent > 100) {
        let shown = go_syntax::raw(go_syntax::int_or_string(value));
        errors.push(FieldError::invalid(path, shown, "must not be greater than 100%"));
    }
}

/// Parses a quantity that the schema has let through.
pub fn quantity(value: &Value) -> Quantity {
    value.as_str().and_then(|text| Quantity::parse(text).ok()).unwrap_or_default()
}

/// A mode of a file.
pub fn file_mode(errors: &mut Errors, owner: &Value, name: &str, path: &str) {
    if let Some(mode) = child(owner, name).as_i64().filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        errors.push(FieldError::invalid(field(path, name), mode, detail));
    }
}

/// No `..` in a path.
pub fn no_backsteps(errors: &mut Errors, target: &str, path: &str) {
    if target.split(['/', '\\']).any(|part| part == "..") {
        errors.push(FieldError::invalid(path, target, "must not contain '..'"));
    }
}

/// A path inside of something.
pub fn local_descending_path(errors: &mut Errors, target: &str, path: &str) {
    if target.starts_with('/') {
        errors.push(FieldError::invalid(path, target, "must be a relative path"));
    }
    no_backsteps(errors, target, path);
}

/// A path inside of a volume whose own files begin with `..`.
pub fn local_non_reserved_path(errors: &mut Errors, target: &str, path: &str) {
    local_descending_path(errors, target, path);
    if target.starts_with("..") && !target.starts_with("../") && target != ".." {
        errors.push(FieldError::invalid(path, target, "must not start with '..'"));
    }
}
