//! Writing YAML as kubectl writes it.
//!
//! *Step 1 of a pod's journey* (`-o yaml`). People diff this output and feed it back, so it must be byte for byte what
//! kubectl prints: keys in its order, lists not indented, quotes only where a reader of YAML 1.1 would misread the
//! text, long lines folded at 80 columns, text of several lines as a block.
//!
//! # Invariants
//! 1. Reading the output as YAML 1.1 gives the same value.
//!
//! # In Kubernetes
//! `sigs.k8s.io/yaml` with its `goyaml.v2` (`emitterc.go`, `resolve.go`, `sorter.go`). Left out: keys over 128 characters.

use std::cmp::Ordering;

use serde_json::{Map, Value};

mod scalar;

/// The YAML text of a value, with a newline at its end.
pub fn to_yaml(value: &Value) -> String {
    let mut out = String::new();
    match value {
        Value::Object(map) if !map.is_empty() => write_map(map, 0, &mut out),
        Value::Array(items) if !items.is_empty() => write_list(items, 0, &mut out),
        other => {
            write_scalar(other, 0, 0, &mut out);
            out.push('\n');
        }
    }
    out
}

fn write_map(map: &Map<String, Value>, indent: usize, out: &mut String) {
    let mut entries: Vec<(&String, &Value)> = map.iter().collect();
    entries.sort_by(|a, b| natural_order(a.0, b.0));
    for (position, (key, value)) in entries.into_iter().enumerate() {
        if position > 0 {
            out.push_str(&" ".repeat(indent));
        }
        let start = out.len();
        out.push_str(&scalar::key(key));
        out.push(':');
        let column = indent + out[start..].chars().count() + 1;
        match value {
            Value::Object(inner) if !inner.is_empty() => {
                out.push('\n');
                out.push_str(&" ".repeat(indent + 2));
                write_map(inner, indent + 2, out);
            }
            Value::Array(items) if !items.is_empty() => {
                out.push('\n');
                out.push_str(&" ".repeat(indent));
                write_list(items, indent, out);
            }
            leaf => {
                out.push(' ');
                write_scalar(leaf, indent + 2, column, out);
                end_line(out);
            }
        }
    }
}

fn write_list(items: &[Value], indent: usize, out: &mut String) {
    for (position, item) in items.iter().enumerate() {
        if position > 0 {
            out.push_str(&" ".repeat(indent));
        }
        out.push_str("- ");
        match item {
            Value::Object(map) if !map.is_empty() => write_map(map, indent + 2, out),
            Value::Array(inner) if !inner.is_empty() => write_list(inner, indent + 2, out),
            leaf => {
                write_scalar(leaf, indent + 2, indent + 2, out);
                end_line(out);
            }
        }
    }
}

/// A block that keeps its last line end has written it already.
fn end_line(out: &mut String) {
    if !out.ends_with('\n') {
        out.push('\n');
    }
}

fn write_scalar(value: &Value, indent: usize, column: usize, out: &mut String) {
    match value {
        Value::String(text) => out.push_str(&scalar::text(text, indent, column)),
        Value::Object(_) => out.push_str("{}"),
        Value::Array(_) => out.push_str("[]"),
        Value::Number(number) => out.push_str(&number_text(number)),
        other => out.push_str(&other.to_string()),
    }
}

/// As Go prints it: `1e+06` for large floats.
fn number_text(number: &serde_json::Number) -> String {
    match number.as_f64().filter(|_| number.is_f64()) {
        Some(float) if float.abs() >= 1e21 || (float != 0.0 && float.abs() < 1e-4) => {
            let text = format!("{float:e}");
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.abs())
        }
        Some(float) => format!("{float}"),
        None => number.to_string(),
    }
}

/// The order of keys: letters by code, numbers inside by value, other characters before letters.
fn natural_order(a: &str, b: &str) -> Ordering {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let Some(at) = (0..a.len().min(b.len())).find(|i| a[*i] != b[*i]) else {
        return a.len().cmp(&b.len());
    };
    match (a[at].is_alphabetic(), b[at].is_alphabetic()) {
        (true, true) => return a[at].cmp(&b[at]),
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        (false, false) => {}
    }
    // A zero inside a number that began before is a digit like any other.
    let inside = (a[at] == '0' || b[at] == '0')
        && a[..at].iter().rev().take_while(|c| c.is_ascii_digit()).any(|c| *c != '0');
    let number = |chars: &[char]| {
        let digits: Vec<i64> = chars[at..].iter().map_while(|c| c.to_digit(10)).map(i64::from).collect();
        let start = i64::from(inside);
        (digits.iter().fold(start, |n, d| n.saturating_mul(10).saturating_add(*d)), digits.len())
    };
    number(&a).cmp(&number(&b)).then(a[at].cmp(&b[at]))
}

#[cfg(test)]
mod tests;
