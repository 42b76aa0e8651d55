//! Snapshot: the whole store as a database that etcd can start from.
//!
//! `etcdctl snapshot save` writes what comes into a file; `snapshot status` and `snapshot restore` read it. It holds the present (every live
//! key at one revision), not the history.
//!
//! # In Kubernetes
//! etcd's `server/etcdserver/api/v3rpc/maintenance.go`, `server/mvcc/kvstore.go` (the buckets).

use bytes::Bytes;
use futures::{StreamExt, stream};
use http::Response;
use prost::Message;
use sha2::{Digest, Sha256};

use super::grpc::{Body, Failure, framed, response};
use super::messages as pb;
use super::{Server, bolt, kv};
use crate::storage::{ListRequest, Revision};

const CHUNK_BYTES: usize = 32 << 10;

/// Streams a snapshot, and its hash at the end.
///
/// # Errors
/// The store can't be read.
pub async fn serve(server: &Server) -> Result<Response<Body>, Failure> {
    let page = server.storage.list(ListRequest::all("")).await?;
    let mut items: Vec<bolt::Item> = Vec::with_capacity(page.items.len());
    for found in &page.items {
        items.push((key_of(found.revision), kv::shown(found, false, 0).encode_to_vec()));
    }
    items.sort();
    let meta = vec![
        (b"consistent_index".to_vec(), page.revision.0.to_be_bytes().to_vec()),
        (b"finishedCompactRev".to_vec(), key_of(page.revision)),
        (b"scheduledCompactRev".to_vec(), key_of(page.revision)),
    ];
    let mut file = bolt::database(&[("key", items), ("meta", meta)]);
    let sum = Sha256::digest(&file);
    file.extend(sum);
    let (header, total) = (server.header().await?, file.len());
    let file = Bytes::from(file);
    let chunks = (0..total).step_by(CHUNK_BYTES).map(move |from| {
        let to = (from + CHUNK_BYTES).min(total);
        let blob = file.slice(from..to);
        Ok(framed(&pb::SnapshotResponse {
            header: header.clone(),
            remaining_bytes: (total - to) as u64,
            blob,
        }))
    });
    Ok(response(stream::iter(chunks).boxed()))
}

/// A revision as etcd's database has it: the number, `_`, and which write in it.
fn key_of(revision: Revision) -> Vec<u8> {
    [&revision.0.to_be_bytes()[..], b"_", &0_u64.to_be_bytes()].concat()
}
