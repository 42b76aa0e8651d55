//! Reading what the server says when it doesn't say yes.
//!
//! A refusal is usually a `Status`. When something else answers (a proxy, an old server, a web server), the code is all
//! there is; Kubernetes has a sentence for each.
//!
//! # In Kubernetes
//! `NewGenericServerResponse` in `apimachinery/pkg/api/errors/errors.go`, `transformResponse` in `client-go/rest/request.go`,
//! `net.ParseWarningHeaders` in `apimachinery/pkg/util/net/http.go`.

use std::io::Read;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, header};

use super::ClientError;
use crate::status::{Status, StatusCause, quote};

/// How long the server wants us to wait before the same request again; `None`: don't repeat it.
pub(super) fn retry_after(code: StatusCode, headers: &HeaderMap) -> Option<Duration> {
    let again = code == StatusCode::TOO_MANY_REQUESTS || code.is_server_error();
    let seconds = headers.get(header::RETRY_AFTER)?.to_str().ok()?.parse::<u64>().ok()?;
    again.then(|| Duration::from_secs(seconds.min(60)))
}

/// A body as it was before it was compressed, of at most `limit` bytes.
pub(super) fn decompressed(headers: &HeaderMap, body: Bytes, limit: usize) -> std::io::Result<Bytes> {
    if headers.get(header::CONTENT_ENCODING).is_none_or(|encoding| encoding != "gzip") {
        return Ok(body);
    }
    let mut plain = Vec::with_capacity(body.len().saturating_mul(4).min(limit));
    let read = flate2::read::GzDecoder::new(&body[..]).take(limit as u64 + 1).read_to_end(&mut plain)?;
    match read > limit {
        true => Err(std::io::Error::other("the answer is too large")),
        false => Ok(plain.into()),
    }
}

/// The error of an answer that should have switched protocols and didn't.
pub(super) fn upgrade_refusal(error: ClientError, headers: &HeaderMap, body: &[u8]) -> ClientError {
    let is_status = serde_json::from_slice::<Status>(body).is_ok_and(|status| status.kind == "Status");
    let is_html =
        headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"));
    match String::from_utf8_lossy(body).trim() {
        "" => error,
        _ if is_status || is_html => error,
        text => ClientError::Config(format!("unable to upgrade connection: {text}")),
    }
}

