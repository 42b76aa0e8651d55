//! The client: one pooled connection, one function to send a request.
//!
//! *Step 1 of a pod's journey.* Before: [`crate::request`] made a request. After: stage 2 has it, and we decode the answer.
//!
//! [`Client::send`] takes a request that has only a path; the client adds the server's address, the credentials and the
//! user agent, and turns every answer that isn't a success into a [`ClientError`]. Normal requests share one HTTP/2
//! connection: hundreds of watches cost one socket. `exec`, `attach` and `port-forward` need a connection of their own,
//! because they leave HTTP behind ([`Client::upgrade`]); that is only possible with HTTP/1.1.
//!
//! The subtle thing: a request that the server was too busy for (429, or 5xx with `Retry-After`) is sent again after the
//! time that the server asked for. That is safe because the server says so only before it did anything.
//!
//! # Invariants
//! 1. A [`Client`] is cheap to clone; clones share the connection.
//! 2. Credentials are in no error and in no log line.
//!
//! # In Kubernetes
//! `client-go/rest/{client,request}.go`, `client-go/transport`. Left out: client-side rate limits.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::body::Incoming;
use hyper_rustls::{FixedServerNameResolver, HttpsConnector, HttpsConnectorBuilder};
use hyper_util::rt::{TokioExecutor, TokioTimer};

mod api;
mod config;
mod connection;
mod credentials;
mod dial;
pub mod download;
mod error;
pub mod no_proxy;
mod pager;
mod response;
pub mod round_trippers;
pub mod running;
mod upgrade;

pub use crate::request::{DeleteParams, ListParams, Patch, WatchParams};
pub use api::{Api, ApiObject, List, ListMeta};
pub use config::{ClientConfig, Impersonate, WarningHandler};
pub use connection::{BoxedIo, Dial, Io};
pub use error::{ClientError, ConnectionProblem, TlsProblem};
pub use upgrade::UpgradedIo;

/// Answers larger than this are refused (a list of everything in a large cluster is far below).
const MAX_RESPONSE_BYTES: usize = 1 << 30;
/// How often a request is repeated when the server says `Retry-After`, as client-go's `maxRetries`.
const MAX_RETRIES: u32 = 10;

type Pool = hyper_util::client::legacy::Client<HttpsConnector<dial::Dialer>, Full<Bytes>>;

/// A connection to one API server, as one user.
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
}

struct Inner {
    config: ClientConfig,
    pool: Pool,
    credentials: credentials::Credentials,
    dialer: dial::Dialer,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Client({})", self.inner.config.server)
    }
}

impl Client {
    /// Prepares a client; nothing is dialled yet.
    ///
    /// # Errors
    /// [`ClientError::Config`] for an address or credentials that can't be used.
    pub fn new(config: ClientConfig) -> Result<Self, ClientError> {
        let tls = crate::tls::client_config(&config.tls).map_err(|e| ClientError::Config(e.to_string()))?;
        let dialer =
            dial::Dialer::new(&config.server, config.proxy_url.as_deref())?.with(config.dial.clone());
        let mut builder = HttpsConnectorBuilder::new().with_tls_config(tls).https_or_http();
        if let Some(name) = &config.tls_server_name {
            let name = rustls_pki_types::ServerName::try_from(name.clone());
            let name = name.map_err(|e| ClientError::Config(e.to_string()))?;
            builder = builder.with_server_name_resolver(FixedServerNameResolver::new(name));
        }
        let connector = match config.http1_only {
            true => builder.enable_http1().wrap_connector(dialer.clone()),
            false => builder.enable_http1().enable_http2().wrap_connector(dialer.clone()),
        };
        // The windows and the pings are client-go's: a dead peer is noticed after 45 s.
        let pool = hyper_util::client::legacy::Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .http2_initial_stream_window_size(4 << 20)
            .http2_initial_connection_window_size(16 << 20)
            .http2_keep_alive_interval(Duration::from_secs(30))
            .http2_keep_alive_timeout(Duration::from_secs(15))
            .build(connector);
        let credentials = credentials::Credentials::new(&config)?;
        Ok(Client { inner: Arc::new(Inner { config, pool, credentials, dialer }) })
    }

    /// What the client was made from.
    pub fn config(&self) -> &ClientConfig {
        &self.inner.config
    }

    /// The namespace of the context, `default` when it has none.
    pub fn default_namespace(&self) -> &str {
        self.inner.config.namespace.as_deref().unwrap_or("default")
    }

