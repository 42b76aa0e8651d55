//! What containerd is told: its configuration, the pod network, and where things lie.
//!
//! *Step 5 of a pod's journey.* Before: [`Machine::detect`] looked around. After: [`super`] starts the process.
//!
//! # Invariants
//! 1. The texts are functions of the layout and the machine: the same start writes the same files.
//!
//! # In Kubernetes
//! No counterpart: an administrator writes `/etc/containerd/config.toml` and `/etc/cni/net.d`.
#![expect(clippy::disallowed_methods, reason = "shell: looks around on the machine")]

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::network::Ipv4Cidr;

/// The image that holds a pod's namespaces; imported under this name.
pub const SANDBOX_IMAGE: &str = "registry.k8s.io/pause:3.9";
/// Where Debian puts CNI plugins; others use `/opt/cni/bin`.
pub const CNI_BIN_DIRS: [&str; 3] = ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"];
/// CAP_SYS_RESOURCE's bit in `CapEff`.
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// Where one node's containerd keeps things.
#[derive(Clone, Debug)]
pub struct Layout {
    /// `node-1`.
    pub node_name: String,
    /// Unique on this machine: `six0-node-1`.
    pub unique_name: String,
    /// Images and snapshots; survives a stop.
    pub root: PathBuf,
    /// Sockets, pid, CNI state; a short path, gone after a stop.
    pub run: PathBuf,
}

/// What was found on this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// runc.
    pub runc: PathBuf,
    /// CNI plugins.
    pub cni_bin_dir: PathBuf,
    /// May a process lower its OOM score?
    pub sys_resource: bool,
    /// `overlayfs` or `native`.
    pub snapshotter: &'static str,
}

impl Machine {
    /// Looks for containerd, runc and the CNI plugins; `Err` names what is missing.
    pub fn detect(root: &Path) -> Result<Self, String> {
        let (_containerd, runc) = (find("containerd")?, find("runc")?);
        let cni_bin_dir = CNI_BIN_DIRS.iter().map(PathBuf::from).find(|dir| dir.join("bridge").exists());
        let cni_bin_dir =
            cni_bin_dir.ok_or("CNI plugins (bridge) not found in /usr/lib/cni or /opt/cni/bin")?;
        let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
        let overlay = nix::sys::statfs::statfs(root)
            .is_ok_and(|stat| stat.filesystem_type() == nix::sys::statfs::OVERLAYFS_SUPER_MAGIC);
        Ok(Self {
            runc,
            cni_bin_dir,
            sys_resource: effective_capabilities(&status) & CAP_SYS_RESOURCE != 0,
            snapshotter: if overlay { "native" } else { "overlayfs" },
        })
    }
}

/// The program's path, searched like a shell does, and in the sbin folders that a user's PATH may lack.
pub fn find(program: &str) -> Result<PathBuf, String> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from))
        .map(|folder| folder.join(program))
        .find(|path| path.is_file())
        .ok_or_else(|| format!("{program} not found"))
}

/// The capabilities in `/proc/self/status`.
fn effective_capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|bits| u64::from_str_radix(bits.trim(), 16).ok()).unwrap_or(0)
}

impl Layout {
    /// The CRI socket.
    pub fn socket(&self) -> PathBuf {
        self.run.join("containerd.sock")
    }

    pub(super) fn config_path(&self) -> PathBuf {
        self.run.join("containerd.toml")
    }

    pub(super) fn pid_path(&self) -> PathBuf {
        self.run.join("containerd.pid")
    }

    pub(super) fn log_path(&self) -> PathBuf {
        self.root.join("containerd.log")
    }

    pub(super) fn cni_conf_dir(&self) -> PathBuf {
        self.run.join("cni/net.d")
    }

    // ANCHOR: containerd-config
    /// containerd's configuration (version 2: 1.6 to 2.1 read it).
    pub fn config_toml(&self, machine: &Machine) -> String {
        let quoted = |path: PathBuf| format!("{:?}", path.display().to_string());
        let (root, run) = (&self.root, &self.run);
        let mut text = String::from("version = 2\noom_score = 0\n");
        let _ = writeln!(text, "root = {}", quoted(root.join("containerd")));
        let _ = writeln!(text, "state = {}", quoted(run.join("state")));
        // Snapshotters that this machine can't have only fill the log.
        text.push_str("disabled_plugins = [\"io.containerd.snapshotter.v1.aufs\", \"io.containerd.snapshotter.v1.btrfs\", \"io.containerd.snapshotter.v1.devmapper\", \"io.containerd.snapshotter.v1.zfs\", \"io.containerd.tracing.processor.v1.otlp\", \"io.containerd.internal.v1.tracing\"]\n");
        let _ = writeln!(text, "[grpc]\n  address = {}", quoted(self.socket()));
        text.push_str("[ttrpc]\n  address = \"\"\n[debug]\n  level = \"info\"\n[plugins]\n");
        let _ = writeln!(
            text,
            "  [plugins.\"io.containerd.internal.v1.opt\"]\n    path = {}",
            quoted(run.join("opt"))
        );
        text.push_str("  [plugins.\"io.containerd.grpc.v1.cri\"]\n");
        let _ = writeln!(text, "    sandbox_image = {SANDBOX_IMAGE:?}\n    disable_apparmor = true");
        let _ = writeln!(text, "    restrict_oom_score_adj = {}", !machine.sys_resource);
        text.push_str("    stream_server_address = \"127.0.0.1\"\n    stream_server_port = \"0\"\n");
        text.push_str("    [plugins.\"io.containerd.grpc.v1.cri\".cni]\n      max_conf_num = 1\n");
        let _ = writeln!(text, "      bin_dir = {}", quoted(machine.cni_bin_dir.clone()));
        let _ = writeln!(text, "      conf_dir = {}", quoted(self.cni_conf_dir()));
        text.push_str("    [plugins.\"io.containerd.grpc.v1.cri\".containerd]\n");
        let _ = writeln!(text, "      snapshotter = {:?}", machine.snapshotter);
        text.push_str("      default_runtime_name = \"runc\"\n");
        text.push_str("      [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc]\n        runtime_type = \"io.containerd.runc.v2\"\n");
        text.push_str("        [plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\n          SystemdCgroup = false\n");
        let _ = writeln!(text, "          BinaryName = {}", quoted(machine.runc.clone()));
        let _ = writeln!(
            text,
            "    [plugins.\"io.containerd.grpc.v1.cri\".registry]\n      config_path = {}",
            quoted(root.join("certs.d"))
        );
        text
    }
    // ANCHOR_END: containerd-config

    /// The pod network: a bridge in the node's namespace, addresses from the node's pod CIDR, host ports.
    ///
    /// `hairpinMode`: a pod that reaches itself through its Service comes back through the port that it left by.
    /// `ipMasq` is off: pods keep their address on the way to other nodes' pods ([`crate::network`] masquerades the rest).
    pub fn cni_conflist(&self, pod_cidr: Ipv4Cidr) -> String {
        let conflist = json!({
            "cniVersion": "0.4.0",
            "name": self.unique_name,
            "plugins": [
                {
                    "type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": false,
                    "hairpinMode": true, "mtu": 1500,
                    "ipam": {
                        "type": "host-local",
                        "dataDir": self.run.join("cni/ipam"),
                        "ranges": [[{"subnet": pod_cidr.to_string()}]],
                        "routes": [{"dst": "0.0.0.0/0"}],
                    },
                },
                {"type": "portmap", "capabilities": {"portMappings": true}, "snat": true},
            ],
        });
        format!("{conflist:#}\n")
    }
}

#[cfg(test)]
mod tests;
