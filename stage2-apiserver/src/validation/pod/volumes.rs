//! Volumes: exactly one source each, and its fields.
//!
//! The simple sources need only that some fields are there, which is a table; those with files and modes have functions.
//!
//! # In Kubernetes
//! `ValidateVolumes`, `validateVolumeSource`. Left out: the details of removed cloud disks.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::env::downward_items;
use crate::validation::fields::{child, has, int, list, text};
use crate::validation::values::{
    file_mode, local_non_reserved_path, no_backsteps, one_of_if_set, quantity, required,
};
use crate::validation::{Errors, FieldError, field, index, names, storage};

/// The valid volumes by name.
pub type Volumes<'a> = BTreeMap<&'a str, &'a Value>;

/// Sources whose only demand is that some fields are not empty.
const REQUIRED: &[(&str, &[&str])] = &[
    ("nfs", &["server", "path"]),
    ("iscsi", &["targetPortal", "iqn"]),
    ("glusterfs", &["endpoints", "path"]),
    ("flocker", &[]),
    ("persistentVolumeClaim", &["claimName"]),
    ("rbd", &["image"]),
    ("cephfs", &[]),
    ("fc", &[]),
    ("gcePersistentDisk", &["pdName"]),
    ("awsElasticBlockStore", &["volumeID"]),
    ("azureFile", &["secretName", "shareName"]),
    ("azureDisk", &["diskName", "diskURI"]),
    ("vsphereVolume", &["volumePath"]),
    ("photonPersistentDisk", &["pdID"]),
    ("portworxVolume", &["volumeID"]),
    ("quobyte", &["registry", "volume"]),
    ("scaleIO", &["gateway", "system", "volumeName"]),
    ("storageos", &[]),
    ("flexVolume", &["driver"]),
    ("cinder", &["volumeID"]),
    ("gitRepo", &["repository"]),
    ("image", &[]),
];
const WITH_RULES: &[&str] =
    &["emptyDir", "hostPath", "secret", "configMap", "downwardAPI", "projected", "csi", "ephemeral"];
const HOST_PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// `volumes`: what is wrong, and those that are right.
pub fn volumes<'a>(spec: &'a Value, path: &str, meta: Option<&Value>) -> (Errors, Volumes<'a>) {
    let (mut errors, mut valid) = (Errors::new(), Volumes::new());
    let mut seen = BTreeSet::new();
    for (at, volume) in list(spec, "volumes").iter().enumerate() {
        let path = index(path, at);
        let name = text(volume, "name");
        let mut wrong = source(volume, &path, meta);
        crate::validation::values::required_form(&mut wrong, volume, "name", &path, names::dns1123_label);
        if !seen.insert(name) {
            wrong.push(FieldError::duplicate(field(&path, "name"), name));
        }
        if wrong.is_empty() {
            valid.insert(name, volume);
        }
        errors.extend(wrong);
    }
    (errors, valid)
}

