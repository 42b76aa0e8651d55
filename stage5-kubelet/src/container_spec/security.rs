//! Security: who a container is, and what it may.
//!
//! *Step 5 of a pod's journey.* Before: `securityContext` of the pod and of the container. After: CRI's security settings.
//!
//! The container's setting wins over the pod's, field by field. What neither says comes from the image (the user) or stays
//! as the runtime has it.
//!
//! # Invariants
//! 1. `allowPrivilegeEscalation: false` always becomes `no_new_privs`.
//! 2. `/proc` is masked unless the pod says `procMount: Unmasked`.
//!
//! # In Kubernetes
//! `pkg/securitycontext/util.go`, `kuberuntime/security_context.go`, `util/util.go` (`NamespacesForPod`).

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Container, Pod, SeccompProfile, SecurityContext};

use super::{ContainerInputs, NodeFacts};
use crate::cri::{ContainerSecurity, NamespaceMode, NamespaceOptions, SandboxSecurity, SecurityProfile};
use crate::pod::PodExt;

/// The user of an image's configuration.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ImageUser {
    /// Numeric, if it is.
    pub uid: Option<i64>,
    /// By name, if it is not.
    pub username: String,
}

const MASKED_PATHS: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READONLY_PATHS: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

fn own(container: &Container) -> SecurityContext {
    container.security_context.clone().unwrap_or_default()
}

fn run_as_user(pod: &Pod, container: &Container) -> Option<i64> {
    own(container).run_as_user.or_else(|| pod.spec_ref().security_context.as_ref()?.run_as_user)
}

/// Refuses a container that would run as root although the pod forbids it.
///
/// # Errors
/// With Kubernetes' text.
pub fn verify_run_as_non_root(pod: &Pod, container: &Container, image: &ImageUser) -> Result<(), String> {
    let of_pod = || pod.spec_ref().security_context.as_ref()?.run_as_non_root;
    if own(container).run_as_non_root.or_else(of_pod) != Some(true) {
        return Ok(());
    }
    let whom = format!("(pod: \"{}\", container: {})", pod.format(), container.name);
    match (run_as_user(pod, container), image.uid, image.username.as_str()) {
        (Some(0), ..) => Err(format!("container's runAsUser breaks non-root policy {whom}")),
        (Some(_), ..) => Ok(()),
        (None, Some(0), _) => Err(format!("container has runAsNonRoot and image will run as root {whom}")),
        (None, Some(_), _) => Ok(()),
        (None, None, "") => Err(format!("container has runAsNonRoot and image will run as root {whom}")),
        (None, None, name) => Err(format!(
            "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {whom}"
        )),
    }
}

fn namespaces(pod: &Pod) -> NamespaceOptions {
    let spec = pod.spec_ref();
    let node_or = |host: Option<bool>, other| if host == Some(true) { NamespaceMode::Node } else { other };
    let pid = if spec.share_process_namespace == Some(true) {
        NamespaceMode::Pod
    } else {
        NamespaceMode::Container
    };
    NamespaceOptions {
        network: node_or(spec.host_network, NamespaceMode::Pod),
        pid: node_or(spec.host_pid, pid),
        ipc: node_or(spec.host_ipc, NamespaceMode::Pod),
        target_id: String::new(),
    }
}

fn groups(pod: &Pod) -> Vec<i64> {
    let Some(sc) = &pod.spec_ref().security_context else { return Vec::new() };
    sc.supplemental_groups.iter().flatten().copied().chain(sc.fs_group).collect()
}

/// Security of the sandbox.
pub(super) fn sandbox_security(pod: &Pod) -> SandboxSecurity {
    let sc = pod.spec_ref().security_context.as_ref();
    let privileged = |c: &Container| own(c).privileged == Some(true);
    SandboxSecurity {
        namespaces: namespaces(pod),
        run_as_user: sc.and_then(|s| s.run_as_user),
        run_as_group: sc.and_then(|s| s.run_as_group),
        supplemental_groups: groups(pod),
        privileged: pod.all_containers().any(privileged)
            || crate::pod::ephemeral_containers(pod).iter().any(privileged),
        // The holder process never needs more than the runtime's own profile allows.
        seccomp: SecurityProfile::RuntimeDefault,
    }
}

/// Kernel settings of the sandbox.
pub(super) fn sysctls(pod: &Pod) -> BTreeMap<String, String> {
    let sc = pod.spec_ref().security_context.as_ref();
    let list = sc.and_then(|s| s.sysctls.as_ref()).into_iter().flatten();
    list.map(|s| (s.name.replace('/', "."), s.value.clone())).collect()
}

/// Security of one container.
pub(super) fn container_security(
    pod: &Pod,
    container: &Container,
    inputs: &ContainerInputs,
    node: &NodeFacts,
) -> ContainerSecurity {
    let (sc, of_pod) = (own(container), pod.spec_ref().security_context.as_ref());
    let caps = sc.capabilities.unwrap_or_default();
    let asked_user = run_as_user(pod, container);
    let unmasked = sc.proc_mount.as_deref() == Some("Unmasked");
    let paths =
        |list: &[&str]| if unmasked { Vec::new() } else { list.iter().map(|p| (*p).to_owned()).collect() };
    let mut namespaces = namespaces(pod);
    if let Some(target) = &inputs.target_id {
        namespaces.pid = NamespaceMode::Target;
        namespaces.target_id = target.clone();
    }
    ContainerSecurity {
        add_capabilities: caps.add.unwrap_or_default(),
        drop_capabilities: caps.drop.unwrap_or_default(),
        privileged: sc.privileged.unwrap_or(false),
        namespaces,
        run_as_user: asked_user.or(inputs.image_user.uid),
        run_as_username: match asked_user.or(inputs.image_user.uid) {
            None => inputs.image_user.username.clone(),
            Some(_) => String::new(),
        },
        run_as_group: sc.run_as_group.or_else(|| of_pod?.run_as_group),
        readonly_rootfs: sc.read_only_root_filesystem.unwrap_or(false),
        supplemental_groups: groups(pod),
        no_new_privs: sc.allow_privilege_escalation == Some(false),
        masked_paths: paths(&MASKED_PATHS),
        readonly_paths: paths(&READONLY_PATHS),
        seccomp: seccomp(sc.seccomp_profile.as_ref().or_else(|| of_pod?.seccomp_profile.as_ref()), node),
    }
}

fn seccomp(profile: Option<&SeccompProfile>, node: &NodeFacts) -> SecurityProfile {
    match profile.map(|p| (p.type_.as_str(), p.localhost_profile.as_deref())) {
        Some(("RuntimeDefault", _)) => SecurityProfile::RuntimeDefault,
        Some(("Localhost", Some(file))) => SecurityProfile::Localhost(format!("{}/{file}", node.seccomp_dir)),
        _ => SecurityProfile::Unconfined,
    }
}
