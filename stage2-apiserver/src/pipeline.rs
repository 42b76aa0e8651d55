//! The pipeline up to stage 2: a cluster is a state directory, a store and an API server.
//!
//! *Step 2 of a pod's journey.* Before: nothing runs. After: a [`Cluster`], to which the next stages add themselves.
//!
//! [`start`] makes what is missing (a CA, certificates, kubeconfigs, the objects that every cluster has) and finds again
//! what is there, so that a second start in the same state directory continues the same cluster. Later stages know the
//! cluster only by URL and kubeconfig; what they share here is the stop: everything that was started is stopped, in
//! reverse order.
//!
//! # Invariants
//! 1. When [`start`] returns, the server answers and is ready.
//! 2. [`Cluster::stop`] leaves no task and no process behind.
//!
//! # In Kubernetes
//! `cmd/kube-apiserver/app/server.go`; the rest is what kubeadm and systemd do.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock and files")]

mod assemble;
pub mod choose_store;
mod open_store;

use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use jiff::Timestamp;
use parking_lot::Mutex;
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::state_dir::StateDir;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::bootstrap;
use crate::pki::{Identity, Pki};
use crate::server::{self, ApiServer};
use crate::version::GIT_VERSION;

pub use crate::options::{ClusterFlags, StoreKind};

/// Names by which the serving certificate is known, besides addresses.
const SERVING_NAMES: [&str; 6] = [
    "localhost",
    "127.0.0.1",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
];
/// How long one part may take to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

type StopFuture = Pin<Box<dyn Future<Output = ()> + Send>>;

/// What is stopped at the end, in reverse order of being added.
pub enum Part {
    /// Runs until the cluster's token is cancelled.
    Task(String, JoinHandle<()>),
    /// Serves until the server's own token is cancelled: later stages still need it while they stop.
    Listener(JoinHandle<()>),
    /// Runs when the cluster stops.
    OnStop(String, StopFuture),
}

// ANCHOR: cluster
/// A running cluster.
pub struct Cluster {
    /// Where its state is.
    pub state_dir: StateDir,
    /// `https://127.0.0.1:6443`.
    pub server: String,
    /// Cancelled when the cluster stops.
    pub shutdown: CancellationToken,
    /// The server itself: for stage 2's own tests. Later stages use the URL.
    pub api_server: Arc<ApiServer>,
    node_server: Mutex<Option<String>>,
    pki: Arc<Pki>,
    names: Vec<String>,
    service_ip: IpAddr,
    client_ca_pem: String,
    front_proxy_ca_pem: String,
    parts: Mutex<Vec<Part>>,
}
// ANCHOR_END: cluster

/// Starts the API server, with everything that it needs.
///
/// # Errors
/// Files, ports or the store can't be had.
// ANCHOR: start
pub async fn start(flags: &ClusterFlags) -> anyhow::Result<Cluster> {
    let state_dir = StateDir::new(flags.state_dir.clone()).context("state directory")?;
    let pki = Arc::new(Pki::open(&state_dir.pki(), Timestamp::now()).context("certificates")?);
    let shutdown = CancellationToken::new();
    let store = open_store::open(flags, &state_dir, &pki).await?;
    tracing::info!(version = GIT_VERSION, store = store.description, state_dir = %state_dir.root().display(), "Starting kube-apiserver");
    let mut parts = Vec::new();
    if let Some(stop) = store.stop {
        parts.push(Part::OnStop("store".into(), stop));
    }
    if let Some(port) = flags.store_client_port {
        parts.push(assemble::serve_store(&pki, store.raw.clone(), port, &shutdown).await?);
    }
    let assembled =
        assemble::assemble(flags, &state_dir, &pki, store.storage, &CancellationToken::new()).await?;
    let api_server = assembled.server;
    let caches = api_server.stores.caches().clone();
    parts.push(Part::OnStop("watch caches".into(), Box::pin(async move { caches.stop_all() })));
    let (bound, tasks) = assemble::listen_all(flags, &state_dir, &pki, &api_server, &assembled.names).await?;
    parts.extend(tasks.into_iter().map(Part::Listener));
    let cluster = Cluster {
        server: format!("https://{bound}"),
        state_dir,
        shutdown,
        api_server,
        node_server: Mutex::new(None),
        pki,
        names: assembled.names,
        service_ip: assembled.service_ip,
        client_ca_pem: assembled.client_ca_pem,
        front_proxy_ca_pem: assembled.front_proxy_ca_pem,
        parts: Mutex::new(parts),
    };
    cluster.bootstrap(flags.advertise_address.unwrap_or(bound.ip()), bound.port()).await?;
    // Components that start later, in processes of their own, find the cluster by these.
    for component in ["kube-controller-manager", "kube-scheduler", "kube-proxy", "admin"] {
        cluster.kubeconfig(component)?;
    }
    tracing::info!(server = cluster.server, kubeconfig = %cluster.state_dir.admin_kubeconfig().display(), "The API server is ready");
    Ok(cluster)
}
// ANCHOR_END: start

