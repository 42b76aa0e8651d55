//! The server that is measured: its own process, in a state directory that goes with it.
//!
//! # In Kubernetes
//! No counterpart.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail};
use bytes::Bytes;
use http::Request;
use nix::sys::signal::{Signal, kill};
use nix::time::ClockId;
use nix::unistd::Pid;
use procfs::process::Process;
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::state_dir::StateDir;

use super::load::Done;

/// In MB.
pub struct Memory {
    /// Now.
    pub resident: f64,
    /// The most since [`Server::forget_peak`].
    pub peak: f64,
    /// Heap and stacks.
    pub anonymous: f64,
}

/// A server that is ready.
pub struct Server {
    child: Child,
    process: Process,
    directory: tempfile::TempDir,
    /// From the start of the process until `/readyz` says yes; etcd's start is part of it.
    pub start_time: Duration,
}

fn config(directory: &Path) -> anyhow::Result<ClientConfig> {
    let state_dir = StateDir::new(Some(directory.to_owned()))?;
    Ok(ClientConfig::from_kubeconfig(&state_dir.kubeconfig("admin"), None)?)
}

impl Server {
    /// Starts one.
    pub async fn start() -> anyhow::Result<Self> {
        let directory = tempfile::tempdir()?;
        let started = Instant::now();
        let mut child = Command::new(env!("CARGO_BIN_EXE_kube-apiserver"))
            .args(["--secure-port", "0", "--state-dir"])
            .arg(directory.path())
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let process = Process::new(i32::try_from(child.id())?)?;
        while started.elapsed() < Duration::from_secs(30) {
            if let Some(status) = child.try_wait()? {
                bail!("the server ended: {status}");
            }
            if ready(directory.path()).await {
                return Ok(Server { child, process, directory, start_time: started.elapsed() });
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        child.kill()?;
        bail!("the server isn't ready after 30 s")
    }

    /// The administrator's client, with a connection of its own.
    pub fn client(&self) -> anyhow::Result<Client> {
        Ok(Client::new(config(self.directory.path())?)?)
    }

    /// CPU time so far.
    pub fn cpu_time(&self) -> anyhow::Result<Duration> {
        Ok(ClockId::pid_cpu_clock_id(Pid::from_raw(self.process.pid()))?.now()?.into())
    }

    /// Memory now.
    pub fn memory(&self) -> anyhow::Result<Memory> {
        let status = self.process.status()?;
        let megabytes = |kibibytes: Option<u64>| kibibytes.unwrap_or_default() as f64 * 1024.0 / 1e6;
        Ok(Memory {
            resident: megabytes(status.vmrss),
            peak: megabytes(status.vmhwm),
            anonymous: megabytes(status.rssanon),
        })
    }

    /// Begins a new peak.
    pub fn forget_peak(&self) -> anyhow::Result<()> {
        std::fs::write(format!("/proc/{}/clear_refs", self.process.pid()), "5").context("clear_refs")
    }

    /// Puts of so many bytes into the server's etcd, past the server; none without etcd.
    #[cfg(feature = "etcd")]
    pub async fn etcd_puts(
        &self,
        bytes: usize,
        count: usize,
        workers: usize,
    ) -> anyhow::Result<Option<Done>> {
        use etcd_client::{Certificate, ConnectOptions, Identity, TlsOptions};
        let of = format!("/proc/{0}/task/{0}/children", self.process.pid());
        let Some(etcd) = std::fs::read_to_string(of)?.split_whitespace().next().map(str::to_owned) else {
            return Ok(None);
        };
        let arguments = Process::new(etcd.parse()?)?.cmdline()?;
        let flag = arguments.iter().position(|argument| argument == "--listen-client-urls");
        let endpoint =
            flag.and_then(|at| arguments.get(at + 1)).context("etcd has no --listen-client-urls")?.clone();
        let pki = self.directory.path().join("pki");
        let pem = |name: &str| std::fs::read(pki.join(name));
        let identity =
            Identity::from_pem(pem("apiserver-etcd-client.crt")?, pem("apiserver-etcd-client.key")?);
        let tls =
            TlsOptions::new().ca_certificate(Certificate::from_pem(pem("etcd/ca.crt")?)).identity(identity);
        let client =
            etcd_client::Client::connect([endpoint], Some(ConnectOptions::new().with_tls(tls))).await?;
        let value = Bytes::from(vec![b'x'; bytes]);
        let done = super::load::spread(0..count, workers, move |number| {
            let (mut kv, value) = (client.kv_client(), value.clone());
            async move {
                kv.put(format!("/bare/{workers}/{number}"), value, None).await?;
                Ok(())
            }
        });
        Ok(Some(done.await?))
    }

    /// The embedded store has no puts from outside.
    #[cfg(not(feature = "etcd"))]
    #[expect(clippy::unused_async, reason = "has the signature of the other")]
    pub async fn etcd_puts(&self, _: usize, _: usize, _: usize) -> anyhow::Result<Option<Done>> {
        Ok(None)
    }

    /// Stops it as a user does.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        kill(Pid::from_raw(self.process.pid()), Signal::SIGTERM)?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // After an error; etcd goes with its parent. One that has ended already stays ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

async fn ready(directory: &Path) -> bool {
    let Ok(Ok(client)) = config(directory).map(Client::new) else { return false };
    let Ok(request) = Request::get("/readyz").body(Bytes::new()) else { return false };
    client.send(request).await.is_ok()
}
