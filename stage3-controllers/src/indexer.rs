//! Indexer: a local copy of one kind of object, with indices that follow each change.
//!
//! *Step 3 of a pod's journey.* Before: [`crate::reflector`] heard of a change. After: [`crate::informer`] tells everyone who subscribed.
//!
//! A controller asks the same few questions again and again: the pods of this ReplicaSet, the pods on this
//! node, the Services of this namespace. Asking the API server each time would drown it, and scanning all pods
//! for each question would make the cost of one event grow with the cluster. So each question is an *index*: a
//! function from an object to the values it is found under, kept up to date as objects come and go.
//!
//! The subtle thing is the update: an object that moves (a pod gets its node) must leave its old index
//! values. The indexer still holds the old object, computes the old values from it, and removes exactly those.
//!
//! # Invariants
//! 1. An object is found under index value `v` exactly when the index function returns `v` for its newest version.
//! 2. A change costs time in the number of that object's index values, never in the number of objects.
//! 3. `resource_version` never goes back, except by a replacement of everything.
//!
//! # In Kubernetes
//! `client-go/tools/cache/thread_safe_store.go`. Left out: index functions that fail.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};

/// Namespace and name of an object; the namespace is empty for cluster-scoped kinds. Prints as `ns/name` or `name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct NamespacedName {
    /// Namespace, empty for cluster-scoped kinds.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
}

impl NamespacedName {
    /// The key of a namespaced object (or of a cluster-scoped one when `namespace` is empty).
    pub fn new(namespace: impl Into<String>, name: impl Into<String>) -> NamespacedName {
        NamespacedName { namespace: namespace.into(), name: name.into() }
    }

    /// The key of a cluster-scoped object.
    pub fn cluster(name: impl Into<String>) -> NamespacedName {
        NamespacedName { namespace: String::new(), name: name.into() }
    }
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.namespace.is_empty() {
            f.write_str(&self.name)
        } else {
            write!(f, "{}/{}", self.namespace, self.name)
        }
    }
}

/// What the caches need to know of an object: its metadata. Implemented for every k8s-openapi kind.
pub trait Cached: Clone + Send + Sync + 'static {
    /// The object's metadata.
    fn meta(&self) -> &ObjectMeta;
    /// Forgets who wrote which field: a large part of an object, and no component asks its copy for it.
    fn forget_managers(&mut self);

    /// Namespace and name.
    fn key(&self) -> NamespacedName {
        let meta = self.meta();
        NamespacedName {
            namespace: meta.namespace.clone().unwrap_or_default(),
            name: meta.name.clone().unwrap_or_default(),
        }
    }
    /// Name of the object.
    fn object_name(&self) -> &str {
        self.meta().name.as_deref().unwrap_or_default()
    }
    /// Namespace, empty for cluster-scoped objects.
    fn object_namespace(&self) -> &str {
        self.meta().namespace.as_deref().unwrap_or_default()
    }
    /// Unique id that the API server gave the object.
    fn uid(&self) -> &str {
        self.meta().uid.as_deref().unwrap_or_default()
    }
    /// A label's value.
    fn label(&self, key: &str) -> Option<&str> {
        self.meta().labels.as_ref()?.get(key).map(String::as_str)
    }
    /// An annotation's value.
    fn annotation(&self, key: &str) -> Option<&str> {
        self.meta().annotations.as_ref()?.get(key).map(String::as_str)
    }
    /// Whether somebody asked for the deletion of this object.
    fn is_being_deleted(&self) -> bool {
        self.meta().deletion_timestamp.is_some()
    }
    /// When the object was created.
    fn created(&self) -> Option<&Time> {
        self.meta().creation_timestamp.as_ref()
    }
    /// Revision of the store at which this version was written; 0 when unknown.
    fn revision(&self) -> u64 {
        self.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or(0)
    }
}

impl<K> Cached for K
where
    K: k8s_openapi::Metadata<Ty = ObjectMeta> + Clone + Send + Sync + 'static,
{
    fn meta(&self) -> &ObjectMeta {
        self.metadata()
    }

    fn forget_managers(&mut self) {
        self.metadata_mut().managed_fields = None;
    }
}

/// Computes the values under which an object is found in one index.
pub type IndexFunction<K> = Arc<dyn Fn(&K) -> Vec<String> + Send + Sync>;

struct Index<K> {
    values_of: IndexFunction<K>,
    entries: HashMap<String, BTreeSet<NamespacedName>>,
}

impl<K> Index<K> {
    fn insert(&mut self, key: &NamespacedName, object: &K) {
        for value in (self.values_of)(object) {
            self.entries.entry(value).or_default().insert(key.clone());
        }
    }

    fn remove(&mut self, key: &NamespacedName, object: &K) {
        for value in (self.values_of)(object) {
            if let Some(keys) = self.entries.get_mut(&value) {
                keys.remove(key);
                if keys.is_empty() {
                    self.entries.remove(&value);
                }
            }
        }
    }
}

