//! Lifecycle hooks: what a container wants to do after its start and before its end.
//!
//! *Step 5 of a pod's journey.* Before: the container was started, or shall be stopped. After: it counts as started, or gets its TERM.
//!
//! # Invariants
//! 1. A hook is run at least once for each start or stop, and its failure is told.
//!
//! # In Kubernetes
//! `pkg/kubelet/lifecycle/handlers.go`. Left out: the deprecated tcpSocket hook (it does nothing there either).

use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler};

use crate::kubelet::Kubelet;
use crate::probes::prober::http_get;

/// Longest wait for an HTTP hook's answer; exec hooks are bounded by the grace period or by nothing.
const HTTP_HOOK_TIMEOUT: Duration = Duration::from_secs(3600);

impl Kubelet {
    /// Runs one hook to its end.
    ///
    /// # Errors
    /// With what it said.
    pub(crate) async fn run_hook(
        &self,
        hook: &LifecycleHandler,
        container: &Container,
        id: &str,
        ip: &str,
    ) -> Result<(), String> {
        if let Some(exec) = &hook.exec {
            let command = exec.command.clone().unwrap_or_default();
            let out =
                self.runtime.exec_sync(id, &command, Duration::ZERO).await.map_err(|e| e.to_string())?;
            return match out.exit_code {
                0 => Ok(()),
                code => {
                    let text = String::from_utf8_lossy(&[out.stdout, out.stderr].concat()).into_owned();
                    Err(format!(
                        "Exec lifecycle hook ({}) for Container \"{}\" failed - error: command '{}' exited with {code}: , message: {text:?}",
                        command.join(" "),
                        container.name,
                        command.join(" ")
                    ))
                }
            };
        }
        if let Some(http) = &hook.http_get {
            if !self.runtime.is_real() {
                return Ok(());
            }
            return match http_get(http, container, ip, HTTP_HOOK_TIMEOUT, "kube-lifecycle/1.33").await {
                Ok((status, _)) if status < 400 => Ok(()),
                Ok((status, _)) => Err(format!("HTTP lifecycle hook failed with statuscode: {status}")),
                Err(text) => Err(text),
            };
        }
        if let Some(sleep) = &hook.sleep {
            tokio::time::sleep(Duration::from_secs(u64::try_from(sleep.seconds).unwrap_or(0))).await;
        }
        Ok(())
    }
}
