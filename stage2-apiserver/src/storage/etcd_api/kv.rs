//! Keys and values: Range, Put, DeleteRange, Txn and Compact over our store.
//!
//! A transaction compares, then does one of two lists of operations. Our store writes one key at a time, if it is as expected; so a transaction
//! with one write is that write, expecting what was compared, and tried again when somebody was faster.
//!
//! # In Kubernetes
//! etcd's `server/etcdserver/apply.go`, `server/mvcc/kvstore_txn.go`.

use bytes::Bytes;

use super::grpc::Failure;
use super::messages as pb;
use super::{Server, header_at};
use crate::storage::{Expect, KeyValue, ListRequest, Revision, StorageError, Write};

/// Rounds after which a write gives up; each is lost to somebody who won.
const MAX_ROUNDS: usize = 100;

/// Which keys a request means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Keys {
    /// One.
    One(String),
    /// From the first (included) to the second (excluded; `None`: to the last of all).
    Range(String, Option<String>),
}

impl Keys {
    /// Of a request's two fields. An end of one zero byte means "to the last".
    ///
    /// # Errors
    /// A key that isn't UTF-8: none of ours is.
    pub fn new(key: &[u8], end: &[u8]) -> Result<Keys, Failure> {
        let text = |bytes: &[u8]| match std::str::from_utf8(bytes) {
            Ok(text) => Ok(text.to_owned()),
            Err(_) => Err(Failure::invalid("keys of this store are UTF-8")),
        };
        // "From the start" is a zero byte, too.
        let first = if key == [0] { String::new() } else { text(key)? };
        match end {
            [] => Ok(Keys::One(first)),
            [0] => Ok(Keys::Range(first, None)),
            end => Ok(Keys::Range(first, Some(text(end)?))),
        }
    }

    /// Whether a key is meant.
    pub fn contain(&self, key: &str) -> bool {
        match self {
            Keys::One(one) => one == key,
            Keys::Range(first, None) => first.as_str() <= key,
            Keys::Range(first, Some(end)) => first.as_str() <= key && key < end.as_str(),
        }
    }

    /// The longest text with which all of them begin.
    fn common_prefix(&self) -> String {
        match self {
            Keys::One(key) => key.clone(),
            Keys::Range(_, None) => String::new(),
            Keys::Range(first, Some(end)) => {
                let same = first.char_indices().zip(end.chars()).take_while(|((_, a), b)| a == b);
                let length = same.last().map_or(0, |((at, c), _)| at + c.len_utf8());
                // `/a/` to `/a0`: the end is the prefix with its last character counted up.
                let (next, rest) = (end[length..].chars().next(), &first[length..]);
                let last = rest.chars().next();
                match (last, next) {
                    (Some(a), Some(b))
                        if u32::from(a) + 1 == u32::from(b) && end.len() == length + b.len_utf8() =>
                    {
                        first[..length + a.len_utf8()].to_owned()
                    }
                    _ => first[..length].to_owned(),
                }
            }
        }
    }
}

/// As etcd shows a key; what the index doesn't know is as if each write were the first.
pub fn shown(found: &KeyValue, keys_only: bool, lease: i64) -> pb::KeyValue {
    let revision = i64::try_from(found.revision.0).unwrap_or(i64::MAX);
    pb::KeyValue {
        key: Bytes::from(found.key.clone().into_bytes()),
        create_revision: revision,
        mod_revision: revision,
        version: 1,
        value: if keys_only { Bytes::new() } else { found.value.clone() },
        lease,
    }
}

impl Server {
    /// All that a request means, as of a revision (0: now), in key order.
    async fn find(&self, keys: &Keys, revision: i64) -> Result<(Vec<KeyValue>, Revision), Failure> {
        let mut request = ListRequest::all(&keys.common_prefix());
        request.revision = u64::try_from(revision).ok().filter(|r| *r > 0).map(Revision);
        let page = self.storage.list(request).await?;
        Ok((page.items.into_iter().filter(|item| keys.contain(&item.key)).collect(), page.revision))
    }

