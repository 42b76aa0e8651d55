//! The registry: the one table of the kinds that this API server serves.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::request_info`] split the path into group, version, resource and
//! name. After: [`crate::handlers`] run the verb on what the table's entry says.
//!
//! Kubernetes spreads what is known about a resource over a dozen files: install.go, storage.go, strategy.go, the
//! discovery documents and the REST mapper of every client. Here an entry is one expression, and everything that
//! is generic (routing, discovery, storage keys, OpenAPI, the garbage collector's view of the world) reads
//! it. Adding a built-in kind is adding an entry, plus a strategy where the kind has rules of its own.
//!
//! Custom kinds have entries of the same form, made when their definitions are established ([`crate::custom_resources`]); a [`Catalog`]
//! is both together.
//!
//! The subtle thing: *resource*, *kind* and *storage* are three coordinates. `events` exists in two groups but is
//! stored once; `horizontalpodautoscalers` exists in two versions of one group and is stored as `v2`; a
//! `Scale` is served at `deployments/scale` but stored nowhere.
//!
//! # Invariants
//! 1. (group, version, resource) and (group, version, kind) are both unique.
//! 2. Two entries share a storage prefix only if they are two views of the same objects.
//! 3. The order of the groups is the order of their priority in discovery.
//!
//! # In Kubernetes
//! `pkg/registry/*/rest/storage_*.go`, `pkg/controlplane/instance.go`. Left out: alpha and beta groups (off by default
//! there too), `resource.k8s.io`, internal (hub) types and generated conversion.

mod core;
mod policies;
mod workloads;

use std::fmt;
use std::sync::Arc;

use arc_swap::ArcSwapOption;
use stage1_kubectl::resource::{GroupVersionKind, GroupVersionResource};

use crate::custom_resources::CustomKind;
use crate::custom_resources::definition::compare_versions;

/// Every verb that a plain stored kind has, sorted as discovery prints them.
pub const ALL_VERBS: &[&str] =
    &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
/// The verbs of `/status` and `/scale`.
pub const GET_PATCH_UPDATE: &[&str] = &["get", "patch", "update"];
/// The verb of kinds that are questions rather than objects (`SubjectAccessReview`) and of `bindings`.
pub const CREATE: &[&str] = &["create"];
/// The verbs of `…/proxy` and of the streaming subresources that accept GET and POST.
pub const PROXY_VERBS: &[&str] = &["create", "delete", "get", "patch", "update"];
/// The verbs of `exec`, `attach` and `portforward`.
pub const CONNECT_VERBS: &[&str] = &["create", "get"];

// ANCHOR: resource-info
/// One served resource: how it is called, what can be done with it, where it is kept.
#[derive(Debug, PartialEq, Eq)]
pub struct ResourceInfo {
    /// API group, `""` for core.
    pub group: &'static str,
    /// Version that this entry serves.
    pub version: &'static str,
    /// Plural name in URLs, `pods`.
    pub resource: &'static str,
    /// Singular name, `pod`.
    pub singular: &'static str,
    /// Kind of one object, `Pod`.
    pub kind: &'static str,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Names that kubectl accepts too, `po`.
    pub short_names: &'static [&'static str],
    /// Groups of resources that kubectl knows by one word, `all`.
    pub categories: &'static [&'static str],
    /// Verbs of the resource itself, sorted.
    pub verbs: &'static [&'static str],
    /// What can be done below an object's name.
    pub subresources: &'static [Subresource],
    /// Where objects are kept; `None` for kinds that are answered and forgotten.
    pub storage: Option<StorageInfo>,
    /// What a custom kind has besides; `None` for built-in ones.
    pub custom: Option<&'static Custom>,
}

/// The part of a custom kind's entry that its definition may change.
pub struct Custom {
    /// Kind of a list of objects.
    pub list_kind: &'static str,
    /// The kind as it was last defined.
    pub current: ArcSwapOption<CustomKind>,
}

/// A path below an object's name: `pods/web/status`.
#[derive(Debug, PartialEq, Eq)]
pub struct Subresource {
    /// Last part of the path, `status`.
    pub name: &'static str,
    /// Group and version of what it accepts and returns, when they are not the resource's own.
    pub group_version: Option<(&'static str, &'static str)>,
    /// Kind of what it accepts and returns; `None`: the resource's own kind.
    pub kind: Option<&'static str>,
    /// Verbs, sorted.
    pub verbs: &'static [&'static str],
}

