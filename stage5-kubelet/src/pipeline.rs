//! The pipeline up to stage 5: nodes, and a kubelet on each.
//!
//! *Step 5 of a pod's journey.* Before: stages 1 to 4 of the cluster run in this process. After: pods run.
//!
//! The order is dictated by who needs whom. The bridge comes first, because nodes reach the API server at its address.
//! The nodes' runtimes start while the API server does. Then each node gets its credentials and its kubelet, which registers
//! the Node; the controller manager gives the Node a pod CIDR; and only with that can the node's pod network be
//! configured and the other nodes be told the route. Until then the kubelet reports that its network isn't ready.
//!
//! One node's kubelet runs in this process. Of several nodes each has a process of its own ([`agents`]): they are there to
//! be lost one by one.
//!
//! The end is the beginning backwards: kubelets, then pods, then runtimes, then namespaces and bridge, then the stages below.
//!
//! # Invariants
//! 1. A failed start stops what it has started.
//! 2. Objects stay in the store: the next start in the same state directory runs the same pods again.
//!
//! # In Kubernetes
//! kubeadm, systemd, and the machines.

pub mod agents;
pub mod nodes;
pub mod runtime_choice;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use k8s_openapi::api::core::v1::Node;
use stage1_kubectl::client::Client;
use stage1_kubectl::state_dir::StateDir;
use stage3_controllers::indexer::Cached as _;
use stage3_controllers::informer::factory::InformerFactory;
use stage3_controllers::pipeline as stages;
pub use stage3_controllers::pipeline::Cluster;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::kubelet;
use crate::network::Ipv4Cidr;
use crate::options::RuntimeKind;

pub use agents::{AgentFlags, NodeAgent, refuse_second_agents};
pub use nodes::{NodeHandle, Nodes};
pub use runtime_choice::RuntimeChoice;

/// The flags of a cluster with nodes; stage 6 flattens them into its own.
#[derive(Clone, Debug, Args)]
pub struct PipelineFlags {
    /// Stages 1 to 4.
    #[command(flatten)]
    pub stages: stages::Flags,
    /// Nodes to start, each with a network namespace and a container runtime of its own
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub nodes: u32,
    /// Which container runtime (default: containerd where it is built in and can work, else sim)
    #[arg(long, value_enum)]
    pub runtime: Option<RuntimeKind>,
    /// Of a process that runs one node.
    #[command(flatten)]
    pub agent: AgentFlags,
}

/// Starts stages 1 to 5 in this process. `agents` says what this program runs with `--node-agent`.
///
/// # Errors
/// A stage can't start; what was started is stopped again.
// ANCHOR: pipeline
pub async fn start(flags: &PipelineFlags, agents: &str) -> anyhow::Result<(Cluster, Vec<NodeHandle>)> {
    let state_dir = StateDir::new(flags.stages.cluster.state_dir.clone()).context("state directory")?;
    let choice = RuntimeChoice::new(flags.runtime, &state_dir)?;
    info!(runtime = ?choice.kind, why = choice.why, nodes = flags.nodes, "Starting nodes");
    if choice.kind == RuntimeKind::Sim {
        info!(
            "Simulated: no container runs, no Service has rules; all objects and their states are there. For real ones: \
             build with --features real, apt-get install containerd runc containernetworking-plugins nftables etcd-server, run as root"
        );
    }
    let mut nodes = Nodes::create(&state_dir, flags.nodes, &choice)?;
    let (cluster, runtimes) =
        tokio::join!(stage4_scheduler::pipeline::start(&flags.stages), nodes.start_runtimes(&choice));
    let started = match (cluster, runtimes) {
        (Ok(cluster), Ok(())) => Ok(cluster),
        (Ok(cluster), Err(error)) => {
            cluster.stop().await;
            Err(error)
        }
        (Err(error), _) => Err(error),
    };
    let cluster = match started {
        Ok(cluster) => cluster,
        Err(error) => {
            nodes.stop().await;
            return Err(error);
        }
    };
    let handles = nodes.handles();
    match start_kubelets(&cluster, Arc::new(nodes), agents).await {
        Ok(()) => Ok((cluster, handles)),
        Err(error) => {
            cluster.stop().await;
            Err(error)
        }
    }
}
// ANCHOR_END: pipeline

