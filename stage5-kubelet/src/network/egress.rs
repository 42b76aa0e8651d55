//! Egress: the way out of a node, for its container runtime alone.
//!
//! *Step 5 of a pod's journey.* Before: [`super::plan_up`] made a node that reaches the other nodes and nothing else. After: its
//! containerd pulls from every registry that the host reaches.
//!
//! A node has no route out of its bridge: that would take a rule of ours in the host's netfilter tables and forwarding switched on for
//! the whole machine. A pull needs neither. containerd, as every Go program, asks the HTTP proxy that its environment names, and the
//! proxy is a listener of this process at the bridge's address. Names are looked up and connections are made by the host, as if
//! containerd ran there: the host's `/etc/hosts`, VPN and own proxy ([`upstream`]) count.
//!
//! It carries `CONNECT` (all of HTTPS) and plain requests for `http://` registries. Who asks must know the token that only this
//! cluster's containerd has in its environment: the same listener would else let every pod speak to the host's loopback.
//!
//! The subtle thing is what users read when a pull fails. Go prints the *reason phrase* of a refused `CONNECT` as the error, so a
//! refusal says there what Go itself would have said: `dial tcp: lookup registry.test: no such host`.
//!
//! # Invariants
//! 1. Without the token nothing is connected to.
//! 2. Address and token are the same after a restart of this process, so that a containerd that lives on still gets out.
//! 3. Nothing of the host is changed: no route, no rule, no sysctl.
//!
//! # In Kubernetes
//! No counterpart: a node is a machine with a network. `HTTPS_PROXY` in containerd's unit file is what administrators write behind a
//! corporate proxy. Left out: proxies that are spoken to by TLS or SOCKS; a way out for pods.
#![expect(clippy::disallowed_methods, reason = "shell: sockets and a file")]

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{CONNECTION, HOST, HeaderName, PROXY_AUTHENTICATE, PROXY_AUTHORIZATION};
use http::{HeaderValue, Method, Request, Response, StatusCode, Uri};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::ext::ReasonPhrase;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use serde::{Deserialize, Serialize};
use stage1_kubectl::state_dir::write_private;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinHandle;
use tracing::{debug, info};

use super::Ipv4Cidr;

pub mod dial;
pub mod upstream;

use dial::{connect_through, dial};
use upstream::Upstream;

/// Connections at a time: a pull takes a handful.
const MAX_CONNECTIONS: usize = 256;
/// How long a client may take to say what it wants: a silent connection must not keep others out.
const HEADER_TIMEOUT: std::time::Duration = std::time::Duration::from_secs(10);
/// The user in `http://six-stages:TOKEN@…`.
const USER: &str = "six-stages";

type Body = BoxBody<Bytes, hyper::Error>;

/// Where the egress listens and what opens it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct EgressAddress {
    /// On the nodes' bridge.
    pub address: SocketAddr,
    /// 32 hexadecimal digits.
    token: String,
}

impl fmt::Debug for EgressAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EgressAddress({})", self.address)
    }
}

impl EgressAddress {
    /// What an earlier run, or the pipeline's process, wrote down.
    pub fn read(record: &Path) -> Option<Self> {
        serde_json::from_slice(&std::fs::read(record).ok()?).ok()
    }

    /// The environment that sends a Go program through the egress, but for the networks that the node reaches itself.
    pub fn environment(&self, direct: &[Ipv4Cidr]) -> Vec<(&'static str, String)> {
        let proxy = format!("http://{USER}:{}@{}", self.token, self.address);
        let direct: Vec<String> = direct.iter().map(ToString::to_string).collect();
        vec![("HTTP_PROXY", proxy.clone()), ("HTTPS_PROXY", proxy), ("NO_PROXY", direct.join(","))]
    }

    /// `Basic …`, as the header has it.
    fn authorization(&self) -> String {
        let pair = format!("{USER}:{}", self.token);
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
    }

    /// Connects, from inside of a node, to what the host reaches under that name.
    ///
    /// # Errors
    /// The egress is gone, or it can't connect; the text is the one for users.
    pub async fn connect(&self, host: &str, port: u16) -> io::Result<tokio::net::TcpStream> {
        connect_through(&self.address.to_string(), Some(&self.authorization()), host, port).await
    }
}

/// A running egress; it ends when it is dropped.
#[derive(Debug)]
pub struct Egress {
    address: EgressAddress,
    task: JoinHandle<()>,
}

impl Drop for Egress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

struct Server {
    authorization: String,
    upstream: Upstream,
}

