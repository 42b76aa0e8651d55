//! Admission: what the cluster's policy adds to an object, or refuses.
//!
//! *Step 3 of a pod's journey through the API server.* Before: [`crate::defaults`] filled the object. After: [`crate::strategies`]
//! prepares it.
//!
//! Validation knows only the object. Admission knows the cluster: is the namespace there, does the service account exist, how much may
//! this namespace use? First every plugin may change the object, then every plugin may refuse it, so that no plugin judges
//! a half-changed object. Plugins read through the watch caches and are otherwise pure: time, randomness and user are in [`Attributes`].
//!
//! The subtle thing is the quota. It must count what it lets in *before* it is stored, or two requests at once both fit; it is therefore the
//! last plugin, and the only one that writes.
//!
//! # Invariants
//! 1. No plugin changes an object after validation has begun.
//! 2. The order of the plugins is fixed and is Kubernetes'.
//!
//! # In Kubernetes
//! `pkg/kubeapiserver/options/plugins.go` (the order), `plugin/pkg/admission/*`. Programs outside ([`webhook`]) are asked after
//! all plugins and the expressions of [`policy`]. Left out: MutatingAdmissionPolicy (alpha), EventRateLimit, ImagePolicyWebhook, PodNodeSelector and others that are off by default.

pub mod always_pull_images;
pub mod certificates;
pub mod default_classes;
pub mod default_toleration_seconds;
pub mod limit_ranger;
pub mod namespace_lifecycle;
pub mod node_restriction;
pub mod owner_references;
pub mod pod_security;
pub mod policy;
pub mod priority;
pub mod resource_quota;
pub mod runtime_class;
pub mod service_account;
pub mod storage_protection;
pub mod taint_nodes_by_condition;
pub mod webhook;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use jiff::Timestamp;
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::{GroupVersionKind, GroupVersionResource};
use stage1_kubectl::status::Status;

use crate::registry::{self, ResourceInfo};
use crate::strategies::Requester;

/// What the request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// POST of a new object, or of a subresource such as `binding`.
    Create,
    /// PUT or PATCH.
    Update,
    /// DELETE.
    Delete,
    /// `exec`, `attach`, `portforward`, `proxy`.
    Connect,
}

/// What a plugin knows of the request.
#[derive(Clone, Debug)]
pub struct Attributes {
    /// What it does.
    pub operation: Operation,
    /// `pods`.
    pub resource: GroupVersionResource,
    /// `""`, `status`, `binding` …
    pub subresource: String,
    /// Kind of the object.
    pub kind: GroupVersionKind,
    /// `""` for objects outside of namespaces.
    pub namespace: String,
    /// Name in the URL, or of the object; `""` before a name is generated.
    pub name: String,
    /// Who asks.
    pub user: Requester,
    /// Nothing will be stored.
    pub dry_run: bool,
    /// When.
    pub now: Timestamp,
    /// Randomness for generated names.
    pub random: u64,
}

impl Attributes {
    /// The request is about this resource itself, not a part of it.
    pub fn is(&self, group: &str, resource: &str) -> bool {
        self.resource.group == group && self.resource.resource == resource && self.subresource.is_empty()
    }

    /// A pod itself.
    pub fn is_pod(&self) -> bool {
        self.is("", "pods")
    }

    /// 403 with the object in Kubernetes' words.
    pub fn forbidden(&self, why: impl AsRef<str>) -> Status {
        Status::forbidden(&self.resource.group_resource(), &self.name, why.as_ref())
    }
}

/// How plugins read the cluster: the watch caches.
pub trait ObjectReader: Send + Sync {
    /// One object; `resource` is plural. Namespace `""` for objects outside of namespaces.
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>>;
    /// All objects of a resource, of one namespace if it isn't `""`.
    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Object>>;
    /// The entry of a kind.
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&'static ResourceInfo> {
        registry::find_kind(group, version, kind)
    }
    /// Whether all of a resource's objects are known; otherwise one that isn't found may yet be there.
    fn is_filled(&self, _info: &'static ResourceInfo) -> bool {
        true
    }
    /// Names and resourceVersions of all objects of a resource: whether what was read of them is still so.
    fn versions(&self, group: &str, resource: &str) -> Vec<(String, String)> {
        let version = |object: &Arc<Object>| (object.name().to_owned(), object.resource_version().to_owned());
        self.list(group, resource, "").iter().map(version).collect()
    }
}

