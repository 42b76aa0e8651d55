//! Pod accessors: the questions that every part of the kubelet asks of a Pod.
//!
//! *Beside the journey.* Before: a Pod as the API server stores it, nearly every field an `Option`. After: code that reads
//! like the sentence it implements (`pod.is_sidecar(c)`, `pod.qos_class()`).
//!
//! The generated types follow the wire format, where absence means a default. Unwrapping those defaults in every place
//! invites each place to choose another one; here each default is chosen once.
//!
//! # Invariants
//! 1. Nothing here depends on more than the Pod itself.
//! 2. A container's hash depends on its name and image only: the two fields that may change in a running pod.
//!
//! # In Kubernetes
//! `pkg/kubelet/container/helpers.go`, `pkg/api/v1/pod/util.go`, `pkg/apis/core/v1/helper/qos/qos.go`. Left out: Windows, pod-level
//! resources (alpha in 1.33).

use std::collections::BTreeMap;
use std::sync::LazyLock;

use k8s_openapi::api::core::v1::{Container, EphemeralContainer, Pod, PodSpec, ResourceRequirements};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::quantity::{milli_value, value};

/// How a pod's requests and limits rank it when the node runs short.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QosClass {
    /// Every container has cpu and memory limits equal to its requests.
    Guaranteed,
    /// Something is requested or limited.
    Burstable,
    /// Nothing is requested.
    BestEffort,
}

impl QosClass {
    /// The word in `status.qosClass`.
    pub fn as_str(self) -> &'static str {
        match self {
            QosClass::Guaranteed => "Guaranteed",
            QosClass::Burstable => "Burstable",
            QosClass::BestEffort => "BestEffort",
        }
    }
}

/// Annotation that says where a pod came from (`file`, `api`).
pub const CONFIG_SOURCE_ANNOTATION: &str = "kubernetes.io/config.source";
/// Annotation of a static pod: the hash of its manifest, stable over restarts.
pub const CONFIG_HASH_ANNOTATION: &str = "kubernetes.io/config.hash";
/// Annotation of the API object that mirrors a static pod.
pub const CONFIG_MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

static EMPTY: LazyLock<PodSpec> = LazyLock::new(PodSpec::default);

/// Questions to a Pod.
pub trait PodExt {
    /// The spec; an empty one where the object has none.
    fn spec_ref(&self) -> &PodSpec;
    /// `metadata.name`.
    fn pod_name(&self) -> &str;
    /// `metadata.namespace`.
    fn pod_namespace(&self) -> &str;
    /// The identity that labels containers: for a mirror pod the UID of the static pod behind it.
    fn pod_uid(&self) -> &str;
    /// `metadata.annotations[key]`.
    fn annotation(&self, key: &str) -> Option<&str>;
    /// `namespace/name`, for logs.
    fn key(&self) -> String {
        format!("{}/{}", self.pod_namespace(), self.pod_name())
    }
    /// `name_namespace(uid)`, as messages write a pod.
    fn format(&self) -> String {
        format!("{}_{}({})", self.pod_name(), self.pod_namespace(), self.pod_uid())
    }
    /// `spec.initContainers`.
    fn init_containers(&self) -> &[Container] {
        self.spec_ref().init_containers.as_deref().unwrap_or_default()
    }
    /// `spec.containers`.
    fn containers(&self) -> &[Container] {
        &self.spec_ref().containers
    }
    /// Init and regular containers, in start order.
    fn all_containers(&self) -> impl Iterator<Item = &Container> {
        self.init_containers().iter().chain(self.containers())
    }
    /// `spec.restartPolicy`, default `Always`.
    fn restart_policy(&self) -> &str {
        self.spec_ref().restart_policy.as_deref().unwrap_or("Always")
    }
    /// Whether the pod shares the node's network namespace.
    fn host_network(&self) -> bool {
        self.spec_ref().host_network.unwrap_or(false)
    }
    /// Whether somebody asked for the pod's deletion.
    fn is_deleting(&self) -> bool;
    /// Whether the pod's phase can never change again.
    fn is_terminal(&self) -> bool;
    /// Whether the pod came from a manifest file.
    fn is_static(&self) -> bool {
        self.annotation(CONFIG_SOURCE_ANNOTATION).is_some_and(|s| s != "api")
    }
    /// Whether this API object is the mirror of a static pod.
    fn is_mirror(&self) -> bool {
        self.annotation(CONFIG_MIRROR_ANNOTATION).is_some()
    }
    /// The grace period of a stop, in seconds: the deletion's, else the spec's, else 30.
    fn grace_period_seconds(&self) -> i64;
    /// The QoS class by the rule over all containers.
    fn qos_class(&self) -> QosClass {
        qos_class(self.all_containers().filter_map(|c| c.resources.as_ref()), self.all_containers().count())
    }
}

