//! The view: asking the runtime what it has of one pod.
//!
//! *Step 5 of a pod's journey.* Before: a round of [`crate::sync_pod`] begins. After: the pure core can decide.
//!
//! Kubernetes keeps these answers in a cache that the relist fills. Asking afresh costs a millisecond and spares the question of how old an
//! answer may be.
//!
//! # Invariants
//! 1. Sandboxes and containers that vanish between list and status are left out.
//!
//! # In Kubernetes
//! `GetPodStatus` in `kuberuntime_manager.go`, `getPodContainerStatuses`, `readLastStringFromContainerLogs`.
#![expect(clippy::disallowed_methods, reason = "shell: reads termination messages")]

use futures::future::join_all;
use tracing::warn;

use crate::cri::{ContainerState, CriError};
use crate::kubelet::Kubelet;
use crate::runtime_view::{RuntimeContainer, RuntimePod};

/// Bytes of a termination message.
const MAX_TERMINATION_MESSAGE: usize = 4096;
/// Bytes and lines of the log's tail that may stand in for it.
const MAX_LOG_TAIL: usize = 2048;
const MAX_LOG_LINES: usize = 80;

impl Kubelet {
    /// What the runtime has of a pod; `None` when it can't be asked.
    pub async fn view(&self, uid: &str) -> Option<RuntimePod> {
        match self.ask(uid).await {
            Ok(view) => Some(view),
            Err(error) => {
                warn!(pod_uid = uid, %error, "Failed to get pod status from the runtime");
                None
            }
        }
    }

    async fn ask(&self, uid: &str) -> Result<RuntimePod, CriError> {
        let (sandboxes, containers) = futures::try_join!(
            self.runtime.list_pod_sandbox(Some(uid)),
            self.runtime.list_containers(Some(uid))
        )?;
        let sandboxes = join_all(sandboxes.iter().map(|s| self.runtime.pod_sandbox_status(&s.id))).await;
        let containers = join_all(containers.iter().map(|c| self.runtime.container_status(&c.id))).await;
        let mut view = RuntimePod::new(uid, present(sandboxes)?, present(containers)?);
        for c in view.containers.iter_mut().filter(|c| c.state == ContainerState::Exited) {
            add_termination_message(c);
        }
        self.probes.annotate(&mut view);
        Ok(view)
    }
}

fn present<T>(answers: Vec<Result<T, CriError>>) -> Result<Vec<T>, CriError> {
    let kept = answers.into_iter().filter(|a| !matches!(a, Err(CriError::NotFound(_))));
    kept.collect()
}

fn add_termination_message(c: &mut RuntimeContainer) {
    let Some(place) = &c.termination_message else { return };
    let mut bytes = std::fs::read(&place.host_path).unwrap_or_default();
    bytes.truncate(MAX_TERMINATION_MESSAGE);
    let mut text = String::from_utf8_lossy(&bytes).into_owned();
    if text.is_empty() && place.fallback_to_logs && c.exit_code != 0 {
        let log = crate::server::logs::tail_of_file(&c.log_path, MAX_LOG_LINES);
        let start = log.len().saturating_sub(MAX_LOG_TAIL);
        text = String::from_utf8_lossy(&log[start..]).into_owned();
    }
    if !text.is_empty() {
        // The runtime's own words (why it could not start) come first.
        c.message = if c.message.is_empty() { text } else { format!("{}: {text}", c.message) };
    }
}
