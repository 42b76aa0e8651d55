//! etcd's API over our own store: `etcdctl` looks into it as into the real one.
//!
//! *Step 2 of a pod's journey, seen from below.* Before: objects are committed under keys. After: `etcdctl get / --prefix --keys-only`
//! shows them, `watch` the history as it happens, `snapshot save` makes a file of everything.
//!
//! The port is off unless a flag names one, listens on loopback only, and asks for the client certificate that etcd itself would ask
//! for: whoever reaches it reads every Secret. It shows what is stored, not what is served: sealed values stay sealed.
//!
//! gRPC is HTTP/2 with five bytes before each message and a status in the trailers ([`grpc`]), little enough to be written out; the messages
//! are those of etcd's `rpc.proto` with the fields that its command line uses ([`messages`]).
//!
//! # Invariants
//! 1. A write through this port obeys the same compare-and-commit as the API server's.
//! 2. Values are the stored bytes, never decrypted.
//!
//! # In Kubernetes
//! etcd's `server/etcdserver/api/v3rpc`. Left out: creation revision and version of keys (the index doesn't keep them: both are shown as if
//! each write were the first), transactions with several writes, authentication by user, alarms, members to add or remove.
#![expect(clippy::disallowed_methods, reason = "shell: listens")]

pub mod bolt;
pub mod grpc;
pub mod kv;
pub mod lease;
pub mod messages;
pub mod snapshot;
pub mod watch;

use std::convert::Infallible;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use http::{Request, Response};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::{Revision, Storage, StorageError};
use grpc::{Body, Failure, unary};
use lease::Leases;
use messages as pb;

/// The version of etcd whose API this is.
const VERSION: &str = "3.5.0";
const MEMBER_ID: u64 = 1;
const CLUSTER_ID: u64 = 1;

/// The store behind the API.
pub struct Server {
    storage: Arc<dyn Storage>,
    leases: Leases,
}

/// Pause after a connection that couldn't be taken.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);
/// How long a client may take to introduce itself.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// Listens on loopback until stopped; the answer is the address.
///
/// # Errors
/// The port is taken.
pub async fn listen(
    storage: Arc<dyn Storage>,
    port: u16,
    tls: Arc<rustls::ServerConfig>,
    stop: CancellationToken,
) -> std::io::Result<(SocketAddr, tokio::task::JoinHandle<()>)> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await?;
    let address = listener.local_addr()?;
    let server = Arc::new(Server { storage, leases: Leases::default() });
    let acceptor = tokio_rustls::TlsAcceptor::from(tls);
    let expiry = lease::expire(server.clone());
    let serving = async move {
        loop {
            let Ok((socket, _)) = listener.accept().await else {
                // No file left, most likely: others will be closed.
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            };
            let (server, acceptor) = (server.clone(), acceptor.clone());
            tokio::spawn(async move {
                let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(socket));
                let Ok(Ok(stream)) = handshake.await else { return };
                let service = service_fn(move |request| answer(server.clone(), request));
                let builder = http2::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection(TokioIo::new(stream), service).await;
            });
        }
    };
    let task = tokio::spawn(async move {
        stop.run_until_cancelled(async { tokio::join!(serving, expiry) }).await;
    });
    Ok((address, task))
}

async fn answer(server: Arc<Server>, request: Request<Incoming>) -> Result<Response<Body>, Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body();
    let method = path.strip_prefix("/etcdserverpb.").unwrap_or("");
    let answered = match method {
        "KV/Range" => unary(body, |r: pb::RangeRequest| async move { server.range(&r).await }).await,
        "KV/Put" => unary(body, |r: pb::PutRequest| async move { server.put(&r).await }).await,
        "KV/DeleteRange" => {
            unary(body, |r: pb::DeleteRangeRequest| async move { server.delete(&r).await }).await
        }
        "KV/Txn" => unary(body, |r: pb::TxnRequest| async move { server.txn(&r).await }).await,
        "KV/Compact" => unary(body, |r: pb::CompactionRequest| async move { server.compact(&r).await }).await,
        "Watch/Watch" => Ok(watch::serve(server, body)),
        "Lease/LeaseGrant" => {
            unary(body, |r: pb::LeaseGrantRequest| async move { server.grant(&r).await }).await
        }
        "Lease/LeaseRevoke" => {
            unary(body, |r: pb::LeaseRevokeRequest| async move { server.revoke(&r).await }).await
        }
        "Lease/LeaseTimeToLive" => {
            unary(body, |r: pb::LeaseTimeToLiveRequest| async move { server.time_to_live(&r).await }).await
        }
        "Lease/LeaseLeases" => unary(body, |_: pb::Empty| async move { server.list_leases().await }).await,
        "Lease/LeaseKeepAlive" => Ok(lease::keep_alive(server, body)),
        "Maintenance/Status" => unary(body, |_: pb::Empty| async move { server.status().await }).await,
        "Maintenance/Snapshot" => snapshot::serve(&server).await,
        "Cluster/MemberList" => unary(body, |_: pb::Empty| async move { server.members().await }).await,
        _ => Err(Failure::unimplemented(&path)),
    };
    Ok(answered.unwrap_or_else(|failure| failure.response()))
}

impl Server {
    /// The store's revision, as every answer begins.
    async fn header(&self) -> Result<Option<pb::ResponseHeader>, Failure> {
        let now = self.storage.freshness("/").await?;
        Ok(header_at(now.revision))
    }

    async fn status(&self) -> Result<pb::StatusResponse, Failure> {
        let header = self.header().await?;
        let raft_index = header.as_ref().map_or(0, |header| header.revision.unsigned_abs());
        let version = VERSION.to_owned();
        Ok(pb::StatusResponse { header, version, db_size: 0, leader: MEMBER_ID, raft_index, raft_term: 1 })
    }

    async fn members(&self) -> Result<pb::MemberListResponse, Failure> {
        let member = pb::Member { id: MEMBER_ID, name: "kube-apiserver".into(), ..pb::Member::default() };
        Ok(pb::MemberListResponse { header: self.header().await?, members: vec![member] })
    }
}

/// A header for a revision.
fn header_at(revision: Revision) -> Option<pb::ResponseHeader> {
    let revision = i64::try_from(revision.0).unwrap_or(i64::MAX);
    Some(pb::ResponseHeader { cluster_id: CLUSTER_ID, member_id: MEMBER_ID, revision, raft_term: 1 })
}

impl From<StorageError> for Failure {
    fn from(error: StorageError) -> Self {
        match error {
            StorageError::Compacted { .. } => {
                Failure::new(11, "etcdserver: mvcc: required revision has been compacted")
            }
            StorageError::Future { .. } => {
                Failure::new(11, "etcdserver: mvcc: required revision is a future revision")
            }
            StorageError::TooLarge => Failure::new(3, error.to_string()),
            other => Failure::new(14, other.to_string()),
        }
    }
}

#[cfg(test)]
mod tests;
