//! Cells: the small readings of an object that printers are made of.
//!
//! A missing value prints as nothing, `<none>`, `<unset>` or `<unknown>`, and each column has its own tradition about
//! which; so there is a function for each way and no default.
//!
//! # In Kubernetes
//! The helpers at the end of `pkg/printers/internalversion/printers.go`.

use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::time::human_duration;

/// The object's name.
pub fn name(object: &Value) -> Value {
    json!(text(object, "/metadata/name"))
}

/// The text at a JSON pointer, or nothing.
pub fn text<'a>(object: &'a Value, pointer: &str) -> &'a str {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

/// The text at a JSON pointer, or `<none>`, `<unset>`, whatever is asked for.
pub fn text_or<'a>(object: &'a Value, pointer: &str, fallback: &'a str) -> &'a str {
    match text(object, pointer) {
        "" => fallback,
        found => found,
    }
}

/// The number at a JSON pointer, or 0.
pub fn number(object: &Value, pointer: &str) -> i64 {
    object.pointer(pointer).and_then(Value::as_i64).unwrap_or(0)
}

/// The boolean at a JSON pointer, or false.
pub fn truth(object: &Value, pointer: &str) -> bool {
    object.pointer(pointer).and_then(Value::as_bool).unwrap_or(false)
}

/// The list at a JSON pointer, or an empty one.
pub fn list<'a>(object: &'a Value, pointer: &str) -> &'a [Value] {
    object.pointer(pointer).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

/// The number of entries of a map or list.
pub fn count(object: &Value, pointer: &str) -> i64 {
    let size = match object.pointer(pointer) {
        Some(Value::Array(a)) => a.len(),
        Some(Value::Object(o)) => o.len(),
        _ => 0,
    };
    i64::try_from(size).expect("a list in memory is shorter than i64::MAX")
}

/// The age of an object.
pub fn age(object: &Value, now: Timestamp) -> Value {
    json!(since(text(object, "/metadata/creationTimestamp"), now))
}

/// The time since a timestamp, as people say it, or `<unknown>`.
pub fn since(timestamp: &str, now: Timestamp) -> String {
    match timestamp.parse::<Timestamp>() {
        Ok(then) => human_duration(now.duration_since(then)),
        Err(_) => "<unknown>".into(),
    }
}

/// Go's `%t` with a capital, as older columns print booleans.
pub fn capital(truth: bool) -> &'static str {
    if truth { "True" } else { "False" }
}

/// `a=b,c=d`, or `<none>`.
pub fn labels(object: &Value, pointer: &str) -> String {
    let Some(map) = object.pointer(pointer).and_then(Value::as_object).filter(|m| !m.is_empty()) else {
        return "<none>".into();
    };
    map.iter().map(|(k, v)| format!("{k}={}", v.as_str().unwrap_or(""))).collect::<Vec<_>>().join(",")
}

/// A LabelSelector as `metav1.FormatLabelSelector` prints it: `<none>` if empty or absent.
pub fn selector(object: &Value, pointer: &str) -> String {
    let Some(selector) = object.pointer(pointer) else { return "<none>".into() };
    let mut terms: Vec<(String, String)> = Vec::new();
    if let Some(map) = selector.get("matchLabels").and_then(Value::as_object) {
        terms.extend(map.iter().map(|(k, v)| (k.clone(), format!("{k}={}", v.as_str().unwrap_or("")))));
    }
    for expression in list(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<&str> = list(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match text(expression, "/operator") {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key.to_owned(), term));
    }
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    match terms.is_empty() {
        true => "<none>".into(),
        false => terms.into_iter().map(|t| t.1).collect::<Vec<_>>().join(","),
    }
}

/// Names and images of a pod template's containers, two cells.
pub fn containers(object: &Value, pointer: &str) -> [Value; 2] {
    let join = |key: &str| list(object, pointer).iter().map(|c| text(c, key)).collect::<Vec<_>>().join(",");
    [json!(join("/name")), json!(join("/image"))]
}

/// An integer or percentage (`IntOrString`).
pub fn int_or_string(value: Option<&Value>) -> Option<String> {
    match value? {
        Value::String(s) => Some(s.clone()),
        Value::Number(n) => Some(n.to_string()),
        _ => None,
    }
}
