//! An etcd of our own: started when none is given, found again when one still runs.
//!
//! *Step 2 of a pod's journey.* Before: the pipeline found the `etcd` program and no `--etcd-servers`. After:
//! [`crate::storage::etcd`] connects.
//!
//! etcd holds every Secret, so reaching its port must not be enough: both its ports are on loopback, speak TLS, and
//! accept only clients with a certificate of the cluster's CA (its data directory is 0700). The file `client.json` in the data
//! directory says at which port it listens and under which pid; a start after a crash finds the orphan there, tries it, and
//! takes it over instead of fighting over the lock of the data. One that ends by itself is started again ([`keeper`]).
//!
//! # Invariants
//! 1. At most one etcd runs for a data directory (etcd itself holds a lock, too).
//! 2. Only a process that was started for this data directory is ever signalled.
//! 3. It doesn't get the signals of our terminal: whoever still writes while stopping can.
//!
//! # In Kubernetes
//! kubeadm's static pod manifest for etcd (`cmd/kubeadm/app/phases/etcd/local.go`) has the same flags, but for the timings of an
//! election that always has one voter. Left out: several members.

#![expect(clippy::disallowed_methods, reason = "shell: starts a process, reads and writes its state")]

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};

use super::StorageError;
use super::etcd::{EtcdConfig, current_revision, unavailable};

mod keeper;
pub use keeper::Keeper;

/// How long an etcd may take from its start to its first answer.
const START_TIMEOUT: Duration = Duration::from_secs(30);
/// How long it may take to stop before it is killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(20);

/// What an etcd needs.
#[derive(Debug, Clone)]
pub struct EtcdOptions {
    /// The program, usually `etcd`.
    pub program: PathBuf,
    /// Its data directory, made with mode 0700 when missing.
    pub data_dir: PathBuf,
    /// Where its log goes.
    pub log_file: PathBuf,
    /// CA of clients and peers.
    pub ca_file: PathBuf,
    /// Its serving certificate, for 127.0.0.1, usable as a client too (peers).
    pub cert_file: PathBuf,
    /// The key of `cert_file`.
    pub key_file: PathBuf,
    /// Our client certificate and key, as PEM text.
    pub client_pem: (String, String),
}

/// A running etcd.
#[derive(Debug)]
pub struct EtcdProcess {
    child: Option<Child>,
    pid: Pid,
    /// How to connect.
    pub config: EtcdConfig,
    state_file: PathBuf,
}

#[derive(Debug, Serialize, Deserialize)]
struct Running {
    pid: i32,
    endpoint: String,
}

impl EtcdProcess {
    /// Finds the etcd that runs for the data directory, or starts one, and waits until it answers.
    ///
    /// # Errors
    /// The program can't be started, ends, or doesn't answer in time; the message names its log.
    pub async fn start(options: &EtcdOptions) -> Result<Self, StorageError> {
        let state_file = options.data_dir.join("client.json");
        let mut config = EtcdConfig {
            endpoints: Vec::new(),
            ca_pem: Some(std::fs::read_to_string(&options.ca_file).map_err(unavailable)?),
            client_pem: Some(options.client_pem.clone()),
        };
        if let Some(running) = read_state(&state_file, &options.data_dir) {
            config.endpoints = vec![running.endpoint];
            if wait_until_serving(&config, || Ok(()), Duration::from_secs(5)).await.is_ok() {
                let pid = Pid::from_raw(running.pid);
                return Ok(EtcdProcess { child: None, pid, config, state_file });
            }
        }
        let started = || -> io::Result<_> {
            let endpoint = format!("https://127.0.0.1:{}", free_port()?);
            Ok((spawn(options, &endpoint, &state_file)?, endpoint))
        };
        let (child, endpoint) = started().map_err(|e| unavailable(format!("starting etcd: {e}")))?;
        config.endpoints = vec![endpoint];
        let pid = i32::try_from(child.id()).unwrap_or_default();
        // From here on it is a value whose end ends the process, even if nobody waits for its first answer any more.
        let mut process = EtcdProcess { child: Some(child), pid: Pid::from_raw(pid), config, state_file };
        let log = options.log_file.display();
        let child = &mut process.child;
        let alive = || match child.as_mut().map(Child::try_wait) {
            Some(Ok(Some(status))) => Err(unavailable(format!("etcd ended with {status}, see {log}"))),
            Some(Err(error)) => Err(unavailable(error)),
            Some(Ok(None)) | None => Ok(()),
        };
        let serving = wait_until_serving(&process.config, alive, START_TIMEOUT).await;
        match serving {
            Ok(()) => Ok(process),
            Err(error) => {
                process.stop().await;
                Err(error)
            }
        }
    }

