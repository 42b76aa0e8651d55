//! Packing endpoints into slices with as few writes as possible.
//!
//! Endpoints that are in a slice stay there; changed ones are changed in place; those that are gone leave. New ones
//! fill the slices that are changed anyway, then the fullest slice with room, then new slices. A slice that became
//! empty is reused for a new group before it is deleted. A Service without any endpoint keeps one empty slice, which says "nobody" rather than "not known yet".
//!
//! # Invariants
//! 1. Nothing is written when every wanted endpoint is in place.
//! 2. A slice has at most [`MAX_ENDPOINTS_PER_SLICE`] endpoints.
//!
//! # In Kubernetes
//! `staging/src/k8s.io/endpointslice/reconciler.go` (`reconcileByPortMapping`, `recycleSlices`).

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::Service;
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::desired::is_headless;
use super::{CONTROLLER_NAME, HEADLESS, MANAGED_BY, SERVICE_NAME, TRIGGER_TIME};
use crate::action::{Action, encode};
use crate::indexer::Cached;
use crate::owner::controller_reference;

/// Endpoints in one slice. More: each change of one pod sends more bytes to every node.
pub const MAX_ENDPOINTS_PER_SLICE: usize = 100;

/// A slice as it should be: which one it replaces (none: a new one), its ports and endpoints.
struct Wanted<'a> {
    existing: Option<&'a EndpointSlice>,
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
}

/// Who an endpoint is: its pod, or its address when nothing is behind it.
fn identity(endpoint: &Endpoint) -> (Option<String>, Vec<String>) {
    (endpoint.target_ref.as_ref().and_then(|target| target.uid.clone()), endpoint.addresses.clone())
}

fn ports_of(slice: &EndpointSlice) -> Vec<EndpointPort> {
    slice.ports.clone().unwrap_or_default()
}

/// The actions that bring the slices of one address family to the wanted endpoints.
pub(super) fn converge(
    service: &Service,
    family: &str,
    mut groups: Vec<(Vec<EndpointPort>, Vec<Endpoint>)>,
    existing: &[&EndpointSlice],
    trigger: Option<Timestamp>,
) -> Vec<Action> {
    if groups.is_empty() {
        // Nobody is there: one empty slice without ports says so.
        groups.push((Vec::new(), Vec::new()));
    }
    let mut sorted = existing.to_vec();
    sorted.sort_by_key(|slice| slice.object_name().to_owned());
    let mut unused: VecDeque<&EndpointSlice> = sorted
        .iter()
        .copied()
        .filter(|slice| !groups.iter().any(|(ports, _)| ports_of(slice) == *ports))
        .collect();
    let mut wanted = Vec::new();
    for (ports, endpoints) in groups {
        let same: Vec<&EndpointSlice> =
            sorted.iter().copied().filter(|slice| ports_of(slice) == ports).collect();
        let (mut filled, emptied) = pack(ports, endpoints, &same);
        unused.extend(emptied);
        for slice in filled.iter_mut().filter(|slice| slice.existing.is_none()) {
            slice.existing = unused.pop_front();
        }
        wanted.extend(filled);
    }
    let mut actions: Vec<Action> =
        wanted.into_iter().filter_map(|slice| write(service, family, slice, trigger)).collect();
    actions.extend(
        unused.into_iter().map(|slice| {
            Action::delete(slice, format!("Service {} needs it no longer", service.object_name()))
        }),
    );
    actions
}

/// Distributes one group over its slices. Returns the slices to have, and those that became empty.
fn pack<'a>(
    ports: Vec<EndpointPort>,
    endpoints: Vec<Endpoint>,
    slices: &[&'a EndpointSlice],
) -> (Vec<Wanted<'a>>, Vec<&'a EndpointSlice>) {
    let placeholder = endpoints.is_empty();
    let mut missing: BTreeMap<_, Endpoint> =
        endpoints.into_iter().map(|endpoint| (identity(&endpoint), endpoint)).collect();
    let mut kept: Vec<Wanted<'a>> = Vec::new();
    for slice in slices {
        let stay =
            slice.endpoints.iter().filter_map(|endpoint| missing.remove(&identity(endpoint))).collect();
        kept.push(Wanted { existing: Some(slice), ports: ports.clone(), endpoints: stay });
    }
    // Slices that are written anyway first, then the fullest ones.
    kept.sort_by_key(|slice| {
        let changed = slice.existing.is_some_and(|existing| existing.endpoints != slice.endpoints);
        (!changed, std::cmp::Reverse(slice.endpoints.len()))
    });
    let mut new: VecDeque<Endpoint> = missing.into_values().collect();
    for slice in &mut kept {
        let room = MAX_ENDPOINTS_PER_SLICE.saturating_sub(slice.endpoints.len()).min(new.len());
        slice.endpoints.extend(new.drain(..room));
    }
    while !new.is_empty() {
        let count = new.len().min(MAX_ENDPOINTS_PER_SLICE);
        kept.push(Wanted { existing: None, ports: ports.clone(), endpoints: new.drain(..count).collect() });
    }
    if placeholder && kept.is_empty() {
        kept.push(Wanted { existing: None, ports, endpoints: Vec::new() });
        return (kept, Vec::new());
    }
    let spare = usize::from(placeholder);
    let (mut full, mut empty): (Vec<_>, Vec<_>) =
        kept.into_iter().partition(|slice| !slice.endpoints.is_empty());
    full.extend(empty.drain(..spare.min(empty.len())));
    (full, empty.into_iter().filter_map(|slice| slice.existing).collect())
}

