//! Service allocation: addresses and node ports of a Service that is written.
//!
//! Create takes what the Service needs; update takes what a new type needs and gives back what the old one no longer does; delete gives all
//! back. The result is a [`Transaction`]: the caller stores the Service, then commits, or reverts when the write failed or was
//! a dry run.
//!
//! # Invariants
//! 1. A transaction that is reverted leaves the allocators as they were.
//! 2. Values are released only after the Service is stored without them.
//!
//! # In Kubernetes
//! `pkg/registry/core/service/storage/{alloc,storage}.go`. Left out: health-check node ports of load balancers are taken from the same
//! range here as there; dual stack.

use std::net::Ipv4Addr;

use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::{IpAllocator, PortAllocator};
use crate::strategies::edit;
use crate::validation::fields::{child, child_mut, has, int, list, opt_flag, remove, set, text, texts};
use crate::validation::{Errors, FieldError, field, go_syntax, index};

/// Both allocators of a cluster.
#[derive(Clone, Debug)]
pub struct ServiceAllocators {
    /// Cluster addresses.
    pub ips: IpAllocator,
    /// Node ports.
    pub ports: PortAllocator,
}

/// What a write took and what it will give back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transaction {
    taken_ips: Vec<Ipv4Addr>,
    taken_ports: Vec<i64>,
    freed_ips: Vec<Ipv4Addr>,
    freed_ports: Vec<i64>,
}

impl Transaction {
    /// The Service is stored: gives back what it no longer has.
    pub fn commit(self, allocators: &mut ServiceAllocators) {
        self.freed_ips.into_iter().for_each(|ip| allocators.ips.release(ip));
        self.freed_ports.into_iter().for_each(|port| allocators.ports.release(port));
    }

    /// The Service was not stored: gives back what was taken for it.
    pub fn revert(self, allocators: &mut ServiceAllocators) {
        self.taken_ips.into_iter().for_each(|ip| allocators.ips.release(ip));
        self.taken_ports.into_iter().for_each(|port| allocators.ports.release(port));
    }
}

