//! NamespaceLifecycle: nothing is created in a namespace that isn't there, or that is going.
//!
//! A namespace that is being deleted is emptied by its controller; an object created meanwhile would be born only to die, or would keep the
//! namespace from ever becoming empty.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/namespace/lifecycle/admission.go`. Left out: the live lookup after a deletion (a
//! DELETE answers when our cache has it).

use stage1_kubectl::object::Object;
use stage1_kubectl::status::{Status, StatusCause};

use super::{AdmissionPlugin, Attributes, ObjectReader, Operation};

/// Namespaces that may not be deleted.
const IMMORTAL: &[&str] = &["default", "kube-system", "kube-public"];

/// The plugin.
pub struct NamespaceLifecycle;

impl NamespaceLifecycle {
    fn check(attributes: &Attributes, reader: &dyn ObjectReader) -> Result<(), Status> {
        let about_namespace = attributes.kind.group.is_empty() && attributes.kind.kind == "Namespace";
        if about_namespace {
            let immortal =
                attributes.operation == Operation::Delete && IMMORTAL.contains(&attributes.name.as_str());
            return if immortal {
                Err(attributes.forbidden("this namespace may not be deleted"))
            } else {
                Ok(())
            };
        }
        let review = attributes.resource.resource == "localsubjectaccessreviews";
        if attributes.namespace.is_empty() || attributes.operation == Operation::Delete || review {
            return Ok(());
        }
        let Some(namespace) = reader.get("", "namespaces", "", &attributes.namespace) else {
            return Err(Status::not_found("namespaces", &attributes.namespace));
        };
        if attributes.operation == Operation::Create
            && namespace.get_str("/status/phase") == Some("Terminating")
        {
            return Err(terminating(attributes));
        }
        Ok(())
    }
}

fn terminating(attributes: &Attributes) -> Status {
    let namespace = &attributes.namespace;
    let mut status = attributes.forbidden(format!(
        "unable to create new content in namespace {namespace} because it is being terminated"
    ));
    status.details.get_or_insert_default().causes.push(StatusCause {
        reason: "NamespaceTerminating".to_owned(),
        message: format!("namespace {namespace} is being terminated"),
        field: "metadata.namespace".to_owned(),
    });
    status
}

impl AdmissionPlugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn admit(
        &self,
        attributes: &Attributes,
        _: &mut Object,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        NamespaceLifecycle::check(attributes, reader)
    }

    fn validate(
        &self,
        attributes: &Attributes,
        _: Option<&Object>,
        _: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        // Deletes come only here; for the rest the namespace may have started to go since the first look.
        NamespaceLifecycle::check(attributes, reader)
    }
}
