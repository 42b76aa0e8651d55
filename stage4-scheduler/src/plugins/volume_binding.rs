//! VolumeBinding: claims that have a volume, claims that get one, and where it would be.
//!
//! A claim of class mode `Immediate` gets its volume from the controller, wherever that is; the pod waits and
//! then follows the volume. With `WaitForFirstConsumer` it is the other way round: first a node is chosen,
//! then a volume for it. So for such claims the filter asks per node: is there a free volume that fits and
//! that this node can reach? If not, may one be made here (a provisioner, topologies allowed, and space
//! left, if the driver publishes how much: CSIStorageCapacity)?
//!
//! After a node is chosen, the plan ([`PreBindAction`]) is carried out before the pod is bound: the claim
//! is written into the volume, or the node into the claim's annotation.
//!
//! # Invariants
//! 1. A volume is planned for at most one claim of a pod.
//! 2. `pre_bind` plans what the filter found on the same snapshot.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/volumebinding/{volume_binding,binder}.go`,
//! `component-helpers/storage/volume`. Left out: the score by volume size (off by default upstream), volumes of in-tree
//! drivers that were migrated.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use stage1_kubectl::selector::LabelSelector;

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreBindAction, PreFilter, Status};
use crate::listers::Listers;
use crate::node_info::NodeInfo;
use crate::node_selector::NodeSelector;
use crate::pod_info::{PodClaim, PodInfo};
use crate::resource::bytes;
use crate::snapshot::Snapshot;

/// The reason if no volume can be found or made.
pub const ERR_BIND: &str = "node(s) didn't find available persistent volumes to bind";
/// The reason if a bound volume isn't reachable from the node.
pub const ERR_NODE_CONFLICT: &str = "node(s) had volume node affinity conflict";
/// The reason if the driver has too little space left there.
pub const ERR_NOT_ENOUGH_SPACE: &str = "node(s) did not have enough free storage";
/// The reason if a bound volume is gone.
pub const ERR_PV_NOT_EXIST: &str =
    "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
/// The reason if a claim waits for its controller.
pub const ERR_UNBOUND_IMMEDIATE: &str = "pod has unbound immediate PersistentVolumeClaims";
/// The annotation that asks a provisioner for a volume on a node.
pub const ANN_SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";
const ANN_BIND_COMPLETED: &str = "pv.kubernetes.io/bind-completed";
const NOT_A_PROVISIONER: &str = "kubernetes.io/no-provisioner";

/// Follows volumes, and plans them.
pub struct VolumeBinding;

/// The text for a claim that isn't there (yet).
pub fn missing(claim: &PodClaim) -> String {
    if claim.ephemeral {
        format!(
            "waiting for ephemeral volume controller to create the persistentvolumeclaim \"{}\"",
            claim.name
        )
    } else {
        format!("persistentvolumeclaim \"{}\" not found", claim.name)
    }
}

/// The claims of a pod by what has to happen.
#[derive(Default)]
struct Claims<'a> {
    /// Volume name of each claim that has one.
    bound: Vec<&'a str>,
    /// Claims that wait for a node.
    delayed: Vec<&'a Arc<PersistentVolumeClaim>>,
}

fn sort_claims<'a>(pod: &PodInfo, listers: &'a Listers) -> Result<Claims<'a>, String> {
    let mut sorted = Claims::default();
    let mut immediate = false;
    for wanted in &pod.claims {
        let claim = listers.claims.get(&wanted.key).ok_or_else(|| missing(wanted))?;
        let volume =
            claim.spec.as_ref().and_then(|spec| spec.volume_name.as_deref()).filter(|v| !v.is_empty());
        if claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Lost") {
            let volume = volume.unwrap_or("");
            return Err(format!(
                "persistentvolumeclaim \"{}\" bound to non-existent persistentvolume \"{volume}\"",
                wanted.name
            ));
        }
        if claim.metadata.deletion_timestamp.is_some() {
            return Err(format!("persistentvolumeclaim \"{}\" is being deleted", wanted.name));
        }
        let completed =
            claim.metadata.annotations.as_ref().is_some_and(|a| a.contains_key(ANN_BIND_COMPLETED));
        match volume {
            Some(volume) if completed => sorted.bound.push(volume),
            // A claim with a volume, but not through with binding: the controller's turn.
            None if waits_for_node(claim, listers) => sorted.delayed.push(claim),
            _ => immediate = true,
        }
    }
    if immediate { Err(ERR_UNBOUND_IMMEDIATE.to_owned()) } else { Ok(sorted) }
}

