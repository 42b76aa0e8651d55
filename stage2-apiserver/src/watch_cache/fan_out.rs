//! Fan-out: one event, all watchers that it concerns, none that it doesn't.
//!
//! Watchers are kept by scope: the resource, a namespace of it, or one object. An event looks up the scopes that its key
//! lies in, so a watch on one namespace costs nothing when another one changes.
//!
//! # Invariants
//! 1. A watcher whose queue is full is ended: it finds the end of its stream after what is queued, and lists again.
//!
//! # In Kubernetes
//! `indexedWatchers` and `dispatchEvent` in `apiserver/pkg/storage/cacher/cacher.go`.

use std::collections::HashMap;

use futures::StreamExt;
use stage1_kubectl::object::Object;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use super::window::Event;
use super::{CacheEvent, CacheStream, Predicate, WatchOptions};
use crate::storage::Revision;

/// Events that a watcher may be behind before it is ended.
const WATCHER_CAPACITY: usize = 4096;

struct Watcher {
    selector: Option<Predicate>,
    after: Revision,
    bookmarks: bool,
    queue: mpsc::Sender<CacheEvent>,
}

/// See the module's text.
#[derive(Default)]
pub(super) struct FanOut {
    by_scope: HashMap<String, Vec<Watcher>>,
}

/// Whether a key lies in a scope: below a prefix that ends in a slash, or equal.
pub(super) fn in_scope(key: &str, scope: &str) -> bool {
    if scope.ends_with('/') { key.starts_with(scope) } else { key == scope }
}

impl FanOut {
    /// A new watcher of what comes after a revision.
    pub(super) fn add(&mut self, options: WatchOptions, after: Revision) -> CacheStream {
        let (queue, events) = mpsc::channel(WATCHER_CAPACITY);
        let WatchOptions { scope, selector, bookmarks, .. } = options;
        self.by_scope.entry(scope).or_default().push(Watcher { selector, after, bookmarks, queue });
        ReceiverStream::new(events).boxed()
    }

    /// Gives an event to the watchers of its scopes; `prefix_length` is where the resource's own prefix ends.
    pub(super) fn dispatch(&mut self, event: &Event, prefix_length: usize) {
        let key = &event.object.key;
        let below = key[prefix_length..].match_indices('/').map(|(slash, _)| &key[..=prefix_length + slash]);
        for scope in std::iter::once(&key[..prefix_length]).chain(below).chain([&**key]) {
            let Some(watchers) = self.by_scope.get_mut(scope) else { continue };
            watchers.retain(|watcher| watcher.hear(event));
            if watchers.is_empty() {
                self.by_scope.remove(scope);
            }
        }
    }

    /// Whether somebody asked for bookmarks.
    pub(super) fn wants_bookmarks(&self) -> bool {
        self.by_scope.values().flatten().any(|watcher| watcher.bookmarks)
    }

    /// Tells those who asked how far they are; also forgets watchers that went away in silence.
    pub(super) fn bookmark(&mut self, revision: Revision) {
        for watchers in self.by_scope.values_mut() {
            watchers.retain(|watcher| {
                let news = CacheEvent::Bookmark { revision, initial_events_end: false };
                if watcher.bookmarks && watcher.after < revision {
                    watcher.queue.try_send(news).is_ok()
                } else {
                    !watcher.queue.is_closed()
                }
            });
        }
        self.by_scope.retain(|_, watchers| !watchers.is_empty());
    }

    /// Ends all watches.
    pub(super) fn end_all(&mut self) {
        self.by_scope.clear();
    }
}

impl Watcher {
    /// Whether the watcher stays.
    fn hear(&self, event: &Event) -> bool {
        if event.object.revision <= self.after {
            return !self.queue.is_closed(); // it asked for the future
        }
        let selects = |object: &Object| self.selector.as_ref().is_none_or(|selector| selector(object));
        match event.project(&selects) {
            Some(news) => self.queue.try_send(news).is_ok(),
            None => !self.queue.is_closed(),
        }
    }
}
