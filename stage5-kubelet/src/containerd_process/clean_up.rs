//! Leaving nothing behind: pods, shims, mounts, cgroups, sockets.
//!
//! *Step 5 of a pod's journey*, backwards. Before: the kubelet has stopped. After: the machine is as it was.
//!
//! # Invariants
//! 1. Only what lies below the node's own folders, or bears its unique name, is touched.
//!
//! # In Kubernetes
//! `kubeadm reset`.
#![expect(clippy::disallowed_methods, reason = "shell: mounts and folders")]

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tracing::{info, warn};

use super::config::Layout;
use crate::cri::{SandboxState, SharedRuntime};

/// How often what is left in containers is killed, and the pause between: what is killed takes a moment to go.
const END_LOOKS: u32 = 100;
const END_LOOK_PERIOD: Duration = Duration::from_millis(20);

/// Stops every pod sandbox of a node. Their records stay, and those of their containers: with them the next kubelet knows
/// that the pods have run before.
pub async fn stop_all_pods(runtime: &SharedRuntime, node: &str) {
    let mut sandboxes = match runtime.list_pod_sandbox(None).await {
        Ok(sandboxes) => sandboxes,
        Err(error) => return warn!(node, %error, "Cannot list pod sandboxes"),
    };
    sandboxes.retain(|sandbox| sandbox.state == SandboxState::Ready);
    info!(node, pods = sandboxes.len(), "Stopping all pods");
    let stops = sandboxes.iter().map(|sandbox| async move {
        if let Err(error) = runtime.stop_pod_sandbox(&sandbox.id).await {
            warn!(node, sandbox = sandbox.id, %error, "Cannot stop pod sandbox");
        }
    });
    let all = futures::future::join_all(stops);
    if tokio::time::timeout(Duration::from_secs(60), all).await.is_err() {
        warn!(node, "Some pods did not stop within a minute");
    }
}

/// Ends shims that containerd forgot (it was stopped or killed between starting one and writing it down) and what runs in containers whose
/// stop failed, unmounts what is left below the node's folders and removes its run directory and cgroups.
pub async fn clean_up(layout: &Layout) {
    end_shims(&layout.socket());
    end_containers(&cgroups_of(&layout.unique_name)).await;
    for folder in [&layout.run, &layout.root] {
        unmount_below(folder);
    }
    if let Err(error) = std::fs::remove_dir_all(&layout.run)
        && error.kind() != io::ErrorKind::NotFound
    {
        warn!(%error, folder = %layout.run.display(), "Cannot remove");
    }
    for folder in cgroups_of(&layout.unique_name) {
        let _ = remove_cgroup(&folder);
    }
}

/// Kills every process that serves pods for the containerd of this socket, whose pods are all stopped.
fn end_shims(socket: &Path) {
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|name| name.parse::<i32>().ok());
        let Some(pid) =
            pid.filter(|_| serves(&std::fs::read(entry.path().join("cmdline")).unwrap_or_default(), socket))
        else {
            continue;
        };
        warn!(pid, socket = %socket.display(), "Ending a shim that containerd left");
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
    }
}

/// Whether a command line is that of a shim: `containerd-shim-runc-v2 … -address SOCKET`.
fn serves(command_line: &[u8], socket: &Path) -> bool {
    let arguments: Vec<&[u8]> = command_line.split(|byte| *byte == 0).collect();
    let program = arguments.first().and_then(|program| program.rsplit(|byte| *byte == b'/').next());
    let socket = socket.as_os_str().as_encoded_bytes();
    program.is_some_and(|program| program.starts_with(b"containerd-shim"))
        && arguments.windows(2).any(|pair| pair[0] == b"-address" && pair[1] == socket)
}

/// Mounts below a folder, the deepest first.
fn unmount_below(folder: &Path) {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let mut points: Vec<PathBuf> = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(4))
        .map(|point| PathBuf::from(point.replace("\\040", " ")))
        .filter(|point| point.starts_with(folder))
        .collect();
    points.sort();
    for point in points.iter().rev() {
        if let Err(error) = nix::mount::umount2(point, nix::mount::MntFlags::MNT_DETACH) {
            warn!(%error, mount = %point.display(), "Cannot unmount");
        }
    }
}

/// A node's pods have their cgroups below one of the node's name, in every hierarchy.
fn cgroups_of(name: &str) -> Vec<PathBuf> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    let roots = hierarchies.map(|entry| entry.path()).chain([PathBuf::from("/sys/fs/cgroup")]);
    roots.map(|root| root.join(name)).filter(|folder| folder.is_dir()).collect()
}

/// Kills what runs in these cgroups until nothing does: with its shim gone, nobody else would, and its cgroup couldn't be removed.
async fn end_containers(cgroups: &[PathBuf]) {
    for _ in 0..END_LOOKS {
        let left: BTreeSet<i32> = cgroups.iter().flat_map(|folder| processes(folder)).collect();
        if left.is_empty() {
            return;
        }
        for pid in left {
            warn!(pid, "Ending what runs in a container that was left");
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
        tokio::time::sleep(END_LOOK_PERIOD).await;
    }
}

/// The processes of a cgroup and of those below it.
fn processes(folder: &Path) -> Vec<i32> {
    let listed = std::fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    let mut found: Vec<i32> = listed.lines().filter_map(|line| line.trim().parse().ok()).collect();
    // 0 stands for one that this namespace doesn't know, and a signal to it would be one to ourselves.
    found.retain(|pid| *pid > 1);
    let folders = std::fs::read_dir(folder).into_iter().flatten().flatten();
    for entry in folders.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
        found.extend(processes(&entry.path()));
    }
    found
}

fn remove_cgroup(folder: &Path) -> io::Result<()> {
    for entry in std::fs::read_dir(folder)?.flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            let _ = remove_cgroup(&entry.path());
        }
    }
    std::fs::remove_dir(folder)
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[tokio::test]
    async fn what_runs_in_a_left_cgroup_is_killed_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let pod = folder.path().join("node/pod/container");
        std::fs::create_dir_all(&pod).unwrap();
        let sleep = || std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let (mut container, mut other) = (sleep(), sleep());
        // Files stand in for the kernel's: a test may have no cgroups of its own.
        std::fs::write(pod.join("cgroup.procs"), format!("0\n1\n{}\n", container.id())).unwrap();
        std::fs::write(folder.path().join("node/cgroup.procs"), "").unwrap();
        let cgroups = [folder.path().join("node")];
        let ended = async {
            let status = tokio::task::spawn_blocking(move || container.wait()).await.unwrap().unwrap();
            std::fs::write(pod.join("cgroup.procs"), "").unwrap();
            status
        };
        let ((), status) = tokio::join!(end_containers(&cgroups), ended);
        assert_eq!(status.signal(), Some(9));
        assert_eq!(other.try_wait().unwrap(), None);
        other.kill().unwrap();
        other.wait().unwrap();
    }

    #[test]
    fn only_shims_of_this_containerd_are_ended() {
        let socket = Path::new("/run/six-stages-1/node-1/containerd.sock");
        let shim = |address: &str| {
            format!("/usr/bin/containerd-shim-runc-v2\0-namespace\0k8s.io\0-address\0{address}\0")
        };
        assert!(serves(shim("/run/six-stages-1/node-1/containerd.sock").as_bytes(), socket));
        assert!(!serves(shim("/run/six-stages-1/node-10/containerd.sock").as_bytes(), socket));
        assert!(!serves(b"/usr/bin/ctr\0-address\0/run/six-stages-1/node-1/containerd.sock\0", socket));
        assert!(!serves(b"", socket));
    }
}
