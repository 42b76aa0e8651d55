//! A client without opinions: any method, any header, and the answer as it came.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, Request};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use stage1_kubectl::tls::{TlsOptions, client_config};
use stage2_apiserver::pipeline::{self, Cluster, ClusterFlags, StoreKind};

/// A cluster in memory, gone with the value.
pub struct TestCluster {
    pub cluster: Cluster,
    _directory: tempfile::TempDir,
}

impl TestCluster {
    /// A cluster that was started otherwise.
    pub fn new(cluster: Cluster, directory: tempfile::TempDir) -> Self {
        Self { cluster, _directory: directory }
    }
}

/// Starts a cluster on a free port.
pub async fn cluster() -> TestCluster {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let flags = ClusterFlags {
        state_dir: Some(directory.path().to_owned()),
        store: Some(StoreKind::Memory),
        secure_port: 0,
        ..ClusterFlags::default()
    };
    let cluster = pipeline::start(&flags).await.expect("the cluster starts");
    TestCluster { cluster, _directory: directory }
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub code: u16,
    pub headers: HeaderMap,
    pub body: Bytes,
}

impl Answer {
    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub fn header(&self, name: &str) -> String {
        self.headers.get(name).and_then(|v| v.to_str().ok()).unwrap_or("").to_owned()
    }
}

/// One connection at a time, made again when it ends.
pub struct Raw {
    address: String,
    tls: Arc<rustls::ClientConfig>,
    connection: Option<SendRequest<Full<Bytes>>>,
}

impl Raw {
    /// As the administrator.
    pub fn admin(cluster: &TestCluster) -> Self {
        let credentials =
            cluster.cluster.pki().client("admin", &stage2_apiserver::pki::Identity::of_component("admin"));
        let credentials = credentials.expect("admin's certificate");
        Self::with_identity(cluster, Some((credentials.certificate_pem, credentials.key_pem)))
    }

    /// With a certificate, or without one.
    pub fn with_identity(cluster: &TestCluster, identity: Option<(String, String)>) -> Self {
        let options = TlsOptions {
            ca_pem: Some(cluster.cluster.pki().ca_pem().as_bytes().to_vec()),
            identity_pem: identity.map(|(c, k)| (c.into_bytes(), k.into_bytes())),
            insecure_skip_verify: false,
        };
        let tls = Arc::new(client_config(&options).expect("a TLS configuration"));
        let address = cluster.cluster.server.trim_start_matches("https://").to_owned();
        Self { address, tls, connection: None }
    }

    async fn connect(&self) -> SendRequest<Full<Bytes>> {
        let tcp = tokio::net::TcpStream::connect(&self.address).await.expect("the server listens");
        let name = ServerName::try_from("127.0.0.1").expect("an address");
        let tls = tokio_rustls::TlsConnector::from(self.tls.clone()).connect(name, tcp).await.expect("TLS");
        let (sender, connection) = http1::handshake(TokioIo::new(tls)).await.expect("HTTP");
        tokio::spawn(connection);
        sender
    }

    /// Sends a request and reads the whole answer.
    pub async fn send(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> Answer {
        let kept = match self.connection.take() {
            Some(mut sender) => sender.ready().await.is_ok().then_some(sender),
            None => None,
        };
        let mut sender = match kept {
            Some(sender) => sender,
            None => self.connect().await,
        };
        let mut request = Request::builder().method(method).uri(path).header("host", &self.address);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body.into())).expect("a request");
        let response = sender.send_request(request).await.expect("an answer");
        let (head, body) = response.into_parts();
        let body = body.collect().await.expect("a body").to_bytes();
        self.connection = Some(sender);
        Answer { code: head.status.as_u16(), headers: head.headers, body }
    }

    /// The first events of a watch, on a connection of its own.
    pub async fn events(&self, path: &str, count: usize) -> Vec<serde_json::Value> {
        let mut sender = self.connect().await;
        let request = Request::get(path).header("host", &self.address).body(Full::new(Bytes::new()));
        let response = sender.send_request(request.expect("a request")).await.expect("an answer");
        let (mut body, mut text) = (response.into_body(), Vec::new());
        let whole = |text: &[u8]| text.iter().filter(|byte| **byte == b'\n').count();
        let reading = async {
            while whole(&text) < count {
                let frame = body.frame().await.expect("the watch goes on").expect("a frame");
                text.extend_from_slice(&frame.into_data().unwrap_or_default());
            }
        };
        let deadline = std::time::Duration::from_secs(30);
        tokio::time::timeout(deadline, reading).await.expect("events come");
        let lines = text.split(|byte| *byte == b'\n').take(count);
        lines.map(|line| serde_json::from_slice(line).expect("an event")).collect()
    }

    /// Sends until it isn't forbidden any more: the authorizer hears of a new binding a moment after its writer.
    pub async fn send_when_allowed(
        &mut self,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &str,
    ) -> Answer {
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
        loop {
            let answer = self.send(method, path, headers, body.to_owned()).await;
            if answer.code != 403 || std::time::Instant::now() > deadline {
                return answer;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    }

    /// Sends JSON, as the client whose requests were recorded.
    pub async fn json(&mut self, method: &str, path: &str, body: &serde_json::Value) -> Answer {
        let headers = [("content-type", "application/json"), ("user-agent", "oracle/1.0")];
        self.send(method, path, &headers, body.to_string()).await
    }

    /// GET.
    pub async fn get(&mut self, path: &str) -> Answer {
        self.send("GET", path, &[], "").await
    }
}

/// Waits until something is so.
pub async fn wait_for(what: &str, mut is_so: impl FnMut() -> bool) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    while !is_so() {
        assert!(std::time::Instant::now() < deadline, "waited in vain for {what}");
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
}
