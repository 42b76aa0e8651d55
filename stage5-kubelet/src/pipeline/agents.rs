//! Agents: what runs on a node (its kubelet, its kube-proxy), as a process that can be stopped by itself.
//!
//! *Step 5 of a pod's journey.* Before: [`super::nodes`] made the node's namespace and started its container runtime.
//! After: a process that lives in the namespace runs the node's agents.
//!
//! A cluster of several nodes is there to lose one of them. So each node's agents are a child of the pipeline: the same
//! program, started again with `--node-agent NAME`. It learns the rest from the state directory, so the same command
//! line brings a lost node back by hand. The pipeline doesn't: it only says what happened.
//!
//! A child enters the namespace before it has a second thread, so all of its threads, sockets and children are inside.
//! It holds a lock on `nodes/NAME/agent.pid` while it lives, whoever started it; that is how the pipeline finds it.
//! And it reads its stdin, a pipe that nobody writes to: the pipe ends with the pipeline, even after `kill -9`.
//!
//! # Invariants
//! 1. One process at most runs a node's agents.
//! 2. A stop of the pipeline stops the agents that were started by hand, too.
//!
//! # In Kubernetes
//! No counterpart: systemd starts the kubelet, the kubelet starts kube-proxy. There, too, pods outlive both.
#![expect(clippy::disallowed_methods, reason = "shell: files, processes, the command line")]

use std::fs::File;
use std::io::Write as _;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use clap::Args;
use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};
use nix::sched::{CloneFlags, setns};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::{StateDir, make_private};
use tokio::process::{Child, Command};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::nodes::remembered_network;
#[cfg(feature = "containerd")]
use crate::network::loopback::LoopbackRegistries;
use crate::network::netns::is_mounted;
use crate::options::Config;

/// After SIGTERM; then SIGKILL.
const STOP_DEADLINE: Duration = Duration::from_secs(5);
/// Who looks whether a lock is held holds it for an instant.
const LOCK_DEADLINE: Duration = Duration::from_secs(1);

/// Flags of a process that runs the agents of one node.
#[derive(Clone, Debug, Default, Args)]
pub struct AgentFlags {
    /// Run only the agents of this node of a cluster that runs in the state directory
    #[arg(long, value_name = "NODE", hide = true)]
    pub node_agent: Option<String>,
    /// Stop when stdin ends
    #[arg(long, hide = true, requires = "node_agent")]
    pub until_stdin_ends: bool,
}

