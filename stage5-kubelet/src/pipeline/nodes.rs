//! The nodes of a pipeline: their network and their runtimes, before any kubelet runs.
//!
//! *Step 5 of a pod's journey.* Before: the pipeline has a state directory and nothing else. After: every node has a
//! namespace, threads that live in it, and a container runtime that answers.
//!
//! All of this comes before the API server, because its certificate and its listeners must have the bridge's address;
//! containerd then starts while the API server does.
//!
//! # Invariants
//! 1. What the state directory remembers of the network is written before anything is made: a killed start can be
//!    cleaned up by the next one.
//!
//! # In Kubernetes
//! No counterpart: machines are there before the cluster is.
#![expect(clippy::disallowed_methods, reason = "shell: files")]

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context as _;
use stage1_kubectl::state_dir::StateDir;
use tokio::runtime::Handle;
use tracing::{info, warn};

use crate::cri::SharedRuntime;
use crate::network::execute::{Claim, claim, execute, observe};
use crate::network::netns::NodeRuntime;
use crate::network::{
    ClusterNetwork, Ipv4Cidr, NodeNetwork, plan_down, plan_nodes_down, plan_routes, plan_up, surplus_nodes,
};
use crate::options::RuntimeKind;
use crate::pipeline::runtime_choice::RuntimeChoice;

#[cfg(feature = "containerd")]
use crate::containerd_process::{
    ContainerdProcess,
    config::{Layout, Machine},
    import::Importing,
};
#[cfg(feature = "containerd")]
use crate::network::{
    CLUSTER_CIDR, SERVICE_CIDR,
    egress::{Egress, EgressAddress, upstream::Upstream},
    loopback::LoopbackRegistries,
};

/// One node, as later stages see it.
#[derive(Clone, Debug)]
pub struct NodeHandle {
    /// `node-1`.
    pub name: String,
    /// Its network namespace; `None`: it shares the host's (simulated nodes).
    pub netns: Option<PathBuf>,
    /// Its InternalIP.
    pub ip: IpAddr,
    /// Tasks spawned here run in the node's namespace.
    pub runtime: Handle,
    /// Its kubelet and kube-proxy run in a process of their own, not in this one.
    pub own_process: bool,
}

/// One node with what it owns.
struct Node {
    network: Option<NodeNetwork>,
    handle: NodeHandle,
    runtime: Option<SharedRuntime>,
    #[cfg(feature = "containerd")]
    containerd: Option<ContainerdProcess>,
    #[cfg(feature = "containerd")]
    importing: Option<Importing>,
    /// Held for its threads.
    _threads: Option<NodeRuntime>,
}

/// All nodes of a pipeline.
pub struct Nodes {
    /// Held until the bridge is gone.
    cluster: Option<Claim>,
    state_dir: StateDir,
    nodes: Vec<Node>,
    /// The runtimes' way out.
    #[cfg(feature = "containerd")]
    egress: Option<Egress>,
}

/// Where the state directory remembers its bridge.
fn record(state_dir: &StateDir) -> PathBuf {
    state_dir.root().join("nodes").join("network.json")
}

impl Nodes {
    /// Makes the network and the nodes' threads; runtimes come with [`Self::start_runtimes`].
    ///
    /// # Errors
    /// The kernel refuses a namespace or a link.
    pub fn create(state_dir: &StateDir, count: u32, choice: &RuntimeChoice) -> anyhow::Result<Self> {
        let state_dir = state_dir.clone();
        if choice.kind == RuntimeKind::Sim {
            let runtime = Handle::current();
            let node = |ordinal| Node {
                network: None,
                handle: NodeHandle {
                    name: format!("node-{ordinal}"),
                    netns: None,
                    ip: Ipv4Addr::LOCALHOST.into(),
                    runtime: runtime.clone(),
                    own_process: false,
                },
                runtime: None,
                #[cfg(feature = "containerd")]
                containerd: None,
                #[cfg(feature = "containerd")]
                importing: None,
                _threads: None,
            };
            let nodes = (1..=count).map(node).collect();
            return Ok(Self::of(state_dir, None, nodes));
        }
        let claimed = claim_network(&state_dir)?;
        let cluster = &claimed.network;
        let networks: Vec<NodeNetwork> = (1..=count).map(|ordinal| cluster.node(ordinal)).collect();
        let observed = observe()?;
        let surplus = surplus_nodes(cluster, &observed, count);
        for node in &surplus {
            info!(node = node.name, "Removing a node of an earlier, larger cluster");
        }
        let mut plan = plan_nodes_down(cluster, &surplus, &observed);
        plan.extend(plan_up(cluster, &networks, &observed));
        execute(&plan).context("make the nodes' networks")?;
        let nodes = networks
            .into_iter()
            .map(|network| Node::enter(network, count > 1))
            .collect::<anyhow::Result<_>>()?;
        Ok(Self::of(state_dir, Some(claimed), nodes))
    }

