//! Mounts: which volume appears where in a container.
//!
//! # In Kubernetes
//! `ValidateVolumeMounts`, `ValidateVolumeDevices`. The paths of `subPath` and `mountPropagation` have no index there, so ours have none.

use std::collections::BTreeSet;

use serde_json::Value;

use super::volumes::Volumes;
use crate::validation::fields::{at, flag, has, list, text};
use crate::validation::values::{local_descending_path, one_of_if_set};
use crate::validation::{Errors, FieldError, field, index};

/// `volumeMounts`.
pub fn volume_mounts(container: &Value, path: &str, volumes: &Volumes) -> Errors {
    let mut errors = Errors::new();
    let devices = list(container, "volumeDevices");
    let mut seen = BTreeSet::new();
    for (number, mount) in list(container, "volumeMounts").iter().enumerate() {
        let idx = index(path, number);
        let (name, mount_path) = (text(mount, "name"), text(mount, "mountPath"));
        if name.is_empty() {
            errors.push(FieldError::required(field(&idx, "name"), ""));
        }
        if !volumes.contains_key(name) {
            errors.push(FieldError::not_found(field(&idx, "name"), name));
        }
        if mount_path.is_empty() {
            errors.push(FieldError::required(field(&idx, "mountPath"), ""));
        }
        if !seen.insert(mount_path) {
            errors.push(FieldError::invalid(field(&idx, "mountPath"), mount_path, "must be unique"));
        }
        if devices.iter().any(|device| text(device, "name") == name) {
            errors.push(FieldError::invalid(
                field(&idx, "name"),
                name,
                "must not already exist in volumeDevices",
            ));
        }
        if devices.iter().any(|device| text(device, "devicePath") == mount_path) {
            let detail = "must not already exist as a path in volumeDevices";
            errors.push(FieldError::invalid(field(&idx, "mountPath"), mount_path, detail));
        }
        sub_paths(&mut errors, mount, path, &idx);
        propagation(&mut errors, container, mount, path);
    }
    errors
}

fn sub_paths(errors: &mut Errors, mount: &Value, path: &str, idx: &str) {
    let (sub_path, expression) = (text(mount, "subPath"), text(mount, "subPathExpr"));
    if !sub_path.is_empty() {
        local_descending_path(errors, sub_path, &field(path, "subPath"));
    }
    if !expression.is_empty() {
        if !sub_path.is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.push(FieldError::invalid(field(idx, "subPathExpr"), expression, detail));
        }
        local_descending_path(errors, expression, &field(path, "subPathExpr"));
    }
}

fn propagation(errors: &mut Errors, container: &Value, mount: &Value, path: &str) {
    one_of_if_set(errors, mount, "mountPropagation", path, &["Bidirectional", "HostToContainer", "None"]);
    let privileged = flag(at(container, "/securityContext"), "privileged");
    if text(mount, "mountPropagation") == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.push(FieldError::forbidden(field(path, "mountPropagation"), detail));
    }
}

/// `volumeDevices`.
pub fn volume_devices(container: &Value, path: &str, volumes: &Volumes) -> Errors {
    let mut errors = Errors::new();
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    for (number, device) in list(container, "volumeDevices").iter().enumerate() {
        let idx = index(path, number);
        let (name, device_path) = (text(device, "name"), text(device, "devicePath"));
        if name.is_empty() {
            errors.push(FieldError::required(field(&idx, "name"), ""));
        }
        if !names.insert(name) {
            errors.push(FieldError::invalid(field(&idx, "name"), name, "must be unique"));
        }
        match volumes.get(name) {
            Some(volume) if !has(volume, "persistentVolumeClaim") && !has(volume, "ephemeral") => {
                let detail =
                    "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.push(FieldError::invalid(field(&idx, "name"), name, detail));
            }
            Some(_) => {}
            None => errors.push(FieldError::not_found(field(&idx, "name"), name)),
        }
        if device_path.is_empty() {
            errors.push(FieldError::required(field(&idx, "devicePath"), ""));
        }
        if !paths.insert(device_path) {
            errors.push(FieldError::invalid(field(&idx, "devicePath"), device_path, "must be unique"));
        }
        if device_path.split('/').any(|part| part == "..") {
            let detail = "can not contain backsteps ('..')";
            errors.push(FieldError::invalid(field(&idx, "devicePath"), device_path, detail));
        }
    }
    errors
}
