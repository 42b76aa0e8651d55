//! Defaults of Services.
//!
//! The target port is the port, the protocol TCP, the type ClusterIP. Traffic policies are set only where they mean something: an
//! ExternalName has neither, a plain ClusterIP no external one.
//!
//! # In Kubernetes
//! `pkg/apis/core/v1/defaults.go` (`SetDefaults_Service`). IP families and addresses come later, from [`crate::allocator`].

use serde_json::{Value, json};

use crate::validation::fields::{child_mut, default_to, has, items_mut, list, present_mut, set, text};

/// `sessionAffinityConfig.clientIP.timeoutSeconds`: three hours.
const DEFAULT_CLIENT_IP_SERVICE_AFFINITY_SECONDS: i64 = 10800;

/// Service.
pub fn service(value: &mut Value) {
    let spec = child_mut(value, "spec");
    default_to(spec, "sessionAffinity", "None");
    if text(spec, "sessionAffinity") == "None" {
        crate::validation::fields::remove(spec, "sessionAffinityConfig");
    }
    if text(spec, "sessionAffinity") == "ClientIP" {
        let client_ip = child_mut(child_mut(spec, "sessionAffinityConfig"), "clientIP");
        default_to(client_ip, "timeoutSeconds", DEFAULT_CLIENT_IP_SERVICE_AFFINITY_SECONDS);
    }
    default_to(spec, "type", "ClusterIP");
    for port in items_mut(spec, "ports") {
        default_to(port, "protocol", "TCP");
        let unset = matches!(port.get("targetPort"), None | Some(Value::Null))
            || port["targetPort"] == json!(0)
            || port["targetPort"] == json!("");
        if unset {
            let number = port["port"].clone();
            set(port, "targetPort", number);
        }
    }
    let kind = text(spec, "type").to_owned();
    let balanced = kind == "LoadBalancer";
    if balanced || kind == "NodePort" || (kind == "ClusterIP" && !list(spec, "externalIPs").is_empty()) {
        default_to(spec, "externalTrafficPolicy", "Cluster");
    }
    if balanced || kind == "NodePort" || kind == "ClusterIP" {
        default_to(spec, "internalTrafficPolicy", "Cluster");
    }
    if balanced {
        default_to(spec, "allocateLoadBalancerNodePorts", true);
        let balancer = child_mut(child_mut(value, "status"), "loadBalancer");
        for ingress in items_mut(balancer, "ingress") {
            if has(ingress, "ip") {
                default_to(ingress, "ipMode", "VIP");
            }
        }
    }
    if let Some(status) = present_mut(value, "status") {
        default_to(status, "loadBalancer", json!({}));
    }
}
