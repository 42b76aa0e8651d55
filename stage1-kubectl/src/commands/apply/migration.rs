//! Ownership that client-side applies have left behind, moved to the manager of server-side applies.
//!
//! `managedFields` holds a tree of fields for each manager and operation. The entries of `kubectl-client-side-apply` (and of whoever wrote
//! the last-applied annotation by an update) are united with ours and then dropped.
//!
//! # Invariants
//! 1. No field loses its owner: our entry owns the union. Only the annotation of client-side applies stays with its own manager.
//!
//! # In Kubernetes
//! `client-go/util/csaupgrade/upgrade.go`.

use serde_json::{Map, Value};

use super::LAST_APPLIED;
use crate::object::Object;

const CLIENT_SIDE: &str = "kubectl-client-side-apply";

/// The new record of owners; nothing when there is nothing to move.
pub(super) fn upgrade(object: &Object, ours: &str) -> Option<Value> {
    let entries = object.get("/metadata/managedFields")?.as_array()?;
    let annotation = format!("f:{LAST_APPLIED}");
    let wrote_annotation =
        |entry: &Value| !entry["fieldsV1"]["f:metadata"]["f:annotations"][annotation.as_str()].is_null();
    let whole = |entry: &Value| entry.get("subresource").is_none_or(|s| s == "");
    let old = |entry: &&Value| {
        whole(entry)
            && entry["operation"] == "Update"
            && (entry["manager"] == CLIENT_SIDE || wrote_annotation(entry))
    };
    if !entries.iter().any(|entry| old(&entry)) {
        return None;
    }
    let is_ours = |entry: &Value| whole(entry) && entry["operation"] == "Apply" && entry["manager"] == ours;
    let mut mine = match entries.iter().find(|entry| is_ours(entry)) {
        Some(mine) => mine.clone(),
        None => {
            let mut first = entries.iter().find(old)?.clone();
            first["manager"] = ours.into();
            first["operation"] = "Apply".into();
            first
        }
    };
    for entry in entries.iter().filter(old) {
        if let (Some(into), Some(fields)) = (mine["fieldsV1"].as_object_mut(), entry["fieldsV1"].as_object())
        {
            unite(into, fields);
        }
    }
    if let Some(annotations) = mine["fieldsV1"]["f:metadata"]["f:annotations"].as_object_mut() {
        annotations.remove(&annotation);
    }
    let others = entries.iter().filter(|entry| !old(entry) && !is_ours(entry)).cloned();
    Some(std::iter::once(mine).chain(others).collect())
}

fn unite(into: &mut Map<String, Value>, fields: &Map<String, Value>) {
    for (name, value) in fields {
        match (into.get_mut(name).and_then(Value::as_object_mut), value) {
            (Some(into), Value::Object(fields)) => unite(into, fields),
            (None, value) => drop(into.insert(name.clone(), value.clone())),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_client_side_manager_hands_its_fields_over_and_nobody_else_does() {
        let annotation = format!("f:{LAST_APPLIED}");
        let object = Object::from_value(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c", "managedFields": [
            {"manager": "kubectl", "operation": "Apply", "fieldsV1": {"f:data": {"f:a": {}}}},
            {"manager": CLIENT_SIDE, "operation": "Update",
                "fieldsV1": {"f:data": {"f:b": {}, ".": {}}, "f:metadata": {"f:annotations": {annotation: {}, ".": {}}}}},
            {"manager": "controller", "operation": "Update", "fieldsV1": {"f:data": {"f:c": {}}}},
        ]}}))
        .unwrap();
        let moved = upgrade(&object, "kubectl").unwrap();
        let wanted = json!([
            {"manager": "kubectl", "operation": "Apply",
                "fieldsV1": {"f:data": {"f:a": {}, "f:b": {}, ".": {}}, "f:metadata": {"f:annotations": {".": {}}}}},
            {"manager": "controller", "operation": "Update", "fieldsV1": {"f:data": {"f:c": {}}}},
        ]);
        assert_eq!(moved, wanted);
        let mut done = object.clone();
        done.set("/metadata/managedFields", moved);
        assert_eq!(upgrade(&done, "kubectl"), None);
    }
}
