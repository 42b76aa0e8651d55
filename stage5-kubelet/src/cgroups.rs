//! Cgroups: the pod's own share of the machine.
//!
//! *Step 5 of a pod's journey.* Before: a pod was admitted. After: its containers are started below its cgroup, whose limits hold for all of
//! them together.
//!
//! `kubepods` holds everything; below it the QoS classes `burstable` and `besteffort`, and Guaranteed pods directly. A class weighs what
//! its pods requested, so a BestEffort pod never takes CPU from a Guaranteed one under load. The runtime removes only the
//! containers' cgroups: the pod's own is made and removed here, in every v1 hierarchy or once in v2.
//!
//! # Invariants
//! 1. A pod limit exists only when every container has one.
//! 2. The folder of a pod is removed when nothing of it runs.
//!
//! # In Kubernetes
//! `pkg/kubelet/cm/{cgroup_manager_linux,pod_container_manager_linux,qos_container_manager_linux,helpers_linux}.go`. Left out: systemd as
//! the driver, huge pages, memory QoS.
#![expect(clippy::disallowed_methods, reason = "shell: reads and writes cgroup files")]

use std::io;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::Pod;

use crate::container_spec::resources::{QUOTA_PERIOD, milli_cpu_to_quota, milli_cpu_to_shares};
use crate::pod::{Pick, PodExt, QosClass, limit, pod_total};
use crate::quantity::{milli_value, value};

const MOUNT: &str = "/sys/fs/cgroup";

/// The limits of one cgroup; absent ones are not written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Weight.
    pub cpu_shares: Option<i64>,
    /// CPU time in a period, in microseconds; negative for none.
    pub cpu_quota: Option<i64>,
    /// Bytes.
    pub memory_bytes: Option<i64>,
    /// Processes.
    pub pids: Option<i64>,
}

/// The limits of a pod's own cgroup.
pub fn pod_limits(pod: &Pod) -> Limits {
    let cpu_limit = pod_total(pod, "cpu", Pick::Limits, milli_value);
    let memory_limit = pod_total(pod, "memory", Pick::Limits, value);
    let all = |name: &str| {
        pod.all_containers()
            .all(|c| c.resources.as_ref().and_then(|r| limit(r, name)).is_some_and(|q| milli_value(q) > 0))
    };
    let requests = pod_total(pod, "cpu", Pick::Requests, milli_value);
    match pod.qos_class() {
        QosClass::BestEffort => Limits { cpu_shares: Some(2), ..Limits::default() },
        QosClass::Guaranteed | QosClass::Burstable => Limits {
            cpu_shares: Some(milli_cpu_to_shares(requests)),
            cpu_quota: all("cpu").then(|| milli_cpu_to_quota(cpu_limit)),
            memory_bytes: all("memory").then_some(memory_limit),
            pids: None,
        },
    }
}

/// `kubepods/burstable/podUID` for a pod.
pub fn pod_cgroup(root: &str, pod: &Pod) -> String {
    let class = match pod.qos_class() {
        QosClass::Guaranteed => "",
        QosClass::Burstable => "/burstable",
        QosClass::BestEffort => "/besteffort",
    };
    format!("{root}/kubepods{class}/pod{}", pod.pod_uid())
}

/// The cgroup hierarchies of this machine.
pub struct Cgroups {
    root: String,
    /// v1: one mount a controller. v2: exactly one.
    mounts: Vec<PathBuf>,
    v2: bool,
    enabled: bool,
}

impl Cgroups {
    /// Looks at the machine; `root` is the cgroup below which `kubepods` is made.
    pub fn new(root: &str, enabled: bool) -> Self {
        let v2 = Path::new(MOUNT).join("cgroup.controllers").exists();
        let mounts = if v2 { vec![PathBuf::from(MOUNT)] } else { v1_mounts() };
        let root = match root.trim_matches('/') {
            "" => String::new(),
            r => format!("/{r}"),
        };
        let cgroups = Cgroups { root, mounts, v2, enabled: false };
        // Without rights (rootless) there are no limits; containers then live in the runtime's own cgroup.
        let writable = enabled && cgroups.make(&format!("{}/kubepods", cgroups.root)).is_ok();
        Cgroups { enabled: writable, ..cgroups }
    }

