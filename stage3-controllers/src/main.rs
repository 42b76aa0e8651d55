//! kube-controller-manager: flags, configuration, logging, wiring, run.
//!
//! With a cluster (`--kubeconfig`, `--master`, `KUBECONFIG`, or one that runs in the state directory) only the controllers run; without one an API server is
//! started first, in the same process.
//!
//! # In Kubernetes
//! `cmd/kube-controller-manager/controller-manager.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the environment")]

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use prometheus_client::registry::Registry;
use stage1_kubectl::client::running::{cluster_given, running_cluster, state_dir_given};
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::logging::{self, LogFormat, LogOptions};
use stage1_kubectl::signals;
use stage1_kubectl::state_dir::StateDir;
use stage3_controllers::informer::factory::InformerFactory;
use stage3_controllers::leader_election::elector::{Elector, run_leading};
use stage3_controllers::manager;
use stage3_controllers::options::Flags;
use stage3_controllers::pipeline::{self, COMPONENT};
use stage3_controllers::serving::{GIT_VERSION, HealthCheck, Serving, ServingCertificate, serve};
use tokio_util::sync::CancellationToken;

/// The controllers alone, on a cluster that runs.
#[derive(Parser)]
#[command(name = "kube-controller-manager", version = GIT_VERSION, about = "Stage 3: make it so, again and again")]
struct ComponentCli {
    #[command(flatten)]
    flags: Flags,
}

/// The stages up to this one.
#[derive(Parser)]
#[command(name = "kube-controller-manager", version = GIT_VERSION)]
struct PipelineCli {
    #[command(flatten)]
    flags: pipeline::Flags,
    /// Number for the log level verbosity
    #[arg(short, long, default_value_t = 0)]
    v: u8,
    /// Sets the log format: text or json
    #[arg(long, default_value = "text", value_parser = ["text", "json"])]
    log_format: String,
}

fn main() -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    match runtime.map_err(anyhow::Error::from).and_then(|runtime| runtime.block_on(run())) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn run() -> anyhow::Result<()> {
    if cluster_given(&["--kubeconfig", "--master", "--help", "-h", "--version", "-V"]) {
        return run_component(ComponentCli::parse().flags).await;
    }
    if let Some(kubeconfig) = running_cluster(&state_dir_given(), COMPONENT).await {
        let mut flags = ComponentCli::parse().flags;
        flags.kubeconfig = Some(kubeconfig);
        return run_component(flags).await;
    }
    let cli = PipelineCli::parse();
    let state_dir = StateDir::new(cli.flags.cluster.state_dir.clone())?;
    start_logging(cli.v, &cli.log_format, &state_dir)?;
    // Listened for from the start: a Ctrl-C while parts are starting must stop them, too.
    let asked = tokio::spawn(signals::shutdown());
    let cluster = pipeline::start(&cli.flags).await?;
    asked.await?;
    cluster.stop().await;
    Ok(())
}

fn start_logging(v: u8, format: &str, state_dir: &StateDir) -> std::io::Result<()> {
    let format = if format == "json" { LogFormat::Json } else { LogFormat::Text };
    logging::init(&LogOptions { v, format, file: None, journey_file: Some(state_dir.journey_file()) })
}

async fn run_component(flags: Flags) -> anyhow::Result<()> {
    start_logging(flags.v, &flags.log_format, &StateDir::new(flags.state_dir.clone())?)?;
    let config = ClientConfig::from_flags(flags.kubeconfig.as_deref(), flags.master.as_deref())?;
    let client = Client::new(config.with_user_agent(COMPONENT))?;
    let shutdown = CancellationToken::new();
    let factory = InformerFactory::new(client.clone(), shutdown.clone());
    let (root_ca, key) = (flags.root_ca_file.as_deref(), flags.service_account_private_key_file.as_deref());
    let config = pipeline::configure(&flags.controllers, flags.kubeconfig.as_deref(), root_ca, key)?;
    let synced = factory.clone();
    let check = move || match synced.not_synced().as_slice() {
        [] => Ok(()),
        kinds => Err(format!("not synced: {}", kinds.join(", "))),
    };
    let certificate = match (flags.tls_cert_file.clone(), flags.tls_private_key_file.clone()) {
        (Some(certificate), Some(key)) => ServingCertificate::Files { certificate, key },
        _ => ServingCertificate::SelfSigned,
    };
    let checks = vec![HealthCheck::ready("informer-sync", check)];
    let serving =
        Serving { component: COMPONENT.into(), checks, metrics: Arc::new(Registry::default()), certificate };
    let address =
        serve(serving, SocketAddr::new(flags.bind_address, flags.secure_port), shutdown.clone()).await?;
    tracing::info!(version = GIT_VERSION, %address, leader_elect = flags.leader_elect, "Starting kube-controller-manager");
    let stop = shutdown.clone();
    tokio::spawn(async move {
        signals::shutdown().await;
        stop.cancel();
    });
    if !flags.leader_elect {
        manager::run(client, config, factory, shutdown).await;
        return Ok(());
    }
    let identity = format!(
        "{}_{}",
        std::env::var("HOSTNAME").unwrap_or_else(|_| "localhost".into()),
        uuid::Uuid::new_v4()
    );
    let elector = Elector::new(
        &client,
        &flags.leader_elect_resource_namespace,
        &flags.leader_elect_resource_name,
        &identity,
    );
    let stopped = shutdown.clone();
    run_leading(elector, shutdown, |leading| manager::run(client, config, factory, leading)).await;
    // A leader that lost its lease ends, and whoever supervises it starts a new contender.
    if stopped.is_cancelled() { Ok(()) } else { anyhow::bail!("leader election lost") }
}
