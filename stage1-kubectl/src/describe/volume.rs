//! The volumes of a pod or of a pod template.
//!
//! # In Kubernetes
//! `describeVolumes` in `kubectl/pkg/describe/describe.go`. Left out: the sources of single cloud and storage vendors
//! (GCEPersistentDisk, AWSElasticBlockStore, RBD, iSCSI …), which print as `<unknown>`.

use serde_json::Value;

use super::access::{flag, list, number, or_none, pairs, scalar, text};
use super::doc::Doc;

type Writer = fn(&mut Doc, &Value);

/// Source field, title and what else a volume of this kind shows.
const SOURCES: [(&str, &str, Writer); 10] = [
    ("hostPath", "HostPath (bare host directory volume)", write_host_path),
    ("emptyDir", "EmptyDir (a temporary directory that shares a pod's lifetime)", write_empty_dir),
    ("secret", "Secret (a volume populated by a Secret)", write_secret),
    ("configMap", "ConfigMap (a volume populated by a ConfigMap)", write_config_map),
    ("nfs", "NFS (an NFS mount that lasts the lifetime of a pod)", write_nfs),
    (
        "persistentVolumeClaim",
        "PersistentVolumeClaim (a reference to a PersistentVolumeClaim in the same namespace)",
        write_claim,
    ),
    ("projected", "Projected (a volume that contains injected data from multiple sources)", write_projected),
    ("downwardAPI", "DownwardAPI (a volume populated by information about the pod)", write_downward_api),
    ("csi", "CSI (a Container Storage Interface (CSI) volume source)", write_csi),
    (
        "ephemeral",
        "EphemeralVolume (an inline specification for a volume that gets created and deleted with the pod)",
        write_ephemeral,
    ),
];

/// Writes `Volumes:` and its entries; `space` is what a template's block is indented by.
pub fn write_volumes(doc: &mut Doc, space: &str, volumes: &[Value]) {
    if volumes.is_empty() {
        return doc.line(0, &format!("{space}Volumes:\t<none>"));
    }
    doc.line(0, &format!("{space}Volumes:"));
    for volume in volumes {
        doc.line(1, &format!("{}{}:", if space.is_empty() { "" } else { " " }, text(volume, "/name")));
        write_source(doc, volume);
    }
}

/// The source of a volume, or of a PersistentVolume's spec.
pub fn write_source(doc: &mut Doc, volume: &Value) {
    for (field, title, write) in SOURCES {
        if let Some(source) = volume.get(field) {
            doc.field(2, "Type", title);
            return write(doc, source);
        }
    }
    doc.line(1, "<unknown>");
}

fn write_host_path(doc: &mut Doc, source: &Value) {
    doc.field(2, "Path", text(source, "/path"));
    doc.field(
        2,
        "HostPathType",
        source.get("type").map_or("<none>", |kind| kind.as_str().unwrap_or_default()),
    );
}

fn write_empty_dir(doc: &mut Doc, source: &Value) {
    doc.field(2, "Medium", text(source, "/medium"));
    let limit = scalar(source.get("sizeLimit"));
    doc.field(2, "SizeLimit", if limit.is_empty() || limit == "0" { "<unset>" } else { &limit });
}

fn write_secret(doc: &mut Doc, source: &Value) {
    doc.field(2, "SecretName", text(source, "/secretName"));
    doc.field(2, "Optional", &flag(source, "/optional").to_string());
}

fn write_config_map(doc: &mut Doc, source: &Value) {
    doc.field(2, "Name", text(source, "/name"));
    doc.field(2, "Optional", &flag(source, "/optional").to_string());
}

fn write_nfs(doc: &mut Doc, source: &Value) {
    doc.field(2, "Server", text(source, "/server"));
    doc.field(2, "Path", text(source, "/path"));
    doc.field(2, "ReadOnly", &flag(source, "/readOnly").to_string());
}

fn write_claim(doc: &mut Doc, source: &Value) {
    doc.field(2, "ClaimName", text(source, "/claimName"));
    doc.field(2, "ReadOnly", &flag(source, "/readOnly").to_string());
}

fn write_projected(doc: &mut Doc, source: &Value) {
    // A missing `optional` prints as Go prints a nil pointer.
    let optional =
        |value: &Value| value.get("optional").map_or("<nil>".to_owned(), |optional| scalar(Some(optional)));
    for part in list(source, "/sources") {
        if let Some(secret) = part.get("secret") {
            doc.field(2, "SecretName", text(secret, "/name"));
            doc.field(2, "SecretOptionalName", &optional(secret));
        } else if part.get("downwardAPI").is_some() {
            doc.field(2, "DownwardAPI", "true");
        } else if let Some(map) = part.get("configMap") {
            doc.field(2, "ConfigMapName", text(map, "/name"));
            doc.field(2, "ConfigMapOptional", &optional(map));
        } else if let Some(token) = part.get("serviceAccountToken") {
            doc.field(2, "TokenExpirationSeconds", &number(token, "/expirationSeconds").to_string());
        }
    }
}

fn write_downward_api(doc: &mut Doc, source: &Value) {
    doc.line(2, "Items:");
    for item in list(source, "/items") {
        for field in ["/fieldRef/fieldPath", "/resourceFieldRef/resource"] {
            if !text(item, field).is_empty() {
                doc.line(3, &format!("{} -> {}", text(item, field), text(item, "/path")));
            }
        }
    }
}

fn write_csi(doc: &mut Doc, source: &Value) {
    doc.field(2, "Driver", text(source, "/driver"));
    doc.field(2, "FSType", text(source, "/fsType"));
    doc.field(2, "ReadOnly", &flag(source, "/readOnly").to_string());
    doc.map(2, "VolumeAttributes", source, "/volumeAttributes");
}

fn write_ephemeral(doc: &mut Doc, source: &Value) {
    let template = source.pointer("/volumeClaimTemplate").unwrap_or(&Value::Null);
    doc.field(2, "StorageClass", text(template, "/spec/storageClassName"));
    let mode = text(template, "/spec/volumeMode");
    doc.field(2, "Volume", "");
    doc.map(2, "Labels", template, "/metadata/labels");
    doc.annotations(2, template, "/metadata/annotations");
    let requests = pairs(template, "/spec/resources/requests");
    let storage = requests.iter().find(|(name, _)| *name == "storage").map(|(_, value)| scalar(Some(value)));
    doc.field(2, "Capacity", &storage.unwrap_or_default());
    doc.field(2, "Access Modes", &super::storage::access_modes(list(template, "/spec/accessModes")));
    doc.field(2, "VolumeMode", or_none(mode));
}
