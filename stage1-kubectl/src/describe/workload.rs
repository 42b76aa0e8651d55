//! The pages of Deployment, ReplicaSet, DaemonSet and StatefulSet.
//!
//! # In Kubernetes
//! `describeDeployment`, `describeReplicaSet`, `describeDaemonSet`, `describeStatefulSet` in `kubectl/pkg/describe/describe.go`.

use serde_json::Value;

use super::access::{list, map_text, number, pairs, scalar, selector_text, text};
use super::doc::Doc;
use super::pod::controlled_by;
use super::{Answers, Query, pod_template};
use crate::object::Object;

/// The ReplicaSets of a Deployment.
pub fn deployment_queries(object: &Object) -> Vec<Query> {
    vec![Query::new("apps", "v1", "replicasets", object.namespace()).labels(selector(object))]
}

/// The pods that a workload selects.
pub fn pod_queries(object: &Object) -> Vec<Query> {
    vec![Query::new("", "v1", "pods", object.namespace()).labels(selector(object))]
}

/// The selector as a request's parameter; a ReplicationController has a plain map.
fn selector(object: &Object) -> String {
    let selector = object.get("/spec/selector");
    match selector {
        Some(map) if map.get("matchLabels").is_none() && map.get("matchExpressions").is_none() => {
            map_text(object.as_value(), "/spec/selector")
        }
        _ => selector_text(selector),
    }
}

/// A Deployment's page without its events.
pub fn write_deployment(doc: &mut Doc, object: &Object, answers: &Answers) {
    let value = object.as_value();
    doc.head(value);
    doc.field(0, "CreationTimestamp", &doc.time(value.pointer("/metadata/creationTimestamp")));
    doc.labels_and_annotations(value);
    doc.field(0, "Selector", &selector_text(value.pointer("/spec/selector")));
    let status = |name: &str| number(value, &format!("/status/{name}"));
    let replicas = format!(
        "{} desired | {} updated | {} total | {} available | {} unavailable",
        number(value, "/spec/replicas"),
        status("updatedReplicas"),
        status("replicas"),
        status("availableReplicas"),
        status("unavailableReplicas")
    );
    doc.field(0, "Replicas", &replicas);
    doc.field(0, "StrategyType", text(value, "/spec/strategy/type"));
    doc.field(0, "MinReadySeconds", &number(value, "/spec/minReadySeconds").to_string());
    if let Some(rolling) = value.pointer("/spec/strategy/rollingUpdate") {
        let (unavailable, surge) = (scalar(rolling.get("maxUnavailable")), scalar(rolling.get("maxSurge")));
        doc.field(0, "RollingUpdateStrategy", &format!("{unavailable} max unavailable, {surge} max surge"));
    }
    pod_template::write(doc, value.pointer("/spec/template").unwrap_or(&Value::Null));
    write_conditions(doc, value);
    write_replica_sets(doc, object, answers.of("replicasets"));
}

fn write_conditions(doc: &mut Doc, value: &Value) {
    let conditions = list(value, "/status/conditions");
    if conditions.is_empty() {
        return;
    }
    doc.line(0, "Conditions:\n  Type\tStatus\tReason");
    doc.line(1, "----\t------\t------");
    for condition in conditions {
        let (kind, status, reason) =
            (text(condition, "/type"), text(condition, "/status"), text(condition, "/reason"));
        doc.line(1, &format!("{kind} \t{status}\t{reason}"));
    }
}

/// The new ReplicaSet is the oldest one whose template is the Deployment's, the hash label aside.
fn write_replica_sets(doc: &mut Doc, deployment: &Object, replica_sets: &[Object]) {
    let mut owned: Vec<&Object> = replica_sets
        .iter()
        .filter(|set| {
            set.owner_references()
                .iter()
                .any(|owner| owner.controller == Some(true) && owner.uid == deployment.uid())
        })
        .collect();
    owned.sort_by(|a, b| (a.creation_timestamp(), a.name()).cmp(&(b.creation_timestamp(), b.name())));
    let wanted = template_without_hash(deployment);
    let new = owned.iter().position(|set| template_without_hash(set) == wanted);
    let created = |set: &Object| {
        let (have, want) =
            (number(set.as_value(), "/status/replicas"), number(set.as_value(), "/spec/replicas"));
        format!("{} ({have}/{want} replicas created)", set.name())
    };
    let old: Vec<String> =
        owned.iter().enumerate().filter(|(at, _)| Some(*at) != new).map(|(_, set)| created(set)).collect();
    doc.field(0, "OldReplicaSets", super::access::or_none(&old.join(", ")));
    doc.field(0, "NewReplicaSet", &new.map_or_else(|| "<none>".to_owned(), |at| created(owned[at])));
}

