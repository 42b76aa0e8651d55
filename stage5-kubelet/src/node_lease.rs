//! The node's Lease: a heartbeat that costs next to nothing.
//!
//! *Step 5 of a pod's journey.* Before: the node is registered. After: the node lifecycle controller knows that it lives; when renewals stop for
//! forty seconds, the node counts as lost.
//!
//! # Invariants
//! 1. It is renewed four times in its duration.
//! 2. It is owned by the Node: it goes with it.
//!
//! # In Kubernetes
//! `component-helpers/apimachinery/lease/controller.go`, `pkg/kubelet/util/nodelease.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock")]

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta, OwnerReference};
use stage1_kubectl::client::ClientError;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::kubelet::Kubelet;

/// Namespace of all node leases.
pub const NAMESPACE_NODE_LEASE: &str = "kube-node-lease";
/// How long a renewal counts.
pub const NODE_LEASE_DURATION_SECONDS: i32 = 40;
/// Time between renewals: a quarter of the duration.
pub const RENEW_INTERVAL: Duration = Duration::from_secs(10);

/// The lease of a node, renewed at `now`.
pub fn node_lease(name: &str, owner: Option<OwnerReference>, base: Option<Lease>, now: Timestamp) -> Lease {
    let mut lease = base.unwrap_or_else(|| Lease {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            namespace: Some(NAMESPACE_NODE_LEASE.to_owned()),
            ..ObjectMeta::default()
        },
        spec: None,
    });
    if lease.metadata.owner_references.as_ref().is_none_or(Vec::is_empty) {
        lease.metadata.owner_references = owner.map(|o| vec![o]);
    }
    let spec = lease.spec.get_or_insert_default();
    *spec = LeaseSpec {
        holder_identity: Some(name.to_owned()),
        lease_duration_seconds: Some(NODE_LEASE_DURATION_SECONDS),
        renew_time: Some(MicroTime(now)),
        ..spec.clone()
    };
    lease
}

/// Renews the lease until `shutdown`.
pub async fn run(kubelet: Arc<Kubelet>, shutdown: CancellationToken) {
    let mut last = None;
    loop {
        let wait = match renew(&kubelet, last.take()).await {
            Ok(lease) => {
                last = Some(lease);
                RENEW_INTERVAL
            }
            Err(error) if error.is_conflict() => {
                debug!(%error, "The lease was changed by somebody else, reading it again");
                continue;
            }
            Err(error) => {
                warn!(%error, "Failed to renew the node's lease, will retry");
                Duration::from_secs(1)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shutdown.cancelled() => return,
        }
    }
}

async fn renew(kubelet: &Kubelet, last: Option<Lease>) -> Result<Lease, ClientError> {
    let api = kubelet.client.namespaced::<Lease>(NAMESPACE_NODE_LEASE);
    let name = &kubelet.config.node_name;
    let node = kubelet.node.load();
    let owner = node.metadata.uid.clone().map(|uid| OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: name.clone(),
        uid,
        ..OwnerReference::default()
    });
    let base = match last {
        Some(lease) => Some(lease),
        None => match api.get(name).await {
            Ok(lease) => Some(lease),
            Err(e) if e.is_not_found() => None,
            Err(e) => return Err(e),
        },
    };
    let now = Timestamp::now();
    match base {
        None => api.create(&node_lease(name, owner, None, now)).await,
        Some(base) => api.replace(name, &node_lease(name, owner, Some(base), now)).await,
    }
}
