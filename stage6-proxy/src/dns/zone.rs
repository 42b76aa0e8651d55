//! The zone: what names there are, kept from Services and EndpointSlices.
//!
//! *Step 6 of a pod's journey.* Before: the informers heard of a change. After: [`super::answer`] looks names up here.
//!
//! | name below `cluster.local` | is |
//! |---|---|
//! | `SVC.NS.svc` | the cluster IP; headless: all ready endpoints; ExternalName: an alias |
//! | `HOST.SVC.NS.svc` | one endpoint of a headless Service, by its hostname or as `10-244-0-5` |
//! | `_PORT._PROTO.SVC.NS.svc` | SRV: the port, and where |
//! | `10-244-0-5.NS.pod` | that address |
//!
//! # Invariants
//! 1. A lookup costs the records of one Service, however many there are.
//!
//! # In Kubernetes
//! `plugin/kubernetes/{kubernetes,object}` of CoreDNS.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::EndpointSlice;

use crate::endpoints_map::LABEL_SERVICE_NAME;
use crate::service_map::{NamespacedName, Protocol, service_key};

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// These addresses; none: the name exists, but not as an address.
    Addresses(Vec<Ipv4Addr>),
    /// Another name.
    Alias(String),
    /// Ports of hosts: port and target.
    Ports(Vec<(u16, String)>),
    /// A name, for reverse lookups.
    Pointer(String),
    /// A text.
    Text(&'static str),
}

/// One ready endpoint of a headless Service.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Host {
    name: String,
    address: Ipv4Addr,
    ports: Vec<(String, Protocol, u16)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Kind {
    ClusterIp(Ipv4Addr),
    Headless,
    ExternalName(String),
}

#[derive(Clone, Debug)]
struct Entry {
    kind: Kind,
    ports: Vec<(String, Protocol, u16)>,
}

/// The records of the cluster.
#[derive(Debug)]
pub struct Zone {
    domain: String,
    services: HashMap<NamespacedName, Entry>,
    slices: HashMap<NamespacedName, BTreeMap<String, Vec<Host>>>,
    by_address: HashMap<Ipv4Addr, NamespacedName>,
}

impl Zone {
    /// An empty zone.
    pub fn new(domain: &str) -> Self {
        Self {
            domain: domain.to_owned(),
            services: HashMap::new(),
            slices: HashMap::new(),
            by_address: HashMap::new(),
        }
    }

    /// The cluster's domain.
    pub fn domain(&self) -> &str {
        &self.domain
    }

    /// A Service was added or changed.
    pub fn service(&mut self, service: &Service) {
        let Some(key) = service_key(service) else { return };
        self.service_deleted(&key);
        let Some(spec) = &service.spec else { return };
        let kind = match (spec.type_.as_deref(), spec.cluster_ip.as_deref()) {
            (Some("ExternalName"), _) => Kind::ExternalName(spec.external_name.clone().unwrap_or_default()),
            (_, Some("None")) => Kind::Headless,
            (_, Some(ip)) => match ip.parse() {
                Ok(ip) => Kind::ClusterIp(ip),
                Err(_) => return,
            },
            (_, None) => return,
        };
        if let Kind::ClusterIp(ip) = &kind {
            self.by_address.insert(*ip, key.clone());
        }
        let ports = spec.ports.iter().flatten().filter_map(|port| {
            let protocol = Protocol::parse(port.protocol.as_deref())?;
            Some((port.name.clone().unwrap_or_default(), protocol, u16::try_from(port.port).ok()?))
        });
        self.services.insert(key, Entry { kind, ports: ports.collect() });
    }

    /// A Service is gone.
    pub fn service_deleted(&mut self, key: &NamespacedName) {
        if let Some(Entry { kind: Kind::ClusterIp(ip), .. }) = self.services.remove(key)
            && self.by_address.get(&ip) == Some(key)
        {
            self.by_address.remove(&ip);
        }
    }

    /// A slice was added, changed or deleted.
    pub fn slice(&mut self, slice: &EndpointSlice, deleted: bool) {
        let label = slice.metadata.labels.as_ref().and_then(|labels| labels.get(LABEL_SERVICE_NAME));
        let (Some(service), Some(name)) = (label, slice.metadata.name.clone()) else { return };
        let namespace = slice.metadata.namespace.clone().unwrap_or_default();
        let key = NamespacedName { namespace, name: service.clone() };
        let slices = self.slices.entry(key.clone()).or_default();
        if deleted || slice.address_type != "IPv4" {
            slices.remove(&name);
        } else {
            slices.insert(name, hosts(slice));
        }
        if slices.is_empty() {
            self.slices.remove(&key);
        }
    }

    /// Forgets everything, for a new beginning.
    pub fn clear(&mut self) {
        *self = Self::new(&self.domain);
    }

