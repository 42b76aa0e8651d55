//! The watch cache: one copy of a resource in memory, from which everybody reads and watches.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::storage`] committed a write. After: every controller, scheduler and kubelet
//! that watches the resource has the event.
//!
//! Without it each of a thousand watchers would be a watch on the store and each list a read of the disk. A [`Cacher`]
//! holds one watch, decodes each object once, encodes it once, and shares both. It keeps the current objects in key order
//! (so a namespace is a range) and a window of the last events (so a client that was away for a moment can go on where
//! it was).
//!
//! The subtle thing is what a resourceVersion means. *Unset* on a list means "not older than now": the cache asks the store how
//! fresh it must be and waits. `0` means "whatever you have". A number means "not older than this", and with
//! `resourceVersionMatch=Exact`, or in a `continue` token, "exactly this", which only the store's history can answer. A watch from a number
//! continues there, or is told with 410 that the window has moved on.
//!
//! # Invariants
//! 1. Events reach each watcher in revision order, none twice, none left out; a watcher that can't keep up is ended instead.
//! 2. `revision` of the cache never says more than what was applied.
//! 3. A consistent list contains every write that was acknowledged before the list began.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/cacher/cacher.go`, `watch_cache.go`. Left out: a window that grows without bound in a burst, triggers (indices for `spec.nodeName`
//! selectors), and the time budget for slow watchers (here: a full queue ends the watch).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::BoxStream;
use parking_lot::Mutex;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use tokio::sync::watch;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::storage::{ListRequest, Revision, Storage, StorageError, WatchStream};

pub mod cached_object;
pub mod continue_token;
mod fan_out;
mod list;
pub mod resource_version;
pub mod window;

pub use cached_object::{CachedObject, EventType};
pub use list::{ListOptions, Listed};
pub use resource_version::At;

use fan_out::FanOut;
use window::Window;

/// Events that a client may have missed and still go on; beyond, it lists again. Fewer when they are old ([`window`]).
pub const WINDOW: usize = 2048;
/// How often idle watchers hear how far they are.
const BOOKMARK_INTERVAL: Duration = Duration::from_secs(60);
/// How long a read waits for the cache to catch up before it says 504.
const FRESH_TIMEOUT: Duration = Duration::from_secs(3);
/// How long a read waits for the first list of the store.
const READY_TIMEOUT: Duration = Duration::from_secs(30);
const RETRY: Duration = Duration::from_millis(100);

/// Which objects a list or watch is about, besides their place.
pub type Predicate = Arc<dyn Fn(&Object) -> bool + Send + Sync>;

/// What a watcher hears.
#[derive(Debug, Clone)]
pub enum CacheEvent {
    /// An object came, changed or went (as the watcher's selector sees it).
    Object(EventType, Arc<CachedObject>),
    /// Nothing up to this revision is missing.
    Bookmark {
        /// The revision.
        revision: Revision,
        /// Whether this ends the initial events (`k8s.io/initial-events-end`).
        initial_events_end: bool,
    },
}

/// Events of one watch; its end means: list again.
pub type CacheStream = BoxStream<'static, CacheEvent>;

/// Where a watch begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchStart {
    /// With the present objects as ADDED events, at least as fresh as `At` says.
    Initial(At),
    /// With what follows a revision.
    After(Revision),
}

/// What to watch.
#[derive(Clone)]
pub struct WatchOptions {
    /// A key prefix that ends in a slash (a resource or a namespace of it), or one whole key.
    pub scope: String,
    /// Which of those.
    pub selector: Option<Predicate>,
    /// Where to begin.
    pub start: WatchStart,
    /// Whether the client wants bookmarks.
    pub bookmarks: bool,
    /// `sendInitialEvents`: a marked bookmark follows the initial events.
    pub send_initial_events: bool,
}

pub(crate) struct State {
    pub(crate) window: Window,
    watchers: FanOut,
}

/// See the module's text.
pub struct Cacher {
    prefix: String,
    storage: Arc<dyn Storage>,
    shared: Arc<Shared>,
    stop: CancellationToken,
    _guard: DropGuard,
}

struct Shared {
    state: Mutex<State>,
    /// `None` until the first list.
    progress: watch::Sender<Option<Revision>>,
}

impl Cacher {
    /// Starts to follow everything under `prefix`, which ends in a slash.
    pub fn start(storage: Arc<dyn Storage>, prefix: &str) -> Arc<Self> {
        Self::start_with(storage, prefix, BOOKMARK_INTERVAL)
    }

