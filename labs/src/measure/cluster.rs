//! A pipeline to measure: started as a user starts it, and watched from outside.
//!
//! *All six steps of a pod's journey.* Time runs from before the process is made until the API says that the node is Ready.
//!
//! The subtle thing is the second start in the same state directory: the store still says `Ready: True` from the last time, and
//! whoever believes it measures nothing. Only a heartbeat later than the stored one was written by this start's kubelet.
//! Heartbeats are whole seconds, so a start waits until the second of the last one is over.
//!
//! # Invariants
//! 1. A Ready that an earlier start wrote never ends a measurement.
//! 2. Nothing that is measured is left running.
//!
//! # In Kubernetes
//! `test/e2e/framework/node` waits for nodes in the same way.
#![expect(clippy::disallowed_methods, reason = "shell: starts a process, reads the clock")]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::state_dir::StateDir;

/// How long a start or a stop may take before it is a failure.
const PATIENCE: Duration = Duration::from_secs(60);
/// Time between two looks: small against what is measured, large against what a look costs.
const LOOK: Duration = Duration::from_millis(10);
const NODE: &str = "node-1";

/// What to start, and where.
#[derive(Clone, Debug)]
pub struct Setup<'a> {
    /// kube-proxy.
    pub program: &'a Path,
    /// The state directory.
    pub dir: &'a Path,
    /// More of its flags.
    pub args: &'a [&'a str],
}

/// A pipeline whose node is Ready.
pub struct Pipeline {
    child: Child,
    /// The administrator's client.
    pub client: Client,
    /// Its state directory.
    pub state_dir: StateDir,
    /// From the start of the process to Ready.
    pub start_time: Duration,
}

impl Pipeline {
    /// Starts it and waits for a Ready that is later than `last_heartbeat`.
    ///
    /// # Errors
    /// It ends, or isn't ready in a minute; the message names its log.
    pub async fn start(setup: &Setup<'_>, last_heartbeat: Option<Timestamp>) -> anyhow::Result<Self> {
        if let Some(last) = last_heartbeat {
            let over = last + Duration::from_secs(1);
            let wait = Duration::try_from(over.duration_since(Timestamp::now())).unwrap_or(Duration::ZERO);
            tokio::time::sleep(wait).await;
        }
        let state_dir = StateDir::new(Some(setup.dir.to_owned()))?;
        let log_path = setup.dir.join("pipeline.log");
        let log = std::fs::File::options().create(true).append(true).open(&log_path)?;
        let begin = Instant::now();
        let mut child = Command::new(setup.program)
            .arg("--state-dir")
            .arg(setup.dir)
            .args(["--secure-port", "0"])
            .args(setup.args)
            .env_remove("KUBECONFIG")
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("start {}", setup.program.display()))?;
        let ready = wait_ready(&mut child, &state_dir, last_heartbeat, begin + PATIENCE).await;
        let start_time = begin.elapsed();
        match ready {
            Ok(client) => Ok(Self { child, client, state_dir, start_time }),
            Err(error) => {
                // The child is ours and may still start things: it must clean up as on Ctrl-C.
                stop(&mut child).await.ok();
                Err(error.context(format!("see {}", log_path.display())))
            }
        }
    }

    /// The process that is all six stages.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The heartbeat that the store will still show at the next start.
    ///
    /// # Errors
    /// The node can't be read.
    pub async fn heartbeat(&self) -> anyhow::Result<Option<Timestamp>> {
        Ok(ready_heartbeat(&self.client.api::<Node>().get(NODE).await?))
    }

    /// Stops it as Ctrl-C does.
    ///
    /// # Errors
    /// It doesn't stop in a minute, or says that something went wrong.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        stop(&mut self.child).await
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        // After an error on the way: as Ctrl-C, so that it takes its containers along.
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = kill(pid_of(&self.child), Signal::SIGTERM);
            let _ = self.child.wait();
        }
    }
}

fn pid_of(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a pid fits"))
}

async fn stop(child: &mut Child) -> anyhow::Result<()> {
    kill(pid_of(child), Signal::SIGINT).context("stop the pipeline")?;
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(status) = child.try_wait()? {
            ensure!(status.success(), "the pipeline ended with {status}");
            return Ok(());
        }
        ensure!(Instant::now() < deadline, "the pipeline doesn't stop");
        tokio::time::sleep(LOOK).await;
    }
}

async fn wait_ready(
    child: &mut Child,
    state_dir: &StateDir,
    last_heartbeat: Option<Timestamp>,
    deadline: Instant,
) -> anyhow::Result<Client> {
    let kubeconfig = state_dir.admin_kubeconfig();
    loop {
        if let Some(client) = client(&kubeconfig)
            && let Ok(node) = client.api::<Node>().get(NODE).await
            && ready_heartbeat(&node).is_some_and(|at| last_heartbeat.is_none_or(|last| at > last))
        {
            return Ok(client);
        }
        if let Some(status) = child.try_wait()? {
            bail!("the pipeline ended with {status}");
        }
        ensure!(Instant::now() < deadline, "no node is Ready after {} s", PATIENCE.as_secs());
        tokio::time::sleep(LOOK).await;
    }
}

/// `None` until the file is there, whole and right.
fn client(kubeconfig: &Path) -> Option<Client> {
    Client::new(ClientConfig::from_kubeconfig(kubeconfig, None).ok()?).ok()
}

/// When a Ready node said so last; `None` for a node that isn't.
fn ready_heartbeat(node: &Node) -> Option<Timestamp> {
    let mut conditions = node.status.as_ref()?.conditions.iter().flatten();
    let ready = conditions.find(|condition| condition.type_ == "Ready" && condition.status == "True")?;
    ready.last_heartbeat_time.as_ref().map(|time| time.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_node_that_is_ready_has_a_heartbeat_that_counts() {
        let node = |status: &str| -> Node {
            serde_json::from_value(serde_json::json!({"metadata": {"name": "n"}, "status": {"conditions": [
                {"type": "MemoryPressure", "status": "True", "lastHeartbeatTime": "2026-01-01T00:00:09Z"},
                {"type": "Ready", "status": status, "lastHeartbeatTime": "2026-01-01T00:00:01Z"}]}}))
            .unwrap()
        };
        assert_eq!(ready_heartbeat(&node("True")), Some("2026-01-01T00:00:01Z".parse().unwrap()));
        assert_eq!(ready_heartbeat(&node("False")), None);
        assert_eq!(ready_heartbeat(&Node::default()), None);
    }
}
