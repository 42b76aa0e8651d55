//! A rollout against its lower bound: `kubectl apply` of three replicas, and the same three by bare CRI calls.
//!
//! *All six steps of a pod's journey.* The clock starts before kubectl does and stops when the Deployment says `readyReplicas: 3`.
//!
//! What can't be had faster is what containerd, CNI and runc need. So the same sandboxes and containers are made once more, one
//! after another, from the configuration that the kubelet's own functions give for the very pods of the rollout, on the same
//! containerd, in the same round. The quotient is what six stages, a store and three informers cost.
//!
//! # Invariants
//! 1. Apply and calls of one round see the same machine load: rounds alternate, nothing is measured in blocks.
//!
//! # In Kubernetes
//! `perf-tests/clusterloader2`, pod startup latency.
#![expect(clippy::disallowed_methods, reason = "shell: runs kubectl, reads the clock")]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use futures::StreamExt as _;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::Pod;
use stage1_kubectl::request::{DeleteParams, ListParams, WatchParams};
use stage1_kubectl::watch::WatchEvent;

use super::cluster::Pipeline;

const MANIFEST: &str = include_str!("web.yaml");
const NAME: &str = "measured";
const NAMESPACE: &str = "default";
const REPLICAS: i32 = 3;
const PATIENCE: Duration = Duration::from_secs(60);

/// Applies the Deployment; returns how long it took to be 3/3 Ready.
///
/// # Errors
/// kubectl fails, or it takes more than a minute.
pub async fn apply(pipeline: &Pipeline, kubectl: &Path) -> anyhow::Result<Duration> {
    let manifest = pipeline.state_dir.root().join("measured.yaml");
    std::fs::write(&manifest, MANIFEST)?;
    let params =
        WatchParams { field_selector: Some(format!("metadata.name={NAME}")), ..WatchParams::default() };
    let watch = pipeline.client.namespaced::<Deployment>(NAMESPACE).watch(&params).await?;
    let mut watch = std::pin::pin!(watch);
    let begin = Instant::now();
    let mut child = Command::new(kubectl)
        .args(["apply", "-f"])
        .arg(&manifest)
        .env("KUBECONFIG", pipeline.state_dir.admin_kubeconfig())
        .stdout(Stdio::null())
        .spawn()
        .with_context(|| format!("run {}", kubectl.display()))?;
    let ready = async {
        while let Some(event) = watch.next().await {
            if let WatchEvent::Added(deployment) | WatchEvent::Modified(deployment) = event?
                && deployment.status.and_then(|status| status.ready_replicas) == Some(REPLICAS)
            {
                return Ok(begin.elapsed());
            }
        }
        bail!("the watch ended")
    };
    let took = tokio::time::timeout(PATIENCE, ready).await;
    ensure!(child.wait()?.success(), "kubectl apply failed");
    took.context("three replicas are not ready after a minute")?
}

/// The pods of the Deployment.
///
/// # Errors
/// They can't be listed.
pub async fn pods(pipeline: &Pipeline) -> anyhow::Result<Vec<Pod>> {
    let params = ListParams { label_selector: Some(format!("app={NAME}")), ..ListParams::default() };
    Ok(pipeline.client.namespaced::<Pod>(NAMESPACE).list(&params).await?.items)
}

/// Deletes the Deployment and waits until its pods are gone.
///
/// # Errors
/// They stay for more than a minute.
pub async fn delete(pipeline: &Pipeline) -> anyhow::Result<()> {
    pipeline.client.namespaced::<Deployment>(NAMESPACE).delete(NAME, &DeleteParams::default()).await?;
    let deadline = Instant::now() + PATIENCE;
    while !pods(pipeline).await?.is_empty() {
        ensure!(Instant::now() < deadline, "the pods don't go");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}
