//! containerd of one node: its configuration, its process, its end.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::network`] made the node's namespace. After: the kubelet
//! speaks CRI to the socket.
//!
//! Every node has a containerd of its own, because a runtime gives pods the network of the namespace that it lives
//! in. It is started from a thread that has entered the node's namespace and inherits it. It is *not* started
//! by `ip netns exec`: that mounts a fresh `/sys` without cgroups, and no container would start.
//!
//! containerd outlives us on purpose: after `kill -9` of this process the pods still run, and the next start finds
//! the process by its pid file and socket and adopts it. A clean stop is different: it stops all
//! sandboxes first, then containerd, then removes what both left behind (mounts, cgroups, sockets). The records of the sandboxes
//! stay, as on a machine that was switched off: the next kubelet sees that the pods' containers ended, and counts the restart.
//!
//! A containerd that ends by itself is started again ([`keeper`]). It pulls through the pipeline's process
//! ([`crate::network::egress`]), which its environment names.
//!
//! Two things must be known to write the configuration. Without CAP_SYS_RESOURCE no process may lower its OOM score,
//! and runc fails with a text about a pipe; `restrict_oom_score_adj` clamps it. And overlayfs doesn't
//! stack on overlayfs, so that in a container the slower `native` snapshotter is used.
//!
//! # Invariants
//! 1. All names and paths hold the cluster and the node: two clusters side by side share nothing but the machine.
//! 2. Sockets lie in the run directory: a socket's path may have 107 characters.
//!
//! # In Kubernetes
//! No counterpart: the administrator installs a runtime and CNI plugins. Left out: registry mirrors, user namespaces.
#![expect(clippy::disallowed_methods, reason = "shell: files and a process")]

use std::io;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tokio::process::{Child, Command};
use tracing::{info, warn};

use crate::cri::{SharedRuntime, containerd::Containerd};
use crate::network::Ipv4Cidr;

pub mod clean_up;
pub mod config;
pub mod import;
mod keeper;

use clean_up::{clean_up, stop_all_pods};
use config::{Layout, Machine, find};
use keeper::Keeper;

/// containerd answers within 0.2 s on an idle machine.
const START_DEADLINE: Duration = Duration::from_secs(30);
/// An old one that is asked whether it still answers.
const ADOPT_DEADLINE: Duration = Duration::from_secs(5);
/// After SIGTERM; then SIGKILL.
const STOP_DEADLINE: Duration = Duration::from_secs(5);
/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum ContainerdError {
    /// A file or folder.
    #[error("cannot write {path}")]
    File {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The program.
    #[error("cannot start {program}")]
    Start {
        /// Which.
        program: String,
        /// Why.
        source: io::Error,
    },
    /// It started and never answered.
    #[error("containerd of {node} does not answer on {socket}, see {log}")]
    NoAnswer {
        /// Of which node.
        node: String,
        /// Where.
        socket: PathBuf,
        /// Its output.
        log: PathBuf,
    },
    /// `ctr images import`.
    #[error("cannot import image {path}: {message}")]
    Import {
        /// The archive.
        path: PathBuf,
        /// What ctr said.
        message: String,
    },
}

fn write(path: &Path, text: &str) -> Result<(), ContainerdError> {
    let failed = |source| ContainerdError::File { path: path.to_owned(), source };
    if let Some(folder) = path.parent() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
    }
    std::fs::write(path, text).map_err(failed)
}

