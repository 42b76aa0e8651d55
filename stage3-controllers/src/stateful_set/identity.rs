//! Identity: the name, the host name and the volumes that belong to a number.
//!
//! # In Kubernetes
//! `pkg/controller/statefulset/stateful_set_utils.go` (`newVersionedStatefulSetPod`, `updateIdentity`, `updateStorage`).

use k8s_openapi::api::apps::v1::{ControllerRevision, StatefulSet, StatefulSetSpec};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimVolumeSource, Pod, PodTemplateSpec, Volume,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::controller_revision::HASH;
use crate::indexer::Cached;
use crate::pod_template::pod_from_template;

/// Label that carries the pod's name.
pub const POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// Label that carries the pod's number.
pub const POD_INDEX: &str = "apps.kubernetes.io/pod-index";

/// `db-2`.
pub fn name(set: &StatefulSet, number: i32) -> String {
    format!("{}-{number}", set.object_name())
}

/// The number in a pod's name, if the name is the set's.
pub fn number_of(set: &StatefulSet, pod: &Pod) -> Option<i32> {
    let (stem, number) = pod.object_name().rsplit_once('-')?;
    number.parse().ok().filter(|_| stem == set.object_name())
}

/// The template that a revision stores.
pub fn template_of(revision: &ControllerRevision) -> Option<PodTemplateSpec> {
    let template = revision.data.as_ref()?.0.pointer("/spec/template")?;
    serde_json::from_value(template.clone()).ok()
}

/// The claims of a number: one for each claim template.
pub fn claims(set: &StatefulSet, spec: &StatefulSetSpec, number: i32) -> Vec<PersistentVolumeClaim> {
    let templates = spec.volume_claim_templates.iter().flatten();
    let one = |template: &PersistentVolumeClaim| {
        let mut labels = template.metadata.labels.clone().unwrap_or_default();
        labels.extend(spec.selector.match_labels.clone().unwrap_or_default());
        PersistentVolumeClaim {
            metadata: ObjectMeta {
                name: Some(format!("{}-{}", template.object_name(), name(set, number))),
                namespace: set.metadata.namespace.clone(),
                labels: Some(labels),
                annotations: template.metadata.annotations.clone(),
                ..ObjectMeta::default()
            },
            spec: template.spec.clone(),
            status: None,
        }
    };
    templates.map(one).collect()
}

/// The pod of a number.
pub fn pod(
    set: &StatefulSet,
    spec: &StatefulSetSpec,
    template: &PodTemplateSpec,
    number: i32,
    revision: &str,
) -> Pod {
    let mut pod = pod_from_template(template, set);
    pod.metadata.generate_name = Some(format!("{}-", set.object_name()));
    pod.metadata.name = Some(name(set, number));
    let labels = pod.metadata.labels.get_or_insert_default();
    labels.insert(POD_NAME.to_owned(), name(set, number));
    labels.insert(POD_INDEX.to_owned(), number.to_string());
    labels.insert(HASH.to_owned(), revision.to_owned());
    if let Some(pod_spec) = &mut pod.spec {
        pod_spec.hostname = Some(name(set, number));
        pod_spec.subdomain = spec.service_name.clone().filter(|service| !service.is_empty());
        let volumes = pod_spec.volumes.get_or_insert_default();
        for template in spec.volume_claim_templates.iter().flatten() {
            let claim = PersistentVolumeClaimVolumeSource {
                claim_name: format!("{}-{}", template.object_name(), name(set, number)),
                read_only: Some(false),
            };
            volumes.retain(|volume| volume.name != template.object_name());
            volumes.push(Volume {
                name: template.object_name().to_owned(),
                persistent_volume_claim: Some(claim),
                ..Volume::default()
            });
        }
        if volumes.is_empty() {
            pod_spec.volumes = None;
        }
    }
    pod
}