fn labels(service: &Service) -> BTreeMap<String, String> {
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    for reserved in [SERVICE_NAME, MANAGED_BY, HEADLESS] {
        labels.remove(reserved);
    }
    labels.insert(SERVICE_NAME.to_owned(), service.object_name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER_NAME.to_owned());
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    labels
}

/// How many stand behind the Service, and which pods of them take traffic: so a pod's journey can tell that it is reachable.
fn told(service: &str, endpoints: &[Endpoint]) -> String {
    let ready =
        |endpoint: &&Endpoint| endpoint.conditions.as_ref().is_none_or(|told| told.ready != Some(false));
    let name = |endpoint: &Endpoint| endpoint.target_ref.as_ref()?.name.clone();
    let mut text = format!("{} endpoints stand behind Service {service}", endpoints.len());
    let names: Vec<String> = endpoints.iter().filter(ready).filter_map(name).collect();
    if !names.is_empty() {
        text.push_str(&format!(", ready: {}", names.join(", ")));
    }
    text
}

fn write(service: &Service, family: &str, wanted: Wanted<'_>, trigger: Option<Timestamp>) -> Option<Action> {
    let labels = labels(service);
    let why = told(service.object_name(), &wanted.endpoints);
    let ports = (!wanted.ports.is_empty()).then_some(wanted.ports);
    let Some(existing) = wanted.existing else {
        let annotations = trigger.map(|time| BTreeMap::from([(TRIGGER_TIME.to_owned(), time.to_string())]));
        let slice = EndpointSlice {
            metadata: ObjectMeta {
                generate_name: Some(format!("{}-", service.object_name())),
                namespace: service.metadata.namespace.clone(),
                labels: Some(labels),
                annotations,
                owner_references: Some(vec![controller_reference(service)]),
                ..ObjectMeta::default()
            },
            address_type: family.to_owned(),
            endpoints: wanted.endpoints,
            ports,
        };
        return Some(Action::create(&slice, why));
    };
    let same_ports = existing.ports.clone().unwrap_or_default() == ports.clone().unwrap_or_default();
    if same_ports
        && existing.endpoints == wanted.endpoints
        && existing.metadata.labels.as_ref() == Some(&labels)
    {
        return None;
    }
    let mut label_patch: BTreeMap<String, Option<String>> =
        existing.metadata.labels.iter().flatten().map(|(key, _)| (key.clone(), None)).collect();
    label_patch.extend(labels.into_iter().map(|(key, value)| (key, Some(value))));
    // The time of a change that an earlier version showed already is not repeated.
    let shown: Option<Timestamp> = existing.annotation(TRIGGER_TIME).and_then(|text| text.parse().ok());
    let time = trigger.filter(|time| shown.is_none_or(|shown| *time > shown)).map(|time| time.to_string());
    let patch = json!({
        "metadata": {"labels": label_patch, "annotations": {TRIGGER_TIME: time}, "resourceVersion": existing.metadata.resource_version},
        "endpoints": encode(&wanted.endpoints),
        "ports": ports.as_ref().map(encode),
    });
    Some(Action::patch(existing, patch, why))
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::ObjectReference;
    use k8s_openapi::api::discovery::v1::EndpointConditions;

    use super::*;

    fn endpoint(pod: &str, ready: bool) -> Endpoint {
        Endpoint {
            target_ref: Some(ObjectReference { name: Some(pod.to_owned()), ..ObjectReference::default() }),
            conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
            ..Endpoint::default()
        }
    }

    #[test]
    fn the_reason_of_a_slice_names_the_pods_that_take_traffic() {
        assert_eq!(told("web", &[]), "0 endpoints stand behind Service web");
        assert_eq!(told("web", &[endpoint("a", false)]), "1 endpoints stand behind Service web");
        let some = [endpoint("a", true), endpoint("b", false), endpoint("c", true)];
        assert_eq!(told("web", &some), "3 endpoints stand behind Service web, ready: a, c");
    }
}
