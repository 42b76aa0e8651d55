//! The proxy's state: all that rules are made from.
//!
//! *Step 6 of a pod's journey.* Before: [`crate::topology`] chose endpoints. After: [`crate::nftables`] or
//! [`crate::iptables`] renders it.
//!
//! Rules are a pure function of this state and of the node that they are for ([`NodeView`]): no renderer asks the
//! clock, the kernel or the API server. That is what lets the tests put the same state to both dialects.
//!
//! # Invariants
//! 1. [`Tracker::take`] names every service port whose rules may differ from those at the last call, and
//!    its state is that of the same moment.
//!
//! # In Kubernetes
//! The arguments that `syncProxyRules` reads from the proxier's fields: `svcPortMap`, `endpointsMap`, `nodeLabels`,
//! `localDetector`, `masqueradeAll`.

use std::collections::{BTreeMap, BTreeSet};
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::endpoints_map::EndpointsMap;
use crate::packet::Cidr;
use crate::service_map::{NamespacedName, ServiceMap, ServicePort, ServicePortName, service_key};
use crate::topology::{CategorizedEndpoints, categorize_endpoints};

/// How to tell that a packet comes from a pod of this node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LocalDetector {
    /// It can't be told: nothing is short-circuited, off-cluster traffic isn't masqueraded.
    #[default]
    None,
    /// `--cluster-cidr`: by address.
    ClusterCidr(Cidr),
    /// By the bridge that pods hang on.
    BridgeInterface(String),
    /// By the beginning of the pods' interface names.
    InterfaceNamePrefix(String),
}

/// The node's addresses that accept NodePort connections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodePortAddresses {
    /// Every address of the node (the iptables mode's default).
    All,
    /// These (the nftables mode's default: the node's primary address).
    Only(Vec<Ipv4Addr>),
}

/// What rules depend on besides Services and endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeView {
    /// The node's name.
    pub node_name: String,
    /// Its primary address.
    pub node_ip: Ipv4Addr,
    /// Its zone, from [`crate::topology::LABEL_ZONE`].
    pub zone: Option<String>,
    /// Where pods are.
    pub local_detector: LocalDetector,
    /// Which addresses NodePorts listen at.
    pub node_port_addresses: NodePortAddresses,
    /// NodePorts at 127.0.0.1 (iptables mode only).
    pub localhost_node_ports: bool,
    /// `--masquerade-all`.
    pub masquerade_all: bool,
    /// Does this kernel count with nfacct? Its matches are left out where it doesn't.
    pub nfacct: bool,
}

/// The bit of the packet mark that says "masquerade me" (`--iptables-masquerade-bit` 14).
pub const MASQUERADE_MARK: u32 = 1 << 14;

/// One service port with its endpoints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceState {
    /// The port.
    pub port: Arc<ServicePort>,
    /// Who answers.
    pub endpoints: CategorizedEndpoints,
}

impl ServiceState {
    /// Can traffic to the cluster IP reach someone?
    pub fn has_internal_endpoints(&self) -> bool {
        self.endpoints.has_any && !(self.port.internal_policy_local && self.endpoints.local.is_empty())
    }

    /// Can external traffic reach someone from this node?
    pub fn has_external_endpoints(&self) -> bool {
        self.endpoints.has_any && !(self.port.external_policy_local && self.endpoints.local.is_empty())
    }

    /// Is there an entrance for external traffic? Asked with `has_any`, not with
    /// [`Self::has_external_endpoints`]: the node's own traffic is short-circuited to endpoints elsewhere.
    pub fn uses_external_chain(&self) -> bool {
        self.endpoints.has_any && self.port.externally_accessible()
    }

    /// Are the load balancer's addresses guarded?
    pub fn uses_firewall(&self) -> bool {
        self.endpoints.has_any
            && !self.port.load_balancer_vips.is_empty()
            && !self.port.source_ranges.is_empty()
    }

    /// The endpoints for traffic to the cluster IP.
    pub fn internal_endpoints(&self) -> &[crate::endpoints_map::Endpoint] {
        if self.port.internal_policy_local { &self.endpoints.local } else { &self.endpoints.cluster }
    }
}

/// All service ports, in the order of their names.
pub type ProxyState = BTreeMap<ServicePortName, ServiceState>;

/// Collects changes of Services and slices until somebody renders them.
#[derive(Debug)]
pub struct Tracker {
    services: ServiceMap,
    endpoints: EndpointsMap,
    zone: Option<String>,
    changed: BTreeSet<ServicePortName>,
}

impl Tracker {
    /// Nothing is known yet.
    pub fn new(node_name: &str, zone: Option<String>) -> Self {
        Self {
            services: ServiceMap::default(),
            endpoints: EndpointsMap::new(node_name),
            zone,
            changed: BTreeSet::new(),
        }
    }

    /// A Service was added or changed; answers whether rules may differ.
    pub fn service(&mut self, service: &Service) -> bool {
        let Some(key) = service_key(service) else { return false };
        let changed = self.services.update(&key, Some(service));
        self.note(changed)
    }

    /// A Service is gone.
    pub fn service_deleted(&mut self, key: &NamespacedName) -> bool {
        let changed = self.services.update(key, None);
        self.note(changed)
    }

    /// A slice was added, changed or deleted.
    pub fn slice(&mut self, slice: &EndpointSlice, deleted: bool) -> bool {
        let changed = self.endpoints.update(slice, deleted);
        self.note(changed)
    }

    /// The Services that have ports here.
    pub fn services(&self) -> impl Iterator<Item = &NamespacedName> {
        self.services.keys()
    }

    /// Changes were missed: these are all slices that there are.
    pub fn replace_slices(&mut self, slices: &[Arc<EndpointSlice>]) -> bool {
        let node_name = self.endpoints.node_name().to_owned();
        let mut fresh = EndpointsMap::new(&node_name);
        for slice in slices {
            fresh.update(slice, false);
        }
        let names = self.services.iter().map(|(name, _)| name);
        let differs =
            names.filter(|name| self.endpoints.endpoints(name) != fresh.endpoints(name)).cloned().collect();
        self.endpoints = fresh;
        self.note(differs)
    }

    /// The node's zone label changed: every Service may choose differently.
    pub fn set_zone(&mut self, zone: Option<String>) -> bool {
        if self.zone == zone {
            return false;
        }
        self.zone = zone;
        let all = self.services.iter().map(|(name, _)| name.clone()).collect();
        self.note(all)
    }

    fn note(&mut self, changed: BTreeSet<ServicePortName>) -> bool {
        let any = !changed.is_empty();
        self.changed.extend(changed);
        any
    }

    /// The state of each service port that changed since the last call; `None`: it is gone.
    pub fn take(&mut self) -> BTreeMap<ServicePortName, Option<ServiceState>> {
        let changed = std::mem::take(&mut self.changed);
        changed
            .into_iter()
            .map(|name| {
                let state = self.state_of(&name);
                (name, state)
            })
            .collect()
    }

    fn state_of(&self, name: &ServicePortName) -> Option<ServiceState> {
        let port = Arc::clone(self.services.get(name)?);
        let endpoints = categorize_endpoints(&self.endpoints.endpoints(name), &port, self.zone.as_deref());
        Some(ServiceState { port, endpoints })
    }

    /// Everything, for a first or a full render.
    pub fn state(&self) -> ProxyState {
        self.services.iter().filter_map(|(name, _)| Some((name.clone(), self.state_of(name)?))).collect()
    }
}
