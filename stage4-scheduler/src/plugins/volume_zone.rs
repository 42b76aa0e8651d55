//! VolumeZone: a pod runs in the zone where its volume is.
//!
//! Old volumes say their zone by labels; newer ones by node affinity, which [`super::volume_binding`] checks.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/volumezone/volume_zone.go`.

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, Status};
use crate::listers::Listers;
use crate::pod_info::{PodClaim, PodInfo};
use crate::snapshot::Snapshot;

/// The reason that users see.
pub const ERR_REASON: &str = "node(s) had no available volume zone";

/// Labels that name a zone or region, with the current name of an old one.
const TOPOLOGY_LABELS: [(&str, &str); 4] = [
    ("failure-domain.beta.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("failure-domain.beta.kubernetes.io/region", "topology.kubernetes.io/region"),
    ("topology.kubernetes.io/zone", "topology.kubernetes.io/zone"),
    ("topology.kubernetes.io/region", "topology.kubernetes.io/region"),
];

/// Refuses nodes in another zone than a volume of the pod.
pub struct VolumeZone;

/// A claim without a volume is only all right if it waits for a node. (VolumeBinding says so earlier, if it is on.)
fn has_volume(claim: &PodClaim, listers: &Listers) -> Result<(), String> {
    let Some(object) = listers.claims.get(&claim.key) else {
        return Err(super::volume_binding::missing(claim));
    };
    let spec = object.spec.as_ref();
    let given = |name: Option<&String>| name.is_some_and(|name| !name.is_empty());
    if given(spec.and_then(|spec| spec.volume_name.as_ref())) {
        return Ok(());
    }
    let Some(class) = spec.and_then(|spec| spec.storage_class_name.as_ref()).filter(|name| !name.is_empty())
    else {
        return Err("PersistentVolumeClaim had no pv name and storageClass name".to_owned());
    };
    match listers.storage_classes.get(class) {
        None => Err(format!("storageclasses.storage.k8s.io {class:?} not found")),
        Some(class) if class.volume_binding_mode.as_deref() == Some("WaitForFirstConsumer") => Ok(()),
        Some(_) => Err("PersistentVolume had no name".to_owned()),
    }
}

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        "VolumeZone"
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        // What claims and volumes look like may change without the node.
        if pod.claims.is_empty() { Depends::Silent } else { Depends::Cluster }
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        let listers = &*snapshot.listers;
        // (label, its current name, allowed values)
        let mut required: Vec<(&str, &str, Vec<&str>)> = Vec::new();
        for claim in &pod.claims {
            if let Err(reason) = has_volume(claim, listers) {
                return PreFilter::Reject(Status::unresolvable(reason));
            }
            let volume = listers
                .claims
                .get(&claim.key)
                .and_then(|claim| claim.spec.as_ref()?.volume_name.as_ref())
                .and_then(|name| listers.volumes.get(name));
            let Some(labels) = volume.and_then(|volume| volume.metadata.labels.as_ref()) else { continue };
            for (label, current) in TOPOLOGY_LABELS {
                if let Some(zones) = labels.get(label) {
                    required.push((label, current, zones.split("__").collect()));
                }
            }
        }
        if required.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Run(Box::new(move |node, _| {
            // A node that says nothing about zones has no conflict.
            if !TOPOLOGY_LABELS.iter().any(|(label, _)| node.labels().contains_key(*label)) {
                return Status::success();
            }
            let fits = required.iter().all(|(label, current, zones)| {
                node.label(label).or_else(|| node.label(current)).is_some_and(|zone| zones.contains(&zone))
            });
            if fits { Status::success() } else { Status::unresolvable(ERR_REASON) }
        }))
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(_) => Hint::Queue,
            ClusterEvent::NodeUpdated { old, new } => Hint::queue_if(old.labels() != new.labels()),
            ClusterEvent::ObjectChanged("PersistentVolumeClaim", key) => Hint::queue_if(pod.uses_claim(key)),
            ClusterEvent::ObjectChanged("PersistentVolume" | "StorageClass", _) => Hint::Queue,
            _ => Hint::Skip,
        }
    }
}
