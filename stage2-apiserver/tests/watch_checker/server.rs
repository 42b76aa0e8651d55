//! The server under test: a process that can be killed, on a port that stays, and its etcd, which can be killed, too.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use rand::RngExt;
use serde_json::Value;
use stage1_kubectl::client::{Client, ClientConfig};
use tempfile::TempDir;
use tokio::time::sleep;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Store {
    Embedded,
    #[cfg_attr(not(feature = "etcd"), expect(dead_code, reason = "there is no etcd"))]
    Etcd,
}

pub struct Server {
    directory: TempDir,
    store: Store,
    ports: (u16, u16),
    process: Child,
}

/// A port below those that the system gives to whoever asks for any: nobody gets it while the server is away.
fn free_port() -> u16 {
    loop {
        let port = rand::rng().random_range(20_000..30_000);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

impl Server {
    pub async fn start(store: Store) -> Self {
        for _ in 0..5 {
            let directory = tempfile::tempdir().unwrap();
            let ports = (free_port(), free_port());
            let process = spawn(directory.path().to_owned(), store, ports);
            let mut server = Server { directory, store, ports, process };
            if server.ready().await {
                return server;
            }
        }
        panic!("the server ends at once, whatever its ports");
    }

    /// As the administrator.
    pub fn client(&self) -> Client {
        let path = self.directory.path().join("admin.kubeconfig");
        let mut config = ClientConfig::from_kubeconfig(&path, None).unwrap();
        config.http1_only = true;
        Client::new(config).unwrap()
    }

    /// Waits until it is; `false`: it ended.
    async fn ready(&mut self) -> bool {
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            assert!(Instant::now() < deadline, "the server doesn't come up");
            if self.process.try_wait().unwrap().is_some() {
                return false;
            }
            if self.directory.path().join("admin.kubeconfig").exists() {
                let request = Request::get("/readyz").body(Bytes::new()).unwrap();
                if self.client().send(request).await.is_ok() {
                    return true;
                }
            }
            sleep(Duration::from_millis(50)).await;
        }
    }

    pub async fn kill_and_start_again(&mut self) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = spawn(self.directory.path().to_owned(), self.store, self.ports);
        assert!(self.ready().await, "the server doesn't start again");
    }

    /// Kills the server's etcd, and waits for the next one, which the server starts.
    pub async fn kill_etcd(&mut self) {
        let (killed, _) = etcd(self.directory.path()).expect("an etcd runs");
        kill(killed, Signal::SIGKILL).unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        while etcd(self.directory.path()).is_none_or(|(pid, _)| pid == killed) {
            assert!(Instant::now() < deadline, "no etcd was started again");
            sleep(Duration::from_millis(50)).await;
        }
        assert!(self.ready().await, "the server ended with its etcd");
    }

    /// Forgets all history up to now, by etcd's command line (without it, history stays).
    pub async fn compact(&self, client: &Client) {
        let request = Request::get("/api/v1/namespaces?limit=1").body(Bytes::new()).unwrap();
        let list: Value = client.request(request).await.unwrap();
        let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
        let endpoint = match etcd(self.directory.path()) {
            Some((_, endpoint)) => endpoint,
            None => format!("https://127.0.0.1:{}", self.ports.1),
        };
        let pki = self.directory.path().join("pki");
        let compacted = tokio::process::Command::new("etcdctl")
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints={endpoint}"))
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
        // It outlives its server, and this one gets no other.
        if let Some((pid, _)) = etcd(self.directory.path()) {
            let _ = kill(pid, Signal::SIGKILL);
        }
    }
}

/// The etcd of a state directory, if it runs: its process, and where it listens.
fn etcd(directory: &Path) -> Option<(Pid, String)> {
    let data_dir = directory.join("etcd");
    let noted: Value = serde_json::from_slice(&std::fs::read(data_dir.join("client.json")).ok()?).ok()?;
    let pid = i32::try_from(noted["pid"].as_i64()?).ok()?;
    let command_line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let data_dir = data_dir.as_os_str().as_encoded_bytes();
    let is_it = command_line.split(|byte| *byte == 0).any(|argument| argument == data_dir);
    is_it.then(|| (Pid::from_raw(pid), noted["endpoint"].as_str().unwrap_or("").to_owned()))
}

fn spawn(directory: PathBuf, store: Store, (port, store_port): (u16, u16)) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"));
    match store {
        Store::Embedded => {
            command.args(["--store", "embedded", "--store-client-port", &store_port.to_string()]);
        }
        Store::Etcd => {
            command.args(["--store", "etcd"]);
        }
    }
    command
        .args(["--secure-port", &port.to_string(), "--state-dir"])
        .arg(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}
