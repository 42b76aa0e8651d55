//! The kubelet client: how the API server reaches a node.
//!
//! A node says in its status where its kubelet listens: an address and a port. The API server shows a client certificate of its own
//! (`kube-apiserver-kubelet-client`), which the kubelet trusts because the cluster's CA signed it. One client a node is
//! kept, with its connection pool.
//!
//! # In Kubernetes
//! `pkg/kubelet/client/kubelet_client.go`. As there, the kubelet's own certificate is verified only when
//! `--kubelet-certificate-authority` is given.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde_json::Value;
use stage1_kubectl::client::{Client, ClientConfig};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use stage1_kubectl::tls::TlsOptions;

use crate::handlers::Routed;
use crate::registry;
use crate::table::cells::text;
use crate::watch_cache::At;

/// Where a kubelet listens when the node doesn't say.
const KUBELET_PORT: i64 = 10250;
/// Which of a node's addresses is tried: the first kind that it has.
const ADDRESS_TYPES: [&str; 5] = ["InternalIP", "Hostname", "InternalDNS", "ExternalDNS", "ExternalIP"];

/// Clients of all nodes, by address.
pub struct KubeletClient {
    tls: TlsOptions,
    clients: Mutex<HashMap<String, Client>>,
}

impl KubeletClient {
    /// With a client certificate and key, and the CA of the kubelets' certificates if they are to be verified.
    pub fn new(identity_pem: Option<(Vec<u8>, Vec<u8>)>, ca_pem: Option<Vec<u8>>) -> Self {
        let insecure_skip_verify = ca_pem.is_none();
        Self { tls: TlsOptions { ca_pem, identity_pem, insecure_skip_verify }, clients: Mutex::default() }
    }

    /// The client of a node's kubelet.
    ///
    /// # Errors
    /// 500 when the node has no address or the client can't be made.
    pub fn of_node(&self, node: &Object) -> Result<Client, Status> {
        let server = kubelet_url(node)?;
        let mut clients = self.clients.lock();
        if let Some(client) = clients.get(&server) {
            return Ok(client.clone());
        }
        let mut config = ClientConfig::new(&server).with_user_agent("kube-apiserver");
        config.tls = self.tls.clone();
        config.http1_only = true;
        let client = Client::new(config).map_err(|e| Status::internal(format!("client of {server}: {e}")))?;
        clients.insert(server, client.clone());
        Ok(client)
    }
}

/// `https://10.210.0.11:10250`.
fn kubelet_url(node: &Object) -> Result<String, Status> {
    let addresses = node.get("/status/addresses").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    let of_kind =
        |kind: &&str| addresses.iter().find(|a| text(a, "/type") == *kind).map(|a| text(a, "/address"));
    let Some(address) = ADDRESS_TYPES.iter().find_map(of_kind) else {
        let types = ADDRESS_TYPES.join(" ");
        return Err(Status::internal(format!(
            "no preferred addresses found; known addresses: [] preferred: [{types}]"
        )));
    };
    let port = node
        .get_i64("/status/daemonEndpoints/kubeletEndpoint/Port")
        .filter(|p| *p > 0)
        .unwrap_or(KUBELET_PORT);
    Ok(match address.contains(':') {
        true => format!("https://[{address}]:{port}"),
        false => format!("https://{address}:{port}"),
    })
}

/// The client of the kubelet that runs a pod.
///
/// # Errors
/// 404 when the pod's node isn't there, in the words of the real server, which calls it a pod.
pub async fn client_of_pod(routed: &Routed<'_>, pod: &Object) -> Result<Client, Status> {
    let name = pod.get_str("/spec/nodeName").unwrap_or("");
    let nodes = registry::find("", "v1", "nodes").expect("nodes are registered");
    let server = &routed.context.server;
    let node = server.stores.of(nodes).get(None, name, At::Consistent).await;
    let node = node.map_err(|e| if e.code == 404 { Status::not_found("pods", name) } else { e })?;
    server.kubelet.of_node(&node.object)
}
