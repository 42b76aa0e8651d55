//! PersistentVolumes, claims, storage classes.
//!
//! # In Kubernetes
//! `ValidatePersistentVolume`, `ValidatePersistentVolumeClaim`, `pkg/apis/storage/validation`. Left out: the sources of removed cloud disks.

use serde_json::Value;

use super::fields::{child, has, remove, text, texts};
use super::pod::volumes::host_path_source;
use super::values::{one_of_if_set, quantity, required};
use super::{Errors, FieldError, field, go_syntax, invalid_each, key, names, selector};

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
const VOLUME_SOURCES: &[&str] = &[
    "hostPath",
    "nfs",
    "local",
    "csi",
    "iscsi",
    "fc",
    "rbd",
    "cephfs",
    "cinder",
    "glusterfs",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "azureDisk",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "scaleIO",
    "storageos",
];

/// The name of a CSI driver.
pub fn csi_driver_name(errors: &mut Errors, name: &str, path: &str) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > 63 {
        errors.push(FieldError::too_long(path, 63));
    }
    let lower = name.to_lowercase();
    invalid_each(errors, path, name, names::dns1123_subdomain(&lower));
}

fn access_modes(errors: &mut Errors, spec: &Value, path: &str) {
    let modes = texts(spec, "accessModes");
    let path = field(path, "accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(&path, "at least 1 access mode is required"));
    }
    for mode in modes.iter().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.push(FieldError::not_supported(&path, *mode, ACCESS_MODES));
    }
    if modes.len() > 1 && modes.contains(&"ReadWriteOncePod") {
        errors.push(FieldError::forbidden(&path, "may not use ReadWriteOncePod with other access modes"));
    }
}

/// PersistentVolume.
pub fn persistent_volume(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    access_modes(&mut errors, spec, "spec");
    let capacity = child(spec, "capacity");
    if super::fields::size(spec, "capacity") == 0 {
        errors.push(FieldError::required("spec.capacity", ""));
    }
    if !has(capacity, "storage") || super::fields::size(spec, "capacity") > 1 {
        errors.push(FieldError::not_supported(
            "spec.capacity",
            go_syntax::raw(capacity.to_string()),
            &["storage"],
        ));
    } else if quantity(child(capacity, "storage")).sign() <= 0 {
        let shown = quantity(child(capacity, "storage")).to_string();
        errors.push(FieldError::invalid(key("spec.capacity", "storage"), shown, "must be greater than zero"));
    }
    one_of_if_set(
        &mut errors,
        spec,
        "persistentVolumeReclaimPolicy",
        "spec",
        &["Delete", "Recycle", "Retain"],
    );
    errors.extend(volume_source(spec));
    let recycled = text(spec, "persistentVolumeReclaimPolicy") == "Recycle";
    if recycled
        && text(child(spec, "hostPath"), "path").trim_end_matches('/').is_empty()
        && has(spec, "hostPath")
    {
        let detail = "may not be 'recycle' for a hostPath mount of '/'";
        errors.push(FieldError::forbidden("spec.persistentVolumeReclaimPolicy", detail));
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        invalid_each(&mut errors, "spec.storageClassName", class, names::dns1123_subdomain(class));
    }
    one_of_if_set(&mut errors, spec, "volumeMode", "spec", &["Block", "Filesystem"]);
    errors
}

fn volume_source(spec: &Value) -> Errors {
    let mut errors = Errors::new();
    let mut given = 0;
    for name in VOLUME_SOURCES.iter().filter(|name| has(spec, name)) {
        given += 1;
        let (source, path) = (child(spec, name), field("spec", name));
        if given > 1 {
            errors.push(FieldError::forbidden(path, "may not specify more than 1 volume type"));
            continue;
        }
        match *name {
            "hostPath" => host_path_source(&mut errors, source, &path),
            "nfs" => {
                required(&mut errors, source, "server", &path);
                required(&mut errors, source, "path", &path);
            }
            "local" => {
                required(&mut errors, source, "path", &path);
                if !has(spec, "nodeAffinity") {
                    errors.push(FieldError::required(
                        "spec.nodeAffinity",
                        "Local volume requires node affinity",
                    ));
                }
            }
            "csi" => {
                csi_driver_name(&mut errors, text(source, "driver"), &field(&path, "driver"));
                required(&mut errors, source, "volumeHandle", &path);
            }
            _ => {}
        }
    }
    if given == 0 {
        errors.push(FieldError::required("spec", "must specify a volume type"));
    }
    errors
}

