//! World: API objects become a snapshot, without a cluster or with what a cluster holds just now.
//!
//! *Beside a pod's journey through this stage.* Before: a file, or lists from an API server. After: [`crate::explain`] and
//! `simulate` decide on a [`Snapshot`] as the scheduler itself does.
//!
//! The objects go through the same [`State`] that the watches fill, so that there is one understanding of what a Node, a
//! claim or a budget means. Only the writing is missing: nothing here can change a cluster.
//!
//! Files are written by people and lack what an API server fills in: a pod's priority (from its class), requests where
//! only limits are given, a namespace. [`World::new`] fills that in.
//!
//! # Invariants
//! 1. The same objects in another order give the same snapshot but for the order of pods on a node.
//!
//! # In Kubernetes
//! Nothing; the cluster autoscaler's simulator is the nearest relative.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, Pod};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::event_handlers::State;
use crate::listers::{Listers, set};
use crate::pod_info::PodInfo;
use crate::profiles::Profiles;
use crate::scheduler::set_workload;
use crate::snapshot::Snapshot;

/// Why an object can't be used.
#[derive(Debug, thiserror::Error)]
#[error("{kind} {name}: {why}")]
pub struct WorldError {
    kind: String,
    name: String,
    why: String,
}

/// Objects, sorted into what is there and what waits.
pub struct World {
    /// What is there: nodes, pods with a node, everything that plugins look up.
    pub state: State,
    /// Pods without a node, in the order of the file.
    pub waiting: Vec<Arc<PodInfo>>,
    /// What is there, as a cycle sees it: up to date after [`World::refresh`].
    pub current: Snapshot,
}

/// Kinds that a world is made of: kind, group, version, resource.
pub const KINDS: [(&str, &str, &str, &str); 15] = [
    ("PriorityClass", "scheduling.k8s.io", "v1", "priorityclasses"),
    ("Namespace", "", "v1", "namespaces"),
    ("Node", "", "v1", "nodes"),
    ("Pod", "", "v1", "pods"),
    ("Service", "", "v1", "services"),
    ("PersistentVolumeClaim", "", "v1", "persistentvolumeclaims"),
    ("PersistentVolume", "", "v1", "persistentvolumes"),
    ("StorageClass", "storage.k8s.io", "v1", "storageclasses"),
    ("CSINode", "storage.k8s.io", "v1", "csinodes"),
    ("CSIDriver", "storage.k8s.io", "v1", "csidrivers"),
    ("CSIStorageCapacity", "storage.k8s.io", "v1", "csistoragecapacities"),
    ("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
    ("ReplicaSet", "apps", "v1", "replicasets"),
    ("StatefulSet", "apps", "v1", "statefulsets"),
    ("ReplicationController", "", "v1", "replicationcontrollers"),
];

impl World {
    /// Sorts the objects. Kinds that scheduling doesn't depend on are passed over; workloads with a pod template
    /// become as many pods as they ask for.
    ///
    /// # Errors
    /// An object of a known kind that isn't one.
    pub fn new(objects: &[Value], profiles: Arc<Profiles>) -> Result<Self, WorldError> {
        let mut world =
            World { state: State::new(profiles), waiting: Vec::new(), current: Snapshot::default() };
        let mut objects: Vec<Value> = objects.iter().map(with_namespace).collect();
        // Owners before pods, so that priorities are known.
        objects.sort_by_key(|object| matches!(text(object, "/kind"), "Pod" | "Deployment" | "Job"));
        let classes: BTreeMap<String, Value> = objects
            .iter()
            .filter(|object| object["kind"] == "PriorityClass")
            .map(|class| (text(class, "/metadata/name").to_owned(), class.clone()))
            .collect();
        for object in &objects {
            for object in expand(object) {
                world.add(&object, &classes)?;
            }
        }
        Ok(world)
    }

    /// The cluster as one cycle sees it.
    pub fn snapshot(&mut self) -> Snapshot {
        self.refresh();
        self.current.clone()
    }

    /// Brings [`World::current`] up to date.
    pub fn refresh(&mut self) {
        self.state.cache.update(&mut self.current);
        self.state.queue.nominator.update(&mut self.current);
    }

    fn add(&mut self, object: &Value, classes: &BTreeMap<String, Value>) -> Result<(), WorldError> {
        let (namespace, name) = (text(object, "/metadata/namespace"), text(object, "/metadata/name"));
        let key = format!("{namespace}/{name}");
        let listers: &mut Listers = Arc::make_mut(&mut self.state.cache.listers);
        match text(object, "/kind") {
            "Node" => self.state.set_node(Arc::new(parse::<Node>(object)?), Duration::ZERO),
            "Pod" => {
                let pod = pod_as_stored(object, classes)?;
                if pod.is_finished() {
                    return Ok(());
                }
                if pod.nominated_node_name().is_some() && pod.node_name().is_none() {
                    self.state.queue.nominator.set(&pod, None);
                }
                if pod.node_name().is_some() {
                    self.state.cache.set_pod(pod);
                } else {
                    self.waiting.push(pod);
                }
            }
            "Namespace" => {
                let mut labels: BTreeMap<String, String> =
                    serde_json::from_value(object["metadata"]["labels"].clone()).unwrap_or_default();
                labels.insert("kubernetes.io/metadata.name".to_owned(), name.to_owned());
                set(&mut listers.namespaces, name, Some(Arc::new(labels)));
            }
            "Service" => {
                let selector = serde_json::from_value(object["spec"]["selector"].clone()).ok();
                listers.set_service(namespace, name, selector);
            }
            "PersistentVolumeClaim" => set(&mut listers.claims, &key, Some(Arc::new(parse(object)?))),
            "PersistentVolume" => set(&mut listers.volumes, name, Some(Arc::new(parse(object)?))),
            "StorageClass" => set(&mut listers.storage_classes, name, Some(Arc::new(parse(object)?))),
            "CSIDriver" => set(&mut listers.csi_drivers, name, Some(Arc::new(parse(object)?))),
            "CSIStorageCapacity" => set(&mut listers.capacities, &key, Some(Arc::new(parse(object)?))),
            "CSINode" => set(&mut listers.csi_nodes, name, Some(Arc::new(parse(object)?))),
            "PodDisruptionBudget" => listers.set_budget(&key, Some(Arc::new(parse(object)?))),
            kind @ ("ReplicaSet" | "StatefulSet" | "ReplicationController") => {
                let mut selector = object["spec"]["selector"].clone();
                if kind == "ReplicationController" {
                    selector = json!({"matchLabels": selector});
                }
                let selector = serde_json::from_value(selector).ok();
                set_workload(&mut self.state, kind, &key, selector.as_ref());
            }
            _ => {}
        }
        Ok(())
    }
}

fn text<'v>(value: &'v Value, pointer: &str) -> &'v str {
    value.pointer(pointer).and_then(Value::as_str).unwrap_or("")
}