fn template_without_hash(object: &Object) -> Value {
    let mut template = object.get("/spec/template").cloned().unwrap_or_default();
    if let Some(labels) = template.pointer_mut("/metadata/labels").and_then(Value::as_object_mut) {
        labels.remove("pod-template-hash");
    }
    template
}

/// A ReplicaSet's or ReplicationController's page without its events.
pub fn write_replica_set(doc: &mut Doc, object: &Object, answers: &Answers) {
    let value = object.as_value();
    doc.head(value);
    doc.field(0, "Selector", &selector(object));
    doc.labels_and_annotations(value);
    if let Some(owner) = controlled_by(value) {
        doc.field(0, "Controlled By", &owner);
    }
    let (current, desired) = (number(value, "/status/replicas"), number(value, "/spec/replicas"));
    doc.field(0, "Replicas", &format!("{current} current / {desired} desired"));
    write_pods_status(doc, object, answers);
    pod_template::write(doc, value.pointer("/spec/template").unwrap_or(&Value::Null));
    write_conditions(doc, value);
}

/// Counts the pods that this object controls by what they do.
fn write_pods_status(doc: &mut Doc, object: &Object, answers: &Answers) {
    let phase_count = |phase: &str| {
        let ours = answers.of("pods").iter().filter(|pod| {
            pod.owner_references()
                .iter()
                .any(|owner| owner.controller == Some(true) && owner.uid == object.uid())
        });
        ours.filter(|pod| pod.get_str("/status/phase") == Some(phase)).count()
    };
    let [running, waiting, succeeded, failed] =
        ["Running", "Pending", "Succeeded", "Failed"].map(phase_count);
    let status = format!("{running} Running / {waiting} Waiting / {succeeded} Succeeded / {failed} Failed");
    doc.field(0, "Pods Status", &status);
}

/// A DaemonSet's page without its events.
pub fn write_daemon_set(doc: &mut Doc, object: &Object, answers: &Answers) {
    let value = object.as_value();
    // Its namespace isn't on this page.
    doc.field(0, "Name", text(value, "/metadata/name"));
    doc.field(0, "Selector", &selector_text(value.pointer("/spec/selector")));
    doc.field(0, "Node-Selector", &map_text(value, "/spec/template/spec/nodeSelector"));
    doc.labels_and_annotations(value);
    let counts = [
        ("Desired Number of Nodes Scheduled", "desiredNumberScheduled"),
        ("Current Number of Nodes Scheduled", "currentNumberScheduled"),
        ("Number of Nodes Scheduled with Up-to-date Pods", "updatedNumberScheduled"),
        ("Number of Nodes Scheduled with Available Pods", "numberAvailable"),
        ("Number of Nodes Misscheduled", "numberMisscheduled"),
    ];
    for (title, field) in counts {
        doc.line(0, &format!("{title}: {}", number(value, &format!("/status/{field}"))));
    }
    write_pods_status(doc, object, answers);
    pod_template::write(doc, value.pointer("/spec/template").unwrap_or(&Value::Null));
}

/// A StatefulSet's page without its events.
pub fn write_stateful_set(doc: &mut Doc, object: &Object, answers: &Answers) {
    let value = object.as_value();
    doc.head(value);
    doc.field(0, "CreationTimestamp", &doc.time(value.pointer("/metadata/creationTimestamp")));
    doc.field(0, "Selector", &selector_text(value.pointer("/spec/selector")));
    doc.labels_and_annotations(value);
    let (desired, total) = (number(value, "/spec/replicas"), number(value, "/status/replicas"));
    doc.field(0, "Replicas", &format!("{desired} desired | {total} total"));
    doc.field(0, "Update Strategy", text(value, "/spec/updateStrategy/type"));
    if value.pointer("/spec/updateStrategy/rollingUpdate/partition").is_some() {
        doc.field(1, "Partition", &number(value, "/spec/updateStrategy/rollingUpdate/partition").to_string());
    }
    write_pods_status(doc, object, answers);
    pod_template::write(doc, value.pointer("/spec/template").unwrap_or(&Value::Null));
    let claims = list(value, "/spec/volumeClaimTemplates");
    doc.line(0, if claims.is_empty() { "Volume Claims:\t<none>" } else { "Volume Claims:" });
    for claim in claims {
        doc.field(1, "Name", text(claim, "/metadata/name"));
        doc.field(1, "StorageClass", text(claim, "/spec/storageClassName"));
        doc.map(1, "Labels", claim, "/metadata/labels");
        doc.annotations(1, claim, "/metadata/annotations");
        let requests = pairs(claim, "/spec/resources/requests");
        let storage =
            requests.iter().find(|(name, _)| *name == "storage").map(|(_, size)| scalar(Some(size)));
        doc.field(1, "Capacity", storage.as_deref().unwrap_or("<default>"));
        let modes = super::access::joined(list(claim, "/spec/accessModes"), " ");
        doc.field(1, "Access Modes", &format!("[{modes}]"));
    }
}
