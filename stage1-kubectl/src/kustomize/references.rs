//! Names inside objects follow the objects that they name.
//!
//! # In Kubernetes
//! `kustomize/api/internal/accumulator/namereferencetransformer.go`, its table of fields in
//! `builtinpluginconsts/namereference.go`. Left out: fields of custom kinds.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{Resource, text};

/// (kind, namespace, old name) → new name.
type Names = BTreeMap<(String, String, String), String>;

/// Replaces every reference to a name that changed.
pub fn update(resources: &mut [Resource]) {
    let mut names = Names::new();
    for resource in resources.iter() {
        let namespace = text(&resource.object, "/metadata/namespace").to_string();
        for old in resource.names.iter().filter(|old| *old != resource.name()) {
            let key = (resource.gvk().kind, namespace.clone(), old.clone());
            names.insert(key, resource.name().to_string());
        }
    }
    if names.is_empty() {
        return;
    }
    for resource in resources {
        let namespace = text(&resource.object, "/metadata/namespace").to_string();
        let own_name = resource.object["metadata"].take();
        walk(&mut resource.object, "", &namespace, &names);
        resource.object["metadata"] = own_name;
    }
}

fn walk(value: &mut Value, parent: &str, namespace: &str, names: &Names) {
    match value {
        Value::Array(list) => list.iter_mut().for_each(|inner| walk(inner, parent, namespace, names)),
        Value::Object(map) => {
            let own_kind = map.get("kind").and_then(Value::as_str).map(String::from);
            let own_namespace = map.get("namespace").and_then(Value::as_str).map(String::from);
            let is_volume_source = parent == "service" || map.contains_key("port");
            for (key, inner) in map.iter_mut() {
                let kind = referred(parent, key, own_kind.as_deref(), is_volume_source);
                let namespace = own_namespace.as_deref().unwrap_or(namespace);
                match (kind, inner.as_str()) {
                    (Some(kind), Some(old)) => {
                        let key = (kind, namespace.to_string(), old.to_string());
                        if let Some(new) = names.get(&key) {
                            *inner = new.as_str().into();
                        }
                    }
                    _ => walk(inner, key, namespace, names),
                }
            }
        }
        _ => {}
    }
}

/// The kind that a field names, by the field and the one around it.
fn referred(parent: &str, field: &str, own_kind: Option<&str>, in_backend: bool) -> Option<String> {
    let kind = match (parent, field) {
        ("configMap" | "configMapRef" | "configMapKeyRef", "name") => "ConfigMap",
        ("secret" | "secretRef" | "secretKeyRef" | "imagePullSecrets" | "secrets", "name") => "Secret",
        (_, "secretName") => "Secret",
        (_, "serviceAccountName" | "serviceAccount") => "ServiceAccount",
        (_, "claimName") => "PersistentVolumeClaim",
        (_, "priorityClassName") => "PriorityClass",
        (_, "storageClassName") => "StorageClass",
        (_, "serviceName") => "Service",
        ("service", "name") if in_backend => "Service",
        ("scaleTargetRef" | "roleRef" | "subjects" | "targetRef", "name") => own_kind?,
        _ => return None,
    };
    Some(kind.to_string())
}
