//! Environment: variables and where their values come from.
//!
//! # In Kubernetes
//! `ValidateEnv`, `ValidateEnvFrom`, `validateObjectFieldSelector`, `validateContainerResourceFieldSelector`.

use serde_json::Value;

use crate::validation::fields::{child, has, list, text};
use crate::validation::values::{quantity, required_form};
use crate::validation::{Errors, FieldError, field, index, invalid_each, names};

/// Fields that a variable can show.
const ENV_FIELDS: &[&str] = &[
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];
/// Fields that a file can show.
pub const VOLUME_FIELDS: &[&str] =
    &["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
const RESOURCES: &[&str] = &[
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];
const MORE_THAN_ONE: &str = "may not have more than one field specified at a time";

/// `env`.
pub fn env(variables: &[Value], path: &str) -> Errors {
    let mut errors = Errors::new();
    for (at, variable) in variables.iter().enumerate() {
        let path = index(path, at);
        required_form(&mut errors, variable, "name", &path, names::env_var_name);
        if has(variable, "valueFrom") {
            errors.extend(value_from(variable, &field(&path, "valueFrom")));
        }
    }
    errors
}

fn value_from(variable: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let from = child(variable, "valueFrom");
    let mut sources = 0;
    if has(from, "fieldRef") {
        sources += 1;
        errors.extend(field_selector(child(from, "fieldRef"), &field(path, "fieldRef"), ENV_FIELDS));
    }
    if has(from, "resourceFieldRef") {
        sources += 1;
        errors.extend(resource_selector(
            child(from, "resourceFieldRef"),
            &field(path, "resourceFieldRef"),
            false,
        ));
    }
    for name in ["configMapKeyRef", "secretKeyRef"] {
        if has(from, name) {
            sources += 1;
            errors.extend(key_selector(child(from, name), &field(path, name)));
        }
    }
    if sources == 0 {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`";
        errors.push(FieldError::invalid(path, "", detail));
    }
    if !text(variable, "value").is_empty() {
        if sources != 0 {
            errors.push(FieldError::invalid(path, "", "may not be specified when `value` is not empty"));
        }
    } else if sources > 1 {
        errors.push(FieldError::invalid(path, "", MORE_THAN_ONE));
    }
    errors
}

/// A field of the pod.
pub fn field_selector(selector: &Value, path: &str, supported: &[&str]) -> Errors {
    let mut errors = Errors::new();
    let (api_version, field_path) = (text(selector, "apiVersion"), text(selector, "fieldPath"));
    if api_version.is_empty() {
        errors.push(FieldError::required(field(path, "apiVersion"), ""));
        return errors;
    }
    if field_path.is_empty() {
        errors.push(FieldError::required(field(path, "fieldPath"), ""));
        return errors;
    }
    if let Some((owner, key)) = field_path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        match owner {
            "metadata.annotations" => {
                invalid_each(&mut errors, path, key, names::qualified_name(&key.to_lowercase()))
            }
            "metadata.labels" => invalid_each(&mut errors, path, key, names::qualified_name(key)),
            other => errors.push(FieldError::invalid(path, other, "does not support subscript")),
        }
        return errors;
    }
    let known = ENV_FIELDS.contains(&field_path) || VOLUME_FIELDS.contains(&field_path);
    if !known {
        let detail = format!("error converting fieldPath: field label not supported: {field_path}");
        errors.push(FieldError::invalid(field(path, "fieldPath"), field_path, detail));
    } else if !supported.contains(&field_path) {
        errors.push(FieldError::not_supported(field(path, "fieldPath"), field_path, supported));
    }
    errors
}

/// A container's resource.
pub fn resource_selector(selector: &Value, path: &str, in_volume: bool) -> Errors {
    let mut errors = Errors::new();
    let resource = text(selector, "resource");
    let huge = resource.starts_with("limits.hugepages-") || resource.starts_with("requests.hugepages-");
    if in_volume && text(selector, "containerName").is_empty() {
        errors.push(FieldError::required(field(path, "containerName"), ""));
    } else if resource.is_empty() {
        errors.push(FieldError::required(field(path, "resource"), ""));
    } else if !RESOURCES.contains(&resource) && !huge {
        errors.push(FieldError::not_supported(field(path, "resource"), resource, RESOURCES));
    }
    errors.extend(divisor(selector, resource, path));
    errors
}

fn divisor(selector: &Value, resource: &str, path: &str) -> Option<FieldError> {
    const BYTES: &[&str] =
        &["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let value = child(selector, "divisor");
    if value.is_null() || quantity(value).is_zero() {
        return None;
    }
    let shown = quantity(value).to_string();
    let (allowed, detail): (&[&str], &str) = match resource.split_once('.')?.1 {
        "cpu" => (&["1m", "1"], "only divisor's values 1m and 1 are supported with the cpu resource"),
        "memory" => (
            BYTES,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the memory resource",
        ),
        "ephemeral-storage" => (
            BYTES,
            "only divisor's values 1, 1k, 1M, 1G, 1T, 1P, 1E, 1Ki, 1Mi, 1Gi, 1Ti, 1Pi, 1Ei are supported with the local ephemeral storage resource",
        ),
        _ => return None,
    };
    (!allowed.contains(&shown.as_str()))
        .then(|| FieldError::invalid(field(path, "divisor"), resource, detail))
}

fn key_selector(selector: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let name = text(selector, "name");
    invalid_each(&mut errors, &field(path, "name"), name, names::dns1123_subdomain(name));
    required_form(&mut errors, selector, "key", path, names::config_map_key);
    errors
}

/// `envFrom`.
pub fn env_from(sources: &[Value], path: &str) -> Errors {
    let mut errors = Errors::new();
    for (at, source) in sources.iter().enumerate() {
        let idx = index(path, at);
        let prefix = text(source, "prefix");
        if !prefix.is_empty() {
            invalid_each(&mut errors, &field(&idx, "prefix"), prefix, names::env_var_name(prefix));
        }
        let mut given = 0;
        for name in ["configMapRef", "secretRef"] {
            if has(source, name) {
                given += 1;
                required_form(
                    &mut errors,
                    child(source, name),
                    "name",
                    &field(&idx, name),
                    names::dns1123_subdomain,
                );
            }
        }
        match given {
            0 => errors.push(FieldError::invalid(
                path,
                "",
                "must specify one of: `configMapRef` or `secretRef`",
            )),
            1 => {}
            _ => errors.push(FieldError::invalid(path, "", MORE_THAN_ONE)),
        }
    }
    errors
}

/// The items of a list by name; used by volumes for `downwardAPI.items`.
pub fn downward_items(source: &Value, path: &str) -> Errors {
    use crate::validation::values::{file_mode, local_non_reserved_path};
    let mut errors = Errors::new();
    for (at, item) in list(source, "items").iter().enumerate() {
        let path = index(&field(path, "items"), at);
        match text(item, "path") {
            "" => errors.push(FieldError::required(field(&path, "path"), "")),
            target => local_non_reserved_path(&mut errors, target, &field(&path, "path")),
        }
        match (has(item, "fieldRef"), has(item, "resourceFieldRef")) {
            (true, both) => {
                errors.extend(field_selector(
                    child(item, "fieldRef"),
                    &field(&path, "fieldRef"),
                    VOLUME_FIELDS,
                ));
                if both {
                    let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
                    errors.push(FieldError::invalid(&path, "resource", detail));
                }
            }
            (false, true) => {
                let selector = child(item, "resourceFieldRef");
                errors.extend(resource_selector(selector, &field(&path, "resourceFieldRef"), true));
            }
            (false, false) => {
                errors.push(FieldError::required(&path, "one of fieldRef and resourceFieldRef is required"))
            }
        }
        file_mode(&mut errors, item, "mode", &path);
    }
    errors
}
