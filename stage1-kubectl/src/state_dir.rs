//! The state directory: where a cluster keeps its files.
//!
//! *All steps of a pod's journey.* Everything that must survive a restart lives under one directory, so two clusters are
//! two directories, and throwing a cluster away is `rm -r`.
//!
//! Sockets can't live there: a Unix socket's path must be shorter than 108 bytes. They get a short directory of their
//! own under `/run` (or `$XDG_RUNTIME_DIR`), named by a hash of the state directory's path.
//!
//! # Invariants
//! 1. Directories that we make are readable by their owner only (0700).
//!
//! # In Kubernetes
//! No counterpart: kubeadm spreads these files over `/etc/kubernetes` and `/var/lib`.
#![expect(clippy::disallowed_methods, reason = "shell: makes directories, reads the environment")]

use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

/// The directory of one cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateDir {
    root: PathBuf,
}

impl StateDir {
    /// The given directory, else `$STAGES_STATE_DIR`, else `~/.six-stages`. Makes it.
    ///
    /// # Errors
    /// When the directory can't be made.
    pub fn new(path: Option<PathBuf>) -> io::Result<Self> {
        let state_dir = StateDir::locate(path);
        make_private(&state_dir.root)?;
        Ok(state_dir)
    }

    /// As [`StateDir::new`], but makes nothing: for a client that only looks for a running cluster.
    pub fn locate(path: Option<PathBuf>) -> Self {
        let from_env = || std::env::var_os("STAGES_STATE_DIR").filter(|v| !v.is_empty()).map(PathBuf::from);
        let home = || std::env::home_dir().unwrap_or_else(|| PathBuf::from(".")).join(".six-stages");
        let root = path.or_else(from_env).unwrap_or_else(home);
        StateDir { root: std::path::absolute(&root).unwrap_or(root) }
    }

    /// The directory itself.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// The cluster administrator's kubeconfig.
    pub fn admin_kubeconfig(&self) -> PathBuf {
        self.kubeconfig("admin")
    }

    /// The kubeconfig of a component, `kube-scheduler.kubeconfig`.
    pub fn kubeconfig(&self, component: &str) -> PathBuf {
        self.root.join(format!("{component}.kubeconfig"))
    }

    /// CA, certificates and keys.
    pub fn pki(&self) -> PathBuf {
        self.root.join("pki")
    }

    /// The embedded store.
    pub fn store(&self) -> PathBuf {
        self.root.join("store")
    }

    /// The data of an etcd that we started.
    pub fn etcd(&self) -> PathBuf {
        self.root.join("etcd")
    }

    /// The state of one node.
    pub fn node(&self, name: &str) -> PathBuf {
        self.root.join("nodes").join(name)
    }

    /// Log files.
    pub fn logs(&self) -> PathBuf {
        self.root.join("logs")
    }

    /// The journey of every object, one JSON line a step.
    pub fn journey_file(&self) -> PathBuf {
        self.logs().join("journey.jsonl")
    }

    /// A short directory for sockets, made on first use.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn run_dir(&self) -> io::Result<PathBuf> {
        let hash = Sha256::digest(self.root.as_os_str().as_encoded_bytes());
        let name = format!("six-stages-{:02x}{:02x}{:02x}{:02x}", hash[0], hash[1], hash[2], hash[3]);
        let is_root = nix::unistd::geteuid().is_root();
        let runtime_dir = std::env::var_os("XDG_RUNTIME_DIR").filter(|v| !v.is_empty()).map(PathBuf::from);
        let base = match (is_root, runtime_dir) {
            (true, _) => PathBuf::from("/run"),
            (false, Some(dir)) => dir,
            (false, None) => std::env::temp_dir(),
        };
        let dir = base.join(name);
        make_private(&dir)?;
        Ok(dir)
    }
}

/// Makes a directory and its parents, 0700 where they are new.
///
/// # Errors
/// As `mkdir`.
pub fn make_private(dir: &Path) -> io::Result<()> {
    use std::os::unix::fs::DirBuilderExt;
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)
}

/// Writes a file that only its owner may read, whatever it was before.
///
/// # Errors
/// As `open` and `write`.
pub fn write_private(path: &Path, bytes: &[u8]) -> io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
    let mut file = std::fs::File::options().create(true).truncate(true).write(true).mode(0o600).open(path)?;
    file.set_permissions(std::fs::Permissions::from_mode(0o600))?;
    file.write_all(bytes)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_state_directory_is_private_and_its_run_dir_short() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("a/b");
        let state = StateDir::new(Some(root.clone())).unwrap();
        assert_eq!(std::fs::metadata(&root).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(state.kubeconfig("kube-proxy"), root.join("kube-proxy.kubeconfig"));
        assert!(state.run_dir().unwrap().as_os_str().len() < 60);
        std::fs::remove_dir(state.run_dir().unwrap()).unwrap();
        let secret = root.join("secret");
        std::fs::write(&secret, "was open").unwrap();
        std::fs::set_permissions(&secret, std::fs::Permissions::from_mode(0o644)).unwrap();
        write_private(&secret, b"is closed").unwrap();
        assert_eq!(std::fs::metadata(&secret).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read(&secret).unwrap(), b"is closed");
    }
}