/// The error of an answer that isn't 2xx.
pub(super) fn refusal(
    method: &Method,
    path: &str,
    code: StatusCode,
    headers: &HeaderMap,
    body: &[u8],
) -> ClientError {
    if let Ok(status) = serde_json::from_slice::<Status>(body)
        && status.kind == "Status"
        && status.status == "Failure"
    {
        let code = if status.code == 0 { code.as_u16() } else { status.code };
        return ClientError::from(Status { code, ..status });
    }
    let content_type = headers.get(header::CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let server_message = match content_type.starts_with("text/") {
        true => String::from_utf8_lossy(body).trim().to_string(),
        false => "unknown".to_string(),
    };
    ClientError::from(generic(method, path, code.as_u16(), &server_message))
}

fn generic(method: &Method, path: &str, code: u16, server_message: &str) -> Status {
    let fixed = |reason: &str, message: &str| (reason.to_string(), message.to_string());
    let (reason, mut message) = match code {
        400 => fixed("BadRequest", "the server rejected our request for an unknown reason"),
        401 => fixed("Unauthorized", "the server has asked for the client to provide credentials"),
        403 => fixed("Forbidden", server_message),
        404 => fixed("NotFound", "the server could not find the requested resource"),
        405 => fixed("MethodNotAllowed", "the server does not allow this method on the requested resource"),
        406 => fixed(
            "NotAcceptable",
            "the server was unable to respond with a content type that the client supports",
        ),
        409 if *method == Method::POST => fixed("AlreadyExists", "the server reported a conflict"),
        409 => fixed("Conflict", "the server reported a conflict"),
        415 => fixed("UnsupportedMediaType", server_message),
        422 => fixed("Invalid", "the server rejected our request due to an error in our request"),
        429 => fixed(
            "TooManyRequests",
            "the server has received too many requests and has asked us to try again later",
        ),
        503 => fixed("ServiceUnavailable", "the server is currently unable to handle the request"),
        504 => fixed(
            "Timeout",
            "the server was unable to return a response in the time allotted, but may still be processing the request",
        ),
        code if code >= 500 => {
            let why = quote(server_message);
            fixed(
                "InternalError",
                &format!("an error on the server ({why}) has prevented the request from succeeding"),
            )
        }
        code => fixed(
            "",
            &format!("the server responded with the status code {code} but did not return more information"),
        ),
    };
    if let Some(target) = target(path) {
        message = format!("{message} ({} {target})", method.as_str().to_lowercase());
    }
    let mut status = Status::failure(code, &reason, message);
    let cause = StatusCause {
        reason: "UnexpectedServerResponse".into(),
        message: server_message.into(),
        field: String::new(),
    };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

/// `pods web` from `/api/v1/namespaces/default/pods/web`.
fn target(path: &str) -> Option<String> {
    let mut segments = path.split('/').filter(|s| !s.is_empty());
    match segments.next()? {
        "api" => drop(segments.next()?),
        "apis" => {
            segments.next()?;
            segments.next()?;
        }
        _ => return None,
    }
    let rest: Vec<&str> = segments.collect();
    let rest = match rest.as_slice() {
        ["namespaces", _, rest @ ..] if !rest.is_empty() => rest,
        rest => rest,
    };
    match rest {
        [] => None,
        [resource] => Some(resource.to_string()),
        [resource, name, ..] => Some(format!("{resource} {name}")),
    }
}

/// The texts in a `Warning` header: `299 - "text"`, several separated by commas.
pub(super) fn warnings(header: &str) -> Vec<String> {
    let mut texts = Vec::new();
    let mut rest = header.trim();
    while let Some((before, after)) = rest.split_once('"') {
        let mut text = String::new();
        let mut chars = after.chars();
        loop {
            match chars.next() {
                Some('\\') => text.extend(chars.next()),
                Some('"') | None => break,
                Some(c) => text.push(c),
            }
        }
        if before.trim_start_matches([',', ' ']).starts_with("299 ") {
            texts.push(text);
        }
        rest = chars.as_str();
        // An optional quoted date may follow; it belongs to the same warning and starts no new `299`.
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_without_a_status_gets_kubernetes_sentence() {
        let text = |method, path, code| {
            let code = StatusCode::from_u16(code).unwrap();
            let error = refusal(method, path, code, &HeaderMap::new(), b"<html>");
            error.to_string()
        };
        assert_eq!(
            text(&Method::GET, "/api/v1/namespaces/default/pods/web", 404),
            "the server could not find the requested resource (get pods web)"
        );
        assert_eq!(
            text(&Method::GET, "/apis/apps/v1/deployments", 401),
            "the server has asked for the client to provide credentials (get deployments)"
        );
        assert_eq!(
            text(&Method::POST, "/api/v1/namespaces", 500),
            "an error on the server (\"unknown\") has prevented the request from succeeding (post namespaces)"
        );
    }

    #[test]
    fn a_compressed_answer_is_read_up_to_its_limit() {
        use std::io::Write;
        let mut packed = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        packed.write_all(&[b'x'; 1000]).unwrap();
        let packed = Bytes::from(packed.finish().unwrap());
        let mut headers = HeaderMap::new();
        assert_eq!(decompressed(&headers, packed.clone(), 1000).unwrap(), packed);
        headers.insert(header::CONTENT_ENCODING, "gzip".parse().unwrap());
        assert_eq!(decompressed(&headers, packed.clone(), 1000).unwrap(), [b'x'; 1000][..]);
        assert!(decompressed(&headers, packed, 999).is_err());
    }

    #[test]
    fn an_upgrade_that_is_refused_without_a_status_says_the_servers_words() {
        let error = || ClientError::from(Status::failure(404, "NotFound", "gone"));
        let text = |body: &[u8]| upgrade_refusal(error(), &HeaderMap::new(), body).to_string();
        assert_eq!(
            text(b"container not found (\"x\")\n"),
            "unable to upgrade connection: container not found (\"x\")"
        );
        assert_eq!(text(b""), "gone");
        assert_eq!(text(br#"{"kind":"Status","status":"Failure"}"#), "gone");
    }

    #[test]
    fn warnings_are_unquoted() {
        let header = r#"299 - "one \"1\"", 299 - "two""#;
        assert_eq!(warnings(header), vec!["one \"1\"", "two"]);
    }

    #[test]
    fn only_a_busy_server_is_asked_again() {
        let mut headers = HeaderMap::new();
        headers.insert(header::RETRY_AFTER, "2".parse().unwrap());
        assert_eq!(retry_after(StatusCode::TOO_MANY_REQUESTS, &headers), Some(Duration::from_secs(2)));
        assert_eq!(retry_after(StatusCode::NOT_FOUND, &headers), None);
        assert_eq!(retry_after(StatusCode::TOO_MANY_REQUESTS, &HeaderMap::new()), None);
    }
}
