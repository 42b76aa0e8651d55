//! Conversions between our CRI values and the generated gRPC messages.
//!
//! *Step 5 of a pod's journey.* Before: a configuration of ours. After: the message that [`super::containerd`] sends, and back.
//!
//! # Invariants
//! 1. Field by field; nothing is decided here.
//!
//! # In Kubernetes
//! The kubelet uses the generated types everywhere. Ours keep the rest of the crate free of protoc and of `Option<message>`.

use jiff::Timestamp;
use k8s_cri::v1;

use super::{
    ContainerConfig, ContainerMetadata, ContainerSecurity, ContainerState, ContainerStats, ContainerStatus,
    ContainerSummary, CriError, Image, LinuxResources, Mount, MountPropagation, NamespaceMode,
    NamespaceOptions, PodSandbox, PodSandboxConfig, PodSandboxMetadata, PodSandboxStatus, SandboxState,
    SecurityProfile,
};

/// A gRPC refusal, by its code.
pub(super) fn error(status: &tonic::Status) -> CriError {
    let text = status.message().to_owned();
    match status.code() {
        tonic::Code::NotFound => CriError::NotFound(text),
        tonic::Code::DeadlineExceeded | tonic::Code::Cancelled => CriError::DeadlineExceeded(text),
        tonic::Code::Unavailable => CriError::Unavailable(text),
        tonic::Code::Unimplemented => CriError::Unimplemented(text),
        _ => CriError::Unknown(text),
    }
}

fn time(nanos: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(nanos)).unwrap_or_default()
}

fn some_time(nanos: i64) -> Option<Timestamp> {
    (nanos > 0).then(|| time(nanos))
}

fn int64(value: i64) -> v1::Int64Value {
    v1::Int64Value { value }
}

fn mode(m: NamespaceMode) -> i32 {
    let m = match m {
        NamespaceMode::Pod => v1::NamespaceMode::Pod,
        NamespaceMode::Container => v1::NamespaceMode::Container,
        NamespaceMode::Node => v1::NamespaceMode::Node,
        NamespaceMode::Target => v1::NamespaceMode::Target,
    };
    m.into()
}

fn namespaces(n: &NamespaceOptions) -> v1::NamespaceOption {
    v1::NamespaceOption {
        network: mode(n.network),
        pid: mode(n.pid),
        ipc: mode(n.ipc),
        target_id: n.target_id.clone(),
        userns_options: None,
    }
}

fn seccomp(p: &SecurityProfile) -> v1::SecurityProfile {
    use v1::security_profile::ProfileType;
    let (kind, file) = match p {
        SecurityProfile::RuntimeDefault => (ProfileType::RuntimeDefault, String::new()),
        SecurityProfile::Unconfined => (ProfileType::Unconfined, String::new()),
        SecurityProfile::Localhost(file) => (ProfileType::Localhost, file.clone()),
    };
    v1::SecurityProfile { profile_type: kind.into(), localhost_ref: file }
}

fn metadata(m: &PodSandboxMetadata) -> v1::PodSandboxMetadata {
    let PodSandboxMetadata { name, uid, namespace, attempt } = m.clone();
    v1::PodSandboxMetadata { name, uid, namespace, attempt }
}

fn metadata_back(m: Option<v1::PodSandboxMetadata>) -> PodSandboxMetadata {
    let v1::PodSandboxMetadata { name, uid, namespace, attempt } = m.unwrap_or_default();
    PodSandboxMetadata { name, uid, namespace, attempt }
}

fn protocol(name: &str) -> i32 {
    let p = match name {
        "UDP" => v1::Protocol::Udp,
        "SCTP" => v1::Protocol::Sctp,
        _ => v1::Protocol::Tcp,
    };
    p.into()
}

