//! The keeper: an etcd that ended is started again.
//!
//! Before: [`EtcdProcess::start`] has one that answers. After: there always is one, at the same address. Without it every request is
//! answered with a 500 until somebody restarts the pipeline, for a process that somebody ended by accident, or the kernel for want
//! of memory. Nothing is lost meanwhile: what was acknowledged is on disk, and the server's client and its watch connect again by
//! themselves.
//!
//! # Invariants
//! 1. Two starts are at least [`LOOK_PERIOD`] apart.
//! 2. After [`Keeper::stop`] nothing is started any more.
//!
//! # In Kubernetes
//! The kubelet restarts etcd's static pod, with its back-off.

use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::MissedTickBehavior;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::{EtcdOptions, EtcdProcess};

/// How often the process is looked at: it may have been adopted, and of those no news comes.
const LOOK_PERIOD: Duration = Duration::from_millis(500);

/// What looks after one etcd.
#[derive(Debug)]
pub struct Keeper {
    stopping: CancellationToken,
    task: JoinHandle<()>,
}

impl Keeper {
    /// Keeps a process that answers now.
    pub fn start(process: EtcdProcess, options: EtcdOptions) -> Self {
        let stopping = CancellationToken::new();
        let task = tokio::spawn(keep(process, options, stopping.clone()));
        Self { stopping, task }
    }

    /// Ends the keeping and the process.
    pub async fn stop(self) {
        self.stopping.cancel();
        // After a panic there is nothing left to stop: the process went with its value.
        let _ = self.task.await;
    }
}

async fn keep(mut process: EtcdProcess, options: EtcdOptions, stopping: CancellationToken) {
    let mut looks = tokio::time::interval(LOOK_PERIOD);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    while stopping.run_until_cancelled(looks.tick()).await.is_some() {
        if process.is_running() {
            continue;
        }
        warn!(pid = process.pid(), log = %options.log_file.display(), "etcd ended by itself, starting it again");
        if let Err(error) = process.restart(&options) {
            warn!(%error, "etcd does not start");
        }
    }
    process.stop().await;
}
