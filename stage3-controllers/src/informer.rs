//! Informer: one watch per kind, shared by all who care.
//!
//! *Step 4 of a pod's journey.* Before: [`crate::reflector`] heard of a change. After: [`crate::workqueue`] holds the keys that need work.
//!
//! Twenty controllers want to know about pods. They share one watch and one copy of the pods ([`Store`]); each
//! subscribes to the changes. A subscriber first gets everything that is there, then each change, in order.
//!
//! The subtle thing is a subscriber that is too slow. client-go lets its backlog grow without bound; here each queue is
//! bounded, and a subscriber that fell behind is told so ([`Event::Resync`]): it then looks at everything again.
//! (A queue takes memory for what is in it. A `broadcast` channel would take all of its room at once, and there are a hundred.)
//! That is always enough, because controllers decide on the state of the world and not on the events.
//!
//! # Invariants
//! 1. A subscriber that sees no `Resync` sees every change once, in order, none between snapshot and stream lost.
//! 2. The store is changed before the event is sent: who hears of a change can read it.
//! 3. An object is decoded once and shared (`Arc`).
//!
//! # In Kubernetes
//! `client-go/tools/cache/shared_informer.go`, `client-go/informers/factory.go`. Left out: transformers, resync periods, handlers' own sync state.

pub mod factory;
pub mod list_watch;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};
use tokio::sync::{mpsc, watch};

use crate::indexer::{Cached, IndexFunction, Indexer, NamespacedName};
use crate::reflector::Delta;

/// Changes that a subscriber may be behind before it is told to look at everything again.
pub const BACKLOG: usize = 4096;

/// A change of the store.
#[derive(Debug)]
pub enum Event<K> {
    /// The object is new.
    Added(Arc<K>),
    /// The object changed.
    Modified {
        /// The version before.
        old: Arc<K>,
        /// The version now.
        new: Arc<K>,
    },
    /// The object is gone; this was its last version.
    Deleted(Arc<K>),
    /// Changes were missed: look at everything.
    Resync,
}

impl<K> Clone for Event<K> {
    fn clone(&self) -> Self {
        match self {
            Event::Added(object) => Event::Added(object.clone()),
            Event::Modified { old, new } => Event::Modified { old: old.clone(), new: new.clone() },
            Event::Deleted(object) => Event::Deleted(object.clone()),
            Event::Resync => Event::Resync,
        }
    }
}

impl<K> Event<K> {
    /// The newest version of the object, whatever happened to it.
    pub fn object(&self) -> Option<&Arc<K>> {
        match self {
            Event::Added(object) | Event::Deleted(object) | Event::Modified { new: object, .. } => {
                Some(object)
            }
            Event::Resync => None,
        }
    }
}

struct Shared<K> {
    indexer: RwLock<Indexer<K>>,
    /// Locked while a change is made and sent, and while a subscriber takes its snapshot (promise 1).
    subscribers: Mutex<Vec<Subscriber<K>>>,
    synced: watch::Sender<bool>,
}

/// The store's end of a subscription.
struct Subscriber<K> {
    events: mpsc::Sender<Event<K>>,
    missed: Arc<AtomicBool>,
}

impl<K> Subscriber<K> {
    /// Hands an event over; false when nobody listens any more.
    fn tell(&self, event: Event<K>) -> bool {
        match self.events.try_send(event) {
            Ok(()) => true,
            Err(mpsc::error::TrySendError::Full(_)) => {
                self.missed.store(true, Ordering::Release);
                true
            }
            Err(mpsc::error::TrySendError::Closed(_)) => false,
        }
    }
}

/// The shared copy of all objects of one kind. Cheap to clone.
pub struct Store<K> {
    shared: Arc<Shared<K>>,
}

impl<K> Clone for Store<K> {
    fn clone(&self) -> Self {
        Store { shared: self.shared.clone() }
    }
}

impl<K: Cached> Default for Store<K> {
    fn default() -> Self {
        Store::new()
    }
}

impl<K: Cached> Store<K> {
    /// An empty copy that nobody fills yet.
    pub fn new() -> Store<K> {
        let shared = Shared {
            indexer: RwLock::new(Indexer::default()),
            subscribers: Mutex::default(),
            synced: watch::Sender::new(false),
        };
        Store { shared: Arc::new(shared) }
    }

