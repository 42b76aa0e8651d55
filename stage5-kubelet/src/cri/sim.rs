//! The simulated runtime: states without processes.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_pod`] calls the trait, as for containerd. After: an entry in a map, and one line in a log
//! file.
//!
//! For machines without a container runtime, for tests, and for scale: a thousand pods cost a thousand map entries.
//! Everything answers at once. A container that is meant to end (an init container, a pod that is not restarted) has
//! ended with 0 as soon as it was started; every other one runs until it is stopped.
//!
//! # Invariants
//! 1. It passes the same test suite as containerd, except where something must really run.
//! 2. What cannot be simulated is refused in plain words, never pretended (exec, attach, port-forward).
//!
//! # In Kubernetes
//! `cri-api/pkg/apis/testing/fake_runtime_service.go`; `kubemark`'s hollow nodes.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock, writes the simulated log line")]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;

use super::{
    AuthConfig, ContainerConfig, ContainerMetadata, ContainerState, ContainerStats, ContainerStatus,
    ContainerSummary, CriError, CriFuture, ExecSyncResponse, Image, ImageService, NamespaceMode, PodSandbox,
    PodSandboxConfig, PodSandboxStatus, Runtime, RuntimeService, RuntimeStatus, SandboxState, StreamRequest,
    Version,
};
use crate::runtime_view::labels::POD_UID;

/// Annotation of containers that are meant to end: the simulated runtime ends them at once.
pub const RUNS_TO_COMPLETION: &str = "six-stages.dev/runs-to-completion";

struct SimContainer {
    status: ContainerStatus,
    sandbox: String,
    ends: bool,
}

#[derive(Default)]
struct State {
    next: u64,
    pod_cidr: Option<[u8; 4]>,
    addresses: BTreeSet<u32>,
    sandboxes: BTreeMap<String, (PodSandboxConfig, PodSandboxStatus)>,
    containers: BTreeMap<String, SimContainer>,
    images: BTreeSet<String>,
}

/// A runtime in which nothing runs.
#[derive(Default)]
pub struct Sim {
    state: Mutex<State>,
}

fn done<'a, T: Send + 'a>(result: Result<T, CriError>) -> CriFuture<'a, T> {
    Box::pin(std::future::ready(result))
}

fn not_found(what: &str, id: &str) -> CriError {
    CriError::NotFound(format!("an error occurred when try to find {what} \"{id}\": not found"))
}

fn refused<'a, T: Send + 'a>(what: &str) -> CriFuture<'a, T> {
    done(Err(CriError::Unimplemented(format!(
        "{what} needs a real runtime: this node runs with --runtime sim"
    ))))
}

impl State {
    fn id(&mut self) -> String {
        self.next += 1;
        format!("{:064x}", self.next)
    }

    /// The lowest free address of the pod CIDR.
    fn address(&mut self) -> String {
        let base = self.pod_cidr.unwrap_or([10, 244, 0, 0]);
        let host = (2..65_534).find(|n| !self.addresses.contains(n)).unwrap_or(2);
        self.addresses.insert(host);
        std::net::Ipv4Addr::from(u32::from_be_bytes(base) + host).to_string()
    }

    fn stop(&mut self, id: &str, exit_code: i32) {
        if let Some(c) = self.containers.get_mut(id)
            && c.status.state == ContainerState::Running
        {
            c.status.state = ContainerState::Exited;
            c.status.finished_at = Some(Timestamp::now());
            c.status.exit_code = exit_code;
            c.status.reason = if exit_code == 0 { "Completed" } else { "Error" }.to_owned();
        }
    }
}

impl Sim {
    /// An empty runtime.
    pub fn new() -> Self {
        Self::default()
    }

    /// Ends a container as if its process had ended: for tests.
    pub fn exit(&self, id: &str, exit_code: i32) {
        self.state.lock().stop(id, exit_code);
    }
}

fn write_log_line(directory: &str, c: &ContainerStatus) {
    // Best effort: a missing log must not stop a simulation.
    let path = std::path::Path::new(directory).join(&c.log_path);
    let line =
        format!("{} stdout F simulated: {} started, nothing runs\n", Timestamp::now(), c.metadata.name);
    if let Some(parent) = path.parent() {
        let _ = std::fs::create_dir_all(parent);
    }
    let _ = std::fs::write(path, line);
}

