//! The lab cluster: each component a process of its own, kept running as a folder of manifests says.
//!
//! On a kubeadm cluster the control plane's components are static pods: files in `/etc/kubernetes/manifests` that the kubelet turns
//! into processes, whoever edits them. Here they are files in `components/` of the state directory, and this process keeps what
//! they say running: move a file away and the component stops, edit its flags and it restarts, break it and it crash-loops with
//! its last words in `logs/`. That is all the power that faults and repairs need, and it is an administrator's own.
//!
//! The supervisor also holds what a machine is: the node's network namespace, its containerd and the cluster's DNS.
//!
//! # Invariants
//! 1. A component runs exactly if its manifest is there ([`supervisor::plan`]).
//! 2. Ctrl-C stops every process; the API server last, because the others say goodbye to it.
//!
//! # In Kubernetes
//! kubeadm's static pods, systemd's kubelet. Left out: several nodes, several control planes.
#![expect(clippy::disallowed_methods, reason = "shell: starts the node's machine and the components")]

use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, ensure};
use serde::{Deserialize, Serialize};
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::state_dir::{StateDir, write_private};
use stage5_kubelet::options::RuntimeKind;
use stage5_kubelet::pipeline::{Nodes, RuntimeChoice};
use tokio_util::sync::CancellationToken;

use self::components::Manifest;
use super::learner;
use crate::programs;

/// What a component's file says.
pub mod components;
/// From files and processes to what to start and stop.
pub mod supervisor;

/// The node's name.
pub const NODE: &str = "node-1";
/// The pod network of a cluster's first node, as the controller manager gives it out.
const POD_CIDR: &str = "10.244.0.0/24";
/// How long a component may take to become ready.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs the lab cluster until Ctrl-C.
///
/// # Errors
/// The machine or a component can't be started.
pub fn run(state_dir: Option<PathBuf>, ready: impl FnOnce(&StateDir)) -> anyhow::Result<()> {
    let state_dir = StateDir::new(state_dir)?;
    let _lock = components::lock(&state_dir)?;
    let tokio = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?;
    tokio.block_on(async {
        // Heard from the first moment on: whatever runs by then is stopped again, in order.
        let mut asked = tokio::spawn(stage1_kubectl::signals::shutdown());
        let choice = RuntimeChoice::new(Some(RuntimeKind::Containerd), &state_dir)?;
        make_images(&state_dir)?;
        let mut nodes = Nodes::create(&state_dir, 1, &choice)?;
        let outcome = async {
            nodes.start_runtimes(&choice).await?;
            tokio::select! {
                () = nodes.images_imported() => {}
                _ = &mut asked => return Ok(()),
            }
            nodes.set_pod_cidrs(&[(NODE.to_owned(), POD_CIDR.parse().map_err(anyhow::Error::msg)?)]);
            serve(&state_dir, &nodes, ready, asked).await
        }
        .await;
        nodes.stop().await;
        outcome
    })
}

/// Components, DNS and the learner's kubeconfig on a machine that is there.
async fn serve(
    state_dir: &StateDir,
    nodes: &Nodes,
    ready: impl FnOnce(&StateDir),
    mut asked: tokio::task::JoinHandle<()>,
) -> anyhow::Result<()> {
    let gateway = nodes.gateway().context("the node has no network of its own")?;
    let bin = programs::folder_with(&components::PROGRAMS)?;
    let shutdown = CancellationToken::new();
    // Left behind by a cluster that was killed.
    let _ = std::fs::remove_file(components::ready_file(state_dir));
    let supervisor = tokio::spawn(supervisor::run(state_dir.clone(), shutdown.clone()));
    let started = async {
        let control_plane = Manifest::control_plane(state_dir, &bin, gateway);
        let (api_server, clients) = control_plane.split_at(1);
        // The others end where they find no API server; they would come back, but it looks like a fault.
        components::write(state_dir, api_server)?;
        wait_for("the API server", || async { answers(&state_dir.admin_kubeconfig()).await }).await?;
        components::write(state_dir, clients)?;
        learner::write(state_dir, &learner::server(state_dir)?)?;
        let node = node_kubeconfigs(state_dir, IpAddr::V4(gateway))?;
        let handle = nodes.handles().into_iter().next().context("no node")?;
        let cgroup_root = format!("/{}", nodes.unique_name(NODE));
        Machine { netns: handle.netns.clone().context("the node has no network namespace")? }
            .write(state_dir)?;
        components::write(state_dir, &Manifest::node(state_dir, &bin, &handle, &cgroup_root, &node)?)?;
        let client = Client::new(ClientConfig::from_kubeconfig(&state_dir.admin_kubeconfig(), None)?)?;
        stage6_proxy::pipeline::start_dns(&client, IpAddr::V4(gateway), &shutdown).await?;
        wait_for("the node to be Ready", || async { node_is_ready(&client).await }).await?;
        Ok(std::fs::write(components::ready_file(state_dir), "")?)
    };
    let outcome = tokio::select! {
        started = started => started.map(|()| true),
        _ = &mut asked => Ok(false),
    };
    if let Ok(true) = outcome {
        ready(state_dir);
        let _ = asked.await;
        let _ = std::fs::remove_file(components::ready_file(state_dir));
    }
    shutdown.cancel();
    supervisor.await.context("the supervisor")?;
    outcome.map(drop)
}