    fn of(state_dir: StateDir, cluster: Option<Claim>, nodes: Vec<Node>) -> Self {
        Self {
            cluster,
            state_dir,
            nodes,
            #[cfg(feature = "containerd")]
            egress: None,
        }
    }

    /// The host's address on the bridge: where the nodes reach the API server.
    pub fn gateway(&self) -> Option<Ipv4Addr> {
        self.cluster.as_ref().map(|claimed| claimed.network.gateway())
    }

    /// The nodes, for later stages.
    pub fn handles(&self) -> Vec<NodeHandle> {
        self.nodes.iter().map(|node| node.handle.clone()).collect()
    }

    /// `six0-node-1`: a name that no other node of this machine has.
    pub fn unique_name(&self, node_name: &str) -> String {
        match &self.cluster {
            Some(claimed) => format!("{}-{node_name}", claimed.network.bridge()),
            None => node_name.to_owned(),
        }
    }

    /// Starts a runtime on each node and begins to import the images of `<state-dir>/images`.
    ///
    /// # Errors
    /// A containerd that doesn't answer.
    pub async fn start_runtimes(&mut self, choice: &RuntimeChoice) -> anyhow::Result<()> {
        #[cfg(feature = "containerd")]
        if let Some(machine) = &choice.machine {
            return self.start_containerds(machine).await;
        }
        let _ = choice;
        for node in &mut self.nodes {
            node.runtime = Some(Arc::new(crate::cri::sim::Sim::new()));
        }
        Ok(())
    }

    #[cfg(feature = "containerd")]
    async fn start_containerds(&mut self, machine: &Machine) -> anyhow::Result<()> {
        let images = self.state_dir.root().join("images");
        let network = &self.cluster.as_ref().context("nodes with containerd have a bridge")?.network;
        // The host's variables are read here once; containerd gets others.
        let upstream = Upstream::new(|name| std::env::var(name).ok());
        let egress = Egress::start(network.gateway(), &egress_record(&self.state_dir), upstream).await;
        let egress = egress.context("listen for the nodes' pulls at the bridge")?;
        let environment = egress.address().environment(&[network.subnet(), CLUSTER_CIDR, SERVICE_CIDR]);
        let way_out = egress.address().clone();
        self.egress = Some(egress);
        let mut starts = Vec::new();
        for node in &self.nodes {
            let name = &node.handle.name;
            let layout = layout(&self.state_dir, name, self.unique_name(name))?;
            let (machine, images) = (machine.clone(), images.clone());
            let (environment, way_out) = (environment.clone(), way_out.clone());
            let own_process = node.handle.own_process;
            starts.push(node.handle.runtime.spawn(async move {
                let process = ContainerdProcess::start(layout, &machine, environment).await?;
                let socket = process.layout().socket().display().to_string();
                let runtime = crate::cri::containerd::Containerd::connect(&socket).await?;
                let runtime = runtime.with_loopback(LoopbackRegistries::new(way_out));
                let importing = Importing::start(process.layout().clone(), images);
                let runtime = runtime.with_imports(importing.done());
                if own_process {
                    // A kubelet in a process of its own can't be told when the images are there: it begins when they are.
                    importing.done().cancelled().await;
                }
                Ok::<_, anyhow::Error>((process, runtime, importing))
            }));
        }
        let mut failed = None;
        for (node, start) in self.nodes.iter_mut().zip(starts) {
            match start.await.context("start a node's runtime").and_then(|started| started) {
                Ok((process, runtime, importing)) => {
                    node.importing = Some(importing);
                    node.containerd = Some(process);
                    node.runtime = Some(Arc::new(runtime));
                }
                Err(error) => failed = Some(error),
            }
        }
        failed.map_or(Ok(()), Err)
    }

    /// Waits until the nodes have their images: for a kubelet in another process, which can't be told.
    pub async fn images_imported(&self) {
        #[cfg(feature = "containerd")]
        for importing in self.nodes.iter().filter_map(|node| node.importing.as_ref()) {
            importing.done().cancelled().await;
        }
    }

    /// A node's runtime, once started.
    pub fn runtime(&self, node_name: &str) -> Option<SharedRuntime> {
        self.nodes.iter().find(|node| node.handle.name == node_name)?.runtime.clone()
    }

