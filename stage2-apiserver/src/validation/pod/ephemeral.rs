//! Ephemeral containers: put into a running pod to look at it, by `kubectl debug`.
//!
//! They come through a subresource of their own (`pods/NAME/ephemeralcontainers`), which changes nothing else of the pod. The list only
//! grows: a container that ran can't be made not to have run. Since nothing may depend on them, they have no ports, probes, hooks or
//! resources.
//!
//! # In Kubernetes
//! `validateEphemeralContainers`, `ValidatePodEphemeralContainersUpdate` in `pkg/apis/core/validation/validation.go`. Left out: the diff in the
//! refusal of a change names the fields, not Go's types.

use std::collections::BTreeSet;

use serde_json::Value;

use super::containers::common;
use super::volumes::Volumes;
use super::{MIRROR_POD, metadata_and_spec};
use crate::validation::fields::{at, child, has, list, text};
use crate::validation::{Errors, FieldError, field, index};

const FORBIDDEN: &str = "cannot be set for an Ephemeral Container";
/// Fields of a container that an ephemeral one can't have.
const NOT_ALLOWED: [&str; 7] =
    ["ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle"];

/// What is wrong with the ephemeral containers of a spec.
pub fn ephemeral_containers(spec: &Value, path: &str, volumes: &Volumes) -> Errors {
    let path = field(path, "ephemeralContainers");
    let mut errors = Errors::new();
    let others: BTreeSet<&str> = ["containers", "initContainers"]
        .iter()
        .flat_map(|name| list(spec, name))
        .map(|container| text(container, "name"))
        .collect();
    let mut all = others.clone();
    for (i, container) in list(spec, "ephemeralContainers").iter().enumerate() {
        let path = index(&path, i);
        common(&mut errors, container, &path, volumes);
        let image = text(container, "image");
        if image.trim().len() != image.len() {
            let why = "must not have leading or trailing whitespace";
            errors.push(FieldError::invalid(field(&path, "image"), image, why));
        }
        let name = text(container, "name");
        if !all.insert(name) {
            errors.push(FieldError::duplicate(field(&path, "name"), name));
        }
        let target = text(container, "targetContainerName");
        if !target.is_empty() && !others.contains(target) {
            errors.push(FieldError::not_found(field(&path, "targetContainerName"), target));
        }
        errors.extend(fields_allowed(container, &path));
    }
    errors
}

fn fields_allowed(container: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    let empty = |v: &Value| match v {
        Value::Null => true,
        Value::Array(list) => list.is_empty(),
        // `resources: {}` is what Go's zero value looks like.
        Value::Object(map) => map.is_empty(),
        _ => false,
    };
    for name in NOT_ALLOWED {
        if !empty(child(container, name)) {
            errors.push(FieldError::forbidden(field(path, name), FORBIDDEN));
        }
    }
    for (i, mount) in list(container, "volumeMounts").iter().enumerate() {
        for name in ["subPath", "subPathExpr"] {
            if !text(mount, name).is_empty() {
                let path = field(&index(&field(path, "volumeMounts"), i), name);
                errors.push(FieldError::forbidden(path, FORBIDDEN));
            }
        }
    }
    if has(container, "restartPolicy") {
        let path = field(path, "restartPolicy");
        errors.push(FieldError::forbidden(path, "may not be set for ephemeral containers"));
    }
    errors
}

/// A change through `/ephemeralcontainers`: the list grows, and what was in it stays as it is.
pub fn pod_ephemeral_containers_update(new: &Value, old: &Value) -> Errors {
    const PATH: &str = "spec.ephemeralContainers";
    if !text(at(old, "/metadata/annotations"), MIRROR_POD).is_empty() {
        return vec![FieldError::forbidden("", "static pods do not support ephemeral containers")];
    }
    let mut errors = metadata_and_spec(new);
    let now = list(child(new, "spec"), "ephemeralContainers");
    for before in list(child(old, "spec"), "ephemeralContainers") {
        let name = text(before, "name");
        match now.iter().find(|container| text(container, "name") == name) {
            None => {
                let why = format!("existing ephemeral containers {name:?} may not be removed\n");
                errors.push(FieldError::forbidden(PATH, why));
            }
            Some(container) if container != before => {
                let fields: BTreeSet<&String> =
                    [before, container].iter().filter_map(|c| c.as_object()).flat_map(|c| c.keys()).collect();
                let changed =
                    fields.into_iter().filter(|f| before.get(f.as_str()) != container.get(f.as_str()));
                let diff: String = changed.map(|f| format!("\t{f}\n")).collect();
                let why = format!("existing ephemeral containers {name:?} may not be changed\n{diff}");
                errors.push(FieldError::forbidden(PATH, why));
            }
            Some(_) => {}
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(ephemeral: Value) -> Value {
        json!({
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {
                "restartPolicy": "Always", "dnsPolicy": "ClusterFirst", "terminationGracePeriodSeconds": 30,
                "containers": [{"name": "c", "image": "a:1", "imagePullPolicy": "Always", "terminationMessagePolicy": "File"}],
                "ephemeralContainers": ephemeral,
            },
        })
    }

    fn debug(more: Value) -> Value {
        let mut container = json!({"name": "dbg", "image": "a:1", "imagePullPolicy": "Always", "terminationMessagePolicy": "File",
            "targetContainerName": "c", "stdin": true, "tty": true, "resources": {}});
        container.as_object_mut().expect("a map").extend(more.as_object().cloned().unwrap_or_default());
        container
    }

    fn told(new: Value, old: Value) -> Vec<String> {
        let errors = pod_ephemeral_containers_update(&pod(new), &pod(old));
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn the_list_grows_and_what_is_in_it_stays() {
        let second = debug(json!({"name": "dbg2"}));
        assert!(told(json!([debug(json!({}))]), json!([])).is_empty());
        assert!(told(json!([debug(json!({})), second]), json!([debug(json!({}))])).is_empty());
        assert_eq!(
            told(json!([]), json!([debug(json!({}))])),
            [
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"dbg\" may not be removed\n"
            ]
        );
        assert_eq!(
            told(json!([debug(json!({"image": "b:1"}))]), json!([debug(json!({}))])),
            [
                "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"dbg\" may not be changed\n\timage\n"
            ]
        );
    }

    #[test]
    fn what_others_could_depend_on_is_refused() {
        let wrong = debug(
            json!({"ports": [{"containerPort": 80, "protocol": "TCP"}], "targetContainerName": "nope"}),
        );
        assert_eq!(
            told(json!([wrong]), json!([])),
            [
                "spec.ephemeralContainers[0].targetContainerName: Not found: \"nope\"",
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            ]
        );
        assert_eq!(
            told(json!([debug(json!({"name": "c"}))]), json!([])),
            ["spec.ephemeralContainers[0].name: Duplicate value: \"c\""]
        );
    }
}
