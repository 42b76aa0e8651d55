//! CRI: what the kubelet asks of a container runtime.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_pod`] decided to start something. After: the runtime (containerd, or the simulated
//! one) has namespaces, cgroups and processes.
//!
//! A pod is two levels here. The *sandbox* holds what containers share: the network namespace, the hostname, the cgroup
//! parent. *Containers* live in a sandbox. The names and the order of the calls are those of the Container Runtime Interface,
//! and the types are ours, so that the rest of the kubelet builds without the generated gRPC code.
//!
//! Every runtime must pass the same test suite (`tests/cri.rs`).
//!
//! # Invariants
//! 1. `stop_*` and `remove_*` of something that is gone succeed: the kubelet repeats them.
//! 2. Creating a container does not start it.
//!
//! # In Kubernetes
//! `cri-api/pkg/apis/services.go`, `runtime/v1/api.proto`. Left out: checkpoints, metrics descriptors, container events (1.6 has none), swap,
//! Windows, devices.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;

#[cfg(feature = "containerd")]
pub mod containerd;
#[cfg(feature = "containerd")]
mod convert;
pub mod sim;
mod config;

pub use config::*;

/// Why a call failed: the gRPC code and the runtime's text.
#[derive(Clone, Debug, thiserror::Error, PartialEq, Eq)]
pub enum CriError {
    /// What was named does not exist (`code = NotFound`).
    #[error("rpc error: code = NotFound desc = {0}")]
    NotFound(String),
    /// The call did not end in time (`code = DeadlineExceeded`).
    #[error("rpc error: code = DeadlineExceeded desc = {0}")]
    DeadlineExceeded(String),
    /// The runtime cannot be reached (`code = Unavailable`).
    #[error("rpc error: code = Unavailable desc = {0}")]
    Unavailable(String),
    /// The runtime does not offer the call (`code = Unimplemented`).
    #[error("rpc error: code = Unimplemented desc = {0}")]
    Unimplemented(String),
    /// Any other refusal; the kubelet shows such texts without the gRPC prefix.
    #[error("{0}")]
    Unknown(String),
}

/// The future that a call returns.
pub type CriFuture<'a, T> = Pin<Box<dyn Future<Output = Result<T, CriError>> + Send + 'a>>;

/// A sandbox's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxState {
    /// The namespaces are there and its holder process runs.
    Ready,
    /// Stopped, or its holder process died.
    NotReady,
}

/// A container's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ContainerState {
    /// Made, never started.
    Created,
    /// Its first process runs.
    Running,
    /// Ended.
    Exited,
    /// The runtime lost track of it.
    Unknown,
}

/// A sandbox in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSandbox {
    /// Id in the runtime.
    pub id: String,
    /// Whose sandbox it is.
    pub metadata: PodSandboxMetadata,
    /// Its state.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
}

/// A sandbox in full.
#[derive(Clone, Debug, PartialEq)]
pub struct PodSandboxStatus {
    /// Id in the runtime.
    pub id: String,
    /// Whose sandbox it is.
    pub metadata: PodSandboxMetadata,
    /// Its state.
    pub state: SandboxState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its addresses; none for a pod on the host's network.
    pub ips: Vec<String>,
    /// Whether it uses the node's network namespace.
    pub host_network: bool,
}

/// A container in a list.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerSummary {
    /// Id in the runtime.
    pub id: String,
    /// Id of its sandbox.
    pub pod_sandbox_id: String,
    /// Its state.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// The image it runs.
    pub image_ref: String,
}

