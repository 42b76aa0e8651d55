//! Node info: a node and the sum of what runs on it.
//!
//! *Step 5 of a pod's journey through this stage.* Before: [`crate::cache`] learns of nodes and pods.
//! After: every filter and score of [`crate::plugins`] looks at this.
//!
//! "Does it still fit?" must not be answered by adding up the node's pods each time. The sums are kept:
//! adding or removing a pod changes them by that pod's amounts, whatever the node already carries. Pods
//! with affinity terms are listed apart, since usually few pods have any and only those concern others.
//!
//! # Invariants
//! 1. The sums equal those of a node info built from the same pods from scratch.
//! 2. `generation` grows with every change and is unique in a cache: equal numbers mean equal content.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/types.go` (`NodeInfo`). Left out: nothing known.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, NodeCondition, Taint};

use crate::pod_info::{HostPort, PodInfo};
use crate::resource::Resource;

mod pod_list;

pub use pod_list::PodList;

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();

/// The Node object, parsed.
#[derive(Debug, Default)]
pub struct NodeObject {
    /// The object.
    pub node: Arc<Node>,
    /// What pods may use together.
    pub allocatable: Resource,
    /// Sizes in bytes of the images that the node has, by name with tag.
    pub images: HashMap<String, i64>,
}

impl NodeObject {
    /// Reads a node.
    pub fn new(node: Arc<Node>) -> Self {
        let status = node.status.as_ref();
        let allocatable = status
            .and_then(|status| status.allocatable.as_ref().or(status.capacity.as_ref()))
            .map(Resource::from_list)
            .unwrap_or_default();
        let mut images = HashMap::new();
        for image in status.and_then(|status| status.images.as_ref()).into_iter().flatten() {
            for name in image.names.iter().flatten() {
                images.insert(name.clone(), image.size_bytes.unwrap_or(0));
            }
        }
        NodeObject { allocatable, images, node }
    }
}

/// A node as the scheduler sees it.
#[derive(Clone, Debug, Default)]
pub struct NodeInfo {
    /// The node's name.
    pub name: Arc<str>,
    /// The parsed object; `None` for a node that pods name but the cluster doesn't (yet, or any more).
    pub object: Option<Arc<NodeObject>>,
    /// Pods on the node, assumed ones included.
    pub pods: PodList,
    /// Those of them with any affinity term.
    pub pods_with_affinity: PodList,
    /// Those of them with required anti-affinity.
    pub pods_with_required_anti_affinity: PodList,
    /// Sum of the pods' requests.
    pub requested: Resource,
    /// Sum of what the pods count as when nodes are scored.
    pub non_zero_requested: Resource,
    /// Host ports in use.
    pub used_ports: Vec<HostPort>,
    /// Claims in use, with the number of pods that use them.
    pub claims: BTreeMap<String, usize>,
    /// Changes with the content.
    pub generation: u64,
}

impl NodeInfo {
    /// A node without pods.
    pub fn new(name: impl Into<Arc<str>>) -> Self {
        NodeInfo { name: name.into(), ..NodeInfo::default() }
    }

    /// A node without pods, from its object.
    pub fn of(node: Arc<Node>) -> Self {
        let mut info = NodeInfo::new(node.metadata.name.as_deref().unwrap_or(""));
        info.object = Some(Arc::new(NodeObject::new(node)));
        info
    }

    /// The node's labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        self.object.as_ref().and_then(|object| object.node.metadata.labels.as_ref()).unwrap_or(&NO_LABELS)
    }

    /// The value of one label.
    pub fn label(&self, key: &str) -> Option<&str> {
        self.labels().get(key).map(String::as_str)
    }

    /// The node's taints.
    pub fn taints(&self) -> &[Taint] {
        self.object
            .as_ref()
            .and_then(|object| object.node.spec.as_ref())
            .and_then(|spec| spec.taints.as_deref())
            .unwrap_or_default()
    }

    /// True if it is cordoned.
    pub fn unschedulable(&self) -> bool {
        let spec = self.object.as_ref().and_then(|object| object.node.spec.as_ref());
        spec.is_some_and(|spec| spec.unschedulable == Some(true))
    }

    /// The node's conditions.
    pub fn conditions(&self) -> &[NodeCondition] {
        self.object
            .as_ref()
            .and_then(|object| object.node.status.as_ref())
            .and_then(|status| status.conditions.as_deref())
            .unwrap_or_default()
    }

    /// The node's annotations.
    pub fn annotations(&self) -> Option<&BTreeMap<String, String>> {
        self.object.as_ref().and_then(|object| object.node.metadata.annotations.as_ref())
    }

    /// What pods may use together.
    pub fn allocatable(&self) -> &Resource {
        static NOTHING: std::sync::LazyLock<Resource> = std::sync::LazyLock::new(Resource::default);
        self.object.as_ref().map_or(&NOTHING, |object| &object.allocatable)
    }

    // ANCHOR: node-info-pods
    /// Puts a pod on the node.
    pub fn add_pod(&mut self, pod: Arc<PodInfo>) {
        self.add_sums(&pod, 1);
        self.used_ports.extend(pod.host_ports.iter().cloned());
        for claim in &pod.claims {
            *self.claims.entry(claim.key.clone()).or_default() += 1;
        }
        if pod.has_affinity() {
            self.pods_with_affinity.push(pod.clone());
        }
        if !pod.required_anti_affinity.is_empty() {
            self.pods_with_required_anti_affinity.push(pod.clone());
        }
        self.pods.push(pod);
    }

    /// Takes a pod off the node; false if it wasn't there.
    pub fn remove_pod(&mut self, uid: &str) -> bool {
        let Some(pod) = self.pods.take(uid) else { return false };
        if pod.has_affinity() {
            self.pods_with_affinity.take(uid);
        }
        if !pod.required_anti_affinity.is_empty() {
            self.pods_with_required_anti_affinity.take(uid);
        }
        self.add_sums(&pod, -1);
        for port in &pod.host_ports {
            if let Some(at) = self.used_ports.iter().position(|used| used == port) {
                self.used_ports.swap_remove(at);
            }
        }
        for claim in &pod.claims {
            if let Some(users) = self.claims.get_mut(&claim.key) {
                *users -= 1;
                if *users == 0 {
                    self.claims.remove(&claim.key);
                }
            }
        }
        true
    }

    fn add_sums(&mut self, pod: &PodInfo, sign: i64) {
        self.requested.add(&pod.requests, sign);
        self.non_zero_requested.add(&pod.non_zero_requests, sign);
    }
    // ANCHOR_END: node-info-pods
}