    /// Starts it again, where its clients look for it; they find it as soon as it answers.
    fn restart(&mut self, options: &EtcdOptions) -> io::Result<()> {
        let endpoint = self.config.endpoints.first().cloned().unwrap_or_default();
        let child = spawn(options, &endpoint, &self.state_file)?;
        self.pid = Pid::from_raw(i32::try_from(child.id()).unwrap_or_default());
        self.child = Some(child);
        Ok(())
    }

    /// Asks it to stop, waits, and kills it if it doesn't.
    pub async fn stop(mut self) {
        // An error means that it is gone already, which is what we want.
        let _ = kill(self.pid, Signal::SIGTERM);
        let deadline = tokio::time::Instant::now() + STOP_TIMEOUT;
        while self.is_running() {
            if tokio::time::Instant::now() > deadline {
                let _ = kill(self.pid, Signal::SIGKILL);
            }
            tokio::time::sleep(POLL).await;
        }
        let _ = std::fs::remove_file(&self.state_file);
    }

    /// Its process id.
    pub fn pid(&self) -> i32 {
        self.pid.as_raw()
    }

    fn is_running(&mut self) -> bool {
        match &mut self.child {
            Some(child) => matches!(child.try_wait(), Ok(None)),
            None => kill(self.pid, None).is_ok(),
        }
    }
}

impl Drop for EtcdProcess {
    /// A process of ours that nobody stopped (a panic, an error on the way up) is at least asked to.
    fn drop(&mut self) {
        if self.child.is_some() && self.is_running() {
            let _ = kill(self.pid, Signal::SIGTERM);
        }
    }
}

/// The etcd noted in the state file, if its process is still that etcd.
fn read_state(state_file: &Path, data_dir: &Path) -> Option<Running> {
    let running: Running = serde_json::from_slice(&std::fs::read(state_file).ok()?).ok()?;
    // Process ids are used again: believe it only when the command line names our data directory.
    let command_line = std::fs::read(format!("/proc/{}/cmdline", running.pid)).ok()?;
    let data_dir = data_dir.to_str()?.as_bytes();
    command_line.split(|b| *b == 0).any(|argument| argument == data_dir).then_some(running)
}

fn free_port() -> io::Result<u16> {
    // Between here and etcd's own bind somebody else could take the port; etcd then ends and says so.
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Starts one that listens there, and notes it.
fn spawn(options: &EtcdOptions, client: &str, state_file: &Path) -> io::Result<Child> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&options.data_dir)?;
    if let Some(parent) = options.log_file.parent() {
        std::fs::create_dir_all(parent)?;
    }
    let log = std::fs::OpenOptions::new().create(true).append(true).open(&options.log_file)?;
    let peer = format!("https://127.0.0.1:{}", free_port()?);
    let mut child = Command::new(&options.program)
        .args(["--name", "six-stages", "--log-level", "warn", "--logger", "zap"])
        // A restarted member waits for a leader before it elects itself: with one member a second for nobody.
        .args(["--heartbeat-interval", "20", "--election-timeout", "100"])
        .arg("--data-dir")
        .arg(&options.data_dir)
        .args(["--listen-client-urls", client, "--advertise-client-urls", client])
        .args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer])
        .args(["--initial-cluster", &format!("six-stages={peer}")])
        .arg("--client-cert-auth=true")
        .arg("--trusted-ca-file")
        .arg(&options.ca_file)
        .arg("--cert-file")
        .arg(&options.cert_file)
        .arg("--key-file")
        .arg(&options.key_file)
        .arg("--peer-client-cert-auth=true")
        .arg("--peer-trusted-ca-file")
        .arg(&options.ca_file)
        .arg("--peer-cert-file")
        .arg(&options.cert_file)
        .arg("--peer-key-file")
        .arg(&options.key_file)
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        // Ctrl-C goes to the terminal's whole process group; etcd is stopped last, and by us.
        .process_group(0)
        .spawn()?;
    let pid = i32::try_from(child.id()).unwrap_or_default();
    let running = Running { pid, endpoint: client.to_owned() };
    match std::fs::write(state_file, serde_json::to_vec(&running).expect("a plain struct")) {
        Ok(()) => Ok(child),
        Err(error) => {
            // Nobody would find it again, and it would keep the lock of the data.
            let _ = child.kill();
            let _ = child.wait();
            Err(io::Error::new(error.kind(), format!("writing {}: {error}", state_file.display())))
        }
    }
}

async fn wait_until_serving(
    config: &EtcdConfig,
    mut alive: impl FnMut() -> Result<(), StorageError>,
    timeout: Duration,
) -> Result<(), StorageError> {
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        alive()?;
        let attempt = async { current_revision(&mut config.connect().await?.kv_client()).await };
        let error = match tokio::time::timeout(Duration::from_secs(2), attempt).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(error)) => error,
            Err(_) => unavailable("etcd doesn't answer"),
        };
        if tokio::time::Instant::now() > deadline {
            return Err(error);
        }
        tokio::time::sleep(POLL).await;
    }
}
