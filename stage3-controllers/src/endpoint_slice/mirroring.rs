//! EndpointSlice mirroring: hand-made Endpoints become slices.
//!
//! A Service without a selector has Endpoints that somebody wrote by hand. Proxies read slices only; so each such Endpoints
//! object is mirrored, with the same addresses and ports, into slices that it owns.
//!
//! # Invariants
//! 1. Only Endpoints whose Service exists and has no selector are mirrored.
//! 2. The slices go with the Endpoints.
//!
//! # In Kubernetes
//! `pkg/controller/endpointslicemirroring/`. Left out: more than 1000 addresses a subset are not split over several slices, FQDN addresses.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{EndpointAddress, EndpointSubset, Endpoints, Service};
use k8s_openapi::api::discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use super::{MANAGED_BY, SERVICE_INDEX, SERVICE_NAME, service_index};
use crate::action::{Action, encode};
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::owner::controller_reference;

/// Our name in the managed-by label.
pub const CONTROLLER_NAME: &str = "endpointslicemirroring-controller.k8s.io";
/// Label by which Endpoints ask not to be mirrored.
pub const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
/// Addresses of a subset that are mirrored.
pub const MAX_ENDPOINTS_PER_SUBSET: usize = 1000;

/// All that a decision about one Endpoints object depends on.
#[derive(Clone)]
pub struct World {
    /// The hand-made Endpoints, when they are to be mirrored.
    pub endpoints: Option<Arc<Endpoints>>,
    /// The mirrors that exist.
    pub slices: Vec<Arc<EndpointSlice>>,
}

/// The controller with the copies that it reads.
pub struct EndpointSliceMirroringController {
    services: Store<Service>,
    endpoints: Store<Endpoints>,
    slices: Store<EndpointSlice>,
}

impl EndpointSliceMirroringController {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> Self {
        let slices = factory.store::<EndpointSlice>();
        slices.add_index(SERVICE_INDEX, Arc::new(service_index));
        EndpointSliceMirroringController { services: factory.store(), endpoints: factory.store(), slices }
    }
}

fn should_mirror(endpoints: &Endpoints, service: Option<&Service>) -> bool {
    let has_no_selector = service
        .and_then(|service| service.spec.as_ref())
        .is_some_and(|spec| spec.selector.as_ref().is_none_or(BTreeMap::is_empty));
    has_no_selector
        && !endpoints.is_being_deleted()
        && endpoints.label(SKIP_MIRROR) != Some("true")
        && endpoints.annotation("control-plane.alpha.kubernetes.io/leader").is_none()
}

impl Controller for EndpointSliceMirroringController {
    const NAME: &'static str = "endpointslice-mirroring-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Endpoints>();
        wakes.on_own::<Service>();
        wakes.on::<EndpointSlice>(|event| {
            let slice = event.object().filter(|slice| slice.label(MANAGED_BY) == Some(CONTROLLER_NAME));
            slice
                .and_then(|slice| {
                    Some(NamespacedName::new(slice.object_namespace(), slice.label(SERVICE_NAME)?))
                })
                .into_iter()
                .collect()
        });
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<World> {
        let service = self.services.get(key);
        let endpoints =
            self.endpoints.get(key).filter(|endpoints| should_mirror(endpoints, service.as_deref()));
        let mut slices = self.slices.by_index(SERVICE_INDEX, &key.to_string());
        slices.retain(|slice| slice.label(MANAGED_BY) == Some(CONTROLLER_NAME));
        Some(World { endpoints, slices })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        reconcile(world)
    }
}

/// Decides what to do for the mirrors of one Endpoints object.
pub fn reconcile(world: &World) -> Vec<Action> {
    let Some(endpoints) = &world.endpoints else {
        return world
            .slices
            .iter()
            .map(|slice| Action::delete(slice.as_ref(), "there are no Endpoints to mirror"))
            .collect();
    };
    let mut spare = world.slices.clone();
    let mut actions = Vec::new();
    for subset in endpoints.subsets.iter().flatten() {
        for family in ["IPv4", "IPv6"] {
            let wanted = mirror(endpoints, subset, family);
            if wanted.endpoints.is_empty() {
                continue;
            }
            let found =
                spare.iter().position(|slice| slice.address_type == family && slice.ports == wanted.ports);
            match found.map(|index| spare.remove(index)) {
                None => actions
                    .push(Action::create(&wanted, format!("mirrors Endpoints {}", endpoints.object_name()))),
                Some(slice) if slice.endpoints != wanted.endpoints => {
                    let patch = json!({"endpoints": encode(&wanted.endpoints), "metadata": {"resourceVersion": slice.metadata.resource_version}});
                    actions.push(Action::patch(
                        slice.as_ref(),
                        patch,
                        format!("mirrors Endpoints {}", endpoints.object_name()),
                    ));
                }
                Some(_) => {}
            }
        }
    }
    actions.extend(spare.iter().map(|slice| Action::delete(slice.as_ref(), "its subset is gone")));
    actions
}

fn mirror(endpoints: &Endpoints, subset: &EndpointSubset, family: &str) -> EndpointSlice {
    let one = |address: &EndpointAddress, ready: bool| Endpoint {
        addresses: vec![address.ip.clone()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..Default::default() }),
        hostname: address.hostname.clone(),
        node_name: address.node_name.clone(),
        target_ref: address.target_ref.clone(),
        ..Endpoint::default()
    };
    let ready = subset.addresses.iter().flatten().map(|address| one(address, true));
    let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| one(address, false));
    let of_family = |endpoint: &Endpoint| endpoint.addresses[0].contains(':') == (family == "IPv6");
    let mut mirrored: Vec<Endpoint> =
        ready.chain(not_ready).filter(of_family).take(MAX_ENDPOINTS_PER_SUBSET).collect();
    mirrored.sort_by(|a, b| a.addresses.cmp(&b.addresses));
    let port = |port: &k8s_openapi::api::core::v1::EndpointPort| EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    };
    let mut labels = endpoints.metadata.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_NAME.to_owned(), endpoints.object_name().to_owned());
    labels.insert(MANAGED_BY.to_owned(), CONTROLLER_NAME.to_owned());
    EndpointSlice {
        metadata: ObjectMeta {
            generate_name: Some(format!("{}-", endpoints.object_name())),
            namespace: endpoints.metadata.namespace.clone(),
            labels: Some(labels),
            owner_references: Some(vec![controller_reference(endpoints)]),
            ..ObjectMeta::default()
        },
        address_type: family.to_owned(),
        endpoints: mirrored,
        ports: subset.ports.as_ref().map(|ports| ports.iter().map(port).collect()),
    }
}
