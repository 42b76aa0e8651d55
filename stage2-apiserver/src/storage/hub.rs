//! The hub: each change goes once to everyone who watches a prefix of its key.
//!
//! *Step 2 of a pod's journey.* Before: a storage committed a write. After: the watch caches that care hear of it.
//!
//! A hub has one publisher (the storage's writer, or the one watch stream that we hold on etcd) and a few dozen watchers
//! (one cache per resource). A change looks its watchers up by the slashes of its key, so publishing costs the depth of the
//! key and not the number of watchers. Because everything passes through one place in order, the hub also knows
//! for each prefix when it last changed: that makes consistent reads from a cache cheap
//! ([`crate::storage::Freshness`]), even on an etcd that has no reliable progress requests (before 3.4.25).
//!
//! A watcher that doesn't keep up is cut off rather than waited for: its channel is bounded, and its cache lists again.
//!
//! # Invariants
//! 1. A subscriber gets each change after its position once, in order.
//! 2. `position` never runs ahead of what was published.
//!
//! # In Kubernetes
//! etcd's `watchableStore`; in the API server `storage/cacher/watch_progress.go` solves the same problem by asking etcd.

use std::collections::{HashMap, VecDeque};

use futures::StreamExt;
use parking_lot::Mutex;
use tokio::sync::{mpsc, watch};

use super::{Revision, StorageError, WatchItem, WatchStream};

/// Changes that a watcher may be behind before it is cut off.
const WATCHER_CAPACITY: usize = 8192;

struct Topic {
    last_change: Revision,
    watchers: Vec<mpsc::Sender<Result<WatchItem, StorageError>>>,
}

struct State {
    topics: HashMap<String, Topic>,
    position: Revision,
    /// The last changes, for subscribers who start a little in the past; all after `floor` are here.
    recent: VecDeque<WatchItem>,
    floor: Revision,
}

/// See the module's text.
pub struct Hub {
    state: Mutex<State>,
    position: watch::Sender<Revision>,
    recent_capacity: usize,
}

/// A fresh subscription: what comes, and from where on.
pub struct Subscription {
    /// Changes after `from`.
    pub stream: WatchStream,
    /// The hub's position when the subscription began.
    pub from: Revision,
}

impl Hub {
    /// A hub whose publisher starts after `position`, and that keeps the last `recent_capacity` changes (0 for a
    /// storage that can replay them itself).
    pub fn new(position: Revision, recent_capacity: usize) -> Self {
        let state = State { topics: HashMap::new(), position, recent: VecDeque::new(), floor: position };
        Hub { state: Mutex::new(state), position: watch::Sender::new(position), recent_capacity }
    }

    /// Gives changes, in revision order, to those who watch them.
    pub fn publish(&self, changes: impl IntoIterator<Item = WatchItem>) {
        let mut state = self.state.lock();
        for change in changes {
            state.position = state.position.max(change.revision);
            // The empty prefix is everybody's.
            let ends = std::iter::once(0).chain(change.key.match_indices('/').map(|(slash, _)| slash + 1));
            for end in ends {
                let Some(topic) = state.topics.get_mut(&change.key[..end]) else { continue };
                topic.last_change = change.revision;
                // A full channel drops its sender here; the receiver reads what is queued and then finds the end.
                topic.watchers.retain(|watcher| watcher.try_send(Ok(change.clone())).is_ok());
            }
            state.remember(change, self.recent_capacity);
        }
        self.position.send_replace(state.position);
    }

    /// Cuts all watchers off, because the publisher lost its place; it goes on after `position`.
    pub fn reset(&self, position: Revision) {
        let mut state = self.state.lock();
        for topic in state.topics.values_mut() {
            topic.watchers.clear();
            topic.last_change = position;
        }
        state.recent.clear();
        state.floor = position;
        state.position = position;
        self.position.send_replace(position);
    }

    /// All changes under `prefix` from now on.
    pub fn subscribe(&self, prefix: &str) -> Subscription {
        let mut state = self.state.lock();
        let from = state.position;
        Subscription { stream: state.subscribe(prefix), from }
    }

    /// All changes under `prefix` after a revision.
    ///
    /// # Errors
    /// [`StorageError::Compacted`] when the hub doesn't remember that far back.
    pub fn subscribe_after(&self, prefix: &str, after: Revision) -> Result<WatchStream, StorageError> {
        let mut state = self.state.lock();
        if after < state.floor {
            return Err(StorageError::Compacted { requested: after, oldest: state.floor });
        }
        let missed: Vec<_> = state
            .recent
            .iter()
            .filter(|change| change.revision > after && change.key.starts_with(prefix))
            .map(|change| Ok(change.clone()))
            .collect();
        let stream = state.subscribe(prefix);
        Ok(futures::stream::iter(missed).chain(skip_until_after(stream, after)).boxed())
    }

    /// How far the hub is.
    pub fn position(&self) -> Revision {
        self.state.lock().position
    }

    /// When something under the prefix last changed, as far as the hub knows.
    pub fn last_change(&self, prefix: &str) -> Revision {
        let state = self.state.lock();
        state.topics.get(prefix).map_or(state.position, |topic| topic.last_change)
    }

    /// Waits until the publisher has passed a revision.
    pub async fn reached(&self, revision: Revision) {
        let mut position = self.position.subscribe();
        // The sender lives in `self`, so waiting can't fail.
        let _ = position.wait_for(|at| *at >= revision).await;
    }
}

impl State {
    fn subscribe(&mut self, prefix: &str) -> WatchStream {
        let (sender, receiver) = mpsc::channel(WATCHER_CAPACITY);
        let from = self.position;
        let topic = self.topics.entry(prefix.to_owned());
        // Nobody watched until now, so nobody knows when it last changed: "just now" is always a safe answer.
        topic.or_insert(Topic { last_change: from, watchers: Vec::new() }).watchers.push(sender);
        let lagged = Err(StorageError::Lagged { prefix: prefix.to_owned() });
        let end = futures::stream::once(std::future::ready(lagged));
        tokio_stream::wrappers::ReceiverStream::new(receiver).chain(end).boxed()
    }

    fn remember(&mut self, change: WatchItem, capacity: usize) {
        self.recent.push_back(change);
        while self.recent.len() > capacity {
            if let Some(forgotten) = self.recent.pop_front() {
                self.floor = forgotten.revision;
            }
        }
    }
}

/// A stream without what is at or before a revision (a watch may start in the future).
pub(super) fn skip_until_after(stream: WatchStream, after: Revision) -> WatchStream {
    let newer = move |item: &Result<WatchItem, StorageError>| {
        std::future::ready(item.as_ref().map_or(true, |change| change.revision > after))
    };
    stream.filter(newer).boxed()
}
