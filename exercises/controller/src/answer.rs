//! A controller that takes a pod with the label `quarantine: "true"` out of service: its label `app` becomes `was-app`.
//!
//! Its ReplicaSet and its Service look for `app`: one replaces it, the other sends it nothing any more, and the container runs on, to be looked at.
#![allow(unused_variables, unused_imports, reason = "the bodies are yours to write")]

use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;
use stage3_controllers::action::Action;
use stage3_controllers::controller::{Controller, Wakes};
use stage3_controllers::indexer::NamespacedName;
use stage3_controllers::informer::Store;

/// Takes pods out of service.
pub struct Quarantine {
    /// The local copy.
    pub pods: Store<Pod>,
}

impl Controller for Quarantine {
    const NAME: &'static str = "quarantine-controller";
    type World = Arc<Pod>;

    fn watch(self: &Arc<Self>, wakes: &mut Wakes<'_>) {
        wakes.on_own::<Pod>();
    }

    fn observe(&self, key: &NamespacedName, now: Timestamp) -> Option<Self::World> {
        todo!("the pod of this key, from the local copy")
    }

    fn reconcile(world: &Self::World) -> Vec<Action> {
        todo!("one patch for a pod in quarantine that still has its label; nothing for all others")
    }
}