/// Name of the index by namespace that every indexer has.
pub const NAMESPACE_INDEX: &str = "namespace";

/// Objects of one kind, by key and by index.
pub struct Indexer<K> {
    objects: HashMap<NamespacedName, Arc<K>>,
    indices: HashMap<&'static str, Index<K>>,
    resource_version: u64,
}

impl<K: Cached> Default for Indexer<K> {
    fn default() -> Self {
        let mut indexer = Indexer { objects: HashMap::new(), indices: HashMap::new(), resource_version: 0 };
        indexer.add_index(NAMESPACE_INDEX, Arc::new(|object: &K| vec![object.object_namespace().to_owned()]));
        indexer
    }
}

// ANCHOR: indexer
impl<K: Cached> Indexer<K> {
    /// Adds an index; a second index of the same name is the same index.
    pub fn add_index(&mut self, name: &'static str, values_of: IndexFunction<K>) {
        if self.indices.contains_key(name) {
            return;
        }
        let mut index = Index { values_of, entries: HashMap::new() };
        for (key, object) in &self.objects {
            index.insert(key, object);
        }
        self.indices.insert(name, index);
    }

    /// Puts the newest version of an object in; returns the version that it replaces.
    pub fn upsert(&mut self, object: Arc<K>) -> Option<Arc<K>> {
        let key = object.key();
        self.resource_version = self.resource_version.max(object.revision());
        let old = self.objects.insert(key.clone(), object.clone());
        for index in self.indices.values_mut() {
            if let Some(old) = &old {
                index.remove(&key, old);
            }
            index.insert(&key, &object);
        }
        old
    }

    /// Takes an object out; returns the last version known.
    pub fn remove(&mut self, key: &NamespacedName, at: u64) -> Option<Arc<K>> {
        self.resource_version = self.resource_version.max(at);
        let old = self.objects.remove(key)?;
        for index in self.indices.values_mut() {
            index.remove(key, &old);
        }
        Some(old)
    }
}
// ANCHOR_END: indexer

impl<K: Cached> Indexer<K> {
    /// The object with this key.
    pub fn get(&self, key: &NamespacedName) -> Option<Arc<K>> {
        self.objects.get(key).cloned()
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.objects.values().cloned().collect()
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Vec<NamespacedName> {
        self.objects.keys().cloned().collect()
    }

    /// The objects under `value` of the index `name`, by key. An index that was never added is empty.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<K>> {
        let Some(keys) = self.indices.get(name).and_then(|index| index.entries.get(value)) else {
            return Vec::new();
        };
        keys.iter().filter_map(|key| self.objects.get(key).cloned()).collect()
    }

    /// How many objects stand under `value` of the index `name`.
    pub fn count(&self, name: &str, value: &str) -> usize {
        self.indices.get(name).and_then(|index| index.entries.get(value)).map_or(0, BTreeSet::len)
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The newest revision that this copy reflects.
    pub fn resource_version(&self) -> u64 {
        self.resource_version
    }

    /// Notes that the copy reflects the store up to this revision (a bookmark, or a complete list).
    pub fn advance(&mut self, revision: u64) {
        self.resource_version = self.resource_version.max(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::{Pod, PodSpec};

    fn pod(name: &str, node: &str, version: u64) -> Arc<Pod> {
        Arc::new(Pod {
            metadata: ObjectMeta {
                namespace: Some("default".into()),
                name: Some(name.into()),
                resource_version: Some(version.to_string()),
                ..Default::default()
            },
            spec: Some(PodSpec { node_name: Some(node.into()), ..Default::default() }),
            ..Default::default()
        })
    }

    fn by_node() -> IndexFunction<Pod> {
        Arc::new(|pod: &Pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect())
    }

    #[test]
    fn a_moved_object_leaves_its_old_index_value() {
        let mut indexer = Indexer::default();
        indexer.add_index("node", by_node());
        indexer.upsert(pod("a", "n1", 1));
        indexer.upsert(pod("a", "n2", 2));
        assert_eq!(indexer.count("node", "n1"), 0);
        assert_eq!(indexer.by_index("node", "n2").len(), 1);
        indexer.remove(&NamespacedName::new("default", "a"), 3);
        assert_eq!(indexer.count("node", "n2"), 0);
        assert_eq!(indexer.resource_version(), 3);
    }

    #[test]
    fn an_index_added_late_covers_what_is_there() {
        let mut indexer = Indexer::default();
        indexer.upsert(pod("a", "n1", 1));
        indexer.add_index("node", by_node());
        assert_eq!(indexer.count("node", "n1"), 1);
        assert_eq!(indexer.count(NAMESPACE_INDEX, "default"), 1);
    }
}