/// Variables of containerd's environment.
pub type Environment = Vec<(&'static str, String)>;

/// A containerd that answers, and is kept answering.
#[derive(Debug)]
pub struct ContainerdProcess {
    layout: Layout,
    keeper: Keeper,
}

impl ContainerdProcess {
    /// Starts containerd, or adopts the one of an earlier run. Call it on the node's runtime: the process inherits the
    /// network namespace of the thread that starts it.
    ///
    /// # Errors
    /// It can't be started, or doesn't answer within half a minute.
    pub async fn start(
        layout: Layout,
        machine: &Machine,
        environment: Environment,
    ) -> Result<Self, ContainerdError> {
        if let Some(pid) = running(&layout) {
            let node = &layout.node_name;
            if !has_environment(pid, &environment) {
                info!(node, "Containerd of an earlier run has another way to registries, starting a new one");
            } else if answers(&layout, ADOPT_DEADLINE).await {
                info!(node, pid = pid.as_raw(), "Adopted containerd of an earlier run");
                return Ok(Self { keeper: Keeper::start(layout.clone(), environment, pid, None), layout });
            } else {
                warn!(
                    node,
                    pid = pid.as_raw(),
                    "Containerd of an earlier run does not answer, starting a new one"
                );
            }
            // Two on one folder: the second would wait for the first one's database for ever, while the first one answers
            // in its place.
            end(pid, || running(&layout).is_none()).await;
        }
        write(&layout.config_path(), &layout.config_toml(machine))?;
        write(&layout.log_path(), "")?;
        std::fs::create_dir_all(layout.cni_conf_dir())
            .map_err(|source| ContainerdError::File { path: layout.cni_conf_dir(), source })?;
        let (pid, child) = spawn(&layout, &environment).await?;
        info!(node = %layout.node_name, pid = pid.as_raw(), "Started containerd");
        Ok(Self { keeper: Keeper::start(layout.clone(), environment, pid, Some(child)), layout })
    }

    /// Where things are.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Gives pods their addresses; containerd notices the file by itself.
    ///
    /// # Errors
    /// The file can't be written.
    pub fn set_pod_cidr(&self, pod_cidr: Ipv4Cidr) -> Result<(), ContainerdError> {
        // Written in place: containerd 1.6 ignores the event of a file that is moved in, and reads a half-written one
        // again at the next event.
        let path = self.layout.cni_conf_dir().join("10-six-stages.conflist");
        let text = self.layout.cni_conflist(pod_cidr);
        if std::fs::read_to_string(&path).is_ok_and(|old| old == text) {
            return Ok(());
        }
        write(&path, &text)
    }

    /// Stops every pod, then containerd; removes what they leave behind. Images stay, and the records of the pods.
    pub async fn stop(self, runtime: &SharedRuntime) {
        let Self { layout, keeper } = self;
        stop_all_pods(runtime, &layout.node_name).await;
        let (pid, child) = keeper.stop().await;
        match child {
            Some(mut child) => end(pid, || child.try_wait().is_ok_and(|ended| ended.is_some())).await,
            // Not our child: all that can be done is to look.
            None => end(pid, || running(&layout).is_none()).await,
        }
        clean_up(&layout).await;
    }
}

/// Starts the process and waits until it answers.
async fn spawn(layout: &Layout, environment: &Environment) -> Result<(Pid, Child), ContainerdError> {
    let start = |source| ContainerdError::Start { program: "containerd".to_owned(), source };
    let log = std::fs::File::options().create(true).append(true).open(layout.log_path()).map_err(start)?;
    let program = find("containerd").map_err(|why| start(io::Error::other(why)))?;
    let mut command = Command::new(program);
    // Their lower case twins would be read where ours are empty.
    for name in ["http_proxy", "https_proxy", "no_proxy"] {
        command.env_remove(name);
    }
    let child = command
        .arg("--config")
        .arg(layout.config_path())
        .envs(environment.iter().map(|(name, value)| (name, value)))
        // A group of its own: Ctrl-C in the terminal must reach us first, so that pods are stopped in order.
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone().map_err(start)?)
        .stderr(log)
        .spawn()
        .map_err(start)?;
    let pid = Pid::from_raw(child.id().and_then(|id| i32::try_from(id).ok()).unwrap_or_default());
    write(&layout.pid_path(), &pid.to_string())?;
    if !answers(layout, START_DEADLINE).await {
        let _ = kill(pid, Signal::SIGKILL);
        let (node, log) = (layout.node_name.clone(), layout.log_path());
        return Err(ContainerdError::NoAnswer { node, socket: layout.socket(), log });
    }
    Ok((pid, child))
}

/// Asks a process to end, and makes it.
async fn end(pid: Pid, mut ended: impl FnMut() -> bool) {
    let _ = kill(pid, Signal::SIGTERM);
    if !poll(STOP_DEADLINE, || std::future::ready(ended())).await {
        warn!(pid = pid.as_raw(), "Containerd did not stop, killing it");
        let _ = kill(pid, Signal::SIGKILL);
        poll(STOP_DEADLINE, || std::future::ready(ended())).await;
    }
}

/// The containerd that an earlier run left, if the pid is still the one that we started.
fn running(layout: &Layout) -> Option<Pid> {
    let pid: i32 = std::fs::read_to_string(layout.pid_path()).ok()?.trim().parse().ok()?;
    let command = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    let config = layout.config_path();
    let config = config.as_os_str().as_encoded_bytes();
    command.split(|byte| *byte == 0).any(|argument| argument == config).then(|| Pid::from_raw(pid))
}

/// Whether a process was started with these variables.
fn has_environment(pid: Pid, environment: &Environment) -> bool {
    let block = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    let variables: Vec<&[u8]> = block.split(|byte| *byte == 0).collect();
    environment.iter().all(|(name, value)| variables.contains(&format!("{name}={value}").as_bytes()))
}

async fn answers(layout: &Layout, deadline: Duration) -> bool {
    use crate::cri::RuntimeService as _;
    let socket = layout.socket().display().to_string();
    poll(deadline, || async {
        match Containerd::connect(&socket).await {
            Ok(runtime) => runtime.version().await.is_ok(),
            Err(_) => false,
        }
    })
    .await
}

/// Looks until something is so. A look that itself takes too long is over with the deadline, too.
async fn poll<F: Future<Output = bool>>(deadline: Duration, mut condition: impl FnMut() -> F) -> bool {
    let looking = async {
        while !condition().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(deadline, looking).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_question_that_nobody_answers_ends_with_the_deadline() {
        assert!(!poll(Duration::from_millis(10), std::future::pending).await);
        let mut looks = 0;
        let third = poll(ADOPT_DEADLINE, || {
            looks += 1;
            std::future::ready(looks == 3)
        });
        assert!(third.await);
    }
}