/// Where and as which version the objects of a resource are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct StorageInfo {
    /// Key prefix without a trailing slash, `/registry/pods`.
    pub prefix: &'static str,
    /// Group of the stored form.
    pub group: &'static str,
    /// Version of the stored form.
    pub version: &'static str,
}
// ANCHOR_END: resource-info

impl ResourceInfo {
    /// An entry with all verbs whose objects live in namespaces, stored at `prefix`.
    pub const fn namespaced(
        group: &'static str,
        version: &'static str,
        resource: &'static str,
        singular: &'static str,
        kind: &'static str,
        prefix: &'static str,
    ) -> Self {
        let storage = Some(StorageInfo { prefix, group, version });
        Self {
            group,
            version,
            resource,
            singular,
            kind,
            namespaced: true,
            short_names: &[],
            categories: &[],
            verbs: ALL_VERBS,
            subresources: &[],
            storage,
            custom: None,
        }
    }

    /// An entry with all verbs whose objects are cluster-wide, stored at `prefix`.
    pub const fn cluster(
        group: &'static str,
        version: &'static str,
        resource: &'static str,
        singular: &'static str,
        kind: &'static str,
        prefix: &'static str,
    ) -> Self {
        let mut info = Self::namespaced(group, version, resource, singular, kind, prefix);
        info.namespaced = false;
        info
    }

    /// Adds short names.
    pub const fn short(mut self, names: &'static [&'static str]) -> Self {
        self.short_names = names;
        self
    }

    /// Adds categories.
    pub const fn categories(mut self, names: &'static [&'static str]) -> Self {
        self.categories = names;
        self
    }

    /// Replaces the verbs.
    pub const fn verbs(mut self, verbs: &'static [&'static str]) -> Self {
        self.verbs = verbs;
        self
    }

    /// Adds subresources.
    pub const fn sub(mut self, subresources: &'static [Subresource]) -> Self {
        self.subresources = subresources;
        self
    }

    /// Stores objects as another group or version than the served one.
    pub const fn stored_as(mut self, group: &'static str, version: &'static str) -> Self {
        let prefix = self.storage.expect("stored_as is for stored kinds").prefix;
        self.storage = Some(StorageInfo { prefix, group, version });
        self
    }

    /// Answers requests without keeping anything.
    pub const fn virtual_kind(mut self) -> Self {
        self.storage = None;
        self
    }

    /// Group, version and kind of one object.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(self.group, self.version, self.kind)
    }

    /// Group, version and plural name.
    pub fn gvr(&self) -> GroupVersionResource {
        GroupVersionResource::new(self.group, self.version, self.resource)
    }

    /// `apps/v1`, or `v1` for core.
    pub fn group_version(&self) -> String {
        if self.group.is_empty() { self.version.into() } else { format!("{}/{}", self.group, self.version) }
    }

    /// `deployments.apps`, or `pods` for core: how errors name a resource.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.resource.into() } else { format!("{}.{}", self.resource, self.group) }
    }

    /// `Deployment.apps`, or `Pod` for core: how the Invalid error names a kind.
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() { self.kind.into() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// Kind of a list of objects.
    pub fn list_kind(&self) -> String {
        self.custom.map_or_else(|| format!("{}List", self.kind), |custom| custom.list_kind.to_owned())
    }

    /// The rules of a custom kind as they are now; `None` for built-in kinds.
    pub fn custom_kind(&self) -> Option<Arc<CustomKind>> {
        self.custom?.current.load_full()
    }

    /// apiVersion of the stored form.
    pub fn storage_api_version(&self) -> String {
        let s = self.storage.expect("only asked for stored kinds");
        if s.group.is_empty() { s.version.into() } else { format!("{}/{}", s.group, s.version) }
    }

    /// The storage key of one object: `/registry/pods/default/web`.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> String {
        format!("{}{name}", self.key_prefix(namespace))
    }

    /// The prefix of all objects, or of those in one namespace; ends in a slash.
    pub fn key_prefix(&self, namespace: Option<&str>) -> String {
        let prefix = self.storage.map_or("/virtual", |s| s.prefix);
        match namespace {
            Some(ns) if self.namespaced && !ns.is_empty() => format!("{prefix}/{ns}/"),
            _ => format!("{prefix}/"),
        }
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&'static Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }
}

impl PartialEq for Custom {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Custom {}

impl fmt::Debug for Custom {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Custom").field("list_kind", &self.list_kind).finish_non_exhaustive()
    }
}

