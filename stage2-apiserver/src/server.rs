//! The server: sockets, TLS and HTTP, and the parts that every request shares.
//!
//! *Step 2 of a pod's journey.* Before: kubectl opened a connection. After: [`crate::filters`] takes each request
//! through the gates.
//!
//! There can be several listeners: loopback for people and the control plane, the bridge address for nodes (added when the
//! bridge exists). Each connection speaks HTTP/1.1 or HTTP/2 as TLS negotiated; a client certificate is asked for
//! but not required, because tokens and anonymous requests have none.
//!
//! Stopping is graceful: no new connections, running requests end by themselves, watches are told to end (their
//! clients reconnect elsewhere, or wait), and after a grace period whatever is left is cut.
//!
//! # Invariants
//! 1. A client certificate that the client CA didn't sign identifies nobody: the request is answered 401, not dropped in the
//!    handshake.
//! 2. A broken connection or handshake never ends the listener.
//!
//! # In Kubernetes
//! `apiserver/pkg/server/secure_serving.go`, `genericapiserver.go`. Left out: plain HTTP, lifecycle signals, egress selector.
#![expect(clippy::disallowed_methods, reason = "shell: listens and reads the clock")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::server::graceful::GracefulShutdown;
use parking_lot::{Mutex, RwLock};
use stage1_kubectl::client::Dial;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use crate::admission;
use crate::admission::policy::Policies;
use crate::admission::webhook::dispatch::Webhooks;
use crate::aggregation::Aggregator;
use crate::allocator::service::ServiceAllocators;
use crate::audit::AuditLog;
use crate::authentication::Authenticator;
use crate::authentication::x509::PeerCertificates;
use crate::authorization::ClusterAuthorizer;
use crate::custom_resources::CustomResources;
use crate::filters;
use crate::filters::fairness::Fairness;
use crate::filters::in_flight::InFlight;
use crate::metrics::Metrics;
use crate::store::Stores;
use crate::streaming::KubeletClient;

pub mod tls;

/// How long running requests may take after a stop was asked for.
pub const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

// ANCHOR: api-server
/// Everything that requests share.
pub struct ApiServer {
    /// Objects: the store and one watch cache a resource.
    pub stores: Stores,
    /// Kinds that users define.
    pub customs: Arc<CustomResources>,
    /// Who are you?
    pub authenticator: Authenticator,
    /// May you?
    pub authorizer: Arc<ClusterAuthorizer>,
    /// The plugins of gates two and three.
    pub admission: admission::Chain,
    /// Rules in CEL that are asked after the plugins.
    pub policies: Policies,
    /// Programs outside that are asked after both.
    pub webhooks: Webhooks,
    /// Service addresses and node ports that are taken.
    pub allocators: Mutex<ServiceAllocators>,
    /// Other API servers, and the way to them.
    pub aggregator: Aggregator,
    /// The way to the nodes.
    pub kubelet: Arc<KubeletClient>,
    /// The way to pods.
    pub pod_network: Dial,
    /// Who waits when there is too much to do; `None`: only the limit below.
    pub fairness: Option<Fairness>,
    /// How many run at a time.
    pub in_flight: InFlight,
    /// Counts and durations.
    pub metrics: Metrics,
    /// Who did what.
    pub audit: AuditLog,
    /// Addresses that are served, the advertised one first.
    pub addresses: RwLock<Vec<SocketAddr>>,
    /// Set when the server is to stop.
    pub shutdown: CancellationToken,
    /// Set when the objects that every cluster has are there.
    pub ready: CancellationToken,
}
// ANCHOR_END: api-server

/// Who is at the other end of a connection, as far as TLS knows.
#[derive(Debug, Clone)]
pub struct Peer {
    /// From where.
    pub address: SocketAddr,
    /// The certificates that the client showed.
    pub certificates: Arc<PeerCertificates>,
}

/// Binds an address and serves on it until the server stops. The answer is the address with the port that was chosen.
///
/// # Errors
/// The address can't be bound.
pub async fn listen(
    server: Arc<ApiServer>,
    address: SocketAddr,
    tls: Arc<rustls::ServerConfig>,
) -> std::io::Result<(SocketAddr, tokio::task::JoinHandle<()>)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    server.addresses.write().push(bound);
    tracing::info!(address = %bound, "Serving securely");
    Ok((bound, tokio::spawn(accept(server, listener, tokio_rustls::TlsAcceptor::from(tls)))))
}

/// Accepts until the server stops, then lets connections end.
async fn accept(server: Arc<ApiServer>, listener: TcpListener, tls: tokio_rustls::TlsAcceptor) {
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            accepted = listener.accept() => accepted,
            () = server.shutdown.cancelled() => break,
        };
        let Ok((socket, address)) = accepted else {
            // Out of file descriptors, most likely; give others a moment to close theirs.
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let _ = socket.set_nodelay(true);
        tokio::spawn(connection(server.clone(), tls.clone(), socket, address, graceful.watcher()));
    }
    drop(listener);
    let _ = tokio::time::timeout(SHUTDOWN_GRACE, graceful.shutdown()).await;
}

/// One connection: handshake, then requests until either side has enough.
async fn connection(
    server: Arc<ApiServer>,
    tls: tokio_rustls::TlsAcceptor,
    socket: tokio::net::TcpStream,
    address: SocketAddr,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let handshake = tokio::time::timeout(Duration::from_secs(10), tls.accept(socket));
    let stream = match handshake.await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%address, %error, "TLS handshake failed"),
        Err(_) => return tracing::debug!(%address, "TLS handshake timed out"),
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let chain = certificates.iter().map(|c| c.clone().into_owned()).collect();
    let certificates = Arc::new(PeerCertificates::new(chain));
    let peer = Peer { address, certificates };
    let service = service_fn(move |request| {
        let (server, peer) = (server.clone(), peer.clone());
        async move { Ok::<_, std::convert::Infallible>(filters::handle(server, peer, request).await) }
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder.http2().max_concurrent_streams(1000);
    let connection = builder.serve_connection_with_upgrades(TokioIo::new(stream), service);
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%address, %error, "Connection ended");
    }
}