    /// Reads keys.
    ///
    /// # Errors
    /// A revision that is compacted or not there yet.
    pub async fn range(&self, request: &pb::RangeRequest) -> Result<pb::RangeResponse, Failure> {
        let keys = Keys::new(&request.key, &request.range_end)?;
        let (mut found, revision) = self.find(&keys, request.revision).await?;
        sort(&mut found, request.sort_order, request.sort_target);
        let count = i64::try_from(found.len()).unwrap_or(i64::MAX);
        let limit = usize::try_from(request.limit).ok().filter(|limit| *limit > 0).unwrap_or(usize::MAX);
        let more = found.len() > limit;
        found.truncate(if request.count_only { 0 } else { limit });
        let kvs = found.iter().map(|kv| shown(kv, request.keys_only, self.leases.of(&kv.key))).collect();
        let now = self.header().await?;
        let header = now.or_else(|| header_at(revision));
        Ok(pb::RangeResponse { header, kvs, more: more && !request.count_only, count })
    }

    /// Writes a key.
    ///
    /// # Errors
    /// The lease isn't there, or the store is away.
    pub async fn put(&self, request: &pb::PutRequest) -> Result<pb::PutResponse, Failure> {
        let Keys::One(key) = Keys::new(&request.key, &[])? else { unreachable!("there is no end") };
        self.leases.check(request.lease)?;
        let before = self.storage.get(&key).await?;
        let revision = self.storage.commit(&key, Expect::Anything, Write::Put(request.value.clone())).await?;
        self.leases.attach(request.lease, &key);
        let prev_kv = before.filter(|_| request.prev_kv).map(|kv| shown(&kv, false, 0));
        Ok(pb::PutResponse { header: header_at(revision), prev_kv })
    }