    /// [`Cacher::start`] with another pause between bookmarks.
    pub fn start_with(storage: Arc<dyn Storage>, prefix: &str, bookmark_interval: Duration) -> Arc<Self> {
        let state = State { window: Window::new(WINDOW), watchers: FanOut::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), progress: watch::Sender::new(None) });
        let stop = CancellationToken::new();
        let task = follow(storage.clone(), prefix.to_owned(), shared.clone(), bookmark_interval);
        let stopped = stop.clone();
        tokio::spawn(async move { stopped.run_until_cancelled(task).await });
        let _guard = stop.clone().drop_guard();
        Arc::new(Cacher { prefix: prefix.to_owned(), storage, shared, stop, _guard })
    }

    /// What the cache has at a key, maybe a moment old.
    pub fn peek(&self, key: &str) -> Option<Arc<CachedObject>> {
        self.shared.state.lock().window.get(key)
    }

    /// The cache's own revision.
    pub fn revision(&self) -> Revision {
        self.shared.state.lock().window.revision()
    }

    /// All objects in scope as the cache has them now, without waiting for freshness (it waits for the first list).
    ///
    /// # Errors
    /// 504 when the store can't be listed in time.
    pub async fn snapshot(&self, scope: &str) -> Result<Vec<Arc<CachedObject>>, Status> {
        self.ready().await?;
        Ok(self.shared.state.lock().window.range(scope, None).cloned().collect())
    }

    /// All objects in scope as the cache has them now, without waiting for anything.
    pub fn present(&self, scope: &str) -> Vec<Arc<CachedObject>> {
        self.shared.state.lock().window.range(scope, None).cloned().collect()
    }

    async fn ready(&self) -> Result<(), Status> {
        let mut progress = self.shared.progress.subscribe();
        let ready = tokio::time::timeout(READY_TIMEOUT, progress.wait_for(Option::is_some)).await;
        ready.map(drop).map_err(|_| Status::timeout("storage is (re)initializing", 1))
    }

    /// Waits until the cache is as fresh as asked.
    ///
    /// # Errors
    /// 504 when it doesn't get there in time.
    pub async fn wait_for(&self, at: At) -> Result<(), Status> {
        self.ready().await?;
        let (last_change, revision) = match at {
            At::Any => return Ok(()),
            At::NotOlderThan(revision) | At::Exact(revision) => {
                if self.revision() >= revision {
                    return Ok(());
                }
                // The cache only moves when its resource changes; the store knows better.
                let fresh = self.storage.freshness(&self.prefix).await.map_err(status)?;
                if fresh.revision < revision {
                    let current = fresh.revision;
                    let text = format!("Too large resource version: {revision}, current: {current}");
                    let mut status = Status::timeout(&text, 1);
                    status.details.get_or_insert_default().causes.push(too_large());
                    return Err(status);
                }
                (fresh.last_change, fresh.revision)
            }
            At::Consistent => {
                let fresh = self.storage.freshness(&self.prefix).await.map_err(status)?;
                (fresh.last_change, fresh.revision)
            }
        };
        let mut progress = self.shared.progress.subscribe();
        let caught_up = progress.wait_for(|at| at.is_some_and(|at| at >= last_change));
        // What comes out of the wait holds the channel's lock, and the cache takes that while it holds its state's: it must be gone
        // before the state is locked here, or each waits for the other for ever.
        let is_fresh = tokio::time::timeout(FRESH_TIMEOUT, caught_up).await.is_ok();
        if !is_fresh {
            return Err(Status::timeout("the watch cache is behind the store", 1));
        }
        self.shared.state.lock().window.advance(revision);
        Ok(())
    }

    /// Opens a watch.
    ///
    /// # Errors
    /// 410 `too old resource version: …` when the window has moved on, 504 when the cache can't catch up.
    pub async fn watch(&self, options: WatchOptions) -> Result<CacheStream, Status> {
        match options.start {
            WatchStart::Initial(at) => self.wait_for(at).await?,
            WatchStart::After(_) => self.ready().await?,
        }
        let mut state = self.shared.state.lock();
        let selects = |object: &Object| options.selector.as_ref().is_none_or(|selector| selector(object));
        let mut first = Vec::new();
        let after = match options.start {
            WatchStart::After(after) => {
                let missed = state
                    .window
                    .since(after)
                    .map_err(|oldest| Status::too_old_resource_version(after.0, oldest.0))?;
                let in_scope = missed.filter(|event| fan_out::in_scope(&event.object.key, &options.scope));
                first.extend(in_scope.filter_map(|event| event.project(&selects)));
                after
            }
            WatchStart::Initial(_) => {
                let present =
                    state.window.range(&options.scope, None).filter(|cached| selects(&cached.object));
                first.extend(present.map(|cached| CacheEvent::Object(EventType::Added, cached.clone())));
                let revision = state.window.revision();
                if options.send_initial_events {
                    first.push(CacheEvent::Bookmark { revision, initial_events_end: true });
                }
                revision
            }
        };
        let follow = state.watchers.add(options, after);
        Ok(futures::stream::iter(first).chain(follow).boxed())
    }
}

