//! Starting a container: image, configuration, creation, start, hook.
//!
//! *Step 5 of a pod's journey.* Before: the pure core wants this container. After: its process runs, or its status says why not.
//!
//! # Invariants
//! 1. Each failed step has its own waiting reason: `ErrImagePull`, `CreateContainerConfigError`, `CreateContainerError`, `RunContainerError`,
//!    `PostStartHookError`.
//! 2. The attempt grows with each try: the runtime reserves a name for as long as the container exists.
//!
//! # In Kubernetes
//! `startContainer` in `pkg/kubelet/kuberuntime/kuberuntime_container.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock and folders")]

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod};
use stage1_kubectl::journey::{Stage, object_name};
use stage1_kubectl::journey_step;
use stage3_controllers::action::EventText;
use tokio_util::sync::CancellationToken;

use super::{PodMemory, Prepared, SOON, StartError};
use crate::container_gc::restart_count_of_logs;
use crate::container_spec::{
    ContainerInputs, ImageUser, container_config, pod_log_directory, pod_sandbox_config,
};
use crate::cri::{ContainerConfig, ContainerState};
use crate::env::{EnvSources, make_environment, referenced_objects};
use crate::kubelet::Kubelet;
use crate::pod::{ContainerKind, PodExt};
use crate::pod_actions::{KillReason, back_off_key};
use crate::runtime_view::RuntimePod;

impl StartError {
    fn new(reason: &str, message: impl Into<String>) -> Self {
        StartError { reason: reason.to_owned(), message: message.into(), until: None }
    }
    fn soon(mut self) -> Self {
        self.until = Some(Timestamp::now() + SOON);
        self
    }
}

impl Kubelet {
    /// Starts one container; `last_exit` is when the plan saw its last run ended, which the next back-off is counted from.
    #[expect(clippy::too_many_arguments, reason = "one call site; a struct would only repeat the names")]
    pub(crate) async fn start_container(
        self: &Arc<Self>,
        pod: &Arc<Pod>,
        kind: ContainerKind,
        container: &Container,
        view: &RuntimePod,
        last_exit: Option<Timestamp>,
        prepared: &Prepared,
        memory: &mut PodMemory,
        stop: &CancellationToken,
    ) -> Result<(), StartError> {
        let told = |error: StartError| {
            let text = match error.reason.as_str() {
                "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" | "InvalidImageName" => {
                    error.reason.clone()
                }
                _ => error.message.clone(),
            };
            self.container_event(
                pod,
                kind,
                &container.name,
                EventText::warning("Failed", format!("Error: {text}")),
            );
            error
        };
        let sandbox = view
            .sandboxes
            .first()
            .ok_or_else(|| StartError::new("CreateContainerError", "the pod has no sandbox").soon())?;
        let image = tokio::select! {
            image = self.ensure_image_exists(pod, kind, container, &prepared.keyring) => image,
            () = stop.cancelled() => return Err(StartError::new("ContainerCreating", "")),
        };
        let image = image.map_err(|e| {
            told(StartError { reason: e.reason.to_owned(), message: e.message, until: e.until })
        })?;
        let config = self.configure(pod, container, view, prepared, image).await;
        let config = config.map_err(|text| told(StartError::new("CreateContainerConfigError", text)))?;
        if let Some(ended) = last_exit {
            memory.backoffs.next(&back_off_key(pod, container), ended, Timestamp::now());
        }
        let of_pod = pod_sandbox_config(
            pod,
            sandbox.metadata.attempt,
            &self.cgroups.parent_of(pod),
            &self.facts.load(),
        );
        let id = self.runtime.create_container(&sandbox.id, &config, &of_pod).await;
        let id = id.map_err(|e| told(StartError::new("CreateContainerError", e.to_string())))?;
        let event = |reason: &str, text: String| {
            self.container_event(pod, kind, &container.name, EventText::normal(reason, text))
        };
        event("Created", format!("Created container: {}", container.name));
        self.runtime
            .start_container(&id)
            .await
            .map_err(|e| told(StartError::new("RunContainerError", e.to_string()).soon()))?;
        event("Started", format!("Started container {}", container.name));
        let object = object_name("Pod", Some(pod.pod_namespace()), pod.pod_name());
        journey_step!(
            Stage::Kubelet,
            object,
            format!("started container {}", container.name),
            "it was not running"
        );
        self.prune(view, &container.name).await;
        self.post_start(pod, kind, container, &id, view, stop).await
    }

