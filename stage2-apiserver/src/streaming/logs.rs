//! Logs: `kubectl logs`, straight from the node.
//!
//! # In Kubernetes
//! `pkg/registry/core/pod/rest/log.go`, `pkg/apis/core/validation` (`ValidatePodLogOptions`).

use bytes::Bytes;
use http::{Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Limited};
use stage1_kubectl::client::{Client, ClientError};
use stage1_kubectl::status::{FieldError, Status};

use super::{container_name, escape, join_query, kubelet};
use crate::handlers::Routed;
use crate::handlers::respond::{Answer, BoxError, full};
use crate::request_info::Query;

/// Parameters that the kubelet gets as they are.
const PASSED_ON: [&str; 9] = [
    "follow",
    "previous",
    "sinceSeconds",
    "sinceTime",
    "timestamps",
    "tailLines",
    "limitBytes",
    "insecureSkipTLSVerifyBackend",
    "stream",
];
/// How much of a kubelet's refusal is read.
const MAX_ERROR_BYTES: usize = 64 * 1024;

/// Streams a container's log.
///
/// # Errors
/// 400 for a choice of containers, 422 for bad options, and what the kubelet refuses.
pub async fn handle(routed: &Routed<'_>) -> Result<Answer, Status> {
    let query = &routed.context.query;
    let pod = super::pod(routed).await?;
    check_options(pod.name(), query)?;
    let container = container_name(&pod, query.get("container").unwrap_or(""))?;
    if pod.get_str("/spec/nodeName").unwrap_or("").is_empty() {
        // Nothing has run, and so there is nothing to say.
        let mut empty = Response::new(full(Bytes::new()));
        *empty.status_mut() = StatusCode::NO_CONTENT;
        return Ok(empty);
    }
    let client = kubelet::client_of_pod(routed, &pod).await?;
    let passed = query.0.iter().filter(|(k, _)| PASSED_ON.contains(&k.as_str()));
    let parameters: Vec<String> = passed.map(|(k, v)| format!("{k}={}", escape(v))).collect();
    let place = format!("/containerLogs/{}/{}/{container}", pod.namespace().unwrap_or("default"), pod.name());
    stream(&client, &join_query(&place, &parameters)).await
}

/// Passes the kubelet's answer on.
async fn stream(client: &Client, path: &str) -> Result<Answer, Status> {
    let request = Request::get(path).body(Bytes::new()).map_err(|e| Status::internal(e.to_string()))?;
    let response = client.stream(request).await.map_err(refusal)?;
    let content_type = response.headers().get(header::CONTENT_TYPE).cloned();
    let body = response.into_body().map_err(|e| Box::new(e) as BoxError).boxed_unsync();
    let mut answer = Response::new(body);
    let plain = http::HeaderValue::from_static("text/plain");
    answer.headers_mut().insert(header::CONTENT_TYPE, content_type.unwrap_or(plain));
    Ok(answer)
}

/// What a kubelet's refusal is to the client: its own words, where it has some.
pub fn refusal(error: ClientError) -> Status {
    match error {
        ClientError::Api(status) => {
            let message = kubelet_text(&status).unwrap_or(&status.message).trim_end().to_owned();
            match status.code {
                400 => Status::bad_request(message),
                500 => Status::internal(message),
                _ => Status { message, ..*status },
            }
        }
        other => Status::internal(error_text(&other)),
    }
}

/// The plain text that a kubelet refused with; our client keeps it as a cause.
pub fn kubelet_text(status: &Status) -> Option<&str> {
    let causes = &status.details.as_ref()?.causes;
    let told = causes.iter().find(|cause| cause.reason == "UnexpectedServerResponse")?;
    (!told.message.is_empty()).then_some(told.message.as_str())
}

/// The whole chain: the client reads no log of ours.
fn error_text(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}

/// Reads the start of a body that is an error text.
pub async fn error_body<B>(body: B) -> String
where
    B: http_body::Body,
    B::Error: Into<BoxError>,
{
    let read = Limited::new(body, MAX_ERROR_BYTES).collect().await;
    read.map(|b| String::from_utf8_lossy(&b.to_bytes()).trim().to_owned()).unwrap_or_default()
}

fn check_options(name: &str, query: &Query) -> Result<(), Status> {
    let mut errors = Vec::new();
    let number = |field: &str| -> Result<Option<i64>, Status> {
        query
            .get(field)
            .map(|text| {
                text.parse().map_err(|_| {
                    Status::bad_request(format!("strconv.ParseInt: parsing {text:?}: invalid syntax"))
                })
            })
            .transpose()
    };
    if let Some(lines) = number("tailLines")?.filter(|n| *n < 0) {
        errors.push(FieldError::invalid("tailLines", lines, "must be greater than or equal to 0"));
    }
    if let Some(bytes) = number("limitBytes")?.filter(|n| *n < 1) {
        errors.push(FieldError::invalid("limitBytes", bytes, "must be greater than 0"));
    }
    match (number("sinceSeconds")?, query.get("sinceTime")) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::forbidden(
                "",
                "at most one of `sinceTime` or `sinceSeconds` may be specified",
            ));
        }
        (Some(seconds), None) if seconds < 1 => {
            errors.push(FieldError::invalid("sinceSeconds", seconds, "must be greater than 0"));
        }
        _ => {}
    }
    match errors.is_empty() {
        true => Ok(()),
        false => Err(Status::invalid("PodLogOptions", name, &errors)),
    }
}
