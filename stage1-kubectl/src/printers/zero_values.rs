//! Zero values: the fields that Go's structs print although nobody set them.
//!
//! Commands that decode an object into a Go struct (`set`, `create deployment`, …) print it with `creationTimestamp: null`,
//! `resources: {}` or `status: {}`, because those fields are structs, not pointers. Our objects are JSON maps, so the
//! fields are added before such an object is printed without having been on a server.
//!
//! # In Kubernetes
//! The `json` tags without a working `omitempty` in `k8s.io/api/{core,apps,batch}/v1/types.go`. Left out: rare kinds.

use serde_json::{Value, json};

/// Adds what Go would print.
pub fn add(object: &mut Value) {
    if object["kind"] == "List" {
        object["items"].as_array_mut().into_iter().flatten().for_each(add);
        return;
    }
    null_time(&mut object["metadata"]);
    let kind = object["kind"].as_str().unwrap_or_default().to_string();
    let (spec, status) = match kind.as_str() {
        "Pod" => (pod_spec as fn(&mut Value), json!({})),
        "Deployment" => (deployment as fn(&mut Value), json!({})),
        "ReplicaSet" | "ReplicationController" => (template_of as fn(&mut Value), json!({"replicas": 0})),
        "StatefulSet" => (stateful_set as fn(&mut Value), json!({"replicas": 0, "availableReplicas": 0})),
        "DaemonSet" => (
            daemon_set as fn(&mut Value),
            json!({"currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0}),
        ),
        "Job" => (template_of as fn(&mut Value), json!({})),
        "CronJob" => (cron_job as fn(&mut Value), json!({})),
        "Service" => (service as fn(&mut Value), json!({"loadBalancer": {}})),
        "Namespace" | "Node" | "PersistentVolume" => ((|_| {}) as fn(&mut Value), json!({})),
        "PersistentVolumeClaim" => (claim as fn(&mut Value), json!({})),
        _ => return,
    };
    missing(object, "spec", json!({}));
    spec(&mut object["spec"]);
    missing(object, "status", status);
}

fn missing(value: &mut Value, field: &str, zero: Value) {
    if let Some(map) = value.as_object_mut() {
        map.entry(field).or_insert(zero);
    }
}

fn null_time(metadata: &mut Value) {
    if metadata.is_null() {
        *metadata = json!({});
    }
    missing(metadata, "creationTimestamp", Value::Null);
}

fn pod_spec(spec: &mut Value) {
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let containers = spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten();
        containers.for_each(|container| missing(container, "resources", json!({})));
    }
}

fn template_of(spec: &mut Value) {
    if let Some(template) = spec.get_mut("template") {
        null_time(&mut template["metadata"]);
        if let Some(spec) = template.get_mut("spec") {
            pod_spec(spec);
        }
    }
}

fn deployment(spec: &mut Value) {
    missing(spec, "strategy", json!({}));
    template_of(spec);
}

fn daemon_set(spec: &mut Value) {
    missing(spec, "updateStrategy", json!({}));
    template_of(spec);
}

fn stateful_set(spec: &mut Value) {
    missing(spec, "updateStrategy", json!({}));
    missing(spec, "serviceName", "".into());
    template_of(spec);
    let claims = spec.get_mut("volumeClaimTemplates").and_then(Value::as_array_mut).into_iter().flatten();
    for template in claims {
        null_time(&mut template["metadata"]);
        claim(&mut template["spec"]);
        missing(template, "status", json!({}));
    }
}

fn cron_job(spec: &mut Value) {
    if let Some(template) = spec.get_mut("jobTemplate") {
        null_time(&mut template["metadata"]);
        template_of(&mut template["spec"]);
    }
}

fn service(spec: &mut Value) {
    let ports = spec.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten();
    ports.for_each(|port| missing(port, "targetPort", 0.into()));
}

fn claim(spec: &mut Value) {
    missing(spec, "resources", json!({}));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_set_stays_and_what_go_prints_is_added() {
        let mut deployment = json!({"kind": "Deployment", "metadata": {"name": "web"},
            "spec": {"strategy": {"type": "Recreate"}, "template": {"spec": {"containers": [{"name": "c"}]}}}});
        add(&mut deployment);
        assert_eq!(
            deployment,
            json!({"kind": "Deployment", "metadata": {"name": "web", "creationTimestamp": null},
                "spec": {"strategy": {"type": "Recreate"}, "template": {"metadata": {"creationTimestamp": null},
                    "spec": {"containers": [{"name": "c", "resources": {}}]}}}, "status": {}})
        );
    }
}
