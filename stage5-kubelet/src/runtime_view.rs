//! The runtime's view of a pod: which sandboxes and containers exist for it, and in which state.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::cri`] lists what the runtime has. After: [`crate::pod_actions`] compares it with
//! the spec, [`crate::pod_status`] tells the API server.
//!
//! The kubelet keeps no record of what it started. Everything is in the labels and annotations of the containers, so a
//! kubelet that was killed finds its pods again by asking the runtime.
//!
//! # Invariants
//! 1. Sandboxes and containers are newest first.
//! 2. Everything is derived from the runtime's answers; only probe results are added by the kubelet.
//!
//! # In Kubernetes
//! `pkg/kubelet/container/runtime.go` (`PodStatus`, `Status`), `pkg/kubelet/kuberuntime/labels.go`. Left out: several IPs of one sandbox
//! beyond what CRI reports.

use std::cmp::Reverse;
use std::collections::HashSet;

use jiff::Timestamp;

use crate::cri::{ContainerState, ContainerStatus, PodSandboxStatus, SandboxState};

/// Labels and annotations that tie a container to its pod.
pub mod labels {
    /// Name of the pod.
    pub const POD_NAME: &str = "io.kubernetes.pod.name";
    /// Namespace of the pod.
    pub const POD_NAMESPACE: &str = "io.kubernetes.pod.namespace";
    /// UID of the pod.
    pub const POD_UID: &str = "io.kubernetes.pod.uid";
    /// Name of the container in the spec.
    pub const CONTAINER_NAME: &str = "io.kubernetes.container.name";
    /// Hash of the spec that the container was made from.
    pub const CONTAINER_HASH: &str = "io.kubernetes.container.hash";
    /// How often this container was started before.
    pub const RESTART_COUNT: &str = "io.kubernetes.container.restartCount";
    /// Where the container may leave a last message.
    pub const TERMINATION_MESSAGE_PATH: &str = "io.kubernetes.container.terminationMessagePath";
    /// `File` or `FallbackToLogsOnError`.
    pub const TERMINATION_MESSAGE_POLICY: &str = "io.kubernetes.container.terminationMessagePolicy";
    /// Grace period of the pod, in seconds.
    pub const GRACE_PERIOD: &str = "io.kubernetes.pod.terminationGracePeriod";
}

/// The outcome of the probe of one kind, as far as one is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProbeResult {
    /// Not yet known.
    Unknown,
    /// The threshold of successes was reached.
    Success,
    /// The threshold of failures was reached.
    Failure,
}

/// One container of the pod.
#[derive(Clone, Debug, PartialEq)]
pub struct RuntimeContainer {
    /// Id in the runtime.
    pub id: String,
    /// Name in the spec.
    pub name: String,
    /// Image as the spec of its time named it.
    pub image: String,
    /// What the runtime resolved the image to.
    pub image_id: String,
    /// State in the runtime.
    pub state: ContainerState,
    /// Creation time.
    pub created_at: Timestamp,
    /// Start time, once started.
    pub started_at: Option<Timestamp>,
    /// End time, once exited.
    pub finished_at: Option<Timestamp>,
    /// Exit code, once exited.
    pub exit_code: i32,
    /// `Completed`, `Error`, `OOMKilled`, `StartError`, …
    pub reason: String,
    /// Text of the runtime, or the termination message.
    pub message: String,
    /// Which try this is, from zero.
    pub restart_count: i32,
    /// Hash of the spec it was made from.
    pub hash: String,
    /// Log file.
    pub log_path: String,
    /// Result of the liveness probe.
    pub liveness: Option<ProbeResult>,
    /// Result of the startup probe.
    pub startup: Option<ProbeResult>,
    /// Result of the readiness probe.
    pub readiness: Option<ProbeResult>,
    /// Where the runtime-side termination message lies on the host.
    pub termination_message: Option<TerminationMessage>,
}

/// How to find a container's last words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TerminationMessage {
    /// File on the host that was mounted at the termination message path.
    pub host_path: String,
    /// Whether the log's tail is used when the file is empty and the container failed.
    pub fallback_to_logs: bool,
}

/// One pod as the runtime sees it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RuntimePod {
    /// UID of the pod.
    pub uid: String,
    /// Addresses of the newest ready sandbox.
    pub ips: Vec<String>,
    /// Sandboxes, newest first.
    pub sandboxes: Vec<PodSandboxStatus>,
    /// Containers, newest first.
    pub containers: Vec<RuntimeContainer>,
}