    fn hosts(&self, key: &NamespacedName) -> impl Iterator<Item = &Host> {
        self.slices.get(key).into_iter().flat_map(|slices| slices.values().flatten())
    }

    // ANCHOR: lookup
    /// What a name below the domain is (without the domain, lower case, first label first); `None`: no such name.
    pub fn lookup(&self, labels: &[&str]) -> Option<Found> {
        match labels {
            [] | ["svc" | "pod"] => Some(Found::Addresses(vec![])),
            ["dns-version"] => Some(Found::Text("1.1.0")),
            [namespace, "svc"] => {
                let exists = self.services.keys().any(|key| key.namespace == *namespace);
                exists.then(|| Found::Addresses(vec![]))
            }
            [service, namespace, "svc"] => self.service_record(&key(namespace, service)),
            [port, protocol, service, namespace, "svc"] if port.starts_with('_') => {
                let protocol = Protocol::parse(protocol.strip_prefix('_'))?;
                self.port_record(&key(namespace, service), port.strip_prefix('_')?, protocol)
            }
            [host, service, namespace, "svc"] => {
                let key = key(namespace, service);
                let is_headless = self.services.get(&key)?.kind == Kind::Headless;
                let hosts = self.hosts(&key).filter(|endpoint| is_headless && endpoint.name == *host);
                let addresses: Vec<_> = hosts.map(|host| host.address).collect();
                (!addresses.is_empty()).then_some(Found::Addresses(addresses))
            }
            [address, _, "pod"] => {
                let address = address.replace('-', ".").parse().ok()?;
                Some(Found::Addresses(vec![address]))
            }
            _ => None,
        }
    }
    // ANCHOR_END: lookup

    /// The name of a cluster IP or of a headless Service's endpoint.
    pub fn reverse(&self, address: Ipv4Addr) -> Option<Found> {
        let key = self.by_address.get(&address)?;
        Some(Found::Pointer(self.full_name(key)))
    }

    fn full_name(&self, key: &NamespacedName) -> String {
        format!("{}.{}.svc.{}", key.name, key.namespace, self.domain)
    }

    fn service_record(&self, key: &NamespacedName) -> Option<Found> {
        Some(match &self.services.get(key)?.kind {
            Kind::ClusterIp(ip) => Found::Addresses(vec![*ip]),
            Kind::ExternalName(name) => Found::Alias(name.clone()),
            Kind::Headless => {
                let mut addresses: Vec<_> = self.hosts(key).map(|host| host.address).collect();
                addresses.sort_unstable();
                addresses.dedup();
                // No endpoints: the Service has no address now, and "no such name" would be remembered.
                Found::Addresses(addresses)
            }
        })
    }

    fn port_record(&self, key: &NamespacedName, port: &str, protocol: Protocol) -> Option<Found> {
        let entry = self.services.get(key)?;
        let full = self.full_name(key);
        let of_port = |ports: &[(String, Protocol, u16)]| {
            let found = ports.iter().find(|(name, other, _)| name == port && *other == protocol);
            found.map(|(_, _, number)| *number)
        };
        let ports: Vec<(u16, String)> = match entry.kind {
            Kind::ClusterIp(_) => of_port(&entry.ports).map(|number| (number, full)).into_iter().collect(),
            Kind::Headless => self
                .hosts(key)
                .filter_map(|host| Some((of_port(&host.ports)?, format!("{}.{full}", host.name))))
                .collect(),
            Kind::ExternalName(_) => vec![],
        };
        (!ports.is_empty()).then_some(Found::Ports(ports))
    }
}

fn key(namespace: &str, name: &str) -> NamespacedName {
    NamespacedName { namespace: namespace.to_owned(), name: name.to_owned() }
}

fn hosts(slice: &EndpointSlice) -> Vec<Host> {
    let ports: Vec<(String, Protocol, u16)> = slice
        .ports
        .iter()
        .flatten()
        .filter_map(|port| {
            let protocol = Protocol::parse(port.protocol.as_deref())?;
            Some((port.name.clone().unwrap_or_default(), protocol, u16::try_from(port.port?).ok()?))
        })
        .collect();
    let ready = |conditions: &Option<k8s_openapi::api::discovery::v1::EndpointConditions>| {
        conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(true)
    };
    slice
        .endpoints
        .iter()
        .filter(|endpoint| ready(&endpoint.conditions))
        .filter_map(|endpoint| {
            let address: Ipv4Addr = endpoint.addresses.first()?.parse().ok()?;
            let dashed = || address.to_string().replace('.', "-");
            let name = endpoint.hostname.clone().filter(|name| !name.is_empty()).unwrap_or_else(dashed);
            Some(Host { name, address, ports: ports.clone() })
        })
        .collect()
}
