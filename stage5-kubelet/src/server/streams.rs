//! Streams: exec, attach and port-forward, joined byte for byte.
//!
//! *Step 5 of a pod's journey.* Before: the API server sends an upgrade request (SPDY or WebSocket). After: its connection and one to the runtime's
//! streaming server are one pipe.
//!
//! The runtime gives a URL that is good for one session. The client's upgrade headers are sent there unchanged and the answer's headers come
//! back unchanged, so whatever protocol the two agree on, the kubelet need not know it.
//!
//! # Invariants
//! 1. A refusal of the runtime reaches the client with its status and text.
//!
//! # In Kubernetes
//! `pkg/kubelet/server/server.go` (`getExec`, `getAttach`, `getPortForward`, `proxyStream`), `apimachinery/pkg/util/proxy/upgradeaware.go`.
#![expect(clippy::disallowed_methods, reason = "shell: dials the runtime's streaming server")]

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request, Response, StatusCode, Uri, header};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::Pod;
use stage3_controllers::indexer::NamespacedName;
use tokio::net::TcpStream;

use super::{Body, text};
use crate::cri::{ContainerState, CriError, SandboxState, StreamRequest};
use crate::kubelet::Kubelet;
use crate::pod::PodExt;

/// Bytes of the runtime's refusal that are passed on.
const MAX_REFUSAL: usize = 64 << 10;

/// Values of one query key.
pub(super) fn query_values<'a>(query: &'a str, key: &'a str) -> impl Iterator<Item = String> + 'a {
    let pairs = query.split('&').filter_map(|p| p.split_once('='));
    pairs.filter(move |(k, _)| *k == key).map(|(_, v)| {
        let spaced = v.replace('+', " ");
        percent_encoding::percent_decode_str(&spaced).decode_utf8_lossy().into_owned()
    })
}

/// Whether a query key says yes: `1` or `true`.
pub(super) fn flag(query: &str, key: &str) -> bool {
    query_values(query, key).any(|v| v == "1" || v == "true")
}

fn stream_request(query: &str) -> StreamRequest {
    StreamRequest {
        cmd: query_values(query, "command").collect(),
        tty: flag(query, "tty"),
        stdin: flag(query, "input") || flag(query, "stdin"),
        stdout: flag(query, "output") || flag(query, "stdout"),
        stderr: flag(query, "error") || flag(query, "stderr"),
    }
}

/// The ports that a client of port-forward names: over a WebSocket they and their order make the channels, so the runtime must be told them
/// first; over SPDY each stream names its own.
fn forwarded_ports(query: &str, headers: &HeaderMap) -> Result<Vec<i32>, String> {
    let upgrade = headers.get(header::UPGRADE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if !upgrade.eq_ignore_ascii_case("websocket") {
        return Ok(Vec::new());
    }
    let named: Vec<String> = query_values(query, "port").collect();
    if named.is_empty() {
        return Err("query parameter \"port\" is required".to_owned());
    }
    if named.iter().any(String::is_empty) {
        return Err("query parameter \"port\" cannot be empty".to_owned());
    }
    let port = |text: &str| match text.parse::<u16>() {
        Ok(0) => Err(format!("port \"{text}\" must be > 0")),
        Ok(port) => Ok(i32::from(port)),
        Err(_) if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() => Err(format!(
            "unable to parse \"{text}\" as a port: strconv.ParseUint: parsing \"{text}\": value out of range"
        )),
        Err(_) => Err(format!(
            "unable to parse \"{text}\" as a port: strconv.ParseUint: parsing \"{text}\": invalid syntax"
        )),
    };
    named.iter().flat_map(|ports| ports.split(',')).map(port).collect()
}

/// `/exec/{ns}/{pod}/{container}`, `/attach/…`, `/portForward/{ns}/{pod}`, each with an optional UID before the container.
pub(super) async fn handle(
    kubelet: &Arc<Kubelet>,
    parts: &[&str],
    request: Request<Incoming>,
) -> Response<Body> {
    let (ns, name, container) = match *parts {
        ["portForward", ns, pod] | ["portForward", ns, pod, _] => (ns, pod, None),
        [_, ns, pod, container] | [_, ns, pod, _, container] => (ns, pod, Some(container)),
        _ => return text(StatusCode::NOT_FOUND, "404 page not found\n"),
    };
    let Some(pod) = kubelet.pods.get(&NamespacedName::new(ns, name)) else {
        return text(StatusCode::NOT_FOUND, "pod does not exist\n");
    };
    let query = request.uri().query().unwrap_or_default().to_owned();
    let ports = match container {
        Some(_) => Ok(Vec::new()),
        None => forwarded_ports(&query, request.headers()),
    };
    let ports = match ports {
        Ok(ports) => ports,
        Err(why) => return text(StatusCode::BAD_REQUEST, format!("{why}\n")),
    };
    match session_url(kubelet, &pod, parts[0], container, &query, &ports).await {
        Ok(url) => join(request, &url).await,
        Err((status, message)) => text(status, message),
    }
}

async fn session_url(
    kubelet: &Kubelet,
    pod: &Pod,
    what: &str,
    container: Option<&str>,
    query: &str,
    ports: &[i32],
) -> Result<Uri, (StatusCode, String)> {
    let failed = |e: &dyn std::fmt::Display| (StatusCode::INTERNAL_SERVER_ERROR, e.to_string());
    let view =
        kubelet.view(pod.pod_uid()).await.ok_or_else(|| failed(&"the container runtime does not answer"))?;
    let url = match container {
        None => {
            let sandbox = view.sandboxes.iter().find(|s| s.state == SandboxState::Ready);
            let id = sandbox.map(|s| s.id.clone()).ok_or_else(|| failed(&"pod sandbox is not ready"))?;
            kubelet.runtime.port_forward(&id, ports).await
        }
        Some(name) => {
            let found = view.container(name).filter(|c| c.state == ContainerState::Running);
            let gone = || (StatusCode::NOT_FOUND, format!("container not found (\"{name}\")"));
            let id = found.map(|c| c.id.clone()).ok_or_else(gone)?;
            let asked = stream_request(query);
            if what == "exec" {
                kubelet.runtime.exec(&id, &asked).await
            } else {
                kubelet.runtime.attach(&id, &asked).await
            }
        }
    };
    let url = url.map_err(|e| match e {
        CriError::Unimplemented(why) => (StatusCode::NOT_IMPLEMENTED, why),
        e => failed(&e),
    })?;
    url.parse().map_err(|e| failed(&e))
}

// ANCHOR: join-streams
/// Sends the upgrade on to `url` and joins the two connections.
async fn join(mut request: Request<Incoming>, url: &Uri) -> Response<Body> {
    let failed =
        |e: &dyn std::fmt::Display| text(StatusCode::BAD_GATEWAY, format!("runtime streaming server: {e}"));
    let Some(authority) = url.authority().map(ToString::to_string) else {
        return failed(&"its URL has no host");
    };
    let stream = match TcpStream::connect(&authority).await {
        Ok(stream) => stream,
        Err(e) => return failed(&e),
    };
    let _ = stream.set_nodelay(true);
    let (mut sender, connection) = match hyper::client::conn::http1::handshake(TokioIo::new(stream)).await {
        Ok(pair) => pair,
        Err(e) => return failed(&e),
    };
    tokio::spawn(connection.with_upgrades());
    let mut onward = Request::new(Empty::<Bytes>::new());
    *onward.method_mut() = request.method().clone();
    *onward.uri_mut() = url.path_and_query().map_or_else(|| Uri::from_static("/"), |p| p.clone().into());
    *onward.headers_mut() = onward_headers(request.headers(), &authority);
    let mut answer = match sender.send_request(onward).await {
        Ok(answer) => answer,
        Err(e) => return failed(&e),
    };
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let (head, body) = answer.into_parts();
        let body = http_body_util::Limited::new(body, MAX_REFUSAL)
            .collect()
            .await
            .map(|b| b.to_bytes())
            .unwrap_or_default();
        return text(head.status, String::from_utf8_lossy(&body).into_owned());
    }
    let mut reply = Response::new(super::full(""));
    *reply.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *reply.headers_mut() = answer.headers().clone();
    tokio::spawn(async move {
        let (Ok(theirs), Ok(ours)) =
            tokio::join!(hyper::upgrade::on(&mut request), hyper::upgrade::on(&mut answer))
        else {
            return;
        };
        let (mut theirs, mut ours) = (TokioIo::new(theirs), TokioIo::new(ours));
        // The session ends when either side does; how it went is told inside the stream.
        let _ = tokio::io::copy_bidirectional(&mut theirs, &mut ours).await;
    });
    reply
}
// ANCHOR_END: join-streams

