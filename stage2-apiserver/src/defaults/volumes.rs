//! Defaults of volumes.
//!
//! A volume without a source is an `emptyDir`. Files of ConfigMaps, Secrets and projected volumes are 0644 (420 in JSON, which has no octal
//! numbers), and a service account token lives an hour.
//!
//! # In Kubernetes
//! `pkg/apis/core/v1/defaults.go`. Left out: nothing that 1.33 sets.

use serde_json::{Value, json};

use super::storage;
use crate::validation::fields::{default_to, items_mut, present_mut};

/// 0644.
const DEFAULT_MODE: i64 = 0o644;

/// One volume of a pod.
pub fn volume(volume: &mut Value) {
    let sourceless =
        volume.as_object().is_some_and(|fields| fields.iter().all(|(k, v)| k == "name" || v.is_null()));
    if sourceless {
        default_to(volume, "emptyDir", json!({}));
    }
    for name in ["secret", "configMap", "downwardAPI", "projected"] {
        if let Some(source) = present_mut(volume, name) {
            default_to(source, "defaultMode", DEFAULT_MODE);
        }
    }
    if let Some(source) = present_mut(volume, "downwardAPI") {
        downward_items(source);
    }
    if let Some(source) = present_mut(volume, "projected") {
        for part in items_mut(source, "sources") {
            if let Some(downward) = present_mut(part, "downwardAPI") {
                downward_items(downward);
            }
            if let Some(token) = present_mut(part, "serviceAccountToken") {
                default_to(token, "expirationSeconds", 3600);
            }
        }
    }
    if let Some(template) =
        present_mut(volume, "ephemeral").and_then(|e| present_mut(e, "volumeClaimTemplate"))
        && let Some(spec) = present_mut(template, "spec")
    {
        storage::claim_spec(spec);
    }
    shared_sources(volume);
}

fn downward_items(source: &mut Value) {
    for item in items_mut(source, "items") {
        if let Some(field) = present_mut(item, "fieldRef") {
            default_to(field, "apiVersion", "v1");
        }
        if let Some(field) = present_mut(item, "resourceFieldRef") {
            default_to(field, "divisor", "0");
        }
    }
}

/// Source → field → value, for sources that volumes and persistent volumes share.
const SHARED: &[(&str, &str, &str)] = &[
    ("hostPath", "type", ""),
    ("iscsi", "iscsiInterface", "default"),
    ("rbd", "pool", "rbd"),
    ("rbd", "user", "admin"),
    ("rbd", "keyring", "/etc/ceph/keyring"),
    ("azureDisk", "cachingMode", "ReadWrite"),
    ("azureDisk", "kind", "Shared"),
    ("azureDisk", "fsType", "ext4"),
    ("scaleIO", "storageMode", "ThinProvisioned"),
    ("scaleIO", "fsType", "xfs"),
];

/// Sources that a persistent volume may have too.
pub fn shared_sources(owner: &mut Value) {
    for (source, field, value) in SHARED {
        if let Some(source) = present_mut(owner, source) {
            default_to(source, field, *value);
        }
    }
    if let Some(disk) = present_mut(owner, "azureDisk") {
        default_to(disk, "readOnly", false);
    }
}