impl PodExt for Pod {
    fn spec_ref(&self) -> &PodSpec {
        self.spec.as_ref().unwrap_or(&EMPTY)
    }
    fn pod_name(&self) -> &str {
        self.metadata.name.as_deref().unwrap_or_default()
    }
    fn pod_namespace(&self) -> &str {
        self.metadata.namespace.as_deref().unwrap_or("default")
    }
    fn pod_uid(&self) -> &str {
        self.metadata.uid.as_deref().unwrap_or_default()
    }
    fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotations.as_ref()?.get(key).map(String::as_str)
    }
    fn is_deleting(&self) -> bool {
        self.metadata.deletion_timestamp.is_some()
    }
    fn is_terminal(&self) -> bool {
        matches!(self.status.as_ref().and_then(|s| s.phase.as_deref()), Some("Succeeded" | "Failed"))
    }
    fn grace_period_seconds(&self) -> i64 {
        self.metadata
            .deletion_grace_period_seconds
            .or(self.spec_ref().termination_grace_period_seconds)
            .unwrap_or(30)
    }
}

/// Whether an init container stays (a sidecar): `restartPolicy: Always` of its own.
pub fn is_sidecar(container: &Container) -> bool {
    container.restart_policy.as_deref() == Some("Always")
}

/// Where a container stands in the spec; the word is part of an event's `fieldPath`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContainerKind {
    /// `spec.initContainers`
    Init,
    /// `spec.containers`
    Regular,
    /// `spec.ephemeralContainers`
    Ephemeral,
}

impl ContainerKind {
    /// `spec.containers{name}`, the field path of an event about the container.
    pub fn field_path(self, name: &str) -> String {
        let list = match self {
            ContainerKind::Init => "initContainers",
            ContainerKind::Regular => "containers",
            ContainerKind::Ephemeral => "ephemeralContainers",
        };
        format!("spec.{list}{{{name}}}")
    }
}

/// The container of that name with its kind; ephemeral ones as plain containers.
pub fn find_container(pod: &Pod, name: &str) -> Option<(ContainerKind, Container)> {
    let named = |list: &[Container]| list.iter().find(|c| c.name == name).cloned();
    named(pod.containers())
        .map(|c| (ContainerKind::Regular, c))
        .or_else(|| named(pod.init_containers()).map(|c| (ContainerKind::Init, c)))
        .or_else(|| named(&ephemeral_containers(pod)).map(|c| (ContainerKind::Ephemeral, c)))
}

/// The ephemeral containers of a pod as plain containers.
pub fn ephemeral_containers(pod: &Pod) -> Vec<Container> {
    pod.spec_ref().ephemeral_containers.iter().flatten().map(as_container).collect()
}