    /// Takes the pod CIDRs that the controller manager gave out: pod networks and routes between the nodes.
    pub fn set_pod_cidrs(&self, cidrs: &[(String, Ipv4Cidr)]) {
        let cidr_of = |name: &str| cidrs.iter().find(|(node, _)| node == name).map(|(_, cidr)| *cidr);
        #[cfg(feature = "containerd")]
        for node in &self.nodes {
            if let (Some(process), Some(cidr)) = (&node.containerd, cidr_of(&node.handle.name))
                && let Err(error) = process.set_pod_cidr(cidr)
            {
                warn!(node = node.handle.name, %error, "Cannot configure the pod network");
            }
        }
        let nodes: Vec<_> = self
            .nodes
            .iter()
            .filter_map(|node| Some((node.network.clone()?, cidr_of(&node.handle.name))))
            .collect();
        if let Err(error) = execute(&plan_routes(&nodes)) {
            warn!(%error, "Cannot route between nodes");
        }
    }

    /// Stops pods and runtimes, removes namespaces and bridge. Objects stay in the store.
    pub async fn stop(self) {
        #[cfg(feature = "containerd")]
        {
            let stops: Vec<_> = self
                .nodes
                .into_iter()
                .map(|node| async move {
                    drop(node.importing);
                    if let (Some(process), Some(runtime)) = (node.containerd, &node.runtime) {
                        process.stop(runtime).await;
                    }
                    drop(node._threads);
                })
                .collect();
            futures::future::join_all(stops).await;
        }
        #[cfg(not(feature = "containerd"))]
        drop(self.nodes);
        if let Some(claimed) = &self.cluster
            && let Err(error) = remove_network(&claimed.network)
        {
            warn!(%error, "Cannot remove the nodes' networks");
        }
        if let Ok(run_dir) = self.state_dir.run_dir() {
            // Only when empty: other components' sockets may still be there.
            let _ = std::fs::remove_dir(run_dir);
        }
    }
}

impl Node {
    fn enter(network: NodeNetwork, own_process: bool) -> anyhow::Result<Self> {
        let threads = NodeRuntime::start(&network.name, Some(&network.netns))
            .with_context(|| format!("enter the namespace of {}", network.name))?;
        let handle = NodeHandle {
            name: network.name.clone(),
            netns: Some(network.netns.clone()),
            ip: network.ip.into(),
            runtime: threads.handle(),
            own_process,
        };
        Ok(Self {
            network: Some(network),
            handle,
            runtime: None,
            #[cfg(feature = "containerd")]
            containerd: None,
            #[cfg(feature = "containerd")]
            importing: None,
            _threads: Some(threads),
        })
    }
}

/// Where a node's containerd keeps things.
///
/// # Errors
/// The directory of sockets can't be made.
#[cfg(feature = "containerd")]
pub(super) fn layout(state_dir: &StateDir, node_name: &str, unique_name: String) -> anyhow::Result<Layout> {
    let run = state_dir.run_dir().context("make the run directory")?.join(node_name);
    Ok(Layout { node_name: node_name.to_owned(), unique_name, root: state_dir.node(node_name), run })
}

/// Where the way out is written down for the nodes' agents.
#[cfg(feature = "containerd")]
fn egress_record(state_dir: &StateDir) -> PathBuf {
    state_dir.root().join("nodes").join("egress.json")
}

/// The runtimes' way out, as the pipeline's process wrote it down.
#[cfg(feature = "containerd")]
pub(super) fn remembered_egress(state_dir: &StateDir) -> Option<EgressAddress> {
    EgressAddress::read(&egress_record(state_dir))
}

/// The bridge that this state directory had last.
pub(super) fn remembered_network(state_dir: &StateDir) -> Option<ClusterNetwork> {
    serde_json::from_slice(&std::fs::read(record(state_dir)).ok()?).ok()
}

/// The bridge of this state directory: the one of its last run if that is free or still there.
fn claim_network(state_dir: &StateDir) -> anyhow::Result<Claim> {
    let path = record(state_dir);
    let remembered = remembered_network(state_dir);
    let owner = format!("six-stages:{}", state_dir.root().display());
    // A link's alias has room for 255 characters.
    let owner: String = owner.chars().rev().take(200).collect::<Vec<_>>().into_iter().rev().collect();
    let claimed = claim(&owner, remembered.map(|network| network.index)).context("make the nodes' bridge")?;
    if let Some(folder) = path.parent() {
        stage1_kubectl::state_dir::make_private(folder)?;
    }
    std::fs::write(&path, serde_json::to_vec_pretty(&claimed.network)?)?;
    Ok(claimed)
}

/// Removes all of a cluster's links and namespaces, whatever number of nodes it had.
fn remove_network(cluster: &ClusterNetwork) -> anyhow::Result<()> {
    let observed = observe()?;
    let nodes = surplus_nodes(cluster, &observed, 0);
    execute(&plan_down(cluster, &nodes, &observed))?;
    Ok(())
}
