//! StorageObjectInUseProtection and PersistentVolumeClaimResize: volumes don't vanish under pods, and grow only where they can.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/storage/{storageobjectinuseprotection,persistentvolume/resize}/admission.go`.

use serde_json::json;
use stage1_kubectl::object::Object;
use stage1_kubectl::quantity::Quantity;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use crate::strategies::edit;
use crate::validation::fields::{child_mut, list_mut};

/// The plugin that adds the finalizers.
pub struct StorageObjectInUseProtection;

impl AdmissionPlugin for StorageObjectInUseProtection {
    fn name(&self) -> &'static str {
        "StorageObjectInUseProtection"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        _: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let finalizer = match attributes.resource.resource.as_str() {
            "persistentvolumes" if attributes.is("", "persistentvolumes") => "kubernetes.io/pv-protection",
            "persistentvolumeclaims" if attributes.is("", "persistentvolumeclaims") => {
                "kubernetes.io/pvc-protection"
            }
            _ => return Ok(()),
        };
        if attributes.operation == Operation::Create && !object.finalizers().contains(&finalizer) {
            edit(object, |value| list_mut(child_mut(value, "metadata"), "finalizers").push(json!(finalizer)));
        }
        Ok(())
    }
}

/// The plugin that guards growth.
pub struct PersistentVolumeClaimResize;

impl AdmissionPlugin for PersistentVolumeClaimResize {
    fn name(&self) -> &'static str {
        "PersistentVolumeClaimResize"
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let (Some(new), Some(old)) = (object, old) else { return Ok(()) };
        if !attributes.is("", "persistentvolumeclaims") || attributes.operation != Operation::Update {
            return Ok(());
        }
        let size = |claim: &Object| {
            Quantity::parse(claim.get_str("/spec/resources/requests/storage").unwrap_or("0"))
                .unwrap_or_default()
        };
        if size(new) <= size(old) {
            return Ok(());
        }
        if old.get_str("/status/phase") != Some("Bound") {
            return Err(attributes.forbidden("Only bound persistent volume claims can be expanded"));
        }
        let class = new.get_str("/spec/storageClassName").unwrap_or_default();
        let class = reader.get("storage.k8s.io", "storageclasses", "", class);
        if class.is_some_and(|class| class.get("/allowVolumeExpansion") == Some(&json!(true))) {
            return Ok(());
        }
        Err(attributes.forbidden(
            "only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize",
        ))
    }
}
