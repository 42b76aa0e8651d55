//! Resources: kinds, resources, and the URL paths that name them.
//!
//! *Step 1 of a pod's journey.* Before: [`crate::object`] knows a kind (`Deployment`). After: [`crate::client`] needs a
//! path (`/apis/apps/v1/namespaces/default/deployments`).
//!
//! A *kind* is what stands in a manifest, a *resource* is what stands in a URL. The two are different words on purpose:
//! one resource can serve several kinds (`pods/eviction` takes an `Eviction`). Going from one to the other needs
//! discovery ([`crate::rest_mapper`]), except for the types that are compiled in: [`of`] knows them.
//!
//! # Invariants
//! 1. The core group (`""`) lives under `/api`, every other one under `/apis`.
//!
//! # In Kubernetes
//! `apimachinery/pkg/runtime/schema/group_version.go` and the path building of `client-go/rest/request.go`.

use std::fmt;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

/// Group, version and kind: what a manifest names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct GroupVersionKind {
    /// The group, empty for the core group.
    pub group: String,
    /// The version, `v1`.
    pub version: String,
    /// The kind, `Deployment`.
    pub kind: String,
}

impl GroupVersionKind {
    /// From its three parts.
    pub fn new(group: &str, version: &str, kind: &str) -> Self {
        GroupVersionKind { group: group.to_string(), version: version.to_string(), kind: kind.to_string() }
    }

    /// From `apps/v1` (or `v1`) and a kind.
    pub fn from_api_version(api_version: &str, kind: &str) -> Self {
        let (group, version) = split_api_version(api_version);
        GroupVersionKind::new(group, version, kind)
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// `Deployment.apps`, or `Pod` for the core group.
    pub fn group_kind(&self) -> String {
        qualified(&self.kind, &self.group)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Kind={}", self.api_version(), self.kind)
    }
}

/// Group, version and resource: what a URL names.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct GroupVersionResource {
    /// The group, empty for the core group.
    pub group: String,
    /// The version, `v1`.
    pub version: String,
    /// The plural resource name, `deployments`.
    pub resource: String,
}

impl GroupVersionResource {
    /// From its three parts.
    pub fn new(group: &str, version: &str, resource: &str) -> Self {
        GroupVersionResource {
            group: group.to_string(),
            version: version.to_string(),
            resource: resource.to_string(),
        }
    }

    /// `apps/v1`, or `v1` for the core group.
    pub fn api_version(&self) -> String {
        join_api_version(&self.group, &self.version)
    }

    /// `deployments.apps`, or `pods` for the core group: the form of error messages.
    pub fn group_resource(&self) -> String {
        qualified(&self.resource, &self.group)
    }

    /// The URL path of the collection, of one object, or of a subresource of it.
    // ANCHOR: resource-path
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>, subresource: Option<&str>) -> String {
        let mut path = match self.group.as_str() {
            "" => format!("/api/{}", self.version),
            group => format!("/apis/{group}/{}", self.version),
        };
        if let Some(namespace) = namespace.filter(|ns| !ns.is_empty()) {
            path.push_str("/namespaces/");
            path.push_str(&encode_segment(namespace));
        }
        for segment in [Some(self.resource.as_str()), name, subresource].into_iter().flatten() {
            path.push('/');
            // A subresource may have a path of its own behind it (`proxy/metrics`).
            let segments: Vec<_> = segment.split('/').map(encode_segment).collect();
            path.push_str(&segments.join("/"));
        }
        path
    }
    // ANCHOR_END: resource-path
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, Resource={}", self.api_version(), self.resource)
    }
}

/// Everything that a client must know about a resource to use it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ApiResource {
    /// Where it lives.
    pub gvr: GroupVersionResource,
    /// The kind of its objects.
    pub kind: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// `deployment`.
    pub singular: String,
    /// `deploy`.
    pub short_names: Vec<String>,
    /// `get`, `list`, `watch`, …
    pub verbs: Vec<String>,
    /// `all`, …
    pub categories: Vec<String>,
}

