//! CRI configurations: how a sandbox or a container shall be made.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::container_spec`] fills these from a Pod. After: a runtime carries them out.
//!
//! # Invariants
//! 1. Values only: a test can print and compare every one of them.
//!
//! # In Kubernetes
//! The messages `PodSandboxConfig` and `ContainerConfig` of `runtime/v1/api.proto`. Left out: SELinux, AppArmor profiles by the deprecated
//! string, user namespaces, devices, CDI, huge pages.

use std::collections::BTreeMap;

/// Whose sandbox it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct PodSandboxMetadata {
    /// Pod name.
    pub name: String,
    /// Pod UID.
    pub uid: String,
    /// Pod namespace.
    pub namespace: String,
    /// Which try this is, from zero.
    pub attempt: u32,
}

/// Which container it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerMetadata {
    /// Name in the spec.
    pub name: String,
    /// Which try this is, from zero.
    pub attempt: u32,
}

/// The lines of resolv.conf.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DnsConfig {
    /// `nameserver` lines.
    pub servers: Vec<String>,
    /// The `search` line.
    pub searches: Vec<String>,
    /// The `options` line.
    pub options: Vec<String>,
}

/// A port of the host that leads into the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortMapping {
    /// `TCP`, `UDP`, `SCTP`
    pub protocol: String,
    /// Port in the pod.
    pub container_port: i32,
    /// Port of the node.
    pub host_port: i32,
    /// Address of the node, empty for any.
    pub host_ip: String,
}

/// Which namespace something lives in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NamespaceMode {
    /// Shared by the pod.
    #[default]
    Pod,
    /// Of the container alone.
    Container,
    /// The node's.
    Node,
    /// Another container's.
    Target,
}

/// The namespaces of a sandbox or container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamespaceOptions {
    /// Network namespace.
    pub network: NamespaceMode,
    /// Process namespace.
    pub pid: NamespaceMode,
    /// IPC namespace.
    pub ipc: NamespaceMode,
    /// Container whose process namespace is joined ([`NamespaceMode::Target`]).
    pub target_id: String,
}

/// A seccomp profile.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum SecurityProfile {
    /// The runtime's own profile.
    RuntimeDefault,
    /// None.
    #[default]
    Unconfined,
    /// A file of the node.
    Localhost(String),
}

/// Security of the sandbox's own process.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SandboxSecurity {
    /// Namespaces.
    pub namespaces: NamespaceOptions,
    /// User id.
    pub run_as_user: Option<i64>,
    /// Group id.
    pub run_as_group: Option<i64>,
    /// Further groups.
    pub supplemental_groups: Vec<i64>,
    /// Whether privileged containers may live in it.
    pub privileged: bool,
    /// Seccomp profile.
    pub seccomp: SecurityProfile,
}

/// How to make a sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PodSandboxConfig {
    /// Whose it is.
    pub metadata: PodSandboxMetadata,
    /// Hostname; empty on the host's network.
    pub hostname: String,
    /// Folder of the pod's logs.
    pub log_directory: String,
    /// resolv.conf.
    pub dns_config: DnsConfig,
    /// Host ports.
    pub port_mappings: Vec<PortMapping>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// The pod's cgroup.
    pub cgroup_parent: String,
    /// Kernel settings.
    pub sysctls: BTreeMap<String, String>,
    /// Security.
    pub security: SandboxSecurity,
}

/// Whether mounts made later travel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MountPropagation {
    /// Neither way.
    #[default]
    Private,
    /// From host into container.
    HostToContainer,
    /// Both ways.
    Bidirectional,
}

/// A folder or file of the host in the container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mount {
    /// Path in the container.
    pub container_path: String,
    /// Path on the host.
    pub host_path: String,
    /// Read only.
    pub readonly: bool,
    /// Propagation.
    pub propagation: MountPropagation,
}

/// Linux resources in the kernel's units.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinuxResources {
    /// Length of a CPU period, in microseconds.
    pub cpu_period: i64,
    /// CPU time in a period, in microseconds; zero for no limit.
    pub cpu_quota: i64,
    /// Relative weight.
    pub cpu_shares: i64,
    /// Memory limit in bytes; zero for none.
    pub memory_limit_bytes: i64,
    /// How readily the kernel kills it.
    pub oom_score_adj: i64,
    /// Files of cgroup v2.
    pub unified: BTreeMap<String, String>,
}

/// Security of a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerSecurity {
    /// Capabilities to add.
    pub add_capabilities: Vec<String>,
    /// Capabilities to drop.
    pub drop_capabilities: Vec<String>,
    /// All devices, all capabilities.
    pub privileged: bool,
    /// Namespaces.
    pub namespaces: NamespaceOptions,
    /// User id.
    pub run_as_user: Option<i64>,
    /// User name, resolved in the image.
    pub run_as_username: String,
    /// Group id.
    pub run_as_group: Option<i64>,
    /// Root filesystem read only.
    pub readonly_rootfs: bool,
    /// Further groups.
    pub supplemental_groups: Vec<i64>,
    /// Set-user-id programs gain nothing.
    pub no_new_privs: bool,
    /// Paths hidden from the container.
    pub masked_paths: Vec<String>,
    /// Paths that are read only.
    pub readonly_paths: Vec<String>,
    /// Seccomp profile.
    pub seccomp: SecurityProfile,
}

/// How to make a container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerConfig {
    /// Which it is.
    pub metadata: ContainerMetadata,
    /// Image reference, resolved.
    pub image: String,
    /// Image as the user wrote it.
    pub user_specified_image: String,
    /// Instead of the image's entry point.
    pub command: Vec<String>,
    /// Instead of the image's command.
    pub args: Vec<String>,
    /// Working directory.
    pub working_dir: String,
    /// Environment.
    pub envs: Vec<(String, String)>,
    /// Mounts.
    pub mounts: Vec<Mount>,
    /// Labels.
    pub labels: BTreeMap<String, String>,
    /// Annotations.
    pub annotations: BTreeMap<String, String>,
    /// Log file, below the sandbox's log folder.
    pub log_path: String,
    /// Keeps standard input open.
    pub stdin: bool,
    /// Closes standard input after the first session.
    pub stdin_once: bool,
    /// With a terminal.
    pub tty: bool,
    /// Resources.
    pub resources: LinuxResources,
    /// Security.
    pub security: ContainerSecurity,
}
