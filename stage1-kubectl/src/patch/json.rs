//! JSON patch (RFC 6902): a list of operations on paths.
//!
//! The RFC is implemented by a crate that we use elsewhere; here it is done by hand because users see the error texts, and
//! because Kubernetes' library also counts list positions from the end (`/list/-1`), which the RFC doesn't allow.
//!
//! # Invariants
//! 1. When an operation fails, the object is unchanged.
//!
//! # In Kubernetes
//! `github.com/evanphx/json-patch/v4/patch.go`.

use serde_json::{Map, Value};

use super::PatchError;
use crate::object::{MAX_DEPTH, deeper_than};

/// As many operations as the API server takes.
const MAX_OPERATIONS: usize = 10_000;
/// What all copies of a patch may add together, in bytes: a copy of the whole, sixty times over, would be 2⁶⁰ times the object.
const MAX_COPIED_BYTES: usize = 3 << 20;

fn unescape(token: &str) -> String {
    token.replace("~1", "/").replace("~0", "~")
}

/// Splits `/a/b` into the parent's tokens and the last one.
fn split(path: &str) -> (Vec<String>, String) {
    let mut tokens: Vec<String> = path.split('/').skip(1).map(unescape).collect();
    let last = tokens.pop().unwrap_or_default();
    (tokens, last)
}

/// A position in a list; negative ones count from the end.
fn position(token: &str, len: usize) -> Option<usize> {
    let at: i64 = token.parse().ok()?;
    let at = if at < 0 { at + len as i64 } else { at };
    usize::try_from(at).ok()
}

fn child<'a>(value: &'a mut Value, token: &str) -> Option<&'a mut Value> {
    match value {
        Value::Object(map) => map.get_mut(token),
        Value::Array(items) => {
            let at = position(token, items.len())?;
            items.get_mut(at)
        }
        _ => None,
    }
}

fn parent<'a>(document: &'a mut Value, tokens: &[String]) -> Option<&'a mut Value> {
    tokens.iter().try_fold(document, |at, token| child(at, token)).filter(|v| v.is_object() || v.is_array())
}

fn find(document: &mut Value, path: &str) -> Option<Value> {
    if path.is_empty() {
        return Some(document.clone());
    }
    let (tokens, last) = split(path);
    child(parent(document, &tokens)?, &last).cloned()
}

fn no_path(operation: &str, path: &str) -> PatchError {
    PatchError::Missing(format!("{operation} operation does not apply: doc is missing path: {path:?}"))
}

fn bad_index(operation: &str, path: &str, token: &str) -> PatchError {
    PatchError::Bad(format!(
        "error in {operation} for path: '{path}': Unable to access invalid index: {token}: invalid index referenced"
    ))
}

/// Paths and values nest a document step by step, until nobody can walk it.
fn check_depth(tokens: &[String], value: &Value) -> Result<(), PatchError> {
    match MAX_DEPTH.checked_sub(tokens.len() + 1).is_none_or(|levels| deeper_than(value, levels)) {
        true => Err(PatchError::Bad(format!("the object would be nested more than {MAX_DEPTH} deep"))),
        false => Ok(()),
    }
}

fn add(document: &mut Value, path: &str, value: Value, operation: &str) -> Result<(), PatchError> {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (tokens, last) = split(path);
    check_depth(&tokens, &value)?;
    match parent(document, &tokens).ok_or_else(|| no_path(operation, path))? {
        Value::Object(map) => drop(map.insert(last, value)),
        Value::Array(items) if last == "-" => items.push(value),
        Value::Array(items) => {
            // A negative position counts from the end of the longer list.
            let at = position(&last, items.len() + 1).filter(|at| *at <= items.len());
            items.insert(at.ok_or_else(|| bad_index(operation, path, &last))?, value);
        }
        _ => return Err(no_path(operation, path)),
    }
    Ok(())
}

fn remove(document: &mut Value, path: &str, operation: &str) -> Result<Value, PatchError> {
    let (tokens, last) = split(path);
    match parent(document, &tokens).ok_or_else(|| no_path(operation, path))? {
        Value::Object(map) => map.remove(&last).ok_or_else(|| {
            PatchError::Missing(format!(
                "error in {operation} for path: '{path}': Unable to remove nonexistent key: {last}"
            ))
        }),
        Value::Array(items) => match position(&last, items.len()).filter(|at| *at < items.len()) {
            Some(at) => Ok(items.remove(at)),
            None => Err(bad_index(operation, path, &last)),
        },
        _ => Err(no_path(operation, path)),
    }
}

fn replace(document: &mut Value, path: &str, value: Value) -> Result<(), PatchError> {
    if path.is_empty() {
        *document = value;
        return Ok(());
    }
    let (tokens, last) = split(path);
    check_depth(&tokens, &value)?;
    let parent = parent(document, &tokens).ok_or_else(|| no_path("replace", path))?;
    if let Value::Object(map) = parent {
        // Kubernetes' library takes a key that isn't there for one that is null.
        map.insert(last.to_string(), value);
        return Ok(());
    }
    let missing =
        || PatchError::Missing(format!("replace operation does not apply: doc is missing key: {path}"));
    *child(parent, &last).ok_or_else(missing)? = value;
    Ok(())
}

fn text<'a>(operation: &'a Map<String, Value>, field: &str) -> Result<&'a str, PatchError> {
    let found = operation.get(field).and_then(Value::as_str);
    found.ok_or_else(|| PatchError::Bad(format!("operation missing {field} field")))
}

