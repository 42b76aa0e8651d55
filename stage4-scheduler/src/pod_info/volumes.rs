//! Volumes of a pod that limit where it can run.
//!
//! # In Kubernetes
//! `component-helpers/storage/ephemeral/ephemeral.go` (`VolumeClaimName`),
//! `pkg/scheduler/framework/plugins/volumerestrictions/volume_restrictions.go`.

use k8s_openapi::api::core::v1::{Pod, PodSpec, Volume};

/// A PersistentVolumeClaim that the pod uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodClaim {
    /// Name of the claim, in the pod's namespace.
    pub name: String,
    /// `namespace/name`.
    pub key: String,
    /// Made for this pod by a generic ephemeral volume.
    pub ephemeral: bool,
}

/// A disk that is attached to one node at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Which disk; two volumes with the same identity are one disk.
    pub identity: String,
    /// Mounted without writing.
    pub read_only: bool,
    /// Several pods of one node may share it if all only read.
    pub shareable: bool,
}

impl Disk {
    /// Can the two not be mounted on one node?
    pub fn conflicts(&self, other: &Disk) -> bool {
        self.identity == other.identity && !(self.shareable && self.read_only && other.read_only)
    }
}

pub(super) fn claims(pod: &Pod, spec: &PodSpec) -> Vec<PodClaim> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or("");
    let claim = |volume: &Volume| {
        let (name, ephemeral) = match (&volume.persistent_volume_claim, &volume.ephemeral) {
            (Some(source), _) => (source.claim_name.clone(), false),
            (None, Some(_)) => {
                (format!("{}-{}", pod.metadata.name.as_deref().unwrap_or(""), volume.name), true)
            }
            (None, None) => return None,
        };
        Some(PodClaim { key: format!("{namespace}/{name}"), name, ephemeral })
    };
    spec.volumes.iter().flatten().filter_map(claim).collect()
}

pub(super) fn disks(spec: &PodSpec) -> Vec<Disk> {
    let disk = |volume: &Volume| {
        if let Some(gce) = &volume.gce_persistent_disk {
            return Some(Disk {
                identity: format!("gce/{}", gce.pd_name),
                read_only: gce.read_only.unwrap_or(false),
                shareable: true,
            });
        }
        if let Some(ebs) = &volume.aws_elastic_block_store {
            return Some(Disk {
                identity: format!("ebs/{}", ebs.volume_id),
                read_only: false,
                shareable: false,
            });
        }
        if let Some(iscsi) = &volume.iscsi {
            return Some(Disk {
                identity: format!("iscsi/{}", iscsi.iqn),
                read_only: iscsi.read_only.unwrap_or(false),
                shareable: true,
            });
        }
        let rbd = volume.rbd.as_ref()?;
        Some(Disk {
            identity: format!("rbd/{}/{}", rbd.pool.as_deref().unwrap_or("rbd"), rbd.image),
            read_only: rbd.read_only.unwrap_or(false),
            shareable: true,
        })
    };
    spec.volumes.iter().flatten().filter_map(disk).collect()
}
