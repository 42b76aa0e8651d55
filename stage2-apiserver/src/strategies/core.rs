//! The small strategies: namespaces, nodes, volumes, daemons, certificate requests.
//!
//! # In Kubernetes
//! `pkg/registry/core/{namespace,node,persistentvolume,persistentvolumeclaim}/strategy.go`, `pkg/registry/apps/daemonset/strategy.go`,
//! `pkg/registry/certificates/certificates/strategy.go`.

use serde_json::{Value, json};

use super::Context;
use crate::validation::fields::{at, child, child_mut, has, list_mut, set, text, texts};

/// Finalizer of a namespace: the namespace controller empties it first.
pub const FINALIZER_KUBERNETES: &str = "kubernetes";

/// A new namespace is active and finalized by Kubernetes.
pub fn namespace_create(namespace: &mut Value, _: &Context) {
    set(namespace, "status", json!({"phase": "Active"}));
    let spec = child_mut(namespace, "spec");
    if !texts(spec, "finalizers").contains(&FINALIZER_KUBERNETES) {
        list_mut(spec, "finalizers").push(json!(FINALIZER_KUBERNETES));
    }
}

/// `spec.finalizers` changes only through `/finalize`.
pub fn namespace_update(new: &mut Value, old: &Value, _: &Context) {
    set(new, "spec", child(old, "spec").clone());
}

/// The time of a volume's last phase.
pub fn persistent_volume_create(volume: &mut Value, context: &Context) {
    let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    set(volume, "status", json!({"phase": "Pending", "lastPhaseTransitionTime": now}));
}

/// `dataSource` and `dataSourceRef` say the same.
pub fn persistent_volume_claim_create(claim: &mut Value, _: &Context) {
    set(claim, "status", json!({"phase": "Pending"}));
    let spec = child_mut(claim, "spec");
    if has(spec, "dataSource") && !has(spec, "dataSourceRef") {
        let source = child(spec, "dataSource").clone();
        set(spec, "dataSourceRef", source);
    } else if has(spec, "dataSourceRef")
        && !has(spec, "dataSource")
        && text(at(spec, "/dataSourceRef"), "namespace").is_empty()
    {
        let source = child(spec, "dataSourceRef").clone();
        set(spec, "dataSource", source);
    }
}

/// Annotation that carries the old field `templateGeneration`.
pub const DEPRECATED_TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

/// A new DaemonSet has its template's first generation.
pub fn daemon_set_create(set_: &mut Value, _: &Context) {
    set(child_mut(child_mut(set_, "metadata"), "annotations"), DEPRECATED_TEMPLATE_GENERATION, "1");
}

/// A changed template is a new generation of it.
pub fn daemon_set_update(new: &mut Value, old: &Value, _: &Context) {
    let recorded =
        at(old, "/metadata/annotations").get(DEPRECATED_TEMPLATE_GENERATION).and_then(Value::as_str);
    let generation: i64 = recorded.and_then(|text| text.parse().ok()).unwrap_or_default();
    let changed = at(new, "/spec/template") != at(old, "/spec/template");
    let next = if changed { generation + 1 } else { generation };
    set(
        child_mut(child_mut(new, "metadata"), "annotations"),
        DEPRECATED_TEMPLATE_GENERATION,
        next.to_string(),
    );
}

/// A certificate request says who asks.
pub fn certificate_signing_request_create(request: &mut Value, context: &Context) {
    let spec = child_mut(request, "spec");
    set(spec, "username", context.user.name.clone());
    if !context.user.uid.is_empty() {
        set(spec, "uid", context.user.uid.clone());
    }
    set(spec, "groups", context.user.groups.clone());
    if !context.user.extra.is_empty() {
        set(spec, "extra", json!(context.user.extra));
    }
}

/// The request itself never changes.
pub fn certificate_signing_request_update(new: &mut Value, old: &Value, _: &Context) {
    set(new, "spec", child(old, "spec").clone());
}

/// A CustomResourceDefinition before the server has looked at it.
pub fn custom_resource_definition_create(definition: &mut Value, _: &Context) {
    let versions = crate::validation::fields::list(child(definition, "spec"), "versions");
    let mut stored: Vec<Value> =
        versions.iter().filter(|v| v["storage"] == true).map(|v| v["name"].clone()).collect();
    stored.dedup();
    let status =
        json!({"conditions": null, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": stored});
    set(definition, "status", status);
}

/// A version that becomes the stored one is one that objects may be stored in from now on.
pub fn custom_resource_definition_update(definition: &mut Value, _: &Value, _: &Context) {
    let versions = crate::validation::fields::list(child(definition, "spec"), "versions");
    let storage = versions.iter().find(|v| v["storage"] == true).map(|v| v["name"].clone());
    let stored = definition.pointer_mut("/status/storedVersions").and_then(Value::as_array_mut);
    if let (Some(storage), Some(stored)) = (storage, stored)
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
}

/// An autoscaler's status keeps what v1 and v2 both show.
pub fn horizontal_pod_autoscaler_create(autoscaler: &mut Value, _: &Context) {
    let status = if text(autoscaler, "apiVersion") == "autoscaling/v1" {
        json!({"currentReplicas": 0, "desiredReplicas": 0})
    } else {
        json!({"desiredReplicas": 0, "currentMetrics": null})
    };
    set(autoscaler, "status", status);
}
