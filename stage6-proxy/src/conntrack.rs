//! Connection tracking: UDP "connections" that must be forgotten.
//!
//! *Step 6 of a pod's journey.* Before: new rules are in the kernel. After: clients that keep talking meet them.
//!
//! Rules are consulted for the first packet of a connection; the rest follow conntrack's memory. TCP clients
//! notice a dead endpoint and connect anew. UDP clients don't: as long as they keep sending from the same port, their
//! packets go to a pod that is gone, or (a Service that had no endpoints) to nowhere. So after a sync the entries
//! of UDP endpoints that went away are deleted, and those of UDP Services that got their first endpoint.
//!
//! # Invariants
//! 1. TCP and SCTP entries are never touched.
//!
//! # In Kubernetes
//! `pkg/proxy/conntrack/cleanup.go`. There by netlink, here by `conntrack -D`.

use std::net::SocketAddrV4;

use crate::nftables::run::run_with_input;
use crate::proxy_state::ServiceState;
use crate::service_map::{Protocol, ServicePortName};

/// One deletion.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stale {
    /// What clients sent to: an address (with its port), or a node port.
    pub destination: Destination,
    /// Only entries that were sent to this endpoint.
    pub endpoint: Option<SocketAddrV4>,
}

/// The destination that clients used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Destination {
    /// A cluster, external or load balancer's address.
    Address(SocketAddrV4),
    /// Any of the node's addresses.
    NodePort(u16),
}

// ANCHOR: stale-connections
/// Which entries became wrong by a change of a service port.
pub fn stale_connections(
    name: &ServicePortName,
    before: Option<&ServiceState>,
    after: Option<&ServiceState>,
) -> Vec<Stale> {
    if name.protocol != Protocol::Udp {
        return Vec::new();
    }
    let addresses = |state: Option<&ServiceState>| -> Vec<SocketAddrV4> {
        state.iter().flat_map(|state| &state.endpoints.all).map(|endpoint| endpoint.address).collect()
    };
    let (old, new) = (addresses(before), addresses(after));
    let mut stale = Vec::new();
    if let Some(before) = before {
        for endpoint in old.iter().filter(|endpoint| !new.contains(endpoint)) {
            let fronts = destinations(before).into_iter();
            stale.extend(fronts.map(|destination| Stale { destination, endpoint: Some(*endpoint) }));
        }
    }
    if let (true, false, Some(after)) = (old.is_empty(), new.is_empty(), after) {
        let fronts = destinations(after).into_iter();
        stale.extend(fronts.map(|destination| Stale { destination, endpoint: None }));
    }
    stale
}
// ANCHOR_END: stale-connections

fn destinations(state: &ServiceState) -> Vec<Destination> {
    let port = &state.port;
    let addresses = [port.cluster_ip].into_iter().chain(port.external_ips.iter().copied());
    let addresses = addresses.chain(port.load_balancer_vips.iter().copied());
    let mut all: Vec<Destination> =
        addresses.map(|ip| Destination::Address(SocketAddrV4::new(ip, port.port))).collect();
    all.extend((port.node_port != 0).then_some(Destination::NodePort(port.node_port)));
    all
}

impl Stale {
    /// The arguments of `conntrack`.
    pub fn arguments(&self) -> Vec<String> {
        let mut arguments: Vec<String> = ["-D", "-p", "udp"].map(str::to_owned).into();
        let port = match self.destination {
            Destination::Address(address) => {
                arguments.extend(["--orig-dst".to_owned(), address.ip().to_string()]);
                address.port()
            }
            Destination::NodePort(port) => port,
        };
        arguments.extend(["--orig-port-dst".to_owned(), port.to_string()]);
        if let Some(endpoint) = self.endpoint {
            arguments.extend(["--reply-src".to_owned(), endpoint.ip().to_string()]);
        }
        arguments
    }
}

/// Deletes the entries. Failures are no errors: `conntrack` exits with 1 when there was nothing to delete.
pub async fn delete(stale: &[Stale]) {
    for entry in stale {
        let arguments = entry.arguments();
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let _ = run_with_input("conntrack", &arguments, "").await;
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::Arc;

    use super::*;
    use crate::endpoints_map::Endpoint;
    use crate::service_map::{NamespacedName, ServicePort};
    use crate::topology::categorize_endpoints;

    fn state(endpoints: &[u8]) -> ServiceState {
        let port = ServicePort {
            cluster_ip: Ipv4Addr::new(10, 96, 0, 10),
            port: 53,
            node_port: 30053,
            external_ips: vec![],
            load_balancer_vips: vec![],
            source_ranges: vec![],
            affinity_seconds: None,
            health_check_node_port: 0,
            internal_policy_local: false,
            external_policy_local: false,
        };
        let endpoint = |number: &u8| Endpoint {
            address: SocketAddrV4::new(Ipv4Addr::new(10, 244, 0, *number), 53),
            is_local: true,
            ready: true,
            serving: true,
            terminating: false,
            zone_hints: Default::default(),
        };
        let endpoints: Vec<_> = endpoints.iter().map(endpoint).collect();
        let endpoints = categorize_endpoints(&endpoints, &port, None);
        ServiceState { port: Arc::new(port), endpoints }
    }

    fn stale(protocol: Protocol, before: &[u8], after: &[u8]) -> Vec<String> {
        let service = NamespacedName { namespace: "kube-system".to_owned(), name: "dns".to_owned() };
        let name = ServicePortName { service, port: String::new(), protocol };
        stale_connections(&name, Some(&state(before)), Some(&state(after)))
            .iter()
            .map(|stale| stale.arguments().join(" "))
            .collect()
    }

    #[test]
    fn entries_of_a_udp_endpoint_that_went_away_are_deleted() {
        assert_eq!(
            stale(Protocol::Udp, &[1, 2], &[2]),
            [
                "-D -p udp --orig-dst 10.96.0.10 --orig-port-dst 53 --reply-src 10.244.0.1",
                "-D -p udp --orig-port-dst 30053 --reply-src 10.244.0.1",
            ]
        );
    }

    #[test]
    fn a_first_udp_endpoint_frees_clients_that_talk_to_nobody() {
        assert_eq!(
            stale(Protocol::Udp, &[], &[1]),
            ["-D -p udp --orig-dst 10.96.0.10 --orig-port-dst 53", "-D -p udp --orig-port-dst 30053"]
        );
    }

    #[test]
    fn tcp_entries_stay() {
        assert!(stale(Protocol::Tcp, &[1], &[2]).is_empty());
    }
}
