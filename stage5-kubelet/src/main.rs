//! kubelet: flags, logging, wiring, run.
//!
//! With a cluster (`--kubeconfig`, `KUBECONFIG`, or one that runs in the state directory) this machine becomes one node of
//! it; without one stages 1 to 4 are started first, in the same process, and as many nodes as `--nodes` says.
//!
//! # In Kubernetes
//! `cmd/kubelet/kubelet.go`.

use std::process::ExitCode;

use clap::Parser;
use stage1_kubectl::client::ClientConfig;
use stage1_kubectl::client::running::{cluster_given, flag_given, running_cluster, state_dir_given};
use stage1_kubectl::logging::{self, LogOptions};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::StateDir;
use stage3_controllers::pipeline::node_kubeconfig;
use stage5_kubelet::options::Flags;
use stage5_kubelet::pipeline::{self, NodeAgent, PipelineFlags};
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

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> anyhow::Result<()> {
    // Before there is a second thread: the agent of a node moves into the node's namespace.
    let agent = flag_given(&["--node-agent"]).then(enter_node).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match agent {
        Some(agent) => runtime.block_on(async { agent.run_kubelet(agent.stopping()).await }),
        None => runtime.block_on(run_alone_or_pipeline()),
    }
}

fn enter_node() -> anyhow::Result<NodeAgent> {
    let cli = PipelineCli::parse();
    let state_dir = StateDir::locate(cli.flags.stages.cluster.state_dir.clone());
    start_logging(cli.v, &state_dir)?;
    NodeAgent::enter(&state_dir, &cli.flags.agent)
}

async fn run_alone_or_pipeline() -> anyhow::Result<()> {
    if cluster_given(&["--kubeconfig", "--help", "-h", "--version", "-V"]) {
        return run_alone(Flags::parse()).await;
    }
    let state_dir = state_dir_given();
    if let Some(admin) = running_cluster(&state_dir, "admin").await {
        pipeline::refuse_second_agents(&state_dir)?;
        let mut flags = Flags::parse();
        let server = ClientConfig::from_kubeconfig(&admin, None)?.server;
        let name = standalone::node_name(&flags)?;
        flags.kubeconfig = Some(node_kubeconfig(&state_dir, &name, &server)?);
        // What is below /var belongs to the machine's own kubelet.
        flags.root_dir.get_or_insert_with(|| state_dir.node(&name).join("kubelet"));
        flags.client_ca_file.get_or_insert_with(|| state_dir.pki().join("ca.crt"));
        return run_alone(flags).await;
    }
    let cli = PipelineCli::parse();
    start_logging(cli.v, &StateDir::locate(cli.flags.stages.cluster.state_dir.clone()))?;
    // Listened for from the start: a Ctrl-C while parts are starting must stop them, too.
    let asked = tokio::spawn(signals::shutdown());
    let (cluster, _nodes) = pipeline::start(&cli.flags, "kubelet").await?;
    asked.await?;
    cluster.stop().await;
    Ok(())
}

async fn run_alone(flags: Flags) -> anyhow::Result<()> {
    start_logging(flags.v, &StateDir::locate(flags.state_dir.clone()))?;
    let shutdown = CancellationToken::new();
    let asked = shutdown.clone();
    tokio::spawn(async move {
        signals::shutdown().await;
        asked.cancel();
    });
    standalone::run(&flags, shutdown).await
}

fn start_logging(v: u8, state_dir: &StateDir) -> anyhow::Result<()> {
    let journey_file = state_dir.logs().is_dir().then(|| state_dir.journey_file());
    Ok(logging::init(&LogOptions { v, journey_file, ..LogOptions::default() })?)
}
