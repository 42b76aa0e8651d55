//! The writer thread: many commits, one wait for the disk.
//!
//! *Step 2 of a pod's journey.* Before: commits wait in a queue. After: they are on disk, the hub has told their watchers,
//! and each writer has its answer.
//!
//! # Invariants
//! 1. Commits of one batch are checked in their order, each against the ones before.
//! 2. Index, hub and replies change only after the transaction is durable; after a failed transaction nothing changed.
//!
//! # In Kubernetes
//! etcd's `backend/batch_tx.go` collects writes for up to 100 ms; raft's log makes them durable before. Left out: the log (the
//! transaction itself is durable).

use std::collections::HashMap;

use bytes::Bytes;
use tokio::sync::{mpsc, oneshot};

use super::record::{self, LOG, META, Record};
use super::{Shared, unavailable};
use crate::storage::mvcc::Version;
use crate::storage::{Expect, Key, KeyValue, Revision, StorageError, WatchItem, Write};

/// Commits that share one transaction at most.
const BATCH: usize = 512;

/// What the thread is asked to do.
pub(super) enum Command {
    /// Write one key.
    Commit { key: Key, expect: Expect, write: Write, reply: oneshot::Sender<Result<Revision, StorageError>> },
    /// Forget the past.
    Compact { at: Revision, reply: oneshot::Sender<Result<(), StorageError>> },
}

type Reply = (oneshot::Sender<Result<Revision, StorageError>>, Result<Revision, StorageError>);

/// Serves commands until all senders are gone.
pub(super) fn run(shared: &Shared, mut queue: mpsc::Receiver<Command>) {
    let mut commands = Vec::with_capacity(BATCH);
    while queue.blocking_recv_many(&mut commands, BATCH) > 0 {
        let mut commits = Vec::with_capacity(commands.len());
        for command in commands.drain(..) {
            match command {
                Command::Commit { key, expect, write, reply } => commits.push((key, expect, write, reply)),
                Command::Compact { at, reply } => {
                    commit(shared, std::mem::take(&mut commits));
                    // Whoever asked may be gone.
                    let _ = reply.send(compact(shared, at));
                }
            }
        }
        commit(shared, commits);
    }
}

type Commit = (Key, Expect, Write, oneshot::Sender<Result<Revision, StorageError>>);

fn commit(shared: &Shared, commits: Vec<Commit>) {
    if commits.is_empty() {
        return;
    }
    let mut batch = Batch { next: shared.index.read().current().0 + 1, ..Batch::default() };
    let mut replies: Vec<Reply> = Vec::with_capacity(commits.len());
    for (key, expect, write, reply) in commits {
        let outcome = batch.add(shared, key, expect, write);
        replies.push((reply, outcome));
    }
    let written = if batch.changes.is_empty() { Ok(()) } else { batch.write(shared) };
    match written {
        Ok(()) => {
            let mut index = shared.index.write();
            for change in &batch.changes {
                let version = Version { revision: change.revision, live: change.value.is_some() };
                index.apply(&change.key, version);
            }
            drop(index);
            shared.hub.publish(batch.changes);
        }
        Err(error) => {
            for (_, outcome) in &mut replies {
                *outcome = Err(error.clone());
            }
        }
    }
    for (reply, outcome) in replies {
        let _ = reply.send(outcome);
    }
}

/// Writes that passed their check and are not on disk yet.
#[derive(Default)]
struct Batch {
    next: u64,
    changes: Vec<WatchItem>,
    /// What the batch itself made of a key.
    newest: HashMap<Key, Option<KeyValue>>,
}

impl Batch {
    fn current(&self, shared: &Shared, key: &str) -> Result<Option<KeyValue>, StorageError> {
        if let Some(newest) = self.newest.get(key) {
            return Ok(newest.clone());
        }
        let (at, snapshot) = shared.read(|index| Ok(index.get(key, index.current())))?;
        let Some(at) = at else { return Ok(None) };
        let log = snapshot.open_table(LOG).map_err(unavailable)?;
        record::key_value(&log, key, at).map(Some)
    }

    fn add(
        &mut self,
        shared: &Shared,
        key: Key,
        expect: Expect,
        write: Write,
    ) -> Result<Revision, StorageError> {
        let current = self.current(shared, &key)?;
        let holds = match expect {
            Expect::Anything => true,
            Expect::Absent => current.is_none(),
            Expect::At(revision) => current.as_ref().is_some_and(|c| c.revision == revision),
        };
        if !holds || (write == Write::Delete && current.is_none()) {
            return Err(StorageError::Conflict { key, current });
        }
        let revision = Revision(self.next);
        self.next += 1;
        let value: Option<Bytes> = match write {
            Write::Put(value) => Some(value),
            Write::Delete => None,
        };
        let newest = value.clone().map(|value| KeyValue { key: key.clone(), value, revision });
        self.newest.insert(key.clone(), newest);
        self.changes.push(WatchItem { key, revision, value, previous: current });
        Ok(revision)
    }

    /// One transaction, durable when it returns.
    fn write(&self, shared: &Shared) -> Result<(), StorageError> {
        let transaction = shared.database.begin_write().map_err(unavailable)?;
        {
            let mut log = transaction.open_table(LOG).map_err(unavailable)?;
            for change in &self.changes {
                let record = Record { key: &change.key, value: change.value.as_deref() };
                log.insert(change.revision.0, record.encode().as_slice()).map_err(unavailable)?;
            }
        }
        transaction.commit().map_err(unavailable)
    }
}

fn compact(shared: &Shared, at: Revision) -> Result<(), StorageError> {
    // The index forgets first: a reader that still holds an older snapshot keeps its pages.
    let (dead, current, compacted) = {
        let mut index = shared.index.write();
        (index.compact(at), index.current(), index.compacted())
    };
    let transaction = shared.database.begin_write().map_err(unavailable)?;
    {
        let mut log = transaction.open_table(LOG).map_err(unavailable)?;
        for revision in dead {
            log.remove(revision.0).map_err(unavailable)?;
        }
        let mut meta = transaction.open_table(META).map_err(unavailable)?;
        meta.insert("current", current.0).map_err(unavailable)?;
        meta.insert("compacted", compacted.0).map_err(unavailable)?;
    }
    transaction.commit().map_err(unavailable)
}
