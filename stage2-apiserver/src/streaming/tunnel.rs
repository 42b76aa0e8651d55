//! The tunnel: an upgraded connection on either side, and bytes copied between.
//!
//! *Step 5, looked at from outside.* Before: the client asked to leave HTTP. After: it talks to the kubelet as if the API
//! server weren't there.
//!
//! Four ways, by what the client asks for:
//!
//! | client | towards the kubelet |
//! |---|---|
//! | SPDY/3.1 | SPDY/3.1, bytes copied |
//! | WebSocket, `v4.channel.k8s.io` or older | WebSocket, bytes copied |
//! | WebSocket, `v5.channel.k8s.io` | SPDY/3.1, messages translated ([`super::translate`]) |
//! | WebSocket, `SPDY/3.1+portforward.k8s.io` | SPDY/3.1, its bytes taken out of the messages |
//!
//! # Invariants
//! 1. The kubelet is asked first: only when it has switched protocols is the client told so; until then a refusal is an
//!    ordinary HTTP answer.
//! 2. When one side ends, so does the other.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/proxy/upgradeaware.go`, `…/streamtranslator.go`, `…/streamtunnel.go`.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use stage1_kubectl::client::{Client, ClientError, UpgradedIo};
use stage1_kubectl::status::Status;
use stage1_kubectl::upgrade::{TUNNEL_PROTOCOL, V5, tunnel};
use tokio::io::copy_bidirectional;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::{logs, translate};
use crate::handlers::Routed;
use crate::handlers::respond::{Answer, full};

const STREAM_PROTOCOL_VERSION: HeaderName = HeaderName::from_static("x-stream-protocol-version");
/// Client headers that the kubelet gets when bytes are copied.
const COPIED: [HeaderName; 6] = [
    header::UPGRADE,
    header::SEC_WEBSOCKET_KEY,
    header::SEC_WEBSOCKET_VERSION,
    header::SEC_WEBSOCKET_PROTOCOL,
    header::SEC_WEBSOCKET_EXTENSIONS,
    STREAM_PROTOCOL_VERSION,
];
/// The kubelet's headers that the client gets with the 101.
const RETURNED: [HeaderName; 4] =
    [header::UPGRADE, header::SEC_WEBSOCKET_ACCEPT, header::SEC_WEBSOCKET_PROTOCOL, STREAM_PROTOCOL_VERSION];

/// Connects client and kubelet.
///
/// # Errors
/// 400 for a request that doesn't upgrade, and what the kubelet refuses.
pub async fn handle(
    routed: &Routed<'_>,
    client: Client,
    path: &str,
    request: Request<Incoming>,
) -> Result<Answer, Status> {
    let headers = &routed.headers;
    if !headers.contains_key(header::UPGRADE) {
        return Err(Status::bad_request("Upgrade request required"));
    }
    let offered = protocols(headers);
    if offered.iter().any(|p| p == V5)
        && matches!(routed.context.info.subresource.as_str(), "exec" | "attach")
    {
        return translated(routed, client, path, request).await;
    }
    if offered.iter().any(|p| p == TUNNEL_PROTOCOL) {
        return unwrapped(client, path, request, headers).await;
    }
    let mut upstream = kubelet_request(path)?;
    // A WebSocket handshake is a GET by its RFC; SPDY's is a POST.
    *upstream.method_mut() = request.method().clone();
    for name in &COPIED {
        for value in headers.get_all(name) {
            upstream.headers_mut().append(name, value.clone());
        }
    }
    let (switched, kubelet) = match client.upgrade(upstream).await {
        Ok(upgraded) => upgraded,
        Err(error) => return refused(error),
    };
    let mut answer = switching();
    for name in &RETURNED {
        for value in switched.headers().get_all(name) {
            answer.headers_mut().append(name, value.clone());
        }
    }
    tokio::spawn(copy(request, kubelet));
    Ok(answer)
}

/// The kubelet's refusal as it came, code and text: clients print it behind `unable to upgrade connection: `.
fn refused(error: ClientError) -> Result<Answer, Status> {
    if let ClientError::Api(status) = &error
        && let Some(text) = logs::kubelet_text(status)
        && let Ok(code) = StatusCode::from_u16(status.code)
    {
        let mut answer = Response::new(full(Bytes::from(text.to_owned())));
        *answer.status_mut() = code;
        answer
            .headers_mut()
            .insert(header::CONTENT_TYPE, HeaderValue::from_static("text/plain; charset=utf-8"));
        return Ok(answer);
    }
    Err(logs::refusal(error))
}

