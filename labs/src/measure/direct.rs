//! The same pods without Kubernetes: CRI calls, one after another.
//!
//! *Step 5 of a pod's journey, and nothing else.* For each pod: RunPodSandbox, CreateContainer, StartContainer.
//!
//! The kubelet would take these containers for remains of its pods and remove them, so the pipeline's process is held still
//! (`SIGSTOP`) meanwhile; containerd, which is another process, works on.
//!
//! # Invariants
//! 1. The pipeline goes on afterwards, and finds nothing that it didn't make.
//!
//! # In Kubernetes
//! `cri-tools` (`critest -benchmark`).
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock and a file")]

use std::time::{Duration, Instant};

use anyhow::Context as _;
use k8s_openapi::api::core::v1::{Container, Pod};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use stage5_kubelet::cgroups::Cgroups;
use stage5_kubelet::container_spec::{ContainerInputs, NodeFacts, container_config, pod_sandbox_config};
use stage5_kubelet::cri::containerd::Containerd;
use stage5_kubelet::cri::{ContainerConfig, PodSandboxConfig, RuntimeService as _};
use stage5_kubelet::network::ClusterNetwork;

use super::cluster::Pipeline;

const NODE: &str = "node-1";
/// Above every attempt of the kubelet's: the runtime reserves the names of what exists.
const ATTEMPT: u32 = 1000;

/// One pod, ready to be made.
struct Plan {
    sandbox: PodSandboxConfig,
    containers: Vec<ContainerConfig>,
}

/// Holds a process still while it lives.
struct Held(Pid);

impl Held {
    fn new(pid: u32) -> anyhow::Result<Self> {
        let pid = Pid::from_raw(i32::try_from(pid)?);
        kill(pid, Signal::SIGSTOP).context("hold the pipeline")?;
        Ok(Held(pid))
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}

/// Makes the pods once more; returns how long that took. They are removed again.
///
/// # Errors
/// containerd refuses.
pub async fn make_again(pipeline: &Pipeline, pods: &[Pod]) -> anyhow::Result<Duration> {
    let socket = pipeline.state_dir.run_dir()?.join(NODE).join("containerd.sock");
    let runtime = Containerd::connect(&socket.display().to_string()).await?;
    let network = std::fs::read(pipeline.state_dir.root().join("nodes/network.json"))?;
    let network: ClusterNetwork = serde_json::from_slice(&network)?;
    let cgroups = Cgroups::new(&format!("{}-{NODE}", network.bridge()), true);
    let facts = NodeFacts {
        pod_logs_dir: pipeline.state_dir.root().join("direct").display().to_string(),
        ..NodeFacts::default()
    };
    let mut plans = Vec::new();
    for pod in pods {
        plans.push(plan(&runtime, pod, &cgroups.parent_of(pod), &facts).await?);
    }
    let held = Held::new(pipeline.pid())?;
    let begin = Instant::now();
    let mut made = Vec::new();
    let outcome = make(&runtime, &plans, &mut made).await;
    let took = begin.elapsed();
    for id in made {
        runtime.stop_pod_sandbox(&id).await?;
        runtime.remove_pod_sandbox(&id).await?;
    }
    drop(held);
    outcome.map(|()| took)
}

async fn make(runtime: &Containerd, plans: &[Plan], made: &mut Vec<String>) -> anyhow::Result<()> {
    for plan in plans {
        let sandbox = runtime.run_pod_sandbox(&plan.sandbox).await?;
        made.push(sandbox.clone());
        for container in &plan.containers {
            let id = runtime.create_container(&sandbox, container, &plan.sandbox).await?;
            runtime.start_container(&id).await?;
        }
    }
    Ok(())
}

/// What the kubelet would ask for; mounts and image are those that it did ask for.
async fn plan(runtime: &Containerd, pod: &Pod, parent: &str, facts: &NodeFacts) -> anyhow::Result<Plan> {
    let sandbox = pod_sandbox_config(pod, ATTEMPT, parent, facts);
    std::fs::create_dir_all(&sandbox.log_directory)?;
    let mut containers = Vec::new();
    for summary in runtime.list_containers(pod.metadata.uid.as_deref()).await? {
        let status = runtime.container_status(&summary.id).await?;
        let container = spec_of(pod, &status.metadata.name).context("a container of the pod's spec")?;
        let inputs = ContainerInputs {
            attempt: ATTEMPT,
            image_ref: status.image_ref,
            mounts: status.mounts,
            ..ContainerInputs::default()
        };
        let config = container_config(pod, container, &inputs, facts).map_err(anyhow::Error::msg)?;
        containers.push(config);
    }
    Ok(Plan { sandbox, containers })
}

fn spec_of<'a>(pod: &'a Pod, name: &str) -> Option<&'a Container> {
    pod.spec.as_ref()?.containers.iter().find(|container| container.name == name)
}
