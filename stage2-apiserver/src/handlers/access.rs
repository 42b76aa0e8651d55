//! Access: how admission plugins read the cluster.
//!
//! Plugins are pure but for this: they ask for objects by resource and name, and get what the watch caches have, without
//! waiting. [`super::write_path`] makes sure beforehand that the caches know what the request depends on.
//!
//! # In Kubernetes
//! The shared informer factory that `apiserver/pkg/admission/initializer` hands to plugins.

use std::sync::Arc;

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

/// Built-in and custom objects, for parameters of policies.
pub struct WithCustoms<'a>(pub &'a ApiServer);

impl WithCustoms<'_> {
    /// The entry of a resource in any of its versions.
    fn custom(&self, group: &str, resource: &str) -> Option<&'static ResourceInfo> {
        if registry::find_group_resource(group, resource).is_some() {
            return None;
        }
        self.0.customs.find_group_resource(group, resource)
    }

    /// Fills the cache of a kind of parameters; nobody may have asked for it before.
    pub async fn settle(&self, info: &'static ResourceInfo) {
        let _ = self.0.stores.of(info).cacher().wait_for(At::Any).await;
    }
}

impl ObjectReader for WithCustoms<'_> {
    fn get(&self, group: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        let Some(info) = self.custom(group, resource) else {
            return self.0.stores.get(group, resource, namespace, name);
        };
        let cached = self.0.stores.of(info).cacher().peek(&info.key(Some(namespace), name))?;
        Some(Arc::new(cached.object.clone()))
    }

    fn list(&self, group: &str, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
        let Some(info) = self.custom(group, resource) else {
            return self.0.stores.list(group, resource, namespace);
        };
        let present = self.0.stores.of(info).cacher().present(&info.key_prefix(Some(namespace)));
        present.into_iter().map(|cached| Arc::new(cached.object.clone())).collect()
    }

    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&'static ResourceInfo> {
        registry::find_kind(group, version, kind).or_else(|| self.0.customs.find_kind(group, version, kind))
    }

    fn versions(&self, group: &str, resource: &str) -> Vec<(String, String)> {
        self.0.stores.versions(group, resource)
    }
}
