//! The endpoints map: which addresses stand behind each service port.
//!
//! *Step 6 of a pod's journey.* Before: the EndpointSlice controller of stage 3 noted the pod's address and
//! readiness. After: [`crate::topology`] picks those that traffic may go to from this node.
//!
//! A Service with a thousand pods has ten slices, so that one pod's change costs one slice, not all. Here they
//! come together again: a service port's endpoints are the union over the slices of its Service that have a
//! port of that name. The same address may stand in two slices for a moment (it moves from one to the
//! other): it counts once.
//!
//! # Invariants
//! 1. Endpoints are in the order of their `address:port` text, whatever the slices' order: rules are
//!    stable, and a slice rewritten with the same content changes nothing.
//!
//! # In Kubernetes
//! `pkg/proxy/endpointslicecache.go`, `pkg/proxy/endpoint.go`. Left out: IPv6 and FQDN slices, node hints.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddrV4;

use k8s_openapi::api::discovery::v1::{Endpoint as SliceEndpoint, EndpointSlice};

use crate::service_map::{LABEL_SERVICE_PROXY_NAME, NamespacedName, Protocol, ServicePortName};

/// The Service that a slice belongs to.
pub const LABEL_SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Set (to anything) on slices of headless Services, whose endpoints only DNS needs.
pub const LABEL_HEADLESS: &str = "service.kubernetes.io/headless";

/// One address behind a service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Where packets go.
    pub address: SocketAddrV4,
    /// On this node?
    pub is_local: bool,
    /// May have new connections.
    pub ready: bool,
    /// Answers, though it may be on its way out.
    pub serving: bool,
    /// On its way out.
    pub terminating: bool,
    /// The zones that should use it; empty: no hints.
    pub zone_hints: BTreeSet<String>,
}

/// One slice, reduced to what matters: per port name and protocol, its endpoints.
type SliceInfo = BTreeMap<(String, Protocol), Vec<Endpoint>>;

/// All slices by Service and name.
#[derive(Debug, Default)]
pub struct EndpointsMap {
    node_name: String,
    slices: BTreeMap<NamespacedName, BTreeMap<String, SliceInfo>>,
}

/// The Service of a slice, if this proxy cares about it.
pub fn slice_service(slice: &EndpointSlice) -> Option<NamespacedName> {
    let labels = slice.metadata.labels.as_ref()?;
    if labels.contains_key(LABEL_HEADLESS) || labels.contains_key(LABEL_SERVICE_PROXY_NAME) {
        return None;
    }
    Some(NamespacedName {
        namespace: slice.metadata.namespace.clone().unwrap_or_default(),
        name: labels.get(LABEL_SERVICE_NAME).filter(|name| !name.is_empty())?.clone(),
    })
}

impl EndpointsMap {
    /// An empty map of a proxy on that node.
    pub fn new(node_name: &str) -> Self {
        Self { node_name: node_name.to_owned(), slices: BTreeMap::new() }
    }

    /// The node whose endpoints are local.
    pub fn node_name(&self) -> &str {
        &self.node_name
    }

    /// Takes a slice's new state (or its end); answers the names of the service ports it may have changed.
    pub fn update(&mut self, slice: &EndpointSlice, deleted: bool) -> BTreeSet<ServicePortName> {
        let (Some(service), Some(name)) = (slice_service(slice), slice.metadata.name.clone()) else {
            return BTreeSet::new();
        };
        let new = if deleted { None } else { self.slice_info(slice) };
        let of_service = self.slices.entry(service.clone()).or_default();
        let old = of_service.remove(&name);
        if old == new {
            // Nothing that rules depend on (say, a renewed annotation): nobody is told.
            if let Some(old) = old {
                of_service.insert(name, old);
            }
            return BTreeSet::new();
        }
        let ports: BTreeSet<_> = old.iter().chain(new.iter()).flat_map(BTreeMap::keys).cloned().collect();
        if let Some(new) = new {
            of_service.insert(name, new);
        }
        if of_service.is_empty() {
            self.slices.remove(&service);
        }
        ports
            .into_iter()
            .map(|(port, protocol)| ServicePortName { service: service.clone(), port, protocol })
            .collect()
    }

    fn slice_info(&self, slice: &EndpointSlice) -> Option<SliceInfo> {
        if slice.address_type != "IPv4" {
            return None;
        }
        let mut info = SliceInfo::new();
        for port in slice.ports.iter().flatten() {
            let number = port.port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
            let (Some(number), Some(protocol)) = (number, Protocol::parse(port.protocol.as_deref())) else {
                continue;
            };
            let endpoints = slice.endpoints.iter().filter_map(|endpoint| self.endpoint(endpoint, number));
            info.entry((port.name.clone().unwrap_or_default(), protocol)).or_default().extend(endpoints);
        }
        Some(info)
    }

    fn endpoint(&self, endpoint: &SliceEndpoint, port: u16) -> Option<Endpoint> {
        let conditions = endpoint.conditions.clone().unwrap_or_default();
        let zones = endpoint.hints.as_ref().and_then(|hints| hints.for_zones.as_ref());
        Some(Endpoint {
            address: SocketAddrV4::new(endpoint.addresses.first()?.parse().ok()?, port),
            is_local: endpoint.node_name.as_deref().is_some_and(|node| node == self.node_name),
            // Absent means yes for ready and serving, no for terminating.
            ready: conditions.ready.unwrap_or(true),
            serving: conditions.serving.unwrap_or(true),
            terminating: conditions.terminating.unwrap_or(false),
            zone_hints: zones.into_iter().flatten().map(|zone| zone.name.clone()).collect(),
        })
    }

    /// The endpoints of a service port over all slices, each address once.
    pub fn endpoints(&self, name: &ServicePortName) -> Vec<Endpoint> {
        let mut endpoints: BTreeMap<String, Endpoint> = BTreeMap::new();
        let key = (name.port.clone(), name.protocol);
        for slice in self.slices.get(&name.service).into_iter().flat_map(BTreeMap::values) {
            for endpoint in slice.get(&key).into_iter().flatten() {
                let text = endpoint.address.to_string();
                if endpoint.is_local || !endpoints.contains_key(&text) {
                    endpoints.insert(text, endpoint.clone());
                }
            }
        }
        endpoints.into_values().collect()
    }
}
