//! The parts of a definition beside its schemas: names, subresources, columns, conversion.
//!
//! # In Kubernetes
//! `ValidateCustomResourceDefinitionNames`, `ValidateCustomResourceDefinitionSubresources`, `ValidateCustomResourceColumnDefinition` and
//! `validateCustomResourceConversion` in `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.

use serde_json::Value;

use super::super::fields::{child, list, text, texts};
use super::super::{Errors, FieldError, admission, field, go_syntax, index, invalid_each, names, values};

pub(super) fn names_of(errors: &mut Errors, wanted: &Value, path: &str) {
    for name in ["plural", "singular"] {
        let value = text(wanted, name);
        let bad = names::dns1035_label(value);
        if !value.is_empty() && !bad.is_empty() {
            errors.push(FieldError::invalid(field(path, name), value, bad.join(",")));
        }
    }
    for name in ["kind", "listKind"] {
        let value = text(wanted, name);
        let bad = names::dns1035_label(&value.to_lowercase());
        if !value.is_empty() && !bad.is_empty() {
            let why = format!("may have mixed case, but should otherwise match: {}", bad.join(","));
            errors.push(FieldError::invalid(field(path, name), value, why));
        }
    }
    let label_list = |errors: &mut Errors, name: &str| {
        for (at, value) in texts(wanted, name).iter().enumerate() {
            let bad = names::dns1035_label(value);
            if !bad.is_empty() {
                errors.push(FieldError::invalid(index(&field(path, name), at), *value, bad.join(",")));
            }
        }
    };
    label_list(errors, "shortNames");
    let (kind, list_kind) = (text(wanted, "kind"), text(wanted, "listKind"));
    if !kind.is_empty() && kind == list_kind {
        let why = "kind and listKind may not be the same";
        errors.push(FieldError::invalid(field(path, "listKind"), list_kind, why));
    }
    label_list(errors, "categories");
}

pub(super) fn subresources(errors: &mut Errors, subresources: &Value, path: &str) {
    let scale = child(subresources, "scale");
    if !scale.is_object() {
        return;
    }
    for (name, below, is_required) in [
        ("specReplicasPath", &[".spec."][..], true),
        ("statusReplicasPath", &[".status."][..], true),
        ("labelSelectorPath", &[".spec.", ".status."][..], false),
    ] {
        let value = text(scale, name);
        let path = format!("{path}.scale.{name}");
        if value.is_empty() {
            if is_required {
                errors.push(FieldError::required(path, ""));
            }
        } else if !value.starts_with('.') {
            errors.push(FieldError::invalid(path, value, "must be a simple json path starting with ."));
        } else if !below.iter().any(|prefix| value.starts_with(prefix)) {
            let why = match below {
                [one] => format!("should be a json path under {}", one.trim_end_matches('.')),
                _ => "should be a json path under either .spec or .status".to_owned(),
            };
            errors.push(FieldError::invalid(path, value, why));
        }
    }
}

pub(super) fn columns(errors: &mut Errors, version: &Value, path: &str) {
    const TYPES: &str = "boolean,date,integer,number,string";
    const FORMATS: &str = "byte,date,date-time,double,float,int32,int64,password";
    let path = field(path, "additionalPrinterColumns");
    for (at, column) in list(version, "additionalPrinterColumns").iter().enumerate() {
        let path = index(&path, at);
        if text(column, "name").is_empty() {
            errors.push(FieldError::required(field(&path, "name"), ""));
        }
        let one_of = |value: &str, all: &str| all.split(',').any(|one| one == value);
        match text(column, "type") {
            "" => errors.push(FieldError::required(field(&path, "type"), format!("must be one of {TYPES}"))),
            known if one_of(known, TYPES) => {}
            other => errors.push(FieldError::invalid(
                field(&path, "type"),
                other,
                format!("must be one of {TYPES}"),
            )),
        }
        let format = text(column, "format");
        if !format.is_empty() && !one_of(format, FORMATS) {
            errors.push(FieldError::invalid(
                field(&path, "format"),
                format,
                format!("must be one of {FORMATS}"),
            ));
        }
        match text(column, "jsonPath") {
            "" => errors.push(FieldError::required(field(&path, "JSONPath"), "")),
            simple if simple.starts_with('.') => {}
            other => {
                let why = "must be a simple json path starting with .";
                errors.push(FieldError::invalid(field(&path, "JSONPath"), other, why));
            }
        }
    }
}

pub(super) fn conversion(errors: &mut Errors, conversion: &Value) {
    if !conversion.is_object() {
        return;
    }
    let path = "spec.conversion";
    values::one_of(errors, conversion, "strategy", path, &["None", "Webhook"]);
    let webhook = child(conversion, "webhook");
    let (config, versions) = (child(webhook, "clientConfig"), texts(webhook, "conversionReviewVersions"));
    let (config_path, versions_path) =
        (field(path, "webhookClientConfig"), field(path, "conversionReviewVersions"));
    if text(conversion, "strategy") != "Webhook" {
        let why = "should not be set when strategy is not set to Webhook";
        if config.is_object() {
            errors.push(FieldError::forbidden(config_path, why));
        }
        if !versions.is_empty() {
            errors.push(FieldError::forbidden(versions_path, why));
        }
        return;
    }
    match config.is_object() {
        false => errors.push(FieldError::required(config_path, "required when strategy is set to Webhook")),
        true => admission::client_config(errors, config, &config_path),
    }
    if versions.is_empty() {
        errors.push(FieldError::required(versions_path, ""));
        return;
    }
    for (at, version) in versions.iter().enumerate() {
        if versions[..at].contains(version) {
            errors.push(FieldError::invalid(index(&versions_path, at), *version, "duplicate version"));
            continue;
        }
        invalid_each(errors, &index(&versions_path, at), version, names::dns1035_label(version));
    }
    if !versions.iter().any(|version| matches!(*version, "v1" | "v1beta1")) {
        let shown = go_syntax::raw(go_syntax::strings("[]string", &versions));
        errors.push(FieldError::invalid(versions_path, shown, "must include at least one of v1, v1beta1"));
    }
}
