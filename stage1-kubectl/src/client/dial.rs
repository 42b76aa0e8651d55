//! Dialing: straight to the server, or through an HTTP proxy.
//!
//! A proxy is asked for a tunnel (`CONNECT host:port`); what runs through it is then between us and the server, TLS included. Which proxy
//! says the kubeconfig's `proxy-url`, else the environment, which never sends what stays on this machine to a proxy.
//!
//! # Invariants
//! 1. A proxy's password is in no error.
//!
//! # In Kubernetes
//! `client-go/rest/transport.go` (`Proxy`), Go's `http.ProxyFromEnvironment`. Left out: SOCKS proxies, TLS to the proxy, dialing
//! two address families at once.
#![expect(clippy::disallowed_methods, reason = "shell: dials, and reads the environment")]

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use base64::Engine;
use http::Uri;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::ClientError;
use super::connection::{BoxedIo, Dial, PoolConnection};
use super::no_proxy::is_direct;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(30);
/// The largest answer of a proxy to `CONNECT`.
const MAX_PROXY_ANSWER: usize = 16 << 10;

/// Dials a server.
#[derive(Clone, Default)]
pub(super) struct Dialer {
    proxy: Option<Proxy>,
    other_way: Option<Dial>,
}

#[derive(Clone)]
struct Proxy {
    host: String,
    port: u16,
    authorization: Option<String>,
}

impl std::fmt::Debug for Proxy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Proxy({}:{})", self.host, self.port)
    }
}

impl Dialer {
    /// For a server, with the kubeconfig's proxy or the environment's.
    pub(super) fn new(server: &str, proxy_url: Option<&str>) -> Result<Self, ClientError> {
        let from_environment = || {
            let secure = server.starts_with("https://");
            let names = if secure { ["HTTPS_PROXY", "https_proxy"] } else { ["HTTP_PROXY", "http_proxy"] };
            let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
            let excluded = variable("NO_PROXY").or_else(|| variable("no_proxy")).unwrap_or_default();
            names.iter().find_map(|name| variable(name)).filter(|_| uses_proxy(server, &excluded))
        };
        let url = proxy_url.filter(|url| !url.is_empty()).map(String::from).or_else(from_environment);
        Ok(Dialer { proxy: url.as_deref().map(parse).transpose()?, other_way: None })
    }

    /// Asks that way first.
    pub(super) fn with(mut self, other_way: Option<Dial>) -> Self {
        self.other_way = other_way;
        self
    }

    /// A connection to the host and port of an address, by whichever way, in time.
    pub(super) async fn dial(&self, uri: &Uri) -> io::Result<BoxedIo> {
        self.dial_within(CONNECT_TIMEOUT, uri).await
    }

    async fn dial_within(&self, time: Duration, uri: &Uri) -> io::Result<BoxedIo> {
        let connected = tokio::time::timeout(time, self.connect(uri)).await;
        connected.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
    }

    async fn connect(&self, uri: &Uri) -> io::Result<BoxedIo> {
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        if let Some(other_way) = &self.other_way
            && let Some(connection) = other_way(host, port).await?
        {
            return Ok(connection);
        }
        let (to, at) = self.proxy.as_ref().map_or((host, port), |proxy| (proxy.host.as_str(), proxy.port));
        // What the resolver can't find is told apart from what doesn't answer.
        let found = tokio::net::lookup_host((to, at)).await;
        let addresses: Vec<SocketAddr> = found.map_err(|_| io::Error::other("dns error"))?.collect();
        let mut stream = TcpStream::connect(&addresses[..]).await?;
        stream.set_nodelay(true)?;
        if let Some(proxy) = &self.proxy {
            let host = if host.contains(':') { format!("[{host}]") } else { host.to_string() };
            proxy.tunnel(&mut stream, &format!("{host}:{port}")).await?;
        }
        Ok(Box::pin(stream))
    }
}

