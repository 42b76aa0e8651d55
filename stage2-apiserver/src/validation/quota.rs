//! ResourceQuotas and LimitRanges.
//!
//! # In Kubernetes
//! `ValidateResourceQuota`, `ValidateLimitRange`.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::{child, entries, has, list, size, text, texts};
use super::pod::resources::{is_huge_pages, quantity_value, resource_name};
use super::values::quantity;
use super::{Errors, FieldError, field, go_syntax, index, key};

const QUOTA: &[&str] = &[
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.storage",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "persistentvolumeclaims",
    "configmaps",
    "services.nodeports",
    "services.loadbalancers",
];
const SCOPES: &[&str] = &[
    "Terminating",
    "NotTerminating",
    "BestEffort",
    "NotBestEffort",
    "PriorityClass",
    "CrossNamespacePodAffinity",
];
const COMPUTE: &[&str] = &["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

fn quota_resource(errors: &mut Errors, name: &str, path: &str) {
    resource_name(errors, name, path);
    let huge = is_huge_pages(name) || name.starts_with("requests.hugepages-");
    if !name.contains('/') && !QUOTA.contains(&name) && !huge {
        errors.push(FieldError::invalid(path, go_syntax::raw(name), "must be a standard resource for quota"));
    }
}

/// ResourceQuota.
pub fn resource_quota(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = hard(spec, "hard", "spec.hard");
    errors.extend(scopes(spec));
    for requirement in list(child(spec, "scopeSelector"), "matchExpressions") {
        let path = "spec.scopeSelector.matchExpressions";
        let (scope, values) = (text(requirement, "scopeName"), list(requirement, "values").len());
        if !SCOPES.contains(&scope) {
            errors.push(FieldError::invalid(field(path, "scopeName"), scope, "unsupported scope"));
        }
        match text(requirement, "operator") {
            "In" | "NotIn" if values == 0 => {
                let detail =
                    "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector";
                errors.push(FieldError::required(field(path, "values"), detail));
            }
            "Exists" | "DoesNotExist" if values != 0 => {
                let detail =
                    "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector";
                let values = texts(requirement, "values");
                let shown = go_syntax::raw(go_syntax::strings("[]string", &values));
                errors.push(FieldError::invalid(field(path, "values"), shown, detail));
            }
            "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
            other => errors.push(FieldError::invalid(
                field(path, "operator"),
                other,
                "not a valid selector operator",
            )),
        }
    }
    errors
}

/// A list of limits by resource.
fn hard(owner: &Value, name: &str, path: &str) -> Errors {
    let mut errors = Errors::new();
    for (resource, value) in entries(owner, name) {
        let path = key(path, resource);
        quota_resource(&mut errors, resource, &path);
        quantity_value(&mut errors, resource, value, &path);
    }
    errors
}

fn scopes(spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let scopes = texts(spec, "scopes");
    let shown = || go_syntax::raw(go_syntax::strings("[]core.ResourceQuotaScope", &scopes));
    for scope in &scopes {
        if !SCOPES.contains(scope) {
            errors.push(FieldError::invalid("spec.scopes", shown(), "unsupported scope"));
        }
        let fits = |resource: &str| match *scope {
            "BestEffort" => resource == "pods",
            "Terminating"
            | "NotTerminating"
            | "NotBestEffort"
            | "PriorityClass"
            | "CrossNamespacePodAffinity" => resource == "pods" || COMPUTE.contains(&resource),
            _ => true,
        };
        if entries(spec, "hard").any(|(resource, _)| !fits(resource)) {
            errors.push(FieldError::invalid("spec.scopes", shown(), "unsupported scope applied to resource"));
        }
    }
    for (one, other) in [("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating")] {
        if scopes.contains(&one) && scopes.contains(&other) {
            errors.push(FieldError::invalid("spec.scopes", shown(), "conflicting scopes"));
        }
    }
    errors
}

/// A changed quota.
pub fn resource_quota_update(new: &Value, old: &Value) -> Errors {
    let mut errors = resource_quota(new);
    let scopes = |value: &Value| {
        texts(child(value, "spec"), "scopes").into_iter().map(str::to_owned).collect::<BTreeSet<_>>()
    };
    if scopes(new) != scopes(old) {
        let values = texts(child(new, "spec"), "scopes");
        let shown = go_syntax::raw(go_syntax::strings("[]core.ResourceQuotaScope", &values));
        errors.push(FieldError::invalid("spec.scopes", shown, super::IMMUTABLE));
    }
    errors
}

/// A changed status of a quota.
pub fn resource_quota_status(new: &Value, _: &Value) -> Errors {
    let status = child(new, "status");
    let mut errors = hard(status, "hard", "status.hard");
    errors.extend(hard(status, "used", "status.used"));
    errors
}

/// LimitRange.
pub fn limit_range(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (at, item) in list(child(value, "spec"), "limits").iter().enumerate() {
        let path = index("spec.limits", at);
        let kind = text(item, "type");
        if !seen.insert(kind) {
            errors.push(FieldError::duplicate(field(&path, "type"), kind));
        }
        if kind == "Pod" {
            for name in ["default", "defaultRequest"] {
                if size(item, name) > 0 {
                    errors.push(FieldError::forbidden(
                        field(&path, name),
                        "may not be specified when `type` is 'Pod'",
                    ));
                }
            }
        }
        if kind == "PersistentVolumeClaim"
            && !has(child(item, "min"), "storage")
            && !has(child(item, "max"), "storage")
        {
            let detail = "either minimum or maximum storage value is required, but neither was provided";
            errors.push(FieldError::required(field(&path, "limits"), detail));
        }
        limit_bounds(&mut errors, item, &path);
    }
    errors
}

/// Minimum ≤ default request ≤ default ≤ maximum, for each resource.
fn limit_bounds(errors: &mut Errors, item: &Value, path: &str) {
    let parts = ["max", "min", "default", "defaultRequest", "maxLimitRequestRatio"];
    let names: BTreeSet<&String> =
        parts.iter().flat_map(|part| entries(item, part).map(|(name, _)| name)).collect();
    for name in names {
        let of = |part: &str| child(item, part).get(name.as_str());
        let shown = |value: &Value| go_syntax::raw(go_syntax::quantity(value));
        let mut compare = |low: (&str, &str), high: (&str, &str), at: &str, show_low: bool| {
            if let (Some(small), Some(large)) = (of(low.0), of(high.0))
                && quantity(small) > quantity(large)
            {
                let detail = format!(
                    "{} value {} is greater than {} value {}",
                    low.1,
                    quantity(small),
                    high.1,
                    quantity(large)
                );
                let value = if show_low { small } else { large };
                errors.push(FieldError::invalid(key(&field(path, at), name), shown(value), detail));
            }
        };
        compare(("min", "min"), ("max", "max"), "min", true);
        compare(("min", "min"), ("defaultRequest", "default request"), "defaultRequest", false);
        compare(("defaultRequest", "default request"), ("max", "max"), "defaultRequest", true);
        compare(("defaultRequest", "default request"), ("default", "default limit"), "defaultRequest", true);
        compare(("min", "min"), ("default", "default"), "default", true);
        compare(("default", "default"), ("max", "max"), "default", true);
    }
}

/// A changed LimitRange.
pub fn limit_range_update(new: &Value, _: &Value) -> Errors {
    limit_range(new)
}
