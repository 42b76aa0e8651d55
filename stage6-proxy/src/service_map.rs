//! The service map: every port of every Service that this proxy handles, in the form that rules need.
//!
//! *Step 6 of a pod's journey.* Before: the API server stored a Service and gave it a cluster IP. After:
//! [`crate::topology`] joins each port with its endpoints.
//!
//! A Service is one object with several ports, several addresses and two traffic policies; the kernel
//! knows only packets to an address, a protocol and a port. So the unit from here on is the service
//! *port*, named `namespace/name:port`, and a change of one Service changes only the names of its ports.
//!
//! # Invariants
//! 1. A headless Service, an ExternalName and a Service that another proxy has claimed (label
//!    `service.kubernetes.io/service-proxy-name`) are not in the map.
//! 2. [`ServiceMap::update`] names exactly the ports that differ.
//!
//! # In Kubernetes
//! `pkg/proxy/servicechangetracker.go`, `pkg/proxy/serviceport.go`. Left out: IPv6, `topology-aware`
//! annotations (the hints on the endpoints decide), per-change timing of network programming.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::Ipv4Addr;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Service, ServicePort as SpecPort};

use crate::packet::Cidr;

/// Another proxy than kube-proxy handles the Service (or the EndpointSlice).
pub const LABEL_SERVICE_PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";

/// The protocols that Services know.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Protocol {
    /// TCP, the default.
    Tcp,
    /// UDP.
    Udp,
    /// SCTP.
    Sctp,
}

impl Protocol {
    /// As the rules spell it: `tcp`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::Udp => "udp",
            Self::Sctp => "sctp",
        }
    }

    /// As the API spells it (`TCP`, absent means TCP) and as the rules do.
    pub fn parse(text: Option<&str>) -> Option<Self> {
        match text {
            None | Some("TCP" | "tcp") => Some(Self::Tcp),
            Some("UDP" | "udp") => Some(Self::Udp),
            Some("SCTP" | "sctp") => Some(Self::Sctp),
            Some(_) => None,
        }
    }
}

/// `namespace/name`, the key of a Service.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NamespacedName {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for NamespacedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// One port of a Service: `namespace/name:port`, without `:port` when the port has no name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ServicePortName {
    /// The Service.
    pub service: NamespacedName,
    /// The port's name, may be empty.
    pub port: String,
    /// The protocol is part of the name: 53/UDP and 53/TCP may both be called `dns`.
    pub protocol: Protocol,
}

impl fmt::Display for ServicePortName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.service)?;
        if self.port.is_empty() { Ok(()) } else { write!(f, ":{}", self.port) }
    }
}

/// What the rules must know about one service port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServicePort {
    /// The address inside of the cluster.
    pub cluster_ip: Ipv4Addr,
    /// The port at `cluster_ip`, the external and the load balancer's addresses.
    pub port: u16,
    /// The port at every node's address; 0: none.
    pub node_port: u16,
    /// `spec.externalIPs`.
    pub external_ips: Vec<Ipv4Addr>,
    /// `status.loadBalancer.ingress` addresses that are not proxies of their own (`ipMode: VIP`).
    pub load_balancer_vips: Vec<Ipv4Addr>,
    /// Who may use the load balancer's addresses; empty: everyone.
    pub source_ranges: Vec<Cidr>,
    /// A client goes to the same endpoint for this many seconds after its last connection.
    pub affinity_seconds: Option<u32>,
    /// Where load balancers ask whether this node has endpoints; 0: nowhere.
    pub health_check_node_port: u16,
    /// `internalTrafficPolicy: Local`.
    pub internal_policy_local: bool,
    /// `externalTrafficPolicy: Local`.
    pub external_policy_local: bool,
}

impl ServicePort {
    /// Can anyone outside of the cluster reach it?
    pub fn externally_accessible(&self) -> bool {
        self.node_port != 0 || !self.load_balancer_vips.is_empty() || !self.external_ips.is_empty()
    }

    /// Does some traffic go to endpoints anywhere? External traffic with policy Local needs them too:
    /// what comes from this node and its pods is not external, whatever address it uses.
    pub fn uses_cluster_endpoints(&self) -> bool {
        !self.internal_policy_local || self.externally_accessible()
    }

    /// Does some traffic go to this node's endpoints only?
    pub fn uses_local_endpoints(&self) -> bool {
        self.internal_policy_local || (self.external_policy_local && self.externally_accessible())
    }
}

