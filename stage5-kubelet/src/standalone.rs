//! A kubelet alone: for a cluster that runs elsewhere.
//!
//! *Beside the journey.* Before: `kubelet --kubeconfig FILE`. After: this machine is a node of that cluster.
//!
//! What flags leave open is taken from the machine: the hostname, the address by which the API server is reached, the runtime whose
//! socket is there.
//!
//! # Invariants
//! 1. The parts in use are printed first: nobody should have to guess whether containers are real.
//!
//! # In Kubernetes
//! `cmd/kubelet/app/server.go`.

use std::net::{IpAddr, Ipv4Addr, ToSocketAddrs, UdpSocket};
use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use stage1_kubectl::client::{Client, ClientConfig};
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::cri::SharedRuntime;
use crate::cri::sim::Sim;
use crate::options::{Flags, RuntimeKind};

/// Where containerd listens when nobody says otherwise.
pub const DEFAULT_ENDPOINT: &str = "unix:///run/containerd/containerd.sock";

/// Runs one kubelet until `shutdown`.
///
/// # Errors
/// No kubeconfig, no such runtime, or the server cannot listen.
pub async fn run(flags: &Flags, shutdown: CancellationToken) -> anyhow::Result<()> {
    let kubeconfig = flags.kubeconfig.as_deref().context("--kubeconfig is needed to run alone")?;
    let client_config = ClientConfig::from_kubeconfig(kubeconfig, None)?.with_user_agent("kubelet");
    let config = flags.config(&node_name(flags)?, address_towards(client_config.host()));
    let runtime = runtime(flags).await?;
    let version = runtime.version().await?;
    info!(
        version = "v1.33.0",
        node = config.node_name,
        address = %config.node_ip,
        runtime = format!("{} {}", version.runtime_name, version.runtime_version),
        api_server = client_config.server,
        "Starting kubelet"
    );
    let client = Client::new(client_config)?;
    crate::kubelet::run(config, client, runtime, shutdown).await?;
    Ok(())
}

/// The node's name: as asked, else the machine's.
///
/// # Errors
/// The machine has no name.
pub fn node_name(flags: &Flags) -> anyhow::Result<String> {
    let hostname = || nix::unistd::gethostname().map(|name| name.to_string_lossy().to_lowercase());
    Ok(flags.hostname_override.clone().map_or_else(hostname, Ok)?)
}

/// Our address on the way to the API server.
fn address_towards(host: &str) -> IpAddr {
    let find = || -> std::io::Result<IpAddr> {
        let target = host.to_socket_addrs()?.next().ok_or(std::io::ErrorKind::NotFound)?;
        let any: IpAddr = if target.is_ipv4() {
            Ipv4Addr::UNSPECIFIED.into()
        } else {
            std::net::Ipv6Addr::UNSPECIFIED.into()
        };
        let socket = UdpSocket::bind((any, 0))?;
        // Nothing is sent: the kernel only looks up the route.
        socket.connect(target)?;
        Ok(socket.local_addr()?.ip())
    };
    find().unwrap_or(Ipv4Addr::LOCALHOST.into())
}

/// The runtime that was asked for; without a wish, containerd where its socket is.
async fn runtime(flags: &Flags) -> anyhow::Result<SharedRuntime> {
    let endpoint = flags.container_runtime_endpoint.as_deref();
    let wanted = flags.runtime.unwrap_or_else(|| {
        let path = endpoint.unwrap_or(DEFAULT_ENDPOINT).trim_start_matches("unix://");
        let there = endpoint.is_some() || Path::new(path).exists();
        if there && cfg!(feature = "containerd") { RuntimeKind::Containerd } else { RuntimeKind::Sim }
    });
    match wanted {
        RuntimeKind::Sim => {
            info!(
                "Runtime sim: nothing runs, states are simulated; install containerd (and build with --features containerd) for real containers"
            );
            Ok(Arc::new(Sim::new()))
        }
        RuntimeKind::Embedded => {
            anyhow::bail!("the embedded runtime is not there yet: use --runtime containerd or --runtime sim")
        }
        RuntimeKind::Containerd => containerd(endpoint.unwrap_or(DEFAULT_ENDPOINT)).await,
    }
}

#[cfg(feature = "containerd")]
async fn containerd(endpoint: &str) -> anyhow::Result<SharedRuntime> {
    Ok(Arc::new(crate::cri::containerd::Containerd::connect(endpoint).await?))
}

#[cfg(not(feature = "containerd"))]
async fn containerd(_endpoint: &str) -> anyhow::Result<SharedRuntime> {
    anyhow::bail!("this kubelet was built without containerd: build it with --features containerd")
}
