//! A node for tests: a runtime, and a kubelet without an API server.
//!
//! *Beside the journey.* Before: a test wants to see containers. After: a namespace, a containerd of its own and a kubelet in them; everything
//! is removed afterwards.
//!
//! # Invariants
//! 1. What a test started is stopped, also when it fails.
//!
//! # In Kubernetes
//! `test/e2e_node`.
#![allow(dead_code, reason = "each test file uses its part")]

use std::future::Future;
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use stage1_kubectl::client::{Client, ClientConfig};
use stage5_kubelet::cri::SharedRuntime;
use stage5_kubelet::cri::sim::Sim;
use stage5_kubelet::kubelet::Kubelet;
use stage5_kubelet::options::Config;
use stage5_kubelet::pod::PodExt;
use stage5_kubelet::sync_pod::{Outcome, PodMemory};
use tokio_util::sync::CancellationToken;

/// The image that tests run.
pub const BUSYBOX: &str = "busybox:1.36";

/// With STAGES_REQUIRE_REAL=1 the absence of a real part is a failure.
pub fn skipped(why: &str) {
    assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "real part missing: {why}");
    println!("skipped: {why}");
}

/// A kubelet whose API server does not exist: what it tells is read from its status manager.
pub fn kubelet(runtime: SharedRuntime, root: &std::path::Path, cgroup: &str) -> Arc<Kubelet> {
    let mut config = Config::new("node-t", "127.0.0.1".parse().unwrap(), root.to_path_buf());
    config.cgroup_root = cgroup.to_owned();
    std::fs::create_dir_all(root.join("pods")).unwrap();
    let client = Client::new(ClientConfig::new("http://127.0.0.1:9")).unwrap();
    let (wake, _) = tokio::sync::mpsc::unbounded_channel();
    Arc::new(Kubelet::new(config, client, runtime, wake))
}

/// A pod on one kubelet, driven by hand.
pub struct Driven {
    pub kubelet: Arc<Kubelet>,
    pub pod: Arc<Pod>,
    pub memory: PodMemory,
}

impl Driven {
    pub fn new(kubelet: &Arc<Kubelet>, spec: serde_json::Value) -> Self {
        let n = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap().as_nanos();
        let meta = serde_json::json!({"name": "p", "namespace": "default", "uid": format!("uid-{n}")});
        let pod: Pod = serde_json::from_value(serde_json::json!({"metadata": meta, "spec": spec})).unwrap();
        Driven { kubelet: kubelet.clone(), pod: Arc::new(pod), memory: PodMemory::default() }
    }

    /// Rounds until nothing is to be done at once.
    pub async fn settle(&mut self) -> Outcome {
        let stop = CancellationToken::new();
        loop {
            let outcome = self.kubelet.sync_pod(&self.pod, &mut self.memory, &stop).await;
            if !outcome.again {
                return outcome;
            }
        }
    }

    pub fn status(&self) -> PodStatus {
        self.kubelet.status.get(self.pod.pod_uid()).unwrap_or_default()
    }

    /// Rounds until the status is as wanted.
    pub async fn until(&mut self, what: &str, wanted: impl Fn(&PodStatus) -> bool) -> PodStatus {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(30);
        loop {
            self.settle().await;
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            let shown = serde_json::to_string_pretty(&status).unwrap();
            assert!(tokio::time::Instant::now() < deadline, "{what}: not reached, status {shown}");
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
        }
    }

    pub async fn remove(self) {
        self.kubelet.remove_pod_remains(self.pod.pod_uid()).await;
    }
}

/// Runs a test on the simulated runtime.
pub async fn on_sim<F: Future<Output = ()>>(test: impl Fn(SharedRuntime, Arc<Kubelet>) -> F) {
    let root = tempfile::tempdir().unwrap();
    let runtime: SharedRuntime = Arc::new(Sim::new());
    test(runtime.clone(), kubelet(runtime, root.path(), "")).await;
}

