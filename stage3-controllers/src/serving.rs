//! Serving: health, metrics and version of a component, over TLS.
//!
//! *Beside a pod's journey.* The controller manager, the scheduler and the proxy each answer the same few questions: are you
//! alive (`/livez`), are you ready (`/readyz`, one line a check with `?verbose`), how much did you do (`/metrics`), who are you (`/version`).
//!
//! The certificate is made at start-up when none is given; whoever asks from the same host can trust it as
//! much as the loopback address it stands behind. The server binds to loopback unless told otherwise.
//!
//! # Invariants
//! 1. No request body is read; a request that sends its headers too slowly is cut off.
//! 2. The names of failed checks are shown, their reasons are not (they may hold addresses).
//!
//! # In Kubernetes
//! `staging/src/k8s.io/apiserver/pkg/server/healthz/healthz.go`, `component-base/metrics`. Left out: delegated authentication of `/metrics`, `/configz`, `/debug/pprof`.
#![expect(clippy::disallowed_methods, reason = "shell: binds a socket")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use prometheus_client::registry::Registry;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tracing::{debug, info};

/// The release whose behaviour the components show.
pub const GIT_VERSION: &str = "v1.33.0";
/// A peer that needs longer for its handshake or headers is cut off.
const HEADER_TIMEOUT: Duration = Duration::from_secs(10);

/// Why a component cannot serve.
#[derive(Debug, thiserror::Error)]
pub enum ServingError {
    /// The address is taken or not ours.
    #[error("cannot listen on {address}")]
    Bind {
        /// Address asked for.
        address: SocketAddr,
        /// What the system says.
        #[source]
        source: std::io::Error,
    },
    /// The certificate or its key cannot be read or used.
    #[error("serving certificate {what}")]
    Certificate {
        /// File or step.
        what: String,
        /// What the library says.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

/// A named check: `Ok` or the reason why not.
#[derive(Clone)]
pub struct HealthCheck {
    /// Shown in the verbose answer: `informer-sync`.
    pub name: String,
    /// The check; must not block.
    pub check: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
    /// Counts for `/readyz` only, not for `/livez` and `/healthz`.
    pub ready_only: bool,
}

impl HealthCheck {
    /// A check for `/readyz`.
    pub fn ready(name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> HealthCheck {
        HealthCheck { name: name.to_owned(), check: Arc::new(check), ready_only: true }
    }
    /// A check for `/livez`, `/healthz` and `/readyz`.
    pub fn live(name: &str, check: impl Fn() -> Result<(), String> + Send + Sync + 'static) -> HealthCheck {
        HealthCheck { name: name.to_owned(), check: Arc::new(check), ready_only: false }
    }
}

/// Certificate and key of the server.
#[derive(Clone, Debug, Default)]
pub enum ServingCertificate {
    /// Make one now, for the loopback names and the address.
    #[default]
    SelfSigned,
    /// Read these PEM files.
    Files {
        /// Certificate chain.
        certificate: PathBuf,
        /// Private key.
        key: PathBuf,
    },
}

/// What is served.
#[derive(Clone)]
pub struct Serving {
    /// Name for the log: `kube-scheduler`.
    pub component: String,
    /// Checks in the order in which they are shown.
    pub checks: Vec<HealthCheck>,
    /// Metrics of the component.
    pub metrics: Arc<Registry>,
    /// Certificate of the server.
    pub certificate: ServingCertificate,
}

/// Binds to the address and serves until `shutdown`. Returns the address (port 0 becomes the chosen port).
pub async fn serve(
    serving: Serving,
    address: SocketAddr,
    shutdown: CancellationToken,
) -> Result<SocketAddr, ServingError> {
    let acceptor = TlsAcceptor::from(Arc::new(tls_config(&serving.certificate, address)?));
    let listener =
        TcpListener::bind(address).await.map_err(|source| ServingError::Bind { address, source })?;
    let bound = listener.local_addr().map_err(|source| ServingError::Bind { address, source })?;
    info!(component = %serving.component, address = %bound, "Serving securely");
    let serving = Arc::new(serving);
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
            tokio::spawn(connection(acceptor.clone(), stream, serving.clone(), shutdown.clone()));
        }
    });
    Ok(bound)
}

async fn connection(
    acceptor: TlsAcceptor,
    stream: TcpStream,
    serving: Arc<Serving>,
    shutdown: CancellationToken,
) {
    let Ok(Ok(stream)) = tokio::time::timeout(HEADER_TIMEOUT, acceptor.accept(stream)).await else { return };
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let serving = serving.clone();
        async move { Ok::<_, Infallible>(answer(&serving, request.method(), request.uri())) }
    });
    let mut builder = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
    builder.http1().timer(TokioTimer::new()).header_read_timeout(HEADER_TIMEOUT);
    let connection = builder.serve_connection(TokioIo::new(stream), service);
    tokio::pin!(connection);
    tokio::select! {
        result = connection.as_mut() => if let Err(error) = result { debug!(%error, "Connection ended") },
        () = shutdown.cancelled() => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(Duration::from_secs(1), connection).await;
        }
    }
}

