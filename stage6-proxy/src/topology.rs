//! Topology: which endpoints may this node's traffic go to?
//!
//! *Step 6 of a pod's journey.* Before: [`crate::endpoints_map`] knows all addresses of a service port.
//! After: [`crate::proxy_state`] holds the chosen ones, and the renderers write rules for them.
//!
//! Two kinds of traffic ask for two lists. "Cluster" traffic may go anywhere, but stays in its zone when every
//! endpoint carries zone hints and one of them is for ours. "Local" traffic stays on this node: it keeps the
//! client's address and one hop, at the price that a node without endpoints has nothing to offer.
//!
//! The subtle thing is the end of a pod's life. A terminating pod gets no new connections as long as a ready
//! one exists; but if *all* are terminating (a rolling update of one replica, a drained node), those that
//! still serve are better than nothing.
//!
//! # Invariants
//! 1. An endpoint that is neither ready nor serving-while-terminating is in no list.
//! 2. `all` is the union of the other two: every address that a rule may name.
//!
//! # In Kubernetes
//! `pkg/proxy/topology.go`. Left out: `PreferSameNode` (alpha in 1.33).

use std::collections::BTreeMap;

use crate::endpoints_map::Endpoint;
use crate::service_map::ServicePort;

/// The node label that names its zone.
pub const LABEL_ZONE: &str = "topology.kubernetes.io/zone";

/// A service port's endpoints, as this node may use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CategorizedEndpoints {
    /// For traffic with policy Cluster.
    pub cluster: Vec<Endpoint>,
    /// For traffic with policy Local.
    pub local: Vec<Endpoint>,
    /// Both, each once.
    pub all: Vec<Endpoint>,
    /// Is there a usable endpoint anywhere? Decides between reject (no) and drop (yes, but not here).
    pub has_any: bool,
}

// ANCHOR: categorize-endpoints
/// Sorts a service port's endpoints for a node in `zone`.
pub fn categorize_endpoints(
    endpoints: &[Endpoint],
    service: &ServicePort,
    zone: Option<&str>,
) -> CategorizedEndpoints {
    let ready = |endpoint: &&Endpoint| endpoint.ready;
    let last_resort = |endpoint: &&Endpoint| endpoint.serving && endpoint.terminating;
    let mut chosen = CategorizedEndpoints::default();

    if service.uses_cluster_endpoints() {
        let zone = zone.filter(|zone| can_use_topology(endpoints, zone));
        let in_zone = |endpoint: &&Endpoint| zone.is_none_or(|zone| endpoint.zone_hints.contains(zone));
        chosen.cluster = endpoints.iter().filter(ready).filter(in_zone).cloned().collect();
        if chosen.cluster.is_empty() {
            chosen.cluster = endpoints.iter().filter(last_resort).cloned().collect();
        }
    }
    if service.uses_local_endpoints() {
        let local = || endpoints.iter().filter(|endpoint| endpoint.is_local);
        chosen.local = local().filter(ready).cloned().collect();
        if chosen.local.is_empty() {
            chosen.local = local().filter(last_resort).cloned().collect();
        }
    }
    chosen.has_any = endpoints.iter().any(|endpoint| ready(&endpoint) || last_resort(&endpoint));
    let both = chosen.cluster.iter().chain(&chosen.local);
    let union: BTreeMap<String, &Endpoint> =
        both.map(|endpoint| (endpoint.address.to_string(), endpoint)).collect();
    chosen.all = union.into_values().cloned().collect();
    chosen
}

/// Hints count only when every ready endpoint has some (a half-hinted Service is being rolled out) and
/// one is for our zone (else nothing would be left).
fn can_use_topology(endpoints: &[Endpoint], zone: &str) -> bool {
    let mut ready = endpoints.iter().filter(|endpoint| endpoint.ready).peekable();
    let has_one_for_zone = ready.clone().any(|endpoint| endpoint.zone_hints.contains(zone));
    ready.all(|endpoint| !endpoint.zone_hints.is_empty()) && has_one_for_zone && !zone.is_empty()
}
// ANCHOR_END: categorize-endpoints

#[cfg(test)]
mod tests;
