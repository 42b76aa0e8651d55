//! The pod network: how the API server reaches a pod's address.
//!
//! Proxies, webhooks and aggregated API servers end at a port of a pod. The API server stands outside of the nodes' networks and has
//! no route there, but it has one to every kubelet, and a kubelet forwards ports of its pods (for `kubectl port-forward`). So an
//! address that is a pod's is reached through the kubelet of its node; any other is dialled as usual.
//!
//! The subtle thing: a forwarded connection comes to the pod from its own loopback, so a server that listens on the pod's address
//! alone isn't reached.
//!
//! # Invariants
//! 1. Which kubelet is asked for which pod is read from the stored pod that has the address, not from whoever named the address.
//!
//! # In Kubernetes
//! `apiserver/pkg/server/egressselector` with konnectivity, whose agents in the nodes do what the kubelet does here; without it the API
//! server dials the pod.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;

use stage1_kubectl::client::{BoxedIo, Dial};
use stage1_kubectl::object::Object;
use stage1_kubectl::upgrade::spdy::Spdy;
use stage1_kubectl::upgrade::spdy_connection;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, copy_bidirectional, duplex};

use super::kubelet::KubeletClient;
use crate::admission::ObjectReader;
use crate::registry;
use crate::store::Stores;
use crate::watch_cache::CachedObject;

/// What may lie between the two ends of a connection.
const BUFFER_BYTES: usize = 64 * 1024;
/// Longest reason that a kubelet may give.
const MAX_ERROR_BYTES: u64 = 4 * 1024;

/// The way to pods.
pub fn dial(stores: Stores, kubelet: Arc<KubeletClient>) -> Dial {
    Arc::new(move |host, port| {
        let (stores, kubelet, host) = (stores.clone(), kubelet.clone(), host.to_owned());
        Box::pin(async move {
            let Some(pod) = pod_of(&host, &stores) else { return Ok(None) };
            let pod = &pod.object;
            let node = stores.get("", "nodes", "", pod.get_str("/spec/nodeName").unwrap_or(""));
            let Some(node) = node else { return Ok(None) };
            connect(&kubelet, &node, pod, port).await.map(Some)
        })
    })
}

/// The pod that has an address for itself. Asked once a connection, not once a request, so the pods' cache is looked through, and shared.
fn pod_of(host: &str, stores: &Stores) -> Option<Arc<CachedObject>> {
    let address = host.parse::<IpAddr>().ok()?;
    let shown = address.to_string();
    let pods = registry::find("", "v1", "pods").expect("pods are registered");
    let present = stores.of(pods).cacher().present(&pods.key_prefix(None));
    present.into_iter().find(|pod| has_address(&pod.object, &shown))
}

/// Whether a pod that runs has the address; one that shares its node's network is reached like the node.
fn has_address(pod: &Object, address: &str) -> bool {
    let shares = pod.get("/spec/hostNetwork").and_then(serde_json::Value::as_bool) == Some(true);
    !shares
        && pod.get_str("/status/podIP") == Some(address)
        && pod.get_str("/status/phase") == Some("Running")
}

/// A connection to a pod's port, through its node's kubelet.
async fn connect(kubelet: &KubeletClient, node: &Object, pod: &Object, port: u16) -> io::Result<BoxedIo> {
    let client = kubelet.of_node(node).map_err(|status| io::Error::other(status.message))?;
    let path = format!("/portForward/{}/{}", pod.namespace().unwrap_or_default(), pod.name());
    let spdy = Spdy::client(spdy_connection(&client, &path).await.map_err(io::Error::other)?);
    let port = port.to_string();
    let headers = |kind: &'static str| [("streamtype", kind), ("port", port.as_str()), ("requestid", "0")];
    let mut error = spdy.open_stream(&headers("error"), true).await?;
    let mut data = spdy.open_stream(&headers("data"), false).await?;
    let (ours, mut theirs): (DuplexStream, DuplexStream) = duplex(BUFFER_BYTES);
    tokio::spawn(async move {
        let copied = copy_bidirectional(&mut theirs, &mut data).await;
        let _ = data.shutdown().await;
        let mut why = Vec::new();
        let told = (&mut error).take(MAX_ERROR_BYTES).read_to_end(&mut why).await;
        let mut why = String::from_utf8_lossy(&why).into_owned();
        if let (Err(error), _) | (_, Err(error)) = (copied, told) {
            why = error.to_string();
        }
        if !why.is_empty() {
            tracing::debug!(path, why, "A connection to a pod ended");
        }
        drop(spdy);
    });
    Ok(Box::pin(ours))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_address_is_that_of_a_running_pod_with_a_network_of_its_own() {
        let pod = |phase: &str, shares: bool| {
            let pod = json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": "p" }, "spec": { "hostNetwork": shares },
                "status": { "phase": phase, "podIP": "10.244.0.7" } });
            Object::from_value(pod).expect("a pod")
        };
        assert!(has_address(&pod("Running", false), "10.244.0.7"));
        assert!(!has_address(&pod("Running", false), "10.244.0.70"));
        assert!(!has_address(&pod("Succeeded", false), "10.244.0.7"), "another may have it now");
        assert!(!has_address(&pod("Running", true), "10.244.0.7"));
    }
}