/// A sandbox's configuration.
pub(super) fn sandbox_config(c: &PodSandboxConfig) -> v1::PodSandboxConfig {
    let security = v1::LinuxSandboxSecurityContext {
        namespace_options: Some(namespaces(&c.security.namespaces)),
        run_as_user: c.security.run_as_user.map(int64),
        run_as_group: c.security.run_as_group.map(int64),
        supplemental_groups: c.security.supplemental_groups.clone(),
        privileged: c.security.privileged,
        seccomp: Some(seccomp(&c.security.seccomp)),
        ..Default::default()
    };
    let port = |p: &super::PortMapping| v1::PortMapping {
        protocol: protocol(&p.protocol),
        container_port: p.container_port,
        host_port: p.host_port,
        host_ip: p.host_ip.clone(),
    };
    v1::PodSandboxConfig {
        metadata: Some(metadata(&c.metadata)),
        hostname: c.hostname.clone(),
        log_directory: c.log_directory.clone(),
        dns_config: Some(v1::DnsConfig {
            servers: c.dns_config.servers.clone(),
            searches: c.dns_config.searches.clone(),
            options: c.dns_config.options.clone(),
        }),
        port_mappings: c.port_mappings.iter().map(port).collect(),
        labels: c.labels.clone().into_iter().collect(),
        annotations: c.annotations.clone().into_iter().collect(),
        linux: Some(v1::LinuxPodSandboxConfig {
            cgroup_parent: c.cgroup_parent.clone(),
            security_context: Some(security),
            sysctls: c.sysctls.clone().into_iter().collect(),
            ..Default::default()
        }),
        windows: None,
    }
}

fn resources(r: &LinuxResources) -> v1::LinuxContainerResources {
    v1::LinuxContainerResources {
        cpu_period: r.cpu_period,
        cpu_quota: r.cpu_quota,
        cpu_shares: r.cpu_shares,
        memory_limit_in_bytes: r.memory_limit_bytes,
        oom_score_adj: r.oom_score_adj,
        unified: r.unified.clone().into_iter().collect(),
        ..Default::default()
    }
}

fn container_security(s: &ContainerSecurity) -> v1::LinuxContainerSecurityContext {
    v1::LinuxContainerSecurityContext {
        capabilities: Some(v1::Capability {
            add_capabilities: s.add_capabilities.clone(),
            drop_capabilities: s.drop_capabilities.clone(),
            ..Default::default()
        }),
        privileged: s.privileged,
        namespace_options: Some(namespaces(&s.namespaces)),
        run_as_user: s.run_as_user.map(int64),
        run_as_group: s.run_as_group.map(int64),
        run_as_username: s.run_as_username.clone(),
        readonly_rootfs: s.readonly_rootfs,
        supplemental_groups: s.supplemental_groups.clone(),
        no_new_privs: s.no_new_privs,
        masked_paths: s.masked_paths.clone(),
        readonly_paths: s.readonly_paths.clone(),
        seccomp: Some(seccomp(&s.seccomp)),
        ..Default::default()
    }
}

fn mount(m: &Mount) -> v1::Mount {
    let propagation = match m.propagation {
        MountPropagation::Private => v1::MountPropagation::PropagationPrivate,
        MountPropagation::HostToContainer => v1::MountPropagation::PropagationHostToContainer,
        MountPropagation::Bidirectional => v1::MountPropagation::PropagationBidirectional,
    };
    v1::Mount {
        container_path: m.container_path.clone(),
        host_path: m.host_path.clone(),
        readonly: m.readonly,
        propagation: propagation.into(),
        ..Default::default()
    }
}

/// A container's configuration.
pub(super) fn container_config(c: &ContainerConfig) -> v1::ContainerConfig {
    let env = |(key, value): &(String, String)| v1::KeyValue { key: key.clone(), value: value.clone() };
    v1::ContainerConfig {
        metadata: Some(v1::ContainerMetadata { name: c.metadata.name.clone(), attempt: c.metadata.attempt }),
        image: Some(v1::ImageSpec {
            image: c.image.clone(),
            user_specified_image: c.user_specified_image.clone(),
            ..Default::default()
        }),
        command: c.command.clone(),
        args: c.args.clone(),
        working_dir: c.working_dir.clone(),
        envs: c.envs.iter().map(env).collect(),
        mounts: c.mounts.iter().map(mount).collect(),
        labels: c.labels.clone().into_iter().collect(),
        annotations: c.annotations.clone().into_iter().collect(),
        log_path: c.log_path.clone(),
        stdin: c.stdin,
        stdin_once: c.stdin_once,
        tty: c.tty,
        linux: Some(v1::LinuxContainerConfig {
            resources: Some(resources(&c.resources)),
            security_context: Some(container_security(&c.security)),
        }),
        ..Default::default()
    }
}