fn waits_for_node(claim: &PersistentVolumeClaim, listers: &Listers) -> bool {
    let class = listers.storage_classes.get(class_of(claim));
    class.and_then(|class| class.volume_binding_mode.as_deref()) == Some("WaitForFirstConsumer")
}

fn class_of(claim: &PersistentVolumeClaim) -> &str {
    claim.spec.as_ref().and_then(|spec| spec.storage_class_name.as_deref()).unwrap_or("")
}

/// Can the node reach the volume?
fn reaches(volume: &PersistentVolume, node: &NodeInfo) -> bool {
    let required =
        volume.spec.as_ref().and_then(|s| s.node_affinity.as_ref()).and_then(|a| a.required.as_ref());
    required.is_none_or(|selector| NodeSelector::parse(selector).matches(&node.name, node.labels()))
}

/// Could this volume serve the claim on the node?
fn suits(volume: &PersistentVolume, claim: &PersistentVolumeClaim, node: &NodeInfo) -> bool {
    let (Some(has), Some(wants)) = (&volume.spec, &claim.spec) else { return false };
    let free = match &has.claim_ref {
        None => true,
        Some(reference) => {
            reference.name == claim.metadata.name
                && reference.namespace == claim.metadata.namespace
                && reference.uid.as_ref().is_none_or(|uid| Some(uid) == claim.metadata.uid.as_ref())
        }
    };
    let mode = |mode: &Option<String>| mode.clone().unwrap_or_else(|| "Filesystem".to_owned());
    let modes = has.access_modes.as_deref().unwrap_or_default();
    free && volume.metadata.deletion_timestamp.is_none()
        && has.storage_class_name.as_deref().unwrap_or("") == class_of(claim)
        && mode(&has.volume_mode) == mode(&wants.volume_mode)
        && wants.access_modes.iter().flatten().all(|mode| modes.contains(mode))
        && capacity(volume) >= requested(claim)
        && wants.selector.as_ref().is_none_or(|selector| {
            let labels = volume.metadata.labels.clone().unwrap_or_default();
            LabelSelector::from_match(selector).is_ok_and(|selector| selector.matches(&labels))
        })
        && reaches(volume, node)
}

fn capacity(volume: &PersistentVolume) -> i64 {
    let capacity = volume.spec.as_ref().and_then(|spec| spec.capacity.as_ref());
    capacity.and_then(|capacity| capacity.get("storage")).map_or(0, bytes)
}

fn requested(claim: &PersistentVolumeClaim) -> i64 {
    let resources = claim.spec.as_ref().and_then(|spec| spec.resources.as_ref());
    resources.and_then(|r| r.requests.as_ref()).and_then(|requests| requests.get("storage")).map_or(0, bytes)
}

/// May a volume for the claim be made on the node?
fn can_provision(claim: &PersistentVolumeClaim, node: &NodeInfo, listers: &Listers) -> bool {
    let Some(class) = listers.storage_classes.get(class_of(claim)) else { return false };
    if class.provisioner.is_empty() || class.provisioner == NOT_A_PROVISIONER {
        return false;
    }
    let allowed = class.allowed_topologies.as_deref().unwrap_or_default();
    allowed.is_empty()
        || allowed.iter().any(|term| {
            let mut labels = term.match_label_expressions.iter().flatten();
            labels.all(|wanted| {
                node.label(&wanted.key).is_some_and(|value| wanted.values.iter().any(|v| v == value))
            })
        })
}

