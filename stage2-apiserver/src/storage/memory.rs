//! Memory storage: the store without a disk.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::store`] commits. After: [`crate::watch_cache`] hears of it.
//!
//! For tests, for `--store memory`, and for readers: here a commit is what it is, without threads and files. Check the
//! expectation, take the next revision, keep the bytes, tell the hub; all under one lock, which is what makes the order of
//! the watch the order of the writes.
//!
//! # In Kubernetes
//! Has none: tests there start an etcd.

use std::collections::HashMap;

use bytes::Bytes;
use futures::future::{self, BoxFuture};
use futures::{FutureExt, StreamExt};
use parking_lot::Mutex;

use super::hub::{Hub, skip_until_after};
use super::mvcc::{Mvcc, Version};
use super::{
    Expect, Freshness, KeyValue, ListRequest, Page, Revision, Storage, StorageError, WatchItem, WatchStream,
    Write,
};

#[derive(Default)]
struct State {
    index: Mvcc,
    values: HashMap<u64, Bytes>,
}

/// See the module's text.
pub struct MemoryStorage {
    state: Mutex<State>,
    hub: Hub,
}

impl Default for MemoryStorage {
    fn default() -> Self {
        MemoryStorage { state: Mutex::default(), hub: Hub::new(Revision(0), 0) }
    }
}

impl State {
    fn key_value(&self, key: &str, revision: Revision) -> KeyValue {
        let value = self.values.get(&revision.0).cloned().unwrap_or_default();
        KeyValue { key: key.to_owned(), value, revision }
    }

    fn commit(&mut self, key: &str, expect: Expect, write: Write) -> Result<WatchItem, StorageError> {
        write.check_size()?;
        permit(&self.index, key, expect, &write).map_err(|there| {
            let current = there.map(|revision| self.key_value(key, revision));
            StorageError::Conflict { key: key.to_owned(), current }
        })?;
        let revision = Revision(self.index.current().0 + 1);
        let live = matches!(write, Write::Put(_));
        let change = self.index.apply(key, Version { revision, live });
        let previous = change.previous.map(|revision| self.key_value(key, revision));
        let value = match write {
            Write::Put(value) => Some(value),
            Write::Delete => None,
        };
        self.values.extend(value.clone().map(|value| (revision.0, value)));
        Ok(WatchItem { key: key.to_owned(), revision, value, previous })
    }

    fn list(&self, request: &ListRequest) -> Result<Page, StorageError> {
        let revision = readable(&self.index, request.revision)?;
        let range = self.index.range(&request.prefix, request.start.as_deref(), request.limit, revision);
        let items = range.found.iter().map(|(key, at)| self.key_value(key, *at)).collect();
        Ok(Page { items, revision, remaining: range.remaining })
    }
}

/// Whether a write may happen; on top of the expectation, only what is there can be deleted.
pub(super) fn permit(index: &Mvcc, key: &str, expect: Expect, write: &Write) -> Result<(), Option<Revision>> {
    index.check(key, expect)?;
    match write {
        Write::Delete if index.get(key, index.current()).is_none() => Err(None),
        _ => Ok(()),
    }
}

/// The revision to read at, if its history is there.
pub(super) fn readable(index: &Mvcc, asked: Option<Revision>) -> Result<Revision, StorageError> {
    let (oldest, current) = (index.compacted(), index.current());
    match asked {
        None => Ok(current),
        Some(requested) if requested > current => Err(StorageError::Future { requested, current }),
        Some(requested) if requested < oldest => Err(StorageError::Compacted { requested, oldest }),
        Some(requested) => Ok(requested),
    }
}

impl Storage for MemoryStorage {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<KeyValue>, StorageError>> {
        let state = self.state.lock();
        let found = state.index.get(key, state.index.current()).map(|at| state.key_value(key, at));
        future::ready(Ok(found)).boxed()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, StorageError>> {
        future::ready(self.state.lock().list(&request)).boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        write: Write,
    ) -> BoxFuture<'a, Result<Revision, StorageError>> {
        let mut state = self.state.lock();
        let outcome = state.commit(key, expect, write).map(|change| {
            let revision = change.revision;
            self.hub.publish([change]);
            revision
        });
        future::ready(outcome).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> WatchStream {
        let state = self.state.lock();
        let oldest = state.index.compacted();
        if after < oldest {
            let error = StorageError::Compacted { requested: after, oldest };
            return futures::stream::once(future::ready(Err(error))).boxed();
        }
        let subscription = self.hub.subscribe(prefix);
        let changes = state.index.changes(prefix, after, subscription.from);
        let missed: Vec<_> = changes
            .into_iter()
            .map(|change| {
                Ok(WatchItem {
                    key: change.key.to_string(),
                    revision: change.version.revision,
                    value: state.values.get(&change.version.revision.0).cloned(),
                    previous: change.previous.map(|at| state.key_value(&change.key, at)),
                })
            })
            .collect();
        futures::stream::iter(missed).chain(skip_until_after(subscription.stream, after)).boxed()
    }

    fn freshness<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Freshness, StorageError>> {
        let state = self.state.lock();
        let revision = state.index.current();
        let last_change = self.hub.last_change(prefix).min(revision);
        future::ready(Ok(Freshness { revision, last_change })).boxed()
    }

    fn compact(&self, at: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        let mut state = self.state.lock();
        for dead in state.index.compact(at) {
            state.values.remove(&dead.0);
        }
        future::ready(Ok(())).boxed()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[tokio::test]
    async fn memory_storage_passes_the_suite() {
        crate::storage::suite::run(Arc::new(MemoryStorage::default()), "/registry/").await;
    }
}