    /// Everything that the container's configuration depends on, and the configuration.
    async fn configure(
        &self,
        pod: &Arc<Pod>,
        container: &Container,
        view: &RuntimePod,
        prepared: &Prepared,
        (image_ref, image_user): (String, ImageUser),
    ) -> Result<ContainerConfig, String> {
        let attempt = match view.container(&container.name) {
            Some(last) => last.restart_count + 1,
            // The runtime has forgotten it (its records were lost with a disk or a garbage collection): the logs have not.
            None => self.restart_count_by_logs(pod, &container.name),
        };
        let sources = self.env_sources(pod, container, view).await?;
        let env = make_environment(pod, container, &sources).map_err(|e| e.to_string())?;
        let mounts = match self.runtime.is_real() {
            true => self.make_mounts(pod, container, view, &prepared.volumes, &env, attempt)?,
            false => Vec::new(),
        };
        let target = pod.spec_ref().ephemeral_containers.iter().flatten().find(|e| e.name == container.name);
        let target = target.and_then(|e| e.target_container_name.as_deref()).filter(|t| !t.is_empty());
        let inputs = ContainerInputs {
            attempt: u32::try_from(attempt).unwrap_or(0),
            image_ref,
            image_user,
            env,
            mounts,
            target_id: target.and_then(|t| view.container(t)).map(|c| c.id.clone()),
        };
        container_config(pod, container, &inputs, &self.facts.load())
    }

    fn restart_count_by_logs(&self, pod: &Pod, container: &str) -> i32 {
        if !self.runtime.is_real() {
            return 0;
        }
        let folder = std::path::Path::new(&pod_log_directory(pod, &self.facts.load())).join(container);
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        restart_count_of_logs(names)
    }

    async fn env_sources(
        &self,
        pod: &Pod,
        container: &Container,
        view: &RuntimePod,
    ) -> Result<EnvSources, String> {
        let (maps, secrets) = referenced_objects(std::slice::from_ref(container));
        let (config_maps, secrets) =
            crate::volumes::manager::fetch(&self.client, pod, &maps, &secrets).await?;
        let namespace = pod.pod_namespace();
        let mut services = self.services.in_namespace(namespace);
        if namespace != "default" {
            services.extend(self.services.in_namespace("default"));
        }
        let facts = self.volume_facts(view);
        Ok(EnvSources {
            config_maps,
            secrets,
            services: services.iter().map(|s| (**s).clone()).collect(),
            allocatable: facts.allocatable,
            pod_ips: facts.pod_ips,
            host_ips: facts.host_ips,
        })
    }

    /// Keeps one dead container of each name, for `lastState` and `logs --previous`.
    async fn prune(&self, view: &RuntimePod, name: &str) {
        let dead = view.containers.iter().filter(|c| c.name == name && c.state != ContainerState::Running);
        for old in dead.skip(1) {
            self.remove_container(&old.id, &old.log_path).await;
        }
    }

    async fn post_start(
        &self,
        pod: &Arc<Pod>,
        kind: ContainerKind,
        container: &Container,
        id: &str,
        view: &RuntimePod,
        stop: &CancellationToken,
    ) -> Result<(), StartError> {
        let Some(hook) = container.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) else {
            return Ok(());
        };
        let ip = view.ips.first().cloned().unwrap_or_default();
        let done = tokio::select! {
            done = self.run_hook(hook, container, id, &ip) => done,
            () = stop.cancelled() => return Ok(()),
        };
        let Err(why) = done else { return Ok(()) };
        tracing::debug!(pod = %pod.key(), container = container.name, why, "PostStart hook failed");
        let warn = EventText::warning("FailedPostStartHook", "PostStartHook failed");
        self.container_event(pod, kind, &container.name, warn);
        let message = "FailedPostStartHook".to_owned();
        self.kill_container(pod, id, &container.name, Some(message), KillReason::Unknown, None).await;
        Err(StartError::new("PostStartHookError", why).soon())
    }

    pub(super) async fn remove_container(&self, id: &str, log_path: &str) {
        if let Err(error) = self.runtime.remove_container(id).await {
            tracing::debug!(container = id, %error, "Failed to remove container");
            return;
        }
        crate::container_gc::remove_logs(log_path);
    }

    /// What volumes and variables need to know.
    pub(crate) fn volume_facts(&self, view: &RuntimePod) -> crate::volumes::manager::Facts {
        let node = self.node.load();
        let allocatable: BTreeMap<_, _> =
            node.status.as_ref().and_then(|s| s.allocatable.clone()).unwrap_or_default();
        let memory = allocatable.get("memory").map(crate::quantity::value).filter(|m| *m > 0);
        let host = self.config.node_ip.to_string();
        crate::volumes::manager::Facts {
            memory_bytes: memory.and_then(|m| u64::try_from(m).ok()).unwrap_or(0),
            allocatable,
            pod_ips: if view.ips.is_empty() { vec![host.clone()] } else { view.ips.clone() },
            host_ips: vec![host],
        }
    }
}
