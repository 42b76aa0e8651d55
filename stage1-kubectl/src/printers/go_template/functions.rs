//! The functions of templates.
//!
//! # In Kubernetes
//! `text/template/funcs.go`; `exists` and `base64decode` in `cli-runtime/pkg/printers/template.go`. More lenient here: numbers
//! of all kinds compare with each other.

use std::cmp::Ordering;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::Value;

use super::eval::truth;
use crate::patch::go_value;

const NAMES: &[&str] = &[
    "and",
    "or",
    "not",
    "len",
    "index",
    "slice",
    "print",
    "printf",
    "println",
    "html",
    "urlquery",
    "eq",
    "ne",
    "lt",
    "le",
    "gt",
    "ge",
    "exists",
    "base64decode",
];

pub(super) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "<nil>",
        Value::Bool(_) => "bool",
        Value::Number(number) if whole(number).is_some() => "int64",
        Value::Number(_) => "float64",
        Value::String(_) => "string",
        Value::Array(_) => "[]interface {}",
        Value::Object(_) => "map[string]interface {}",
    }
}

/// A value as `%v` prints it.
pub(super) fn text(value: &Value) -> String {
    match value {
        Value::Null => "<no value>".into(),
        Value::Number(number) => match whole(number) {
            Some(whole) => whole.to_string(),
            None => float(number.as_f64().unwrap_or_default()),
        },
        other => go_value(other),
    }
}

/// Numbers without a fraction are integers to Kubernetes' JSON decoder, however they are written.
pub(super) fn whole(number: &serde_json::Number) -> Option<i64> {
    let fits = |value: &f64| value.fract() == 0.0 && value.abs() < 9e18;
    number.as_i64().or_else(|| number.as_f64().filter(fits).map(|value| value as i64))
}

/// `%v` of a float: with an exponent from a million on.
pub(crate) fn float(value: f64) -> String {
    let exponent = if value == 0.0 { 0.0 } else { value.abs().log10().floor() };
    if (-4.0..6.0).contains(&exponent) {
        return format!("{value}");
    }
    let text = format!("{value:e}");
    match text.split_once("e-") {
        Some((digits, exponent)) => format!("{digits}e-{exponent:0>2}"),
        None => {
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            format!("{digits}e+{exponent:0>2}")
        }
    }
}

pub(super) fn call(name: &str, arguments: &[Value]) -> Result<Value, String> {
    let first = arguments.first();
    let need = |count: usize| match arguments.len() < count {
        true => Err(format!("wrong number of args: want at least {count} got {}", arguments.len())),
        false => Ok(()),
    };
    need(usize::from(!matches!(name, "print" | "println")))?;
    let first = first.unwrap_or(&Value::Null);
    Ok(match name {
        "and" | "or" => arguments.last().cloned().unwrap_or_default(),
        "not" => (!truth(first)).into(),
        "len" => len(first)?.into(),
        "index" => index(first, &arguments[1..])?,
        "slice" => slice(first, &arguments[1..])?,
        "print" => arguments.iter().map(text).collect::<String>().into(),
        "println" => (arguments.iter().map(text).collect::<Vec<_>>().join(" ") + "\n").into(),
        "printf" => super::printf::printf(&text(first), &arguments[1..]).into(),
        "html" => escape_html(&text(first)).into(),
        "urlquery" => percent_encoding::utf8_percent_encode(&text(first), percent_encoding::NON_ALPHANUMERIC)
            .to_string()
            .into(),
        "eq" => {
            let mut equal = false;
            for other in &arguments[1..] {
                equal = equal || same(first, other)?;
            }
            equal.into()
        }
        "ne" => {
            need(2)?;
            (!same(first, &arguments[1])?).into()
        }
        "exists" => is_there(first, &arguments[1..]).into(),
        "base64decode" => decode(&text(first))?.into(),
        comparison => {
            need(2)?;
            let order = compare(first, &arguments[1]);
            match (comparison, order) {
                (_, None) => return Err("incompatible types for comparison".into()),
                ("lt", Some(order)) => order.is_lt().into(),
                ("le", Some(order)) => order.is_le().into(),
                ("gt", Some(order)) => order.is_gt().into(),
                (_, Some(order)) => order.is_ge().into(),
            }
        }
    })
}

