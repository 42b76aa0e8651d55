//! kubelet: flags, logging, wiring, run.
//!
//! With a cluster (`--kubeconfig` or `KUBECONFIG`) this machine becomes one node of it; without one stages 1 to 4 are started first, in
//! the same process, and as many nodes as `--nodes` says.
//!
//! # In Kubernetes
//! `cmd/kubelet/kubelet.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the environment")]

use clap::Parser;
use stage1_kubectl::logging::{self, LogOptions};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::StateDir;
use stage5_kubelet::options::Flags;
use stage5_kubelet::pipeline::{self, PipelineFlags};
use stage5_kubelet::standalone;
use tokio_util::sync::CancellationToken;

/// The stages up to this one.
#[derive(Parser)]
#[command(name = "kubelet", version, about = "Stage 5: run the pods of a node")]
struct PipelineCli {
    #[command(flatten)]
    flags: PipelineFlags,
    /// How much is logged
    #[arg(short, default_value_t = 0, value_name = "LEVEL")]
    v: u8,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given =
        |flag: &str| std::env::args().any(|word| word == flag || word.starts_with(&format!("{flag}=")));
    let alone = ["--kubeconfig", "--help", "-h", "--version", "-V"].iter().any(|flag| given(flag));
    if alone || std::env::var_os("KUBECONFIG").is_some() {
        let flags = Flags::parse();
        start_logging(flags.v, &StateDir::locate(flags.state_dir.clone()))?;
        let shutdown = CancellationToken::new();
        let asked = shutdown.clone();
        tokio::spawn(async move {
            signals::shutdown().await;
            asked.cancel();
        });
        return standalone::run(&flags, shutdown).await;
    }
    let cli = PipelineCli::parse();
    start_logging(cli.v, &StateDir::locate(cli.flags.stages.cluster.state_dir.clone()))?;
    let (cluster, _nodes) = pipeline::start(&cli.flags).await?;
    signals::shutdown().await;
    cluster.stop().await;
    Ok(())
}

fn start_logging(v: u8, state_dir: &StateDir) -> anyhow::Result<()> {
    let journey_file = state_dir.logs().is_dir().then(|| state_dir.journey_file());
    Ok(logging::init(&LogOptions { v, journey_file, ..LogOptions::default() })?)
}
