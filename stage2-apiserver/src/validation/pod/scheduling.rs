//! Scheduling: gates, spreading, tolerations.
//!
//! # In Kubernetes
//! `validateSchedulingGates`, `validateTopologySpreadConstraints`, `ValidateTolerations`.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::validation::fields::{child, entries, has, int, list, opt_int, text, texts};
use crate::validation::values::one_of_if_set;
use crate::validation::{Errors, FieldError, field, go_syntax, index, invalid_each, names, selector};

/// `readinessGates` and `schedulingGates`.
pub fn gates(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    for (at, gate) in list(spec, "readinessGates").iter().enumerate() {
        let kind = text(gate, "conditionType");
        let path = field(&index(&field(path, "readinessGates"), at), "conditionType");
        invalid_each(&mut errors, &path, kind, names::qualified_name(kind));
    }
    let mut seen = BTreeSet::new();
    for (at, gate) in list(spec, "schedulingGates").iter().enumerate() {
        let (name, path) = (text(gate, "name"), index(&field(path, "schedulingGates"), at));
        invalid_each(&mut errors, &path, name, names::qualified_name(name));
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(&path, name));
        }
    }
    errors
}

/// `topologySpreadConstraints`.
pub fn topology_spread(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let constraints = list(spec, "topologySpreadConstraints");
    for (at, constraint) in constraints.iter().enumerate() {
        let path = index(path, at);
        if int(constraint, "maxSkew") <= 0 {
            errors.push(FieldError::invalid(
                field(&path, "maxSkew"),
                int(constraint, "maxSkew"),
                "must be greater than zero",
            ));
        }
        let (key, when) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        if key.is_empty() {
            errors.push(FieldError::required(field(&path, "topologyKey"), "can not be empty"));
        } else {
            invalid_each(&mut errors, &field(&path, "topologyKey"), key, names::qualified_name(key));
        }
        if !matches!(when, "DoNotSchedule" | "ScheduleAnyway") {
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            errors.push(FieldError::not_supported(field(&path, "whenUnsatisfiable"), when, &supported));
        }
        let same =
            |other: &&Value| text(other, "topologyKey") == key && text(other, "whenUnsatisfiable") == when;
        if constraints[at + 1..].iter().any(|other| same(&other)) {
            let pair = format!("{{{key}, {when}}}");
            errors.push(FieldError::duplicate(field(&path, "{topologyKey, whenUnsatisfiable}"), pair));
        }
        spread_details(&mut errors, constraint, when, &path);
    }
    errors
}

fn spread_details(errors: &mut Errors, constraint: &Value, when: &str, path: &str) {
    if let Some(domains) = opt_int(constraint, "minDomains") {
        let at = field(path, "minDomains");
        if domains <= 0 {
            errors.push(FieldError::invalid(&at, domains, "must be greater than zero"));
        }
        if when != "DoNotSchedule" {
            let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {when}");
            errors.push(FieldError::invalid(&at, domains, detail));
        }
    }
    for name in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
        one_of_if_set(errors, constraint, name, path, &["Honor", "Ignore"]);
    }
    let keys = texts(constraint, "matchLabelKeys");
    let at = field(path, "matchLabelKeys");
    let of_selector = child(constraint, "labelSelector");
    if !keys.is_empty() && of_selector.is_null() {
        errors.push(FieldError::forbidden(&at, "must not be specified when labelSelector is not set"));
    }
    for (number, key) in keys.into_iter().enumerate() {
        invalid_each(errors, &index(&at, number), key, names::qualified_name(key));
        let by_label = entries(of_selector, "matchLabels").any(|(name, _)| name == key);
        let by_expression =
            list(of_selector, "matchExpressions").iter().any(|requirement| text(requirement, "key") == key);
        if by_label || by_expression {
            let detail = "exists in both matchLabelKeys and labelSelector";
            errors.push(FieldError::invalid(index(&at, number), key, detail));
        }
    }
    errors.extend(selector::label_selector(of_selector, &field(path, "labelSelector")));
}

/// Effects of taints.
pub const TAINT_EFFECTS: &[&str] = &["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// `tolerations`.
pub fn tolerations(tolerations: &[Value], path: &str) -> Errors {
    let mut errors = Errors::new();
    for (at, toleration) in tolerations.iter().enumerate() {
        let path = index(path, at);
        let (key, operator, effect) =
            (text(toleration, "key"), text(toleration, "operator"), text(toleration, "effect"));
        if !key.is_empty() {
            invalid_each(&mut errors, &field(&path, "key"), key, names::qualified_name(key));
        } else if operator != "Exists" {
            let detail =
                "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(FieldError::invalid(field(&path, "operator"), operator, detail));
        }
        if has(toleration, "tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(FieldError::invalid(field(&path, "effect"), effect, detail));
        }
        let value = text(toleration, "value");
        match operator {
            "Equal" | "" => {
                let messages = names::label_value(value);
                if !messages.is_empty() {
                    errors.push(FieldError::invalid(field(&path, "operator"), value, messages.join(";")));
                }
            }
            "Exists" if !value.is_empty() => {
                let shown = go_syntax::raw(go_syntax::toleration(toleration));
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(FieldError::invalid(field(&path, "operator"), shown, detail));
            }
            "Exists" => {}
            other => {
                errors.push(FieldError::not_supported(field(&path, "operator"), other, &["Equal", "Exists"]))
            }
        }
        if !effect.is_empty() && !TAINT_EFFECTS.contains(&effect) {
            errors.push(FieldError::not_supported(field(&path, "effect"), effect, TAINT_EFFECTS));
        }
    }
    errors
}
