//! Container spec: a Pod as CRI configurations.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::pod_actions`] wants a sandbox or a container. After: [`crate::cri`] receives it.
//!
//! The API speaks of containers as users think of them, CRI as kernels do: a user id instead of `runAsNonRoot`, CPU shares
//! instead of cores, masked paths instead of `procMount`. The translation is pure, so each rule has a test without a runtime.
//!
//! Labels and annotations written here are the kubelet's only memory: [`crate::runtime_view`] reads them back.
//!
//! # Invariants
//! 1. A container never gets more than its pod: privileged needs a privileged sandbox.
//! 2. `runAsNonRoot` is checked before anything is created.
//!
//! # In Kubernetes
//! `generatePodSandboxConfig`, `generateContainerConfig` in `pkg/kubelet/kuberuntime`, `pkg/securitycontext/util.go`. Left out: SELinux,
//! AppArmor, user namespaces, devices, huge pages.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod};

use crate::cri::sim::RUNS_TO_COMPLETION;
use crate::cri::{
    ContainerConfig, ContainerMetadata, Mount, PodSandboxConfig, PodSandboxMetadata, PortMapping,
};
use crate::dns::NodeDns;
use crate::env::expansion::expand;
use crate::etc_hosts::hostname_and_domain;
use crate::pod::{PodExt, hash_container, is_sidecar};
use crate::runtime_view::labels;

pub mod resources;
pub mod security;

pub use security::{ImageUser, verify_run_as_non_root};

/// What the node adds to every pod's configuration.
#[derive(Clone, Debug, Default)]
pub struct NodeFacts {
    /// DNS settings.
    pub dns: NodeDns,
    /// Folder that holds a log folder for each pod.
    pub pod_logs_dir: String,
    /// Folder of seccomp profiles.
    pub seccomp_dir: String,
    /// Memory of the node, in bytes: the scale of OOM scores.
    pub memory_bytes: i64,
    /// Whether the node has only cgroup v2.
    pub cgroup_v2: bool,
}

/// `NAMESPACE_NAME_UID`, the folder of a pod's logs.
pub fn pod_log_directory(pod: &Pod, node: &NodeFacts) -> String {
    format!("{}/{}_{}_{}", node.pod_logs_dir, pod.pod_namespace(), pod.pod_name(), pod.pod_uid())
}

/// How to make the pod's sandbox.
pub fn pod_sandbox_config(
    pod: &Pod,
    attempt: u32,
    cgroup_parent: &str,
    node: &NodeFacts,
) -> PodSandboxConfig {
    let (hostname, _) = hostname_and_domain(pod, &node.dns.cluster_domain);
    let (dns_config, _) = crate::dns::pod_dns(pod, &node.dns);
    let mut labels = pod.metadata.labels.clone().unwrap_or_default();
    labels.extend(pod_labels(pod));
    PodSandboxConfig {
        metadata: PodSandboxMetadata {
            name: pod.pod_name().to_owned(),
            uid: pod.pod_uid().to_owned(),
            namespace: pod.pod_namespace().to_owned(),
            attempt,
        },
        // Without a UTS namespace of its own the name is the node's.
        hostname: if pod.host_network() { String::new() } else { hostname },
        log_directory: pod_log_directory(pod, node),
        dns_config,
        port_mappings: port_mappings(pod),
        labels,
        annotations: pod.metadata.annotations.clone().unwrap_or_default(),
        cgroup_parent: cgroup_parent.to_owned(),
        sysctls: security::sysctls(pod),
        security: security::sandbox_security(pod),
    }
}

fn pod_labels(pod: &Pod) -> [(String, String); 3] {
    [
        (labels::POD_NAME.to_owned(), pod.pod_name().to_owned()),
        (labels::POD_NAMESPACE.to_owned(), pod.pod_namespace().to_owned()),
        (labels::POD_UID.to_owned(), pod.pod_uid().to_owned()),
    ]
}

