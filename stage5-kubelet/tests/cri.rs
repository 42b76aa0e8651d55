//! The CRI suite: what every runtime must do, asked of the simulated one, and of containerd where it is installed.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::collections::BTreeMap;
use std::sync::Arc;

use stage5_kubelet::cri::{
    ContainerConfig, ContainerMetadata, ContainerState, CriError, PodSandboxConfig, PodSandboxMetadata,
    SandboxState, SharedRuntime,
};
use stage5_kubelet::kubelet::Kubelet;
use stage5_kubelet::runtime_view::labels;

#[path = "support/node.rs"]
mod node;
use node::{BUSYBOX, on_sim};

fn sandbox(uid: &str) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: PodSandboxMetadata {
            name: "p".into(),
            uid: uid.into(),
            namespace: "ns".into(),
            attempt: 0,
        },
        hostname: "p".into(),
        log_directory: std::env::temp_dir().join("six-stages-cri-suite").join(uid).display().to_string(),
        labels: BTreeMap::from([(labels::POD_UID.to_owned(), uid.to_owned())]),
        ..PodSandboxConfig::default()
    }
}

fn container(uid: &str, image: &str) -> ContainerConfig {
    ContainerConfig {
        metadata: ContainerMetadata { name: "c".into(), attempt: 0 },
        image: image.into(),
        user_specified_image: BUSYBOX.into(),
        command: ["sh", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"].map(str::to_owned).to_vec(),
        labels: BTreeMap::from([
            (labels::POD_UID.to_owned(), uid.to_owned()),
            (labels::CONTAINER_NAME.to_owned(), "c".to_owned()),
        ]),
        log_path: "c.log".into(),
        ..ContainerConfig::default()
    }
}

/// The life of a pod, call by call.
async fn suite(runtime: SharedRuntime, _: Arc<Kubelet>) {
    assert!(!runtime.version().await.unwrap().runtime_name.is_empty());
    assert_eq!(runtime.status().await.unwrap().runtime_ready, Ok(()));
    if runtime.image_status(BUSYBOX).await.unwrap().is_none() {
        runtime.pull_image(BUSYBOX, None).await.unwrap();
    }
    let image = runtime.image_status(BUSYBOX).await.unwrap().expect("the image is there");
    assert_eq!(runtime.image_status("reg.test/none:1").await.unwrap(), None);

    let of_pod = sandbox("suite-1");
    std::fs::create_dir_all(&of_pod.log_directory).unwrap();
    let sb = runtime.run_pod_sandbox(&of_pod).await.unwrap();
    let status = runtime.pod_sandbox_status(&sb).await.unwrap();
    assert_eq!(
        (status.state, status.ips.len(), status.metadata.uid.as_str()),
        (SandboxState::Ready, 1, "suite-1")
    );
    assert_eq!(runtime.list_pod_sandbox(Some("suite-1")).await.unwrap().len(), 1);
    assert!(runtime.list_pod_sandbox(Some("suite-2")).await.unwrap().is_empty());

    let config = container("suite-1", &image.id);
    let id = runtime.create_container(&sb, &config, &of_pod).await.unwrap();
    let state = async || runtime.container_status(&id).await.unwrap().state;
    assert_eq!(state().await, ContainerState::Created, "creating does not start");
    runtime.start_container(&id).await.unwrap();
    assert_eq!(state().await, ContainerState::Running);
    assert!(runtime.start_container(&id).await.is_err(), "a container is started once");
    let listed = runtime.list_containers(Some("suite-1")).await.unwrap();
    assert_eq!((listed.len(), listed[0].pod_sandbox_id.as_str()), (1, sb.as_str()));

    runtime.stop_container(&id, 5).await.unwrap();
    let ended = runtime.container_status(&id).await.unwrap();
    assert_eq!(
        (ended.state, ended.exit_code, ended.reason.as_str()),
        (ContainerState::Exited, 0, "Completed")
    );
    runtime.stop_container(&id, 5).await.expect("stopping again succeeds");
    runtime.remove_container(&id).await.unwrap();
    runtime.remove_container(&id).await.expect("removing again succeeds");
    assert!(matches!(runtime.container_status(&id).await, Err(CriError::NotFound(_))));

    runtime.stop_pod_sandbox(&sb).await.unwrap();
    assert_eq!(runtime.pod_sandbox_status(&sb).await.unwrap().state, SandboxState::NotReady);
    runtime.stop_pod_sandbox(&sb).await.expect("stopping again succeeds");
    runtime.remove_pod_sandbox(&sb).await.unwrap();
    runtime.remove_pod_sandbox(&sb).await.expect("removing again succeeds");
    let _ = std::fs::remove_dir_all(&of_pod.log_directory);
}

#[tokio::test]
async fn the_simulated_runtime_passes_the_suite() {
    on_sim(suite).await;
}

#[tokio::test]
async fn the_simulated_runtime_refuses_what_it_cannot_do() {
    on_sim(|runtime, _| async move {
        let refused = runtime.exec("x", &Default::default()).await.unwrap_err();
        assert!(
            refused.to_string().ends_with("exec needs a real runtime: this node runs with --runtime sim"),
            "{refused}"
        );
    })
    .await;
}

#[cfg(feature = "containerd")]
#[test]
fn containerd_passes_the_suite() {
    node::on_containerd("cri", suite);
}