/// Every WebSocket protocol that the client offers.
fn protocols(headers: &HeaderMap) -> Vec<String> {
    let values = headers.get_all(header::SEC_WEBSOCKET_PROTOCOL).iter().filter_map(|v| v.to_str().ok());
    values.flat_map(|v| v.split(',')).map(|p| p.trim().to_owned()).collect()
}

fn kubelet_request(path: &str) -> Result<Request<Bytes>, Status> {
    Request::post(path).body(Bytes::new()).map_err(|e| Status::internal(e.to_string()))
}

/// A request that upgrades to SPDY with a stream protocol.
fn spdy_request(path: &str, stream_protocol: &str) -> Result<Request<Bytes>, Status> {
    let mut request = kubelet_request(path)?;
    let headers = request.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
    let version = HeaderValue::from_str(stream_protocol).map_err(|e| Status::internal(e.to_string()))?;
    headers.insert(STREAM_PROTOCOL_VERSION, version);
    Ok(request)
}

fn switching() -> Answer {
    let mut answer = Response::new(full(Bytes::new()));
    *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    answer.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    answer
}

/// The 101 of a WebSocket that ends here.
fn websocket_answer(headers: &HeaderMap, protocol: &'static str) -> Result<Answer, Status> {
    let key = headers.get(header::SEC_WEBSOCKET_KEY);
    let key = key.ok_or_else(|| Status::bad_request("Sec-WebSocket-Key is missing"))?;
    let mut answer = switching();
    let accept = HeaderValue::from_str(&derive_accept_key(key.as_bytes())).expect("base64 is a header value");
    answer.headers_mut().insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    answer.headers_mut().insert(header::SEC_WEBSOCKET_ACCEPT, accept);
    answer.headers_mut().insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    Ok(answer)
}

/// Copies bytes both ways until either side ends.
async fn copy(request: Request<Incoming>, mut kubelet: UpgradedIo) {
    match hyper::upgrade::on(request).await {
        Ok(client) => {
            let _ = copy_bidirectional(&mut TokioIo::new(client), &mut kubelet).await;
        }
        Err(error) => tracing::debug!(%error, "The client's connection wasn't upgraded"),
    }
}

/// v5 exec and attach: messages on the client's side, streams on the kubelet's.
async fn translated(
    routed: &Routed<'_>,
    client: Client,
    path: &str,
    request: Request<Incoming>,
) -> Result<Answer, Status> {
    let answer = websocket_answer(&routed.headers, V5)?;
    let (_, kubelet) = match client.upgrade(spdy_request(path, "v4.channel.k8s.io")?).await {
        Ok(upgraded) => upgraded,
        Err(error) => return refused(error),
    };
    let streams = translate::Wanted::of_query(&routed.context.query);
    tokio::spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => {
                let socket =
                    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
                translate::run(socket, kubelet, streams).await;
            }
            Err(error) => tracing::debug!(%error, "The client's connection wasn't upgraded"),
        }
    });
    Ok(answer)
}

/// Port-forward over WebSocket: its messages hold the bytes of a SPDY connection.
async fn unwrapped(
    client: Client,
    path: &str,
    request: Request<Incoming>,
    headers: &HeaderMap,
) -> Result<Answer, Status> {
    let answer = websocket_answer(headers, TUNNEL_PROTOCOL)?;
    let (_, mut kubelet) = match client.upgrade(spdy_request(path, "portforward.k8s.io")?).await {
        Ok(upgraded) => upgraded,
        Err(error) => return refused(error),
    };
    tokio::spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => {
                let socket =
                    WebSocketStream::from_raw_socket(TokioIo::new(upgraded), Role::Server, None).await;
                let _ = copy_bidirectional(&mut tunnel(socket), &mut kubelet).await;
            }
            Err(error) => tracing::debug!(%error, "The client's connection wasn't upgraded"),
        }
    });
    Ok(answer)
}
