//! The kubelet of one node: its parts, and how they are put together.
//!
//! *Step 5 of a pod's journey.* Before: the scheduler bound pods to this node. After: they run, and everybody can see how they are.
//!
//! The parts talk through few channels. [`crate::sync_loop`] hears three sources (the API server, the runtime's changes, probe
//! results) and wakes the pod's own task ([`crate::pod_workers`]); the task asks the pure core what to do and does it;
//! [`crate::status_manager`] tells the API server. Everything else hangs on the side: the node's own status and lease, the
//! server for logs and exec, the cleaning.
//!
//! A kubelet that stops leaves its pods running: they belong to the runtime, and the next kubelet finds them by their labels.
//!
//! # Invariants
//! 1. Only the status manager writes Pods, only [`crate::node_status`] writes the Node.
//! 2. All parts stop when `shutdown` is cancelled; no container does.
//!
//! # In Kubernetes
//! `pkg/kubelet/kubelet.go`. Left out: device plugins, CPU and memory managers, graceful node shutdown, dynamic resources.
#![expect(clippy::disallowed_methods, reason = "shell: makes folders, reads the node's files")]

use std::path::PathBuf;
use std::sync::Arc;

use arc_swap::ArcSwap;
use k8s_openapi::api::core::v1::{Node, Pod, Service};
use stage1_kubectl::client::Client;
use stage3_controllers::events::EventRecorder;
use stage3_controllers::informer::{Store, list_watch};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::cgroups::Cgroups;
use crate::container_spec::NodeFacts;
use crate::cri::SharedRuntime;
use crate::dns::NodeDns;
use crate::images::ImageManager;
use crate::options::Config;
use crate::probes::manager::ProbeManager;
use crate::status_manager::StatusManager;
use crate::volumes::manager::VolumeManager;