impl ApiResource {
    /// The kind with group and version.
    pub fn gvk(&self) -> GroupVersionKind {
        GroupVersionKind::new(&self.gvr.group, &self.gvr.version, &self.kind)
    }

    /// As [`GroupVersionResource::path`]; the namespace is ignored for cluster-scoped resources.
    pub fn path(&self, namespace: Option<&str>, name: Option<&str>, subresource: Option<&str>) -> String {
        let namespace = namespace.filter(|_| self.namespaced);
        self.gvr.path(namespace, name, subresource)
    }

    /// Whether the server says that the resource can do `verb`.
    pub fn can(&self, verb: &str) -> bool {
        self.verbs.iter().any(|v| v == verb)
    }
}

/// A scope of k8s-openapi as a value.
pub trait Scope {
    /// Whether objects of this scope live in namespaces.
    const NAMESPACED: bool;
}

impl Scope for k8s_openapi::ClusterResourceScope {
    const NAMESPACED: bool = false;
}

impl Scope for k8s_openapi::NamespaceResourceScope {
    const NAMESPACED: bool = true;
}

/// A compiled-in API type that is its own resource (`Pod`, not `Eviction`): the bound for generic code.
pub trait ApiType: Serialize + DeserializeOwned + Clone + Send + Sync + 'static {
    /// Its resource.
    fn api_resource() -> ApiResource;
}

impl<K> ApiType for K
where
    K: k8s_openapi::Resource + Serialize + DeserializeOwned + Clone + Send + Sync + 'static,
    K::Scope: Scope,
{
    fn api_resource() -> ApiResource {
        ApiResource {
            gvr: GroupVersionResource::new(K::GROUP, K::VERSION, K::URL_PATH_SEGMENT),
            kind: K::KIND.to_string(),
            namespaced: K::Scope::NAMESPACED,
            singular: K::KIND.to_lowercase(),
            short_names: Vec::new(),
            verbs: Vec::new(),
            categories: Vec::new(),
        }
    }
}

/// The resource of a compiled-in type: `of::<Pod>()`.
pub fn of<K: ApiType>() -> ApiResource {
    K::api_resource()
}

/// `apps/v1` → (`apps`, `v1`); `v1` → (``, `v1`).
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.split_once('/').unwrap_or(("", api_version))
}

fn join_api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_string() } else { format!("{group}/{version}") }
}

fn qualified(name: &str, group: &str) -> String {
    if group.is_empty() { name.to_string() } else { format!("{name}.{group}") }
}

/// Percent-encodes one path segment: a name like `system:node` stays readable, a `/` or `?` can't change the path.
fn encode_segment(segment: &str) -> String {
    use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
    const SEGMENT: &AsciiSet = &CONTROLS
        .add(b' ')
        .add(b'"')
        .add(b'#')
        .add(b'%')
        .add(b'/')
        .add(b'<')
        .add(b'>')
        .add(b'?')
        .add(b'`')
        .add(b'{')
        .add(b'}');
    utf8_percent_encode(segment, SEGMENT).to_string()
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::{apps::v1::Deployment, core::v1::Node};

    use super::*;

    #[test]
    fn core_group_is_under_api_and_others_under_apis() {
        assert_eq!(
            of::<Node>().path(Some("x"), Some("node-1"), Some("status")),
            "/api/v1/nodes/node-1/status"
        );
        let deployments = of::<Deployment>();
        assert_eq!(
            deployments.path(Some("default"), None, None),
            "/apis/apps/v1/namespaces/default/deployments"
        );
        assert_eq!(deployments.path(None, None, None), "/apis/apps/v1/deployments");
        assert_eq!(deployments.gvr.group_resource(), "deployments.apps");
    }

    #[test]
    fn a_name_cannot_leave_its_path_segment() {
        let path = of::<Node>().path(None, Some("a?b#c"), None);
        assert_eq!(path, "/api/v1/nodes/a%3Fb%23c");
    }
}
