//! Endpoints, EndpointSlices, NetworkPolicies, Ingresses.
//!
//! # In Kubernetes
//! `pkg/apis/discovery/validation`, `pkg/apis/networking/validation`, `ValidateEndpoints` in core. Left out: topology hints.

pub mod ingress;

use serde_json::Value;

use super::fields::{child, has, int, list, opt_int, text, texts};
use super::values::{one_of, one_of_if_set, port_number_or_name};
use super::{Errors, FieldError, field, index, invalid_each, names, net, selector};

const PROTOCOLS: &[&str] = &["SCTP", "TCP", "UDP"];

/// Endpoints.
pub fn endpoints(value: &Value) -> Errors {
    let mut errors = Errors::new();
    for (at, subset) in list(value, "subsets").iter().enumerate() {
        let path = index("subsets", at);
        if list(subset, "addresses").is_empty() && list(subset, "notReadyAddresses").is_empty() {
            errors.push(FieldError::required(&path, "must specify `addresses` or `notReadyAddresses`"));
        }
        for name in ["addresses", "notReadyAddresses"] {
            for (number, address) in list(subset, name).iter().enumerate() {
                endpoint_address(&mut errors, address, &index(&field(&path, name), number));
            }
        }
        let ports = list(subset, "ports");
        for (number, port) in ports.iter().enumerate() {
            let path = index(&field(&path, "ports"), number);
            match text(port, "name") {
                "" if ports.len() > 1 => errors.push(FieldError::required(field(&path, "name"), "")),
                "" => {}
                name => invalid_each(&mut errors, &field(&path, "name"), name, names::dns1123_label(name)),
            }
            let number = int(port, "port");
            errors.extend(
                names::port_number(number)
                    .into_iter()
                    .map(|m| FieldError::invalid(field(&path, "port"), number, m)),
            );
            one_of(&mut errors, port, "protocol", &path, PROTOCOLS);
        }
    }
    errors
}

fn endpoint_address(errors: &mut Errors, address: &Value, path: &str) {
    let ip = text(address, "ip");
    net::ip(errors, ip, &field(path, "ip"));
    let hostname = text(address, "hostname");
    if !hostname.is_empty() {
        invalid_each(errors, &field(path, "hostname"), hostname, names::dns1123_label(hostname));
    }
    // The second look at the same address has its own, shorter words.
    if ip.parse::<std::net::IpAddr>().is_err() {
        errors.push(FieldError::invalid(field(path, "ip"), ip, "must be a valid IP address"));
    } else {
        net::non_special_ip(errors, ip, &field(path, "ip"));
    }
}

/// Most endpoints in one slice.
const MAX_ENDPOINTS: usize = 1000;

/// EndpointSlice.
pub fn endpoint_slice(value: &Value) -> Errors {
    let mut errors = Errors::new();
    let kind = text(value, "addressType");
    match kind {
        "" => errors.push(FieldError::required("addressType", "")),
        _ => one_of_if_set(&mut errors, value, "addressType", "", &["FQDN", "IPv4", "IPv6"]),
    }
    let endpoints = list(value, "endpoints");
    if endpoints.len() > MAX_ENDPOINTS {
        errors.push(FieldError::too_many("endpoints", endpoints.len(), MAX_ENDPOINTS));
    } else {
        for (at, endpoint) in endpoints.iter().enumerate() {
            slice_endpoint(&mut errors, endpoint, kind, &index("endpoints", at));
        }
    }
    let ports = list(value, "ports");
    let mut seen = std::collections::BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let (path, name) = (index("ports", at), text(port, "name"));
        if !name.is_empty() {
            invalid_each(&mut errors, &field(&path, "name"), name, names::dns1123_label(name));
        }
        if !seen.insert(name) {
            errors.push(FieldError::duplicate(field(&path, "name"), name));
        }
        one_of(&mut errors, port, "protocol", &path, PROTOCOLS);
    }
    errors
}

fn slice_endpoint(errors: &mut Errors, endpoint: &Value, kind: &str, path: &str) {
    let addresses = texts(endpoint, "addresses");
    if addresses.is_empty() {
        errors.push(FieldError::required(field(path, "addresses"), "must contain at least 1 address"));
    }
    for (at, address) in addresses.iter().enumerate() {
        let path = index(&field(path, "addresses"), at);
        let parsed = address.parse::<std::net::IpAddr>().ok();
        match kind {
            "IPv4" if !parsed.is_some_and(|ip| ip.is_ipv4()) => {
                errors.push(FieldError::invalid(path, *address, "must be a valid IPv4 address"))
            }
            "IPv6" if !parsed.is_some_and(|ip| ip.is_ipv6()) => {
                errors.push(FieldError::invalid(path, *address, "must be a valid IPv6 address"))
            }
            "IPv4" | "IPv6" => net::non_special_ip(errors, address, &path),
            "FQDN" => invalid_each(errors, &path, address, names::dns1123_subdomain(address)),
            _ => {}
        }
    }
    for name in ["hostname", "nodeName"] {
        let value = text(endpoint, name);
        if has(endpoint, name) {
            let rule = if name == "hostname" {
                names::dns1123_label(value)
            } else {
                names::dns1123_subdomain(value)
            };
            invalid_each(errors, &field(path, name), value, rule);
        }
    }
}

