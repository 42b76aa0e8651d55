//! Reading a JSON value without ceremony: a missing field is the zero value, as in Go's structs.
//!
//! # In Kubernetes
//! Go's typed structs give the same zero values; see `k8s.io/api/core/v1/types.go`.

use serde_json::Value;

use crate::quantity::Quantity;

/// The text at a pointer, empty when it is missing.
pub fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or_default()
}

/// The number at a pointer, 0 when it is missing.
pub fn number(value: &Value, pointer: &str) -> i64 {
    value.pointer(pointer).and_then(Value::as_i64).unwrap_or_default()
}

/// The truth at a pointer, false when it is missing.
pub fn flag(value: &Value, pointer: &str) -> bool {
    value.pointer(pointer).and_then(Value::as_bool).unwrap_or_default()
}

/// The list at a pointer, empty when it is missing.
pub fn list<'a>(value: &'a Value, pointer: &str) -> &'a [Value] {
    value.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The map at a pointer as sorted pairs of key and value.
pub fn pairs<'a>(value: &'a Value, pointer: &str) -> Vec<(&'a str, &'a Value)> {
    let map = value.pointer(pointer).and_then(Value::as_object);
    map.map(|map| map.iter().map(|(key, value)| (key.as_str(), value)).collect()).unwrap_or_default()
}

/// A scalar as text: quantities, int-or-string and booleans print alike.
pub fn scalar(value: Option<&Value>) -> String {
    match value {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    }
}

/// A quantity in its canonical form, as Go's typed client prints it; what is none stays as it is.
pub fn amount(value: Option<&Value>) -> String {
    let text = scalar(value);
    Quantity::parse(&text).map_or(text, |quantity| quantity.to_string())
}

/// `True` or `False`, as Kubernetes' conditions say it.
pub fn title_bool(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

/// The text, or `<none>` for an empty one.
pub fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

/// The texts of a list, joined.
pub fn joined(items: &[Value], separator: &str) -> String {
    items.iter().map(|item| scalar(Some(item))).collect::<Vec<_>>().join(separator)
}

/// A label selector as `kubectl` prints it: `a=b,c in (d,e),!f`.
pub fn selector_text(selector: Option<&Value>) -> String {
    let Some(selector) = selector else { return "<none>".to_owned() };
    let mut parts: Vec<String> = pairs(selector, "/matchLabels")
        .iter()
        .map(|(key, value)| format!("{key}={}", scalar(Some(value))))
        .collect();
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<String> = list(expression, "/values").iter().map(|v| scalar(Some(v))).collect();
        values.sort();
        parts.push(match text(expression, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        });
    }
    parts.sort_by(|a, b| a.trim_start_matches('!').cmp(b.trim_start_matches('!')));
    if parts.is_empty() { "<none>".to_owned() } else { parts.join(",") }
}

/// A map as `a=b,c=d` or `<none>`.
pub fn map_text(value: &Value, pointer: &str) -> String {
    let parts: Vec<String> =
        pairs(value, pointer).iter().map(|(key, value)| format!("{key}={}", scalar(Some(value)))).collect();
    or_none(&parts.join(",")).to_owned()
}
