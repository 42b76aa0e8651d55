//! Pipeline: the API server and the controllers in one process.
//!
//! *Stages 1 to 3.* Before: nothing runs, or an API server does. After: what is asked for is made so.
//!
//! The controllers know the server by a kubeconfig and nothing else, even when both run in one process: the same code runs
//! against any Kubernetes API server.
//!
//! # In Kubernetes
//! `cmd/kube-controller-manager/app/controllermanager.go` (`Run`); kubeadm starts it as a static pod.
#![expect(clippy::disallowed_methods, reason = "shell: reads the kubeconfig and the key of service accounts")]

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use base64::Engine as _;
use clap::Args;
use jiff::Timestamp;
use stage1_kubectl::client::Client;
use stage1_kubectl::kubeconfig;
use stage1_kubectl::state_dir::{StateDir, make_private};
use stage2_apiserver::pipeline;
pub use stage2_apiserver::pipeline::{Cluster, ClusterFlags};
use stage2_apiserver::pki::{Identity, Pki};
use tokio_util::sync::CancellationToken;

use crate::informer::factory::InformerFactory;
use crate::manager;
use crate::options::{Config, ControllerFlags};

/// User and kubeconfig name of the controller manager.
pub const COMPONENT: &str = "kube-controller-manager";

/// Flags of the stages up to this one.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// The API server's.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// The controllers'.
    #[command(flatten)]
    pub controllers: ControllerFlags,
}

/// Starts the API server and the controllers.
///
/// # Errors
/// When the API server cannot start, or the flags or credentials of the controllers cannot be used.
pub async fn start(flags: &Flags) -> anyhow::Result<Cluster> {
    let cluster = pipeline::start(&flags.cluster).await?;
    let kubeconfig = cluster.kubeconfig(COMPONENT)?;
    let client = cluster.client(COMPONENT)?;
    let key = cluster.state_dir.pki().join("sa.key");
    let key = key.exists().then_some(key);
    let config = configure(&flags.controllers, Some(&kubeconfig), None, key.as_deref())?;
    cluster.spawn(COMPONENT, run(client, config, cluster.shutdown.clone()));
    Ok(cluster)
}

/// The kubeconfig of a node that joins the cluster of this state directory, made by the cluster's CA.
///
/// # Errors
/// No CA, or the file can't be written.
pub fn node_kubeconfig(state_dir: &StateDir, node_name: &str, server: &str) -> anyhow::Result<PathBuf> {
    let pki = Pki::open(&state_dir.pki(), Timestamp::now()).context("certificates")?;
    let path = state_dir.node(node_name).join("kubelet.kubeconfig");
    make_private(&state_dir.node(node_name))?;
    pki.kubeconfig(&path, &format!("node-{node_name}"), &Identity::node(node_name), server)
        .with_context(|| format!("kubeconfig {}", path.display()))?;
    Ok(path)
}

/// Runs the controllers through this client until `shutdown`.
pub async fn run(client: Client, config: Config, shutdown: CancellationToken) {
    let factory = InformerFactory::new(client.clone(), shutdown.clone());
    manager::run(client, config, factory, shutdown).await;
}

/// Reads the files that the controllers need: the CA to publish (given, or the kubeconfig's) and the key for tokens.
///
/// # Errors
/// When a file cannot be read, or the cluster CIDR is wrong.
pub fn configure(
    flags: &ControllerFlags,
    kubeconfig: Option<&Path>,
    root_ca_file: Option<&Path>,
    key_file: Option<&Path>,
) -> anyhow::Result<Config> {
    let read =
        |path: &Path| std::fs::read_to_string(path).with_context(|| format!("read {}", path.display()));
    let root_ca = match (root_ca_file, kubeconfig) {
        (Some(path), _) => Some(read(path)?),
        (None, Some(path)) => ca_of(path)?,
        (None, None) => None,
    };
    let key = key_file.map(read).transpose()?;
    Ok(flags.config(root_ca, key)?)
}

/// The CA in a kubeconfig, as PEM.
fn ca_of(path: &Path) -> anyhow::Result<Option<String>> {
    let mut config = kubeconfig::load_file(path)?;
    config.resolve_paths(path.parent().unwrap_or(Path::new(".")));
    let cluster = config.resolve(None)?.cluster;
    if let Some(data) = cluster.certificate_authority_data {
        let pem = base64::engine::general_purpose::STANDARD
            .decode(data.trim())
            .context("certificate-authority-data")?;
        return Ok(Some(String::from_utf8(pem).context("certificate-authority-data")?));
    }
    match cluster.certificate_authority {
        Some(file) => Ok(Some(std::fs::read_to_string(&file).with_context(|| format!("read {file}"))?)),
        None => Ok(None),
    }
}