#[cfg(feature = "containerd")]
mod real {
    use std::path::PathBuf;

    use stage5_kubelet::containerd_process::ContainerdProcess;
    use stage5_kubelet::containerd_process::config::{Layout, Machine};
    use stage5_kubelet::containerd_process::import::import_images;
    use stage5_kubelet::cri::containerd::Containerd;
    use stage5_kubelet::network::execute::{claim, execute, observe};
    use stage5_kubelet::network::netns::NodeRuntime;
    use stage5_kubelet::network::{plan_down, plan_up};

    use super::*;

    /// The folder of image archives: `STAGES_TEST_IMAGES`, or `images` in the target folder.
    fn images() -> Option<PathBuf> {
        let default = || PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../target/images");
        let folder = std::env::var_os("STAGES_TEST_IMAGES").map_or_else(default, PathBuf::from);
        folder.is_dir().then_some(folder)
    }

    /// Runs a test on a containerd of its own.
    pub fn on_containerd<F>(
        name: &'static str,
        test: impl FnOnce(SharedRuntime, Arc<Kubelet>) -> F + Send + 'static,
    ) where
        F: Future<Output = ()> + Send + 'static,
    {
        let root = tempfile::tempdir().unwrap();
        let machine = match Machine::detect(root.path()) {
            Ok(machine) if nix::unistd::geteuid().is_root() => machine,
            Ok(_) => return skipped("not root"),
            Err(why) => return skipped(&format!("no containerd ({why})")),
        };
        let Some(images) = images() else { return skipped("no images (STAGES_TEST_IMAGES)") };
        let claimed = claim(&format!("six-stages:{name}-{}", std::process::id()), None).expect("a bridge");
        let cluster = claimed.network.clone();
        let node = cluster.node(1);
        execute(&plan_up(&cluster, std::slice::from_ref(&node), &observe().unwrap())).expect("network up");
        let run = PathBuf::from(format!("/run/s5t-{}-{name}", std::process::id()));
        let unique_name = format!("{}-t", cluster.bridge());
        let layout = Layout {
            node_name: "node-t".into(),
            unique_name: unique_name.clone(),
            root: root.path().join("c"),
            run,
        };
        let inside = NodeRuntime::start("node-t", Some(&node.netns)).expect("a runtime in the node");
        let kubelet_root = root.path().join("kubelet");
        let work = async move {
            let process = ContainerdProcess::start(layout, &machine, vec![]).await.expect("containerd");
            process.set_pod_cidr("10.244.250.0/24".parse().unwrap()).expect("pod cidr");
            import_images(process.layout(), &images).await.expect("images");
            let connected =
                Containerd::connect(&process.layout().socket().display().to_string()).await.expect("connect");
            let runtime: SharedRuntime = Arc::new(connected);
            wait_for_network(&runtime).await;
            let kubelet = kubelet(runtime.clone(), &kubelet_root, &format!("/{unique_name}"));
            kubelet.cgroups.setup_node(2000, 1 << 33).expect("node cgroups");
            let outcome = tokio::spawn(test(runtime.clone(), kubelet)).await;
            process.stop(&runtime).await;
            outcome
        };
        // Spawned, not blocked on: only the runtime's own threads are inside of the node, and containerd inherits its starter's network.
        let outcome = futures::executor::block_on(inside.handle().spawn(work));
        drop(inside);
        execute(&plan_down(&cluster, std::slice::from_ref(&node), &observe().unwrap()))
            .expect("network down");
        outcome.expect("the test's thread").expect("the test");
    }

    async fn wait_for_network(runtime: &SharedRuntime) {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(20);
        while !runtime.status().await.is_ok_and(|s| s.network_ready.is_ok()) {
            assert!(tokio::time::Instant::now() < deadline, "the runtime's network does not become ready");
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}
#[cfg(feature = "containerd")]
pub use real::on_containerd;
