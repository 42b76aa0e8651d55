//! Registries on the host's loopback: `127.0.0.1:5000/app` means the same to a node as to the host.
//!
//! *Step 5 of a pod's journey.* Before: a pull names a registry at `localhost` or `127.0.0.1`. After: inside of the node that address
//! leads to the host's.
//!
//! Whoever builds an image on the machine pushes it to a registry there and writes `localhost:5000/app:1` into the manifest. For a node
//! `localhost` is the node. And Go never asks a proxy for it, so [`super::egress`] alone doesn't help. So, before such a pull, the node's kubelet
//! listens at the same port of the node's loopback and passes each connection to the host's, through the egress.
//!
//! # Invariants
//! 1. Only ports are opened that a pull names and at which the host itself listens.
//! 2. What the node itself runs at that port (a registry with a host port) comes first.
//! 3. Ordinary pods don't gain anything: a node's loopback is not theirs. Pods with `hostNetwork` reach it, as on every node.
//!
//! # In Kubernetes
//! No counterpart: where node and host are one machine, their loopback is one. (kind's documentation has users write a mirror
//! configuration for the same wish.)
#![expect(clippy::disallowed_methods, reason = "shell: sockets")]

use std::collections::HashMap;
use std::net::Ipv4Addr;

use parking_lot::Mutex;
use tokio::io::copy_bidirectional;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tracing::{debug, info};

use super::egress::EgressAddress;

/// The port of an image's registry if that is on the loopback: `localhost:5000/app:1` → 5000.
pub fn loopback_port(image: &str) -> Option<u16> {
    let (registry, _) = image.split_once('/')?;
    let (host, port) = registry.rsplit_once(':').unwrap_or((registry, "80"));
    let address = || host.parse::<Ipv4Addr>().is_ok_and(|address| address.is_loopback());
    if host != "localhost" && !address() {
        return None;
    }
    port.parse().ok().filter(|port| *port != 0)
}

/// The ports that are passed on from one node's loopback to the host's.
#[derive(Debug)]
pub struct LoopbackRegistries {
    egress: EgressAddress,
    open: Mutex<HashMap<u16, JoinHandle<()>>>,
}

impl LoopbackRegistries {
    /// None yet.
    pub fn new(egress: EgressAddress) -> Self {
        Self { egress, open: Mutex::default() }
    }

    /// Makes an image's registry reachable if it is on the loopback. To be called on the node's threads. What fails is left to the pull,
    /// which has the better words.
    pub async fn reach(&self, image: &str) {
        let Some(port) = loopback_port(image) else { return };
        if self.open.lock().get(&port).is_some_and(|task| !task.is_finished()) {
            return;
        }
        if let Err(error) = self.egress.connect("127.0.0.1", port).await {
            debug!(port, %error, "No registry on the host's loopback");
            return;
        }
        match TcpListener::bind((Ipv4Addr::LOCALHOST, port)).await {
            Ok(listener) => {
                info!(port, "The node's loopback leads to the host's at this port");
                let task = tokio::spawn(pass_on(listener, self.egress.clone(), port));
                self.open.lock().insert(port, task);
            }
            Err(error) => debug!(port, %error, "The node has a registry of its own there"),
        }
    }
}

impl Drop for LoopbackRegistries {
    fn drop(&mut self) {
        self.open.get_mut().values().for_each(JoinHandle::abort);
    }
}

/// Until the host doesn't listen any more: then a connection is refused here, too.
async fn pass_on(listener: TcpListener, egress: EgressAddress, port: u16) {
    while let Ok((mut inside, _)) = listener.accept().await {
        let Ok(mut outside) = egress.connect("127.0.0.1", port).await else { return };
        tokio::spawn(async move {
            let _ = copy_bidirectional(&mut inside, &mut outside).await;
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_registries_on_the_loopback_have_a_port_to_open() {
        assert_eq!(loopback_port("localhost:5000/app:1"), Some(5000));
        assert_eq!(loopback_port("127.0.0.1:5001/lib/app@sha256:00"), Some(5001));
        assert_eq!(loopback_port("127.0.0.9/app"), Some(80));
        for elsewhere in
            ["app:1", "lib/app", "localhost", "10.0.0.1:5000/app", "127.0.0.1:0/app", "127.0.0.1:x/a"]
        {
            assert_eq!(loopback_port(elsewhere), None, "{elsewhere}");
        }
    }
}
