//! EndpointSlice controller: which pods stand behind a Service.
//!
//! *Step 18 of a pod's journey.* Before: stage 5 reported the pod ready. After: stage 6 sends traffic to it.
//!
//! A Service selects pods by label. This controller writes down the pods' addresses, with whether each is ready, serving or
//! terminating, in slices of at most 100, so that a change of one pod in a large Service sends one small object to every node.
//!
//! Pods with the same named port may have different numbers for it; addresses are grouped by the port numbers they use,
//! and each group has its own slices ([`slices`]). What a pod contributes is decided in [`desired`].
//!
//! # Invariants
//! 1. Every address of a selected pod that has one is in exactly one slice of its family and port group.
//! 2. A slice has at most [`slices::MAX_ENDPOINTS_PER_SLICE`] endpoints.
//! 3. Slices of other managers are never touched.
//!
//! # In Kubernetes
//! `pkg/controller/endpointslice/`, `staging/src/k8s.io/endpointslice/`. Left out: topology-aware hints by CPU share (`topology-mode: Auto`),
//! batching of updates by `--endpointslice-updates-batch-period`.

pub mod desired;
pub mod mirroring;
pub mod slices;

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::jiff::Timestamp;

use crate::action::Action;
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};
use crate::pod::PodExt;

/// Label that names the Service of a slice.
pub const SERVICE_NAME: &str = "kubernetes.io/service-name";
/// Label that names who manages a slice.
pub const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// Our name in [`MANAGED_BY`].
pub const CONTROLLER_NAME: &str = "endpointslice-controller.k8s.io";
/// Label of slices and Endpoints of Services without a cluster IP.
pub const HEADLESS: &str = "service.kubernetes.io/headless";
/// Annotation: when the change happened that this version shows.
pub const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";
/// Index of pods by `namespace/label=value`.
pub const LABEL_INDEX: &str = "label";
/// Index of slices by `namespace/service`.
pub const SERVICE_INDEX: &str = "service";
/// Index of pods by node.
pub const NODE_INDEX: &str = "node";

/// All that a decision about one Service's slices depends on.
#[derive(Clone)]
pub struct World {
    /// The Service.
    pub service: Arc<Service>,
    /// The pods that it selects.
    pub pods: Vec<Arc<Pod>>,
    /// Zone of each node that runs one of them; a node that is missing here does not exist.
    pub zones: BTreeMap<String, Option<String>>,
    /// The slices that this controller made for it.
    pub slices: Vec<Arc<EndpointSlice>>,
}

/// The controller with the copies that it reads.
pub struct EndpointSliceController {
    services: Store<Service>,
    pods: Store<Pod>,
    nodes: Store<Node>,
    slices: Store<EndpointSlice>,
}

impl EndpointSliceController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> EndpointSliceController {
        let (pods, slices) = (factory.store::<Pod>(), factory.store::<EndpointSlice>());
        pods.add_index(LABEL_INDEX, Arc::new(label_index));
        slices.add_index(SERVICE_INDEX, Arc::new(service_index));
        EndpointSliceController { services: factory.store(), pods, nodes: factory.store(), slices }
    }
}

/// Values of [`LABEL_INDEX`].
pub fn label_index(pod: &Pod) -> Vec<String> {
    let labels = pod.metadata.labels.iter().flatten();
    labels.map(|(key, value)| format!("{}/{key}={value}", pod.object_namespace())).collect()
}

/// Values of [`SERVICE_INDEX`].
pub fn service_index(slice: &EndpointSlice) -> Vec<String> {
    slice
        .label(SERVICE_NAME)
        .map(|service| format!("{}/{service}", slice.object_namespace()))
        .into_iter()
        .collect()
}

/// The pods that a Service selects, found through the label that the fewest pods have.
pub fn selected_pods(pods: &Store<Pod>, service: &Service) -> Vec<Arc<Pod>> {
    let Some(selector) = selector_of(service) else { return Vec::new() };
    let value = |(key, value): (&String, &String)| format!("{}/{key}={value}", service.object_namespace());
    let rarest =
        selector.iter().map(value).min_by_key(|value| pods.count(LABEL_INDEX, value)).unwrap_or_default();
    pods.by_index(LABEL_INDEX, &rarest).into_iter().filter(|pod| selects_pod(service, pod)).collect()
}

/// The Service's selector; `None` when somebody else manages its endpoints.
pub fn selector_of(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty())?;
    (spec.type_.as_deref() != Some("ExternalName")).then_some(selector)
}