/// The ports of one Service; empty when this proxy has nothing to do with it.
pub fn service_ports(service: &Service) -> BTreeMap<ServicePortName, ServicePort> {
    let mut ports = BTreeMap::new();
    let Some(key) = service_key(service) else { return ports };
    let Some(spec) = &service.spec else { return ports };
    let foreign =
        service.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(LABEL_SERVICE_PROXY_NAME));
    // "None" and "" are no addresses: headless Services end here.
    let cluster_ip = spec.cluster_ip.as_deref().and_then(|ip| ip.parse().ok());
    let (Some(cluster_ip), false) = (cluster_ip, foreign || spec.type_.as_deref() == Some("ExternalName"))
    else {
        return ports;
    };
    for port in spec.ports.iter().flatten() {
        let Some(protocol) = Protocol::parse(port.protocol.as_deref()) else { continue };
        let name =
            ServicePortName { service: key.clone(), port: port.name.clone().unwrap_or_default(), protocol };
        ports.insert(name, service_port(service, port, cluster_ip));
    }
    ports
}

/// The Service's key.
pub fn service_key(service: &Service) -> Option<NamespacedName> {
    Some(NamespacedName {
        namespace: service.metadata.namespace.clone().unwrap_or_default(),
        name: service.metadata.name.clone()?,
    })
}

fn service_port(service: &Service, port: &SpecPort, cluster_ip: Ipv4Addr) -> ServicePort {
    let spec = service.spec.clone().unwrap_or_default();
    let type_ = spec.type_.as_deref().unwrap_or("ClusterIP");
    let external_ips: Vec<Ipv4Addr> =
        spec.external_ips.iter().flatten().filter_map(|ip| ip.parse().ok()).collect();
    let ingress = service.status.as_ref().and_then(|status| status.load_balancer.as_ref());
    let load_balancer_vips = ingress
        .and_then(|balancer| balancer.ingress.as_ref())
        .into_iter()
        .flatten()
        // A balancer in mode Proxy has the client's connection end there: nothing for us to catch.
        .filter(|ingress| ingress.ip_mode.as_deref().unwrap_or("VIP") == "VIP")
        .filter_map(|ingress| ingress.ip.as_deref()?.parse().ok())
        .collect();
    let affinity = spec.session_affinity_config.as_ref().and_then(|config| config.client_ip.as_ref());
    let affinity_seconds = (spec.session_affinity.as_deref() == Some("ClientIP")).then(|| {
        let seconds = affinity.and_then(|client_ip| client_ip.timeout_seconds).unwrap_or(10_800);
        u32::try_from(seconds).unwrap_or(10_800)
    });
    let external = matches!(type_, "NodePort" | "LoadBalancer") || !external_ips.is_empty();
    let external_policy_local = external && spec.external_traffic_policy.as_deref() == Some("Local");
    let health_check =
        spec.health_check_node_port.filter(|_| external_policy_local && type_ == "LoadBalancer");
    ServicePort {
        cluster_ip,
        port: port_number(Some(port.port)),
        node_port: port_number(port.node_port),
        external_ips,
        load_balancer_vips,
        source_ranges: spec
            .load_balancer_source_ranges
            .iter()
            .flatten()
            .filter_map(|range| range.trim().parse().ok())
            .collect(),
        affinity_seconds,
        health_check_node_port: port_number(health_check),
        internal_policy_local: spec.internal_traffic_policy.as_deref() == Some("Local"),
        external_policy_local,
    }
}

fn port_number(port: Option<i32>) -> u16 {
    port.and_then(|port| u16::try_from(port).ok()).unwrap_or(0)
}

/// All service ports by name, with the Service that each came from.
#[derive(Debug, Default)]
pub struct ServiceMap {
    ports: BTreeMap<NamespacedName, BTreeMap<ServicePortName, Arc<ServicePort>>>,
}

impl ServiceMap {
    /// Takes a Service's new state (`None`: deleted); answers the names of the ports that changed.
    pub fn update(&mut self, key: &NamespacedName, service: Option<&Service>) -> BTreeSet<ServicePortName> {
        let new = service.map(service_ports).unwrap_or_default();
        let old = self.ports.remove(key).unwrap_or_default();
        let mut changed = BTreeSet::new();
        for (name, port) in &new {
            if old.get(name).is_none_or(|old| **old != *port) {
                changed.insert(name.clone());
            }
        }
        changed.extend(old.keys().filter(|name| !new.contains_key(*name)).cloned());
        if !new.is_empty() {
            let new = new.into_iter().map(|(name, port)| (name, Arc::new(port))).collect();
            self.ports.insert(key.clone(), new);
        }
        changed
    }

    /// The port of that name.
    pub fn get(&self, name: &ServicePortName) -> Option<&Arc<ServicePort>> {
        self.ports.get(&name.service)?.get(name)
    }

    /// The Services with ports.
    pub fn keys(&self) -> impl Iterator<Item = &NamespacedName> {
        self.ports.keys()
    }

    /// All ports, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = (&ServicePortName, &Arc<ServicePort>)> {
        self.ports.values().flatten()
    }
}
