//! The annotation of client-side apply: what `kubectl apply` without `--server-side` left on an object.
//!
//! Who changes from one to the other must not meet conflicts with their own past. So the manager `kubectl` may take every field that
//! the annotation names, and keeps the annotation true, in case they change back.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/managedfields/internal/{lastapplied,lastappliedmanager,lastappliedupdater}.go`.

use serde_json::Value;

use super::conflict::Conflict;
use super::field_set::FieldSet;
use super::field_types::ObjectType;
use super::walk::fields_of;

/// The manager that this is about.
pub const KUBECTL: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
const POINTER: &str = "/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration";

/// The annotation's text.
fn annotation(object: &Value) -> Option<&str> {
    object.pointer(POINTER).and_then(Value::as_str).filter(|text| !text.is_empty())
}

/// The fields that client-side apply set; `None` when it never was, or in another version.
fn fields(live: &Value, api_version: &str, object_type: &ObjectType) -> Option<FieldSet> {
    let applied: Value = serde_json::from_str(annotation(live)?).ok()?;
    (applied["apiVersion"] == api_version).then(|| fields_of(object_type, &applied))
}

/// The conflicts that aren't with one's own past.
pub fn remaining(
    conflicts: Vec<Conflict>,
    live: &Value,
    api_version: &str,
    object_type: &ObjectType,
) -> Vec<Conflict> {
    let Some(own) = fields(live, api_version, object_type) else { return conflicts };
    let without_own = |mut conflict: Conflict| {
        conflict.fields.difference(&own);
        (!conflict.fields.is_empty()).then_some(conflict)
    };
    conflicts.into_iter().filter_map(without_own).collect()
}

/// Brings an annotation that is there up to date with what was applied now.
pub fn renew(object: &mut Value, applied: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut applied = applied.clone();
    if let Some(annotations) = applied.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    // Go's encoder escapes what could end a script in a web page, and ends the line.
    let text = applied.to_string().replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    if let Some(place) = object.pointer_mut(POINTER) {
        *place = Value::String(text + "\n");
    }
}