/// A changed EndpointSlice.
pub fn endpoint_slice_update(new: &Value, old: &Value) -> Errors {
    let mut errors = endpoint_slice(new);
    super::immutable(&mut errors, child(new, "addressType"), child(old, "addressType"), "addressType");
    errors
}

/// NetworkPolicy.
pub fn network_policy(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = selector::label_selector(child(spec, "podSelector"), "spec.podSelector");
    for (direction, peers) in [("ingress", "from"), ("egress", "to")] {
        for (at, rule) in list(spec, direction).iter().enumerate() {
            let path = index(&field("spec", direction), at);
            for (number, port) in list(rule, "ports").iter().enumerate() {
                policy_port(&mut errors, port, &index(&field(&path, "ports"), number));
            }
            for (number, peer) in list(rule, peers).iter().enumerate() {
                policy_peer(&mut errors, peer, &index(&field(&path, peers), number));
            }
        }
    }
    let types = texts(spec, "policyTypes");
    if types.len() > 2 {
        let shown = super::go_syntax::raw(super::go_syntax::strings("[]networking.PolicyType", &types));
        errors.push(FieldError::invalid(
            "spec.policyTypes",
            shown,
            "may not specify more than two policyTypes",
        ));
        return errors;
    }
    for (at, kind) in types.into_iter().enumerate() {
        if !matches!(kind, "Ingress" | "Egress") {
            errors.push(FieldError::not_supported(
                index("spec.policyTypes", at),
                kind,
                &["Ingress", "Egress"],
            ));
        }
    }
    errors
}

fn policy_port(errors: &mut Errors, port: &Value, path: &str) {
    one_of_if_set(errors, port, "protocol", path, &["TCP", "UDP", "SCTP"]);
    let number = child(port, "port");
    let end = opt_int(port, "endPort");
    if number.is_null() {
        if end.is_some() {
            errors.push(FieldError::required(
                field(path, "port"),
                "must be specified when `endPort` is specified",
            ));
        }
        return;
    }
    match number.as_i64() {
        Some(start) => {
            errors.extend(
                names::port_number(start)
                    .into_iter()
                    .map(|m| FieldError::invalid(field(path, "port"), start, m)),
            );
            if let Some(end) = end {
                if end < start {
                    errors.push(FieldError::invalid(
                        field(path, "endPort"),
                        // The value that is shown is the port: so does Kubernetes.
                        start,
                        "must be greater than or equal to `port`",
                    ));
                }
                errors.extend(
                    names::port_number(end)
                        .into_iter()
                        .map(|m| FieldError::invalid(field(path, "endPort"), end, m)),
                );
            }
        }
        None => {
            if let Some(end) = end {
                errors.push(FieldError::invalid(
                    field(path, "endPort"),
                    end,
                    "may not be specified when `port` is non-numeric",
                ));
            }
            port_number_or_name(errors, number, &field(path, "port"));
        }
    }
}

fn policy_peer(errors: &mut Errors, peer: &Value, path: &str) {
    let mut given = 0;
    for name in ["podSelector", "namespaceSelector"] {
        if has(peer, name) {
            given += 1;
            errors.extend(selector::label_selector(child(peer, name), &field(path, name)));
        }
    }
    let block = child(peer, "ipBlock");
    if !block.is_null() {
        given += 1;
        ip_block(errors, block, &field(path, "ipBlock"));
    }
    match given {
        0 => errors.push(FieldError::required(path, "must specify a peer")),
        1 => {}
        _ if !block.is_null() => {
            errors.push(FieldError::forbidden(path, "may not specify both ipBlock and another peer"))
        }
        _ => {}
    }
}

fn ip_block(errors: &mut Errors, block: &Value, path: &str) {
    let cidr = text(block, "cidr");
    if cidr.is_empty() {
        errors.push(FieldError::required(field(path, "cidr"), ""));
        return;
    }
    net::cidr(errors, cidr, &field(path, "cidr"));
    let Some(outer) = net::parse_cidr(cidr) else { return };
    for (at, except) in texts(block, "except").into_iter().enumerate() {
        let path = index(&field(path, "except"), at);
        match net::parse_cidr(except) {
            None => net::cidr(errors, except, &path),
            Some(inner) if !net::strictly_contains(outer, inner) => {
                errors.push(FieldError::invalid(path, except, "must be a strict subset of `cidr`"));
            }
            Some(_) => {}
        }
    }
}
