//! Embedded storage: the whole history in one file, and no acknowledged write lost.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::store`] commits. After: the write is on disk, and
//! [`crate::watch_cache`] hears of it.
//!
//! The file is a redb B-tree from revision to record (key and value, or a deletion): a log that can be read at any place.
//! The index over it ([`crate::storage::mvcc`]) lives in memory and is built again from the log at each start.
//!
//! Waiting for the disk is what a write costs, so writes share it: one thread takes all commits that are waiting, checks
//! and writes them in one transaction, and waits for the disk once (group commit). Sixteen writers at a time are
//! thus not sixteen times slower than one. Within a batch each commit sees those before it: the index is changed first and
//! the batch is the unit of failure; a disk that fails stops the thread, and every later commit says so.
//!
//! The subtle thing is the order *disk, then watchers, then the writer's answer*: nobody ever sees what a crash could take back.
//!
//! # Invariants
//! 1. A reply is sent only after the transaction is on disk.
//! 2. Readers take the disk snapshot while they hold the index, so what the index names is in the snapshot.
//! 3. The hub is never ahead of what readers can see.
//!
//! # In Kubernetes
//! etcd's `server/mvcc/kvstore.go` on bbolt; k3s' kine has the same shape on SQLite. Left out: replication, snapshots for backup
//! (the file may be copied when the server is stopped), defragmentation (redb reuses free pages).

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures::future::{self, BoxFuture};
use futures::{FutureExt, StreamExt};
use parking_lot::RwLock;
use redb::{Database, ReadTransaction, ReadableDatabase, ReadableTable};
use tokio::sync::{mpsc, oneshot};

use super::hub::{Hub, skip_until_after};
use super::memory::readable;
use super::mvcc::{Mvcc, Version};
use super::{
    Expect, Freshness, KeyValue, ListRequest, Page, Revision, Storage, StorageError, WatchItem, WatchStream,
    Write,
};

mod record;
mod writer;

use record::{LOG, META, Record};
use writer::Command;

/// Version of the file's layout; a file of another version is refused, not guessed at.
pub const FORMAT: u64 = 1;

/// Commits that may wait for the writer thread.
const QUEUE: usize = 1024;

/// What readers and the writer thread share.
struct Shared {
    database: Database,
    index: RwLock<Mvcc>,
    hub: Hub,
}

/// See the module's text.
pub struct EmbeddedStorage {
    shared: Arc<Shared>,
    commands: Option<mpsc::Sender<Command>>,
    writer: Option<std::thread::JoinHandle<()>>,
}

pub(super) fn unavailable(error: impl std::fmt::Display) -> StorageError {
    StorageError::Unavailable(error.to_string())
}

impl EmbeddedStorage {
    /// Opens the store's file, or makes it (mode 0600).
    ///
    /// # Errors
    /// The file is locked by another process, of another format, or can't be read.
    pub fn open(path: &Path) -> Result<Self, StorageError> {
        let database = Database::create(path).map_err(unavailable)?;
        record::restrict(path).map_err(unavailable)?;
        let index = load(&database)?;
        let hub = Hub::new(index.current(), 0);
        let shared = Arc::new(Shared { database, index: RwLock::new(index), hub });
        let (commands, queue) = mpsc::channel(QUEUE);
        let for_writer = shared.clone();
        let writer = std::thread::Builder::new()
            .name("store-writer".into())
            .spawn(move || writer::run(&for_writer, queue))
            .map_err(unavailable)?;
        Ok(EmbeddedStorage { shared, commands: Some(commands), writer: Some(writer) })
    }

    async fn ask<T>(&self, command: impl FnOnce(oneshot::Sender<T>) -> Command) -> Result<T, StorageError> {
        let stopped = || StorageError::Unavailable("the store's writer has stopped".into());
        let (reply, answer) = oneshot::channel();
        let commands = self.commands.as_ref().ok_or_else(stopped)?;
        commands.send(command(reply)).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())
    }
}

impl Drop for EmbeddedStorage {
    fn drop(&mut self) {
        self.commands = None; // the writer finishes its queue and ends
        if let Some(writer) = self.writer.take() {
            // A writer that panicked has already said so; there is nothing to add while dropping.
            let _ = writer.join();
        }
    }
}

