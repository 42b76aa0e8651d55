//! One request through the proxy: filtered, sent on with our credentials, and the answer passed back as it comes.
//!
//! # In Kubernetes
//! `NewProxyHandler` in `kubectl/pkg/proxy/proxy_server.go`, `apimachinery/pkg/util/proxy/upgradeaware.go`. Left out: links in HTML that
//! are rewritten.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response, StatusCode, header};
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;

use super::{Proxy, files};
use crate::client::ClientError;
use crate::context::eprint;

/// The largest body of a request.
const MAX_BODY_BYTES: usize = 64 << 20;

type Body = BoxBody<Bytes, hyper::Error>;

fn full(bytes: impl Into<Bytes>) -> Body {
    Full::new(bytes.into()).map_err(|never| match never {}).boxed()
}

fn text(code: StatusCode, message: &str) -> Response<Body> {
    let mut response = Response::new(full(format!("{message}\n")));
    *response.status_mut() = code;
    let kind = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(header::CONTENT_TYPE, kind);
    response
}

/// The path as the API server will read it: `%65xec` is `exec`, for the filter too.
fn decoded(path: &str) -> String {
    percent_encoding::percent_decode_str(path).decode_utf8_lossy().into_owned()
}

/// Answers one request.
pub(super) async fn answer(proxy: &Proxy, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_string();
    if let Some((prefix, root)) = &proxy.files
        && let Some(rest) = path.strip_prefix(prefix.as_str())
    {
        return files::answer(root, rest).map(full);
    }
    let Some(rest) = path.strip_prefix(proxy.api_prefix.as_str()) else {
        return text(StatusCode::NOT_FOUND, "404 page not found");
    };
    let rest = format!("/{rest}");
    let host = request.headers().get(header::HOST).and_then(|h| h.to_str().ok()).unwrap_or_default();
    if let Some(filter) = &proxy.filter
        && !filter.accepts(request.method().as_str(), &decoded(&rest), host)
    {
        return text(StatusCode::FORBIDDEN, "Forbidden");
    }
    forward(proxy, request, &rest).await.unwrap_or_else(|error| {
        eprint(&format!("Error while proxying request: {error}\n"));
        text(StatusCode::INTERNAL_SERVER_ERROR, &error.to_string())
    })
}

async fn forward(
    proxy: &Proxy,
    request: Request<Incoming>,
    path: &str,
) -> Result<Response<Body>, ClientError> {
    let upgrading = request.headers().contains_key(header::UPGRADE);
    let target = match request.uri().query() {
        Some(query) => format!("{path}?{query}"),
        None => path.to_string(),
    };
    let (mut parts, body) = request.into_parts();
    let bad = |what: &str| ClientError::Config(format!("{target}: {what}"));
    let mut onward = Request::builder().method(parts.method.clone()).uri(target.as_str());
    *onward.headers_mut().ok_or_else(|| bad("not a path"))? = end_to_end(&parts.headers, upgrading);
    if upgrading {
        let onward = onward.body(Bytes::new()).map_err(|e| bad(&e.to_string()))?;
        return match proxy.client.upgrade(onward).await {
            Ok((answer, mut io)) => {
                let ours = hyper::upgrade::on(Request::from_parts(parts, body));
                tokio::spawn(async move {
                    if let Ok(ours) = ours.await {
                        let _ = tokio::io::copy_bidirectional(&mut TokioIo::new(ours), &mut io).await;
                    }
                });
                Ok(answer.map(|()| full("")))
            }
            Err(ClientError::Api(status)) => {
                let code = StatusCode::from_u16(status.code).unwrap_or(StatusCode::BAD_GATEWAY);
                Ok(text(code, &status.message))
            }
            Err(error) => Err(error),
        };
    }
    let body = Limited::new(body, MAX_BODY_BYTES).collect().await.map_err(|e| bad(&e.to_string()))?;
    parts.extensions.clear();
    let onward = onward.body(body.to_bytes()).map_err(|e| bad(&e.to_string()))?;
    let (mut answer, body) = proxy.client.forward(onward).await?.into_parts();
    answer.headers = end_to_end(&answer.headers, false);
    answer.version = http::Version::HTTP_11;
    Ok(Response::from_parts(answer, body.boxed()))
}

/// The headers that are for the other end, not for the next hop.
fn end_to_end(headers: &HeaderMap, upgrading: bool) -> HeaderMap {
    const HOPS: [&str; 9] = [
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "host",
        "content-length",
    ];
    let named: Vec<HeaderName> = headers
        .get_all(header::CONNECTION)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|name| name.trim().parse().ok())
        .collect();
    let mut kept = HeaderMap::new();
    for (name, value) in headers {
        let for_this_hop = HOPS.contains(&name.as_str()) || named.contains(name) || name == header::UPGRADE;
        if !for_this_hop || (upgrading && name == header::UPGRADE) {
            kept.append(name.clone(), value.clone());
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_one_hop_stay_behind() {
        let mut headers = HeaderMap::new();
        for (name, value) in
            [("accept", "a"), ("connection", "x-mine, close"), ("x-mine", "b"), ("host", "h")]
        {
            headers.append(HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        let kept = end_to_end(&headers, false);
        assert_eq!(kept.keys().map(HeaderName::as_str).collect::<Vec<_>>(), ["accept"]);
    }
}