impl RuntimePod {
    /// Orders and joins the runtime's answers.
    pub fn new(uid: &str, mut sandboxes: Vec<PodSandboxStatus>, containers: Vec<ContainerStatus>) -> Self {
        sandboxes.sort_by_key(|sandbox| Reverse((sandbox.created_at, sandbox.metadata.attempt)));
        let mut containers: Vec<_> = containers.into_iter().map(RuntimeContainer::from).collect();
        containers.sort_by_key(|container| Reverse((container.created_at, container.restart_count)));
        let ips = sandboxes
            .first()
            .filter(|s| s.state == SandboxState::Ready)
            .map(|s| s.ips.clone())
            .unwrap_or_default();
        RuntimePod { uid: uid.to_owned(), ips, sandboxes, containers }
    }

    /// The newest container of that name.
    pub fn container(&self, name: &str) -> Option<&RuntimeContainer> {
        self.containers.iter().find(|c| c.name == name)
    }

    /// When the newest container of that name that has ended did so; one that runs since then doesn't count.
    pub fn last_exit(&self, name: &str) -> Option<Timestamp> {
        let mut ended = self.containers.iter().filter(|c| c.state == ContainerState::Exited);
        ended.find(|c| c.name == name)?.finished_at
    }

    /// Leaves out what came before a container that has ended: a pod that stops keeps one dead container of each name.
    pub fn forget_older(&mut self) {
        self.forget_older_of(|_| true);
    }

    /// The same for some containers only.
    pub fn forget_older_of(&mut self, whose: impl Fn(&str) -> bool) {
        let mut ended = HashSet::new();
        self.containers.retain(|c| match c.state {
            ContainerState::Exited => ended.insert(c.name.clone()) || !whose(&c.name),
            _ => true,
        });
    }

    /// Names of the containers whose newest has ended.
    pub fn ended(&self) -> HashSet<String> {
        let newest = |c: &&RuntimeContainer| self.container(&c.name).is_some_and(|n| n.id == c.id);
        let ended = self.containers.iter().filter(|c| c.state == ContainerState::Exited).filter(newest);
        ended.map(|c| c.name.clone()).collect()
    }

    /// Whether a process of the pod may still run.
    pub fn is_running(&self) -> bool {
        self.sandboxes.iter().any(|s| s.state == SandboxState::Ready)
            || self.containers.iter().any(|c| c.state == ContainerState::Running)
    }
}

impl From<ContainerStatus> for RuntimeContainer {
    fn from(c: ContainerStatus) -> Self {
        let annotation = |key: &str| c.annotations.get(key).cloned().unwrap_or_default();
        let termination_message = c.annotations.get(labels::TERMINATION_MESSAGE_PATH).and_then(|path| {
            let mount = c.mounts.iter().find(|m| &m.container_path == path)?;
            Some(TerminationMessage {
                host_path: mount.host_path.clone(),
                fallback_to_logs: annotation(labels::TERMINATION_MESSAGE_POLICY) == "FallbackToLogsOnError",
            })
        });
        RuntimeContainer {
            name: c.labels.get(labels::CONTAINER_NAME).cloned().unwrap_or_else(|| c.metadata.name.clone()),
            restart_count: annotation(labels::RESTART_COUNT).parse().unwrap_or(0),
            hash: annotation(labels::CONTAINER_HASH),
            id: c.id,
            image: c.image,
            image_id: c.image_ref,
            state: c.state,
            created_at: c.created_at,
            started_at: c.started_at,
            finished_at: c.finished_at,
            exit_code: c.exit_code,
            reason: c.reason,
            message: c.message,
            log_path: c.log_path,
            liveness: None,
            startup: None,
            readiness: None,
            termination_message,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn container(id: &str, name: &str, state: ContainerState) -> RuntimeContainer {
        RuntimeContainer {
            id: id.to_owned(),
            name: name.to_owned(),
            image: String::new(),
            image_id: String::new(),
            state,
            created_at: Timestamp::UNIX_EPOCH,
            started_at: None,
            finished_at: None,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            restart_count: 0,
            hash: String::new(),
            log_path: String::new(),
            liveness: None,
            startup: None,
            readiness: None,
            termination_message: None,
        }
    }

    #[test]
    fn older_dead_containers_are_forgotten_by_name() {
        use ContainerState::{Exited, Running};
        let mut pod = RuntimePod {
            containers: vec![
                container("b2", "b", Running),
                container("a2", "a", Exited),
                container("b1", "b", Exited),
                container("a1", "a", Exited),
            ],
            ..RuntimePod::default()
        };
        assert_eq!(pod.ended(), HashSet::from(["a".to_owned()]));
        let ids = |pod: &RuntimePod| pod.containers.iter().map(|c| c.id.clone()).collect::<Vec<_>>();
        pod.forget_older_of(|name| name == "b");
        assert_eq!(ids(&pod), ["b2", "a2", "b1", "a1"]);
        pod.forget_older();
        assert_eq!(ids(&pod), ["b2", "a2", "b1"]);
    }
}