/// A changed PersistentVolume: where it is stays.
pub fn persistent_volume_update(new: &Value, old: &Value) -> Errors {
    let mut errors = persistent_volume(new);
    let source = |value: &Value| {
        let spec = child(value, "spec");
        VOLUME_SOURCES.iter().map(|name| child(spec, name).clone()).collect::<Vec<_>>()
    };
    if source(new) != source(old) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        errors.push(FieldError::forbidden("spec.persistentvolumesource", detail));
    }
    super::immutable(
        &mut errors,
        child(child(new, "spec"), "volumeMode"),
        child(child(old, "spec"), "volumeMode"),
        "volumeMode",
    );
    errors
}

/// PersistentVolumeClaim.
pub fn persistent_volume_claim(value: &Value) -> Errors {
    claim_spec(child(value, "spec"), "spec")
}

/// The spec of a claim or of an ephemeral volume.
pub fn claim_spec(spec: &Value, path: &str) -> Errors {
    let mut errors = Errors::new();
    access_modes(&mut errors, spec, path);
    errors.extend(selector::label_selector(child(spec, "selector"), &field(path, "selector")));
    let requested = child(child(spec, "resources"), "requests");
    match requested.get("storage") {
        None => errors.push(FieldError::required(key(&field(path, "resources"), "storage"), "")),
        Some(value) if quantity(value).sign() <= 0 => {
            let shown = quantity(value).to_string();
            errors.push(FieldError::invalid(
                key(&field(path, "resources"), "storage"),
                shown,
                "must be greater than zero",
            ));
        }
        Some(_) => {}
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        invalid_each(&mut errors, &field(path, "storageClassName"), class, names::dns1123_subdomain(class));
    }
    one_of_if_set(&mut errors, spec, "volumeMode", path, &["Block", "Filesystem"]);
    errors
}

/// A changed claim: it may grow once it is bound.
pub fn persistent_volume_claim_update(new: &Value, old: &Value) -> Errors {
    let mut errors = persistent_volume_claim(new);
    let size =
        |value: &Value| value.pointer("/spec/resources/requests/storage").map(quantity).unwrap_or_default();
    let bound = text(child(old, "status"), "phase") == "Bound";
    let fixed = |value: &Value| {
        let mut spec = child(value, "spec").clone();
        remove(&mut spec, "volumeAttributesClassName");
        if bound {
            remove(&mut spec, "resources");
        }
        // The controller fills these in when it binds.
        if text(child(old, "spec"), "volumeName").is_empty() {
            remove(&mut spec, "volumeName");
        }
        if !has(child(old, "spec"), "storageClassName") {
            remove(&mut spec, "storageClassName");
        }
        spec
    };
    if fixed(new) != fixed(old) {
        let detail = "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.push(FieldError::forbidden("spec", detail));
    } else if bound && size(new) < size(old) {
        errors.push(FieldError::forbidden(
            "spec.resources.requests.storage",
            "field can not be less than status.capacity",
        ));
    }
    errors
}

/// StorageClass.
pub fn storage_class(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let provisioner = text(value, "provisioner");
    if required(&mut errors, value, "provisioner", "") {
        invalid_each(
            &mut errors,
            "provisioner",
            provisioner,
            names::qualified_name(&provisioner.to_lowercase()),
        );
    }
    one_of_if_set(&mut errors, value, "reclaimPolicy", "", &["Delete", "Retain"]);
    one_of_if_set(&mut errors, value, "volumeBindingMode", "", &["Immediate", "WaitForFirstConsumer"]);
    errors
}

/// A changed StorageClass: what it provisions stays.
pub fn storage_class_update(new: &Value, old: &Value) -> Errors {
    let mut errors = Errors::new();
    for name in ["parameters", "provisioner"] {
        if child(new, name) != child(old, name) {
            errors.push(FieldError::forbidden(name, format!("updates to {name} are forbidden.")));
        }
    }
    if text(new, "reclaimPolicy") != text(old, "reclaimPolicy") {
        errors.push(FieldError::forbidden("reclaimPolicy", "updates to reclaimPolicy are forbidden."));
    }
    super::immutable(
        &mut errors,
        child(new, "volumeBindingMode"),
        child(old, "volumeBindingMode"),
        "volumeBindingMode",
    );
    errors
}
