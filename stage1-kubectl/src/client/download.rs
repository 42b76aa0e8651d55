//! A file from the web: what `-f https://…` names.
//!
//! *Step 1 of a pod's journey, when the manifest is somebody else's.* Before: a URL. After: a text, to be read like a file's.
//!
//! No credentials go along: the URL belongs to nobody that the kubeconfig knows. Redirects are followed, as browsers do, and the answer is bounded.
//!
//! # Invariants
//! 1. Only `http` and `https` are fetched, also after a redirect; never more than `limit` bytes.
//!
//! # In Kubernetes
//! `URLVisitor` and `readHttpWithRetries` in `cli-runtime/pkg/resource/visitor.go`.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Limited};

use super::{Client, ClientConfig, ClientError};

/// So many times a server that is in trouble is asked, as kubectl's `defaultHttpGetAttempts`.
const ATTEMPTS: u32 = 3;
/// Between two of them.
const PAUSE: Duration = Duration::from_secs(1);
/// So many redirects are followed, as Go's client does.
const MAX_REDIRECTS: u32 = 10;

/// The body behind a URL.
///
/// # Errors
/// In kubectl's words, why there is none.
pub async fn download(url: &str, limit: usize) -> Result<Vec<u8>, String> {
    download_with(url, limit, PAUSE).await
}

async fn download_with(url: &str, limit: usize, pause: Duration) -> Result<Vec<u8>, String> {
    let mut told = String::new();
    for attempt in 0..ATTEMPTS {
        if attempt > 0 {
            tokio::time::sleep(pause).await;
        }
        match attempt_once(url, limit).await? {
            Ok(body) => return Ok(body),
            Err(status) => {
                told = format!(
                    "unable to read URL {url:?}, server reported {} {}, status code={}",
                    status.as_u16(),
                    status.canonical_reason().unwrap_or_default(),
                    status.as_u16()
                );
                if !status.is_server_error() {
                    break;
                }
            }
        }
    }
    Err(told)
}

/// The body, or the code of an answer that has none.
async fn attempt_once(url: &str, limit: usize) -> Result<Result<Vec<u8>, StatusCode>, String> {
    let failed = |error: &ClientError| format!("Get {url:?}: {error}");
    let mut at = url.to_string();
    for _ in 0..=MAX_REDIRECTS {
        let uri: http::Uri = at.parse().map_err(|e| format!("unable to read URL {url:?}: {e}"))?;
        let (Some(scheme @ ("http" | "https")), Some(authority)) = (uri.scheme_str(), uri.authority()) else {
            return Err(format!("unable to read URL {url:?}: unsupported protocol scheme"));
        };
        let config = ClientConfig::new(&format!("{scheme}://{authority}")).trusting_the_system();
        let client = Client::new(config).map_err(|e| failed(&e))?;
        let path = uri.path_and_query().map_or("/", |path| path.as_str());
        let request = Request::get(path).body(Bytes::new()).map_err(|e| e.to_string())?;
        let response = client.forward(request).await.map_err(|e| failed(&e))?;
        let location = response.headers().get(header::LOCATION).and_then(|to| to.to_str().ok());
        match location.filter(|_| response.status().is_redirection()) {
            Some(location) if location.contains("://") => at = location.to_string(),
            Some(location) if location.starts_with('/') => at = format!("{scheme}://{authority}{location}"),
            Some(location) => return Err(format!("Get {url:?}: a redirect to {location:?}")),
            None if response.status().is_success() => {
                let body = Limited::new(response.into_body(), limit).collect().await;
                let body = body.map_err(|e| format!("read {url:?}: {e}"))?;
                return Ok(Ok(body.to_bytes().to_vec()));
            }
            None => return Ok(Err(response.status())),
        }
    }
    Err(format!("Get {url:?}: stopped after {MAX_REDIRECTS} redirects"))
}

/// As [`download`], for callers that can't wait: on a thread of its own.
///
/// # Errors
/// As [`download`].
pub fn download_blocking(url: &str, limit: usize) -> Result<Vec<u8>, String> {
    std::thread::scope(|scope| {
        let fetching = scope.spawn(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.map_err(|e| e.to_string())?.block_on(download(url, limit))
        });
        fetching.join().unwrap_or_else(|_| Err(format!("unable to read URL {url:?}")))
    })
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    /// A server that gives one answer after the other.
    #[expect(clippy::disallowed_methods, reason = "a test server needs a socket")]
    async fn serve(answers: Vec<&'static str>) -> String {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        tokio::spawn(async move {
            for answer in answers {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = vec![0; 1024];
                let _ = stream.read(&mut request).await.unwrap();
                stream.write_all(answer.as_bytes()).await.unwrap();
            }
        });
        url
    }

    #[tokio::test]
    async fn redirects_are_followed_and_refusals_told_in_kubectls_words() {
        let moved =
            "HTTP/1.1 302 Found\r\nLocation: /there\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let found = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: close\r\n\r\na: b\n";
        let url = format!("{}/x.yaml", serve(vec![moved, found]).await);
        assert_eq!(download(&url, 100).await.unwrap(), b"a: b\n");

        let url =
            format!("{}/x.yaml", serve(vec!["HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"]).await);
        let wanted = format!("unable to read URL {url:?}, server reported 404 Not Found, status code=404");
        assert_eq!(download(&url, 100).await.unwrap_err(), wanted);

        let url = format!("{}/x.yaml", serve(vec![found]).await);
        assert!(download(&url, 3).await.unwrap_err().contains("length limit exceeded"));
        assert!(download("ftp://x/y", 3).await.unwrap_err().contains("unsupported protocol scheme"));
    }

    #[tokio::test]
    async fn a_server_in_trouble_is_asked_three_times() {
        let busy = "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
        let found = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok";
        let url = serve(vec![busy, busy, found]).await;
        assert_eq!(download_with(&url, 100, Duration::ZERO).await.unwrap(), b"ok");
    }
}
