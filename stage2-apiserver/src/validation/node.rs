//! Nodes and namespaces.
//!
//! # In Kubernetes
//! `ValidateNode`, `ValidateNodeUpdate`, `ValidateNamespace`; the pod-security labels are checked by that admission plugin there.

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::{at, child, list, text, texts};
use super::pod::scheduling::TAINT_EFFECTS;
use super::{Errors, FieldError, field, go_syntax, index, invalid_each, metadata, names, net};

/// Node.
pub fn node(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = taints(list(spec, "taints"), "metadata.taints");
    let cidrs = texts(spec, "podCIDRs");
    for (at, cidr) in cidrs.iter().enumerate() {
        net::cidr(&mut errors, cidr, &index("spec.podCIDRs", at));
    }
    if cidrs.len() > 2 {
        let shown = go_syntax::raw(go_syntax::strings("[]string", &cidrs));
        let detail = "specified more than two CIDRs for dual-stack network";
        errors.push(FieldError::invalid("spec.podCIDRs", shown, detail));
    }
    errors
}

fn taints(taints: &[Value], path: &str) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (at, taint) in taints.iter().enumerate() {
        let path = index(path, at);
        let (key, effect) = (text(taint, "key"), text(taint, "effect"));
        invalid_each(&mut errors, &field(&path, "key"), key, names::qualified_name(key));
        let messages = names::label_value(text(taint, "value"));
        if !messages.is_empty() {
            errors.push(FieldError::invalid(field(&path, "value"), text(taint, "value"), messages.join(";")));
        }
        if effect.is_empty() {
            errors.push(FieldError::required(field(&path, "effect"), ""));
        } else if !TAINT_EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(field(&path, "effect"), effect, TAINT_EFFECTS));
        }
        if !seen.insert((key, effect)) {
            let mut duplicate = FieldError::duplicate(&path, go_syntax::raw(go_syntax::taint(taint)));
            duplicate.detail = "taints must be unique by key and effect pair".to_owned();
            errors.push(duplicate);
        }
    }
    errors
}

/// A changed Node: its pod range is set once.
pub fn node_update(new: &Value, old: &Value) -> Errors {
    let mut errors = node(new);
    let cidrs = |value: &Value| {
        texts(child(value, "spec"), "podCIDRs").into_iter().map(str::to_owned).collect::<Vec<_>>()
    };
    let (now, before) = (cidrs(new), cidrs(old));
    if !before.is_empty() && now != before {
        errors.push(FieldError::forbidden(
            "spec.podCIDRs",
            "node updates may not change podCIDR except from \"\" to valid",
        ));
    }
    let provider = |value: &Value| text(child(value, "spec"), "providerID").to_owned();
    if !provider(old).is_empty() && provider(new) != provider(old) {
        errors.push(FieldError::forbidden(
            "spec.providerID",
            "node updates may not change providerID except from \"\" to valid",
        ));
    }
    errors
}

const LEVELS: &[&str] = &["privileged", "baseline", "restricted"];

/// Namespace.
pub fn namespace(value: &Value) -> Errors {
    let mut errors = Errors::new();
    for finalizer in texts(child(value, "spec"), "finalizers") {
        errors.extend(metadata::finalizer_name(finalizer, "spec.finalizers"));
    }
    if errors.is_empty() {
        errors.extend(pod_security_labels(value));
    }
    errors
}

/// Levels and versions of the pod-security labels.
fn pod_security_labels(value: &Value) -> Errors {
    let mut errors = Errors::new();
    for mode in ["enforce", "audit", "warn"] {
        let label = format!("pod-security.kubernetes.io/{mode}");
        let labels = at(value, "/metadata/labels");
        if let Some(level) =
            labels.get(&label).and_then(Value::as_str).filter(|level| !LEVELS.contains(level))
        {
            let detail = format!("must be one of {}", LEVELS.join(", "));
            errors.push(FieldError::invalid(super::key("metadata.labels", &label), level, detail));
        }
        let label = format!("{label}-version");
        let good = |version: &str| {
            let number = version.strip_prefix("v1.").map(|minor| minor.parse::<u32>().is_ok());
            version == "latest" || number == Some(true)
        };
        if let Some(version) = labels.get(&label).and_then(Value::as_str).filter(|version| !good(version)) {
            let detail = "must be \"latest\" or \"v1.x\"";
            errors.push(FieldError::invalid(super::key("metadata.labels", &label), version, detail));
        }
    }
    errors
}

/// A changed Namespace.
pub fn namespace_update(new: &Value, _: &Value) -> Errors {
    pod_security_labels(new)
}
