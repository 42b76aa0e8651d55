//! The server under test: a process that can be killed, on a port that stays.

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use stage1_kubectl::client::{Client, ClientConfig};
use tempfile::TempDir;
use tokio::time::sleep;

pub struct Server {
    directory: TempDir,
    ports: (u16, u16),
    process: Child,
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    pub async fn start() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let ports = (free_port(), free_port());
        let process = spawn(directory.path().to_owned(), ports);
        let server = Server { directory, ports, process };
        server.ready().await;
        server
    }

    /// As the administrator.
    pub fn client(&self) -> Client {
        let path = self.directory.path().join("admin.kubeconfig");
        let mut config = ClientConfig::from_kubeconfig(&path, None).unwrap();
        config.http1_only = true;
        Client::new(config).unwrap()
    }

    async fn ready(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < deadline, "the server doesn't come up");
            if self.directory.path().join("admin.kubeconfig").exists() {
                let request = Request::get("/readyz").body(Bytes::new()).unwrap();
                if self.client().send(request).await.is_ok() {
                    return;
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn kill_and_start_again(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = spawn(self.directory.path().to_owned(), self.ports);
        self.ready().await;
    }

    /// Forgets all history up to now, by etcd's command line (without it, history stays).
    pub async fn compact(&self, client: &Client) {
        let request = Request::get("/api/v1/namespaces?limit=1").body(Bytes::new()).unwrap();
        let list: serde_json::Value = client.request(request).await.unwrap();
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let pki = self.directory.path().join("pki");
        let compacted = tokio::process::Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints=https://127.0.0.1:{}", self.ports.1))
            .arg(format!("--cacert={}", pki.join("etcd/ca.crt").display()))
            .arg(format!("--cert={}", pki.join("apiserver-etcd-client.crt").display()))
            .arg(format!("--key={}", pki.join("apiserver-etcd-client.key").display()))
            // A busy machine is no failure of the store.
            .args(["--dial-timeout=60s", "--command-timeout=60s", "compact", &revision])
            .output()
            .await;
        match compacted {
            Ok(output) => assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr)),
            Err(_) => println!("watch checker: no etcdctl, history isn't forgotten"),
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn spawn(directory: PathBuf, (port, store_port): (u16, u16)) -> Child {
    Command::new(env!("CARGO_BIN_EXE_kube-apiserver"))
        .args(["--store", "embedded", "--secure-port", &port.to_string()])
        .args(["--store-client-port", &store_port.to_string(), "--state-dir"])
        .arg(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
