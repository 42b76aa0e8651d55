//! Services.
//!
//! # In Kubernetes
//! `ValidateService`, `ValidateServiceCreate`, `ValidateServiceUpdate`. Left out: dual stack (this cluster is IPv4, and says so).

use std::collections::BTreeSet;

use serde_json::Value;

use super::fields::{child, has, int, list, opt_int, size, text, texts};
use super::values::{one_of, one_of_if_set, port_number_or_name};
use super::{Errors, FieldError, field, go_syntax, index, invalid_each, metadata, names, net};

const TYPES: &[&str] = &["ClusterIP", "ExternalName", "LoadBalancer", "NodePort"];
const FAMILIES: &[&str] = &["IPv4", "IPv6"];

/// Service.
pub fn service(value: &Value) -> Errors {
    let spec = child(value, "spec");
    let mut errors = Errors::new();
    let kind = text(spec, "type");
    let headless = text(spec, "clusterIP") == "None";
    if list(spec, "ports").is_empty() && !headless && kind != "ExternalName" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    match kind {
        "LoadBalancer" if headless => {
            let detail = "may not be set to 'None' for LoadBalancer services";
            errors.push(FieldError::invalid("spec.clusterIPs[0]", "None", detail));
        }
        "NodePort" if headless => {
            errors.push(FieldError::invalid(
                "spec.clusterIPs[0]",
                "None",
                "may not be set to 'None' for NodePort services",
            ));
        }
        "ExternalName" => external_name(&mut errors, spec),
        _ => {}
    }
    ports(&mut errors, spec);
    errors.extend(metadata::labels(child(spec, "selector"), "spec.selector"));
    one_of(&mut errors, spec, "sessionAffinity", "spec", &["ClientIP", "None"]);
    affinity_config(&mut errors, spec);
    cluster_ips(&mut errors, spec);
    for (at, ip) in texts(spec, "externalIPs").into_iter().enumerate() {
        net::non_special_ip(&mut errors, ip, &index("spec.externalIPs", at));
    }
    one_of(&mut errors, spec, "type", "spec", TYPES);
    if kind != "LoadBalancer" {
        let ranges = texts(spec, "loadBalancerSourceRanges");
        if !ranges.is_empty() {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden("spec.LoadBalancerSourceRanges", detail));
        }
        if has(spec, "allocateLoadBalancerNodePorts") {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden("spec.allocateLoadBalancerNodePorts", detail));
        }
    }
    errors.extend(load_balancer_class(spec));
    traffic_policies(&mut errors, spec);
    errors
}

fn external_name(errors: &mut Errors, spec: &Value) {
    if !list(spec, "clusterIPs").is_empty() {
        errors.push(FieldError::forbidden("spec.clusterIPs", "may not be set for ExternalName services"));
    }
    for name in ["ipFamilies", "ipFamilyPolicy"] {
        if has(spec, name) {
            errors
                .push(FieldError::forbidden(field("spec", name), "may not be set for ExternalName services"));
        }
    }
    let target = text(spec, "externalName");
    let name = target.strip_suffix('.').unwrap_or(target);
    if name.is_empty() {
        errors.push(FieldError::required("spec.externalName", ""));
    } else {
        invalid_each(errors, "spec.externalName", target, names::dns1123_subdomain(name));
    }
}

fn ports(errors: &mut Errors, spec: &Value) {
    let ports = list(spec, "ports");
    let mut seen = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let path = index("spec.ports", at);
        let name = text(port, "name");
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(field(&path, "name"), ""));
            }
        } else {
            invalid_each(errors, &field(&path, "name"), name, names::dns1123_label(name));
            if !seen.insert(name) {
                errors.push(FieldError::duplicate(field(&path, "name"), name));
            }
        }
        let number = int(port, "port");
        errors.extend(
            names::port_number(number)
                .into_iter()
                .map(|m| FieldError::invalid(field(&path, "port"), number, m)),
        );
        one_of(errors, port, "protocol", &path, &["SCTP", "TCP", "UDP"]);
        port_number_or_name(errors, child(port, "targetPort"), &field(&path, "targetPort"));
        let protocol = text(port, "appProtocol");
        if !protocol.is_empty() {
            invalid_each(errors, &field(&path, "appProtocol"), protocol, names::qualified_name(protocol));
        }
        if text(spec, "type") == "ClusterIP" && int(port, "nodePort") != 0 {
            errors.push(FieldError::forbidden(
                field(&path, "nodePort"),
                "may not be used when `type` is 'ClusterIP'",
            ));
        }
    }
    let mut taken = BTreeSet::new();
    for (at, port) in ports.iter().enumerate() {
        let (number, protocol) = (int(port, "port"), text(port, "protocol"));
        if !taken.insert((number, protocol)) {
            let shown = format!(
                "core.ServicePort{{Name:\"\", Protocol:{protocol:?}, AppProtocol:(*string)(nil), Port:{number}, \
                 TargetPort:intstr.IntOrString{{Type:0, IntVal:0, StrVal:\"\"}}, NodePort:0}}"
            );
            errors.push(FieldError::duplicate(index("spec.ports", at), go_syntax::raw(shown)));
        }
    }
}

