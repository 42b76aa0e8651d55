//! Access: how admission plugins read the cluster.
//!
//! Plugins are pure but for this: they ask for objects by resource and name, and get what the watch caches have, without
//! waiting. [`super::write_path`] makes sure beforehand that the caches know what the request depends on.
//!
//! # In Kubernetes
//! The shared informer factory that `apiserver/pkg/admission/initializer` hands to plugins.

use std::sync::Arc;
use std::time::Duration;

use stage1_kubectl::object::Object;

use crate::admission::ObjectReader;
use crate::registry::{self, ResourceInfo};
use crate::server::ApiServer;
use crate::store::Stores;
use crate::watch_cache::{At, CachedObject};

impl ObjectReader for Stores {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let info = registry::find_group_resource(group, resource)?;
        let cached = self.of(info).cacher().peek(&info.key(Some(namespace), name))?;
        Some(Arc::new(cached.object.clone()))
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
        let Some(info) = registry::find_group_resource(group, resource) else { return Vec::new() };
        let present = self.of(info).cacher().present(&info.key_prefix(Some(namespace)));
        present.into_iter().map(|cached| Arc::new(cached.object.clone())).collect()
    }

    fn versions(&self, group: &str, resource: &str) -> Vec<(String, String)> {
        let Some(info) = registry::find_group_resource(group, resource) else { return Vec::new() };
        let version =
            |cached: Arc<CachedObject>| (cached.object.name().to_owned(), cached.revision.to_string());
        self.of(info).cacher().present(&info.key_prefix(None)).into_iter().map(version).collect()
    }
}

/// How long a request waits for parameters that nobody asked for before, as in Kubernetes.
const PARAMS_TIMEOUT: Duration = Duration::from_secs(1);

/// Built-in and custom objects, for parameters of policies.
pub struct WithCustoms<'a> {
    server: &'a ApiServer,
    unfilled: Vec<&'static ResourceInfo>,
}

impl<'a> WithCustoms<'a> {
    /// Of a server.
    pub fn new(server: &'a ApiServer) -> Self {
        WithCustoms { server, unfilled: Vec::new() }
    }

    /// The entry of a resource in any of its versions.
    fn custom(&self, group: &str, resource: &str) -> Option<&'static ResourceInfo> {
        if registry::find_group_resource(group, resource).is_some() {
            return None;
        }
        self.server.customs.find_group_resource(group, resource)
    }

    /// Fills the cache of a kind of parameters; nobody may have asked for it before.
    pub async fn settle(&mut self, info: &'static ResourceInfo) {
        let cache = self.server.stores.of(info).cacher().clone();
        let filled = tokio::time::timeout(PARAMS_TIMEOUT, cache.wait_for(At::Any)).await;
        if !matches!(filled, Ok(Ok(()))) {
            self.unfilled.push(info);
        }
    }
}

impl ObjectReader for WithCustoms<'_> {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let Some(info) = self.custom(group, resource) else {
            return self.server.stores.get(group, resource, namespace, name);
        };
        let cached = self.server.stores.of(info).cacher().peek(&info.key(Some(namespace), name))?;
        Some(Arc::new(cached.object.clone()))
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
        let Some(info) = self.custom(group, resource) else {
            return self.server.stores.list(group, resource, namespace);
        };
        let present = self.server.stores.of(info).cacher().present(&info.key_prefix(Some(namespace)));
        present.into_iter().map(|cached| Arc::new(cached.object.clone())).collect()
    }

    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&'static ResourceInfo> {
        registry::find_kind(group, version, kind)
            .or_else(|| self.server.customs.find_kind(group, version, kind))
    }

    fn is_filled(&self, info: &'static ResourceInfo) -> bool {
        !self.unfilled.iter().any(|unfilled| std::ptr::eq(*unfilled, info))
    }

    fn versions(&self, group: &str, resource: &str) -> Vec<(String, String)> {
        self.server.stores.versions(group, resource)
    }
}
