//! Informer factory: the copies of one process, each kind once, started on first use.
//!
//! A controller asks for `factory.store::<Pod>()`. The first to ask starts the watch, later ones share it: a controller
//! manager with few controllers watches few kinds. An *offline* factory starts nothing; tests fill its stores by
//! hand, so a controller's `observe` runs in a simulation as it runs in a cluster.
//!
//! # Invariants
//! 1. There is one store for a kind, however many ask, and one watch.
//!
//! # In Kubernetes
//! `client-go/informers/factory.go`. Left out: namespaced factories.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use serde_json::Value;
use stage1_kubectl::client::Client;
use tokio_util::sync::CancellationToken;

use super::{Store, list_watch};
use crate::expectations::Copies;
use crate::indexer::{Cached, NamespacedName};
use crate::reflector::Delta;

/// A kind that can be watched: a typed, listable Kubernetes kind.
pub trait Watched: Cached + k8s_openapi::Resource + DeserializeOwned {}
impl<K: Cached + k8s_openapi::Resource + DeserializeOwned> Watched for K {}

/// What the factory must know of a store without knowing its kind.
trait AnyStore: Send + Sync {
    fn as_any(&self) -> &dyn Any;
    fn resource_version(&self) -> u64;
    fn has_synced(&self) -> bool;
    fn shows_alive(&self, key: &NamespacedName, uid: &str) -> bool;
    fn replace(&self, objects: &[Value], resource_version: &str);
}

impl<K: Watched> AnyStore for Store<K> {
    fn as_any(&self) -> &dyn Any {
        self
    }
    fn resource_version(&self) -> u64 {
        Store::resource_version(self)
    }
    fn has_synced(&self) -> bool {
        Store::has_synced(self)
    }
    fn shows_alive(&self, key: &NamespacedName, uid: &str) -> bool {
        self.get(key).is_some_and(|object| object.uid() == uid && !object.is_being_deleted())
    }
    fn replace(&self, objects: &[Value], resource_version: &str) {
        let decode = |value: &Value| {
            K::deserialize(value).map(Arc::new).expect("the simulation holds objects of the right kind")
        };
        self.apply(Delta::Replace(objects.iter().map(decode).collect(), resource_version.to_owned()));
    }
}

struct Entry {
    kind: &'static str,
    resource: &'static str,
    store: Arc<dyn AnyStore>,
}

struct Inner {
    client: Option<Client>,
    shutdown: CancellationToken,
    entries: Mutex<HashMap<TypeId, Entry>>,
}

/// Hands out the shared store of each kind. Cheap to clone.
#[derive(Clone)]
pub struct InformerFactory {
    inner: Arc<Inner>,
}

impl InformerFactory {
    /// Stores that are filled by watches through this client, until `shutdown`.
    pub fn new(client: Client, shutdown: CancellationToken) -> InformerFactory {
        InformerFactory {
            inner: Arc::new(Inner { client: Some(client), shutdown, entries: Mutex::default() }),
        }
    }

    /// Stores that nobody fills but [`InformerFactory::replace`].
    pub fn offline() -> InformerFactory {
        InformerFactory {
            inner: Arc::new(Inner {
                client: None,
                shutdown: CancellationToken::new(),
                entries: Mutex::default(),
            }),
        }
    }

    /// The shared store of kind `K`; the first call starts its watch.
    pub fn store<K: Watched>(&self) -> Store<K> {
        let mut entries = self.inner.entries.lock();
        if let Some(store) =
            entries.get(&TypeId::of::<K>()).and_then(|entry| entry.store.as_any().downcast_ref::<Store<K>>())
        {
            return store.clone();
        }
        let store = Store::<K>::new();
        let entry = Entry { kind: K::KIND, resource: K::URL_PATH_SEGMENT, store: Arc::new(store.clone()) };
        entries.insert(TypeId::of::<K>(), entry);
        if let Some(client) = &self.inner.client {
            let path = list_watch::path_of::<K>();
            tokio::spawn(list_watch::run(
                client.clone(),
                path,
                String::new(),
                store.clone(),
                self.inner.shutdown.clone(),
            ));
        }
        store
    }

    /// Waits until every store that was asked for holds its first complete list.
    pub async fn wait_for_sync(&self) {
        loop {
            if self.not_synced().is_empty() {
                return;
            }
            tokio::select! {
                () = tokio::time::sleep(Duration::from_millis(20)) => {}
                () = self.inner.shutdown.cancelled() => return,
            }
        }
    }

    /// Kinds whose first list is still missing.
    pub fn not_synced(&self) -> Vec<&'static str> {
        self.inner
            .entries
            .lock()
            .values()
            .filter(|entry| !entry.store.has_synced())
            .map(|entry| entry.kind)
            .collect()
    }

    /// Plural names of the kinds that were asked for.
    pub fn resources(&self) -> Vec<&'static str> {
        self.inner.entries.lock().values().map(|entry| entry.resource).collect()
    }

    /// Fills the store of a resource by hand (offline factories).
    pub fn replace(&self, resource: &str, objects: &[Value], resource_version: &str) {
        for entry in self.inner.entries.lock().values().filter(|entry| entry.resource == resource) {
            entry.store.replace(objects, resource_version);
        }
    }
}

impl Copies for InformerFactory {
    fn revision_of(&self, resource: &str) -> Option<u64> {
        self.inner
            .entries
            .lock()
            .values()
            .find(|entry| entry.resource == resource)
            .map(|entry| entry.store.resource_version())
    }

    fn shows_alive(&self, resource: &str, key: &NamespacedName, uid: &str) -> bool {
        self.inner
            .entries
            .lock()
            .values()
            .any(|entry| entry.resource == resource && entry.store.shows_alive(key, uid))
    }
}
