//! What each pod contributes: its address, its ports, its conditions.
//!
//! `ready` means: send new traffic. It is true for a pod that passes its readiness probe and is not being deleted; with
//! `publishNotReadyAddresses` always. `serving` is the probe alone, so that a proxy with nothing but ending pods left can still
//! use them. A pod without an address, or one that ended, contributes nothing.
//!
//! # In Kubernetes
//! `staging/src/k8s.io/endpointslice/utils.go`, `util/controller_utils.go`, `pkg/api/v1/service` `FindPort`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Container, ObjectReference, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointHints, EndpointPort, ForZone};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use k8s_openapi::jiff::Timestamp;

use crate::indexer::Cached;
use crate::pod::PodExt;

/// `IPv4`, `IPv6` or both, as the Service has them.
pub fn address_types(service: &Service) -> Vec<String> {
    let families = service.spec.as_ref().and_then(|spec| spec.ip_families.clone()).unwrap_or_default();
    if families.is_empty() { vec!["IPv4".to_owned()] } else { families }
}

/// Whether the Service has no cluster IP.
pub fn is_headless(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()) == Some("None")
}

/// The pod's address of this family.
pub fn address_of<'a>(pod: &'a Pod, family: &str) -> Option<&'a str> {
    let status = pod.status.as_ref()?;
    let many = status.pod_ips.iter().flatten().map(|ip| ip.ip.as_str());
    many.chain(status.pod_ip.as_deref()).find(|ip| !ip.is_empty() && ip.contains(':') == (family == "IPv6"))
}

/// The number of a Service port on this pod; a named port that the pod lacks has none.
pub fn find_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let protocol = port.protocol.as_deref().unwrap_or("TCP");
    match &port.target_port {
        None => Some(port.port),
        Some(IntOrString::Int(0)) => Some(port.port),
        Some(IntOrString::Int(number)) => Some(*number),
        Some(IntOrString::String(name)) if name.is_empty() => Some(port.port),
        Some(IntOrString::String(name)) => {
            let spec = pod.spec.as_ref()?;
            let sidecar = |container: &&Container| container.restart_policy.as_deref() == Some("Always");
            let containers =
                spec.containers.iter().chain(spec.init_containers.iter().flatten().filter(sidecar));
            let mut ports = containers.flat_map(|container| container.ports.iter().flatten());
            ports
                .find(|port| {
                    port.name.as_deref() == Some(name)
                        && port.protocol.as_deref().unwrap_or("TCP") == protocol
                })
                .map(|port| port.container_port)
        }
    }
}

/// The ports of a Service on this pod, in a fixed order so that equal lists are equal.
fn ports_on(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let found = ports.filter_map(|port| {
        Some(EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(find_port(pod, port)?),
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    found.collect()
}

/// The wanted endpoints, grouped by the ports they use.
pub fn endpoints_by_ports(
    service: &Service,
    pods: &[Arc<Pod>],
    zones: &BTreeMap<String, Option<String>>,
    family: &str,
) -> Vec<(Vec<EndpointPort>, Vec<Endpoint>)> {
    let mut groups: Vec<(Vec<EndpointPort>, Vec<Endpoint>)> = Vec::new();
    for pod in pods.iter().filter(|pod| !pod.is_terminal()) {
        let Some(address) = address_of(pod, family) else { continue };
        let publish_not_ready = publishes_not_ready(service);
        let zone = match zones.get(pod.node_name()) {
            Some(zone) => zone.clone(),
            // A node that does not exist: the pod will be collected; it must not receive traffic meanwhile.
            None if !publish_not_ready => continue,
            None => None,
        };
        let endpoint = endpoint(service, pod, address, zone);
        let ports = ports_on(service, pod);
        match groups.iter_mut().find(|(known, _)| *known == ports) {
            Some((_, endpoints)) => endpoints.push(endpoint),
            None => groups.push((ports, vec![endpoint])),
        }
    }
    for (_, endpoints) in &mut groups {
        endpoints.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    }
    groups
}

/// Whether the Service wants pods that are not ready, too.
pub fn publishes_not_ready(service: &Service) -> bool {
    service.spec.as_ref().and_then(|spec| spec.publish_not_ready_addresses) == Some(true)
}

fn endpoint(service: &Service, pod: &Pod, address: &str, zone: Option<String>) -> Endpoint {
    let (serving, terminating) = (pod.is_ready(), pod.is_being_deleted());
    let ready = publishes_not_ready(service) || (serving && !terminating);
    let close =
        service.spec.as_ref().and_then(|spec| spec.traffic_distribution.as_deref()) == Some("PreferClose");
    let hints = zone
        .clone()
        .filter(|_| close && ready)
        .map(|name| EndpointHints { for_zones: Some(vec![ForZone { name }]), ..Default::default() });
    Endpoint {
        addresses: vec![address.to_owned()],
        conditions: Some(EndpointConditions {
            ready: Some(ready),
            serving: Some(serving),
            terminating: Some(terminating),
        }),
        hostname: hostname(service, pod),
        node_name: Some(pod.node_name().to_owned()).filter(|name| !name.is_empty()),
        target_ref: Some(target_of(pod)),
        zone,
        hints,
        ..Endpoint::default()
    }
}

/// The reference from an endpoint to its pod.
pub fn target_of(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The pod's own name in the Service's domain, when it asked for one.
pub fn hostname(service: &Service, pod: &Pod) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let here = spec.subdomain.as_deref() == Some(service.object_name())
        && pod.object_namespace() == service.object_namespace();
    spec.hostname.clone().filter(|hostname| here && !hostname.is_empty())
}

/// When the last change happened that the endpoints show: a pod became (un)ready, or the Service was made.
pub fn trigger_time(service: &Service, pods: &[Arc<Pod>]) -> Option<Timestamp> {
    let changed = |pod: &Arc<Pod>| {
        pod.condition("Ready")
            .and_then(|condition| condition.last_transition_time.as_ref().map(|time| time.0))
    };
    pods.iter().filter_map(changed).chain(service.created().map(|time| time.0)).max()
}