impl RuntimeService for Sim {
    fn version(&self) -> CriFuture<'_, Version> {
        done(Ok(Version {
            runtime_name: "sim".to_owned(),
            runtime_version: env!("CARGO_PKG_VERSION").to_owned(),
        }))
    }

    fn run_pod_sandbox<'a>(&'a self, config: &'a PodSandboxConfig) -> CriFuture<'a, String> {
        let mut state = self.state.lock();
        let id = state.id();
        let host_network = config.security.namespaces.network == NamespaceMode::Node;
        let ips = if host_network { Vec::new() } else { vec![state.address()] };
        let status = PodSandboxStatus {
            id: id.clone(),
            metadata: config.metadata.clone(),
            state: SandboxState::Ready,
            created_at: Timestamp::now(),
            ips,
            host_network,
        };
        state.sandboxes.insert(id.clone(), (config.clone(), status));
        done(Ok(id))
    }

    fn stop_pod_sandbox<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        let mut state = self.state.lock();
        let inside: Vec<_> =
            state.containers.iter().filter(|(_, c)| c.sandbox == id).map(|(k, _)| k.clone()).collect();
        inside.iter().for_each(|c| state.stop(c, 137));
        if let Some((_, s)) = state.sandboxes.get_mut(id) {
            s.state = SandboxState::NotReady;
        }
        done(Ok(()))
    }

    fn remove_pod_sandbox<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        let mut state = self.state.lock();
        state.containers.retain(|_, c| c.sandbox != id);
        let removed = state.sandboxes.remove(id);
        let base = u32::from_be_bytes(state.pod_cidr.unwrap_or([10, 244, 0, 0]));
        for ip in
            removed.iter().flat_map(|(_, s)| &s.ips).filter_map(|ip| ip.parse::<std::net::Ipv4Addr>().ok())
        {
            state.addresses.remove(&u32::from(ip).wrapping_sub(base));
        }
        done(Ok(()))
    }

    fn pod_sandbox_status<'a>(&'a self, id: &'a str) -> CriFuture<'a, PodSandboxStatus> {
        let found = self.state.lock().sandboxes.get(id).map(|(_, s)| s.clone());
        done(found.ok_or_else(|| not_found("sandbox", id)))
    }

    fn list_pod_sandbox<'a>(&'a self, pod_uid: Option<&'a str>) -> CriFuture<'a, Vec<PodSandbox>> {
        let state = self.state.lock();
        let all = state.sandboxes.values().filter(|(c, _)| pod_uid.is_none_or(|u| c.metadata.uid == u));
        let list = all.map(|(c, s)| PodSandbox {
            id: s.id.clone(),
            metadata: s.metadata.clone(),
            state: s.state,
            created_at: s.created_at,
            labels: c.labels.clone(),
        });
        done(Ok(list.collect()))
    }

    fn create_container<'a>(
        &'a self,
        sandbox_id: &'a str,
        config: &'a ContainerConfig,
        _sandbox: &'a PodSandboxConfig,
    ) -> CriFuture<'a, String> {
        let mut state = self.state.lock();
        let Some((sandbox, _)) = state.sandboxes.get(sandbox_id) else {
            return done(Err(not_found("sandbox", sandbox_id)));
        };
        let log_path = format!("{}/{}", sandbox.log_directory, config.log_path);
        let id = state.id();
        let status = ContainerStatus {
            id: id.clone(),
            metadata: ContainerMetadata {
                name: config.metadata.name.clone(),
                attempt: config.metadata.attempt,
            },
            state: ContainerState::Created,
            created_at: Timestamp::now(),
            started_at: None,
            finished_at: None,
            exit_code: 0,
            image: config.user_specified_image.clone(),
            image_ref: config.image.clone(),
            reason: String::new(),
            message: String::new(),
            labels: config.labels.clone(),
            annotations: config.annotations.clone(),
            mounts: config.mounts.clone(),
            log_path,
        };
        let ends = config.annotations.contains_key(RUNS_TO_COMPLETION);
        state.containers.insert(id.clone(), SimContainer { status, sandbox: sandbox_id.to_owned(), ends });
        done(Ok(id))
    }

    fn start_container<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        let mut state = self.state.lock();
        let Some(c) = state.containers.get_mut(id) else { return done(Err(not_found("container", id))) };
        if c.status.state != ContainerState::Created {
            return done(Err(CriError::Unknown(format!("container \"{id}\" is not in created state"))));
        }
        c.status.state = ContainerState::Running;
        c.status.started_at = Some(Timestamp::now());
        write_log_line("/", &c.status);
        if c.ends {
            state.stop(id, 0);
        }
        done(Ok(()))
    }

    fn stop_container<'a>(&'a self, id: &'a str, _grace_period_seconds: i64) -> CriFuture<'a, ()> {
        self.state.lock().stop(id, 0);
        done(Ok(()))
    }

    fn remove_container<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        self.state.lock().containers.remove(id);
        done(Ok(()))
    }

    fn list_containers<'a>(&'a self, pod_uid: Option<&'a str>) -> CriFuture<'a, Vec<ContainerSummary>> {
        let state = self.state.lock();
        let wanted =
            |c: &&SimContainer| pod_uid.is_none_or(|u| c.status.labels.get(POD_UID).is_some_and(|x| x == u));
        let list = state.containers.values().filter(wanted).map(|c| ContainerSummary {
            id: c.status.id.clone(),
            pod_sandbox_id: c.sandbox.clone(),
            state: c.status.state,
            created_at: c.status.created_at,
            labels: c.status.labels.clone(),
            image_ref: c.status.image_ref.clone(),
        });
        done(Ok(list.collect()))
    }

    fn container_status<'a>(&'a self, id: &'a str) -> CriFuture<'a, ContainerStatus> {
        let found = self.state.lock().containers.get(id).map(|c| c.status.clone());
        done(found.ok_or_else(|| not_found("container", id)))
    }

    fn reopen_container_log<'a>(&'a self, _id: &'a str) -> CriFuture<'a, ()> {
        done(Ok(()))
    }

    fn exec_sync<'a>(
        &'a self,
        _id: &'a str,
        _cmd: &'a [String],
        _timeout: Duration,
    ) -> CriFuture<'a, ExecSyncResponse> {
        // Probes of a simulated container always succeed.
        done(Ok(ExecSyncResponse::default()))
    }

    fn exec<'a>(&'a self, _id: &'a str, _request: &'a StreamRequest) -> CriFuture<'a, String> {
        refused("exec")
    }

    fn attach<'a>(&'a self, _id: &'a str, _request: &'a StreamRequest) -> CriFuture<'a, String> {
        refused("attach")
    }

    fn port_forward<'a>(&'a self, _sandbox_id: &'a str, _ports: &'a [i32]) -> CriFuture<'a, String> {
        refused("port-forward")
    }

    fn list_container_stats(&self) -> CriFuture<'_, Vec<ContainerStats>> {
        done(Ok(Vec::new()))
    }

    fn update_runtime_config<'a>(&'a self, pod_cidr: &'a str) -> CriFuture<'a, ()> {
        let base = pod_cidr.split('/').next().and_then(|ip| ip.parse::<std::net::Ipv4Addr>().ok());
        self.state.lock().pod_cidr = base.map(|ip| ip.octets());
        done(Ok(()))
    }

    fn status(&self) -> CriFuture<'_, RuntimeStatus> {
        done(Ok(RuntimeStatus { runtime_ready: Ok(()), network_ready: Ok(()) }))
    }
}

