//! Comparing an answer with a recorded one: placeholders match anything. Of
//! managedFields what the controller manager wrote isn't compared.
#![allow(dead_code, reason = "each test uses a part")]

use serde_json::{Map, Value};

/// Where two documents differ; `None` if they don't. `actual` may lack what this server doesn't keep.
pub fn difference(expected: &Value, actual: &Value) -> Option<String> {
    walk("", &strip(expected), &strip(actual))
}

/// How values begin that no two servers agree on: token volumes, Service addresses, credentials.
const DRAWN: [&str; 3] = ["kube-api-access-", "10.96.", "X509SHA256="];

/// Without what isn't compared.
fn strip(value: &Value) -> Value {
    match value {
        Value::Object(map) => {
            let mut kept: Map<_, _> = map.iter().map(|(k, v)| (k.clone(), strip(v))).collect();
            if let Some(Value::Array(entries)) = kept.get_mut("managedFields") {
                entries.retain(|entry| entry["manager"] != "kube-controller-manager");
            }
            // Pods have a generation since 1.33; the records are older.
            let is_pod = kept.get("kind").is_some_and(|k| k == "Pod");
            if let (true, Some(Value::Object(metadata))) = (is_pod, kept.get_mut("metadata")) {
                metadata.remove("generation");
            }
            Value::Object(kept)
        }
        Value::Array(items) => Value::Array(items.iter().map(strip).collect()),
        other => other.clone(),
    }
}

fn walk(path: &str, expected: &Value, actual: &Value) -> Option<String> {
    match (expected, actual) {
        (Value::Object(e), Value::Object(a)) => {
            for (key, value) in e {
                let here = format!("{path}.{key}");
                match a.get(key) {
                    Some(found) => {
                        if let Some(difference) = walk(&here, value, found) {
                            return Some(difference);
                        }
                    }
                    None => return Some(format!("{here}: missing, should be {}", short(value))),
                }
            }
            a.keys()
                .find(|k| !e.contains_key(*k))
                .map(|k| format!("{path}.{k}: not expected: {}", short(&a[k])))
        }
        (Value::Array(e), Value::Array(a)) => {
            if e.len() != a.len() {
                return Some(format!("{path}: {} items, should be {}", a.len(), e.len()));
            }
            e.iter().zip(a).enumerate().find_map(|(i, (e, a))| walk(&format!("{path}[{i}]"), e, a))
        }
        (Value::String(e), Value::String(a)) if matches(e, a) => None,
        // Names and addresses that are drawn at random.
        (Value::String(e), Value::String(a))
            if DRAWN.iter().any(|d| e.starts_with(d) && a.starts_with(d)) =>
        {
            None
        }
        // An allocated port is a number, its placeholder a text.
        (Value::String(e), Value::Number(_)) if e == "<nodePort>" => None,
        (e, a) if e == a => None,
        (e, a) => Some(format!("{path}: {} should be {}", short(a), short(e))),
    }
}

fn short(value: &Value) -> String {
    let text = value.to_string();
    if text.chars().count() > 300 {
        format!("{}…", text.chars().take(300).collect::<String>())
    } else {
        text
    }
}

/// Whether a text fits a pattern whose `<placeholders>` stand for anything, and whose long fillers are spelled out.
pub fn matches(pattern: &str, text: &str) -> bool {
    if pattern == text {
        return true;
    }
    let placeholder = regex::Regex::new(
        r#"<(uid|rv|id|id26|hostname|time|rand5|ptr|pem|ca|clusterIP|nodePort|server|age|port)(-\d+)?>|\(\d{4,}\)|current: \d+|\(record \d+\)|resourceVersion: "\d+""#,
    )
    .expect("a regular expression");
    if !placeholder.is_match(pattern) {
        return false;
    }
    let mut rule = String::from("(?s)^");
    let mut last = 0;
    for found in placeholder.find_iter(pattern) {
        rule.push_str(&regex::escape(&pattern[last..found.start()]));
        rule.push_str(".*?");
        last = found.end();
    }
    rule.push_str(&regex::escape(&pattern[last..]));
    rule.push('$');
    regex::Regex::new(&rule).is_ok_and(|rule| rule.is_match(text))
}

/// Spells out `<x repeated N>`.
pub fn expand(text: &str) -> String {
    let filler = regex::Regex::new(r"<(.) repeated (\d+)>").expect("a regular expression");
    filler.replace_all(text, |c: &regex::Captures<'_>| c[1].repeat(c[2].parse().unwrap_or(0))).into_owned()
}
