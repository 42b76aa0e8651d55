//! Selectors: label selectors and node selectors.
//!
//! # In Kubernetes
//! `apimachinery/pkg/apis/meta/v1/validation/validation.go` (`ValidateLabelSelector`), `ValidateNodeSelector` in core.

use std::collections::BTreeMap;

use serde_json::Value;

use super::fields::{child, entries, list, text, texts};
use super::{Errors, FieldError, field, index, invalid_each, metadata, names};

const VALUES_REQUIRED: &str = "must be specified when `operator` is 'In' or 'NotIn'";
const VALUES_FORBIDDEN: &str = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
const BAD_OPERATOR: &str = "not a valid selector operator";

/// A `metav1.LabelSelector`; nothing if it is absent.
pub fn label_selector(selector: &Value, path: &str) -> Errors {
    let mut errors = metadata::labels(child(selector, "matchLabels"), &field(path, "matchLabels"));
    for (at, requirement) in list(selector, "matchExpressions").iter().enumerate() {
        let path = index(&field(path, "matchExpressions"), at);
        operator(&mut errors, requirement, &path, false);
        key_and_values(&mut errors, requirement, &path);
    }
    errors
}

fn operator(errors: &mut Errors, requirement: &Value, path: &str, compares: bool) {
    let (operator, values) = (text(requirement, "operator"), list(requirement, "values").len());
    let at = field(path, "values");
    match operator {
        "In" | "NotIn" if values == 0 => errors.push(FieldError::required(at, VALUES_REQUIRED)),
        "Exists" | "DoesNotExist" if values > 0 => errors.push(FieldError::forbidden(at, VALUES_FORBIDDEN)),
        "Gt" | "Lt" if compares => {
            if values != 1 {
                errors.push(FieldError::required(
                    at,
                    "must be specified single value when `operator` is 'Lt' or 'Gt'",
                ));
            }
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        other => errors.push(FieldError::invalid(field(path, "operator"), other, BAD_OPERATOR)),
    }
}

fn key_and_values(errors: &mut Errors, requirement: &Value, path: &str) {
    let key = text(requirement, "key");
    invalid_each(errors, &field(path, "key"), key, names::qualified_name(key));
    for (at, value) in texts(requirement, "values").into_iter().enumerate() {
        invalid_each(errors, &index(&field(path, "values"), at), value, names::label_value(value));
    }
}

/// Whether a label selector can be evaluated at all.
pub fn is_convertible(selector: &Value) -> bool {
    let simple = |name: &str| Errors::is_empty(&metadata::labels(child(selector, name), ""));
    let fits = |requirement: &Value| {
        let mut errors = Errors::new();
        operator(&mut errors, requirement, "", false);
        key_and_values(&mut errors, requirement, "");
        errors.is_empty()
    };
    simple("matchLabels") && list(selector, "matchExpressions").iter().all(fits)
}

/// A label selector matches labels. An absent selector matches nothing, an empty one everything.
pub fn matches(selector: &Value, labels: &Value) -> bool {
    if selector.is_null() {
        return false;
    }
    let labels: BTreeMap<&str, &str> = match labels.as_object() {
        Some(map) => map.iter().map(|(k, v)| (k.as_str(), v.as_str().unwrap_or_default())).collect(),
        None => BTreeMap::new(),
    };
    let equal = entries(selector, "matchLabels").all(|(k, v)| labels.get(k.as_str()).copied() == v.as_str());
    let holds = |requirement: &Value| {
        let (value, values) = (labels.get(text(requirement, "key")), texts(requirement, "values"));
        match text(requirement, "operator") {
            "In" => value.is_some_and(|value| values.contains(value)),
            "NotIn" => value.is_none_or(|value| !values.contains(value)),
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            _ => false,
        }
    };
    equal && list(selector, "matchExpressions").iter().all(holds)
}

/// A label selector without any requirement.
pub fn is_empty(selector: &Value) -> bool {
    entries(selector, "matchLabels").next().is_none() && list(selector, "matchExpressions").is_empty()
}

/// `core.NodeSelector`.
pub fn node_selector(selector: &Value, path: &str) -> Errors {
    let path = field(path, "nodeSelectorTerms");
    let mut errors = Errors::new();
    if list(selector, "nodeSelectorTerms").is_empty() {
        errors.push(FieldError::required(&path, "must have at least one node selector term"));
    }
    for (at, term) in list(selector, "nodeSelectorTerms").iter().enumerate() {
        errors.extend(node_selector_term(term, &index(&path, at)));
    }
    errors
}

/// One term of it.
pub fn node_selector_term(term: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    for (at, requirement) in list(term, "matchExpressions").iter().enumerate() {
        let path = index(&field(path, "matchExpressions"), at);
        operator(&mut errors, requirement, &path, true);
        key_and_values(&mut errors, requirement, &path);
    }
    for (at, requirement) in list(term, "matchFields").iter().enumerate() {
        errors.extend(node_field_requirement(requirement, &index(&field(path, "matchFields"), at)));
    }
    errors
}

fn node_field_requirement(requirement: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    match text(requirement, "operator") {
        "In" | "NotIn" if list(requirement, "values").len() != 1 => {
            let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.push(FieldError::required(field(path, "values"), detail));
        }
        "In" | "NotIn" => {}
        other => errors.push(FieldError::invalid(field(path, "operator"), other, BAD_OPERATOR)),
    }
    match text(requirement, "key") {
        "metadata.name" => {
            for (at, value) in texts(requirement, "values").into_iter().enumerate() {
                invalid_each(
                    &mut errors,
                    &index(&field(path, "values"), at),
                    value,
                    names::dns1123_subdomain(value),
                );
            }
        }
        other => {
            errors.push(FieldError::invalid(field(path, "key"), other, "not a valid field selector key"))
        }
    }
    errors
}