    /// Whether the machine has only cgroup v2.
    pub fn is_v2(&self) -> bool {
        self.v2
    }

    /// Whether limits can be had.
    pub fn enabled(&self) -> bool {
        self.enabled
    }

    /// The cgroup parent of a pod's sandbox; empty where there are none.
    pub fn parent_of(&self, pod: &Pod) -> String {
        if self.enabled { pod_cgroup(&self.root, pod) } else { String::new() }
    }

    /// Limits of the node's pods as a whole.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn setup_node(&self, cpu_millis: i64, memory_bytes: i64) -> io::Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let all = format!("{}/kubepods", self.root);
        self.make(&all)?;
        let limits = Limits {
            cpu_shares: Some(milli_cpu_to_shares(cpu_millis)),
            memory_bytes: Some(memory_bytes),
            ..Limits::default()
        };
        self.write(&all, &limits)?;
        for class in ["burstable", "besteffort"] {
            let dir = format!("{all}/{class}");
            self.make(&dir)?;
            self.write(&dir, &Limits { cpu_shares: Some(2), ..Limits::default() })?;
        }
        Ok(())
    }

    /// Gives the Burstable class the weight of its pods.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn update_burstable(&self, pods: &[std::sync::Arc<Pod>]) -> io::Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let mine = pods.iter().filter(|p| p.qos_class() == QosClass::Burstable && !p.is_terminal());
        let millis: i64 = mine.map(|p| pod_total(p, "cpu", Pick::Requests, milli_value)).sum();
        let limits = Limits { cpu_shares: Some(milli_cpu_to_shares(millis)), ..Limits::default() };
        self.write(&format!("{}/kubepods/burstable", self.root), &limits)
    }

    /// Makes a pod's cgroup with its limits.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn create_pod(&self, pod: &Pod) -> io::Result<()> {
        if !self.enabled {
            return Ok(());
        }
        let name = pod_cgroup(&self.root, pod);
        self.make(&name)?;
        self.write(&name, &pod_limits(pod))
    }

    /// Removes the cgroups of a pod, whatever its class was.
    pub fn remove_pod(&self, uid: &str) {
        for class in ["", "/burstable", "/besteffort"] {
            for mount in &self.mounts {
                remove_tree(
                    &mount.join(format!("{}/kubepods{class}/pod{uid}", self.root).trim_start_matches('/')),
                );
            }
        }
    }

    /// UIDs of pods that have a cgroup.
    pub fn pod_uids(&self) -> Vec<String> {
        let Some(mount) = self.mounts.first().filter(|_| self.enabled) else { return Vec::new() };
        let mut uids = Vec::new();
        for class in ["", "burstable", "besteffort"] {
            let dir = mount.join(format!("{}/kubepods", self.root).trim_start_matches('/')).join(class);
            let names = std::fs::read_dir(dir).into_iter().flatten().flatten().map(|e| e.file_name());
            uids.extend(
                names.filter_map(|n| n.to_str().and_then(|n| n.strip_prefix("pod")).map(str::to_owned)),
            );
        }
        uids
    }

    fn make(&self, name: &str) -> io::Result<()> {
        for mount in &self.mounts {
            let mut dir = mount.clone();
            for part in name.split('/').filter(|p| !p.is_empty()) {
                if self.v2 {
                    // Children get only what the parent hands on.
                    let _ =
                        std::fs::write(dir.join("cgroup.subtree_control"), "+cpu +memory +pids +cpuset +io");
                }
                let parent = dir.clone();
                dir.push(part);
                match std::fs::create_dir(&dir) {
                    Err(e) if e.kind() != io::ErrorKind::AlreadyExists => return Err(e),
                    _ => {}
                }
                for file in ["cpuset.cpus", "cpuset.mems"].into_iter().filter(|_| mount.ends_with("cpuset")) {
                    inherit(&parent, &dir, file);
                }
            }
        }
        Ok(())
    }

    fn write(&self, name: &str, limits: &Limits) -> io::Result<()> {
        let name = name.trim_start_matches('/');
        if self.v2 {
            return write_v2(&Path::new(MOUNT).join(name), limits);
        }
        let file =
            |controller: &str, file: &str, v: i64| match self.mounts.iter().find(|m| {
                m.file_name().is_some_and(|n| n.to_string_lossy().split(',').any(|c| c == controller))
            }) {
                Some(mount) => std::fs::write(mount.join(name).join(file), v.to_string()),
                None => Ok(()),
            };
        if let Some(v) = limits.cpu_shares {
            file("cpu", "cpu.shares", v)?;
        }
        if let Some(v) = limits.cpu_quota.filter(|q| *q != 0) {
            file("cpu", "cpu.cfs_period_us", QUOTA_PERIOD)?;
            file("cpu", "cpu.cfs_quota_us", v)?;
        }
        if let Some(v) = limits.memory_bytes.filter(|m| *m > 0) {
            file("memory", "memory.limit_in_bytes", v)?;
        }
        if let Some(v) = limits.pids {
            file("pids", "pids.max", v)?;
        }
        Ok(())
    }
}

