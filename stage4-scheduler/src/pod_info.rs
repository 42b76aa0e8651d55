//! Pod info: all that scheduling needs to know of a pod, read once.
//!
//! *Step 4 of a pod's journey through this stage.* Before: [`crate::event_handlers`] got the object.
//! After: [`crate::scheduling_queue`] and [`crate::cache`] share it by `Arc`.
//!
//! A pod is compared with thousands of nodes and thousands of other pods. Everything that needs parsing
//! (quantities, selectors, host ports, image names) is parsed here, when the pod arrives.
//!
//! The subtle thing: `matchLabelKeys` of affinity terms and spread constraints mean "and the same value
//! as my own label"; they are merged into the selectors here. Since 1.31 the API server does that for
//! affinity terms too; doing it twice changes nothing.
//!
//! # Invariants
//! 1. A `PodInfo` never changes; a changed pod gets a new one.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/types.go` (`PodInfo`).

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Pod, PodSpec, Toleration};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use stage1_kubectl::selector::LabelSelector;

use crate::node_selector::{NodeSelectorTerm, RequiredNodeAffinity};
use crate::resource::{Resource, pod_non_zero_requests, pod_requests};

mod affinity;
mod volumes;

pub use affinity::{AffinityTerm, SpreadConstraint, WeightedAffinityTerm};
pub use volumes::{Disk, PodClaim};

static NO_LABELS: BTreeMap<String, String> = BTreeMap::new();
static NO_SPEC: std::sync::LazyLock<PodSpec> = std::sync::LazyLock::new(PodSpec::default);

/// A port of the node that a pod wants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPort {
    /// Address to listen on; `0.0.0.0` is all.
    pub ip: String,
    /// `TCP`, `UDP` or `SCTP`.
    pub protocol: String,
    /// The port.
    pub port: i32,
}

impl HostPort {
    /// Can the two not be open on one node at the same time?
    pub fn conflicts(&self, other: &HostPort) -> bool {
        const ALL: &str = "0.0.0.0";
        self.port == other.port
            && self.protocol == other.protocol
            && (self.ip == other.ip || self.ip == ALL || other.ip == ALL)
    }
}

/// A pod, parsed.
#[derive(Debug, Default)]
pub struct PodInfo {
    /// The object.
    pub pod: Arc<Pod>,
    /// Its UID, or its key where a file has no UID.
    pub uid: Arc<str>,
    /// `namespace/name`.
    pub key: Arc<str>,
    /// Higher goes first, and may evict lower.
    pub priority: i32,
    /// What it asks for.
    pub requests: Resource,
    /// What it counts as when nodes are scored.
    pub non_zero_requests: Resource,
    /// Ports of the node that it wants.
    pub host_ports: Vec<HostPort>,
    /// Which nodes its selector and required node affinity allow.
    pub node_affinity: RequiredNodeAffinity,
    /// Preferred node affinity with weights.
    pub preferred_nodes: Vec<(i64, NodeSelectorTerm)>,
    /// Must run near pods that match.
    pub required_affinity: Vec<AffinityTerm>,
    /// Must not run near pods that match.
    pub required_anti_affinity: Vec<AffinityTerm>,
    /// Likes to run near pods that match.
    pub preferred_affinity: Vec<WeightedAffinityTerm>,
    /// Dislikes to run near pods that match.
    pub preferred_anti_affinity: Vec<WeightedAffinityTerm>,
    /// Spreading over topology domains.
    pub spread: Vec<SpreadConstraint>,
    /// Image names with a tag.
    pub images: Vec<String>,
    /// Claims of its volumes.
    pub claims: Vec<PodClaim>,
    /// Disks that only one node, or one writer, may use.
    pub disks: Vec<Disk>,
}

