//! kube-scheduler: flags, configuration, logging, wiring, run.
//!
//! With a cluster (`--kubeconfig`, `--master`, `KUBECONFIG`, or one that runs in the state directory) only the scheduler
//! runs; without one stages 1 to 3 are started first, in the same process.
//!
//! # In Kubernetes
//! `cmd/kube-scheduler/scheduler.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the environment and the host name")]

use anyhow::Context;
use clap::Parser;
use stage1_kubectl::client::running::{cluster_given, running_cluster, state_dir_given};
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::logging::{self, LogOptions};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::StateDir;
use stage4_scheduler::bench::live;
use stage4_scheduler::commands;
use stage4_scheduler::commands::explain::Explain;
use stage4_scheduler::commands::simulate::Simulate;
use stage4_scheduler::options::{self, Flags};
use stage4_scheduler::pipeline::{self, COMPONENT};
use tokio_util::sync::CancellationToken;

/// The stages up to this one.
#[derive(Parser)]
#[command(name = "kube-scheduler", version, about = "Stage 4: choose a node")]
struct PipelineCli {
    #[command(flatten)]
    flags: pipeline::Flags,
    /// How much is logged
    #[arg(short, long = "v", default_value_t = 0, value_name = "LEVEL")]
    v: u8,
}

/// `kube-scheduler bench`.
#[derive(Parser)]
#[command(name = "kube-scheduler bench", about = "How many pods a second get a node, on a real API server")]
struct BenchCli {
    /// Kubeconfig of the API server
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    kubeconfig: Option<std::path::PathBuf>,
    /// Address of the API server, instead of the kubeconfig's
    #[arg(long, value_name = "URL")]
    master: Option<String>,
    #[command(flatten)]
    bench: live::Flags,
}

async fn run_bench() -> anyhow::Result<()> {
    let cli = BenchCli::parse_from(std::env::args_os().skip(1));
    let config = ClientConfig::from_flags(cli.kubeconfig.as_deref(), cli.master.as_deref())
        .context("no API server: give --kubeconfig")?
        .with_user_agent("kube-scheduler-bench");
    let server = config.server.clone();
    let (workload, figures) = live::run(&Client::new(config)?, &server, &cli.bench).await?;
    println!("{}", figures.line(&workload, cli.bench.nodes));
    Ok(())
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    // Everything after the subcommand's name is the subcommand's.
    let rest = || std::env::args_os().skip(1);
    match std::env::args().nth(1).as_deref() {
        Some("explain") => {
            logging::init(&LogOptions::default()).context("opening the log")?;
            print!("{}", commands::explain::run(&Explain::parse_from(rest())).await?);
            return Ok(());
        }
        Some("simulate") => {
            print!("{}", commands::simulate::run(&Simulate::parse_from(rest()))?);
            return Ok(());
        }
        Some("bench") => return run_bench().await,
        _ => {}
    }
    if cluster_given(&[
        "--kubeconfig",
        "--master",
        "--config",
        "--write-config-to",
        "--help",
        "-h",
        "--version",
        "-V",
    ]) {
        return run_component(Flags::parse()).await;
    }
    if let Some(kubeconfig) = running_cluster(&state_dir_given(), COMPONENT).await {
        return run_component(Flags { kubeconfig: Some(kubeconfig), ..Flags::parse() }).await;
    }
    let cli = PipelineCli::parse();
    let state_dir = StateDir::new(cli.flags.cluster.state_dir.clone())?;
    start_logging(cli.v, &state_dir)?;
    // Listened for from the start: a Ctrl-C while parts are starting must stop them, too.
    let asked = tokio::spawn(signals::shutdown());
    let cluster = pipeline::start(&cli.flags).await?;
    asked.await?;
    cluster.stop().await;
    Ok(())
}

fn start_logging(v: u8, state_dir: &StateDir) -> anyhow::Result<()> {
    let journey_file = state_dir.logs().is_dir().then(|| state_dir.journey_file());
    logging::init(&LogOptions { v, journey_file, ..LogOptions::default() }).context("opening the log")
}

async fn run_component(flags: Flags) -> anyhow::Result<()> {
    start_logging(flags.v, &StateDir::locate(flags.state_dir.clone()))?;
    let config = flags.config()?;
    if let Some(path) = &flags.write_config_to {
        std::fs::write(path, options::shown(&config.configuration)?)
            .with_context(|| format!("{}", path.display()))?;
        return Ok(());
    }
    let named = Some(&config.configuration.file.client_connection.kubeconfig).filter(|path| !path.is_empty());
    let kubeconfig = named.map(std::path::PathBuf::from);
    let client = ClientConfig::from_flags(kubeconfig.as_deref(), flags.master.as_deref())
        .context("no API server: give --kubeconfig")?
        .with_user_agent(COMPONENT);
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
