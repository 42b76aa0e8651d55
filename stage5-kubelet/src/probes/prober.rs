//! The prober: asks one question of one container.
//!
//! *Step 5 of a pod's journey.* Before: [`super::manager`] says it is time. After: [`super::ProbeState`] counts the answer.
//!
//! The texts of failures are what users read in `kubectl describe`, so they are the ones that Go's HTTP client and dialer print.
//!
//! # Invariants
//! 1. An answer comes within the probe's timeout.
//! 2. Redirects to other hosts are not followed.
//!
//! # In Kubernetes
//! `pkg/kubelet/prober/prober.go`, `pkg/probe/{exec,http,tcp,grpc}`. Left out: following redirects on the same host.
#![expect(clippy::disallowed_methods, reason = "shell: opens sockets to containers")]

use std::time::Duration;

use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::{Container, ContainerPort, HTTPGetAction, Probe};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use tokio::net::TcpStream;

use super::{Answer, timeout};
use crate::cri::{CriError, SharedRuntime};

/// Bytes of output that an event carries.
const MAX_OUTPUT: usize = 10 << 10;

/// Where a probe finds its container.
#[derive(Clone, Debug)]
pub struct Target {
    /// Id in the runtime.
    pub container_id: String,
    /// Address of the pod.
    pub pod_ip: String,
}

/// Asks once.
pub async fn probe(runtime: &SharedRuntime, probe: &Probe, container: &Container, target: &Target) -> Answer {
    let limit = timeout(probe);
    if let Some(exec) = &probe.exec {
        return exec_probe(runtime, exec.command.as_deref().unwrap_or_default(), &target.container_id, limit)
            .await;
    }
    if !runtime.is_real() {
        // Nothing listens in a simulated container.
        return Answer::Success;
    }
    if let Some(http) = &probe.http_get {
        return match http_get(http, container, &target.pod_ip, limit, "kube-probe/1.33").await {
            Ok((status, _)) if (200..400).contains(&status) => Answer::Success,
            Ok((status, _)) => Answer::Failure(format!("HTTP probe failed with statuscode: {status}")),
            Err(text) => Answer::Failure(text),
        };
    }
    if let Some(tcp) = &probe.tcp_socket {
        let host = tcp.host.as_deref().filter(|h| !h.is_empty()).unwrap_or(&target.pod_ip);
        return match resolve_port(&tcp.port, container) {
            Ok(port) => match dial(host, port, limit).await {
                Ok(_) => Answer::Success,
                Err(text) => Answer::Failure(text),
            },
            Err(text) => Answer::Errored(text),
        };
    }
    match &probe.grpc {
        Some(grpc) => super::grpc::probe(&target.pod_ip, grpc, limit).await,
        None => Answer::Errored("missing probe handler".to_owned()),
    }
}

async fn exec_probe(
    runtime: &SharedRuntime,
    command: &[String],
    container_id: &str,
    limit: Duration,
) -> Answer {
    match runtime.exec_sync(container_id, command, limit).await {
        Ok(out) if out.exit_code == 0 => Answer::Success,
        Ok(out) => {
            let mut text = out.stdout;
            text.extend(out.stderr);
            text.truncate(MAX_OUTPUT);
            Answer::Failure(String::from_utf8_lossy(&text).into_owned())
        }
        Err(CriError::DeadlineExceeded(_)) => {
            let line = command.join(" ");
            Answer::Failure(format!("command timed out: \"{line}\" timed out after {}s", limit.as_secs()))
        }
        Err(e) => Answer::Errored(match &e {
            CriError::Unknown(text) => format!("rpc error: code = Unknown desc = {text}"),
            other => other.to_string(),
        }),
    }
}

/// A port by number, or by its name in the container's spec.
///
/// # Errors
/// No port of that name.
pub fn resolve_port(port: &IntOrString, container: &Container) -> Result<u16, String> {
    let number = match port {
        IntOrString::Int(n) => *n,
        IntOrString::String(name) => {
            let named = |p: &&ContainerPort| p.name.as_deref() == Some(name.as_str());
            match container.ports.iter().flatten().find(named) {
                Some(p) => p.container_port,
                None => name.parse().map_err(|_| format!("couldn't find port: {name:?} not found"))?,
            }
        }
    };
    u16::try_from(number).ok().filter(|n| *n > 0).ok_or_else(|| format!("invalid port number: {number}"))
}