impl Subresource {
    /// A subresource that returns the resource's own kind.
    pub const fn own(name: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { name, group_version: None, kind: None, verbs }
    }

    /// A subresource with a kind of the resource's own group and version.
    pub const fn kind(name: &'static str, kind: &'static str, verbs: &'static [&'static str]) -> Self {
        Self { name, group_version: None, kind: Some(kind), verbs }
    }

    /// A subresource with a kind of another group.
    pub const fn foreign(
        name: &'static str,
        group: &'static str,
        version: &'static str,
        kind: &'static str,
        verbs: &'static [&'static str],
    ) -> Self {
        Self { name, group_version: Some((group, version)), kind: Some(kind), verbs }
    }
}

/// `/status`, which most kinds have.
pub const STATUS: Subresource = Subresource::own("status", GET_PATCH_UPDATE);
/// `/scale`, which workloads with replicas have.
pub const SCALE: Subresource = Subresource::foreign("scale", "autoscaling", "v1", "Scale", GET_PATCH_UPDATE);

/// All entries, groups in discovery order, resources sorted within a version.
pub fn all() -> impl Iterator<Item = &'static ResourceInfo> {
    core::RESOURCES.iter().chain(workloads::RESOURCES).chain(policies::RESOURCES)
}

/// Groups in the order in which `/apis` lists them (core is not among them).
pub const GROUP_ORDER: &[&str] = &[
    "apiregistration.k8s.io",
    "apps",
    "events.k8s.io",
    "authentication.k8s.io",
    "authorization.k8s.io",
    "autoscaling",
    "batch",
    "certificates.k8s.io",
    "networking.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "storage.k8s.io",
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "scheduling.k8s.io",
    "coordination.k8s.io",
    "node.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
];

/// What is served at a moment: the built-in entries and those of custom kinds.
#[derive(Default)]
pub struct Catalog {
    customs: Vec<&'static ResourceInfo>,
}

impl Catalog {
    /// With custom entries, the versions of a group in the order of their priority.
    pub fn with(customs: Vec<&'static ResourceInfo>) -> Self {
        Catalog { customs }
    }

    /// All entries.
    pub fn all(&self) -> impl Iterator<Item = &'static ResourceInfo> + '_ {
        all().chain(self.customs.iter().copied())
    }

    /// The custom entries.
    pub fn customs(&self) -> &[&'static ResourceInfo] {
        &self.customs
    }

    /// Groups in the order in which `/apis` lists them: built-in ones, then custom ones by name.
    pub fn groups(&self) -> Vec<&'static str> {
        let mut more: Vec<&'static str> = self.customs.iter().map(|info| info.group).collect();
        more.retain(|group| !GROUP_ORDER.contains(group));
        more.sort_unstable();
        more.dedup();
        GROUP_ORDER.iter().copied().chain(more).collect()
    }

    /// The versions of a group, preferred one first; empty for an unknown group.
    pub fn versions(&self, group: &str) -> Vec<&'static str> {
        let mut found = versions(group);
        let mut more: Vec<&'static str> = Vec::new();
        for info in self.customs.iter().filter(|info| info.group == group) {
            if !found.contains(&info.version) && !more.contains(&info.version) {
                more.push(info.version);
            }
        }
        more.sort_by(|a, b| compare_versions(b, a));
        found.extend(more);
        found
    }
}

/// The versions of a built-in group, preferred one first; empty for an unknown group.
pub fn versions(group: &str) -> Vec<&'static str> {
    let mut found: Vec<&'static str> = Vec::new();
    for info in all().filter(|i| i.group == group) {
        if !found.contains(&info.version) {
            found.push(info.version);
        }
    }
    found
}

/// The entry of a path's group, version and plural name.
pub fn find(group: &str, version: &str, resource: &str) -> Option<&'static ResourceInfo> {
    all().find(|i| i.resource == resource && i.group == group && i.version == version)
}

/// The entry of a group and plural name, in the group's preferred version.
pub fn find_group_resource(group: &str, resource: &str) -> Option<&'static ResourceInfo> {
    all().find(|i| i.resource == resource && i.group == group)
}

/// The entry of a kind, in the version named or (empty version) the preferred one.
pub fn find_kind(group: &str, version: &str, kind: &str) -> Option<&'static ResourceInfo> {
    all().find(|i| i.kind == kind && i.group == group && (version.is_empty() || i.version == version))
}

#[cfg(test)]
mod tests;
