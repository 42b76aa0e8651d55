//! Pipeline: the scheduler against an API server, wherever that runs.
//!
//! *The frame of this stage.* [`run`] is the component: a client, a configuration, until the end. It knows
//! nothing of stage 2 but a URL and credentials.
//!
//! # In Kubernetes
//! `cmd/kube-scheduler/app/server.go` (`Run`). Left out: authentication of `/metrics`.

#![expect(clippy::disallowed_methods, reason = "shell: a random part of the identity")]

use std::sync::Arc;

use anyhow::Context;
use prometheus_client::registry::Registry;
use stage1_kubectl::client::Client;
use stage3_controllers::informer::factory::InformerFactory;
use stage3_controllers::leader_election::elector::{Elector, run_leading};
use stage3_controllers::serving::{HealthCheck, Serving, ServingCertificate, serve};
use tokio_util::sync::CancellationToken;

use crate::metrics::Metrics;
use crate::options::Config;
use crate::scheduler::{self, Scheduler};

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
    let mut registry = Registry::default();
    let metrics = Metrics::new(&mut registry);
    let factory = InformerFactory::new(client.clone(), shutdown.clone());
    let scheduler = Scheduler::new(client.clone(), Arc::new(config.profiles), host, metrics);
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
    match config.lease {
        None => scheduler::run(scheduler, factory, shutdown).await,
        Some((namespace, name)) => {
            let identity = format!("{host}_{:016x}", rand::random::<u64>());
            let elector = Elector::new(&client, &namespace, &name, &identity);
            run_leading(elector, shutdown, |leading| scheduler::run(scheduler, factory, leading)).await;
        }
    }
    Ok(())
}