fn selects_pod(service: &Service, pod: &Pod) -> bool {
    selector_of(service)
        .is_some_and(|selector| selector.iter().all(|(key, value)| pod.label(key) == Some(value)))
}

/// The Services that a change of a pod concerns: those that select it now or did before.
pub fn services_of(services: &Store<Service>, event: &Event<Pod>) -> Vec<NamespacedName> {
    let (old, new) = match event {
        Event::Added(pod) | Event::Deleted(pod) => (None, pod),
        Event::Modified { old, new } if !concerns_endpoints(old, new) => return Vec::new(),
        Event::Modified { old, new } => (Some(old), new),
        Event::Resync => return Vec::new(),
    };
    let concerned = |service: &Arc<Service>| {
        selects_pod(service, new) || old.is_some_and(|old| selects_pod(service, old))
    };
    services
        .in_namespace(new.object_namespace())
        .iter()
        .filter(|service| concerned(service))
        .map(|service| service.key())
        .collect()
}

/// Whether a change of a pod can change what is written about it.
fn concerns_endpoints(old: &Pod, new: &Pod) -> bool {
    let facts = |pod: &Pod| {
        let status = pod.status.as_ref();
        let ips = status.and_then(|status| status.pod_ips.clone());
        (
            pod.is_being_deleted(),
            pod.is_ready(),
            pod.is_terminal(),
            pod.node_name().to_owned(),
            ips,
            pod.metadata.labels.clone(),
        )
    };
    facts(old) != facts(new)
}

impl Controller for EndpointSliceController {
    const NAME: &'static str = "endpointslice-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Service>();
        let services = self.services.clone();
        wakes.on::<Pod>(move |event| services_of(&services, event));
        wakes.on::<EndpointSlice>(|event| {
            let slice = event.object().filter(|slice| slice.label(MANAGED_BY) == Some(CONTROLLER_NAME));
            slice
                .and_then(|slice| {
                    Some(NamespacedName::new(slice.object_namespace(), slice.label(SERVICE_NAME)?))
                })
                .into_iter()
                .collect()
        });
        // A pod whose node is not known yet is left out: the node's arrival brings its Services up again.
        let (services, pods) = (self.services.clone(), self.pods.clone());
        pods.add_index(NODE_INDEX, Arc::new(|pod: &Pod| vec![pod.node_name().to_owned()]));
        wakes.on::<Node>(move |event| match event {
            Event::Added(node) => {
                let here = pods.by_index(NODE_INDEX, node.object_name());
                here.into_iter().flat_map(|pod| services_of(&services, &Event::Added(pod))).collect()
            }
            _ => Vec::new(),
        });
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<World> {
        let service = self.services.get(key)?;
        selector_of(&service)?;
        let pods = selected_pods(&self.pods, &service);
        let zone = |pod: &Arc<Pod>| {
            let node = self.nodes.get(&NamespacedName::cluster(pod.node_name()))?;
            Some((pod.node_name().to_owned(), node.label("topology.kubernetes.io/zone").map(str::to_owned)))
        };
        let zones = pods.iter().filter_map(zone).collect();
        let mut slices = self.slices.by_index(SERVICE_INDEX, &key.to_string());
        slices.retain(|slice| slice.label(MANAGED_BY) == Some(CONTROLLER_NAME) && !slice.is_being_deleted());
        Some(World { service, pods, zones, slices })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

// ANCHOR: reconcile-endpoint-slices
/// Decides what to do for the slices of one Service.
pub fn reconcile(world: &World) -> Vec<Action> {
    let service = world.service.as_ref();
    if service.is_being_deleted() || selector_of(service).is_none() {
        return Vec::new();
    }
    let families = desired::address_types(service);
    let mut actions = Vec::new();
    for family in &families {
        let existing: Vec<&EndpointSlice> =
            world.slices.iter().map(AsRef::as_ref).filter(|slice| slice.address_type == *family).collect();
        let groups = desired::endpoints_by_ports(service, &world.pods, &world.zones, family);
        actions.extend(slices::converge(
            service,
            family,
            groups,
            &existing,
            desired::trigger_time(service, &world.pods),
        ));
    }
    // The Service no longer has this family.
    let strangers = world.slices.iter().filter(|slice| !families.contains(&slice.address_type));
    actions.extend(strangers.map(|slice| {
        Action::delete(
            slice.as_ref(),
            format!("Service {} has no such address family", service.object_name()),
        )
    }));
    actions
}
// ANCHOR_END: reconcile-endpoint-slices
