//! The pages of PersistentVolume, PersistentVolumeClaim and StorageClass.
//!
//! # In Kubernetes
//! `describePersistentVolume`, `describePersistentVolumeClaim` and `describeStorageClass` in
//! `kubectl/pkg/describe/describe.go`.

use serde_json::Value;

use super::access::{flag, joined, list, or_none, pairs, scalar, text};
use super::doc::Doc;
use super::volume::write_source;
use super::{Answers, Query};
use crate::object::Object;

const DEFAULT_CLASS: &str = "storageclass.kubernetes.io/is-default-class";

/// Access modes in kubectl's short words.
pub fn access_modes(modes: &[Value]) -> String {
    let short = |mode: &str| match mode {
        "ReadWriteOnce" => "RWO".to_owned(),
        "ReadOnlyMany" => "ROX".to_owned(),
        "ReadWriteMany" => "RWX".to_owned(),
        "ReadWriteOncePod" => "RWOP".to_owned(),
        other => other.to_owned(),
    };
    modes.iter().filter_map(Value::as_str).map(short).collect::<Vec<_>>().join(",")
}

fn quantity(value: &Value, pointer: &str) -> String {
    let found = pairs(value, pointer).into_iter().find(|(name, _)| *name == "storage");
    found.map(|(_, quantity)| scalar(Some(quantity))).unwrap_or_default()
}

