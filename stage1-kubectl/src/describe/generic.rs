//! The page of an object of any kind: its fields, under their names in words.
//!
//! # In Kubernetes
//! `genericDescriber` and `printUnstructuredContent` in `kubectl/pkg/describe/describe.go`.

use serde_json::{Map, Value};

use super::access::{scalar, text};
use super::doc::Doc;

/// Fields that the head of the page has shown.
const SHOWN: [&str; 5] = [
    ".metadata.managedFields",
    ".metadata.name",
    ".metadata.namespace",
    ".metadata.labels",
    ".metadata.annotations",
];

/// Writes the page without its events.
pub fn write(doc: &mut Doc, object: &Value) {
    doc.field(0, "Name", text(object, "/metadata/name"));
    doc.field(0, "Namespace", text(object, "/metadata/namespace"));
    doc.labels_and_annotations(object);
    if let Value::Object(map) = object {
        write_map(doc, 0, map, "");
    }
}

fn write_map(doc: &mut Doc, level: usize, map: &Map<String, Value>, path: &str) {
    let mut fields: Vec<(&String, &Value)> = map.iter().collect();
    fields.sort_by_key(|(name, _)| name.as_str());
    for (name, value) in fields {
        let path = format!("{path}.{name}");
        if SHOWN.contains(&path.as_str()) {
            continue;
        }
        match value {
            Value::Object(map) => {
                doc.line(level, &format!("{}:", in_words(name)));
                write_map(doc, level + 1, map, &path);
            }
            Value::Array(items) => {
                doc.line(level, &format!("{}:", in_words(name)));
                for item in items {
                    match item {
                        Value::Object(map) => write_map(doc, level + 1, map, &path),
                        other => doc.line(level + 1, &scalar(Some(other))),
                    }
                }
            }
            Value::Null => doc.field(level, &in_words(name), "<nil>"),
            other => doc.field(level, &in_words(name), &scalar(Some(other))),
        }
    }
}

/// `creationTimestamp` → `Creation Timestamp`, `uid` → `UID`; a name with other characters than letters stays as it is.
fn in_words(name: &str) -> String {
    if name.is_empty() || name.contains(|c: char| !c.is_alphabetic() && c != '-') {
        return name.to_owned();
    }
    let mut words: Vec<String> = Vec::new();
    let letters: Vec<char> = name.chars().collect();
    for (at, letter) in letters.iter().enumerate() {
        let after_lower = at > 0 && letters[at - 1].is_lowercase();
        let before_lower = letters.get(at + 1).is_some_and(|next| next.is_lowercase());
        let after_upper = at > 0 && letters[at - 1].is_uppercase();
        let begins = match letter {
            '-' => true,
            letter if letter.is_uppercase() => after_lower || (after_upper && before_lower),
            _ => false,
        };
        if at == 0 || begins || letters[at - 1] == '-' {
            words.push(String::new());
        }
        if let Some(word) = words.last_mut() {
            word.push(*letter);
        }
    }
    words.iter().map(|word| titled(word)).collect::<Vec<_>>().join(" ")
}

fn titled(word: &str) -> String {
    const ACRONYMS: [&str; 5] = ["API", "URL", "UID", "OSB", "GUID"];
    let upper = word.to_uppercase();
    if ACRONYMS.contains(&upper.as_str()) {
        return upper;
    }
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
