//! The window: the present objects and the last events.
//!
//! *Step 2 of a pod's journey.* Before: one change from the store. After: one [`Event`] that each watcher sees in its own way.
//!
//! Pure bookkeeping: apply a change, look at a range, say what happened since. The one rule worth reading is
//! [`Event::project`]: a watcher with a selector doesn't see the world's changes but its view's. An object whose label is taken
//! away is *deleted* for a watcher of that label, in its last matching state, at the new revision.
//!
//! How many events to keep? Enough for a client that was away for a moment; in a busy hour that is thousands, in a quiet one each
//! would only keep an old version of an object in memory. So what is older than a minute or two goes, but for the last hundred.
//!
//! # Invariants
//! 1. `events` holds every change after `floor`, in order.
//! 2. A change at or before `revision` is dropped: it was part of the list.
//! 3. The last [`LEAST`] events stay, and all since the last two calls of [`Window::forget_old`], as far as `capacity` goes.
//!
//! # In Kubernetes
//! `watchCache` in `apiserver/pkg/storage/cacher/watch_cache.go`, `cacheWatcher.convertToWatchEvent`.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::{Arc, OnceLock};

use stage1_kubectl::object::Object;

use super::cached_object::{CachedObject, EventType};
use super::{CacheEvent, fan_out};
use crate::storage::{KeyValue, Revision, WatchItem};

/// Events that are kept however old they are.
pub const LEAST: usize = 100;

/// One change.
#[derive(Debug)]
pub struct Event {
    /// The object after the change; for a deletion its last state, at the deletion's revision.
    pub object: Arc<CachedObject>,
    /// The object before.
    pub previous: Option<Arc<CachedObject>>,
    /// Whether it is gone.
    pub deleted: bool,
    left: OnceLock<Arc<CachedObject>>,
}

impl Event {
    // ANCHOR: selector-transition
    /// What a watcher with this view hears.
    pub fn project(&self, selects: &dyn Fn(&Object) -> bool) -> Option<CacheEvent> {
        let is = !self.deleted && selects(&self.object.object);
        let was = self.previous.as_ref().is_some_and(|previous| selects(&previous.object));
        match (was, is) {
            (false, true) => Some(CacheEvent::Object(EventType::Added, self.object.clone())),
            (true, true) => Some(CacheEvent::Object(EventType::Modified, self.object.clone())),
            (true, false) => Some(CacheEvent::Object(EventType::Deleted, self.as_left()?)),
            (false, false) => None,
        }
    }
    // ANCHOR_END: selector-transition

    /// The last state in which a watcher may have seen it, at this event's revision.
    fn as_left(&self) -> Option<Arc<CachedObject>> {
        if self.deleted {
            return Some(self.object.clone());
        }
        let previous = self.previous.as_ref()?;
        Some(self.left.get_or_init(|| Arc::new(previous.at(self.object.revision))).clone())
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct Window {
    objects: BTreeMap<Arc<str>, Arc<CachedObject>>,
    events: VecDeque<Arc<Event>>,
    capacity: usize,
    revision: Revision,
    floor: Revision,
    /// The revision at the last [`Window::forget_old`].
    mark: Revision,
}

impl Window {
    /// An empty window that remembers `capacity` events.
    pub fn new(capacity: usize) -> Self {
        Window {
            objects: BTreeMap::new(),
            events: VecDeque::new(),
            capacity,
            revision: Revision(0),
            floor: Revision(0),
            mark: Revision(0),
        }
    }

    /// Starts over from a list.
    pub fn replace(&mut self, items: Vec<KeyValue>, revision: Revision) {
        let decoded = items.into_iter().filter_map(|kv| decode(&kv.key, &kv.value, kv.revision));
        self.objects = decoded.map(|object| (object.key.clone(), object)).collect();
        self.events.clear();
        self.revision = revision;
        self.floor = revision;
    }

    /// Takes a change; `None`: it is old, or can't be read.
    pub fn apply(&mut self, item: WatchItem) -> Option<Arc<Event>> {
        if item.revision <= self.revision {
            return None;
        }
        self.revision = item.revision;
        let previous = self.objects.remove(item.key.as_str());
        let (object, deleted) = match (&item.value, &previous) {
            (Some(value), _) => (decode(&item.key, value, item.revision)?, false),
            (None, Some(previous)) => (Arc::new(previous.at(item.revision)), true),
            (None, None) => return None,
        };
        if !deleted {
            self.objects.insert(object.key.clone(), object.clone());
        }
        let event = Arc::new(Event { object, previous, deleted, left: OnceLock::new() });
        self.events.push_back(event.clone());
        if self.events.len() > self.capacity {
            self.forget_oldest();
        }
        Some(event)
    }

    fn forget_oldest(&mut self) {
        if let Some(forgotten) = self.events.pop_front() {
            self.floor = forgotten.object.revision;
        }
    }

    /// Forgets what was old already at the last call. Called once a minute, so an event stays for one to two minutes.
    pub fn forget_old(&mut self) {
        let is_old = |event: &Arc<Event>| event.object.revision <= self.mark;
        let old = self.events.partition_point(is_old);
        for _ in 0..old.min(self.events.len().saturating_sub(LEAST)) {
            self.forget_oldest();
        }
        // A burst's room is given back, too.
        self.events.shrink_to(LEAST);
        self.mark = self.revision;
    }

    /// Notes that nothing changed up to a revision.
    pub fn advance(&mut self, revision: Revision) {
        self.revision = self.revision.max(revision);
    }

    /// How far the window is.
    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// The object at a key.
    pub fn get(&self, key: &str) -> Option<Arc<CachedObject>> {
        self.objects.get(key).cloned()
    }

    /// Objects in a scope (see [`super::WatchOptions::scope`]) in key order, from a key on.
    pub fn range<'a>(
        &'a self,
        scope: &'a str,
        start: Option<&'a str>,
    ) -> impl Iterator<Item = &'a Arc<CachedObject>> {
        let from = start.filter(|start| *start > scope).unwrap_or(scope);
        let keys = self.objects.range::<str, _>((Bound::Included(from), Bound::Unbounded));
        keys.take_while(move |(key, _)| fan_out::in_scope(key, scope)).map(|(_, object)| object)
    }

    /// The events after a revision.
    ///
    /// # Errors
    /// The oldest revision that can be asked for, when that one is too old.
    pub fn since(&self, after: Revision) -> Result<impl Iterator<Item = &Arc<Event>>, Revision> {
        if after < self.floor {
            return Err(self.floor);
        }
        let first = self.events.partition_point(|event| event.object.revision <= after);
        Ok(self.events.range(first..))
    }
}

fn decode(key: &str, value: &[u8], revision: Revision) -> Option<Arc<CachedObject>> {
    // What can't be read can't be served; the rest of the resource goes on.
    CachedObject::decode(key, value, revision).ok().map(Arc::new)
}
