//! NodeVolumeLimits: a node can attach only so many volumes of one driver.
//!
//! Storage drivers publish the limit per node in CSINode objects. Volumes are counted once per node,
//! however many pods use them; a claim that waits for its volume counts as one of its class's driver.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/nodevolumelimits/csi.go`. Left out: in-tree volumes that a driver took
//! over (migration), VolumeAttachments of pods that are gone.

use std::collections::BTreeSet;

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, Status};
use crate::listers::Listers;
use crate::node_info::NodeInfo;
use crate::pod_info::PodInfo;
use crate::snapshot::Snapshot;

/// The reason that users see.
pub const ERR_REASON: &str = "node(s) exceed max volume count";

/// Refuses nodes that can't attach the pod's volumes any more.
pub struct NodeVolumeLimits;

/// Driver and volume of each of the claims; without a volume yet, the driver that will make one.
fn attachments<'k>(claims: impl Iterator<Item = &'k str>, listers: &Listers) -> BTreeSet<(String, String)> {
    claims
        .filter_map(|key| {
            let spec = listers.claims.get(key)?.spec.as_ref()?;
            let Some(volume) = spec.volume_name.as_ref().filter(|name| !name.is_empty()) else {
                let class = listers.storage_classes.get(spec.storage_class_name.as_ref()?)?;
                return Some((class.provisioner.clone(), key.to_owned()));
            };
            let csi = listers.volumes.get(volume)?.spec.as_ref()?.csi.as_ref()?;
            Some((csi.driver.clone(), csi.volume_handle.clone()))
        })
        .collect()
}

fn check(wanted: &BTreeSet<(String, String)>, node: &NodeInfo, listers: &Listers) -> Status {
    let Some(csi_node) = listers.csi_nodes.get(&*node.name) else { return Status::success() };
    let used = attachments(node.claims.keys().map(String::as_str), listers);
    for driver in &csi_node.spec.drivers {
        let Some(limit) = driver.allocatable.as_ref().and_then(|allocatable| allocatable.count) else {
            continue;
        };
        let of_driver =
            |set: &BTreeSet<(String, String)>| set.iter().filter(|(name, _)| *name == driver.name).count();
        let new: BTreeSet<_> = wanted.difference(&used).cloned().collect();
        let new = of_driver(&new);
        if new > 0 && of_driver(&used) + new > usize::try_from(limit).unwrap_or(0) {
            return Status::unschedulable(ERR_REASON);
        }
    }
    Status::success()
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        "NodeVolumeLimits"
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        // What claims and volumes look like may change without the node.
        if pod.claims.is_empty() { Depends::Silent } else { Depends::Cluster }
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        let listers = &*snapshot.listers;
        let wanted = attachments(pod.claims.iter().map(|claim| claim.key.as_str()), listers);
        if wanted.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Run(Box::new(move |node, _| check(&wanted, node, listers)))
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::AssignedPodDeleted(gone) => Hint::queue_if(!gone.claims.is_empty()),
            ClusterEvent::NodeAdded(_) => Hint::Queue,
            ClusterEvent::ObjectChanged("CSINode", _) => Hint::Queue,
            ClusterEvent::ObjectChanged("PersistentVolumeClaim", key) => Hint::queue_if(pod.uses_claim(key)),
            _ => Hint::Skip,
        }
    }

    fn explain(&self, pod: &PodInfo, node: &NodeInfo, snapshot: &Snapshot) -> Option<String> {
        let listers = &*snapshot.listers;
        let wanted = attachments(pod.claims.iter().map(|claim| claim.key.as_str()), listers);
        let used = attachments(node.claims.keys().map(String::as_str), listers);
        let drivers = &listers.csi_nodes.get(&*node.name)?.spec.drivers;
        let of = |set: &BTreeSet<(String, String)>, driver: &str| {
            set.iter().filter(|(name, _)| name == driver).count()
        };
        let limits = drivers.iter().filter(|driver| of(&wanted, &driver.name) > 0).filter_map(|driver| {
            let limit = driver.allocatable.as_ref()?.count?;
            let (used, wanted) = (of(&used, &driver.name), of(&wanted, &driver.name));
            Some(format!("{}: {used} of {limit} volumes are attached, the pod has {wanted}", driver.name))
        });
        Some(limits.collect::<Vec<_>>().join("; "))
    }
}