fn parse<T: DeserializeOwned>(object: &Value) -> Result<T, WorldError> {
    T::deserialize(object).map_err(|error| WorldError {
        kind: text(object, "/kind").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        why: error.to_string(),
    })
}

/// Objects in a file without a namespace are in `default`; what has none doesn't mind.
fn with_namespace(object: &Value) -> Value {
    let mut object = object.clone();
    let kind = text(&object, "/kind");
    let cluster_wide =
        ["Node", "Namespace", "PersistentVolume", "StorageClass", "CSINode", "CSIDriver", "PriorityClass"]
            .contains(&kind);
    if !cluster_wide && text(&object, "/metadata/namespace").is_empty() {
        object["metadata"]["namespace"] = "default".into();
    }
    object
}

/// The object, and the pods that a controller would make of it if it isn't there to do so.
fn expand(object: &Value) -> Vec<Value> {
    let kind = text(object, "/kind");
    let replicas = match kind {
        "Deployment" | "ReplicaSet" | "StatefulSet" | "ReplicationController" => "replicas",
        "Job" => "parallelism",
        _ => return vec![object.clone()],
    };
    // One that a cluster holds has its pods already.
    if object["metadata"]["uid"].is_string() {
        return vec![object.clone()];
    }
    let owner = text(object, "/metadata/name");
    let count = object["spec"][replicas].as_u64().unwrap_or(1).min(100_000);
    let pods = (0..count).map(|number| {
        let mut pod = object["spec"]["template"].clone();
        pod["kind"] = "Pod".into();
        pod["metadata"]["name"] = format!("{owner}-{number}").into();
        pod["metadata"]["namespace"] = object["metadata"]["namespace"].clone();
        pod["metadata"]["ownerReferences"] =
            json!([{"kind": kind, "name": owner, "controller": true, "apiVersion": object["apiVersion"], "uid": ""}]);
        pod
    });
    std::iter::once(object.clone()).chain(pods).collect()
}

/// What the API server would have made of the pod: its priority, and requests where only limits are given.
///
/// # Errors
/// It is no pod.
pub fn pod_as_stored(object: &Value, classes: &BTreeMap<String, Value>) -> Result<Arc<PodInfo>, WorldError> {
    let mut object = object.clone();
    let spec = &mut object["spec"];
    if spec["priority"].is_null() {
        let name = spec["priorityClassName"].as_str().unwrap_or("").to_owned();
        let class = match name.as_str() {
            "" => classes.values().find(|class| class["globalDefault"] == true),
            name => classes.get(name),
        };
        let built_in = match name.as_str() {
            "system-cluster-critical" => 2_000_000_000,
            "system-node-critical" => 2_000_001_000,
            _ => 0,
        };
        spec["priority"] = class.map_or(json!(built_in), |class| class["value"].clone());
        if let Some(policy) =
            class.map(|class| &class["preemptionPolicy"]).filter(|policy| policy.is_string())
        {
            spec["preemptionPolicy"] = policy.clone();
        }
    }
    for kind in ["containers", "initContainers"] {
        for container in spec[kind].as_array_mut().into_iter().flatten() {
            let limits = container["resources"]["limits"].as_object().cloned().unwrap_or_default();
            for (name, limit) in limits {
                let request = &mut container["resources"]["requests"][name];
                if request.is_null() {
                    *request = limit;
                }
            }
        }
    }
    Ok(Arc::new(PodInfo::new(Arc::new(parse::<Pod>(&object)?))))
}
