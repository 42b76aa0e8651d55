//! Nodes with a real containerd each: pods of two nodes reach each other, and a stop leaves nothing behind.
#![allow(clippy::unwrap_used, reason = "a test: a panic is its way to fail")]
#![cfg(feature = "containerd")]
#![expect(clippy::disallowed_methods, reason = "shell: a test with real programs")]

use std::path::Path;
use std::process::Command;

use sha2::{Digest as _, Sha256};
use stage1_kubectl::state_dir::StateDir;
use stage5_kubelet::containerd_process::config::SANDBOX_IMAGE;
use stage5_kubelet::cri::{PodSandboxConfig, PodSandboxMetadata, SharedRuntime};
use stage5_kubelet::options::RuntimeKind;
use stage5_kubelet::pipeline::{Nodes, RuntimeChoice};

/// With STAGES_REQUIRE_REAL=1 the absence of a real part is a failure.
fn skipped(why: &str) {
    assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "real part missing: {why}");
    println!("skipped: {why}");
}

/// A pause image made of the machine's own busybox: the sandbox only has to stay.
fn make_pause_image(folder: &Path) {
    let busybox = stage5_kubelet::containerd_process::config::find("busybox").expect("busybox");
    let layer = archive(&[("busybox", std::fs::read(busybox).expect("busybox can be read"))]);
    let digest = hex(&Sha256::digest(&layer));
    let config = serde_json::json!({
        "architecture": "amd64", "os": "linux",
        "config": {"Entrypoint": ["/busybox", "sleep", "3600"]},
        "rootfs": {"type": "layers", "diff_ids": [format!("sha256:{digest}")]},
    });
    let manifest = serde_json::json!([
        {"Config": "config.json", "RepoTags": [SANDBOX_IMAGE], "Layers": ["layer.tar"]}
    ]);
    let image = archive(&[
        ("config.json", config.to_string().into_bytes()),
        ("layer.tar", layer),
        ("manifest.json", manifest.to_string().into_bytes()),
    ]);
    std::fs::create_dir_all(folder).expect("the images' folder");
    std::fs::write(folder.join("pause.tar"), image).expect("the image");
}

fn archive(files: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let mut archive = tar::Builder::new(Vec::new());
    for (name, bytes) in files {
        let mut header = tar::Header::new_ustar();
        header.set_size(bytes.len() as u64);
        header.set_mode(0o755);
        archive.append_data(&mut header, name, bytes.as_slice()).expect("in memory");
    }
    archive.into_inner().expect("in memory")
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn sandbox(name: &str, logs: &Path) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: PodSandboxMetadata {
            name: name.to_owned(),
            namespace: "default".to_owned(),
            uid: format!("uid-{name}"),
            attempt: 0,
        },
        hostname: name.to_owned(),
        log_directory: logs.display().to_string(),
        ..PodSandboxConfig::default()
    }
}

async fn run_pod(runtime: &SharedRuntime, name: &str, logs: &Path) -> String {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(20);
    // containerd reads the pod network's configuration when it notices the file.
    while runtime.status().await.expect("status").network_ready.is_err() {
        assert!(std::time::Instant::now() < deadline, "the pod network is not ready in time");
        tokio::task::yield_now().await;
    }
    let id = runtime.run_pod_sandbox(&sandbox(name, logs)).await.expect("a sandbox");
    let status = runtime.pod_sandbox_status(&id).await.expect("its status");
    status.ips.into_iter().next().expect("its address")
}

#[tokio::test(flavor = "multi_thread")]
async fn pods_of_two_nodes_reach_each_other_and_a_stop_leaves_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let state_dir = StateDir::new(Some(folder.path().join("state"))).unwrap();
    let choice = match RuntimeChoice::new(Some(RuntimeKind::Containerd), &state_dir) {
        Ok(choice) => choice,
        Err(why) => return skipped(&format!("{why:#}")),
    };
    make_pause_image(&state_dir.root().join("images"));
    let mut nodes = Nodes::create(&state_dir, 2, &choice).expect("two nodes");
    let started = nodes.start_runtimes(&choice).await;
    let (first, second) = ("10.244.0.0/24".parse().unwrap(), "10.244.1.0/24".parse().unwrap());
    nodes.set_pod_cidrs(&[("node-1".to_owned(), first), ("node-2".to_owned(), second)]);
    let (one, two) = (nodes.runtime("node-1"), nodes.runtime("node-2"));
    let (first_netns, logs) = (nodes.handles()[0].netns.clone().unwrap(), folder.path().to_owned());
    // A task of its own: if it panics, the nodes are stopped all the same.
    let outcome = tokio::spawn(async move {
        started.expect("containerd on both nodes");
        let one = run_pod(&one.unwrap(), "one", &logs).await;
        let two = run_pod(&two.unwrap(), "two", &logs).await;
        println!("pods {one} and {two}");
        // From node 1 itself to the pod on node 2: routed by the other node's address.
        let ping = Command::new("nsenter")
            .arg(format!("--net={}", first_netns.display()))
            .args(["busybox", "timeout", "5", "busybox", "ping", "-c", "1", &two])
            .output()
            .expect("nsenter runs");
        assert!(ping.status.success(), "no answer from {two}: {ping:?}");
    })
    .await;
    let netns: Vec<_> = nodes.handles().into_iter().filter_map(|node| node.netns).collect();
    nodes.stop().await;
    assert!(netns.iter().all(|path| !path.exists()), "namespaces are left");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    let root = state_dir.root().display().to_string();
    assert!(!mounts.contains(&root), "mounts are left: {mounts}");
    outcome.unwrap();
}
