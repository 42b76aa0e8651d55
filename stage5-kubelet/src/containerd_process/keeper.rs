//! The keeper: a containerd that ended is started again.
//!
//! *Step 5 of a pod's journey.* Before: [`super::ContainerdProcess::start`] has one that answers. After: there always is one.
//!
//! Pods don't die with containerd: each has a shim, which the next containerd finds in its state directory. What dies is everything
//! that needs a question answered; the node turns NotReady. So whoever ends containerd by accident or on purpose
//! loses a second.
//!
//! The keeper's task runs on the node's threads: what it starts is inside of the node's namespace.
//!
//! # Invariants
//! 1. Two starts are at least [`FIRST_WAIT`] apart; one that fails doubles the wait, up to [`MAX_WAIT`].
//! 2. After [`Keeper::stop`] nothing is started any more.
//!
//! # In Kubernetes
//! No counterpart: `Restart=always` in containerd's systemd unit.

use std::time::Duration;

use nix::unistd::Pid;
use tokio::process::Child;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::config::Layout;
use super::{Environment, running, spawn};

/// Between an end and the next start.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// A machine on which it can't start needs somebody to look; it must not be busy with trying.
const MAX_WAIT: Duration = Duration::from_secs(30);
/// How often an adopted process, which isn't our child, is looked for.
const LOOK_PERIOD: Duration = Duration::from_secs(1);

/// What looks after one containerd.
#[derive(Debug)]
pub(super) struct Keeper {
    stopping: CancellationToken,
    task: JoinHandle<(Pid, Option<Child>)>,
}

impl Keeper {
    /// Keeps a process that answers now. `child`: `None` when an earlier run started it.
    pub(super) fn start(layout: Layout, environment: Environment, pid: Pid, child: Option<Child>) -> Self {
        let stopping = CancellationToken::new();
        let task = tokio::spawn(keep(layout, environment, (pid, child), stopping.clone()));
        Self { stopping, task }
    }

    /// Ends the keeping, not the process: answers which one it is.
    pub(super) async fn stop(self) -> (Pid, Option<Child>) {
        self.stopping.cancel();
        // A pid that nobody has: the task panicked. The next start finds containerd by its pid file.
        self.task.await.unwrap_or((Pid::from_raw(i32::MAX), None))
    }
}

async fn keep(
    layout: Layout,
    environment: Environment,
    mut current: (Pid, Option<Child>),
    stopping: CancellationToken,
) -> (Pid, Option<Child>) {
    let mut wait = FIRST_WAIT;
    loop {
        if stopping.run_until_cancelled(ended(&layout, &mut current.1)).await.is_none() {
            return current;
        }
        let node = &layout.node_name;
        warn!(node, pid = current.0.as_raw(), "Containerd ended by itself, starting it again");
        loop {
            if stopping.run_until_cancelled(tokio::time::sleep(wait)).await.is_none() {
                return current;
            }
            // Not cut off by a stop: a process that nobody knows of would be left.
            match spawn(&layout, &environment).await {
                Ok((pid, child)) => {
                    info!(node, pid = pid.as_raw(), "Started containerd again, its pods were not touched");
                    current = (pid, Some(child));
                    wait = FIRST_WAIT;
                    break;
                }
                Err(error) => {
                    wait = (wait * 2).min(MAX_WAIT);
                    warn!(node, %error, ?wait, "Containerd does not start");
                }
            }
        }
    }
}

async fn ended(layout: &Layout, child: &mut Option<Child>) {
    match child {
        Some(child) => drop(child.wait().await),
        None => {
            while running(layout).is_some() {
                tokio::time::sleep(LOOK_PERIOD).await;
            }
        }
    }
}
