//! Events about pods, containers and the node.
//!
//! *Beside the journey.* Before: something happened that a user should see in `kubectl describe`. After: stage 3's recorder writes it.
//!
//! # Invariants
//! 1. An event about a container names it in `fieldPath`.
//!
//! # In Kubernetes
//! `pkg/kubelet/container/ref.go`, `recordContainerEvent`; the reasons are those of `pkg/kubelet/events/event.go`.

use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use stage3_controllers::action::EventText;

use crate::kubelet::Kubelet;
use crate::pod::{ContainerKind, PodExt};

/// A reference to the pod.
pub fn pod_reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        namespace: Some(pod.pod_namespace().to_owned()),
        name: Some(pod.pod_name().to_owned()),
        uid: pod.metadata.uid.clone(),
        resource_version: pod.metadata.resource_version.clone(),
        field_path: None,
    }
}

impl Kubelet {
    /// Records an event about a pod.
    pub fn pod_event(&self, pod: &Pod, text: EventText) {
        self.events.event(&pod_reference(pod), &text);
    }

    /// Records an event about one container of a pod.
    pub fn container_event(&self, pod: &Pod, kind: ContainerKind, container: &str, text: EventText) {
        let about = ObjectReference { field_path: Some(kind.field_path(container)), ..pod_reference(pod) };
        self.events.event(&about, &text);
    }

    /// Records an event about this node.
    pub fn node_event(&self, text: EventText) {
        let name = Some(self.config.node_name.clone());
        // The UID is the name: events of the node are grouped even before it is registered.
        let about = ObjectReference {
            kind: Some("Node".to_owned()),
            uid: name.clone(),
            name,
            ..ObjectReference::default()
        };
        self.events.event(&about, &text);
    }
}