impl Cluster {
    /// The objects that every cluster has; then the server is ready.
    async fn bootstrap(&self, address: IpAddr, port: u16) -> anyhow::Result<()> {
        let server = &self.api_server;
        let config = bootstrap::Config {
            server: bootstrap::kubernetes_service::Server {
                service_ip: self.service_ip,
                addresses: vec![address],
                port,
            },
            client_ca_pem: self.client_ca_pem.clone(),
            front_proxy_ca_pem: self.front_proxy_ca_pem.clone(),
        };
        bootstrap::run(&server.stores, &config).await.context("making the cluster's first objects")?;
        assemble::rebuild_allocators(server).await?;
        server.ready.cancel();
        Ok(())
    }

    /// The kubeconfig of a component (`kube-scheduler`, `admin`), made if it isn't there.
    ///
    /// # Errors
    /// It can't be written.
    pub fn kubeconfig(&self, component: &str) -> anyhow::Result<PathBuf> {
        let path = self.state_dir.kubeconfig(component);
        self.write_kubeconfig(&path, component, &Identity::of_component(component), &self.server)?;
        Ok(path)
    }

    fn write_kubeconfig(
        &self,
        path: &Path,
        stem: &str,
        identity: &Identity,
        server: &str,
    ) -> anyhow::Result<()> {
        self.pki
            .kubeconfig(path, stem, identity, server)
            .with_context(|| format!("kubeconfig {}", path.display()))
    }

    /// A client with a component's credentials.
    ///
    /// # Errors
    /// The kubeconfig can't be written or read.
    pub fn client(&self, component: &str) -> anyhow::Result<Client> {
        let path = self.kubeconfig(component)?;
        let config = ClientConfig::from_kubeconfig(&path, None)?.with_user_agent(component);
        Ok(Client::new(config)?)
    }

    /// The kubeconfig of a node's kubelet: user `system:node:NAME`, at the address that nodes reach.
    ///
    /// # Errors
    /// It can't be written.
    pub fn node_credentials(&self, node_name: &str) -> anyhow::Result<PathBuf> {
        let directory = self.state_dir.node(node_name);
        std::fs::create_dir_all(&directory).with_context(|| format!("directory {}", directory.display()))?;
        let path = directory.join("kubelet.kubeconfig");
        let server = self.node_server().unwrap_or_else(|| self.server.clone());
        self.write_kubeconfig(&path, &format!("node-{node_name}"), &Identity::node(node_name), &server)?;
        Ok(path)
    }

    /// The URL at the nodes' bridge, once there is one.
    pub fn node_server(&self) -> Option<String> {
        self.node_server.lock().clone()
    }

    /// The certificates of the cluster.
    pub fn pki(&self) -> &Pki {
        &self.pki
    }

    /// Serves on one more address (the nodes' bridge) with a certificate for it, and tells the cluster that the server
    /// is reached there.
    ///
    /// # Errors
    /// The address can't be bound.
    pub async fn listen_also(&self, address: SocketAddr) -> anyhow::Result<SocketAddr> {
        let mut names = self.names.clone();
        names.push(address.ip().to_string());
        let stem = format!("apiserver-{}", address.ip());
        let credentials = self.pki.serving(&stem, "kube-apiserver", &names).context("serving certificate")?;
        let verifier = assemble::client_verifier(&self.client_ca_pem)?;
        let (certificate, key) = (credentials.certificate_pem.as_bytes(), credentials.key_pem.as_bytes());
        let tls = server::tls::server_config(certificate, key, verifier)?;
        let listening = server::listen(self.api_server.clone(), address, tls).await;
        let (bound, task) = listening.with_context(|| format!("listening on {address}"))?;
        self.parts.lock().push(Part::Listener(task));
        *self.node_server.lock() = Some(format!("https://{bound}"));
        self.bootstrap(bound.ip(), bound.port()).await?;
        Ok(bound)
    }

    /// Runs a future as part of the cluster. It should end when [`Cluster::shutdown`] is cancelled.
    pub fn spawn(&self, name: &str, future: impl Future<Output = ()> + Send + 'static) {
        let task = tokio::spawn(future);
        self.parts.lock().push(Part::Task(name.to_owned(), task));
    }

    /// Runs a future when the cluster stops, after what was added later has stopped.
    pub fn on_stop(&self, name: &str, future: impl Future<Output = ()> + Send + 'static) {
        self.parts.lock().push(Part::OnStop(name.to_owned(), Box::pin(future)));
    }

    /// Stops everything, last started first.
    pub async fn stop(&self) {
        self.shutdown.cancel();
        let parts = std::mem::take(&mut *self.parts.lock());
        for part in parts.into_iter().rev() {
            let (name, future): (String, StopFuture) = match part {
                Part::OnStop(name, future) => (name, future),
                Part::Task(name, task) => (name, Box::pin(ended(task))),
                Part::Listener(task) => {
                    self.api_server.shutdown.cancel();
                    ("listener".into(), Box::pin(ended(task)))
                }
            };
            if tokio::time::timeout(STOP_TIMEOUT * 2, future).await.is_err() {
                tracing::warn!(part = name, "A part of the cluster didn't stop in time");
            }
        }
    }
}

/// Waits for a task, and ends it when it takes too long.
async fn ended(mut task: JoinHandle<()>) {
    if tokio::time::timeout(STOP_TIMEOUT, &mut task).await.is_err() {
        task.abort();
    }
}
