//! One answer.

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

    fn observe(&self, key: &NamespacedName, _now: Timestamp) -> Option<Self::World> {
        self.pods.get(key)
    }

    fn reconcile(pod: &Self::World) -> Vec<Action> {
        let labels = pod.metadata.labels.clone().unwrap_or_default();
        let wanted = labels.get("quarantine").is_some_and(|value| value == "true");
        let going = pod.metadata.deletion_timestamp.is_some();
        // After the patch the label is gone, so a second look finds nothing to do.
        match labels.get("app").filter(|_| wanted && !going) {
            Some(app) => {
                let patch = json!({"metadata": {"labels": {"app": null, "was-app": app}}});
                vec![Action::patch(pod.as_ref(), patch, "it is in quarantine")]
            }
            None => Vec::new(),
        }
    }
}
