//! The pipeline up to stage 6: a proxier on each node, and cluster DNS.
//!
//! *Step 6 of a pod's journey.* Before: stages 1 to 5 run in this process. After: all six do; this is the whole cluster.
//!
//! Simulated nodes get no proxier: they share the host's network namespace, and the host's own rules are not touched.
//!
//! Of several nodes each has a process for its kubelet and its proxier, which [`run_agents`] is the inside of.
//!
//! # Invariants
//! 1. Proxiers run in their node's namespace, so what they write ends with it.
//!
//! # In Kubernetes
//! kubeadm, which applies the DaemonSet of kube-proxy and the Deployment of CoreDNS.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

use anyhow::Context as _;
use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use serde_json::json;
use stage1_kubectl::client::{Client, ClientConfig, ClientError};
use stage1_kubectl::request::Patch;
use stage5_kubelet::pipeline::{Cluster, NodeAgent, NodeHandle, PipelineFlags, node_server};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::dns::{self, CLUSTER_DNS_IP, CLUSTER_DOMAIN};
use crate::options::{Config, ProxyFlags};
use crate::proxier;

/// Starts stages 1 to 6 in this process.
///
/// # Errors
/// A stage can't start; what was started is stopped again.
pub async fn start(flags: &PipelineFlags, proxy: &ProxyFlags) -> anyhow::Result<Cluster> {
    // Checked before anything is started.
    Config::new(proxy, cidr(flags), "node")?;
    let (cluster, nodes) = stage5_kubelet::pipeline::start(flags, "kubelet and kube-proxy").await?;
    match start_proxiers(&cluster, &nodes, proxy, cidr(flags)).await {
        Ok(()) => Ok(cluster),
        Err(error) => {
            cluster.stop().await;
            Err(error)
        }
    }
}

/// All pods: the controller manager gives the nodes their share of it.
fn cidr(flags: &PipelineFlags) -> &str {
    &flags.stages.controllers.cluster_cidr
}

async fn start_proxiers(
    cluster: &Cluster,
    nodes: &[NodeHandle],
    flags: &ProxyFlags,
    cluster_cidr: &str,
) -> anyhow::Result<()> {
    let stopping = CancellationToken::new();
    let mut tasks = Vec::new();
    for node in nodes {
        if node.netns.is_none() {
            info!(node = node.name, "No Services on a simulated node: the host's rules are not touched");
            continue;
        }
        if node.own_process {
            continue;
        }
        let config = node_config(flags, cluster_cidr, &node.name, node.ip)?;
        let client = proxy_client(&cluster.kubeconfig("kube-proxy")?, node_server(cluster))?;
        let (stopping, name) = (stopping.clone(), node.name.clone());
        tasks.push(node.runtime.spawn(async move {
            if let Err(error) = proxier::run(config, client, stopping).await {
                error!(node = name, error = format!("{:#}", anyhow::Error::from(error)), "Proxy failed");
            }
        }));
    }
    if let Some(gateway) = gateway(cluster, nodes)
        && let Err(error) = start_dns(&cluster.client("admin")?, gateway, &stopping).await
    {
        warn!(error = format!("{error:#}"), "No cluster DNS");
    }
    cluster.on_stop("proxiers", async move {
        stopping.cancel();
        futures::future::join_all(tasks).await;
    });
    Ok(())
}

/// Runs the agents of one node in this process: its kubelet and its proxier.
///
/// # Errors
/// One of them can't run.
pub async fn run_agents(agent: &NodeAgent, flags: &PipelineFlags, proxy: &ProxyFlags) -> anyhow::Result<()> {
    let config = node_config(proxy, cidr(flags), &agent.name, agent.ip)?;
    let client = proxy_client(&agent.state_dir().kubeconfig("kube-proxy"), agent.server.clone())?;
    let stopping = agent.stopping();
    let proxier = async { Ok(proxier::run(config, client, stopping.clone()).await?) };
    tokio::try_join!(agent.run_kubelet(stopping.clone()), proxier)?;
    Ok(())
}

fn node_config(flags: &ProxyFlags, cluster_cidr: &str, name: &str, ip: IpAddr) -> anyhow::Result<Config> {
    let mut config = Config::new(flags, cluster_cidr, name)?;
    if let IpAddr::V4(ip) = ip {
        config.node_ip = Some(ip);
    }
    Ok(config)
}

/// A client with kube-proxy's credentials, at the address that nodes reach.
fn proxy_client(kubeconfig: &Path, server: String) -> anyhow::Result<Client> {
    let mut config = ClientConfig::from_kubeconfig(kubeconfig, None)?.with_user_agent("kube-proxy");
    config.server = server;
    Ok(Client::new(config)?)
}

/// The host's address on the nodes' bridge.
fn gateway(cluster: &Cluster, nodes: &[NodeHandle]) -> Option<IpAddr> {
    nodes.iter().find(|node| node.netns.is_some())?;
    let url: http::Uri = node_server(cluster).parse().ok()?;
    url.host()?.parse().ok()
}

/// Serves DNS at the bridge and tells the cluster where.
///
/// # Errors
/// The port is taken, or the API server refuses the Service.
pub async fn start_dns(client: &Client, gateway: IpAddr, stopping: &CancellationToken) -> anyhow::Result<()> {
    dns::server::serve(SocketAddr::new(gateway, 53), CLUSTER_DOMAIN, client.clone(), stopping.clone())
        .await
        .with_context(|| format!("listen on {gateway}:53"))?;
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": "kube-dns", "namespace": "kube-system", "labels": {"k8s-app": "kube-dns", "kubernetes.io/name": "CoreDNS"}},
        "spec": {
            "clusterIP": CLUSTER_DNS_IP,
            "ports": [
                {"name": "dns", "port": 53, "protocol": "UDP", "targetPort": 53},
                {"name": "dns-tcp", "port": 53, "protocol": "TCP", "targetPort": 53},
            ],
        },
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "kube-dns-six-stages", "namespace": "kube-system",
            "labels": {"kubernetes.io/service-name": "kube-dns", "endpointslice.kubernetes.io/managed-by": "six-stages"}},
        "endpoints": [{"addresses": [gateway], "conditions": {"ready": true}}],
        "ports": [{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}],
    });
    let services = client.namespaced::<Service>("kube-system");
    // Asked for first: a second Service with this address would be refused for the address, not for its name.
    if missing(services.get("kube-dns").await)? {
        services.create(&serde_json::from_value(service)?).await?;
    }
    let slices = client.namespaced::<EndpointSlice>("kube-system");
    if missing(slices.get("kube-dns-six-stages").await)? {
        slices.create(&serde_json::from_value(slice)?).await?;
    } else {
        // The bridge may be another one than in the last run.
        let change = Patch::Merge(json!({"endpoints": slice["endpoints"]}));
        slices.patch("kube-dns-six-stages", &change).await?;
    }
    Ok(())
}

/// Isn't it there? Other refusals are errors.
fn missing<T>(found: Result<T, ClientError>) -> Result<bool, ClientError> {
    match found {
        Ok(_) => Ok(false),
        Err(error) if error.is_not_found() => Ok(true),
        Err(error) => Err(error),
    }
}
