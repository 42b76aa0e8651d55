//! Volumes: folders that exist before a container starts.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_pod`] has admitted the pod. After: every volume of the spec is a path on the host that can
//! be mounted into containers.
//!
//! Two families. Some volumes are places ([`place`]: emptyDir, hostPath). The others are content that comes from the API
//! ([`payload`]: configMap, secret, projected, downwardAPI): a set of files with modes, computed purely, then written in one atomic
//! step ([`atomic_writer`]) so that a container never sees half an update.
//!
//! # Invariants
//! 1. No content reaches the disk of the node that was meant to stay in memory: secrets and tokens live in tmpfs.
//! 2. A path from the spec never leads out of its volume.
//!
//! # In Kubernetes
//! `pkg/volume/*`, `pkg/kubelet/volumemanager`. Left out: persistent volumes, CSI, in-tree network volumes, block devices.

pub mod atomic_writer;
pub mod manager;
pub mod payload;
pub mod place;
pub mod sub_path;
pub mod token;

/// A volume that is ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountedVolume {
    /// Its path on the host.
    pub path: std::path::PathBuf,
    /// Whether containers may never write to it.
    pub read_only: bool,
}

/// Why a volume is not ready; the text is the end of a `FailedMount` event.
#[derive(Debug, thiserror::Error)]
pub enum VolumeError {
    /// A ConfigMap or Secret is missing.
    #[error("{0}")]
    Missing(String),
    /// The path on the host is of another type.
    #[error("hostPath type check failed: {0}")]
    HostPathType(String),
    /// This kind of volume is not supported here.
    #[error("no volume plugin matched name: {0}")]
    Unsupported(String),
    /// The API server refused.
    #[error("{0}")]
    Api(String),
    /// The kernel refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
}

impl VolumeError {
    /// The kernel's refusal of `what`.
    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> VolumeError {
        let what = what.into();
        move |source| VolumeError::Io { what, source }
    }
}