/// Answers one request; pure but for the checks.
fn answer(serving: &Serving, method: &Method, uri: &http::Uri) -> Response<Full<Bytes>> {
    if method != Method::GET && method != Method::HEAD {
        return text(
            StatusCode::METHOD_NOT_ALLOWED,
            "text/plain; charset=utf-8",
            "405 method not allowed\n".to_owned(),
        );
    }
    let verbose = uri
        .query()
        .is_some_and(|query| query.split('&').any(|part| part == "verbose" || part.starts_with("verbose=")));
    match uri.path() {
        "/healthz" | "/livez" | "/readyz" => health(serving, &uri.path()[1..], verbose),
        "/metrics" => {
            let mut body = String::new();
            let encoded = prometheus_client::encoding::text::encode(&mut body, &serving.metrics);
            let status = if encoded.is_ok() { StatusCode::OK } else { StatusCode::INTERNAL_SERVER_ERROR };
            text(status, "application/openmetrics-text; version=1.0.0; charset=utf-8", body)
        }
        "/version" => text(StatusCode::OK, "application/json", version().to_string()),
        _ => text(StatusCode::NOT_FOUND, "text/plain; charset=utf-8", "404 page not found\n".to_owned()),
    }
}

fn health(serving: &Serving, endpoint: &str, verbose: bool) -> Response<Full<Bytes>> {
    let mut lines = String::from("[+]ping ok\n");
    let mut failed = false;
    for check in serving.checks.iter().filter(|check| endpoint == "readyz" || !check.ready_only) {
        match (check.check)() {
            Ok(()) => lines.push_str(&format!("[+]{} ok\n", check.name)),
            Err(reason) => {
                failed = true;
                debug!(check = %check.name, %reason, "Health check failed");
                lines.push_str(&format!("[-]{} failed: reason withheld\n", check.name));
            }
        }
    }
    let plain = "text/plain; charset=utf-8";
    match (failed, verbose) {
        (true, _) => {
            text(StatusCode::INTERNAL_SERVER_ERROR, plain, format!("{lines}{endpoint} check failed\n"))
        }
        (false, true) => text(StatusCode::OK, plain, format!("{lines}{endpoint} check passed\n")),
        (false, false) => text(StatusCode::OK, plain, "ok".to_owned()),
    }
}

fn version() -> serde_json::Value {
    json!({
        "major": "1", "minor": "33", "gitVersion": GIT_VERSION, "gitCommit": "", "gitTreeState": "clean", "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "", "compiler": "rustc", "platform": format!("{}/{}", std::env::consts::OS, std::env::consts::ARCH),
    })
}

fn text(status: StatusCode, content_type: &str, body: String) -> Response<Full<Bytes>> {
    Response::builder()
        .status(status)
        .header("content-type", content_type)
        .header("x-content-type-options", "nosniff")
        .header("cache-control", "no-cache, private")
        .body(Full::new(Bytes::from(body)))
        .expect("the headers are constants")
}

fn tls_config(
    certificate: &ServingCertificate,
    address: SocketAddr,
) -> Result<rustls::ServerConfig, ServingError> {
    let failed = |what: &str| {
        let what = what.to_owned();
        move |source: Box<dyn std::error::Error + Send + Sync>| ServingError::Certificate { what, source }
    };
    let (chain, key) = match certificate {
        ServingCertificate::SelfSigned => {
            let names = ["localhost".to_owned(), address.ip().to_string(), "127.0.0.1".to_owned()];
            let made = rcgen::generate_simple_self_signed(names)
                .map_err(|error| failed("cannot be made")(error.into()))?;
            let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
            (vec![made.cert.der().clone()], key)
        }
        ServingCertificate::Files { certificate, key } => {
            let read = |error: rustls_pki_types::pem::Error| failed("cannot be read")(error.into());
            let chain = CertificateDer::pem_file_iter(certificate)
                .map_err(read)?
                .collect::<Result<Vec<_>, _>>()
                .map_err(read)?;
            (chain, PrivateKeyDer::from_pem_file(key).map_err(read)?)
        }
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .and_then(|builder| builder.with_no_client_auth().with_single_cert(chain, key))
        .map_err(|error| failed("cannot be used")(error.into()))?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(config)
}

#[cfg(test)]
mod tests;
