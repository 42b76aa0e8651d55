//! etcd storage: the same promises, kept by etcd.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::store`] commits. After: etcd has the write, and its watch stream brings it
//! to [`crate::watch_cache`].
//!
//! A commit is etcd's smallest transaction: *if the key's mod_revision is the expected one, then put, else get*. A list is a
//! range at a revision, in pieces that fit a message. All watching goes over **one** stream that feeds the [`Hub`]: etcd then
//! sends each change once however many caches there are, and because the stream carries every key, its last event
//! says how far we are. That is how a consistent read is answered from a cache on etcd 3.4.23, whose progress requests can
//! overtake events (etcd issue 15220, fixed in 3.4.25).
//!
//! # Invariants
//! 1. Nothing is believed that etcd didn't acknowledge; a commit whose answer was lost is reported as unavailable, and the
//!    writer finds out by reading.
//! 2. When the stream loses its place, all watchers are cut off; their caches list again.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/etcd3/store.go`, `watcher.go`. Left out: one stream per resource (here one for all), user and
//! password, a key prefix of its own for each cluster (`--etcd-prefix`).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{
    Certificate, Client, CompactionOptions, Compare, CompareOp, ConnectOptions, GetOptions, Identity,
    KvClient, TlsOptions, Txn, TxnOp, TxnOpResponse,
};
use futures::future::{self, BoxFuture};
use futures::{FutureExt, StreamExt};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::hub::Hub;
use super::{
    Expect, Freshness, KeyValue, ListRequest, Page, Revision, Storage, StorageError, WatchStream, Write,
    etcd_hub,
};

/// Keys that one range request asks for.
const RANGE_CHUNK: usize = 1000;
/// Largest message that is accepted; the default of 4 MiB is less than a page of large Secrets.
const MESSAGE_BYTES: usize = 512 << 20;
/// How long a consistent read waits for the watch stream.
const FRESH_TIMEOUT: Duration = Duration::from_secs(3);

/// Where etcd is and how to prove who we are.
#[derive(Debug, Clone, Default)]
pub struct EtcdConfig {
    /// `--etcd-servers`.
    pub endpoints: Vec<String>,
    /// `--etcd-cafile`, as PEM text.
    pub ca_pem: Option<String>,
    /// `--etcd-certfile` and `--etcd-keyfile`, as PEM text.
    pub client_pem: Option<(String, String)>,
}

/// See the module's text.
pub struct EtcdStorage {
    kv: KvClient,
    hub: Arc<Hub>,
    closing: CancellationToken,
    _stop: DropGuard,
}

pub(super) fn unavailable(error: impl std::fmt::Display) -> StorageError {
    StorageError::Unavailable(error.to_string())
}

impl EtcdConfig {
    pub(super) async fn connect(&self) -> Result<Client, StorageError> {
        let mut options = ConnectOptions::new()
            .with_connect_timeout(Duration::from_secs(5))
            .with_keep_alive(Duration::from_secs(30), Duration::from_secs(10))
            .with_keep_alive_while_idle(true);
        if let Some(ca) = &self.ca_pem {
            let mut tls = TlsOptions::new().ca_certificate(Certificate::from_pem(ca));
            if let Some((certificate, key)) = &self.client_pem {
                tls = tls.identity(Identity::from_pem(certificate, key));
            }
            options = options.with_tls(tls);
        }
        Client::connect(&self.endpoints, Some(options)).await.map_err(unavailable)
    }
}

impl EtcdStorage {
    /// Connects, reads the revision and starts the watch stream (which reconnects by itself until the storage is dropped).
    ///
    /// # Errors
    /// [`StorageError::Unavailable`] when no endpoint answers.
    pub async fn connect(config: EtcdConfig) -> Result<Self, StorageError> {
        let client = config.connect().await?;
        let mut kv = client
            .kv_client()
            .max_decoding_message_size(MESSAGE_BYTES)
            .max_encoding_message_size(MESSAGE_BYTES);
        let revision = current_revision(&mut kv).await?;
        let hub = Arc::new(Hub::new(revision, etcd_hub::RECENT));
        let stop = CancellationToken::new();
        let watcher = client.watch_client().max_decoding_message_size(MESSAGE_BYTES);
        tokio::spawn(etcd_hub::run(watcher, kv.clone(), hub.clone(), stop.clone()));
        Ok(EtcdStorage { kv, hub, closing: stop.clone(), _stop: stop.drop_guard() })
    }

    /// Ends the watch stream when it is cancelled: before etcd itself is stopped, so that its end is no news.
    pub fn closing(&self) -> CancellationToken {
        self.closing.clone()
    }

    async fn list_all(&self, request: ListRequest) -> Result<Page, StorageError> {
        let mut kv = self.kv.clone();
        let end = prefix_end(&request.prefix);
        let mut start = request.start.unwrap_or_else(|| request.prefix.clone());
        let mut page =
            Page { items: Vec::new(), revision: request.revision.unwrap_or_default(), remaining: 0 };
        loop {
            let wanted = match request.limit {
                0 => RANGE_CHUNK,
                limit => RANGE_CHUNK.min(limit - page.items.len()),
            };
            let options = GetOptions::new()
                .with_range(end.clone())
                .with_limit(i64::try_from(wanted).unwrap_or(i64::MAX))
                .with_revision(i64::try_from(page.revision.0).unwrap_or(i64::MAX));
            let mut answer = kv
                .get(start.clone(), Some(options))
                .await
                .map_err(|error| read_error(&error, page.revision, self.hub.position()))?;
            if page.revision == Revision(0) {
                page.revision = header_revision(answer.header());
            }
            let more = answer.more();
            let count = u64::try_from(answer.count()).unwrap_or_default();
            let kvs = answer.take_kvs();
            page.remaining = count.saturating_sub(kvs.len() as u64);
            page.items.extend(kvs.into_iter().map(key_value));
            let full = request.limit != 0 && page.items.len() >= request.limit;
            match page.items.last() {
                Some(last) if more && !full => start = format!("{}\0", last.key),
                _ => return Ok(page),
            }
        }
    }