/// The API server at the bridge, a kubelet on each node, and the end of both.
async fn start_kubelets(cluster: &Cluster, nodes: Arc<Nodes>, agents: &str) -> anyhow::Result<()> {
    let stopping = CancellationToken::new();
    let mut tasks = Vec::new();
    let outcome = async {
        if let Some(gateway) = nodes.gateway() {
            let address = SocketAddr::new(gateway.into(), port_of(&cluster.server)?);
            cluster.listen_also(address).await.context("serve at the nodes' bridge")?;
        }
        // The agents' processes read it.
        cluster.kubeconfig("kube-proxy")?;
        for handle in nodes.handles() {
            let kubeconfig = cluster.node_credentials(&handle.name)?;
            let (state_dir, stopping) = (&cluster.state_dir, stopping.clone());
            tasks.push(if handle.own_process {
                agents::start_process(state_dir, &handle.name, agents, stopping).await?
            } else {
                start_kubelet(state_dir, &kubeconfig, &nodes, &handle, stopping)?
            });
        }
        if nodes.gateway().is_some() {
            // A node's own identity may only read its own Node; kube-proxy's may read all.
            let client = cluster.client("kube-proxy")?;
            tasks.push(tokio::spawn(follow_pod_cidrs(client, Arc::clone(&nodes), stopping.clone())));
        }
        Ok(())
    }
    .await;
    // Also after a failure: the cluster's stop is what cleans up.
    cluster.on_stop("nodes", stop_nodes(nodes, tasks, stopping));
    outcome
}

async fn stop_nodes(nodes: Arc<Nodes>, tasks: Vec<JoinHandle<()>>, stopping: CancellationToken) {
    stopping.cancel();
    // Pods must not be restarted while they are being stopped.
    futures::future::join_all(tasks).await;
    match Arc::into_inner(nodes) {
        Some(nodes) => nodes.stop().await,
        None => error!("Nodes are still in use, they are left running"),
    }
}

fn start_kubelet(
    state_dir: &StateDir,
    kubeconfig: &Path,
    nodes: &Nodes,
    handle: &NodeHandle,
    stopping: CancellationToken,
) -> anyhow::Result<JoinHandle<()>> {
    let client = agents::kubelet_client(kubeconfig)?;
    let runtime = nodes.runtime(&handle.name).context("the node has a runtime")?;
    let lock = agents::AgentLock::take(state_dir, &handle.name)?;
    let unique_name = handle.netns.as_ref().map(|_| nodes.unique_name(&handle.name));
    let config = agents::kubelet_config(state_dir, &handle.name, handle.ip, unique_name.as_deref());
    let name = handle.name.clone();
    Ok(handle.runtime.spawn(async move {
        if let Err(error) = kubelet::run(config, client, runtime, stopping).await {
            error!(node = name, error = format!("{:#}", anyhow::Error::from(error)), "Kubelet failed");
        }
        drop(lock);
    }))
}

/// Tells the nodes' networks which pod CIDRs the controller manager gave out.
async fn follow_pod_cidrs(client: Client, nodes: Arc<Nodes>, stopping: CancellationToken) {
    let factory = InformerFactory::new(client, stopping.clone());
    let store = factory.store::<Node>();
    let mut changes = store.subscribe();
    let mut known: Vec<(String, Ipv4Cidr)> = Vec::new();
    while let Some(Some(_)) = stopping.run_until_cancelled(changes.next()).await {
        let mut now: Vec<(String, Ipv4Cidr)> = store
            .list()
            .iter()
            .filter_map(|node| {
                let cidr = node.spec.as_ref()?.pod_cidr.as_deref()?.parse().ok()?;
                Some((node.object_name().to_owned(), cidr))
            })
            .collect();
        now.sort();
        // Most changes of a Node are heartbeats.
        if now != known {
            nodes.set_pod_cidrs(&now);
            known = now;
        }
    }
}

fn port_of(server: &str) -> anyhow::Result<u16> {
    let port = server.rsplit(':').next().and_then(|port| port.trim_end_matches('/').parse().ok());
    port.with_context(|| format!("no port in {server}"))
}

/// The API server's URL for a node: where the bridge is, else where everyone goes.
pub fn node_server(cluster: &Cluster) -> String {
    cluster.node_server().unwrap_or_else(|| cluster.server.clone())
}
