//! Defaults of storage kinds.
//!
//! # In Kubernetes
//! `pkg/apis/core/v1/defaults.go`, `pkg/apis/storage/v1/defaults.go`. Left out: volume attributes classes.

use serde_json::Value;

use super::{pod, volumes};
use crate::validation::fields::{child_mut, default_to, list, present_mut, set};

/// PersistentVolume.
pub fn persistent_volume(value: &mut Value) {
    default_to(child_mut(value, "status"), "phase", "Pending");
    let spec = child_mut(value, "spec");
    default_to(spec, "persistentVolumeReclaimPolicy", "Retain");
    default_to(spec, "volumeMode", "Filesystem");
    volumes::shared_sources(spec);
    if let Some(capacity) = present_mut(spec, "capacity") {
        pod::resource_list(capacity);
    }
}

/// PersistentVolumeClaim.
pub fn persistent_volume_claim(value: &mut Value) {
    default_to(child_mut(value, "status"), "phase", "Pending");
    claim_spec(child_mut(value, "spec"));
}

/// The spec of a claim or of an ephemeral volume's template.
pub fn claim_spec(spec: &mut Value) {
    default_to(spec, "volumeMode", "Filesystem");
    let resources = child_mut(spec, "resources");
    for name in ["limits", "requests"] {
        if let Some(list) = present_mut(resources, name) {
            pod::resource_list(list);
        }
    }
}

/// StorageClass.
pub fn storage_class(value: &mut Value) {
    default_to(value, "reclaimPolicy", "Delete");
    default_to(value, "volumeBindingMode", "Immediate");
}

/// CSIDriver.
pub fn csi_driver(value: &mut Value) {
    let spec = child_mut(value, "spec");
    default_to(spec, "attachRequired", true);
    default_to(spec, "podInfoOnMount", false);
    default_to(spec, "storageCapacity", false);
    default_to(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    default_to(spec, "requiresRepublish", false);
    default_to(spec, "seLinuxMount", false);
    if list(spec, "volumeLifecycleModes").is_empty() {
        set(spec, "volumeLifecycleModes", vec!["Persistent"]);
    }
}
