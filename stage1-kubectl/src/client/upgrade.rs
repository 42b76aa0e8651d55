//! Leaving HTTP behind: a connection of its own that becomes a plain byte stream.
//!
//! `exec`, `attach` and `port-forward` begin as an HTTP request and go on as WebSocket or SPDY. The pool's HTTP/2
//! connection can't do that, so each such call dials a new HTTP/1.1 connection, sends the request, and takes the socket
//! over when the server answers `101 Switching Protocols`.
//!
//! # In Kubernetes
//! `client-go/transport/{spdy,websocket}`.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;

use super::connection::BoxedIo;
use super::{Client, ClientError, response, switched};

/// The byte stream after the switch.
pub type UpgradedIo = TokioIo<hyper::upgrade::Upgraded>;

impl Client {
    /// Sends a request with `Connection: Upgrade` and takes the connection over.
    ///
    /// # Errors
    /// [`ClientError::Api`] when the server answers anything but 101.
    pub async fn upgrade(&self, request: Request<Bytes>) -> Result<(Response<()>, UpgradedIo), ClientError> {
        let server = self.inner.config.server.clone();
        let lost = |e: hyper::Error| ClientError::from_connection(&server, &e);
        let mut request = self.prepare(request).await?;
        let io = self.dial(request.uri()).await?;
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(io)).await.map_err(lost)?;
        tokio::spawn(connection.with_upgrades());

        let host = request.uri().authority().map(|a| a.as_str().to_string()).unwrap_or_default();
        let path = request.uri().path_and_query().cloned().expect("prepared requests have a path");
        *request.uri_mut() = path.into();
        let host = HeaderValue::from_str(&host).expect("an authority is a valid header value");
        request.headers_mut().insert(header::HOST, host);
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        let kept = request.clone();

        let mut response = sender.send_request(request.map(Full::new)).await.map_err(lost)?;
        self.report_warnings(&response);
        if !switched(response.status()) {
            let (parts, body) = response.into_parts();
            let body = Limited::new(body, 1 << 20).collect().await.map(|b| b.to_bytes()).unwrap_or_default();
            let (method, path) = (kept.method(), kept.uri().path());
            let error = response::refusal(method, path, parts.status, &parts.headers, &body);
            return Err(response::upgrade_refusal(error, &parts.headers, &body));
        }
        let upgraded = hyper::upgrade::on(&mut response).await.map_err(lost)?;
        Ok((response.map(drop), TokioIo::new(upgraded)))
    }

    async fn dial(&self, uri: &http::Uri) -> Result<BoxedIo, ClientError> {
        let config = &self.inner.config;
        let lost = |e: std::io::Error| ClientError::from_connection(&config.server, &e);
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        let secure = uri.scheme_str() == Some("https");
        let tcp = self.inner.dialer.dial(uri).await.map_err(lost)?;
        if !secure {
            return Ok(tcp);
        }
        let mut tls =
            crate::tls::client_config(&config.tls).map_err(|e| ClientError::Config(e.to_string()))?;
        tls.alpn_protocols = vec![b"http/1.1".to_vec()];
        let name = config.tls_server_name.clone().unwrap_or_else(|| host.to_string());
        let name = ServerName::try_from(name).map_err(|e| ClientError::Config(e.to_string()))?;
        let tls = tokio_rustls::TlsConnector::from(Arc::new(tls)).connect(name, tcp).await.map_err(lost)?;
        Ok(Box::pin(tls))
    }
}