/// A PersistentVolume's page without its events.
pub fn write_volume(doc: &mut Doc, volume: &Value) {
    doc.field(0, "Name", text(volume, "/metadata/name"));
    doc.labels_and_annotations(volume);
    doc.field(0, "Finalizers", &format!("[{}]", joined(list(volume, "/metadata/finalizers"), " ")));
    doc.field(0, "StorageClass", text(volume, "/spec/storageClassName"));
    let deleted = text(volume, "/metadata/deletionTimestamp");
    let status = text(volume, "/status/phase").to_owned();
    let status =
        if deleted.is_empty() { status } else { format!("Terminating (lasts {})", doc.since(deleted)) };
    doc.field(0, "Status", &status);
    let claim = volume
        .pointer("/spec/claimRef")
        .map(|claim| format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")));
    doc.field(0, "Claim", &claim.unwrap_or_default());
    doc.field(0, "Reclaim Policy", text(volume, "/spec/persistentVolumeReclaimPolicy"));
    doc.field(0, "Access Modes", &access_modes(list(volume, "/spec/accessModes")));
    if volume.pointer("/spec/volumeMode").is_some() {
        doc.field(0, "VolumeMode", text(volume, "/spec/volumeMode"));
    }
    doc.field(0, "Capacity", &quantity(volume, "/spec/capacity"));
    write_node_affinity(doc, volume);
    doc.field(0, "Message", text(volume, "/status/message"));
    doc.line(0, "Source:");
    write_source(doc, volume.pointer("/spec").unwrap_or(&Value::Null));
}

fn write_node_affinity(doc: &mut Doc, volume: &Value) {
    let terms = list(volume, "/spec/nodeAffinity/required/nodeSelectorTerms");
    if terms.is_empty() {
        return doc.field(0, "Node Affinity", "<none>");
    }
    doc.field(0, "Node Affinity", "");
    doc.field(1, "Required Terms", "");
    for (at, term) in terms.iter().enumerate() {
        let expressions: Vec<String> = list(term, "/matchExpressions")
            .iter()
            .map(|expression| {
                let (key, operator) =
                    (text(expression, "/key"), text(expression, "/operator").to_lowercase());
                match list(expression, "/values") {
                    [] => format!("{key} {operator}"),
                    values => format!("{key} {operator} [{}]", joined(values, ", ")),
                }
            })
            .collect();
        doc.multiline(2, &format!("Term {at}"), &expressions);
    }
}

/// The pods of the claim's namespace: those that use it are named.
pub fn claim_queries(claim: &Object) -> Vec<Query> {
    vec![Query::new("", "v1", "pods", claim.namespace())]
}

/// A PersistentVolumeClaim's page without its events.
pub fn write_claim(doc: &mut Doc, object: &Object, answers: &Answers) {
    let claim = object.as_value();
    doc.head(claim);
    doc.field(0, "StorageClass", text(claim, "/spec/storageClassName"));
    let deleted = text(claim, "/metadata/deletionTimestamp");
    let status = text(claim, "/status/phase").to_owned();
    let status =
        if deleted.is_empty() { status } else { format!("Terminating (lasts {})", doc.since(deleted)) };
    doc.field(0, "Status", &status);
    doc.field(0, "Volume", text(claim, "/spec/volumeName"));
    doc.labels_and_annotations(claim);
    doc.field(0, "Finalizers", &format!("[{}]", joined(list(claim, "/metadata/finalizers"), " ")));
    let bound = !text(claim, "/spec/volumeName").is_empty();
    doc.field(0, "Capacity", &if bound { quantity(claim, "/status/capacity") } else { String::new() });
    let modes = if bound { access_modes(list(claim, "/status/accessModes")) } else { String::new() };
    doc.field(0, "Access Modes", &modes);
    if claim.pointer("/spec/volumeMode").is_some() {
        doc.field(0, "VolumeMode", text(claim, "/spec/volumeMode"));
    }
    if let Some(source) = claim.pointer("/spec/dataSource") {
        doc.line(0, "DataSource:");
        doc.field(1, "APIGroup", text(source, "/apiGroup"));
        doc.field(1, "Kind", text(source, "/kind"));
        doc.field(1, "Name", text(source, "/name"));
    }
    let users: Vec<String> = answers
        .of("pods")
        .iter()
        .filter(|pod| {
            let volumes = list(pod.as_value(), "/spec/volumes").iter();
            volumes
                .into_iter()
                .any(|volume| text(volume, "/persistentVolumeClaim/claimName") == object.name())
        })
        .map(|pod| pod.name().to_owned())
        .collect();
    doc.multiline(0, "Used By", &users);
    let conditions = list(claim, "/status/conditions");
    if !conditions.is_empty() {
        doc.line(0, "Conditions:\n  Type\tStatus\tLastProbeTime\tLastTransitionTime\tReason\tMessage");
        doc.line(1, "----\t------\t-----------------\t------------------\t------\t-------");
        for condition in conditions {
            let time = |pointer: &str| super::doc::rfc1123z(text(condition, pointer));
            let (probe, transition) = (time("/lastProbeTime"), time("/lastTransitionTime"));
            let cell = |pointer: &str| text(condition, pointer).to_owned();
            let (kind, status, reason, message) =
                (cell("/type"), cell("/status"), cell("/reason"), cell("/message"));
            doc.line(1, &format!("{kind} \t{status} \t{probe} \t{transition} \t{reason} \t{message}"));
        }
    }
}

/// A StorageClass's page without its events.
pub fn write_class(doc: &mut Doc, class: &Value) {
    doc.field(0, "Name", text(class, "/metadata/name"));
    let annotations = pairs(class, "/metadata/annotations");
    let default =
        annotations.iter().any(|(key, value)| *key == DEFAULT_CLASS && value.as_str() == Some("true"));
    doc.field(0, "IsDefaultClass", if default { "Yes" } else { "No" });
    let map = |pointer: &str| {
        let pairs = pairs(class, pointer);
        pairs
            .iter()
            .map(|(key, value)| format!("{key}={}", scalar(Some(value))))
            .collect::<Vec<_>>()
            .join(",")
    };
    doc.field(0, "Annotations", or_none(&map("/metadata/annotations")));
    doc.field(0, "Provisioner", text(class, "/provisioner"));
    doc.field(0, "Parameters", or_none(&map("/parameters")));
    let expansion = class.pointer("/allowVolumeExpansion").map(|_| flag(class, "/allowVolumeExpansion"));
    doc.field(0, "AllowVolumeExpansion", expansion.map_or("<unset>", super::access::title_bool));
    let options = list(class, "/mountOptions");
    if options.is_empty() {
        doc.field(0, "MountOptions", "<none>");
    } else {
        doc.line(0, "MountOptions:");
        for option in options {
            doc.line(1, &scalar(Some(option)));
        }
    }
    for (title, pointer) in [("ReclaimPolicy", "/reclaimPolicy"), ("VolumeBindingMode", "/volumeBindingMode")]
    {
        if class.pointer(pointer).is_some() {
            doc.field(0, title, text(class, pointer));
        }
    }
}