    /// Sends a request and reads the whole answer.
    ///
    /// # Errors
    /// [`ClientError::Api`] for any answer that isn't 2xx, others when there is no answer.
    pub async fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ClientError> {
        let timeout = self.inner.config.timeout;
        let call = async {
            let mut request = request;
            if self.inner.config.compression {
                request.headers_mut().insert(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"));
            }
            let (parts, body) = self.stream(request).await?.into_parts();
            let limit = self.inner.config.max_response_bytes.unwrap_or(MAX_RESPONSE_BYTES);
            let body = Limited::new(body, limit).collect().await;
            let body = body.map_err(|e| ClientError::interrupted(&self.inner.config.server, &*e))?.to_bytes();
            let body = response::decompressed(&parts.headers, body, limit)
                .map_err(|e| ClientError::interrupted(&self.inner.config.server, &e))?;
            if let Some(log) = &self.inner.config.request_log {
                log.body(&body);
            }
            Ok(Response::from_parts(parts, body))
        };
        match timeout {
            None => call.await,
            Some(limit) => tokio::time::timeout(limit, call)
                .await
                .unwrap_or_else(|_| Err(ClientError::timed_out(&self.inner.config.server))),
        }
    }

    /// Sends a request; the answer's body is read by the caller, piece by piece (watch, logs).
    ///
    /// # Errors
    /// As [`Client::send`].
    pub async fn stream(&self, request: Request<Bytes>) -> Result<Response<Incoming>, ClientError> {
        let request = self.prepare(request).await?;
        let mut retries = 0;
        loop {
            let log = self.inner.config.request_log.as_ref();
            let sent = log.map(|log| log.request(&request));
            let response = self.inner.pool.request(clone_request(&request)).await;
            let response =
                response.map_err(|e| ClientError::from_connection(&self.inner.config.server, &e))?;
            if let (Some(log), Some(sent)) = (log, sent) {
                log.response(&request, response.status(), response.headers(), sent.elapsed());
            }
            self.report_warnings(&response);
            if response.status().is_success() {
                return Ok(response);
            }
            let wait = response::retry_after(response.status(), response.headers());
            match wait.filter(|_| retries < MAX_RETRIES) {
                Some(wait) => {
                    retries += 1;
                    drop(response);
                    tokio::time::sleep(wait).await;
                }
                None => return Err(self.refusal(&request, response).await),
            }
        }
    }

    /// Sends a request and gives the answer as it is, refusals too: for a proxy, which has no opinion about them.
    ///
    /// # Errors
    /// There is no answer.
    pub async fn forward(&self, request: Request<Bytes>) -> Result<Response<Incoming>, ClientError> {
        let request = self.prepare(request).await?;
        let response = self.inner.pool.request(clone_request(&request)).await;
        response.map_err(|e| ClientError::from_connection(&self.inner.config.server, &e))
    }

    /// Sends a request and decodes the JSON answer.
    ///
    /// # Errors
    /// As [`Client::send`], and when the answer is not JSON of type `T`.
    pub async fn request<T: serde::de::DeserializeOwned>(
        &self,
        request: Request<Bytes>,
    ) -> Result<T, ClientError> {
        let what = format!("{} {}", request.method(), request.uri().path());
        let response = self.send(request).await?;
        serde_json::from_slice(response.body()).map_err(|source| {
            if response.body().trim_ascii_start().starts_with(b"<") {
                return ClientError::NotKubernetes { server: self.inner.config.server.clone() };
            }
            ClientError::Decode { what, source }
        })
    }

    /// Fills in what every request needs: address, credentials, user agent.
    async fn prepare(&self, request: Request<Bytes>) -> Result<Request<Bytes>, ClientError> {
        let (mut parts, body) = request.into_parts();
        let path = parts.uri.path_and_query().map_or("/", |p| p.as_str());
        let uri = format!("{}{path}", self.inner.config.server.trim_end_matches('/'));
        parts.uri = uri.parse().map_err(|e| ClientError::Config(format!("{uri}: {e}")))?;
        let agent = HeaderValue::from_str(&self.inner.config.user_agent);
        parts
            .headers
            .entry(header::USER_AGENT)
            .or_insert(agent.unwrap_or(HeaderValue::from_static("stages")));
        self.inner.credentials.add(&mut parts.headers).await?;
        Ok(Request::from_parts(parts, body))
    }

    /// Reads the body of a refusal and makes an error of it.
    async fn refusal(&self, request: &Request<Bytes>, response: Response<Incoming>) -> ClientError {
        let (parts, body) = response.into_parts();
        let body = Limited::new(body, 1 << 20).collect().await.map(|b| b.to_bytes()).unwrap_or_default();
        response::refusal(request.method(), request.uri().path(), parts.status, &parts.headers, &body)
    }

    fn report_warnings<B>(&self, response: &Response<B>) {
        if let Some(handler) = &self.inner.config.warning_handler {
            let values = response.headers().get_all(header::WARNING);
            values
                .iter()
                .filter_map(|v| v.to_str().ok())
                .flat_map(response::warnings)
                .for_each(|w| handler(&w));
        }
    }
}

/// `http::Request` isn't `Clone` with extensions; ours never have any.
fn clone_request(request: &Request<Bytes>) -> Request<Full<Bytes>> {
    let mut clone = Request::new(Full::new(request.body().clone()));
    *clone.method_mut() = request.method().clone();
    *clone.uri_mut() = request.uri().clone();
    *clone.headers_mut() = request.headers().clone();
    clone
}

/// Whether an answer switched protocols.
fn switched(status: StatusCode) -> bool {
    status == StatusCode::SWITCHING_PROTOCOLS
}

#[cfg(test)]
mod tests;