/// The client's headers without its credentials.
fn onward_headers(theirs: &HeaderMap, authority: &str) -> HeaderMap {
    let mut headers = theirs.clone();
    headers.remove(header::AUTHORIZATION);
    headers.remove(header::CONTENT_LENGTH);
    // An Origin that is not the streaming server's own would be refused.
    headers.remove(header::ORIGIN);
    if let Ok(host) = authority.parse() {
        headers.insert(header::HOST, host);
    }
    headers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_from_the_query_in_order() {
        let r = stream_request("command=sh&command=-c&command=echo+a%20b&input=1&output=1&tty=true");
        assert_eq!(r.cmd, ["sh", "-c", "echo a b"]);
        assert!(r.stdin && r.stdout && r.tty && !r.stderr);
    }

    #[test]
    fn ports_are_read_for_a_websocket_alone() {
        let mut websocket = HeaderMap::new();
        websocket.insert(header::UPGRADE, "websocket".parse().unwrap());
        let mut spdy = HeaderMap::new();
        spdy.insert(header::UPGRADE, "SPDY/3.1".parse().unwrap());
        assert_eq!(forwarded_ports("", &spdy), Ok(Vec::new()));
        assert_eq!(forwarded_ports("port=80%2C443&port=8080", &websocket), Ok(vec![80, 443, 8080]));
        let refused = |query: &str| forwarded_ports(query, &websocket).unwrap_err();
        assert_eq!(refused(""), "query parameter \"port\" is required");
        assert_eq!(refused("port="), "query parameter \"port\" cannot be empty");
        assert_eq!(refused("port=0"), "port \"0\" must be > 0");
        let parse = "as a port: strconv.ParseUint: parsing";
        assert_eq!(refused("port=x"), format!("unable to parse \"x\" {parse} \"x\": invalid syntax"));
        assert_eq!(
            refused("port=65536"),
            format!("unable to parse \"65536\" {parse} \"65536\": value out of range")
        );
    }

    #[test]
    fn credentials_are_not_passed_on() {
        let mut theirs = HeaderMap::new();
        theirs.insert(header::AUTHORIZATION, "Bearer x".parse().unwrap());
        theirs.insert("upgrade", "SPDY/3.1".parse().unwrap());
        let headers = onward_headers(&theirs, "127.0.0.1:1");
        assert!(headers.get(header::AUTHORIZATION).is_none());
        assert_eq!(headers["upgrade"], "SPDY/3.1");
    }
}
