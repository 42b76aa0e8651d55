//! DefaultStorageClass and DefaultIngressClass: the class that the cluster marks as default.
//!
//! # In Kubernetes
//! `plugin/pkg/admission/storage/storageclass/setdefault/admission.go`, `…/network/defaultingressclass/admission.go`. Of several default
//! storage classes the newest wins; several default ingress classes are an error.

use std::sync::Arc;

use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};

/// Marks the default storage class.
const IS_DEFAULT_STORAGE_CLASS: &str = "storageclass.kubernetes.io/is-default-class";
/// Marks the default ingress class.
const IS_DEFAULT_INGRESS_CLASS: &str = "ingressclass.kubernetes.io/is-default-class";

fn marked(reader: &dyn ObjectReader, group: &str, resource: &str, annotation: &str) -> Vec<Arc<Object>> {
    let mut classes = reader.list(group, resource, "");
    classes.retain(|class| class.annotation(annotation) == Some("true"));
    // Newest first, then by name.
    classes.sort_by(|a, b| {
        b.creation_timestamp().cmp(&a.creation_timestamp()).then_with(|| a.name().cmp(b.name()))
    });
    classes
}

/// The plugin for PersistentVolumeClaims.
pub struct DefaultStorageClass;

impl AdmissionPlugin for DefaultStorageClass {
    fn name(&self) -> &'static str {
        "DefaultStorageClass"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if !attributes.is("", "persistentvolumeclaims") || attributes.operation != Operation::Create {
            return Ok(());
        }
        let chosen = object.get("/spec/storageClassName").is_some()
            || object.annotation("volume.beta.kubernetes.io/storage-class").is_some();
        if !chosen
            && let Some(class) =
                marked(reader, "storage.k8s.io", "storageclasses", IS_DEFAULT_STORAGE_CLASS).first()
        {
            object.set("/spec/storageClassName", class.name());
        }
        Ok(())
    }
}

/// The plugin for Ingresses.
pub struct DefaultIngressClass;

impl AdmissionPlugin for DefaultIngressClass {
    fn name(&self) -> &'static str {
        "DefaultIngressClass"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        if !attributes.is("networking.k8s.io", "ingresses") || attributes.operation != Operation::Create {
            return Ok(());
        }
        let chosen = object.get("/spec/ingressClassName").is_some()
            || object.annotation("kubernetes.io/ingress.class").is_some();
        if !chosen
            && let Some(class) =
                marked(reader, "networking.k8s.io", "ingressclasses", IS_DEFAULT_INGRESS_CLASS).first()
        {
            object.set("/spec/ingressClassName", class.name());
        }
        Ok(())
    }
}
