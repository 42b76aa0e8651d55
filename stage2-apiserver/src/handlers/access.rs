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
use crate::registry;
use crate::store::Stores;

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
}
