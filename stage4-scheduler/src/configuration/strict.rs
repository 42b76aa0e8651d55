//! Strict decoding: a field that nobody knows is an error, not a wish that is quietly lost.
//!
//! `podMaxBackofSeconds: 5` (one letter missing) would otherwise leave the default in place, and nobody would
//! ever find out. The same holds for a key that is given twice.
//!
//! # In Kubernetes
//! `apimachinery/pkg/runtime/serializer/json` (strict), `sigs.k8s.io/yaml` (`UnmarshalStrict`).

use serde::de::DeserializeOwned;
use serde_json::Value;
use serde_yaml::Error as YamlError;

/// Reads the YAML (or JSON) text of one document.
///
/// # Errors
/// It is no YAML, or a key stands there twice.
pub fn document(text: &str) -> Result<Value, String> {
    if let Err(error) = serde_yaml::from_str::<Value>(text) {
        let root = error.without_snippet();
        if let YamlError::DuplicateMappingKey { key, location } = root {
            let key = key.as_deref().unwrap_or("?");
            let line = location.line();
            return Err(format!(
                "strict decoding error: yaml: unmarshal errors:\n  line {line}: key \"{key}\" already set in map"
            ));
        }
    }
    let documents = stage1_kubectl::manifest::documents(text, "config").map_err(|error| match error {
        stage1_kubectl::manifest::ManifestError::Parse { message, .. } => message,
        other => other.to_string(),
    })?;
    Ok(documents.into_iter().next().unwrap_or(Value::Null))
}

/// Decodes a value and says which of its fields nobody knows.
///
/// # Errors
/// A value of the wrong kind, or `strict decoding error: unknown field "…"` for each unknown field.
pub fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, String> {
    let mut unknown = Vec::new();
    let decoded = serde_ignored::deserialize(value, |path| unknown.push(go_path(&path.to_string())))
        .map_err(|error| format!("json: cannot unmarshal: {error}"))?;
    if unknown.is_empty() {
        return Ok(decoded);
    }
    let fields: Vec<String> = unknown.iter().map(|path| format!("unknown field \"{path}\"")).collect();
    Err(format!("strict decoding error: {}", fields.join(", ")))
}

/// Takes out what says nothing: null, empty texts, lists and maps.
pub fn without_empty(value: &mut Value) {
    match value {
        Value::Object(fields) => {
            fields.values_mut().for_each(without_empty);
            fields.retain(|_, value| !is_empty(value));
        }
        Value::Array(items) => items.iter_mut().for_each(without_empty),
        _ => {}
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        _ => false,
    }
}

/// `profiles.0.plugins` as Go writes it: `profiles[0].plugins`.
fn go_path(path: &str) -> String {
    let mut text = String::new();
    for part in path.split('.').filter(|part| *part != "?") {
        if part.bytes().all(|byte| byte.is_ascii_digit()) {
            text.push_str(&format!("[{part}]"));
        } else {
            if !text.is_empty() {
                text.push('.');
            }
            text.push_str(part);
        }
    }
    text
}
