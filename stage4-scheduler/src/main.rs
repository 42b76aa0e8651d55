//! kube-scheduler: flags, configuration, logging, wiring, run.
#![expect(clippy::disallowed_methods, reason = "shell: reads the host name")]

use anyhow::Context;
use clap::Parser;
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::logging::{self, LogOptions};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::StateDir;
use stage4_scheduler::options::Flags;
use stage4_scheduler::pipeline;
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let flags = Flags::parse();
    let state_dir = StateDir::locate(flags.state_dir.clone());
    let journey_file = state_dir.logs().is_dir().then(|| state_dir.journey_file());
    logging::init(&LogOptions { v: flags.v, journey_file, ..LogOptions::default() })
        .context("opening the log")?;
    let config = flags.config()?;
    // Given, or that of a cluster that runs in the state directory.
    let running = state_dir.kubeconfig("kube-scheduler");
    let kubeconfig = flags.kubeconfig.clone().or_else(|| running.is_file().then_some(running));
    let client = ClientConfig::from_flags(kubeconfig.as_deref(), flags.master.as_deref())
        .context("no API server: give --kubeconfig")?
        .with_user_agent("kube-scheduler");
    let client = Client::new(client)?;
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        signals::shutdown().await;
        stop.cancel();
    });
    pipeline::run(client, config, host.trim(), shutdown).await
}
