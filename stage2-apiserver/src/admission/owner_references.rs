//! OwnerReferencesPermissionEnforcement (off by default): who may not touch an owner may not block its deletion.
//!
//! The full plugin asks the authorizer whether the user may set finalizers on the owner. Without an authorizer at hand it refuses the
//! dangerous half: a new `blockOwnerDeletion` by a user outside of `system:masters` and the system's own accounts.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/gc/gc_admission.go`. Left out: the questions to the authorizer.

use serde_json::Value;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader};
use crate::validation::fields::{child, flag, list, text};

/// The plugin.
pub struct OwnerReferencesPermissionEnforcement;

impl AdmissionPlugin for OwnerReferencesPermissionEnforcement {
    fn name(&self) -> &'static str {
        "OwnerReferencesPermissionEnforcement"
    }

    fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        old: Option<&Object>,
        _: &dyn ObjectReader,
    ) -> Result<(), Status> {
        let Some(object) = object else { return Ok(()) };
        let trusted = attributes.user.name.starts_with("system:")
            || attributes.user.groups.iter().any(|g| g == "system:masters");
        let known = old.map(|old| blocking(old.as_value())).unwrap_or_default();
        let added = blocking(object.as_value()).iter().any(|uid| !known.contains(uid));
        if added && !trusted {
            return Err(attributes.forbidden(
                "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on: , <nil>",
            ));
        }
        Ok(())
    }
}

fn blocking(object: &Value) -> Vec<&str> {
    let references = list(child(object, "metadata"), "ownerReferences").iter();
    references
        .filter(|reference| flag(reference, "blockOwnerDeletion"))
        .map(|reference| text(reference, "uid"))
        .collect()
}
