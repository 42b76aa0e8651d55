//! Volume protection: a volume goes only when nobody uses it.
//!
//! *After the last step of a pod's journey.* The API server's admission gives each claim and each volume a finalizer. Who deletes a claim that a pod still
//! uses gets it as `Terminating`; this file takes the finalizer away once the last pod is gone. So no running pod loses its data.
//!
//! The subtle thing is a pod without a node: it does not count, because no kubelet will start it on a claim that is being deleted.
//!
//! # Invariants
//! 1. Only the finalizer of what is being deleted is taken away, and only this one.
//! 2. The patch names the version that was looked at.
//!
//! # In Kubernetes
//! `pkg/controller/volume/{pvcprotection/pvc_protection_controller.go, pvprotection/pv_protection_controller.go}`. Left out: the live list of pods before the
//! finalizer goes; adding a finalizer that admission did not.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::jiff::Timestamp;
use serde_json::json;

use crate::action::Action;
use crate::controller::{Controller, Wakes};
use crate::indexer::{Cached, NamespacedName};
use crate::informer::factory::InformerFactory;
use crate::informer::{Event, Store};
use crate::owner::is_controlled_by;
use crate::pod::PodExt;

const CLAIM_FINALIZER: &str = "kubernetes.io/pvc-protection";
const VOLUME_FINALIZER: &str = "kubernetes.io/pv-protection";

/// The patch that takes a finalizer away.
fn without_finalizer<K: k8s_openapi::Resource + Cached>(object: &K, finalizer: &str, why: &str) -> Action {
    let mut rest = object.meta().finalizers.clone().unwrap_or_default();
    rest.retain(|one| one != finalizer);
    let patch = json!({"metadata": {"finalizers": rest, "resourceVersion": object.meta().resource_version}});
    Action::patch(object, patch, why)
}

fn waits_for<K: Cached>(object: &K, finalizer: &str) -> bool {
    let has = |all: &Vec<String>| all.iter().any(|one| one == finalizer);
    object.is_being_deleted() && object.meta().finalizers.as_ref().is_some_and(has)
}

/// Names of the claims that a pod uses; an ephemeral volume's claim is named after pod and volume.
fn claims_of(pod: &Pod) -> Vec<String> {
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    let name = volumes.filter_map(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(claim), _) => Some(claim.claim_name.clone()),
        (None, Some(_)) => Some(format!("{}-{}", pod.object_name(), volume.name)),
        (None, None) => None,
    });
    name.collect()
}

fn uses(pod: &Pod, claim: &PersistentVolumeClaim) -> bool {
    // The kubelet is done with a pod that is being deleted and has no time left.
    let shut_down = pod.is_being_deleted() && pod.meta().deletion_grace_period_seconds == Some(0);
    if pod.node_name().is_empty() || shut_down {
        return false;
    }
    let volumes = pod.spec.iter().flat_map(|spec| spec.volumes.iter().flatten());
    volumes.into_iter().any(|volume| match (&volume.persistent_volume_claim, &volume.ephemeral) {
        (Some(used), _) => used.claim_name == claim.object_name(),
        (None, Some(_)) => {
            format!("{}-{}", pod.object_name(), volume.name) == claim.object_name()
                && is_controlled_by(claim.meta(), pod.uid())
        }
        (None, None) => false,
    })
}

/// Protects claims, with the copies that it reads.
pub struct ClaimProtection {
    claims: Store<PersistentVolumeClaim>,
    pods: Store<Pod>,
}

impl ClaimProtection {
    /// A controller on these copies.
    pub fn new(factory: &InformerFactory) -> ClaimProtection {
        ClaimProtection { claims: factory.store(), pods: factory.store() }
    }
}

impl Controller for ClaimProtection {
    const NAME: &'static str = "persistentvolumeclaim-protection-controller";
    type World = (Arc<PersistentVolumeClaim>, Vec<Arc<Pod>>);

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<PersistentVolumeClaim>();
        wakes.on::<Pod>(|event| {
            let gone = matches!(event, Event::Deleted(_));
            let pod =
                event.object().filter(|pod| gone || pod.is_being_deleted() || pod.node_name().is_empty());
            let key = |pod: &Arc<Pod>, name: String| NamespacedName::new(pod.object_namespace(), name);
            pod.iter().flat_map(|pod| claims_of(pod).into_iter().map(|name| key(pod, name))).collect()
        });
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<Self::World> {
        let claim = self.claims.get(key).filter(|claim| waits_for(claim.as_ref(), CLAIM_FINALIZER))?;
        Some((claim, self.pods.in_namespace(&key.namespace)))
    }

    fn reconcile((claim, pods): &Self::World) -> Vec<Action> {
        if !waits_for(claim.as_ref(), CLAIM_FINALIZER) || pods.iter().any(|pod| uses(pod, claim)) {
            return Vec::new();
        }
        vec![without_finalizer(claim.as_ref(), CLAIM_FINALIZER, "no pod uses it any longer")]
    }
}

/// Protects volumes.
pub struct VolumeProtection {
    volumes: Store<PersistentVolume>,
}

impl VolumeProtection {
    /// A controller on this copy.
    pub fn new(factory: &InformerFactory) -> VolumeProtection {
        VolumeProtection { volumes: factory.store() }
    }
}

impl Controller for VolumeProtection {
    const NAME: &'static str = "persistentvolume-protection-controller";
    type World = Arc<PersistentVolume>;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<PersistentVolume>();
    }

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<Self::World> {
        self.volumes.get(key)
    }

    fn reconcile(volume: &Self::World) -> Vec<Action> {
        let bound = volume.status.as_ref().is_some_and(|status| status.phase.as_deref() == Some("Bound"));
        if bound || !waits_for(volume.as_ref(), VOLUME_FINALIZER) {
            return Vec::new();
        }
        vec![without_finalizer(volume.as_ref(), VOLUME_FINALIZER, "no claim is bound to it")]
    }
}

#[cfg(test)]
mod tests;
