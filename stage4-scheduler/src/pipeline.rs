//! Pipeline: the scheduler against an API server, wherever that runs.
//!
//! *The frame of this stage.* [`run`] is the component: a client, a configuration, until the end. It knows
//! nothing of stage 2 but a URL and credentials. [`start`] starts stages 1 to 3 in this process first.
//!
//! # In Kubernetes
//! `cmd/kube-scheduler/app/server.go` (`Run`). Left out: authentication of `/metrics`.

#![expect(clippy::disallowed_methods, reason = "shell: a random part of the identity")]

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;

use anyhow::Context;
use prometheus_client::registry::Registry;
use stage1_kubectl::client::Client;
use stage3_controllers::informer::factory::InformerFactory;
use stage3_controllers::leader_election::elector::{Elector, Times, run_leading};
use stage3_controllers::serving::{HealthCheck, Serving, ServingCertificate, serve};
use tokio_util::sync::CancellationToken;

use crate::configuration::Configuration;
use crate::extender::Extender;
use crate::metrics::Metrics;
use crate::options::Config;
use crate::scheduler::{self, Options, Scheduler};

pub use stage3_controllers::pipeline::{Cluster, Flags};

/// User and kubeconfig name of the scheduler.
pub const COMPONENT: &str = "kube-scheduler";

/// Starts the API server, the controllers and the scheduler in this process.
///
/// # Errors
/// An earlier stage can't start, or the scheduler's credentials can't be used.
pub async fn start(flags: &Flags) -> anyhow::Result<Cluster> {
    let cluster = stage3_controllers::pipeline::start(flags).await?;
    let client = cluster.client(COMPONENT)?;
    // One process has one scheduler, so nobody is elected; any free port does for its health.
    let serving = SocketAddr::from((Ipv4Addr::LOCALHOST, 0));
    let configuration = Configuration { leader_election: None, ..Configuration::default() };
    let config = Config { configuration, serving };
    let shutdown = cluster.shutdown.clone();
    cluster.spawn(COMPONENT, async move {
        if let Err(error) = run(client, config, "pipeline", shutdown).await {
            tracing::error!(error = format!("{error:#}"), "Scheduler failed");
        }
    });
    Ok(cluster)
}

/// Runs the scheduler until `shutdown`, or until it lost its lease.
///
/// # Errors
/// Health and metrics can't be served.
pub async fn run(
    client: Client,
    config: Config,
    host: &str,
    shutdown: CancellationToken,
) -> anyhow::Result<()> {
    let configuration = config.configuration;
    for note in &configuration.notes {
        tracing::warn!("{note}");
    }
    let extenders = configuration.file.extenders.iter().map(Extender::new).collect::<Result<Vec<_>, _>>()?;
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    let factory = InformerFactory::new(client.clone(), shutdown.clone());
    let options = Options { extenders, rate: configuration.rate, ..Options::default() };
    let profiles = Arc::new(configuration.profiles);
    let scheduler = Scheduler::with_options(client.clone(), profiles, host, metrics, options);
    if !configuration.file.delay_cache_until_active {
        // Whoever waits for the lease watches already, and is ready at once when it leads.
        scheduler::start_watches(&factory);
    }
    let informers = factory.clone();
    let synced = HealthCheck::ready("informer-sync", move || match informers.not_synced() {
        missing if missing.is_empty() => Ok(()),
        missing => Err(format!("not synced: {}", missing.join(", "))),
    });
    let serving = Serving {
        component: "kube-scheduler".to_owned(),
        checks: vec![synced],
        metrics: Arc::new(registry),
        certificate: ServingCertificate::SelfSigned,
    };
    serve(serving, config.serving, shutdown.clone()).await.context("serving health and metrics")?;
    match configuration.leader_election {
        None => scheduler::run(scheduler, factory, shutdown).await,
        Some(election) => {
            let identity = format!("{host}_{:016x}", rand::random::<u64>());
            let times = Times {
                lease_duration: election.lease_duration,
                renew_deadline: election.renew_deadline,
                retry_period: election.retry_period,
            };
            let elector = Elector::new(&client, &election.namespace, &election.name, &identity);
            let elector = elector.with_times(times);
            run_leading(elector, shutdown, |leading| scheduler::run(scheduler, factory, leading)).await;
        }
    }
    Ok(())
}