/// Whether two values are equal; only values of one basic kind can be compared, and anything with nothing.
fn same(a: &Value, b: &Value) -> Result<bool, String> {
    let basic = |value: &Value| !matches!(value, Value::Array(_) | Value::Object(_));
    match (a, b) {
        (Value::Null, b) | (b, Value::Null) => Ok(b.is_null()),
        (a, b) if !basic(a) || !basic(b) => Err(match basic(a) || basic(b) {
            true => "incompatible types for comparison".into(),
            false => format!("non-comparable type {}: {}", text(a), type_name(a)),
        }),
        (a, b) => match compare(a, b) {
            Some(order) => Ok(order == Ordering::Equal),
            None if std::mem::discriminant(a) == std::mem::discriminant(b) => Ok(a == b),
            None => Err("incompatible types for comparison".into()),
        },
    }
}

fn len(value: &Value) -> Result<f64, String> {
    match value {
        Value::String(text) => Ok(text.len() as f64),
        Value::Array(items) => Ok(items.len() as f64),
        Value::Object(map) => Ok(map.len() as f64),
        Value::Null => Err("len of nil pointer".into()),
        other => Err(format!("len of type {}", type_name(other))),
    }
}

fn position(value: &Value) -> Result<usize, String> {
    let number = value.as_f64().filter(|n| *n >= 0.0 && n.fract() == 0.0);
    number
        .map(|n| n as usize)
        .ok_or_else(|| format!("cannot index slice/array with type {}", type_name(value)))
}

fn index(value: &Value, keys: &[Value]) -> Result<Value, String> {
    let mut value = value;
    for key in keys {
        value = match value {
            Value::Object(map) => key.as_str().and_then(|key| map.get(key)).unwrap_or(&Value::Null),
            Value::Array(items) => {
                let at = position(key)?;
                items
                    .get(at)
                    .ok_or_else(|| format!("error calling index: reflect: slice index out of range: {at}"))?
            }
            Value::Null => return Err("index of untyped nil".into()),
            other => return Err(format!("can't index item of type {}", type_name(other))),
        };
    }
    Ok(value.clone())
}

fn slice(value: &Value, bounds: &[Value]) -> Result<Value, String> {
    let length = len(value)? as usize;
    let start = bounds.first().map(position).transpose()?.unwrap_or(0);
    let end = bounds.get(1).map(position).transpose()?.unwrap_or(length);
    let bad = || format!("index out of range: {end}");
    match value {
        Value::String(text) => Ok(text.get(start..end).ok_or_else(bad)?.into()),
        Value::Array(items) => Ok(items.get(start..end).ok_or_else(bad)?.to_vec().into()),
        other => Err(format!("can't slice item of type {}", type_name(other))),
    }
}

fn compare(a: &Value, b: &Value) -> Option<Ordering> {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64()?.partial_cmp(&b.as_f64()?),
        (Value::String(a), Value::String(b)) => Some(a.cmp(b)),
        (Value::Bool(a), Value::Bool(b)) => Some(a.cmp(b)),
        (Value::Null, Value::Null) => Some(Ordering::Equal),
        _ => None,
    }
}

fn is_there(value: &Value, keys: &[Value]) -> bool {
    index(value, keys).is_ok_and(|found| !found.is_null())
}

fn decode(text: &str) -> Result<String, String> {
    let bytes = BASE64_STANDARD.decode(text).map_err(|e| format!("base64 decode failed: {e}"))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

fn escape_html(text: &str) -> String {
    let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    text.replace('"', "&#34;").replace('\'', "&#39;")
}
