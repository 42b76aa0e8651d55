//! VolumeRestrictions: disks and claims that can't be shared.
//!
//! A claim with access mode `ReadWriteOncePod` serves one pod in the whole cluster; some disks can't be
//! mounted twice on one node.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`.

use crate::framework::{ClusterEvent, Depends, Hint, Plugin, PreFilter, Status, WhatIf};
use crate::node_info::NodeInfo;
use crate::pod_info::{PodClaim, PodInfo};
use crate::snapshot::Snapshot;

/// The reason if a disk is in use.
pub const ERR_DISK: &str = "node(s) had no available disk";
/// The reason if a claim for one pod is in use.
pub const ERR_ONE_POD: &str =
    "node has pod using PersistentVolumeClaim with the same name and ReadWriteOncePod access mode";

/// Refuses nodes where a disk conflicts, and all nodes while a claim for one pod is in use.
pub struct VolumeRestrictions;

/// Number of uses of those claims by the given pods.
fn uses(claims: &[&PodClaim], other: &PodInfo) -> i64 {
    other.claims.iter().filter(|used| claims.iter().any(|claim| claim.key == used.key)).count() as i64
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        "VolumeRestrictions"
    }

    fn depends(&self, pod: &PodInfo) -> Depends<'_> {
        if pod.claims.is_empty() && pod.disks.is_empty() { Depends::Silent } else { Depends::Cluster }
    }

    fn pre_filter<'a>(&'a self, pod: &'a PodInfo, snapshot: &'a Snapshot) -> PreFilter<'a> {
        let mut for_one_pod = Vec::new();
        for claim in &pod.claims {
            let Some(object) = snapshot.listers.claims.get(&claim.key) else {
                return PreFilter::Reject(Status::unresolvable(super::volume_binding::missing(claim)));
            };
            let modes = object.spec.as_ref().and_then(|spec| spec.access_modes.as_ref());
            if modes.is_some_and(|modes| modes.iter().any(|mode| mode == "ReadWriteOncePod")) {
                for_one_pod.push(claim);
            }
        }
        if for_one_pod.is_empty() && pod.disks.is_empty() {
            return PreFilter::Skip;
        }
        let used: i64 = snapshot
            .nodes()
            .iter()
            .filter(|node| for_one_pod.iter().any(|claim| node.claims.contains_key(&claim.key)))
            .flat_map(|node| &node.pods)
            .map(|other| uses(&for_one_pod, other))
            .sum();
        PreFilter::Run(Box::new(move |node: &NodeInfo, what_if: &WhatIf<'_>| {
            if pod
                .disks
                .iter()
                .any(|disk| node.pods.iter().flat_map(|p| &p.disks).any(|other| disk.conflicts(other)))
            {
                return Status::unschedulable(ERR_DISK);
            }
            if used + what_if.difference(|other| uses(&for_one_pod, other)) > 0 {
                return Status::unschedulable(ERR_ONE_POD);
            }
            Status::success()
        }))
    }

    fn hint(&self, pod: &PodInfo, event: &ClusterEvent) -> Hint {
        match event {
            ClusterEvent::AssignedPodDeleted(gone) => {
                let all: Vec<&PodClaim> = pod.claims.iter().collect();
                let frees_disk =
                    gone.disks.iter().any(|used| pod.disks.iter().any(|disk| disk.conflicts(used)));
                Hint::queue_if(frees_disk || uses(&all, gone) > 0)
            }
            ClusterEvent::NodeAdded(_) => Hint::queue_if(!pod.disks.is_empty()),
            ClusterEvent::ObjectChanged("PersistentVolumeClaim", key) => Hint::queue_if(pod.uses_claim(key)),
            _ => Hint::Skip,
        }
    }
}