impl ServiceAllocators {
    /// Takes exactly what the stored Services have; at start.
    pub fn rebuild<'a>(&mut self, services: impl IntoIterator<Item = &'a Object> + Clone) {
        self.ips.rebuild(
            services.clone().into_iter().flat_map(|service| addresses(child(service.as_value(), "spec"))),
        );
        self.ports
            .rebuild(services.into_iter().flat_map(|service| node_ports(child(service.as_value(), "spec"))));
    }

    /// Allocates for a new Service, or for a changed one. Call it after the strategy has prepared the object, before validation.
    ///
    /// # Errors
    /// 422 if a wished value is taken or out of range.
    pub fn allocate(
        &mut self,
        service: &mut Object,
        old: Option<&Object>,
        dry_run: bool,
        random: u64,
    ) -> Result<Transaction, Status> {
        let mut transaction = Transaction::default();
        let mut errors = Errors::new();
        let before = old.map(|old| child(old.as_value(), "spec").clone()).unwrap_or(Value::Null);
        edit(service, |value| {
            let spec = child_mut(value, "spec");
            set_families(spec);
            self.allocate_ip(spec, &before, random, &mut transaction, &mut errors);
            self.allocate_ports(spec, &before, dry_run, random, &mut transaction, &mut errors);
            self.allocate_health_check_port(spec, &before, random, &mut transaction, &mut errors);
        });
        if !errors.is_empty() {
            transaction.revert(self);
            return Err(Status::invalid_kind(&service.gvk(), service.name(), &errors));
        }
        let after = child(service.as_value(), "spec");
        let (ips, ports) = (addresses(after), node_ports(after));
        transaction.freed_ips = addresses(&before).into_iter().filter(|ip| !ips.contains(ip)).collect();
        transaction.freed_ports =
            node_ports(&before).into_iter().filter(|port| !ports.contains(port)).collect();
        Ok(transaction)
    }

    /// A deleted Service gives back all that it had.
    pub fn release(&mut self, service: &Object) {
        let spec = child(service.as_value(), "spec");
        addresses(spec).into_iter().for_each(|ip| self.ips.release(ip));
        node_ports(spec).into_iter().for_each(|port| self.ports.release(port));
    }

    fn allocate_ip(
        &mut self,
        spec: &mut Value,
        before: &Value,
        random: u64,
        taken: &mut Transaction,
        errors: &mut Errors,
    ) {
        if text(spec, "type") == "ExternalName" {
            return;
        }
        let wished = texts(spec, "clusterIPs")
            .first()
            .map_or_else(|| text(spec, "clusterIP").to_owned(), |ip| (*ip).to_owned());
        if wished == "None" || addresses(before).iter().any(|ip| ip.to_string() == wished) {
            return;
        }
        if wished.is_empty() {
            match self.ips.allocate_next(random) {
                Some(ip) => {
                    taken.taken_ips.push(ip);
                    set(spec, "clusterIP", ip.to_string());
                    set(spec, "clusterIPs", json!([ip.to_string()]));
                }
                None => errors.push(FieldError::internal(
                    "spec.clusterIPs",
                    "failed to allocate a serviceIP: range is full",
                )),
            }
            return;
        }
        let path = index("spec.clusterIPs", 0);
        let shown = go_syntax::raw(go_syntax::strings("[]string", &texts(spec, "clusterIPs")));
        match wished.parse::<Ipv4Addr>() {
            Ok(ip) if !self.ips.contains(ip) => {
                let range = self.ips.cidr();
                let detail = format!(
                    "failed to allocate IP {wished}: provided IP is not in the valid range. The range of valid IPs is {range}"
                );
                errors.push(FieldError::invalid(path, shown, detail));
            }
            Ok(ip) if self.ips.allocate(ip) => taken.taken_ips.push(ip),
            Ok(_) => {
                let detail = format!("failed to allocate IP {wished}: provided IP is already allocated");
                errors.push(FieldError::invalid(path, shown, detail));
            }
            // Not an IPv4 address: validation says so.
            Err(_) => {}
        }
    }

    /// Where a load balancer asks whether a node has an endpoint.
    fn allocate_health_check_port(
        &mut self,
        spec: &mut Value,
        before: &Value,
        random: u64,
        taken: &mut Transaction,
        errors: &mut Errors,
    ) {
        if text(spec, "type") != "LoadBalancer" || text(spec, "externalTrafficPolicy") != "Local" {
            return;
        }
        let (wished, had) = (int(spec, "healthCheckNodePort"), int(before, "healthCheckNodePort"));
        if wished == 0 {
            match self.ports.allocate_next(random.rotate_left(29)) {
                Some(port) => {
                    taken.taken_ports.push(port);
                    set(spec, "healthCheckNodePort", port);
                }
                None => errors.push(FieldError::internal(
                    "spec.healthCheckNodePort",
                    "failed to allocate a nodePort: range is full",
                )),
            }
        } else if wished != had {
            if self.ports.allocate(wished) {
                taken.taken_ports.push(wished);
            } else {
                let detail = format!(
                    "failed to allocate requested HealthCheck NodePort {wished}: provided port is already allocated"
                );
                errors.push(FieldError::internal("spec.healthCheckNodePort", detail));
            }
        }
    }

    fn allocate_ports(
        &mut self,
        spec: &mut Value,
        before: &Value,
        dry_run: bool,
        random: u64,
        taken: &mut Transaction,
        errors: &mut Errors,
    ) {
        let kind = text(spec, "type").to_owned();
        let balanced =
            kind == "LoadBalancer" && opt_flag(spec, "allocateLoadBalancerNodePorts").unwrap_or(true);
        if kind != "NodePort" && kind != "LoadBalancer" {
            return;
        }
        let had = node_ports(before);
        // The same number may serve TCP and UDP of one Service.
        let mut own: Vec<(i64, String)> = Vec::new();
        let count = list(spec, "ports").len();
        for at in 0..count {
            let port = &spec["ports"][at];
            let (wished, protocol) = (int(port, "nodePort"), text(port, "protocol").to_owned());
            let path = field(&index("spec.ports", at), "nodePort");
            let shared = own.iter().any(|(number, other)| *number == wished && *other != protocol);
            if wished != 0 {
                if !had.contains(&wished) && !shared {
                    if !self.ports.contains(wished) {
                        if !dry_run {
                            let range = self.ports.range();
                            let detail = format!(
                                "provided port is not in the valid range. The range of valid ports is {range}"
                            );
                            errors.push(FieldError::invalid(path, wished, detail));
                        }
                    } else if self.ports.allocate(wished) {
                        taken.taken_ports.push(wished);
                    } else {
                        errors.push(FieldError::invalid(path, wished, "provided port is already allocated"));
                    }
                }
                own.push((wished, protocol));
            } else if kind == "NodePort" || balanced {
                let service_port = int(port, "port");
                let same = list(spec, "ports")[..at]
                    .iter()
                    .find(|p| int(p, "port") == service_port && text(p, "protocol") != protocol);
                let number = match same.map(|p| int(p, "nodePort")).filter(|n| *n != 0) {
                    Some(number) => Some(number),
                    None => self
                        .ports
                        .allocate_next(random.rotate_left(7 * (at as u32 + 1)))
                        .inspect(|n| taken.taken_ports.push(*n)),
                };
                match number {
                    Some(number) => {
                        set(&mut spec["ports"][at], "nodePort", number);
                        own.push((number, protocol));
                    }
                    None => errors
                        .push(FieldError::internal(path, "failed to allocate a nodePort: range is full")),
                }
            }
        }
    }
}