fn sandbox_state(state: i32) -> SandboxState {
    if state == i32::from(v1::PodSandboxState::SandboxReady) {
        SandboxState::Ready
    } else {
        SandboxState::NotReady
    }
}

fn container_state(state: i32) -> ContainerState {
    match v1::ContainerState::try_from(state) {
        Ok(v1::ContainerState::ContainerCreated) => ContainerState::Created,
        Ok(v1::ContainerState::ContainerRunning) => ContainerState::Running,
        Ok(v1::ContainerState::ContainerExited) => ContainerState::Exited,
        _ => ContainerState::Unknown,
    }
}

/// A sandbox in a list.
pub(super) fn sandbox(s: v1::PodSandbox) -> PodSandbox {
    PodSandbox {
        id: s.id,
        metadata: metadata_back(s.metadata),
        state: sandbox_state(s.state),
        created_at: time(s.created_at),
        labels: s.labels.into_iter().collect(),
    }
}

/// A sandbox in full.
pub(super) fn sandbox_status(s: v1::PodSandboxStatus) -> PodSandboxStatus {
    let network = s.network.unwrap_or_default();
    let first = Some(network.ip).filter(|ip| !ip.is_empty());
    let ips = first.into_iter().chain(network.additional_ips.into_iter().map(|p| p.ip)).collect();
    let options = s.linux.and_then(|l| l.namespaces).and_then(|n| n.options).unwrap_or_default();
    PodSandboxStatus {
        id: s.id,
        metadata: metadata_back(s.metadata),
        state: sandbox_state(s.state),
        created_at: time(s.created_at),
        ips,
        host_network: options.network == mode(NamespaceMode::Node),
    }
}

/// A container in a list.
pub(super) fn container(c: v1::Container) -> ContainerSummary {
    ContainerSummary {
        id: c.id,
        pod_sandbox_id: c.pod_sandbox_id,
        state: container_state(c.state),
        created_at: time(c.created_at),
        labels: c.labels.into_iter().collect(),
        image_ref: c.image_ref,
    }
}

/// A container in full.
pub(super) fn container_status(c: v1::ContainerStatus) -> ContainerStatus {
    let meta = c.metadata.unwrap_or_default();
    let mounts = c.mounts.into_iter().map(|m| Mount {
        container_path: m.container_path,
        host_path: m.host_path,
        readonly: m.readonly,
        propagation: MountPropagation::Private,
    });
    ContainerStatus {
        id: c.id,
        metadata: ContainerMetadata { name: meta.name, attempt: meta.attempt },
        state: container_state(c.state),
        created_at: time(c.created_at),
        started_at: some_time(c.started_at),
        finished_at: some_time(c.finished_at),
        exit_code: c.exit_code,
        image: c.image.map(|i| i.image).unwrap_or_default(),
        image_ref: c.image_ref,
        reason: c.reason,
        message: c.message,
        labels: c.labels.into_iter().collect(),
        annotations: c.annotations.into_iter().collect(),
        mounts: mounts.collect(),
        log_path: c.log_path,
    }
}

/// An image.
pub(super) fn image(i: v1::Image) -> Image {
    Image {
        id: i.id,
        repo_tags: i.repo_tags,
        repo_digests: i.repo_digests,
        size_bytes: i.size,
        uid: i.uid.map(|u| u.value),
        username: i.username,
        pinned: i.pinned,
    }
}

/// What one container uses.
pub(super) fn stats(s: v1::ContainerStats) -> ContainerStats {
    let attributes = s.attributes.unwrap_or_default();
    let cpu = s.cpu.unwrap_or_default();
    let value = |v: Option<v1::UInt64Value>| v.map_or(0, |v| v.value);
    ContainerStats {
        id: attributes.id,
        labels: attributes.labels.into_iter().collect(),
        at: time(cpu.timestamp),
        cpu_usage_nanos: value(cpu.usage_core_nano_seconds),
        memory_working_set_bytes: value(s.memory.and_then(|m| m.working_set_bytes)),
        fs_used_bytes: value(s.writable_layer.and_then(|w| w.used_bytes)),
    }
}