fn as_container(e: &EphemeralContainer) -> Container {
    Container {
        name: e.name.clone(),
        image: e.image.clone(),
        command: e.command.clone(),
        args: e.args.clone(),
        working_dir: e.working_dir.clone(),
        env: e.env.clone(),
        env_from: e.env_from.clone(),
        resources: e.resources.clone(),
        volume_mounts: e.volume_mounts.clone(),
        volume_devices: e.volume_devices.clone(),
        image_pull_policy: e.image_pull_policy.clone(),
        security_context: e.security_context.clone(),
        stdin: e.stdin,
        stdin_once: e.stdin_once,
        tty: e.tty,
        termination_message_path: e.termination_message_path.clone(),
        termination_message_policy: e.termination_message_policy.clone(),
        ..Container::default()
    }
}

/// The hash that tells whether a running container still is what the spec asks for.
///
/// FNV-1a (32 bit) over the JSON of the fields that may change in place, as `HashContainer` does.
pub fn hash_container(container: &Container) -> String {
    let picked = BTreeMap::from([
        ("name", container.name.as_str()),
        ("image", container.image.as_deref().unwrap_or("")),
    ]);
    let json = serde_json::to_string(&picked).expect("a map of strings always encodes");
    let hash = json.bytes().fold(0x811c_9dc5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    format!("{hash:x}")
}

/// A container's request for one resource; where only a limit is given, the limit counts.
pub fn request<'a>(resources: &'a ResourceRequirements, name: &str) -> Option<&'a Quantity> {
    resources.requests.as_ref().and_then(|r| r.get(name)).or_else(|| limit(resources, name))
}

/// A container's limit for one resource.
pub fn limit<'a>(resources: &'a ResourceRequirements, name: &str) -> Option<&'a Quantity> {
    resources.limits.as_ref().and_then(|r| r.get(name))
}

fn qos_class<'a>(all: impl Iterator<Item = &'a ResourceRequirements>, containers: usize) -> QosClass {
    let (mut any, mut guaranteed, mut seen) = (false, true, 0);
    for r in all {
        seen += 1;
        for name in ["cpu", "memory"] {
            let want = request(r, name).map(milli_value).filter(|v| *v > 0);
            let cap = limit(r, name).map(milli_value).filter(|v| *v > 0);
            any |= want.is_some() || cap.is_some();
            guaranteed &= cap.is_some() && want == cap;
        }
    }
    match (any, guaranteed && seen == containers) {
        (false, _) => QosClass::BestEffort,
        (true, true) => QosClass::Guaranteed,
        (true, false) => QosClass::Burstable,
    }
}

/// What a whole pod needs of one resource, in the unit that `measure` returns.
///
/// Regular containers and sidecars run together, so they add up; an ordinary init container runs beside the
/// sidecars started before it, so the maximum of those moments counts.
pub fn pod_total(pod: &Pod, name: &str, pick: Pick, measure: fn(&Quantity) -> i64) -> i64 {
    let of = |c: &Container| {
        let r = c.resources.as_ref();
        let q = match pick {
            Pick::Requests => r.and_then(|r| request(r, name)),
            Pick::Limits => r.and_then(|r| limit(r, name)),
        };
        q.map_or(0, measure)
    };
    let (mut sidecars, mut peak) = (0, 0);
    for c in pod.init_containers() {
        if is_sidecar(c) {
            sidecars += of(c);
            peak = peak.max(sidecars);
        } else {
            peak = peak.max(sidecars + of(c));
        }
    }
    let running: i64 = sidecars + pod.containers().iter().map(of).sum::<i64>();
    let overhead = pod.spec_ref().overhead.as_ref().and_then(|o| o.get(name)).map_or(0, measure);
    running.max(peak) + overhead
}

/// Which half of a container's resources [`pod_total`] adds up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pick {
    /// `resources.requests` (a missing one takes the limit)
    Requests,
    /// `resources.limits`
    Limits,
}

/// Bytes (or units) of a quantity, rounded up; a convenience for [`pod_total`].
pub fn units(q: &Quantity) -> i64 {
    value(q)
}

#[cfg(test)]
mod tests;