fn source(volume: &Value, path: &str, meta: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let mut given = 0;
    for (name, demands) in WITH_RULES.iter().map(|name| (*name, &[][..])).chain(REQUIRED.iter().copied()) {
        if !has(volume, name) {
            continue;
        }
        given += 1;
        let path = field(path, name);
        if given > 1 {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 volume type"));
            continue;
        }
        let source = child(volume, name);
        for demand in demands {
            required(&mut errors, source, demand, &path);
        }
        match name {
            "emptyDir" if has(source, "sizeLimit") && quantity(child(source, "sizeLimit")).sign() < 0 => {
                let detail = "SizeLimit field must be a valid resource quantity";
                errors.push(FieldError::forbidden(field(&path, "sizeLimit"), detail));
            }
            "hostPath" => host_path(&mut errors, source, &path),
            "nfs" if !text(source, "path").is_empty() && !text(source, "path").starts_with('/') => {
                errors.push(FieldError::invalid(
                    field(&path, "path"),
                    text(source, "path"),
                    "must be an absolute path",
                ));
            }
            "secret" => files(&mut errors, source, &path, "secretName"),
            "configMap" => files(&mut errors, source, &path, "name"),
            "downwardAPI" => {
                file_mode(&mut errors, source, "defaultMode", &path);
                errors.extend(downward_items(source, &path));
            }
            "projected" => projected(&mut errors, source, &path),
            "csi" => storage::csi_driver_name(&mut errors, text(source, "driver"), &field(&path, "driver")),
            "ephemeral" => errors.extend(ephemeral(volume, source, &path, meta)),
            _ => {}
        }
    }
    if given == 0 {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
    errors
}

fn host_path(errors: &mut Errors, source: &Value, path: &str) {
    host_path_source(errors, source, path);
}

/// A directory of the host; persistent volumes have it too.
pub fn host_path_source(errors: &mut Errors, source: &Value, path: &str) {
    if !required(errors, source, "path", path) {
        return;
    }
    no_backsteps(errors, text(source, "path"), &field(path, "path"));
    one_of_if_set(errors, source, "type", path, HOST_PATH_TYPES);
}

fn files(errors: &mut Errors, source: &Value, path: &str, name: &str) {
    required(errors, source, name, path);
    file_mode(errors, source, "defaultMode", path);
    items(errors, source, path);
}

fn items(errors: &mut Errors, source: &Value, path: &str) {
    for (at, item) in list(source, "items").iter().enumerate() {
        let path = index(&field(path, "items"), at);
        required(errors, item, "key", &path);
        if required(errors, item, "path", &path) {
            local_non_reserved_path(errors, text(item, "path"), &field(&path, "path"));
        }
        file_mode(errors, item, "mode", &path);
    }
}

fn projected(errors: &mut Errors, source: &Value, path: &str) {
    file_mode(errors, source, "defaultMode", path);
    for (at, part) in list(source, "sources").iter().enumerate() {
        let path = index(&field(path, "sources"), at);
        let mut given = 0;
        for name in ["secret", "configMap", "downwardAPI", "serviceAccountToken", "clusterTrustBundle"] {
            if !has(part, name) {
                continue;
            }
            given += 1;
            let (projection, path) = (child(part, name), field(&path, name));
            if given > 1 {
                errors
                    .push(FieldError::forbidden(path, "may not specify more than 1 volume type per source"));
                continue;
            }
            match name {
                "secret" | "configMap" => {
                    required(errors, projection, "name", &path);
                    items(errors, projection, &path);
                }
                "downwardAPI" => errors.extend(downward_items(projection, &path)),
                "serviceAccountToken" => token(errors, projection, &path),
                _ => {
                    required(errors, projection, "path", &path);
                }
            }
        }
        if given == 0 {
            errors.push(FieldError::required(&path, "must specify at least one source"));
        }
    }
}

fn token(errors: &mut Errors, projection: &Value, path: &str) {
    let seconds = int(projection, "expirationSeconds");
    let at = field(path, "expirationSeconds");
    if seconds < 600 {
        errors.push(FieldError::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > 1 << 32 {
        errors.push(FieldError::invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds"));
    }
    if required(errors, projection, "path", path) {
        local_non_reserved_path(errors, text(projection, "path"), &field(path, "path"));
    }
}

/// A claim that lives as long as the pod.
fn ephemeral(volume: &Value, source: &Value, path: &str, meta: Option<&Value>) -> Errors {
    let mut errors = Errors::new();
    let path = field(path, "volumeClaimTemplate");
    if !has(source, "volumeClaimTemplate") {
        errors.push(FieldError::required(path, ""));
        return errors;
    }
    let template = child(source, "volumeClaimTemplate");
    errors.extend(storage::claim_spec(child(template, "spec"), &field(&path, "spec")));
    let pod = meta.map_or("", |meta| text(meta, "name"));
    let claim = format!("{pod}-{}", text(volume, "name"));
    if !pod.is_empty() {
        let messages = names::dns1123_subdomain(&claim);
        let detail = |message: String| format!("PVC name {claim:?}: {message}");
        errors.extend(
            messages.into_iter().map(|m| FieldError::invalid(path.clone(), text(volume, "name"), detail(m))),
        );
    }
    errors
}
