//! Resources: requests and limits.
//!
//! CPU and memory may be requested below their limit; what can't be shared (huge pages, devices) must be requested exactly.
//!
//! # In Kubernetes
//! `ValidateResourceRequirements`, `validateContainerResourceName`, `pkg/apis/core/helper`.

use serde_json::Value;

use crate::validation::fields::{child, entries};
use crate::validation::metadata::NON_NEGATIVE;
use crate::validation::values::quantity;
use crate::validation::{Errors, FieldError, field, go_syntax, key, names};

const CONTAINER: &[&str] = &["cpu", "memory", "ephemeral-storage"];
const STANDARD: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];
const COUNTED: &[&str] = &[
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Huge pages of some size.
pub fn is_huge_pages(name: &str) -> bool {
    name.starts_with("hugepages-")
}

/// Known to Kubernetes without a prefix.
pub fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_pages(name) || name.starts_with("requests.hugepages-")
}

/// No prefix, or a prefix under kubernetes.io.
fn is_native(name: &str) -> bool {
    name.split_once('/')
        .is_none_or(|(prefix, _)| prefix == "kubernetes.io" || prefix.ends_with(".kubernetes.io"))
}

/// A device or other thing that a node counts.
pub fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::qualified_name(&format!("requests.{name}")).is_empty()
}

fn may_overcommit(name: &str) -> bool {
    is_native(name) && !is_huge_pages(name)
}

/// Whole numbers only.
pub fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// `validateResourceName`.
pub fn resource_name(errors: &mut Errors, name: &str, path: &str) -> bool {
    let before = errors.len();
    let shown = || go_syntax::raw(name);
    errors.extend(
        names::qualified_name(name).into_iter().map(|message| FieldError::invalid(path, shown(), message)),
    );
    if errors.len() == before && !name.contains('/') && !is_standard(name) {
        errors.push(FieldError::invalid(
            path,
            shown(),
            "must be a standard resource type or fully qualified",
        ));
    }
    errors.len() == before
}

/// A quantity: not negative, and whole where things are counted.
pub fn quantity_value(errors: &mut Errors, name: &str, value: &Value, path: &str) {
    let parsed = quantity(value);
    if parsed.sign() < 0 {
        errors.push(FieldError::invalid(path, parsed.to_string(), NON_NEGATIVE));
    }
    if is_integer(name) && parsed.milli_value() % 1000 != 0 {
        errors.push(FieldError::invalid(
            path,
            go_syntax::raw(go_syntax::quantity(value)),
            "must be an integer",
        ));
    }
}

fn container_resource(errors: &mut Errors, name: &str, value: &Value, path: &str) {
    resource_name(errors, name, path);
    if !name.contains('/') {
        if !CONTAINER.contains(&name) && !is_huge_pages(name) {
            errors.push(FieldError::invalid(
                path,
                go_syntax::raw(name),
                "must be a standard resource for containers",
            ));
        }
    } else if !is_native(name) && !is_extended(name) {
        errors.push(FieldError::invalid(
            path,
            go_syntax::raw(name),
            "doesn't follow extended resource name standard",
        ));
    }
    quantity_value(errors, name, value, path);
}

/// `resources` of a container.
pub fn requirements(resources: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let (limits_path, requests_path) = (field(path, "limits"), field(path, "requests"));
    let (mut compute, mut huge) = (false, false);
    for (name, value) in entries(resources, "limits") {
        container_resource(&mut errors, name, value, &key(&limits_path, name));
        huge |= is_huge_pages(name);
        compute |= matches!(name.as_str(), "cpu" | "memory");
    }
    let limits = child(resources, "limits");
    for (name, value) in entries(resources, "requests") {
        container_resource(&mut errors, name, value, &key(&requests_path, name));
        huge |= is_huge_pages(name);
        compute |= matches!(name.as_str(), "cpu" | "memory");
        let requested = quantity(value);
        match limits.get(name.as_str()).map(quantity) {
            Some(limit) if requested != limit && !may_overcommit(name) => {
                let detail = format!("must be equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(&requests_path, requested.to_string(), detail));
            }
            Some(limit) if requested > limit => {
                let detail = format!("must be less than or equal to {name} limit of {limit}");
                errors.push(FieldError::invalid(&requests_path, requested.to_string(), detail));
            }
            Some(_) => {}
            None if !may_overcommit(name) => {
                errors.push(FieldError::required(
                    &limits_path,
                    "Limit must be set for non overcommitable resources",
                ));
            }
            None => {}
        }
    }
    if huge && !compute {
        errors.push(FieldError::forbidden(path, "HugePages require cpu or memory"));
    }
    errors
}