/// One plugin.
pub trait AdmissionPlugin: Send + Sync {
    /// Kubernetes' name for it, as in `--enable-admission-plugins`.
    fn name(&self) -> &'static str;

    /// May change the object.
    ///
    /// # Errors
    /// The refusal.
    fn admit(
        &self,
        _: &Attributes,
        _: &mut Object,
        _: Option<&Object>,
        _: &dyn ObjectReader,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// May refuse the object as it will be stored. `object` is `None` for DELETE and CONNECT.
    ///
    /// # Errors
    /// The refusal.
    fn validate(
        &self,
        _: &Attributes,
        _: Option<&Object>,
        _: Option<&Object>,
        _: &dyn ObjectReader,
    ) -> Result<(), Status> {
        Ok(())
    }

    /// Warnings for an object that is let in.
    fn warnings(&self, _: &Attributes, _: &Object, _: Option<&Object>, _: &dyn ObjectReader) -> Vec<String> {
        Vec::new()
    }
}

/// The plugins in their order.
pub struct Chain {
    plugins: Vec<Box<dyn AdmissionPlugin>>,
}

impl Chain {
    /// The plugins that are on by default, in Kubernetes' order.
    pub fn recommended() -> Self {
        Chain::with(&[], &[])
    }

    /// The default plugins, with some more switched on or off by name.
    pub fn with(enable: &[String], disable: &[String]) -> Self {
        let wanted = |name: &str, by_default: bool| {
            (by_default || enable.iter().any(|n| n == name)) && !disable.iter().any(|n| n == name)
        };
        let plugins =
            all().into_iter().filter(|(plugin, on)| wanted(plugin.name(), *on)).map(|(plugin, _)| plugin);
        Chain { plugins: plugins.collect() }
    }

    /// Names of the active plugins.
    pub fn names(&self) -> Vec<&'static str> {
        self.plugins.iter().map(|plugin| plugin.name()).collect()
    }

    /// Lets every plugin change the object.
    ///
    /// # Errors
    /// The first refusal.
    pub fn admit(
        &self,
        attributes: &Attributes,
        object: &mut Object,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<(), Status> {
        self.plugins.iter().try_for_each(|plugin| plugin.admit(attributes, object, old, reader))
    }

    /// Lets every plugin refuse; the answer is the warnings.
    ///
    /// # Errors
    /// The first refusal.
    pub fn validate(
        &self,
        attributes: &Attributes,
        object: Option<&Object>,
        old: Option<&Object>,
        reader: &dyn ObjectReader,
    ) -> Result<Vec<String>, Status> {
        let mut warnings = Vec::new();
        for plugin in &self.plugins {
            plugin.validate(attributes, object, old, reader)?;
            if let Some(object) = object {
                warnings.extend(plugin.warnings(attributes, object, old, reader));
            }
        }
        Ok(warnings)
    }
}

/// Every plugin in Kubernetes' order, and whether it is on by default. The quota comes after all of
/// them, see [`resource_quota::reserve`].
fn all() -> Vec<(Box<dyn AdmissionPlugin>, bool)> {
    vec![
        (Box::new(namespace_lifecycle::NamespaceLifecycle), true),
        (Box::new(limit_ranger::LimitRanger), true),
        (Box::new(service_account::ServiceAccount), true),
        (Box::new(node_restriction::NodeRestriction), true),
        (Box::new(taint_nodes_by_condition::TaintNodesByCondition), true),
        (Box::new(always_pull_images::AlwaysPullImages), false),
        (Box::new(pod_security::PodSecurity), true),
        (Box::new(priority::Priority), true),
        (Box::new(default_toleration_seconds::DefaultTolerationSeconds), true),
        (Box::new(default_classes::DefaultStorageClass), true),
        (Box::new(storage_protection::StorageObjectInUseProtection), true),
        (Box::new(owner_references::OwnerReferencesPermissionEnforcement), false),
        (Box::new(storage_protection::PersistentVolumeClaimResize), true),
        (Box::new(runtime_class::RuntimeClass), true),
        (Box::new(certificates::CertificateSubjectRestriction), true),
        (Box::new(default_classes::DefaultIngressClass), true),
    ]
}