fn v1_mounts() -> Vec<PathBuf> {
    let all = std::fs::read_dir(MOUNT).into_iter().flatten().flatten();
    // `cpu,cpuacct` is often reached by links `cpu` and `cpuacct`: one of them is enough.
    let mut mounts: Vec<PathBuf> =
        all.filter(|e| e.file_type().is_ok_and(|t| t.is_dir())).map(|e| e.path()).collect();
    mounts.retain(|m| m.join("cgroup.procs").exists());
    mounts.sort();
    mounts
}

/// A v1 cpuset is empty at first, and nothing can run in an empty one.
fn inherit(parent: &Path, dir: &Path, file: &str) {
    let own = std::fs::read_to_string(dir.join(file)).unwrap_or_default();
    if own.trim().is_empty()
        && let Ok(value) = std::fs::read_to_string(parent.join(file))
    {
        let _ = std::fs::write(dir.join(file), value.trim());
    }
}

/// Weight of cgroup v2 from v1's shares, as runc converts them.
pub fn shares_to_weight(shares: i64) -> i64 {
    (1 + ((shares - 2) * 9999) / 262_142).clamp(1, 10_000)
}

fn write_v2(dir: &Path, limits: &Limits) -> io::Result<()> {
    if let Some(v) = limits.cpu_shares {
        std::fs::write(dir.join("cpu.weight"), shares_to_weight(v).to_string())?;
    }
    if let Some(v) = limits.cpu_quota.filter(|q| *q != 0) {
        let quota = if v < 0 { "max".to_owned() } else { v.to_string() };
        std::fs::write(dir.join("cpu.max"), format!("{quota} {QUOTA_PERIOD}"))?;
    }
    if let Some(v) = limits.memory_bytes.filter(|m| *m > 0) {
        std::fs::write(dir.join("memory.max"), v.to_string())?;
    }
    if let Some(v) = limits.pids {
        std::fs::write(dir.join("pids.max"), v.to_string())?;
    }
    Ok(())
}

/// Removes a cgroup and the ones below it; a cgroup with processes stays.
fn remove_tree(dir: &Path) {
    for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|t| t.is_dir()) {
            remove_tree(&entry.path());
        }
    }
    let _ = std::fs::remove_dir(dir);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "spec": spec})).unwrap()
    }

    #[test]
    fn a_pod_is_limited_only_when_every_container_is() {
        let limited = json!({"name": "a", "resources": {"limits": {"cpu": "500m", "memory": "32Mi"}, "requests": {"cpu": "100m"}}});
        let p = pod(json!({"containers": [limited, {"name": "b"}]}));
        assert_eq!(pod_limits(&p), Limits { cpu_shares: Some(102), ..Limits::default() });
        let p = pod(json!({"containers": [limited]}));
        assert_eq!(
            pod_limits(&p),
            Limits {
                cpu_shares: Some(102),
                cpu_quota: Some(50_000),
                memory_bytes: Some(32 << 20),
                pids: None
            }
        );
        assert_eq!(pod_cgroup("/k", &p), "/k/kubepods/burstable/podu");
    }

    #[test]
    fn weights_of_v2_span_the_whole_range() {
        assert_eq!([2, 1024, 262_144].map(shares_to_weight), [1, 39, 10_000]);
    }
}