    /// The object with this key.
    pub fn get(&self, key: &NamespacedName) -> Option<Arc<K>> {
        self.shared.indexer.read().get(key)
    }

    /// All objects, in no order.
    pub fn list(&self) -> Vec<Arc<K>> {
        self.shared.indexer.read().list()
    }

    /// All keys, in no order.
    pub fn keys(&self) -> Vec<NamespacedName> {
        self.shared.indexer.read().keys()
    }

    /// The objects of a namespace, by name.
    pub fn in_namespace(&self, namespace: &str) -> Vec<Arc<K>> {
        self.by_index(crate::indexer::NAMESPACE_INDEX, namespace)
    }

    /// The objects under a value of an index, by key.
    pub fn by_index(&self, name: &str, value: &str) -> Vec<Arc<K>> {
        self.shared.indexer.read().by_index(name, value)
    }

    /// How many objects stand under a value of an index.
    pub fn count(&self, name: &str, value: &str) -> usize {
        self.shared.indexer.read().count(name, value)
    }

    /// Adds an index; a second one of the same name is the same index.
    pub fn add_index(&self, name: &'static str, values_of: IndexFunction<K>) {
        self.shared.indexer.write().add_index(name, values_of);
    }

    /// Number of objects.
    pub fn len(&self) -> usize {
        self.shared.indexer.read().len()
    }

    /// Whether there is no object.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The newest revision that this copy reflects.
    pub fn resource_version(&self) -> u64 {
        self.shared.indexer.read().resource_version()
    }

    /// Whether the first list is complete.
    pub fn has_synced(&self) -> bool {
        *self.shared.synced.borrow()
    }

    /// Waits for the first complete list.
    pub async fn synced(&self) {
        let mut synced = self.shared.synced.subscribe();
        // The sender lives in `self`: waiting cannot fail.
        let _ = synced.wait_for(|synced| *synced).await;
    }

    /// Everything that is there, then every change.
    pub fn subscribe(&self) -> Subscription<K> {
        let mut subscribers = self.shared.subscribers.lock();
        let (sender, events) = mpsc::channel(BACKLOG);
        let missed = Arc::new(AtomicBool::new(false));
        subscribers.push(Subscriber { events: sender, missed: missed.clone() });
        Subscription { snapshot: self.list(), events, missed }
    }

    /// Makes a change and tells the subscribers.
    pub fn apply(&self, delta: Delta<Arc<K>>) {
        let subscribers = &mut *self.shared.subscribers.lock();
        let revision = |version: &str| version.parse().unwrap_or(0);
        match delta {
            Delta::Upsert(object) => self.upsert(subscribers, object),
            Delta::Remove(object, version) => self.remove(subscribers, &object.key(), revision(&version)),
            Delta::Advance(version) => self.shared.indexer.write().advance(revision(&version)),
            Delta::Replace(objects, version) => {
                let kept: std::collections::HashSet<NamespacedName> =
                    objects.iter().map(|object| object.key()).collect();
                for key in self.keys() {
                    if !kept.contains(&key) {
                        self.remove(subscribers, &key, 0);
                    }
                }
                for object in objects {
                    self.upsert(subscribers, object);
                }
                self.shared.indexer.write().advance(revision(&version));
                self.shared.synced.send_replace(true);
            }
        }
    }

    fn upsert(&self, subscribers: &mut Vec<Subscriber<K>>, object: Arc<K>) {
        let old = self.shared.indexer.write().upsert(object.clone());
        let event = match old {
            // A list after a reconnect brings back what we know: no news.
            Some(old)
                if old.meta().resource_version == object.meta().resource_version
                    && old.uid() == object.uid()
                    && object.revision() > 0 =>
            {
                return;
            }
            // The same name with another UID: the old one was deleted while we did not look.
            Some(old) if old.uid() != object.uid() => {
                tell(subscribers, Event::Deleted(old));
                Event::Added(object)
            }
            Some(old) => Event::Modified { old, new: object },
            None => Event::Added(object),
        };
        tell(subscribers, event);
    }

    fn remove(&self, subscribers: &mut Vec<Subscriber<K>>, key: &NamespacedName, at: u64) {
        let old = self.shared.indexer.write().remove(key, at);
        if let Some(old) = old {
            tell(subscribers, Event::Deleted(old));
        }
    }
}

