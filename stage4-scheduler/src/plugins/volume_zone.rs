//! VolumeZone: a pod runs in the zone where its volume is.
//!
//! Old volumes say their zone by labels; newer ones by node affinity, which [`super::volume_binding`] checks.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/volumezone/volume_zone.go`.

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, Status};
use crate::pod_info::PodInfo;
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

    fn hint(&self, _pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::NodeAdded(_) => Hint::Queue,
            ClusterEvent::NodeUpdated { old, new } => Hint::queue_if(old.labels() != new.labels()),
            ClusterEvent::ObjectChanged(kind) => {
                Hint::queue_if(matches!(*kind, "PersistentVolumeClaim" | "PersistentVolume" | "StorageClass"))
            }
            _ => Hint::Skip,
        }
    }
}