/// Adds what another copy needs to what all before it did.
fn count_copy(copied_bytes: &mut usize, copied: &Value) -> Result<(), PatchError> {
    *copied_bytes += copied.to_string().len();
    match *copied_bytes > MAX_COPIED_BYTES {
        false => Ok(()),
        true => Err(PatchError::Bad(format!(
            "Unable to complete the copy, the accumulated size increase of copy is {copied_bytes}, exceeding the limit {MAX_COPIED_BYTES}"
        ))),
    }
}

fn apply(document: &mut Value, operation: &Value, copied_bytes: &mut usize) -> Result<(), PatchError> {
    let operation = operation
        .as_object()
        .ok_or_else(|| PatchError::Bad("a JSON patch operation must be a map".into()))?;
    let kind = operation.get("op").and_then(Value::as_str).unwrap_or("unknown");
    let value = || operation.get("value").cloned().unwrap_or(Value::Null);
    match kind {
        "add" => add(document, text(operation, "path")?, value(), "add"),
        "remove" => remove(document, text(operation, "path")?, "remove").map(drop),
        "replace" => replace(document, text(operation, "path")?, value()),
        "move" => {
            let (from, path) = (text(operation, "from")?, text(operation, "path")?);
            let moved = remove(document, from, "move")?;
            add(document, path, moved, "move")
        }
        "copy" => {
            let (from, path) = (text(operation, "from")?, text(operation, "path")?);
            let copied = find(document, from).ok_or_else(|| no_path("copy", from))?;
            count_copy(copied_bytes, &copied)?;
            add(document, path, copied, "copy")
        }
        "test" => {
            let path = text(operation, "path")?;
            match find(document, path).unwrap_or(Value::Null) == value() {
                true => Ok(()),
                false => Err(PatchError::TestFailed(path.to_string())),
            }
        }
        other => Err(PatchError::Bad(format!("Unexpected kind: {other}"))),
    }
}

/// Applies a list of operations; on failure the object stays as it was.
///
/// # Errors
/// The first operation that can't be done.
pub fn apply_json_patch(target: &mut Value, patch: &Value) -> Result<(), PatchError> {
    let operations = patch.as_array().ok_or_else(|| PatchError::Bad("a JSON patch must be a list".into()))?;
    if operations.len() > MAX_OPERATIONS {
        let count = operations.len();
        let why = format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {count}");
        return Err(PatchError::Bad(why));
    }
    let mut document = target.clone();
    let mut copied_bytes = 0;
    for operation in operations {
        apply(&mut document, operation, &mut copied_bytes)?;
    }
    *target = document;
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn patched(mut target: Value, patch: Value) -> Result<Value, String> {
        apply_json_patch(&mut target, &patch).map_err(|e| e.to_string())?;
        Ok(target)
    }

    #[test]
    fn every_operation_does_what_the_rfc_says() {
        let cases = [
            (json!([{"op": "add", "path": "/l/1", "value": 9}]), json!({"a": 1, "l": [1, 9, 2]})),
            (json!([{"op": "add", "path": "/l/-", "value": 9}]), json!({"a": 1, "l": [1, 2, 9]})),
            (json!([{"op": "remove", "path": "/l/-1"}]), json!({"a": 1, "l": [1]})),
            (json!([{"op": "replace", "path": "/a", "value": null}]), json!({"a": null, "l": [1, 2]})),
            (json!([{"op": "move", "from": "/a", "path": "/b~1c"}]), json!({"b/c": 1, "l": [1, 2]})),
            (json!([{"op": "copy", "from": "/l", "path": "/m"}]), json!({"a": 1, "l": [1, 2], "m": [1, 2]})),
            (json!([{"op": "test", "path": "/x", "value": null}]), json!({"a": 1, "l": [1, 2]})),
        ];
        for (patch, wanted) in cases {
            assert_eq!(patched(json!({"a": 1, "l": [1, 2]}), patch), Ok(wanted));
        }
    }

    #[test]
    fn copies_of_copies_end_before_they_fill_the_memory() {
        let start = json!({"a": "x".repeat(1000)});
        let copies = (0..60).map(|n| json!({"op": "copy", "from": "", "path": format!("/{n}")}));
        let error = patched(start, copies.collect()).expect_err("2⁶⁰ kB");
        assert!(error.contains("exceeding the limit 3145728"), "{error}");
    }

    #[test]
    fn a_document_grows_no_deeper_than_can_be_walked() {
        let mut path = String::new();
        let operations = (0..200).map(|_| {
            path.push_str("/x");
            json!({"op": "add", "path": path, "value": {}})
        });
        let error = patched(json!({}), operations.collect()).expect_err("200 deep");
        assert!(error.contains("more than 100 deep"), "{error}");
    }

    #[test]
    fn invariant_1_a_failed_patch_changes_nothing() {
        let mut target = json!({"a": 1});
        let patch = json!([{"op": "remove", "path": "/a"}, {"op": "test", "path": "/a", "value": 1}]);
        assert!(apply_json_patch(&mut target, &patch).is_err());
        assert_eq!(target, json!({"a": 1}));
    }

    #[test]
    fn errors_have_the_words_of_kubernetes_library() {
        let error = |patch| patched(json!({"a": {"b": 1}}), patch).unwrap_err();
        assert_eq!(
            error(json!([{"op": "add", "path": "/x/y", "value": 1}])),
            "add operation does not apply: doc is missing path: \"/x/y\": missing value"
        );
        assert_eq!(
            error(json!([{"op": "remove", "path": "/a/x"}])),
            "error in remove for path: '/a/x': Unable to remove nonexistent key: x: missing value"
        );
        let mut added = json!({"a": 1});
        apply_json_patch(&mut added, &json!([{"op": "replace", "path": "/x", "value": 1}])).unwrap();
        assert_eq!(added, json!({"a": 1, "x": 1}));
    }
}
