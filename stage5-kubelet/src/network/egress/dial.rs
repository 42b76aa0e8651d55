//! Dialling: a connection, or what Go would say about it.
//!
//! *Step 5 of a pod's journey.* Before: [`super`] knows who is wanted. After: bytes flow.
//!
//! # Invariants
//! 1. Every attempt ends: a connection within [`DIAL_TIMEOUT`], a proxy's answer within twice that.
//!
//! # In Kubernetes
//! Go's `net.Dialer` as containerd uses it; the texts are those of `net/net.go` and `net/dnsclient.go`.
#![expect(clippy::disallowed_methods, reason = "shell: sockets")]

use std::io;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::upstream::Upstream;

/// containerd's own patience with a registry.
const DIAL_TIMEOUT: Duration = Duration::from_secs(30);
/// A proxy's answer to `CONNECT` is a status line and a few headers.
const MAX_HEAD_BYTES: usize = 8192;

/// Connects as the host would: by its own proxy where it has one, else directly.
///
/// # Errors
/// With the text that Go would print.
pub async fn dial(upstream: &Upstream, host: &str, port: u16) -> io::Result<TcpStream> {
    match upstream.proxy_for("https", host, port) {
        Some(proxy) => {
            let address = format!("{}:{}", proxy.host(), proxy.port());
            connect_through(&address, proxy.authorization(), host, port).await
        }
        None => connect(host, port).await,
    }
}

/// Connects directly.
///
/// # Errors
/// With the text that Go would print.
pub async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let failed = |address: &str, error: &io::Error| io::Error::new(error.kind(), dial_error(address, error));
    let attempt = async {
        let addresses = tokio::net::lookup_host((host, port)).await;
        let mut last = None;
        for address in addresses.map_err(|error| io::Error::other(lookup_error(host, &error)))? {
            match TcpStream::connect(address).await {
                Ok(stream) => return Ok(stream),
                Err(error) => last = Some(failed(&address.to_string(), &error)),
            }
        }
        Err(last.unwrap_or_else(|| io::Error::other(format!("dial tcp: lookup {host}: no such host"))))
    };
    match tokio::time::timeout(DIAL_TIMEOUT, attempt).await {
        Ok(done) => done,
        Err(_) => {
            Err(io::Error::new(io::ErrorKind::TimedOut, format!("dial tcp {host}:{port}: i/o timeout")))
        }
    }
}

fn lookup_error(host: &str, error: &io::Error) -> String {
    // EAI_AGAIN has no kind of its own.
    let temporary = error.to_string().contains("Temporary failure");
    let why = if temporary { "server misbehaving" } else { "no such host" };
    format!("dial tcp: lookup {host}: {why}")
}

fn dial_error(address: &str, error: &io::Error) -> String {
    let why = match error.raw_os_error().map(nix::errno::Errno::from_raw) {
        // C's texts, which Go prints in lower case.
        Some(errno) => errno.desc().to_lowercase(),
        None => error.to_string(),
    };
    format!("dial tcp {address}: connect: {why}")
}

/// Connects through an HTTP proxy at `host:port`.
///
/// # Errors
/// The proxy can't be reached, or says no: its reason phrase is the text.
pub async fn connect_through(
    proxy: &str,
    authorization: Option<&str>,
    host: &str,
    port: u16,
) -> io::Result<TcpStream> {
    let (proxy_host, proxy_port) = proxy.rsplit_once(':').unwrap_or((proxy, ""));
    let proxy_port =
        proxy_port.parse().map_err(|_| io::Error::other(format!("proxy {proxy} has no port")))?;
    let mut stream = connect(proxy_host, proxy_port)
        .await
        .map_err(|error| io::Error::new(error.kind(), format!("proxyconnect tcp: {error}")))?;
    let known = authorization.map(|text| format!("Proxy-Authorization: {text}\r\n")).unwrap_or_default();
    let request = format!("CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}:{port}\r\n{known}\r\n");
    let ask = async {
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        // Byte by byte: what comes after the head is the other side's already.
        while !head.ends_with(b"\r\n\r\n") {
            if head.len() >= MAX_HEAD_BYTES {
                return Err(io::Error::other("proxyconnect tcp: the proxy's answer is too long"));
            }
            head.push(stream.read_u8().await?);
        }
        connect_answer(&head)
    };
    match tokio::time::timeout(DIAL_TIMEOUT * 2, ask).await {
        Ok(done) => done.map(|()| stream),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "proxyconnect tcp: i/o timeout")),
    }
}

/// `HTTP/1.1 200 OK`, or the reason why not.
fn connect_answer(head: &[u8]) -> io::Result<()> {
    let text = String::from_utf8_lossy(head);
    let line = text.lines().next().unwrap_or_default();
    let mut words = line.splitn(3, ' ');
    match (words.next(), words.next(), words.next()) {
        (Some(_), Some(code), _) if code.starts_with('2') => Ok(()),
        (_, _, Some(reason)) if !reason.is_empty() => Err(io::Error::other(reason.to_owned())),
        _ => Err(io::Error::other("unknown status code")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refusals_read_as_gos_own() {
        let refused = io::Error::from_raw_os_error(nix::errno::Errno::ECONNREFUSED as i32);
        assert_eq!(dial_error("127.0.0.1:9", &refused), "dial tcp 127.0.0.1:9: connect: connection refused");
        let unknown = io::Error::other("failed to lookup address information: Name or service not known");
        assert_eq!(lookup_error("registry.test", &unknown), "dial tcp: lookup registry.test: no such host");
    }

    #[test]
    fn a_proxys_reason_is_the_error() {
        assert!(connect_answer(b"HTTP/1.1 200 Connection established\r\n\r\n").is_ok());
        let text = |head: &[u8]| connect_answer(head).expect_err("a refusal").to_string();
        assert_eq!(text(b"HTTP/1.1 502 dial tcp: no such host\r\n\r\n"), "dial tcp: no such host");
        assert_eq!(text(b"HTTP/1.1 502\r\n\r\n"), "unknown status code");
    }
}