impl Egress {
    /// Listens at the bridge's address, at the port of the last run where that is free.
    ///
    /// # Errors
    /// No port can be had, or the record can't be written.
    pub async fn start(gateway: Ipv4Addr, record: &Path, upstream: Upstream) -> io::Result<Self> {
        let last = EgressAddress::read(record).filter(|last| last.address.ip() == gateway);
        let port = last.as_ref().map_or(0, |last| last.address.port());
        let listener = match TcpListener::bind((gateway, port)).await {
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => TcpListener::bind((gateway, 0)).await?,
            bound => bound?,
        };
        let token = last.map_or_else(|| uuid::Uuid::new_v4().simple().to_string(), |last| last.token);
        let address = EgressAddress { address: listener.local_addr()?, token };
        write_private(record, &serde_json::to_vec(&address).map_err(io::Error::other)?)?;
        info!(address = %address.address, ?upstream, "Nodes pull images through this process");
        let server = Arc::new(Server { authorization: address.authorization(), upstream });
        Ok(Self { address, task: tokio::spawn(serve(listener, server)) })
    }

    /// How a node's processes reach it.
    pub fn address(&self) -> &EgressAddress {
        &self.address
    }
}

async fn serve(listener: TcpListener, server: Arc<Server>) {
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    loop {
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return };
        let Ok((stream, _)) = listener.accept().await else {
            // No file descriptors left, most likely: others must end first.
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
            continue;
        };
        let (server, permit) = (Arc::clone(&server), Arc::new(permit));
        tokio::spawn(async move {
            let service = service_fn(|request| answer(Arc::clone(&server), Arc::clone(&permit), request));
            let connection = hyper::server::conn::http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .serve_connection(TokioIo::new(stream), service);
            if let Err(error) = connection.with_upgrades().await {
                debug!(%error, "Egress connection ended");
            }
        });
    }
}

// ANCHOR: egress
async fn answer(
    server: Arc<Server>,
    room: Arc<OwnedSemaphorePermit>,
    mut request: Request<Incoming>,
) -> Result<Response<Body>, hyper::Error> {
    let known = request
        .headers()
        .get(PROXY_AUTHORIZATION)
        .is_some_and(|value| value == server.authorization.as_str());
    if !known {
        let mut refusal = refused(StatusCode::PROXY_AUTHENTICATION_REQUIRED, "only the node's runtime may");
        refusal.headers_mut().insert(PROXY_AUTHENTICATE, HeaderValue::from_static("Basic"));
        return Ok(refusal);
    }
    if request.method() != Method::CONNECT {
        return forward(&server, request).await;
    }
    let target = request.uri().host().zip(request.uri().port_u16());
    let Some((host, port)) = target.map(|(host, port)| (host.to_owned(), port)) else {
        return Ok(refused(StatusCode::BAD_REQUEST, "CONNECT names no host and port"));
    };
    let mut outside = match dial(&server.upstream, &host, port).await {
        Ok(stream) => stream,
        Err(why) => return Ok(refused(StatusCode::BAD_GATEWAY, &why.to_string())),
    };
    tokio::spawn(async move {
        if let Ok(inside) = hyper::upgrade::on(&mut request).await {
            let _ = copy_bidirectional(&mut TokioIo::new(inside), &mut outside).await;
        }
        // A tunnel counts as the connection that it was.
        drop(room);
    });
    Ok(Response::new(empty()))
}
// ANCHOR_END: egress

/// Passes on a request for `http://…`; each has a connection of its own.
async fn forward(server: &Server, mut request: Request<Incoming>) -> Result<Response<Body>, hyper::Error> {
    let Some(host) = request.uri().host().map(str::to_owned) else {
        return Ok(refused(StatusCode::BAD_REQUEST, "this is a proxy: name a URL"));
    };
    let port = request.uri().port_u16().unwrap_or(80);
    let proxy = server.upstream.proxy_for("http", &host, port);
    let connected = match proxy {
        Some(proxy) => dial::connect(proxy.host(), proxy.port()).await,
        None => dial::connect(&host, port).await,
    };
    let stream = match connected {
        Ok(stream) => stream,
        Err(why) => return Ok(refused(StatusCode::BAD_GATEWAY, &why.to_string())),
    };
    let headers = request.headers_mut();
    for name in [PROXY_AUTHORIZATION, CONNECTION, HeaderName::from_static("proxy-connection")] {
        headers.remove(name);
    }
    match proxy {
        // The next proxy needs the whole URL, and perhaps to know us.
        Some(proxy) => {
            let value = proxy.authorization().and_then(|text| HeaderValue::from_str(text).ok());
            headers.extend(value.map(|value| (PROXY_AUTHORIZATION, value)));
        }
        None => {
            let authority =
                request.uri().authority().and_then(|name| HeaderValue::from_str(name.as_str()).ok());
            let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
            let path: Uri = path.parse().unwrap_or_default();
            *request.uri_mut() = path;
            request.headers_mut().extend(authority.map(|name| (HOST, name)));
        }
    }
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    tokio::spawn(connection);
    Ok(sender.send_request(request).await?.map(|body| body.boxed()))
}

fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

/// A refusal whose reason phrase is what Go shows.
fn refused(status: StatusCode, why: &str) -> Response<Body> {
    let mut response = Response::new(empty());
    *response.status_mut() = status;
    if let Ok(reason) = ReasonPhrase::try_from(why.as_bytes()) {
        response.extensions_mut().insert(reason);
    }
    response
}

#[cfg(test)]
mod tests;