/// Builds the index from the log; checks or writes the format.
fn load(database: &Database) -> Result<Mvcc, StorageError> {
    let write = database.begin_write().map_err(unavailable)?;
    let mut index = Mvcc::default();
    {
        let mut meta = write.open_table(META).map_err(unavailable)?;
        let number = |meta: &redb::Table<'_, &'static str, u64>, name: &str| {
            meta.get(name).map_err(unavailable).map(|found| found.map(|n| n.value()))
        };
        match number(&meta, "format")? {
            None => {
                meta.insert("format", FORMAT).map_err(unavailable)?;
            }
            Some(FORMAT) => {}
            Some(other) => {
                return Err(StorageError::Unavailable(format!(
                    "the store's file has format {other}, this version reads {FORMAT}"
                )));
            }
        }
        let log = write.open_table(LOG).map_err(unavailable)?;
        for entry in log.iter().map_err(unavailable)? {
            let (revision, bytes) = entry.map_err(unavailable)?;
            let record = Record::decode(bytes.value()).ok_or_else(|| {
                StorageError::Unavailable(format!("record {} of the store is damaged", revision.value()))
            })?;
            let version = Version { revision: Revision(revision.value()), live: record.value.is_some() };
            index.apply(record.key, version);
        }
        let current = number(&meta, "current")?.unwrap_or_default();
        let compacted = number(&meta, "compacted")?.unwrap_or_default();
        index.restore(Revision(current), Revision(compacted));
    }
    write.commit().map_err(unavailable)?;
    Ok(index)
}

impl Shared {
    /// Runs a read on index and disk as of one moment.
    fn read<T>(
        &self,
        read: impl FnOnce(&Mvcc) -> Result<T, StorageError>,
    ) -> Result<(T, ReadTransaction), StorageError> {
        let index = self.index.read();
        let found = read(&index)?;
        let snapshot = self.database.begin_read().map_err(unavailable)?;
        Ok((found, snapshot))
    }

    fn list(&self, request: &ListRequest) -> Result<Page, StorageError> {
        let ((range, revision), snapshot) = self.read(|index| {
            let revision = readable(index, request.revision)?;
            Ok((index.range(&request.prefix, request.start.as_deref(), request.limit, revision), revision))
        })?;
        let log = snapshot.open_table(LOG).map_err(unavailable)?;
        let items = range.found.iter().map(|(key, at)| record::key_value(&log, key, *at));
        Ok(Page { items: items.collect::<Result<_, _>>()?, revision, remaining: range.remaining })
    }

    /// What a watcher missed between its start and its subscription.
    fn missed(&self, prefix: &str, after: Revision, to: Revision) -> Result<Vec<WatchItem>, StorageError> {
        let (changes, snapshot) = self.read(|index| {
            let oldest = index.compacted();
            if after < oldest {
                return Err(StorageError::Compacted { requested: after, oldest });
            }
            Ok(index.changes(prefix, after, to))
        })?;
        let log = snapshot.open_table(LOG).map_err(unavailable)?;
        let mut items = Vec::with_capacity(changes.len());
        for change in changes {
            let previous = change.previous.map(|at| record::key_value(&log, &change.key, at)).transpose()?;
            let value: Option<Bytes> = match change.version.live {
                true => Some(record::key_value(&log, &change.key, change.version.revision)?.value),
                false => None,
            };
            let (key, revision) = (change.key.to_string(), change.version.revision);
            items.push(WatchItem { key, revision, value, previous });
        }
        Ok(items)
    }
}

impl Storage for EmbeddedStorage {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<KeyValue>, StorageError>> {
        let found =
            self.shared.read(|index| Ok(index.get(key, index.current()))).and_then(|(at, snapshot)| {
                let Some(at) = at else { return Ok(None) };
                let log = snapshot.open_table(LOG).map_err(unavailable)?;
                record::key_value(&log, key, at).map(Some)
            });
        future::ready(found).boxed()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, StorageError>> {
        let shared = self.shared.clone();
        // Thousands of records take milliseconds: too long for a thread that serves connections.
        let read = tokio::task::spawn_blocking(move || shared.list(&request));
        async move { read.await.map_err(unavailable)? }.boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        write: Write,
    ) -> BoxFuture<'a, Result<Revision, StorageError>> {
        let key = key.to_owned();
        let asked = async move {
            write.check_size()?;
            self.ask(|reply| Command::Commit { key, expect, write, reply }).await?
        };
        asked.boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> WatchStream {
        // Subscribe first: what is committed while the past is read arrives through the hub.
        let subscription = self.shared.hub.subscribe(prefix);
        match self.shared.missed(prefix, after, subscription.from) {
            Ok(missed) => futures::stream::iter(missed.into_iter().map(Ok))
                .chain(skip_until_after(subscription.stream, after))
                .boxed(),
            Err(error) => futures::stream::once(future::ready(Err(error))).boxed(),
        }
    }

    fn freshness<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Freshness, StorageError>> {
        // The hub's position is the last acknowledged write or newer (it is published before the reply).
        let revision = self.shared.hub.position();
        let last_change = self.shared.hub.last_change(prefix);
        future::ready(Ok(Freshness { revision: revision.max(last_change), last_change })).boxed()
    }

    fn compact(&self, at: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        async move { self.ask(|reply| Command::Compact { at, reply }).await? }.boxed()
    }
}

#[cfg(test)]
mod tests;