/// Tells all who still listen.
fn tell<K>(subscribers: &mut Vec<Subscriber<K>>, event: Event<K>) {
    subscribers.retain(|subscriber| subscriber.tell(event.clone()));
}

/// One subscriber's view: the snapshot first, then the changes.
pub struct Subscription<K> {
    snapshot: Vec<Arc<K>>,
    events: mpsc::Receiver<Event<K>>,
    /// Set when the queue was full and a change is not in it.
    missed: Arc<AtomicBool>,
}

impl<K: Cached> Subscription<K> {
    /// The next change; `None`: the store is gone.
    pub async fn next(&mut self) -> Option<Event<K>> {
        if let Some(object) = self.snapshot.pop() {
            return Some(Event::Added(object));
        }
        if self.missed.swap(false, Ordering::Acquire) {
            // What is queued is older than what is looked at now; what is missed from here on sets the mark again.
            while self.events.try_recv().is_ok() {}
            return Some(Event::Resync);
        }
        self.events.recv().await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Pod;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

    fn pod(name: &str, uid: &str, version: u64) -> Arc<Pod> {
        let metadata = ObjectMeta {
            name: Some(name.into()),
            uid: Some(uid.into()),
            resource_version: Some(version.to_string()),
            ..Default::default()
        };
        Arc::new(Pod { metadata, ..Default::default() })
    }

    async fn events(subscription: &mut Subscription<Pod>, count: usize) -> Vec<String> {
        let mut seen = Vec::new();
        for _ in 0..count {
            seen.push(match subscription.next().await.unwrap() {
                Event::Added(pod) => format!("+{}", pod.uid()),
                Event::Modified { new, .. } => format!("~{}", new.uid()),
                Event::Deleted(pod) => format!("-{}", pod.uid()),
                Event::Resync => "resync".to_owned(),
            });
        }
        seen
    }

    #[tokio::test]
    async fn a_subscriber_gets_the_snapshot_and_then_the_changes() {
        let store = Store::new();
        store.apply(Delta::Replace(vec![pod("a", "a", 1)], "1".into()));
        let mut subscription = store.subscribe();
        store.apply(Delta::Upsert(pod("a", "a", 2)));
        store.apply(Delta::Remove(pod("a", "a", 3), "3".into()));
        assert_eq!(events(&mut subscription, 3).await, ["+a", "~a", "-a"]);
        assert!(store.has_synced());
        assert_eq!(store.resource_version(), 3);
    }

    #[tokio::test]
    async fn a_new_list_tells_what_was_missed_and_nothing_else() {
        let store = Store::new();
        store.apply(Delta::Replace(vec![pod("a", "a", 1), pod("b", "b", 2), pod("c", "c", 3)], "3".into()));
        let mut subscription = store.subscribe();
        subscription.snapshot.clear();
        store.apply(Delta::Replace(vec![pod("a", "a", 1), pod("b", "b2", 5)], "9".into()));
        store.apply(Delta::Upsert(pod("end", "end", 10)));
        assert_eq!(events(&mut subscription, 4).await, ["-c", "-b", "+b2", "+end"]);
    }

    #[tokio::test]
    async fn a_subscriber_that_lags_is_told_to_look_again() {
        let store = Store::new();
        let mut subscription = store.subscribe();
        for n in 0..BACKLOG as u64 + 10 {
            store.apply(Delta::Upsert(pod("a", "a", n + 1)));
        }
        assert_eq!(events(&mut subscription, 1).await, ["resync"]);
        store.apply(Delta::Upsert(pod("b", "b", 1)));
        assert_eq!(events(&mut subscription, 1).await, ["+b"], "what comes after the second look is heard");
    }

    #[tokio::test]
    async fn a_subscriber_that_is_gone_is_forgotten_and_the_others_hear_on() {
        let store = Store::new();
        let gone = store.subscribe();
        let mut stays = store.subscribe();
        drop(gone);
        store.apply(Delta::Upsert(pod("a", "a", 1)));
        assert_eq!(store.shared.subscribers.lock().len(), 1);
        assert_eq!(events(&mut stays, 1).await, ["+a"]);
        drop(store);
        assert!(stays.next().await.is_none(), "the store is gone");
    }
}
