//! The gRPC health check, by hand: one unary call needs no generated client.
//!
//! *Step 5 of a pod's journey.* Before: a probe of type `grpc`. After: an [`Answer`].
//!
//! A gRPC call is an HTTP/2 POST whose body is one length-prefixed message, and whose outcome stands in the trailers. The
//! health messages have one field each, so both fit in a few bytes of protobuf.
//!
//! # Invariants
//! 1. Only the status `SERVING` (1) is a success.
//!
//! # In Kubernetes
//! `pkg/probe/grpc/grpc.go`, `grpc.health.v1.Health/Check`.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::GRPCAction;

use super::Answer;
use super::prober::dial;

/// Asks a container's health service.
pub(super) async fn probe(pod_ip: &str, action: &GRPCAction, limit: Duration) -> Answer {
    let port = u16::try_from(action.port).unwrap_or(0);
    let unreachable = || {
        let text = "timeout: failed to connect service";
        Answer::Failure(format!(
            "{text} \"{pod_ip}:{port}\" within {}s: context deadline exceeded",
            limit.as_secs()
        ))
    };
    let service = action.service.clone().unwrap_or_default();
    let call = async {
        let Ok(stream) = dial(pod_ip, port, limit).await else { return unreachable() };
        match check(stream, &format!("{pod_ip}:{port}"), &service).await {
            Ok(1) => Answer::Success,
            Ok(status) => {
                let word = ["UNKNOWN", "SERVING", "NOT_SERVING", "SERVICE_UNKNOWN"]
                    .get(status)
                    .copied()
                    .unwrap_or("UNKNOWN");
                Answer::Failure(format!("service unhealthy (responded with \"{word}\")"))
            }
            Err(text) => Answer::Failure(format!("error: health rpc probe failed: {text}")),
        }
    };
    tokio::time::timeout(limit, call).await.unwrap_or_else(|_| unreachable())
}

/// `HealthCheckRequest{service}` with gRPC's prefix: not compressed, four bytes of length.
fn encode(service: &str) -> Vec<u8> {
    let mut message = Vec::new();
    if !service.is_empty() {
        message.push(0x0a);
        message.push(u8::try_from(service.len()).unwrap_or(127).min(127));
        message.extend(service.bytes().take(127));
    }
    let mut body = vec![0];
    body.extend(u32::try_from(message.len()).unwrap_or(0).to_be_bytes());
    body.extend(message);
    body
}

async fn check(stream: tokio::net::TcpStream, authority: &str, service: &str) -> Result<usize, String> {
    let text = |e: hyper::Error| e.to_string();
    let io = TokioIo::new(stream);
    let (mut sender, connection) =
        hyper::client::conn::http2::handshake::<_, _, Full<Bytes>>(TokioExecutor::new(), io)
            .await
            .map_err(text)?;
    let driver = tokio::spawn(connection);
    let request = http::Request::post(format!("http://{authority}/grpc.health.v1.Health/Check"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("user-agent", "kube-probe/1.33")
        .body(Full::new(Bytes::from(encode(service))))
        .map_err(|e| e.to_string())?;
    let response = sender.send_request(request).await.map_err(text)?;
    let (head, body) = response.into_parts();
    let collected = body.collect().await.map_err(text)?;
    driver.abort();
    let trailers = collected.trailers().cloned().unwrap_or_default();
    let header =
        |name: &str| trailers.get(name).or_else(|| head.headers.get(name)).and_then(|v| v.to_str().ok());
    match header("grpc-status").unwrap_or("0") {
        "0" => Ok(decode(&collected.to_bytes())),
        code => {
            let words = [
                "OK",
                "Canceled",
                "Unknown",
                "InvalidArgument",
                "DeadlineExceeded",
                "NotFound",
                "AlreadyExists",
            ];
            let more = [
                "PermissionDenied",
                "ResourceExhausted",
                "FailedPrecondition",
                "Aborted",
                "OutOfRange",
                "Unimplemented",
            ];
            let name = words.iter().chain(&more).nth(code.parse().unwrap_or(2)).copied().unwrap_or("Unknown");
            Err(format!("rpc error: code = {name} desc = {}", header("grpc-message").unwrap_or_default()))
        }
    }
}

/// `HealthCheckResponse{status}` behind gRPC's prefix.
fn decode(body: &[u8]) -> usize {
    match body.get(5..7) {
        Some([0x08, status]) => usize::from(*status),
        _ => 0,
    }
}