/// Is there enough space for the claim where the node is? Drivers that don't say are believed to have it.
fn has_space(claim: &PersistentVolumeClaim, node: &NodeInfo, listers: &Listers) -> bool {
    let Some(class) = listers.storage_classes.get(class_of(claim)) else { return true };
    let driver = listers.csi_drivers.get(&class.provisioner);
    if driver.is_none_or(|driver| driver.spec.storage_capacity != Some(true)) {
        return true;
    }
    let size = requested(claim);
    listers.capacities.values().any(|capacity| {
        let limit = capacity.maximum_volume_size.as_ref().or(capacity.capacity.as_ref());
        let here = capacity.node_topology.as_ref().is_some_and(|topology| {
            LabelSelector::from_match(topology).is_ok_and(|selector| selector.matches(node.labels()))
        });
        Some(&capacity.storage_class_name) == class.metadata.name.as_ref()
            && limit.is_some_and(|limit| bytes(limit) >= size)
            && here
    })
}

/// What to do for the delayed claims if the pod runs on the node.
///
/// # Errors
/// The reason why they can't be served there.
fn plan(claims: &Claims<'_>, node: &NodeInfo, listers: &Listers) -> Result<Vec<PreBindAction>, &'static str> {
    let mut actions = Vec::new();
    let mut taken: Vec<&str> = Vec::new();
    // The largest wishes last: small claims take small volumes.
    let mut delayed = claims.delayed.clone();
    delayed.sort_by_key(|claim| requested(claim));
    for claim in delayed {
        let metadata = &claim.metadata;
        let (namespace, name) =
            (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default());
        let selected = metadata.annotations.as_ref().and_then(|a| a.get(ANN_SELECTED_NODE));
        if selected.is_some_and(|selected| **selected != *node.name) {
            return Err(ERR_BIND); // a volume for it is being made elsewhere
        }
        let candidates = listers.volumes.iter().filter(|(name, _)| !taken.contains(&name.as_str()));
        let best = candidates
            .filter(|(_, volume)| selected.is_none() && suits(volume, claim, node))
            .min_by_key(|(name, volume)| {
                (volume.spec.as_ref().is_some_and(|s| s.claim_ref.is_none()), capacity(volume), *name)
            });
        if let Some((volume, _)) = best {
            taken.push(volume);
            actions.push(PreBindAction::BindVolume { volume: volume.clone(), namespace, claim: name });
        } else if !can_provision(claim, node, listers) {
            return Err(ERR_BIND);
        } else if has_space(claim, node, listers) {
            actions.push(PreBindAction::SelectNode { namespace, claim: name, node: node.name.to_string() });
        } else {
            return Err(ERR_NOT_ENOUGH_SPACE);
        }
    }
    Ok(actions)
}

fn check(claims: &Claims<'_>, node: &NodeInfo, listers: &Listers) -> Status {
    for name in &claims.bound {
        let Some(volume) = listers.volumes.get(*name) else { return Status::unresolvable(ERR_PV_NOT_EXIST) };
        if !reaches(volume, node) {
            return Status::unresolvable(ERR_NODE_CONFLICT);
        }
    }
    match plan(claims, node, listers) {
        Ok(_) => Status::success(),
        Err(reason) => Status::unresolvable(reason),
    }
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        "VolumeBinding"
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        // What claims and volumes look like may change without the node.
        if pod.claims.is_empty() { Depends::Silent } else { Depends::Cluster }
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        if pod.claims.is_empty() {
            return PreFilter::Skip;
        }
        let listers = &*snapshot.listers;
        match sort_claims(pod, listers) {
            Err(reason) => PreFilter::Reject(Status::unresolvable(reason)),
            Ok(claims) => PreFilter::Run(Box::new(move |node, _| check(&claims, node, listers))),
        }
    }

    fn pre_bind(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> Vec<PreBindAction> {
        if pod.claims.is_empty() {
            return Vec::new();
        }
        let claims = sort_claims(pod, &snapshot.listers).unwrap_or_default();
        plan(&claims, node, &snapshot.listers).unwrap_or_default()
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(_) => Hint::Queue,
            ClusterEvent::NodeUpdated { old, new } => Hint::queue_if(old.labels() != new.labels()),
            ClusterEvent::ObjectChanged("PersistentVolumeClaim", key) => Hint::queue_if(pod.uses_claim(key)),
            ClusterEvent::ObjectChanged(kind, _) => Hint::queue_if(
                !pod.claims.is_empty()
                    && matches!(
                        *kind,
                        "PersistentVolume" | "StorageClass" | "CSINode" | "CSIDriver" | "CSIStorageCapacity"
                    ),
            ),
            _ => Hint::Skip,
        }
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> Option<String> {
        let listers = &*snapshot.listers;
        let claims = sort_claims(pod, listers).ok()?;
        let far = claims
            .bound
            .iter()
            .filter(|name| listers.volumes.get(**name).is_none_or(|volume| !reaches(volume, node)));
        let far: Vec<String> = far.map(|name| format!("volume {name} isn't reachable from here")).collect();
        if !far.is_empty() {
            return Some(far.join(", "));
        }
        let names = claims.delayed.iter().map(|claim| claim.metadata.name.as_deref().unwrap_or(""));
        Some(format!("for claim(s) {}", names.collect::<Vec<_>>().join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn typed<T: serde::de::DeserializeOwned>(value: Value) -> Arc<T> {
        Arc::new(serde_json::from_value(value).unwrap())
    }

    /// A claim for 5Gi of a driver that publishes 10Gi in zone a and 2Gi in zone b.
    fn listers(tracked: bool) -> Listers {
        let mut listers = Listers::default();
        let class = json!({"metadata": {"name": "fast"}, "provisioner": "csi.example", "volumeBindingMode": "WaitForFirstConsumer"});
        crate::listers::set(&mut listers.storage_classes, "fast", Some(typed(class)));
        let claim = json!({"metadata": {"name": "c", "namespace": "w"},
            "spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "5Gi"}}}});
        crate::listers::set(&mut listers.claims, "w/c", Some(typed(claim)));
        let driver = json!({"metadata": {"name": "csi.example"}, "spec": {"storageCapacity": tracked}});
        crate::listers::set(&mut listers.csi_drivers, "csi.example", Some(typed(driver)));
        for (zone, size) in [("a", "10Gi"), ("b", "2Gi")] {
            let capacity = json!({"metadata": {"name": zone, "namespace": "x"}, "storageClassName": "fast", "capacity": size,
                "nodeTopology": {"matchLabels": {"zone": zone}}});
            crate::listers::set(&mut listers.capacities, zone, Some(typed(capacity)));
        }
        listers
    }

    fn node(zone: &str) -> NodeInfo {
        NodeInfo::of(typed(json!({"metadata": {"name": zone, "labels": {"zone": zone}}})))
    }

    #[test]
    fn a_volume_is_made_only_where_the_driver_has_space() {
        let pod = json!({"metadata": {"name": "p", "namespace": "w"},
            "spec": {"containers": [], "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}});
        let pod = PodInfo::new(typed(pod));
        let reason = |tracked: bool, zone: &str| {
            let listers = listers(tracked);
            let claims = sort_claims(&pod, &listers).unwrap();
            check(&claims, &node(zone), &listers).message()
        };
        assert_eq!([reason(true, "a"), reason(true, "b")], ["", ERR_NOT_ENOUGH_SPACE]);
        assert_eq!(reason(true, "elsewhere"), ERR_NOT_ENOUGH_SPACE);
        assert_eq!(reason(false, "b"), "");
    }
}