impl PodInfo {
    /// Reads a pod.
    pub fn new(pod: Arc<Pod>) -> Self {
        let spec = pod.spec.as_ref().unwrap_or(&NO_SPEC);
        let affinity = spec.affinity.as_ref();
        let near = affinity.and_then(|a| a.pod_affinity.as_ref());
        let apart = affinity.and_then(|a| a.pod_anti_affinity.as_ref());
        let key: Arc<str> = Arc::from(key_of(&pod));
        let uid = pod.metadata.uid.as_deref().map_or_else(|| key.clone(), Arc::from);
        let term = |term: &_| AffinityTerm::parse(term, &pod);
        let weighted = |term: &_| WeightedAffinityTerm::parse(term, &pod);
        PodInfo {
            uid,
            key,
            priority: spec.priority.unwrap_or(0),
            requests: pod_requests(spec, pod.status.as_ref()),
            non_zero_requests: pod_non_zero_requests(spec, pod.status.as_ref()),
            host_ports: host_ports(spec),
            node_affinity: RequiredNodeAffinity::parse(spec),
            preferred_nodes: preferred_nodes(spec),
            required_affinity: near
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
                .map_or_else(Vec::new, |terms| terms.iter().map(term).collect()),
            required_anti_affinity: apart
                .and_then(|a| a.required_during_scheduling_ignored_during_execution.as_ref())
                .map_or_else(Vec::new, |terms| terms.iter().map(term).collect()),
            preferred_affinity: near
                .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref())
                .map_or_else(Vec::new, |terms| terms.iter().map(weighted).collect()),
            preferred_anti_affinity: apart
                .and_then(|a| a.preferred_during_scheduling_ignored_during_execution.as_ref())
                .map_or_else(Vec::new, |terms| terms.iter().map(weighted).collect()),
            spread: spec
                .topology_spread_constraints
                .iter()
                .flatten()
                .map(|constraint| SpreadConstraint::parse(constraint, &pod))
                .collect(),
            images: images(spec),
            claims: volumes::claims(&pod, spec),
            disks: volumes::disks(spec),
            pod,
        }
    }

    /// The pod's name.
    pub fn name(&self) -> &str {
        self.pod.metadata.name.as_deref().unwrap_or("")
    }

    /// The pod's namespace.
    pub fn namespace(&self) -> &str {
        self.pod.metadata.namespace.as_deref().unwrap_or("")
    }

    /// The pod's labels.
    pub fn labels(&self) -> &BTreeMap<String, String> {
        self.pod.metadata.labels.as_ref().unwrap_or(&NO_LABELS)
    }

    /// The pod's spec.
    pub fn spec(&self) -> &PodSpec {
        self.pod.spec.as_ref().unwrap_or(&NO_SPEC)
    }

    /// The node that the pod runs on, once it has one.
    pub fn node_name(&self) -> Option<&str> {
        self.spec().node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The node that preemption made room on for this pod.
    pub fn nominated_node_name(&self) -> Option<&str> {
        self.pod.status.as_ref()?.nominated_node_name.as_deref().filter(|name| !name.is_empty())
    }

    /// The scheduler that is to place the pod.
    pub fn scheduler_name(&self) -> &str {
        self.spec().scheduler_name.as_deref().unwrap_or("default-scheduler")
    }

    /// Which taints it tolerates.
    pub fn tolerations(&self) -> &[Toleration] {
        self.spec().tolerations.as_deref().unwrap_or_default()
    }

    /// True once somebody asked for its end.
    pub fn is_terminating(&self) -> bool {
        self.pod.metadata.deletion_timestamp.is_some()
    }

    /// True once it has ended: it holds no resources any more.
    pub fn is_finished(&self) -> bool {
        let phase = self.pod.status.as_ref().and_then(|status| status.phase.as_deref());
        matches!(phase, Some("Succeeded" | "Failed"))
    }

    /// When it was started, if it was.
    pub fn start_time(&self) -> Option<Timestamp> {
        self.pod.status.as_ref()?.start_time.as_ref().map(|time| time.0)
    }

    /// The owner that controls it.
    pub fn controller(&self) -> Option<&OwnerReference> {
        self.pod.metadata.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
    }

    /// Is the claim (`namespace/name`) one of its own?
    pub fn uses_claim(&self, key: &str) -> bool {
        self.claims.iter().any(|claim| claim.key == key)
    }

    /// True if it has any affinity to other pods: only such pods matter to a pod without affinity.
    pub fn has_affinity(&self) -> bool {
        !(self.required_affinity.is_empty()
            && self.required_anti_affinity.is_empty()
            && self.preferred_affinity.is_empty()
            && self.preferred_anti_affinity.is_empty())
    }
}

/// `namespace/name` of a pod.
pub fn key_of(pod: &Pod) -> String {
    let metadata = &pod.metadata;
    format!("{}/{}", metadata.namespace.as_deref().unwrap_or(""), metadata.name.as_deref().unwrap_or(""))
}

/// The selector, or one that matches nothing where there is none or the API server let a bad one in.
fn selector(
    selector: Option<&k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector>,
) -> LabelSelector {
    selector
        .and_then(|selector| LabelSelector::from_match(selector).ok())
        .unwrap_or_else(LabelSelector::nothing)
}

fn host_ports(spec: &PodSpec) -> Vec<HostPort> {
    let sidecars =
        spec.init_containers.iter().flatten().filter(|c| c.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    ports
        .filter_map(|port| {
            let text = |value: &Option<String>, default: &str| {
                value.as_deref().filter(|text| !text.is_empty()).unwrap_or(default).to_owned()
            };
            // With `hostNetwork` the API server copies the container port.
            let port_of_node = port.host_port.filter(|port| *port > 0)?;
            Some(HostPort {
                ip: text(&port.host_ip, "0.0.0.0"),
                protocol: text(&port.protocol, "TCP"),
                port: port_of_node,
            })
        })
        .collect()
}

fn preferred_nodes(spec: &PodSpec) -> Vec<(i64, NodeSelectorTerm)> {
    spec.affinity
        .as_ref()
        .and_then(|affinity| affinity.node_affinity.as_ref())
        .and_then(|node| node.preferred_during_scheduling_ignored_during_execution.as_ref())
        .into_iter()
        .flatten()
        .filter(|term| term.weight != 0)
        .map(|term| (i64::from(term.weight), NodeSelectorTerm::parse(&term.preference)))
        .collect()
}

/// `nginx` and `nginx:latest` are one image: nodes report the latter.
pub fn normalized_image_name(name: &str) -> String {
    let tag = name.rfind(':').map_or(-1, |at| at as isize);
    let slash = name.rfind('/').map_or(-1, |at| at as isize);
    if tag <= slash { format!("{name}:latest") } else { name.to_owned() }
}

fn images(spec: &PodSpec) -> Vec<String> {
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    containers.map(|container| normalized_image_name(container.image.as_deref().unwrap_or(""))).collect()
}
