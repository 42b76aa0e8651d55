//! Endpoints controller: the older form of what [`crate::endpoint_slice`] writes.
//!
//! One object per Service with all addresses in it: simple, and the reason why slices were invented. Many clients
//! still read it. Ready and not ready addresses stand in two lists, grouped by the ports they share.
//!
//! # Invariants
//! 1. At most [`MAX_CAPACITY`] addresses are written; the object then says that it is cut.
//! 2. Endpoints of a Service without a selector are their author's, until the Service goes.
//!
//! # In Kubernetes
//! `pkg/controller/endpoint/endpoints_controller.go`. Left out: batching of updates, the warning header of 1.33.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints, Pod, Service};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::action::{Action, encode};
use crate::controller::{Controller, Wakes};
use crate::endpoint_slice::desired::{
    address_of, address_types, find_port, hostname, is_headless, publishes_not_ready, target_of, trigger_time,
};
use crate::endpoint_slice::{
    HEADLESS, LABEL_INDEX, TRIGGER_TIME, label_index, selected_pods, selector_of, services_of,
};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::pod::PodExt;

/// Addresses that one Endpoints object may hold.
pub const MAX_CAPACITY: usize = 1000;
const OVER_CAPACITY: &str = "endpoints.kubernetes.io/over-capacity";

/// All that a decision about one Endpoints object depends on.
#[derive(Clone)]
pub struct World {
    /// The Service; `None`: it is gone.
    pub service: Option<Arc<Service>>,
    /// The pods that it selects.
    pub pods: Vec<Arc<Pod>>,
    /// The object that exists.
    pub endpoints: Option<Arc<Endpoints>>,
}

/// The controller with the copies that it reads.
pub struct EndpointsController {
    services: Store<Service>,
    pods: Store<Pod>,
    endpoints: Store<Endpoints>,
}

impl EndpointsController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> EndpointsController {
        let pods = factory.store::<Pod>();
        pods.add_index(LABEL_INDEX, Arc::new(label_index));
        EndpointsController { services: factory.store(), pods, endpoints: factory.store() }
    }
}

impl Controller for EndpointsController {
    const NAME: &'static str = "endpoints-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Service>();
        wakes.on_own::<Endpoints>();
        let services = self.services.clone();
        wakes.on::<Pod>(move |event| services_of(&services, event));
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<World> {
        let service = self.services.get(key);
        let pods = service.as_ref().map(|service| selected_pods(&self.pods, service)).unwrap_or_default();
        Some(World { service, pods, endpoints: self.endpoints.get(key) })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

/// Decides what to do for the Endpoints of one Service.
pub fn reconcile(world: &World) -> Vec<Action> {
    let Some(service) = &world.service else {
        let leader_lock = |endpoints: &&Arc<Endpoints>| {
            endpoints.annotation("control-plane.alpha.kubernetes.io/leader").is_some()
        };
        return match world.endpoints.as_ref().filter(|endpoints| !leader_lock(endpoints)) {
            Some(endpoints) => vec![Action::delete(endpoints.as_ref(), "its Service is gone")],
            None => Vec::new(),
        };
    };
    if selector_of(service).is_none() || service.is_being_deleted() {
        return Vec::new();
    }
    let (subsets, cut) = subsets(service, &world.pods);
    let mut labels = service.metadata.labels.clone().unwrap_or_default();
    labels.remove(HEADLESS);
    if is_headless(service) {
        labels.insert(HEADLESS.to_owned(), String::new());
    }
    let trigger = trigger_time(service, &world.pods);
    let why = format!("pods behind Service {} changed", service.object_name());
    let Some(existing) = &world.endpoints else {
        let mut annotations: BTreeMap<String, String> =
            trigger.map(|time| (TRIGGER_TIME.to_owned(), time.to_string())).into_iter().collect();
        annotations.extend(cut.then(|| (OVER_CAPACITY.to_owned(), "truncated".to_owned())));
        let metadata = ObjectMeta {
            name: service.metadata.name.clone(),
            namespace: service.metadata.namespace.clone(),
            labels: Some(labels).filter(|labels| !labels.is_empty()),
            annotations: Some(annotations),
            ..ObjectMeta::default()
        };
        return vec![Action::create(&Endpoints { metadata, subsets: Some(subsets) }, why)];
    };
    let same_labels = existing.metadata.labels.clone().unwrap_or_default() == labels;
    if existing.subsets.clone().unwrap_or_default() == subsets && same_labels {
        return Vec::new();
    }
    let mut label_patch: BTreeMap<String, Option<String>> =
        existing.metadata.labels.iter().flatten().map(|(key, _)| (key.clone(), None)).collect();
    label_patch.extend(labels.into_iter().map(|(key, value)| (key, Some(value))));
    let shown: Option<Timestamp> = existing.annotation(TRIGGER_TIME).and_then(|text| text.parse().ok());
    let time = trigger.filter(|time| shown.is_none_or(|shown| *time > shown)).map(|time| time.to_string());
    let annotations = json!({TRIGGER_TIME: time, OVER_CAPACITY: cut.then_some("truncated")});
    let patch = json!({
        "metadata": {"labels": label_patch, "annotations": annotations, "resourceVersion": existing.metadata.resource_version},
        "subsets": encode(&subsets),
    });
    vec![Action::patch(existing.as_ref(), patch, why)]
}

/// The addresses grouped by ports, in a fixed order; and whether some were cut off.
fn subsets(service: &Service, pods: &[Arc<Pod>]) -> (Vec<EndpointSubset>, bool) {
    let family = address_types(service).first().cloned().unwrap_or_else(|| "IPv4".to_owned());
    let publish_not_ready = publishes_not_ready(service);
    let mut groups: BTreeMap<String, EndpointSubset> = BTreeMap::new();
    let mut count = 0;
    let mut sorted: Vec<&Arc<Pod>> = pods.iter().collect();
    sorted.sort_by_key(|pod| address_of(pod, &family).map(str::to_owned));
    for pod in sorted {
        if pod.is_terminal() || (pod.is_being_deleted() && !publish_not_ready) {
            continue;
        }
        let Some(ip) = address_of(pod, &family) else { continue };
        count += 1;
        if count > MAX_CAPACITY {
            break;
        }
        let ports = ports_on(service, pod);
        let subset = groups.entry(encode(&ports).to_string()).or_insert_with(|| EndpointSubset {
            ports: (!ports.is_empty()).then_some(ports),
            ..EndpointSubset::default()
        });
        let address = EndpointAddress {
            ip: ip.to_owned(),
            hostname: hostname(service, pod),
            node_name: Some(pod.node_name().to_owned()).filter(|name| !name.is_empty()),
            target_ref: Some(target_of(pod)),
        };
        let list = if publish_not_ready || pod.is_ready() {
            &mut subset.addresses
        } else {
            &mut subset.not_ready_addresses
        };
        list.get_or_insert_default().push(address);
    }
    (groups.into_values().collect(), count > MAX_CAPACITY)
}

fn ports_on(service: &Service, pod: &Pod) -> Vec<EndpointPort> {
    let ports = service.spec.iter().flat_map(|spec| spec.ports.iter().flatten());
    let found = ports.filter_map(|port| {
        Some(EndpointPort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            port: find_port(pod, port)?,
            protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
            app_protocol: port.app_protocol.clone(),
        })
    });
    found.collect()
}