fn affinity_config(errors: &mut Errors, spec: &Value) {
    let config = child(spec, "sessionAffinityConfig");
    match text(spec, "sessionAffinity") {
        "ClientIP" => {
            let seconds = opt_int(child(config, "clientIP"), "timeoutSeconds").unwrap_or_default();
            if !(1..=86400).contains(&seconds) {
                let detail = format!("must be greater than 0 and less than {}", 86400);
                errors.push(FieldError::invalid(
                    "spec.sessionAffinityConfig.clientIP.timeoutSeconds",
                    seconds,
                    detail,
                ));
            }
        }
        "None" if !config.is_null() => {
            let detail = "must not be set when session affinity is None";
            errors.push(FieldError::forbidden("spec.sessionAffinityConfig", detail));
        }
        _ => {}
    }
}

/// This cluster has IPv4 only.
fn cluster_ips(errors: &mut Errors, spec: &Value) {
    if text(spec, "type") == "ExternalName" {
        return;
    }
    let (ips, families) = (texts(spec, "clusterIPs"), texts(spec, "ipFamilies"));
    let shown = || go_syntax::raw(go_syntax::strings("[]string", &ips));
    one_of_if_set(
        errors,
        spec,
        "ipFamilyPolicy",
        "spec",
        &["PreferDualStack", "RequireDualStack", "SingleStack"],
    );
    for (at, family) in families.iter().enumerate() {
        if !FAMILIES.contains(family) {
            errors.push(FieldError::not_supported(index("spec.ipFamilies", at), *family, FAMILIES));
        }
    }
    for (at, ip) in ips.iter().enumerate() {
        let path = index("spec.clusterIPs", at);
        if *ip == "None" {
            if at > 0 {
                errors.push(FieldError::invalid(path, *ip, "'None' must be the first and only value"));
            }
            continue;
        }
        net::ip(errors, ip, &path);
    }
    if !errors.is_empty() {
        return;
    }
    let headless_without_selector = ips.first() == Some(&"None") && size(spec, "selector") == 0;
    if headless_without_selector {
        return;
    }
    if text(spec, "ipFamilyPolicy") == "RequireDualStack" {
        let detail = "this cluster is not configured for dual-stack services";
        errors.push(FieldError::invalid("spec.ipFamilyPolicy", "RequireDualStack", detail));
    }
    for (at, family) in families.iter().enumerate() {
        if *family == "IPv6" {
            errors.push(FieldError::invalid(
                index("spec.ipFamilies", at),
                *family,
                "not configured on this cluster",
            ));
        }
    }
    if ips.first().is_some_and(|ip| ip.contains(':')) {
        errors.push(FieldError::invalid(
            "spec.clusterIPs[0]",
            shown(),
            "IPv6 is not configured on this cluster",
        ));
    }
}

fn load_balancer_class(spec: &Value) -> Errors {
    let mut errors = Errors::new();
    if has(spec, "loadBalancerClass") {
        if text(spec, "type") != "LoadBalancer" {
            let detail = "may only be used when `type` is 'LoadBalancer'";
            errors.push(FieldError::forbidden("spec.loadBalancerClass", detail));
        } else {
            let class = text(spec, "loadBalancerClass");
            invalid_each(&mut errors, "spec.loadBalancerClass", class, names::qualified_name(class));
        }
    }
    errors
}

fn traffic_policies(errors: &mut Errors, spec: &Value) {
    let kind = text(spec, "type");
    let external = text(spec, "externalTrafficPolicy");
    let accessible = matches!(kind, "NodePort" | "LoadBalancer")
        || (kind == "ClusterIP" && !list(spec, "externalIPs").is_empty());
    if !external.is_empty() && !accessible {
        let detail = "may only be set for externally-accessible services";
        errors.push(FieldError::invalid("spec.externalTrafficPolicy", external, detail));
    } else {
        one_of_if_set(errors, spec, "externalTrafficPolicy", "spec", &["Cluster", "Local"]);
    }
    let health = int(spec, "healthCheckNodePort");
    if health < 0 {
        errors.push(FieldError::invalid(
            "spec.healthCheckNodePort",
            health,
            "must be between 0 and 65535, inclusive",
        ));
    } else if health > 0 && !(kind == "LoadBalancer" && external == "Local") {
        let detail = "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'";
        errors.push(FieldError::invalid("spec.healthCheckNodePort", health, detail));
    }
    if kind != "ExternalName" {
        one_of_if_set(errors, spec, "internalTrafficPolicy", "spec", &["Cluster", "Local"]);
    }
    one_of_if_set(errors, spec, "trafficDistribution", "spec", &["PreferClose"]);
}

/// A changed Service: its address stays.
pub fn service_update(new: &Value, old: &Value) -> Errors {
    let (spec, before) = (child(new, "spec"), child(old, "spec"));
    let mut errors = Errors::new();
    let external = |spec: &Value| text(spec, "type") == "ExternalName";
    if !external(spec) && !external(before) {
        let (ips, had) = (texts(spec, "clusterIPs"), texts(before, "clusterIPs"));
        if had.first().is_some_and(|ip| !ip.is_empty()) && ips.first() != had.first() {
            let shown = go_syntax::raw(go_syntax::strings("[]string", &ips));
            errors.push(FieldError::invalid("spec.clusterIPs[0]", shown, "may not change once set"));
        }
    }
    if text(spec, "type") == "LoadBalancer" && text(before, "type") == "LoadBalancer" {
        super::immutable(
            &mut errors,
            child(spec, "loadBalancerClass"),
            child(before, "loadBalancerClass"),
            "spec.loadBalancerClass",
        );
    }
    errors.extend(service(new));
    errors
}
