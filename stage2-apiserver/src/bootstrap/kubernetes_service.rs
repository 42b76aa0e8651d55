//! The Service `kubernetes`: how a pod finds the API server.
//!
//! *Step 2 of a pod's journey.* Before: the server knows at which addresses it can be reached. After: stage 6 makes
//! `10.96.0.1:443` lead there, like any other Service.
//!
//! It has no selector: nobody but the API server itself knows where it is, so it writes its Endpoints and EndpointSlice by
//! hand, at each start and whenever it learns of another address.
//!
//! # In Kubernetes
//! `pkg/controlplane/controller/kubernetesservice`, `pkg/controlplane/reconcilers`. Left out: leases of several servers
//! (`--endpoint-reconciler-type=lease`): the last one to write wins.

use std::net::IpAddr;

use serde_json::json;
use stage1_kubectl::object::Object;

use super::defaults::object;

/// Where the server is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// The Service's address: the first of `--service-cluster-ip-range`.
    pub service_ip: IpAddr,
    /// Addresses that nodes and pods can reach (`--advertise-address`); all of one family.
    pub addresses: Vec<IpAddr>,
    /// The secure port.
    pub port: u16,
}

/// Service, Endpoints and EndpointSlice.
pub fn objects(server: &Server) -> Vec<Object> {
    let (service_ip, port) = (server.service_ip, server.port);
    let family = if service_ip.is_ipv4() { "IPv4" } else { "IPv6" };
    let mut addresses = server.addresses.clone();
    addresses.sort();
    addresses.dedup();
    let ports = json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let listed: Vec<_> = addresses.iter().map(|ip| json!({"ip": ip})).collect();
    let subsets = if listed.is_empty() { json!([]) } else { json!([{"addresses": listed, "ports": ports}]) };
    let endpoints: Vec<_> =
        addresses.iter().map(|ip| json!({"addresses": [ip], "conditions": {"ready": true}})).collect();
    let named = |mut value: serde_json::Value| {
        value["metadata"]["name"] = "kubernetes".into();
        value["metadata"]["namespace"] = "default".into();
        object(value)
    };
    vec![
        named(json!({
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"labels": {"component": "apiserver", "provider": "kubernetes"}},
            "spec": {
                "clusterIP": service_ip,
                "clusterIPs": [service_ip],
                "internalTrafficPolicy": "Cluster",
                "ipFamilies": [family],
                "ipFamilyPolicy": "SingleStack",
                "ports": [{"name": "https", "port": 443, "protocol": "TCP", "targetPort": port}],
                "sessionAffinity": "None",
                "type": "ClusterIP",
            },
            "status": {"loadBalancer": {}},
        })),
        named(json!({
            "apiVersion": "v1",
            "kind": "Endpoints",
            "metadata": {"labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}},
            "subsets": subsets,
        })),
        named(json!({
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {"labels": {"kubernetes.io/service-name": "kubernetes"}},
            "addressType": family,
            "endpoints": endpoints,
            "ports": ports,
        })),
    ]
}