    /// Deletes keys, one after the other.
    ///
    /// # Errors
    /// The store is away.
    pub async fn delete(&self, request: &pb::DeleteRangeRequest) -> Result<pb::DeleteRangeResponse, Failure> {
        let keys = Keys::new(&request.key, &request.range_end)?;
        let (found, _) = self.find(&keys, 0).await?;
        let mut prev_kvs = Vec::new();
        let mut deleted = 0;
        for item in found {
            match self.storage.commit(&item.key, Expect::At(item.revision), Write::Delete).await {
                Ok(_) => {
                    deleted += 1;
                    self.leases.detach(&item.key);
                    prev_kvs.extend(request.prev_kv.then(|| shown(&item, false, 0)));
                }
                Err(StorageError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(pb::DeleteRangeResponse { header: self.header().await?, deleted, prev_kvs })
    }

    /// Compares, then does one list of operations.
    ///
    /// # Errors
    /// Several writes in one list.
    pub async fn txn(&self, request: &pb::TxnRequest) -> Result<pb::TxnResponse, Failure> {
        for list in [&request.success, &request.failure] {
            if list.iter().filter(|op| op.put.is_some() || op.delete.is_some()).count() > 1 {
                return Err(Failure::unimplemented("a transaction with several writes"));
            }
        }
        for _ in 0..MAX_ROUNDS {
            let mut compared = Vec::new();
            let mut succeeded = true;
            for compare in &request.compare {
                let Keys::One(key) = Keys::new(&compare.key, &[])? else { unreachable!("there is no end") };
                let found = self.storage.get(&key).await?;
                succeeded &= holds(compare, found.as_ref());
                compared.push((key, found.map_or(Expect::Absent, |kv| Expect::At(kv.revision))));
            }
            let operations = if succeeded { &request.success } else { &request.failure };
            if let Some(responses) = self.operate(operations, &compared).await? {
                return Ok(pb::TxnResponse { header: self.header().await?, succeeded, responses });
            }
        }
        Err(Failure::new(14, "etcdserver: too many requests"))
    }

    /// Does operations; `None` when what was compared is no longer so.
    async fn operate(
        &self,
        operations: &[pb::RequestOp],
        compared: &[(String, Expect)],
    ) -> Result<Option<Vec<pb::ResponseOp>>, Failure> {
        let mut responses = Vec::new();
        for operation in operations {
            let mut response = pb::ResponseOp::default();
            if let Some(range) = &operation.range {
                response.range = Some(self.range(range).await?);
            }
            if let Some(put) = &operation.put {
                self.leases.check(put.lease)?;
                let write = Write::Put(put.value.clone());
                let Some((key, revision)) = self.expecting(&put.key, compared, write).await? else {
                    return Ok(None);
                };
                self.leases.attach(put.lease, &key);
                response.put = Some(pb::PutResponse { header: header_at(revision), prev_kv: None });
            }
            if let Some(delete) = &operation.delete {
                if delete.range_end.is_empty() && compared.iter().any(|(key, _)| key.as_bytes() == delete.key)
                {
                    response.delete = Some(match self.compared_delete(delete, compared).await? {
                        Some(deleted) => deleted,
                        None => return Ok(None),
                    });
                } else {
                    response.delete = Some(self.delete(delete).await?);
                }
            }
            responses.push(response);
        }
        Ok(Some(responses))
    }

    /// Deletes a key that was compared; what wasn't there stays so. `None` when it is no longer as it was.
    async fn compared_delete(
        &self,
        delete: &pb::DeleteRangeRequest,
        compared: &[(String, Expect)],
    ) -> Result<Option<pb::DeleteRangeResponse>, Failure> {
        let was = compared.iter().find(|(key, _)| key.as_bytes() == delete.key).map(|(_, expect)| *expect);
        if was == Some(Expect::Absent) {
            return Ok(Some(pb::DeleteRangeResponse { header: self.header().await?, ..Default::default() }));
        }
        let before =
            if delete.prev_kv { self.find(&Keys::new(&delete.key, &[])?, 0).await?.0 } else { Vec::new() };
        let Some((key, revision)) = self.expecting(&delete.key, compared, Write::Delete).await? else {
            return Ok(None);
        };
        self.leases.detach(&key);
        let prev_kvs = before.iter().map(|kv| shown(kv, false, 0)).collect();
        Ok(Some(pb::DeleteRangeResponse { header: header_at(revision), deleted: 1, prev_kvs }))
    }

    async fn expecting(
        &self,
        key: &[u8],
        compared: &[(String, Expect)],
        write: Write,
    ) -> Result<Option<(String, Revision)>, Failure> {
        let Keys::One(key) = Keys::new(key, &[])? else { unreachable!("there is no end") };
        let expect = compared.iter().find(|(k, _)| *k == key).map_or(Expect::Anything, |(_, e)| *e);
        match self.storage.commit(&key, expect, write).await {
            Ok(revision) => Ok(Some((key, revision))),
            Err(StorageError::Conflict { .. }) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Forgets history.
    ///
    /// # Errors
    /// It is forgotten already, or hasn't happened.
    pub async fn compact(&self, request: &pb::CompactionRequest) -> Result<pb::HeaderOnly, Failure> {
        let at = u64::try_from(request.revision).map_err(|_| Failure::invalid("negative revision"))?;
        let current = self.storage.freshness("").await?.revision;
        if at > current.0 {
            return Err(StorageError::Future { requested: Revision(at), current }.into());
        }
        self.storage.compact(Revision(at)).await?;
        Ok(pb::HeaderOnly { header: self.header().await? })
    }
}

/// One condition of a transaction.
fn holds(compare: &pb::Compare, found: Option<&KeyValue>) -> bool {
    use std::cmp::Ordering;
    let revision = found.map_or(0, |kv| i64::try_from(kv.revision.0).unwrap_or(i64::MAX));
    let ordering = match compare.target {
        0 => i64::from(found.is_some()).cmp(&compare.version.unwrap_or(0)),
        1 => revision.cmp(&compare.create_revision.unwrap_or(0)),
        2 => revision.cmp(&compare.mod_revision.unwrap_or(0)),
        3 => match found {
            None => return false,
            Some(kv) => kv.value.cmp(compare.value.as_ref().unwrap_or(&Bytes::new())),
        },
        _ => return false,
    };
    match compare.result {
        0 => ordering == Ordering::Equal,
        1 => ordering == Ordering::Greater,
        2 => ordering == Ordering::Less,
        _ => ordering != Ordering::Equal,
    }
}

/// `--order` and `--sort-by`: 0 none, 1 ascending, 2 descending; by key, version, creation, change or value.
fn sort(found: &mut [KeyValue], order: i32, target: i32) {
    match (order, target) {
        (0, _) => return,
        (_, 1) => {}
        (_, 2 | 3) => found.sort_by_key(|kv| kv.revision),
        (_, 4) => found.sort_by(|a, b| a.value.cmp(&b.value)),
        _ => found.sort_by(|a, b| a.key.cmp(&b.key)),
    }
    if order == 2 {
        found.reverse();
    }
}