/// What other processes need to know of the node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// Its network namespace.
    pub netns: PathBuf,
}

impl Machine {
    fn file(state_dir: &StateDir) -> PathBuf {
        components::dir(state_dir).join("machine.json")
    }

    fn write(&self, state_dir: &StateDir) -> anyhow::Result<()> {
        Ok(std::fs::write(Self::file(state_dir), serde_json::to_vec(self)?)?)
    }

    /// That of the cluster in a state directory.
    ///
    /// # Errors
    /// No lab cluster has run there.
    pub fn read(state_dir: &StateDir) -> anyhow::Result<Self> {
        let path = Self::file(state_dir);
        let text = std::fs::read(&path)
            .with_context(|| format!("{}: no lab cluster has run here", path.display()))?;
        Ok(serde_json::from_slice(&text)?)
    }
}

/// The images that the labs' manifests name, once.
fn make_images(state_dir: &StateDir) -> anyhow::Result<()> {
    let dir = state_dir.root().join("images");
    std::fs::create_dir_all(&dir)?;
    if std::fs::read_dir(&dir)?.next().is_none() {
        crate::image::command::write_presets(&dir)?;
    }
    Ok(())
}

/// The kubeconfigs of the node's components: they reach the API server at the bridge.
fn node_kubeconfigs(state_dir: &StateDir, gateway: IpAddr) -> anyhow::Result<(PathBuf, PathBuf)> {
    let port: u16 = std::fs::read_to_string(state_dir.root().join("apiserver.port"))?.trim().parse()?;
    let server = format!("https://{}", SocketAddr::new(gateway, port));
    let kubelet = stage3_controllers::pipeline::node_kubeconfig(state_dir, NODE, &server)?;
    let proxy = std::fs::read_to_string(state_dir.kubeconfig("kube-proxy"))?;
    let at_node = state_dir.kubeconfig("kube-proxy-node");
    write_private(&at_node, proxy.replace("127.0.0.1", &gateway.to_string()).as_bytes())?;
    Ok((kubelet, at_node))
}

async fn answers(kubeconfig: &Path) -> bool {
    let Ok(config) = ClientConfig::from_kubeconfig(kubeconfig, None) else { return false };
    let Ok(client) = Client::new(config) else { return false };
    let request = http::Request::get("/readyz").body(bytes::Bytes::new()).expect("a path without surprises");
    client.send(request).await.is_ok()
}

async fn node_is_ready(client: &Client) -> bool {
    use k8s_openapi::api::core::v1::Node;
    let Ok(node) = client.api::<Node>().get(NODE).await else { return false };
    let conditions = node.status.and_then(|status| status.conditions).unwrap_or_default();
    conditions.iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

async fn wait_for<F: Future<Output = bool>>(
    what: &str,
    mut condition: impl FnMut() -> F,
) -> anyhow::Result<()> {
    let start = Instant::now();
    while !condition().await {
        ensure!(start.elapsed() < PATIENCE, "waited {PATIENCE:?} in vain for {what}; see the logs folder");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