fn port_mappings(pod: &Pod) -> Vec<PortMapping> {
    if pod.host_network() {
        return Vec::new();
    }
    let ports = pod.all_containers().flat_map(|c| c.ports.iter().flatten());
    ports
        .filter(|p| p.host_port.unwrap_or(0) > 0)
        .map(|p| PortMapping {
            protocol: p.protocol.clone().unwrap_or_else(|| "TCP".to_owned()),
            container_port: p.container_port,
            host_port: p.host_port.unwrap_or(0),
            host_ip: p.host_ip.clone().unwrap_or_default(),
        })
        .collect()
}

/// What the shell found out for one container before it is made.
#[derive(Clone, Debug, Default)]
pub struct ContainerInputs {
    /// Which try this is, from zero.
    pub attempt: u32,
    /// What the image resolved to.
    pub image_ref: String,
    /// The user of the image's configuration.
    pub image_user: ImageUser,
    /// The variables.
    pub env: BTreeMap<String, String>,
    /// The mounts, volumes and the kubelet's own.
    pub mounts: Vec<Mount>,
    /// Id of the container whose processes an ephemeral container shall see.
    pub target_id: Option<String>,
}

// ANCHOR: container-config
/// How to make one container of the pod.
///
/// # Errors
/// The pod demands a user that is not root and the image doesn't promise one.
pub fn container_config(
    pod: &Pod,
    container: &Container,
    inputs: &ContainerInputs,
    node: &NodeFacts,
) -> Result<ContainerConfig, String> {
    verify_run_as_non_root(pod, container, &inputs.image_user)?;
    let expand_all = |list: &Option<Vec<String>>| -> Vec<String> {
        list.iter().flatten().map(|text| expand(text, |name| inputs.env.get(name).cloned())).collect()
    };
    let mut labels = BTreeMap::from(pod_labels(pod));
    labels.insert(labels::CONTAINER_NAME.to_owned(), container.name.clone());
    Ok(ContainerConfig {
        metadata: ContainerMetadata { name: container.name.clone(), attempt: inputs.attempt },
        image: inputs.image_ref.clone(),
        user_specified_image: container.image.clone().unwrap_or_default(),
        command: expand_all(&container.command),
        args: expand_all(&container.args),
        working_dir: container.working_dir.clone().unwrap_or_default(),
        envs: inputs.env.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
        mounts: inputs.mounts.clone(),
        labels,
        annotations: container_annotations(pod, container, inputs.attempt),
        log_path: format!("{}/{}.log", container.name, inputs.attempt),
        stdin: container.stdin.unwrap_or(false),
        stdin_once: container.stdin_once.unwrap_or(false),
        tty: container.tty.unwrap_or(false),
        resources: resources::linux_resources(pod, container, node),
        security: security::container_security(pod, container, inputs, node),
    })
}
// ANCHOR_END: container-config

fn container_annotations(pod: &Pod, container: &Container, attempt: u32) -> BTreeMap<String, String> {
    let mut a = BTreeMap::from([
        (labels::CONTAINER_HASH.to_owned(), hash_container(container)),
        (labels::RESTART_COUNT.to_owned(), attempt.to_string()),
        (labels::TERMINATION_MESSAGE_PATH.to_owned(), termination_message_path(container).to_owned()),
        (
            labels::TERMINATION_MESSAGE_POLICY.to_owned(),
            container.termination_message_policy.clone().unwrap_or_else(|| "File".to_owned()),
        ),
    ]);
    let init = pod.init_containers().iter().any(|c| c.name == container.name) && !is_sidecar(container);
    let ends = pod.restart_policy() != "Always" && !is_sidecar(container);
    if init || ends {
        a.insert(RUNS_TO_COMPLETION.to_owned(), "true".to_owned());
    }
    if let Some(grace) = pod.spec_ref().termination_grace_period_seconds {
        a.insert(labels::GRACE_PERIOD.to_owned(), grace.to_string());
    }
    if let Some(ports) = container.ports.as_ref().filter(|p| !p.is_empty())
        && let Ok(json) = serde_json::to_string(ports)
    {
        a.insert("io.kubernetes.container.ports".to_owned(), json);
    }
    a
}

/// Where a container may leave its last words.
pub fn termination_message_path(container: &Container) -> &str {
    container.termination_message_path.as_deref().filter(|p| !p.is_empty()).unwrap_or("/dev/termination-log")
}

#[cfg(test)]
mod tests;
