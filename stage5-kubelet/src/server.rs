//! The kubelet's server: logs, exec, attach, port-forward, stats.
//!
//! *Step 5 of a pod's journey.* Before: the API server forwards `kubectl logs` or `kubectl exec`. After: the bytes of the container.
//!
//! The API server is the only regular client. It shows a certificate of the cluster's CA; everybody else must be allowed by the
//! API server itself, which is asked ([`auth`]). Sessions (exec, attach, port-forward) are not understood here at all: the
//! upgraded connection is joined with the runtime's streaming server, byte for byte ([`streams`]).
//!
//! # Invariants
//! 1. Without a certificate or token only `/healthz` answers.
//! 2. Paths name pods and containers, never files.
//!
//! # In Kubernetes
//! `pkg/kubelet/server/server.go`. Left out: the read-only port, checkpoints, `/run`, debugging handlers, `/configz`.
#![expect(clippy::disallowed_methods, reason = "shell: listens")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

use crate::kubelet::{Kubelet, KubeletError};

pub mod auth;
pub mod logs;
mod log_stream;
mod pods;
mod stats;
mod streams;

/// A body of any kind.
pub(crate) type Body = BoxBody<Bytes, std::io::Error>;

/// A peer that needs longer for its handshake is cut off.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(10);

/// A complete body.
pub(crate) fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

/// A plain text answer.
pub(crate) fn text(status: StatusCode, message: impl Into<String>) -> Response<Body> {
    let mut response = Response::new(full(message.into()));
    *response.status_mut() = status;
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}

/// A JSON answer.
pub(crate) fn json(value: &impl serde::Serialize) -> Response<Body> {
    let bytes = serde_json::to_vec(value).unwrap_or_default();
    let mut response = Response::new(full(bytes));
    let json = http::HeaderValue::from_static("application/json");
    response.headers_mut().insert(http::header::CONTENT_TYPE, json);
    response
}

/// Listens and serves until `shutdown`; returns the port.
///
/// # Errors
/// The address is taken, or the certificate is unusable.
pub async fn start(kubelet: &Arc<Kubelet>, shutdown: CancellationToken) -> Result<u16, KubeletError> {
    let failed = |e: &dyn std::fmt::Display| KubeletError::Server(e.to_string());
    let tls = auth::tls_config(&kubelet.config).map_err(|e| failed(&e))?;
    let acceptor = TlsAcceptor::from(Arc::new(tls));
    let address = SocketAddr::new(kubelet.config.address, kubelet.config.port);
    let listener =
        TcpListener::bind(address).await.map_err(|e| failed(&format!("listen on {address}: {e}")))?;
    let port = listener.local_addr().map_err(|e| failed(&e))?.port();
    info!(%address, port, "Starting to listen");
    let kubelet = kubelet.clone();
    tokio::spawn(async move {
        loop {
            let stream = tokio::select! {
                accepted = listener.accept() => match accepted {
                    Ok((stream, _)) => stream,
                    // Out of file descriptors: give others the time to close theirs.
                    Err(_) => { tokio::time::sleep(Duration::from_millis(100)).await; continue }
                },
                () = shutdown.cancelled() => return,
            };
            let (kubelet, acceptor, shutdown) = (kubelet.clone(), acceptor.clone(), shutdown.clone());
            tokio::spawn(
                async move { shutdown.run_until_cancelled(connection(kubelet, acceptor, stream)).await },
            );
        }
    });
    Ok(port)
}

async fn connection(kubelet: Arc<Kubelet>, acceptor: TlsAcceptor, stream: TcpStream) {
    let _ = stream.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await else {
        return;
    };
    let peer = stream.get_ref().1.peer_certificates().and_then(|c| c.first()).and_then(|c| auth::identity(c));
    let peer = Arc::new(peer);
    let service = service_fn(move |request: Request<Incoming>| {
        let (kubelet, peer) = (kubelet.clone(), peer.clone());
        async move { Ok::<_, std::convert::Infallible>(handle(&kubelet, peer.as_ref().as_ref(), request).await) }
    });
    let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    if let Err(error) = server.serve_connection_with_upgrades(TokioIo::new(stream), service).await {
        debug!(%error, "Connection to the kubelet ended");
    }
}

// ANCHOR: kubelet-routes
async fn handle(
    kubelet: &Arc<Kubelet>,
    peer: Option<&auth::Identity>,
    request: Request<Incoming>,
) -> Response<Body> {
    let path = request.uri().path().to_owned();
    let parts: Vec<&str> = path.split('/').filter(|p| !p.is_empty()).collect();
    if let ["healthz" | "livez" | "readyz", ..] = parts[..] {
        return text(StatusCode::OK, "ok");
    }
    if let Err(refusal) = auth::check(kubelet, peer, &request, &parts).await {
        return *refusal;
    }
    let get = request.method() == Method::GET;
    match parts[..] {
        ["pods"] if get => pods::list(kubelet),
        ["stats", "summary"] if get => stats::summary(kubelet).await,
        ["metrics"] if get => stats::metrics(kubelet).await,
        ["metrics", "resource"] if get => stats::resource_metrics(kubelet).await,
        ["containerLogs", ns, pod, container] if get => {
            log_stream::container_logs(kubelet, ns, pod, container, request.uri().query().unwrap_or_default())
                .await
        }
        ["exec" | "attach" | "portForward", ..] => streams::handle(kubelet, &parts, request).await,
        ["version"] if get => {
            json(&serde_json::json!({"major": "1", "minor": "33", "gitVersion": "v1.33.0"}))
        }
        _ => text(StatusCode::NOT_FOUND, "404 page not found\n"),
    }
}
// ANCHOR_END: kubelet-routes