/// A container in full.
#[derive(Clone, Debug, PartialEq)]
pub struct ContainerStatus {
    /// Id in the runtime.
    pub id: String,
    /// Name and attempt.
    pub metadata: ContainerMetadata,
    /// Its state.
    pub state: ContainerState,
    /// When it was made.
    pub created_at: Timestamp,
    /// When it was started.
    pub started_at: Option<Timestamp>,
    /// When it ended.
    pub finished_at: Option<Timestamp>,
    /// With what code it ended.
    pub exit_code: i32,
    /// The image's name.
    pub image: String,
    /// The image's id or digest.
    pub image_ref: String,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`.
    pub reason: String,
    /// The runtime's text.
    pub message: String,
    /// Its labels.
    pub labels: BTreeMap<String, String>,
    /// Its annotations.
    pub annotations: BTreeMap<String, String>,
    /// What is mounted in it.
    pub mounts: Vec<Mount>,
    /// Its log file.
    pub log_path: String,
}

/// What a command left behind.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ExecSyncResponse {
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
    /// Exit code.
    pub exit_code: i32,
}

/// Which streams a terminal session wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StreamRequest {
    /// Command line; empty for attach.
    pub cmd: Vec<String>,
    /// With a terminal.
    pub tty: bool,
    /// Standard input.
    pub stdin: bool,
    /// Standard output.
    pub stdout: bool,
    /// Standard error.
    pub stderr: bool,
}

/// An image on the node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Image {
    /// Its id, a digest.
    pub id: String,
    /// Names of it.
    pub repo_tags: Vec<String>,
    /// Names by digest.
    pub repo_digests: Vec<String>,
    /// Size on disk, in bytes.
    pub size_bytes: u64,
    /// Numeric user of its configuration.
    pub uid: Option<i64>,
    /// User name of its configuration.
    pub username: String,
    /// Whether garbage collection must spare it.
    pub pinned: bool,
}

/// Credentials for one pull.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct AuthConfig {
    /// User name.
    pub username: String,
    /// Password.
    pub password: String,
    /// Both, as `base64(user:password)`.
    pub auth: String,
    /// Which registry they are for.
    pub server_address: String,
    /// Token instead of both.
    pub identity_token: String,
}

impl std::fmt::Debug for AuthConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AuthConfig").field("server_address", &self.server_address).finish_non_exhaustive()
    }
}

/// What one container uses.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ContainerStats {
    /// Id in the runtime.
    pub id: String,
    /// Labels of the container.
    pub labels: BTreeMap<String, String>,
    /// CPU time used so far, in nanoseconds.
    pub cpu_usage_nanos: u64,
    /// Memory that cannot be reclaimed at once, in bytes.
    pub memory_working_set_bytes: u64,
    /// Writable layer, in bytes.
    pub fs_used_bytes: u64,
    /// When this was measured.
    pub at: Timestamp,
}

/// Conditions that the runtime reports.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeStatus {
    /// Containers can be started.
    pub runtime_ready: Result<(), String>,
    /// Sandboxes get a network.
    pub network_ready: Result<(), String>,
}

/// Name and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// `containerd`, `sim`
    pub runtime_name: String,
    /// `1.6.20`
    pub runtime_version: String,
}

// ANCHOR: runtime-service
/// The runtime half of CRI.
pub trait RuntimeService: Send + Sync {
    /// Who is there.
    fn version(&self) -> CriFuture<'_, Version>;
    /// Makes and starts a sandbox; returns its id.
    fn run_pod_sandbox<'a>(&'a self, config: &'a PodSandboxConfig) -> CriFuture<'a, String>;
    /// Stops a sandbox and every container in it; returns its network.
    fn stop_pod_sandbox<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()>;
    /// Removes a sandbox and everything in it.
    fn remove_pod_sandbox<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()>;
    /// One sandbox in full.
    fn pod_sandbox_status<'a>(&'a self, id: &'a str) -> CriFuture<'a, PodSandboxStatus>;
    /// Sandboxes of one pod, or all.
    fn list_pod_sandbox<'a>(&'a self, pod_uid: Option<&'a str>) -> CriFuture<'a, Vec<PodSandbox>>;
    /// Makes a container; returns its id.
    fn create_container<'a>(
        &'a self,
        sandbox_id: &'a str,
        config: &'a ContainerConfig,
        sandbox: &'a PodSandboxConfig,
    ) -> CriFuture<'a, String>;
    /// Starts a created container.
    fn start_container<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()>;
    /// Asks the container to end, and ends it after `grace_period_seconds`.
    fn stop_container<'a>(&'a self, id: &'a str, grace_period_seconds: i64) -> CriFuture<'a, ()>;
    /// Removes a container (a running one too).
    fn remove_container<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()>;
    /// Containers of one pod, or all.
    fn list_containers<'a>(&'a self, pod_uid: Option<&'a str>) -> CriFuture<'a, Vec<ContainerSummary>>;
    /// One container in full.
    fn container_status<'a>(&'a self, id: &'a str) -> CriFuture<'a, ContainerStatus>;
    /// Opens the log file anew after a rotation.
    fn reopen_container_log<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()>;
    /// Runs a command to its end.
    fn exec_sync<'a>(
        &'a self,
        id: &'a str,
        cmd: &'a [String],
        timeout: Duration,
    ) -> CriFuture<'a, ExecSyncResponse>;
    /// A URL where one command session can be had.
    fn exec<'a>(&'a self, id: &'a str, request: &'a StreamRequest) -> CriFuture<'a, String>;
    /// A URL where the container's own streams can be had.
    fn attach<'a>(&'a self, id: &'a str, request: &'a StreamRequest) -> CriFuture<'a, String>;
    /// A URL where ports of the sandbox can be reached; over a WebSocket those that are named here, else any.
    fn port_forward<'a>(&'a self, sandbox_id: &'a str, ports: &'a [i32]) -> CriFuture<'a, String>;
    /// What every container uses.
    fn list_container_stats(&self) -> CriFuture<'_, Vec<ContainerStats>>;
    /// Tells the runtime which addresses pods of this node get.
    fn update_runtime_config<'a>(&'a self, pod_cidr: &'a str) -> CriFuture<'a, ()>;
    /// Whether the runtime and its network are ready.
    fn status(&self) -> CriFuture<'_, RuntimeStatus>;
}
// ANCHOR_END: runtime-service

/// The image half of CRI.
pub trait ImageService: Send + Sync {
    /// All images.
    fn list_images(&self) -> CriFuture<'_, Vec<Image>>;
    /// One image, if it is there.
    fn image_status<'a>(&'a self, image: &'a str) -> CriFuture<'a, Option<Image>>;
    /// Fetches an image; returns its reference.
    fn pull_image<'a>(&'a self, image: &'a str, auth: Option<&'a AuthConfig>) -> CriFuture<'a, String>;
    /// Removes an image and every name of it.
    fn remove_image<'a>(&'a self, image: &'a str) -> CriFuture<'a, ()>;
    /// Bytes used by images.
    fn image_fs_used_bytes(&self) -> CriFuture<'_, u64>;
}

/// A whole runtime.
pub trait Runtime: RuntimeService + ImageService {
    /// The scheme of container ids in the API (`containerd://…`).
    fn scheme(&self) -> &'static str;
    /// Whether containers are real: with a simulated runtime no cgroups and no mounts are made.
    fn is_real(&self) -> bool;
}

/// A shared handle to a runtime.
pub type SharedRuntime = Arc<dyn Runtime>;