/// Connects, with Go's words for a failure.
pub(super) async fn dial(host: &str, port: u16, limit: Duration) -> Result<TcpStream, String> {
    let at = join(host, port);
    match tokio::time::timeout(limit, TcpStream::connect((host, port))).await {
        Ok(Ok(stream)) => Ok(stream),
        Ok(Err(e)) => Err(format!("dial tcp {at}: {}", dial_error(&e))),
        Err(_) => Err(format!("dial tcp {at}: i/o timeout")),
    }
}

fn join(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn dial_error(e: &std::io::Error) -> String {
    let text = match e.kind() {
        std::io::ErrorKind::ConnectionRefused => "connect: connection refused",
        std::io::ErrorKind::HostUnreachable => "connect: no route to host",
        std::io::ErrorKind::NetworkUnreachable => "connect: network is unreachable",
        std::io::ErrorKind::TimedOut => "connect: connection timed out",
        _ => return e.to_string(),
    };
    text.to_owned()
}

/// One GET; returns status and body.
///
/// # Errors
/// Go's text of what went wrong.
pub async fn http_get(
    action: &HTTPGetAction,
    container: &Container,
    pod_ip: &str,
    limit: Duration,
    user_agent: &str,
) -> Result<(u16, String), String> {
    let port = resolve_port(&action.port, container)?;
    let host = action.host.as_deref().filter(|h| !h.is_empty()).unwrap_or(pod_ip);
    let path = action.path.as_deref().filter(|p| !p.is_empty()).unwrap_or("/");
    let path = if path.starts_with('/') { path.to_owned() } else { format!("/{path}") };
    let https = action.scheme.as_deref() == Some("HTTPS");
    let url = format!("{}://{}{path}", if https { "https" } else { "http" }, join(host, port));
    let failed = |text: String| format!("Get \"{url}\": {text}");
    let late =
        || failed("context deadline exceeded (Client.Timeout exceeded while awaiting headers)".to_owned());
    let ask = async {
        let stream = dial(host, port, limit).await.map_err(&failed)?;
        let mut request = http::Request::get(&path).header("user-agent", user_agent).header("accept", "*/*");
        let headers = action.http_headers.iter().flatten();
        let mut own_host = None;
        for h in headers {
            if h.name.eq_ignore_ascii_case("host") {
                own_host = Some(h.value.clone());
            } else {
                request = request.header(&h.name, &h.value);
            }
        }
        let request = request.header("host", own_host.unwrap_or_else(|| join(host, port)));
        let request = request.body(Empty::<bytes::Bytes>::new()).map_err(|e| failed(e.to_string()))?;
        if https { over_tls(stream, host, request).await } else { over(TokioIo::new(stream), request).await }
            .map_err(&failed)
    };
    tokio::time::timeout(limit, ask).await.unwrap_or_else(|_| Err(late()))
}

type Ask = http::Request<Empty<bytes::Bytes>>;

async fn over<I>(io: I, request: Ask) -> Result<(u16, String), String>
where
    I: hyper::rt::Read + hyper::rt::Write + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(io).await.map_err(|e| e.to_string())?;
    let driver = tokio::spawn(connection);
    let response = sender
        .send_request(request)
        .await
        .map_err(|e| if e.is_incomplete_message() { "EOF".to_owned() } else { e.to_string() })?;
    let status = response.status().as_u16();
    let body = http_body_util::Limited::new(response.into_body(), MAX_OUTPUT).collect().await;
    driver.abort();
    let text = body.map(|b| String::from_utf8_lossy(&b.to_bytes()).into_owned()).unwrap_or_default();
    Ok((status, text))
}

/// Probes do not verify certificates: a container has no name that a CA could vouch for.
async fn over_tls(stream: TcpStream, host: &str, request: Ask) -> Result<(u16, String), String> {
    let options = stage1_kubectl::tls::TlsOptions { insecure_skip_verify: true, ..Default::default() };
    let config = stage1_kubectl::tls::client_config(&options).map_err(|e| e.to_string())?;
    let name = rustls_pki_types::ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
    let connector = tokio_rustls::TlsConnector::from(std::sync::Arc::new(config));
    let tls = connector.connect(name, stream).await.map_err(|e| e.to_string())?;
    over(TokioIo::new(tls), request).await
}
