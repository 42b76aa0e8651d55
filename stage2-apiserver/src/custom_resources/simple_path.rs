//! Simple paths: `.spec.replicas`, as definitions name fields for scale, columns and field selectors.
//!
//! # In Kubernetes
//! `validateSimpleJSONPath` in `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.

use serde_json::{Map, Value};

/// The parts of a path.
pub fn parts(path: &str) -> Vec<&str> {
    path.split('.').filter(|part| !part.is_empty()).collect()
}

/// What is there.
pub fn get<'a>(value: &'a Value, path: &str) -> Option<&'a Value> {
    parts(path).into_iter().try_fold(value, |value, part| value.get(part))
}

/// Puts something there, with the maps on the way to it.
pub fn set(value: &mut Value, path: &str, what: Value) {
    let mut at = value;
    for part in parts(path) {
        if !at.is_object() {
            *at = Value::Object(Map::new());
        }
        at = at.as_object_mut().expect("made a map just above").entry(part).or_insert(Value::Null);
    }
    *at = what;
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_is_read_and_written() {
        let mut value = json!({ "spec": { "n": 1 } });
        assert_eq!(get(&value, ".spec.n"), Some(&json!(1)));
        assert_eq!(get(&value, ".spec.m.x"), None);
        set(&mut value, ".status.a.b", json!(2));
        assert_eq!(value, json!({ "spec": { "n": 1 }, "status": { "a": { "b": 2 } } }));
    }
}