fn image(name: &str) -> Image {
    Image { id: format!("sim:{name}"), repo_tags: vec![name.to_owned()], ..Image::default() }
}

impl ImageService for Sim {
    fn list_images(&self) -> CriFuture<'_, Vec<Image>> {
        done(Ok(self.state.lock().images.iter().map(|i| image(i)).collect()))
    }

    fn image_status<'a>(&'a self, name: &'a str) -> CriFuture<'a, Option<Image>> {
        let name = name.strip_prefix("sim:").unwrap_or(name);
        done(Ok(self.state.lock().images.get(name).map(|i| image(i))))
    }

    fn pull_image<'a>(&'a self, name: &'a str, _auth: Option<&'a AuthConfig>) -> CriFuture<'a, String> {
        self.state.lock().images.insert(name.to_owned());
        done(Ok(image(name).id))
    }

    fn remove_image<'a>(&'a self, name: &'a str) -> CriFuture<'a, ()> {
        self.state.lock().images.remove(name);
        done(Ok(()))
    }

    fn image_fs_used_bytes(&self) -> CriFuture<'_, u64> {
        done(Ok(0))
    }
}

impl Runtime for Sim {
    fn scheme(&self) -> &'static str {
        "sim"
    }
    fn is_real(&self) -> bool {
        false
    }
}