impl Proxy {
    async fn tunnel(&self, stream: &mut TcpStream, target: &str) -> io::Result<()> {
        let authorization = self.authorization.as_ref();
        let authorization =
            authorization.map(|a| format!("Proxy-Authorization: {a}\r\n")).unwrap_or_default();
        let request = format!("CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = Vec::new();
        while !answer.ends_with(b"\r\n\r\n") {
            if answer.len() > MAX_PROXY_ANSWER {
                return Err(io::Error::other(format!("proxyconnect tcp: {}: answer too long", self.host)));
            }
            answer.push(stream.read_u8().await?);
        }
        let answer = String::from_utf8_lossy(&answer);
        let status = answer.lines().next().unwrap_or_default();
        match status.split(' ').nth(1) {
            Some("200") => Ok(()),
            _ => Err(io::Error::other(status.split_once(' ').map_or(status, |(_, why)| why).to_string())),
        }
    }
}

/// Reads `http://user:password@host:port`.
fn parse(url: &str) -> Result<Proxy, ClientError> {
    let bad = |why: &str| ClientError::Config(format!("proxy-url: {why}"));
    let (scheme, rest) = url.split_once("://").ok_or_else(|| bad("no scheme"))?;
    if scheme != "http" {
        return Err(bad(&format!("unsupported scheme {scheme:?}, must be http")));
    }
    let rest = rest.split('/').next().unwrap_or(rest);
    let (who, place) = rest.rsplit_once('@').map_or((None, rest), |(who, place)| (Some(who), place));
    let uri: Uri = format!("http://{place}").parse().map_err(|_| bad("no address"))?;
    let host = uri.host().ok_or_else(|| bad("no host"))?.trim_matches(['[', ']']).to_string();
    let authorization = who.map(|who| {
        let who = percent_encoding::percent_decode_str(who).decode_utf8_lossy().into_owned();
        format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(who))
    });
    Ok(Proxy { host, port: uri.port_u16().unwrap_or(80), authorization })
}

/// Whether the environment's proxy is for this server: never for this machine, nor for what `NO_PROXY` names.
fn uses_proxy(server: &str, excluded: &str) -> bool {
    let Ok(uri) = server.parse::<Uri>() else { return false };
    let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("http") { 80 } else { 443 });
    !is_direct(excluded, uri.host().unwrap_or_default(), port)
}

impl tower_service::Service<Uri> for Dialer {
    type Response = PoolConnection;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<PoolConnection>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let dialer = self.clone();
        Box::pin(async move { dialer.dial(&uri).await.map(PoolConnection::new) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_environments_proxy_is_not_for_this_machine_nor_for_what_is_excluded() {
        assert!(uses_proxy("https://api.example.org:6443", "internal,.corp"));
        // As in Go: a leading dot leaves the name itself out.
        assert!(uses_proxy("https://corp:1", "internal,.corp"));
        for server in [
            "https://127.0.0.1:6443",
            "https://localhost",
            "https://a.corp",
            "https://10.1.2.3:6443",
            "https://[::1]:1",
        ] {
            assert!(!uses_proxy(server, "internal,.corp,10.0.0.0/8"), "{server}");
        }
        assert!(parse("socks5://x:1").is_err());
        assert_eq!(parse("http://u:p@h:3128").unwrap().authorization.as_deref(), Some("Basic dTpw"));
    }

    #[tokio::test]
    async fn another_way_that_leads_nowhere_ends_in_time() {
        let nowhere: Dial = std::sync::Arc::new(|_, _| Box::pin(std::future::pending()));
        let dialer = Dialer::default().with(Some(nowhere));
        let server = "https://10.0.0.1:443/".parse().unwrap();
        let error = dialer.dial_within(Duration::from_millis(10), &server).await.err();
        assert_eq!(error.map(|error| error.kind()), Some(io::ErrorKind::TimedOut));
    }

    #[tokio::test]
    async fn a_proxy_is_asked_for_a_tunnel() {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let proxy = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = vec![0; 1024];
            let count = stream.read(&mut request).await.unwrap();
            stream.write_all(b"HTTP/1.1 200 Connection established\r\n\r\nhello").await.unwrap();
            String::from_utf8_lossy(&request[..count]).into_owned()
        });
        let dialer = Dialer::new("https://api.example.org:6443", Some(&url)).unwrap();
        let mut stream = dialer.dial(&"https://api.example.org:6443/".parse().unwrap()).await.unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).await.unwrap();
        assert_eq!(text, "hello");
        assert!(proxy.await.unwrap().starts_with("CONNECT api.example.org:6443 HTTP/1.1\r\n"));
    }
}
