//! Secrets, ConfigMaps, ServiceAccounts.
//!
//! # In Kubernetes
//! `ValidateSecret`, `ValidateConfigMap`, `ValidateServiceAccount`. The contents of a Secret never appear in a message.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::fields::{child, entries, flag, has, text};
use super::{Errors, FieldError, immutable, invalid_each, key, names};

/// Largest Secret or ConfigMap.
const MAX_SIZE_BYTES: usize = 1024 * 1024;
const REDACTED: &str = "<secret contents redacted>";

/// Keys that a type of Secret must have.
const REQUIRED_KEYS: &[(&str, &[&str])] = &[
    ("kubernetes.io/dockercfg", &[".dockercfg"]),
    ("kubernetes.io/dockerconfigjson", &[".dockerconfigjson"]),
    ("kubernetes.io/ssh-auth", &["ssh-privatekey"]),
    ("kubernetes.io/tls", &["tls.crt", "tls.key"]),
];

/// Secret.
pub fn secret(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut total = 0;
    for (name, content) in entries(value, "data") {
        invalid_each(&mut errors, &key("data", name), name, names::config_map_key(name));
        total += content.as_str().and_then(|text| STANDARD.decode(text).ok()).map_or(0, |bytes| bytes.len());
    }
    if total > MAX_SIZE_BYTES {
        errors.push(FieldError::too_long("data", MAX_SIZE_BYTES));
    }
    let kind = text(value, "type");
    let data = child(value, "data");
    match kind {
        "kubernetes.io/service-account-token"
            if !has(child(child(value, "metadata"), "annotations"), "kubernetes.io/service-account.name") =>
        {
            let path = key("metadata.annotations", "kubernetes.io/service-account.name");
            errors.push(FieldError::required(path, ""));
        }
        "kubernetes.io/basic-auth" if !has(data, "username") && !has(data, "password") => {
            for name in ["username", "password"] {
                errors.push(FieldError::required(key("data", name), ""));
            }
        }
        _ => {}
    }
    for name in REQUIRED_KEYS.iter().filter(|(of, _)| *of == kind).flat_map(|(_, names)| names.iter()) {
        match data.get(*name).and_then(Value::as_str) {
            None => errors.push(FieldError::required(key("data", name), "")),
            Some(content) if name.starts_with(".docker") => errors.extend(docker_config(content, name)),
            Some("") if *name == "ssh-privatekey" => errors.push(FieldError::required(key("data", name), "")),
            Some(_) => {}
        }
    }
    errors
}

/// A registry's credentials are JSON.
fn docker_config(content: &str, name: &str) -> Option<FieldError> {
    let bytes = STANDARD.decode(content).unwrap_or_default();
    serde_json::from_slice::<Value>(&bytes).err()?;
    let message = crate::schema::go_json::syntax_error(&bytes)
        .unwrap_or_else(|| "unexpected end of JSON input".to_owned());
    Some(FieldError::invalid(key("data", name), REDACTED, message))
}

/// A changed Secret: its type stays, and an immutable one its data.
pub fn secret_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    immutable(&mut errors, child(new, "type"), child(old, "type"), "type");
    errors.extend(immutable_data(new, old, &["data"]));
    errors.extend(secret(new));
    errors
}

fn immutable_data(new: &Value, old: &Value, fields: &[&str]) -> Errors {
    let mut errors = Errors::new();
    if !flag(old, "immutable") {
        return errors;
    }
    let detail = "field is immutable when `immutable` is set";
    if !flag(new, "immutable") {
        errors.push(FieldError::forbidden("immutable", detail));
    }
    for name in fields.iter().filter(|name| child(new, name) != child(old, name)) {
        errors.push(FieldError::forbidden(*name, detail));
    }
    errors
}

/// ConfigMap.
pub fn config_map(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut total = 0;
    for (name, content) in entries(value, "data") {
        invalid_each(&mut errors, &key("data", name), name, names::config_map_key(name));
        if has(child(value, "binaryData"), name) {
            let detail = "duplicate of key present in binaryData";
            errors.push(FieldError::invalid(key("data", name), name.as_str(), detail));
        }
        total += content.as_str().map_or(0, str::len);
    }
    for (name, content) in entries(value, "binaryData") {
        invalid_each(&mut errors, &key("binaryData", name), name, names::config_map_key(name));
        total += content.as_str().and_then(|text| STANDARD.decode(text).ok()).map_or(0, |bytes| bytes.len());
    }
    if total > MAX_SIZE_BYTES {
        errors.push(FieldError::too_long("", MAX_SIZE_BYTES));
    }
    errors
}

/// A changed ConfigMap.
pub fn config_map_update(new: &Value, old: &Value) -> Errors {
    let mut errors = immutable_data(new, old, &["data", "binaryData"]);
    errors.extend(config_map(new));
    errors
}