    async fn transact(&self, key: &str, expect: Expect, write: Write) -> Result<Revision, StorageError> {
        let expected = match (expect, &write) {
            (Expect::Absent, _) => Some((CompareOp::Equal, 0)),
            (Expect::At(revision), _) => {
                Some((CompareOp::Equal, i64::try_from(revision.0).unwrap_or(i64::MAX)))
            }
            (Expect::Anything, Write::Delete) => Some((CompareOp::Greater, 0)),
            (Expect::Anything, Write::Put(_)) => None,
        };
        let operation = match write {
            Write::Put(value) => TxnOp::put(key, value, None),
            Write::Delete => TxnOp::delete(key, None),
        };
        let mut txn = Txn::new();
        if let Some((op, revision)) = expected {
            txn = txn.when([Compare::mod_revision(key, op, revision)]);
        }
        let txn = txn.and_then([operation]).or_else([TxnOp::get(key, None)]);
        let answer = self.kv.clone().txn(txn).await.map_err(write_error)?;
        if answer.succeeded() {
            return Ok(header_revision(answer.header()));
        }
        let current = answer.op_responses().into_iter().find_map(|response| match response {
            TxnOpResponse::Get(mut get) => get.take_kvs().into_iter().next().map(key_value),
            _ => None,
        });
        Err(StorageError::Conflict { key: key.to_owned(), current })
    }
}

pub(super) fn header_revision(header: Option<&etcd_client::ResponseHeader>) -> Revision {
    Revision(header.map_or(0, |h| u64::try_from(h.revision()).unwrap_or_default()))
}

/// The revision of a linearizable read.
pub(super) async fn current_revision(kv: &mut KvClient) -> Result<Revision, StorageError> {
    let answer =
        kv.get("/registry/", Some(GetOptions::new().with_count_only())).await.map_err(unavailable)?;
    Ok(header_revision(answer.header()))
}

pub(super) fn key_value(kv: etcd_client::KeyValue) -> KeyValue {
    let revision = Revision(u64::try_from(kv.mod_revision()).unwrap_or_default());
    let (key, value) = kv.into_key_value();
    KeyValue { key: String::from_utf8_lossy(&key).into_owned(), value: Bytes::from(value), revision }
}

/// The first key after all that start with a prefix.
fn prefix_end(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    while let Some(last) = end.last_mut() {
        if *last < 0xff {
            *last += 1;
            return end;
        }
        end.pop();
    }
    vec![0]
}

fn write_error(error: etcd_client::Error) -> StorageError {
    let text = error.to_string();
    // Above its limit for requests; further above, its gRPC doesn't even read them.
    match text.contains("request is too large") || text.contains("larger than max") {
        true => StorageError::TooLarge,
        false => StorageError::Unavailable(text),
    }
}

fn read_error(error: &etcd_client::Error, requested: Revision, current: Revision) -> StorageError {
    let text = error.to_string();
    if text.contains("has been compacted") {
        return StorageError::Compacted { requested, oldest: current };
    }
    if text.contains("future revision") {
        return StorageError::Future { requested, current };
    }
    StorageError::Unavailable(text)
}

impl Storage for EtcdStorage {
    fn get<'a>(&'a self, key: &'a str) -> BoxFuture<'a, Result<Option<KeyValue>, StorageError>> {
        let mut kv = self.kv.clone();
        async move {
            let mut answer = kv.get(key, None).await.map_err(unavailable)?;
            Ok(answer.take_kvs().into_iter().next().map(key_value))
        }
        .boxed()
    }

    fn list(&self, request: ListRequest) -> BoxFuture<'_, Result<Page, StorageError>> {
        self.list_all(request).boxed()
    }

    fn commit<'a>(
        &'a self,
        key: &'a str,
        expect: Expect,
        write: Write,
    ) -> BoxFuture<'a, Result<Revision, StorageError>> {
        self.transact(key, expect, write).boxed()
    }

    fn watch(&self, prefix: &str, after: Revision) -> WatchStream {
        self.hub
            .subscribe_after(prefix, after)
            .unwrap_or_else(|error| futures::stream::once(future::ready(Err(error))).boxed())
    }

    fn freshness<'a>(&'a self, prefix: &'a str) -> BoxFuture<'a, Result<Freshness, StorageError>> {
        let mut kv = self.kv.clone();
        async move {
            let revision = current_revision(&mut kv).await?;
            let reached = tokio::time::timeout(FRESH_TIMEOUT, self.hub.reached(revision)).await;
            reached.map_err(|_| unavailable("the watch stream of etcd is behind"))?;
            let last_change = self.hub.last_change(prefix);
            // The hub may be further by now: then so is the answer.
            Ok(Freshness { revision: revision.max(last_change), last_change })
        }
        .boxed()
    }

    fn compact(&self, at: Revision) -> BoxFuture<'_, Result<(), StorageError>> {
        let mut kv = self.kv.clone();
        async move {
            let revision = i64::try_from(at.0).unwrap_or(i64::MAX);
            match kv.compact(revision, None::<CompactionOptions>).await {
                Ok(_) => Ok(()),
                // Somebody, or we ourselves, compacted further already.
                Err(error) if error.to_string().contains("has been compacted") => Ok(()),
                Err(error) => Err(unavailable(error)),
            }
        }
        .boxed()
    }
}

#[cfg(test)]
mod tests;
