//! Root CA publisher: every namespace has a ConfigMap with the cluster's CA.
//!
//! *Before step 1 of a pod's journey.* A pod that calls the API server must know whom to trust; the token volume projects
//! `ca.crt` out of this ConfigMap, so a pod can start only when it is there.
//!
//! # Invariants
//! 1. A ConfigMap that somebody changed is put right again.
//!
//! # In Kubernetes
//! `pkg/controller/certificates/rootcacertpublisher/publisher.go`.

use std::collections::BTreeMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::action::Action;
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::Store;
use crate::informer::factory::InformerFactory;
use crate::service_account::is_active;

/// Name of the ConfigMap.
pub const ROOT_CA: &str = "kube-root-ca.crt";
const DESCRIPTION: &str = "kubernetes.io/description";
const DESCRIPTION_TEXT: &str = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";

/// All that a decision about one namespace depends on.
#[derive(Clone)]
pub struct World {
    /// The namespace.
    pub namespace: Arc<Namespace>,
    /// Its ConfigMap.
    pub config_map: Option<Arc<ConfigMap>>,
    /// PEM of the CA.
    pub root_ca: Arc<str>,
}

/// The controller with the copies that it reads.
pub struct RootCaPublisher {
    namespaces: Store<Namespace>,
    config_maps: Store<ConfigMap>,
    root_ca: Arc<str>,
}

impl RootCaPublisher {
    /// A controller that publishes this PEM.
    pub fn new(factory: &InformerFactory, root_ca: &str) -> Self {
        RootCaPublisher {
            namespaces: factory.store(),
            config_maps: factory.store(),
            root_ca: Arc::from(root_ca),
        }
    }
}

impl Controller for RootCaPublisher {
    const NAME: &'static str = "root-ca-certificate-publisher-controller";
    type World = World;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Namespace>();
        wakes.on::<ConfigMap>(|event| {
            let config_map = event.object().filter(|config_map| config_map.object_name() == ROOT_CA);
            config_map
                .map(|config_map| NamespacedName::cluster(config_map.object_namespace()))
                .into_iter()
                .collect()
        });
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<World> {
        let namespace = self.namespaces.get(key)?;
        let config_map = self.config_maps.get(&NamespacedName::new(&key.name, ROOT_CA));
        Some(World { namespace, config_map, root_ca: self.root_ca.clone() })
    }

    fn reconcile(world: &World) -> Vec<Action> {
        if !is_active(&world.namespace) {
            return Vec::new();
        }
        let data = BTreeMap::from([("ca.crt".to_owned(), world.root_ca.to_string())]);
        let Some(existing) = &world.config_map else {
            let metadata = ObjectMeta {
                name: Some(ROOT_CA.to_owned()),
                namespace: world.namespace.metadata.name.clone(),
                annotations: Some(BTreeMap::from([(DESCRIPTION.to_owned(), DESCRIPTION_TEXT.to_owned())])),
                ..ObjectMeta::default()
            };
            let config_map = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            return vec![Action::create(&config_map, "pods of this namespace verify the API server with it")];
        };
        if existing.data.as_ref() == Some(&data) && existing.annotation(DESCRIPTION) == Some(DESCRIPTION_TEXT)
        {
            return Vec::new();
        }
        let mut patched: BTreeMap<String, Option<String>> =
            existing.data.iter().flatten().map(|(key, _)| (key.clone(), None)).collect();
        patched.extend(data.into_iter().map(|(key, value)| (key, Some(value))));
        let patch = json!({"metadata": {"annotations": {DESCRIPTION: DESCRIPTION_TEXT}}, "data": patched});
        vec![Action::patch(existing.as_ref(), patch, "its content is not the cluster's CA")]
    }
}