/// The right to run a node's agents, as long as it is kept.
#[derive(Debug)]
pub struct AgentLock(#[expect(dead_code, reason = "held, not read")] Flock<File>);

fn lock_path(state_dir: &StateDir, node_name: &str) -> PathBuf {
    state_dir.node(node_name).join("agent.pid")
}

impl AgentLock {
    /// Takes the lock and writes down who holds it.
    ///
    /// # Errors
    /// Another process runs the node's agents.
    pub fn take(state_dir: &StateDir, node_name: &str) -> anyhow::Result<Self> {
        let path = lock_path(state_dir, node_name);
        make_private(&state_dir.node(node_name))?;
        let open = || File::options().read(true).write(true).create(true).truncate(false).open(&path);
        let mut file = open().with_context(|| format!("open {}", path.display()))?;
        let deadline = Instant::now() + LOCK_DEADLINE;
        loop {
            match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
                Ok(mut lock) => {
                    lock.set_len(0)?;
                    lock.write_all(std::process::id().to_string().as_bytes())?;
                    return Ok(Self(lock));
                }
                Err((again, _)) if Instant::now() < deadline => file = again,
                Err(_) => {
                    let holder = std::fs::read_to_string(&path).unwrap_or_default();
                    bail!("the agents of {node_name} run already, as process {holder}");
                }
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

/// The process that runs a node's agents.
pub fn running_agent(state_dir: &StateDir, node_name: &str) -> Option<Pid> {
    let path = lock_path(state_dir, node_name);
    let file = File::open(&path).ok()?;
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Err((_, Errno::EWOULDBLOCK)) => {
            std::fs::read_to_string(&path).ok()?.trim().parse().ok().map(Pid::from_raw)
        }
        _ => None,
    }
}

/// Who joins a cluster with its own nodes would be a second kubelet or kube-proxy where one is: says so.
///
/// # Errors
/// The cluster of this state directory runs agents of its nodes.
pub fn refuse_second_agents(state_dir: &StateDir) -> anyhow::Result<()> {
    let Ok(nodes) = std::fs::read_dir(state_dir.root().join("nodes")) else { return Ok(()) };
    for entry in nodes.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        if let Some(pid) = running_agent(state_dir, &name) {
            bail!(
                "the cluster in {} runs, and its {name} has its agents already (process {pid})",
                state_dir.root().display()
            );
        }
    }
    Ok(())
}

/// Ends the agents of a node that an earlier pipeline left, or that were started by hand.
async fn stop_running(state_dir: &StateDir, node_name: &str) {
    let Some(pid) = running_agent(state_dir, node_name) else { return };
    for signal in [Signal::SIGTERM, Signal::SIGKILL] {
        let _ = kill(pid, signal);
        let deadline = Instant::now() + STOP_DEADLINE;
        while Instant::now() < deadline {
            if running_agent(state_dir, node_name) != Some(pid) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
}

/// Starts a node's agents in a process of their own; the task ends them when `stopping` is cancelled.
///
/// # Errors
/// The process can't be started.
pub(super) async fn start_process(
    state_dir: &StateDir,
    node_name: &str,
    agents: &str,
    stopping: CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    stop_running(state_dir, node_name).await;
    let path = state_dir.logs().join(format!("{node_name}.log"));
    make_private(&state_dir.logs())?;
    let log = File::options().create(true).append(true).open(&path).context("open the node's log")?;
    let mut words = std::env::args_os();
    let program = words.next().unwrap_or_default();
    let flags: Vec<_> = words.chain(["--node-agent".into(), node_name.into()]).collect();
    // This very program, even if its file has been replaced since.
    let mut child = Command::new("/proc/self/exe")
        .arg0(&program)
        .args(&flags)
        .arg("--until-stdin-ends")
        .env("STAGES_STATE_DIR", state_dir.root())
        .env_remove("KUBECONFIG")
        // A group of its own: Ctrl-C in the terminal must reach us first, so that all stop in order.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .with_context(|| format!("start the agents of {node_name}"))?;
    let pid = child.id().unwrap_or_default();
    info!("Node {node_name}: {agents} run as process {pid}, see {}", path.display());
    let shown: Vec<_> = std::iter::once(&program).chain(&flags).map(|word| word.to_string_lossy()).collect();
    let again = shown.join(" ");
    let (state_dir, node_name) = (state_dir.clone(), node_name.to_owned());
    Ok(tokio::spawn(async move {
        // tokio closes the stdin of a child that it waits for; this pipe must last as long as we do.
        let lifeline = child.stdin.take();
        let ended = stopping.run_until_cancelled(child.wait()).await;
        match ended {
            Some(status) => {
                let how = status.map_or_else(|error| error.to_string(), |status| status.to_string());
                warn!(
                    "Node {node_name}: process {pid} ended by itself ({how}) and is not restarted; to bring the node back: {again}"
                );
                stopping.cancelled().await;
            }
            None => end_child(&mut child).await,
        }
        stop_running(&state_dir, &node_name).await;
        drop(lifeline);
    }))
}

async fn end_child(child: &mut Child) {
    if let Some(pid) = child.id().and_then(|pid| i32::try_from(pid).ok()) {
        let _ = kill(Pid::from_raw(pid), Signal::SIGTERM);
    }
    if tokio::time::timeout(STOP_DEADLINE, child.wait()).await.is_err() {
        let _ = child.kill().await;
    }
}

/// The other side: this process runs the agents of one node.
#[derive(Debug)]
pub struct NodeAgent {
    /// `node-2`.
    pub name: String,
    /// Its InternalIP.
    pub ip: IpAddr,
    /// The API server's URL for it.
    pub server: String,
    state_dir: StateDir,
    unique_name: String,
    until_stdin_ends: bool,
    _lock: AgentLock,
}

impl NodeAgent {
    /// Finds the node in the state directory and moves this thread into its namespace: to be called before there
    /// is another thread.
    ///
    /// # Errors
    /// There is no such node, or its agents run already.
    pub fn enter(state_dir: &StateDir, flags: &AgentFlags) -> anyhow::Result<Self> {
        let node_name = flags.node_agent.as_deref().context("--node-agent names a node")?;
        let cluster = remembered_network(state_dir)
            .with_context(|| format!("no cluster with nodes in {}", state_dir.root().display()))?;
        let ordinal: u32 = node_name
            .strip_prefix("node-")
            .and_then(|text| text.parse().ok())
            .with_context(|| format!("{node_name} is not a node's name like node-1"))?;
        ensure!((1..=crate::network::MAX_NODES).contains(&ordinal), "there is no {node_name}");
        let node = cluster.node(ordinal);
        ensure!(is_mounted(&node.netns), "{node_name} has no network: is the cluster running?");
        let server = ClientConfig::from_kubeconfig(&kubeconfig(state_dir, node_name), None)?.server;
        let lock = AgentLock::take(state_dir, node_name)?;
        setns(File::open(&node.netns)?, CloneFlags::CLONE_NEWNET)
            .with_context(|| format!("enter {}", node.netns.display()))?;
        Ok(Self {
            ip: node.ip.into(),
            server,
            state_dir: state_dir.clone(),
            unique_name: format!("{}-{node_name}", cluster.bridge()),
            name: node.name,
            until_stdin_ends: flags.until_stdin_ends,
            _lock: lock,
        })
    }

    /// Where the cluster's files are.
    pub fn state_dir(&self) -> &StateDir {
        &self.state_dir
    }

    /// Cancelled at SIGTERM, SIGINT, and at the end of the pipeline that started us.
    pub fn stopping(&self) -> CancellationToken {
        let stopping = CancellationToken::new();
        let asked = stopping.clone();
        tokio::spawn(async move {
            signals::shutdown().await;
            asked.cancel();
        });
        if self.until_stdin_ends {
            let ended = stopping.clone();
            // A thread of its own: a read of stdin can't be cancelled, and nobody may wait for it.
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
                ended.cancel();
            });
        }
        stopping
    }

    /// Runs the node's kubelet.
    ///
    /// # Errors
    /// The node's containerd doesn't answer, or the kubelet can't serve.
    pub async fn run_kubelet(&self, stopping: CancellationToken) -> anyhow::Result<()> {
        info!("Node {}: kubelet runs as process {}", self.name, std::process::id());
        let client = kubelet_client(&kubeconfig(&self.state_dir, &self.name))?;
        let config = kubelet_config(&self.state_dir, &self.name, self.ip, Some(&self.unique_name));
        let runtime = containerd(&self.state_dir, &self.name).await?;
        crate::kubelet::run(config, client, runtime, stopping).await?;
        Ok(())
    }
}

#[cfg(feature = "containerd")]
async fn containerd(state_dir: &StateDir, node_name: &str) -> anyhow::Result<crate::cri::SharedRuntime> {
    let socket = super::nodes::layout(state_dir, node_name, node_name.to_owned())?.socket();
    let mut runtime = crate::cri::containerd::Containerd::connect(&socket.display().to_string()).await?;
    if let Some(way_out) = super::nodes::remembered_egress(state_dir) {
        runtime = runtime.with_loopback(LoopbackRegistries::new(way_out));
    }
    Ok(std::sync::Arc::new(runtime))
}

#[cfg(not(feature = "containerd"))]
async fn containerd(_: &StateDir, node_name: &str) -> anyhow::Result<crate::cri::SharedRuntime> {
    bail!("{node_name} needs containerd, which isn't built in (cargo feature `real`)")
}

fn kubeconfig(state_dir: &StateDir, node_name: &str) -> PathBuf {
    state_dir.node(node_name).join("kubelet.kubeconfig")
}

/// A client with a node's own identity.
pub(super) fn kubelet_client(kubeconfig: &Path) -> anyhow::Result<Client> {
    Ok(Client::new(ClientConfig::from_kubeconfig(kubeconfig, None)?.with_user_agent("kubelet"))?)
}

/// The kubelet of a pipeline's node; `unique_name` where the node is more than simulated.
pub(super) fn kubelet_config(
    state_dir: &StateDir,
    node_name: &str,
    ip: IpAddr,
    unique_name: Option<&str>,
) -> Config {
    let mut config = Config::new(node_name, ip, state_dir.node(node_name).join("kubelet"));
    config.client_ca_file = Some(state_dir.pki().join("ca.crt"));
    config.cgroups = unique_name.is_some();
    if state_dir.root().join("images").is_dir() {
        // They were imported because they can't be pulled: what is removed would never come back.
        config.image_gc_high_threshold_percent = 100;
    }
    match unique_name {
        Some(name) => config.cgroup_root = format!("/{name}"),
        // All simulated nodes share the host's address: each takes a free port.
        None => config.port = 0,
    }
    config
}