/// IP families of a single-stack IPv4 cluster.
fn set_families(spec: &mut Value) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let headless_without_selector = text(spec, "clusterIP") == "None" && !has(spec, "selector");
    if !has(spec, "ipFamilyPolicy") {
        let policy = if headless_without_selector { "RequireDualStack" } else { "SingleStack" };
        set(spec, "ipFamilyPolicy", policy);
    }
    if list(spec, "ipFamilies").is_empty() {
        let families = if headless_without_selector { json!(["IPv4", "IPv6"]) } else { json!(["IPv4"]) };
        set(spec, "ipFamilies", families);
    }
}

/// Cluster addresses of a Service.
pub fn addresses(spec: &Value) -> Vec<Ipv4Addr> {
    if text(spec, "type") == "ExternalName" {
        return Vec::new();
    }
    texts(spec, "clusterIPs")
        .into_iter()
        .chain([text(spec, "clusterIP")])
        .filter_map(|ip| ip.parse().ok())
        .take(1)
        .collect()
}

/// Node ports of a Service, the health check's included.
pub fn node_ports(spec: &Value) -> Vec<i64> {
    let health = int(spec, "healthCheckNodePort");
    let ports = list(spec, "ports").iter().map(|port| int(port, "nodePort")).chain([health]);
    ports.filter(|port| *port != 0).collect()
}

/// A Service that changed its type loses what the new type can't have; called by the strategy.
pub fn drop_type_dependent_fields(spec: &mut Value, before: &Value) {
    let (kind, was) = (text(spec, "type").to_owned(), text(before, "type").to_owned());
    if kind == was {
        return;
    }
    if kind == "ExternalName" {
        for name in ["clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"] {
            if child(spec, name) == child(before, name) {
                remove(spec, name);
            }
        }
    }
    if kind != "NodePort" && kind != "LoadBalancer" {
        let old: Vec<i64> = list(before, "ports").iter().map(|port| int(port, "nodePort")).collect();
        for port in crate::validation::fields::items_mut(spec, "ports") {
            if old.contains(&int(port, "nodePort")) {
                remove(port, "nodePort");
            }
        }
    }
    if kind != "LoadBalancer" {
        for name in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if child(spec, name) == child(before, name) {
                remove(spec, name);
            }
        }
        if int(spec, "healthCheckNodePort") == int(before, "healthCheckNodePort") {
            remove(spec, "healthCheckNodePort");
        }
    }
    let external =
        matches!(kind.as_str(), "NodePort" | "LoadBalancer") || !list(spec, "externalIPs").is_empty();
    if !external && child(spec, "externalTrafficPolicy") == child(before, "externalTrafficPolicy") {
        remove(spec, "externalTrafficPolicy");
    }
}
