//! Pod updates: almost nothing of a pod's spec can change.
//!
//! Images, an earlier deadline, more tolerations, fewer scheduling gates; and while a pod is gated, a narrower choice of nodes. Everything
//! else needs a new pod. The refusal shows the changed fields; Kubernetes prints a Go diff, ours is in its form with the
//! unchanged neighbours left out.
//!
//! # In Kubernetes
//! `ValidatePodUpdate`, `ValidatePodStatusUpdate`. Left out: resize. Ephemeral containers: [`super::ephemeral`].

use serde_json::Value;

use super::metadata_and_spec;
use crate::validation::fields::{child, entries, has, list, opt_int, remove, set, text};
use crate::validation::{Errors, FieldError, index, names};

const UPDATABLE: &str = "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only \
                         additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was \
                         previously negative)";

/// A change of a pod.
pub fn pod_update(new: &Value, old: &Value) -> Errors {
    let mut errors = metadata_and_spec(new);
    let (spec, before) = (child(new, "spec"), child(old, "spec"));
    for (name, detail) in [
        ("containers", "pod updates may not add or remove containers"),
        ("initContainers", "pod updates may not add or remove containers"),
    ] {
        if list(spec, name).len() != list(before, name).len() {
            errors.push(FieldError::forbidden(format!("spec.{name}"), detail));
            return errors;
        }
    }
    if let Some(error) = deadline(spec, before) {
        errors.push(error);
        return errors;
    }
    tolerations(&mut errors, spec, before);
    gates(&mut errors, spec, before);
    let munged = munge(spec, before);
    if &munged != before {
        let diff = spec_diff(before, &munged);
        errors.push(FieldError::forbidden(
            "spec",
            format!("pod updates may not change fields other than {UPDATABLE}\n{diff}"),
        ));
    }
    errors
}

fn deadline(spec: &Value, before: &Value) -> Option<FieldError> {
    let path = "spec.activeDeadlineSeconds";
    match (opt_int(spec, "activeDeadlineSeconds"), opt_int(before, "activeDeadlineSeconds")) {
        (Some(new), _) if !(0..=i64::from(i32::MAX)).contains(&new) => {
            Some(FieldError::invalid(path, new, names::inclusive_range(0, i64::from(i32::MAX))))
        }
        (Some(new), Some(old)) if old < new => {
            Some(FieldError::invalid(path, new, "must be less than or equal to previous value"))
        }
        (None, Some(_)) => Some(FieldError::invalid(
            path,
            Value::Null,
            "must not update from a positive integer to nil value",
        )),
        _ => None,
    }
}

/// Old tolerations stay, but for their seconds.
fn tolerations(errors: &mut Errors, spec: &Value, before: &Value) {
    let bare = |toleration: &Value| {
        let mut toleration = toleration.clone();
        remove(&mut toleration, "tolerationSeconds");
        toleration
    };
    let new: Vec<Value> = list(spec, "tolerations").iter().map(bare).collect();
    if list(before, "tolerations").iter().any(|old| !new.contains(&bare(old))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        errors.push(FieldError::forbidden("spec.tolerations", detail));
    }
}

/// Gates only go.
fn gates(errors: &mut Errors, spec: &Value, before: &Value) {
    for (at, gate) in list(spec, "schedulingGates").iter().enumerate() {
        if !list(before, "schedulingGates").contains(gate) {
            let detail =
                format!("only deletion is allowed, but found new scheduling gate '{}'", text(gate, "name"));
            errors.push(FieldError::forbidden(format!("{}.name", index("spec.schedulingGates", at)), detail));
        }
    }
}

/// The new spec with what may change put back to the old.
fn munge(spec: &Value, before: &Value) -> Value {
    let mut munged = spec.clone();
    let put_back = |munged: &mut Value, name: &str| match before.get(name) {
        Some(value) => set(munged, name, value.clone()),
        None => drop(remove(munged, name)),
    };
    for name in ["containers", "initContainers"] {
        for (at, container) in list(before, name).iter().enumerate() {
            let image = child(container, "image").clone();
            set(&mut munged[name][at], "image", image);
        }
    }
    for name in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        put_back(&mut munged, name);
    }
    if opt_int(before, "terminationGracePeriodSeconds").is_some_and(|s| s < 0)
        && opt_int(spec, "terminationGracePeriodSeconds") == Some(1)
    {
        put_back(&mut munged, "terminationGracePeriodSeconds");
    }
    if !list(before, "schedulingGates").is_empty() {
        let kept = entries(before, "nodeSelector")
            .all(|(key, value)| child(spec, "nodeSelector").get(key.as_str()) == Some(value));
        if kept {
            put_back(&mut munged, "nodeSelector");
        }
        if narrower_node_affinity(spec, before) {
            put_back(&mut munged, "affinity");
        }
    }
    munged
}

/// A required node affinity may appear, or each of its terms may get more requirements.
fn narrower_node_affinity(spec: &Value, before: &Value) -> bool {
    const REQUIRED: &str = "/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
    let (new, old) = (child(spec, "affinity"), child(before, "affinity"));
    let others = |affinity: &Value| {
        [child(affinity, "podAffinity").clone(), child(affinity, "podAntiAffinity").clone()]
    };
    if others(new) != others(old) || !has(spec, "affinity") {
        return false;
    }
    let terms = |affinity: &Value| {
        affinity.pointer(REQUIRED).map(|s| list(s, "nodeSelectorTerms").to_vec()).unwrap_or_default()
    };
    let (new, old) = (terms(new), terms(old));
    let grown = |new: &Value, old: &Value| {
        ["matchExpressions", "matchFields"]
            .iter()
            .all(|name| list(old, name).iter().all(|r| list(new, name).contains(r)))
    };
    old.is_empty() || (new.len() == old.len() && new.iter().zip(&old).all(|(new, old)| grown(new, old)))
}

/// The changed fields in the form of a Go diff.
fn spec_diff(before: &Value, after: &Value) -> String {
    let mut lines = vec!["  core.PodSpec{".to_owned()];
    let keys = before.as_object().into_iter().chain(after.as_object()).flat_map(|map| map.keys());
    let mut keys: Vec<&String> = keys.collect();
    keys.sort();
    keys.dedup();
    for key in keys.into_iter().filter(|key| before.get(key.as_str()) != after.get(key.as_str())) {
        let name = format!("{}{}", key[..1].to_uppercase(), &key[1..]);
        lines.push(format!("- \t{name}: {},", go_value(before.get(key.as_str()))));
        lines.push(format!("+ \t{name}: {},", go_value(after.get(key.as_str()))));
    }
    lines.push("  }\n".to_owned());
    lines.join("\n")
}

fn go_value(value: Option<&Value>) -> String {
    value.map_or_else(|| "nil".to_owned(), Value::to_string)
}

/// A change of a pod's status: the class and resource claims are fixed.
pub fn pod_status_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    let (node, before) = (text(child(new, "spec"), "nodeName"), text(child(old, "spec"), "nodeName"));
    if node != before {
        errors.push(FieldError::forbidden("status.nodeName", "may not be changed directly"));
    }
    let nominated = text(child(new, "status"), "nominatedNodeName");
    if !nominated.is_empty() {
        super::invalid_each(
            &mut errors,
            "status.nominatedNodeName",
            nominated,
            names::dns1123_subdomain(nominated),
        );
    }
    errors
}
