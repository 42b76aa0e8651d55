//! Listers: the objects besides nodes and pods that decide where a pod may run.
//!
//! *Step 6 of a pod's journey through this stage.* Before: [`crate::event_handlers`] got them from the
//! API server. After: plugins about volumes, affinity and spreading look them up, and preemption its budgets.
//!
//! Every map is behind its own `Arc`: a snapshot shares them for nothing, and a change copies one map
//! only if a scheduling cycle is reading it just then.
//!
//! # In Kubernetes
//! client-go's listers, as `framework.SharedInformerFactory()` hands them to plugins.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass};
use stage1_kubectl::selector::LabelSelector;

use crate::pod_info::PodInfo;

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// Labels of something.
pub type Labels = BTreeMap<String, String>;

/// A shared map by name or `namespace/name`.
pub type Shared<V> = Arc<HashMap<String, V>>;

/// A budget with its selector parsed.
#[derive(Clone, Debug)]
pub struct Budget {
    /// The object.
    pub object: Arc<PodDisruptionBudget>,
    /// Which pods it protects.
    pub selector: LabelSelector,
}

/// What plugins can look up.
#[derive(Clone, Debug, Default)]
pub struct Listers {
    /// Labels of namespaces by name.
    pub namespaces: Shared<Arc<Labels>>,
    /// Selectors of services, by namespace, then name.
    pub services: Shared<BTreeMap<String, Labels>>,
    /// Selectors of ReplicaSets, StatefulSets and ReplicationControllers by `kind/namespace/name`.
    pub workloads: Shared<LabelSelector>,
    /// PersistentVolumeClaims by `namespace/name`.
    pub claims: Shared<Arc<PersistentVolumeClaim>>,
    /// PersistentVolumes by name.
    pub volumes: Shared<Arc<PersistentVolume>>,
    /// StorageClasses by name.
    pub storage_classes: Shared<Arc<StorageClass>>,
    /// What storage drivers say of each node, by node name.
    pub csi_nodes: Shared<Arc<CSINode>>,
    /// Storage drivers by name.
    pub csi_drivers: Shared<Arc<CSIDriver>>,
    /// How much storage is left where, by `namespace/name`.
    pub capacities: Shared<Arc<CSIStorageCapacity>>,
    /// PodDisruptionBudgets by `namespace/name`.
    pub budgets: Shared<Budget>,
}

/// Sets (`Some`) or removes (`None`) an entry of a shared map.
pub fn set<V: Clone>(map: &mut Shared<V>, key: &str, value: Option<V>) {
    match value {
        Some(value) => {
            Arc::make_mut(map).insert(key.to_owned(), value);
        }
        None if map.contains_key(key) => {
            Arc::make_mut(map).remove(key);
        }
        None => {}
    }
}

impl Listers {
    /// Labels of a namespace; none if it isn't known (yet).
    pub fn namespace_labels(&self, name: &str) -> &Labels {
        self.namespaces.get(name).map_or(&NO_LABELS, |labels| labels)
    }

    /// Sets or removes a service's selector.
    pub fn set_service(&mut self, namespace: &str, name: &str, selector: Option<Labels>) {
        let services = Arc::make_mut(&mut self.services);
        let of_namespace = services.entry(namespace.to_owned()).or_default();
        match selector.filter(|selector| !selector.is_empty()) {
            Some(selector) => of_namespace.insert(name.to_owned(), selector),
            None => of_namespace.remove(name),
        };
        if of_namespace.is_empty() {
            services.remove(namespace);
        }
    }

    /// Sets or removes a budget.
    pub fn set_budget(&mut self, key: &str, budget: Option<Arc<PodDisruptionBudget>>) {
        let parsed = budget.map(|object| {
            let selector = object.spec.as_ref().and_then(|spec| spec.selector.as_ref());
            let selector = selector.and_then(|selector| LabelSelector::from_match(selector).ok());
            Budget { selector: selector.unwrap_or_else(LabelSelector::nothing), object }
        });
        set(&mut self.budgets, key, parsed);
    }

    /// The pods that are "of the same kind" for default spreading: those that the pod's services and its
    /// controller select. All selectors must match; none means that nothing groups the pod.
    pub fn default_selectors(&self, pod: &PodInfo) -> Vec<LabelSelector> {
        let mut services = Labels::new();
        for selector in self.services.get(pod.namespace()).into_iter().flat_map(BTreeMap::values) {
            if selector.iter().all(|(key, value)| pod.labels().get(key) == Some(value)) {
                services.extend(selector.clone());
            }
        }
        let mut selectors = Vec::new();
        if !services.is_empty() {
            selectors.push(LabelSelector::from_map(&services));
        }
        if let Some(owner) = pod.controller() {
            let key = format!("{}/{}/{}", owner.kind, pod.namespace(), owner.name);
            selectors.extend(self.workloads.get(&key).cloned());
        }
        selectors
    }
}
