//! Storage: one primitive that writes, and a stream that tells everyone what was written.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::store`] has an object that passed all gates. After: [`crate::watch_cache`]
//! hears of it, and through it every controller, scheduler and kubelet.
//!
//! Everything that Kubernetes promises about concurrency rests on this one trait. A write names what it believes to be there
//! ([`Expect`]) and is refused when that is wrong; each write gets the next [`Revision`], a number that orders all writes of
//! the cluster; and whoever knows a state and its revision can ask for all that came after, in order, none twice, none left
//! out. There are no transactions over several keys: Kubernetes does without, and that is why its controllers must converge
//! instead of being right at once.
//!
//! The subtle thing is reading *now*. A cache that follows the watch is always a little behind, so a consistent read must
//! know how far behind is too far. [`Storage::freshness`] answers with two revisions: the store's own, and the last one
//! at which anything under the prefix changed. A cache that saw the second is as good as the first.
//!
//! # Invariants
//! 1. Revisions of acknowledged writes strictly increase, over restarts too.
//! 2. An acknowledged write survives `kill -9` (memory storage excepted).
//! 3. A watch yields every change after its start once, in revision order, or ends with [`StorageError::Compacted`].
//! 4. A list at a revision sees exactly the writes up to it.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/interfaces.go` and etcd's KV and Watch API. Left out: leases (Events expire by a sweep), transactions
//! over several keys, encryption at rest.

use std::fmt;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::stream::BoxStream;

pub mod compaction;
pub mod embedded;
pub mod encryption;
#[cfg(feature = "etcd")]
pub mod etcd;
pub mod etcd_api;
#[cfg(feature = "etcd")]
mod etcd_hub;
#[cfg(feature = "etcd")]
pub mod etcd_process;
pub mod hub;
pub mod memory;
pub mod mvcc;
#[cfg(test)]
mod suite;

/// Position in the store's history: the number of the write that led to a state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Revision(pub u64);

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A storage key, `/registry/pods/default/web`.
pub type Key = String;

/// A value and the revision that wrote it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyValue {
    /// The key.
    pub key: Key,
    /// The value, JSON in practice.
    pub value: Bytes,
    /// The write that put it there.
    pub revision: Revision,
}

/// What etcd takes in one request (`--max-request-bytes`). The other stores take no more, so that what one holds fits into another.
pub const MAX_WRITE_BYTES: usize = 1536 * 1024;

impl Write {
    /// Whether the store takes a value of this size.
    ///
    /// # Errors
    /// [`StorageError::TooLarge`]
    pub fn check_size(&self) -> Result<(), StorageError> {
        match self {
            Write::Put(value) if value.len() > MAX_WRITE_BYTES => Err(StorageError::TooLarge),
            Write::Put(_) | Write::Delete => Ok(()),
        }
    }
}

// ANCHOR: storage
/// What a writer believes to be at the key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expect {
    /// Nothing is there.
    Absent,
    /// The value that this revision wrote is there.
    At(Revision),
    /// Whatever is there (used when a cluster is made, never for users' writes).
    Anything,
}

/// What a writer wants.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Write {
    /// This value.
    Put(Bytes),
    /// No value.
    Delete,
}

/// The store: a map from keys to bytes with one history.
pub trait Storage: Send + Sync + 'static {
    /// The value now; linearizable.
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<KeyValue>, StorageError>>;

    /// A page of the keys under a prefix, in key order, all as of one revision.
    fn list<'a>(&'a self, request: ListRequest) -> BoxFuture<'a, Result<Page, StorageError>>;

    /// Writes if `expect` holds, otherwise [`StorageError::Conflict`] with what is there. The answer is the write's
    /// revision; the write is durable.
    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        write: Write,
    ) -> BoxFuture<'a, Result<Revision, StorageError>>;

    /// Everything under `prefix` (which ends in a slash, or is empty) that changes after a revision.
    fn watch(&self, prefix: &str, after: Revision) -> WatchStream;

    /// How much a watcher of `prefix` must have seen to know all that is committed by now.
    fn freshness<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Freshness, StorageError>>;

    /// Forgets history before a revision; what is live at it stays.
    fn compact(&self, at: Revision) -> BoxFuture<'_, Result<(), StorageError>>;

    /// Whether a value is kept in a form that a write of the same value would renew (encryption with an old key).
    fn is_outdated<'a>(&'a self, _key: &'a str) -> BoxFuture<'a, Result<bool, StorageError>> {
        Box::pin(std::future::ready(Ok(false)))
    }
}
// ANCHOR_END: storage

/// Changes in order; after an error the stream is over.
pub type WatchStream = BoxStream<'static, Result<WatchItem, StorageError>>;

/// One change of one key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WatchItem {
    /// The key.
    pub key: Key,
    /// The write's revision.
    pub revision: Revision,
    /// The new value; `None`: deleted.
    pub value: Option<Bytes>,
    /// What was there before.
    pub previous: Option<KeyValue>,
}

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListRequest {
    /// Keys that start with this.
    pub prefix: String,
    /// From this key on (included); `None`: from the start.
    pub start: Option<Key>,
    /// At most so many; 0: all.
    pub limit: usize,
    /// As of this revision; `None`: now.
    pub revision: Option<Revision>,
}

impl ListRequest {
    /// All keys under a prefix, now.
    pub fn all(prefix: &str) -> Self {
        ListRequest { prefix: prefix.into(), ..ListRequest::default() }
    }
}

/// Part of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    /// In key order.
    pub items: Vec<KeyValue>,
    /// The revision that the page shows.
    pub revision: Revision,
    /// How many keys follow.
    pub remaining: u64,
}

/// How much a watcher must have seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Freshness {
    /// The store's revision.
    pub revision: Revision,
    /// The last revision up to `revision` that changed something under the prefix, as far as known; not more than `revision`.
    pub last_change: Revision,
}

/// Why the store said no.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StorageError {
    /// What the writer expected is not what is there.
    #[error("key {key} is not as expected")]
    Conflict {
        /// The key.
        key: Key,
        /// What is there.
        current: Option<KeyValue>,
    },
    /// The history asked for is gone.
    #[error("revision {requested} has been compacted, the oldest is {oldest}")]
    Compacted {
        /// What was asked for.
        requested: Revision,
        /// The oldest that can be had.
        oldest: Revision,
    },
    /// The history asked for hasn't happened.
    #[error("revision {requested} is in the future, the current one is {current}")]
    Future {
        /// What was asked for.
        requested: Revision,
        /// The store's revision.
        current: Revision,
    },
    /// The watcher was too slow; it must list again.
    #[error("watcher of {prefix} fell too far behind")]
    Lagged {
        /// What it watched.
        prefix: String,
    },
    /// The value is longer than the store takes.
    #[error("etcdserver: request is too large")]
    TooLarge,
    /// The store can't be reached or its disk failed.
    #[error("storage unavailable: {0}")]
    Unavailable(String),
}