/// Why a kubelet cannot run.
#[derive(Debug, thiserror::Error)]
pub enum KubeletError {
    /// Its server cannot listen.
    #[error("kubelet server: {0}")]
    Server(String),
    /// A folder cannot be made.
    #[error("make {path}")]
    Folder {
        /// Which.
        path: String,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// What all parts share.
pub struct Kubelet {
    /// The configuration.
    pub config: Config,
    /// The API server.
    pub client: Client,
    /// The container runtime.
    pub runtime: SharedRuntime,
    /// Tells people what happened.
    pub events: EventRecorder,
    /// What the node adds to every pod.
    pub facts: ArcSwap<NodeFacts>,
    /// The Node object as the API server has it.
    pub node: ArcSwap<Node>,
    /// The pods that are bound here.
    pub pods: Store<Pod>,
    /// All Services, for variables.
    pub services: Store<Service>,
    /// Tells the API server how pods are.
    pub status: StatusManager,
    /// Asks containers how they are.
    pub probes: ProbeManager,
    /// Fetches images.
    pub images: ImageManager,
    /// Makes volumes.
    pub volumes: VolumeManager,
    /// Makes cgroups.
    pub cgroups: Cgroups,
    /// Wakes the workers of pods, by UID.
    pub wake: mpsc::UnboundedSender<String>,
}

// ANCHOR: run-kubelet
/// Runs the kubelet of one node until `shutdown`. Pods keep running afterwards.
///
/// # Errors
/// Its server cannot listen, or its folders cannot be made. Everything later is retried.
pub async fn run(
    config: Config,
    client: Client,
    runtime: SharedRuntime,
    shutdown: CancellationToken,
) -> Result<(), KubeletError> {
    for dir in [config.root_dir.join("pods"), config.pod_logs_dir.clone()] {
        std::fs::create_dir_all(&dir)
            .map_err(|source| KubeletError::Folder { path: dir.display().to_string(), source })?;
    }
    let (wake, woken) = mpsc::unbounded_channel();
    let kubelet = Arc::new(Kubelet::new(config, client, runtime, wake));
    let port = crate::server::start(&kubelet, shutdown.clone()).await?;
    watch_the_api_server(&kubelet, &shutdown);
    crate::node_status::register(&kubelet, port, &shutdown).await;
    let parts = [
        tokio::spawn(crate::node_status::run(kubelet.clone(), port, shutdown.clone())),
        tokio::spawn(crate::node_lease::run(kubelet.clone(), shutdown.clone())),
        tokio::spawn(crate::status_manager::run(kubelet.clone(), shutdown.clone())),
        tokio::spawn(crate::container_gc::run(kubelet.clone(), shutdown.clone())),
    ];
    crate::sync_loop::run(kubelet, woken, shutdown.clone()).await;
    shutdown.cancelled().await;
    for part in parts {
        // A part that panicked has already been reported; the others stop by themselves.
        let _ = part.await;
    }
    Ok(())
}
// ANCHOR_END: run-kubelet

fn watch_the_api_server(kubelet: &Arc<Kubelet>, shutdown: &CancellationToken) {
    let name = &kubelet.config.node_name;
    let mine = format!("fieldSelector=spec.nodeName%3D{name}");
    let (client, stop) = (kubelet.client.clone(), shutdown.clone());
    tokio::spawn(list_watch::run::<Pod>(
        client.clone(),
        list_watch::path_of::<Pod>(),
        mine,
        kubelet.pods.clone(),
        stop.clone(),
    ));
    tokio::spawn(list_watch::run::<Service>(
        client.clone(),
        list_watch::path_of::<Service>(),
        String::new(),
        kubelet.services.clone(),
        stop.clone(),
    ));
    let nodes = Store::<Node>::new();
    let me = format!("fieldSelector=metadata.name%3D{name}");
    tokio::spawn(list_watch::run::<Node>(
        client,
        list_watch::path_of::<Node>(),
        me,
        nodes.clone(),
        stop.clone(),
    ));
    let kubelet = kubelet.clone();
    tokio::spawn(async move {
        let mut changes = nodes.subscribe();
        loop {
            tokio::select! {
                event = changes.next() => match event.as_ref().map(|e| e.object()) {
                    Some(Some(node)) => kubelet.node.store(node.clone()),
                    Some(None) => {}
                    None => return,
                },
                () = stop.cancelled() => return,
            }
        }
    });
}

impl Kubelet {
    /// The parts of one kubelet, not yet running; `wake` hears which pods need a look.
    pub fn new(
        config: Config,
        client: Client,
        runtime: SharedRuntime,
        wake: mpsc::UnboundedSender<String>,
    ) -> Self {
        let cgroups = Cgroups::new(&config.cgroup_root, config.cgroups && runtime.is_real());
        let facts = NodeFacts {
            dns: NodeDns {
                cluster_dns: config.cluster_dns.clone(),
                cluster_domain: config.cluster_domain.clone(),
                host: crate::dns::parse_resolv_conf(
                    &std::fs::read_to_string(&config.resolv_conf).unwrap_or_default(),
                ),
            },
            pod_logs_dir: config.pod_logs_dir.display().to_string(),
            seccomp_dir: config.root_dir.join("seccomp").display().to_string(),
            memory_bytes: i64::try_from(crate::node_status::machine_memory_bytes(&config))
                .unwrap_or(i64::MAX),
            cgroup_v2: cgroups.is_v2(),
        };
        Kubelet {
            events: EventRecorder::new(client.clone(), "kubelet", Some(&config.node_name)),
            node: ArcSwap::from_pointee(Node::default()),
            facts: ArcSwap::from_pointee(facts),
            pods: Store::new(),
            services: Store::new(),
            status: StatusManager::default(),
            probes: ProbeManager::new(wake.clone()),
            images: ImageManager::default(),
            volumes: VolumeManager::new(config.root_dir.clone(), client.clone(), runtime.is_real()),
            cgroups,
            wake,
            config,
            client,
            runtime,
        }
    }

    /// The folder of a pod: volumes, hosts file, termination messages.
    pub fn pod_dir(&self, uid: &str) -> PathBuf {
        self.config.root_dir.join("pods").join(uid)
    }
}