fn too_large() -> stage1_kubectl::status::StatusCause {
    stage1_kubectl::status::StatusCause {
        reason: "ResourceVersionTooLarge".into(),
        message: "Too large resource version".into(),
        field: String::new(),
    }
}

/// A storage error as a client sees it (conflicts are for [`crate::store`]).
pub fn status(error: StorageError) -> Status {
    match error {
        StorageError::Compacted { .. } => {
            Status::expired("The resourceVersion for the provided list is too old.")
        }
        StorageError::Future { requested, current } => {
            Status::timeout(&format!("Too large resource version: {requested}, current: {current}"), 1)
        }
        // Not the object's fault as far as the API knows: Kubernetes passes etcd's words on.
        StorageError::TooLarge => Status::failure(500, "", error.to_string()),
        other => Status::internal(other),
    }
}

/// The cache's life: list, follow, and start over when the stream ends.
async fn follow(storage: Arc<dyn Storage>, prefix: String, shared: Arc<Shared>, bookmarks: Duration) {
    loop {
        match begin(&*storage, &prefix, &shared).await {
            Ok(stream) => {
                let error = run(&*storage, &prefix, &shared, stream, bookmarks).await;
                tracing::warn!(%prefix, %error, "Watch of the store ended, listing again");
            }
            Err(error) => tracing::warn!(%prefix, %error, "Listing the store failed, trying again"),
        }
        tokio::time::sleep(RETRY).await;
    }
}

/// Lists everything. The watch is opened before the list, so that the list can't be older than the hub's knowledge of
/// the last change; what the watch brings twice is dropped by [`Window::apply`].
async fn begin(storage: &dyn Storage, prefix: &str, shared: &Shared) -> Result<WatchStream, StorageError> {
    let before = storage.freshness(prefix).await?;
    let stream = storage.watch(prefix, before.revision);
    let page = storage.list(ListRequest::all(prefix)).await?;
    let mut state = shared.state.lock();
    state.window.replace(page.items, page.revision);
    state.watchers.end_all();
    shared.progress.send_replace(Some(page.revision));
    Ok(stream)
}

async fn run(
    storage: &dyn Storage,
    prefix: &str,
    shared: &Shared,
    mut stream: WatchStream,
    bookmark_interval: Duration,
) -> StorageError {
    let mut bookmarks = tokio::time::interval(bookmark_interval);
    bookmarks.tick().await; // the first one is immediate
    loop {
        tokio::select! {
            biased;
            item = stream.next() => match item {
                Some(Ok(item)) => {
                    let revision = item.revision;
                    let mut state = shared.state.lock();
                    let State { window, watchers } = &mut *state;
                    if let Some(event) = window.apply(item) {
                        watchers.dispatch(&event, prefix.len());
                    }
                    shared.progress.send_if_modified(|at| {
                        let newer = at.is_none_or(|at| at < revision);
                        if newer {
                            *at = Some(revision);
                        }
                        newer
                    });
                }
                Some(Err(error)) => return error,
                None => return StorageError::Lagged { prefix: prefix.to_owned() },
            },
            _ = bookmarks.tick() => {
                shared.state.lock().window.forget_old();
                if !shared.state.lock().watchers.wants_bookmarks() {
                    continue;
                }
                let fresh = storage.freshness(prefix).await.ok();
                let mut state = shared.state.lock();
                if let Some(fresh) = fresh && state.window.revision() >= fresh.last_change {
                    state.window.advance(fresh.revision);
                }
                let revision = state.window.revision();
                state.watchers.bookmark(revision);
            }
        }
    }
}

/// The caches of all resources: one per storage prefix, started when it is first asked for.
pub struct Caches {
    storage: Arc<dyn Storage>,
    running: Mutex<HashMap<String, Arc<Cacher>>>,
}

impl Caches {
    /// No cache yet.
    pub fn new(storage: Arc<dyn Storage>) -> Arc<Self> {
        Arc::new(Caches { storage, running: Mutex::default() })
    }

    /// The cache of a storage prefix (without or with its last slash).
    pub fn of(&self, prefix: &str) -> Arc<Cacher> {
        let prefix = format!("{}/", prefix.trim_end_matches('/'));
        let mut running = self.running.lock();
        let start = || Cacher::start(self.storage.clone(), &prefix);
        running.entry(prefix.clone()).or_insert_with(start).clone()
    }

    /// Stops the cache of a prefix (its CustomResourceDefinition went away).
    pub fn stop(&self, prefix: &str) {
        self.running.lock().remove(&format!("{}/", prefix.trim_end_matches('/')));
    }

    /// Ends all caches: the store is about to go, and that is no news then.
    pub fn stop_all(&self) {
        self.running.lock().values().for_each(|cacher| cacher.stop.cancel());
    }

    /// The store below.
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }
}

#[cfg(test)]
mod tests;
