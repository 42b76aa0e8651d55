//! `kube-proxy`: flags, logging, wiring, run.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use stage1_kubectl::client::running::{cluster_given, running_cluster};
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::logging::{self, LogFormat, LogOptions};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::StateDir;
use stage5_kubelet::pipeline::{NodeAgent, PipelineFlags, refuse_second_agents};
use stage6_proxy::options::{Config, ProxyFlags};
use stage6_proxy::{pipeline, proxier};
use tokio_util::sync::CancellationToken;

/// Stage 6: makes Services reachable. Without a cluster, starts one: stages 1 to 6 in this process
#[derive(Debug, Parser)]
#[command(name = "kube-proxy", version)]
struct CommandLine {
    /// The cluster to serve; without it the whole pipeline is started
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    #[command(flatten, next_help_heading = "Proxy")]
    proxy: ProxyFlags,
    #[command(flatten, next_help_heading = "Pipeline")]
    pipeline: PipelineFlags,
    /// How much to log
    #[arg(short, long, default_value_t = 0, value_name = "LEVEL")]
    v: u8,
    /// How log lines look
    #[arg(long, default_value = "text", value_parser = ["text", "json"], value_name = "FORMAT")]
    log_format: String,
}

fn main() -> ExitCode {
    match start(&CommandLine::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn start(flags: &CommandLine) -> anyhow::Result<()> {
    let state_dir = StateDir::locate(flags.pipeline.stages.cluster.state_dir.clone());
    logging::init(&LogOptions {
        v: flags.v,
        format: if flags.log_format == "json" { LogFormat::Json } else { LogFormat::Text },
        file: None,
        journey_file: Some(state_dir.journey_file()),
    })?;
    // Before there is a second thread: the agents of a node live in the node's namespace.
    let wanted = flags.pipeline.agent.node_agent.as_ref();
    let agent = wanted.map(|_| NodeAgent::enter(&state_dir, &flags.pipeline.agent)).transpose()?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    match agent {
        Some(agent) => runtime.block_on(pipeline::run_agents(&agent, &flags.pipeline, &flags.proxy)),
        None => runtime.block_on(run(flags, &state_dir)),
    }
}

async fn run(flags: &CommandLine, state_dir: &StateDir) -> anyhow::Result<()> {
    let config = Config::new(&flags.proxy, &flags.pipeline.stages.controllers.cluster_cidr, &hostname())?;
    let named = flags.kubeconfig.clone().filter(|_| cluster_given(&["--kubeconfig"]));
    if let Some(kubeconfig) = named.or_else(|| config.kubeconfig.clone()) {
        return run_alone(&kubeconfig, config).await;
    }
    if let Some(kubeconfig) = running_cluster(state_dir, "kube-proxy").await {
        refuse_second_agents(state_dir)?;
        return run_alone(&kubeconfig, config).await;
    }
    // Listened for from the start: a Ctrl-C while parts are starting must stop them, too.
    let asked = tokio::spawn(signals::shutdown());
    let cluster = pipeline::start(&flags.pipeline, &flags.proxy).await?;
    eprintln!("export KUBECONFIG={}", cluster.state_dir.admin_kubeconfig().display());
    asked.await?;
    tracing::info!("Stopping");
    cluster.stop().await;
    Ok(())
}

/// This node's proxy for a cluster that runs elsewhere.
async fn run_alone(kubeconfig: &std::path::Path, config: Config) -> anyhow::Result<()> {
    let client = Client::new(ClientConfig::from_kubeconfig(kubeconfig, None)?.with_user_agent("kube-proxy"))?;
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        signals::shutdown().await;
        stop.cancel();
    });
    proxier::run(config, client, shutdown).await?;
    Ok(())
}

fn hostname() -> String {
    nix::unistd::gethostname().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}
