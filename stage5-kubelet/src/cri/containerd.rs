//! containerd: CRI over gRPC on a unix socket.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::sync_pod`] calls the trait. After: containerd, its shim and runc do the work.
//!
//! One channel carries all calls; gRPC multiplexes them. Each kind of call has its own deadline: what may take long by nature
//! (a pull, a stop with a grace period) must not be cut by the general one.
//!
//! # Invariants
//! 1. Every call ends: by an answer or by its deadline.
//! 2. `NotFound` of a stop or remove is a success.
//!
//! # In Kubernetes
//! `cri-client/pkg/remote_runtime.go`, `remote_image.go`. Left out: tracing, the v1alpha2 fallback.

use std::sync::Arc;
use std::time::Duration;

use k8s_cri::v1;
use k8s_cri::v1::image_service_client::ImageServiceClient;
use k8s_cri::v1::runtime_service_client::RuntimeServiceClient;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::{
    AuthConfig, ContainerConfig, ContainerStats, ContainerStatus, ContainerSummary, CriError, CriFuture,
    ExecSyncResponse, Image, ImageService, PodSandbox, PodSandboxConfig, PodSandboxStatus, Runtime,
    RuntimeService, RuntimeStatus, StreamRequest, Version, convert,
};
use crate::network::loopback::LoopbackRegistries;
use crate::runtime_view::labels::POD_UID;

/// Deadline of an ordinary call (`--runtime-request-timeout`).
pub const RUNTIME_REQUEST_TIMEOUT: Duration = Duration::from_secs(120);
/// Deadline of a pull: registries may be slow.
pub const PULL_TIMEOUT: Duration = Duration::from_secs(1800);
/// Largest answer that is read: a node full of containers lists a lot.
const MAX_MESSAGE_BYTES: usize = 16 << 20;

/// A connection to containerd.
#[derive(Clone)]
pub struct Containerd {
    runtime: RuntimeServiceClient<Channel>,
    images: ImageServiceClient<Channel>,
    /// Of a node whose loopback isn't the host's.
    loopback: Option<Arc<LoopbackRegistries>>,
    /// Cancelled when images that are being imported are there.
    imported: CancellationToken,
}

impl Containerd {
    /// Connects to a socket (`unix:///run/containerd/containerd.sock` or a path).
    ///
    /// # Errors
    /// Nobody listens there.
    pub async fn connect(endpoint: &str) -> Result<Self, CriError> {
        let path = endpoint.strip_prefix("unix://").unwrap_or(endpoint);
        let unavailable =
            |e: &dyn std::fmt::Display| CriError::Unavailable(format!("connect to {endpoint}: {e}"));
        let channel = containerd_client::connect(path).await.map_err(|e| unavailable(&e))?;
        let imported = CancellationToken::new();
        imported.cancel();
        Ok(Containerd {
            imported,
            runtime: RuntimeServiceClient::new(channel.clone()).max_decoding_message_size(MAX_MESSAGE_BYTES),
            images: ImageServiceClient::new(channel).max_decoding_message_size(MAX_MESSAGE_BYTES),
            loopback: None,
        })
    }

    /// Makes registries on the host's loopback reachable before it pulls from them.
    pub fn with_loopback(mut self, loopback: LoopbackRegistries) -> Self {
        self.loopback = Some(Arc::new(loopback));
        self
    }

    /// Lets whoever needs an image wait until `imported` is cancelled: what is being imported can't be pulled.
    pub fn with_imports(self, imported: CancellationToken) -> Self {
        Containerd { imported, ..self }
    }
}

fn request<T>(message: T, deadline: Duration) -> tonic::Request<T> {
    let mut request = tonic::Request::new(message);
    request.set_timeout(deadline);
    request
}

fn gone_is_fine(result: Result<(), CriError>) -> Result<(), CriError> {
    match result {
        Err(CriError::NotFound(_)) => Ok(()),
        other => other,
    }
}

/// One unary call with the general deadline; `$map` turns the answer into ours.
macro_rules! call {
    ($client:expr, $method:ident, $message:expr, $map:expr) => {
        call!($client, $method, $message, RUNTIME_REQUEST_TIMEOUT, $map)
    };
    ($client:expr, $method:ident, $message:expr, $deadline:expr, $map:expr) => {{
        let mut client = $client.clone();
        let request = request($message, $deadline);
        Box::pin(async move {
            let answer = client.$method(request).await.map_err(|s| convert::error(&s))?.into_inner();
            ($map)(answer)
        })
    }};
}

fn selector(pod_uid: Option<&str>) -> std::collections::HashMap<String, String> {
    pod_uid.map(|uid| (POD_UID.to_owned(), uid.to_owned())).into_iter().collect()
}

impl RuntimeService for Containerd {
    fn version(&self) -> CriFuture<'_, Version> {
        call!(
            self.runtime,
            version,
            v1::VersionRequest { version: "v1".to_owned() },
            |r: v1::VersionResponse| Ok(Version {
                runtime_name: r.runtime_name,
                runtime_version: r.runtime_version
            })
        )
    }

    fn run_pod_sandbox<'a>(&'a self, config: &'a PodSandboxConfig) -> CriFuture<'a, String> {
        let message = v1::RunPodSandboxRequest {
            config: Some(convert::sandbox_config(config)),
            runtime_handler: String::new(),
        };
        let call: CriFuture<'a, String> = call!(
            self.runtime,
            run_pod_sandbox,
            message,
            RUNTIME_REQUEST_TIMEOUT * 2,
            |r: v1::RunPodSandboxResponse| Ok(r.pod_sandbox_id)
        );
        Box::pin(async move {
            self.imported.cancelled().await;
            call.await
        })
    }

    fn stop_pod_sandbox<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        let message = v1::StopPodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let done = call!(self.runtime, stop_pod_sandbox, message, |_| Ok(()));
        Box::pin(async move { gone_is_fine(done.await) })
    }

    fn remove_pod_sandbox<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        let message = v1::RemovePodSandboxRequest { pod_sandbox_id: id.to_owned() };
        let done = call!(self.runtime, remove_pod_sandbox, message, |_| Ok(()));
        Box::pin(async move { gone_is_fine(done.await) })
    }

    fn pod_sandbox_status<'a>(&'a self, id: &'a str) -> CriFuture<'a, PodSandboxStatus> {
        let message = v1::PodSandboxStatusRequest { pod_sandbox_id: id.to_owned(), verbose: false };
        call!(self.runtime, pod_sandbox_status, message, |r: v1::PodSandboxStatusResponse| r
            .status
            .map(convert::sandbox_status)
            .ok_or_else(|| CriError::Unknown("pod sandbox status is empty".to_owned())))
    }

    fn list_pod_sandbox<'a>(&'a self, pod_uid: Option<&'a str>) -> CriFuture<'a, Vec<PodSandbox>> {
        let filter = v1::PodSandboxFilter { label_selector: selector(pod_uid), ..Default::default() };
        call!(
            self.runtime,
            list_pod_sandbox,
            v1::ListPodSandboxRequest { filter: Some(filter) },
            |r: v1::ListPodSandboxResponse| Ok(r.items.into_iter().map(convert::sandbox).collect())
        )
    }

    fn create_container<'a>(
        &'a self,
        sandbox_id: &'a str,
        config: &'a ContainerConfig,
        sandbox: &'a PodSandboxConfig,
    ) -> CriFuture<'a, String> {
        let message = v1::CreateContainerRequest {
            pod_sandbox_id: sandbox_id.to_owned(),
            config: Some(convert::container_config(config)),
            sandbox_config: Some(convert::sandbox_config(sandbox)),
        };
        call!(self.runtime, create_container, message, |r: v1::CreateContainerResponse| Ok(r.container_id))
    }

    fn start_container<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        call!(
            self.runtime,
            start_container,
            v1::StartContainerRequest { container_id: id.to_owned() },
            |_| Ok(())
        )
    }

    fn stop_container<'a>(&'a self, id: &'a str, grace_period_seconds: i64) -> CriFuture<'a, ()> {
        let message = v1::StopContainerRequest { container_id: id.to_owned(), timeout: grace_period_seconds };
        let grace = Duration::from_secs(u64::try_from(grace_period_seconds).unwrap_or(0));
        let done = call!(self.runtime, stop_container, message, RUNTIME_REQUEST_TIMEOUT + grace, |_| Ok(()));
        Box::pin(async move { gone_is_fine(done.await) })
    }

    fn remove_container<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        let done = call!(
            self.runtime,
            remove_container,
            v1::RemoveContainerRequest { container_id: id.to_owned() },
            |_| Ok(())
        );
        Box::pin(async move { gone_is_fine(done.await) })
    }

    fn list_containers<'a>(&'a self, pod_uid: Option<&'a str>) -> CriFuture<'a, Vec<ContainerSummary>> {
        let filter = v1::ContainerFilter { label_selector: selector(pod_uid), ..Default::default() };
        call!(
            self.runtime,
            list_containers,
            v1::ListContainersRequest { filter: Some(filter) },
            |r: v1::ListContainersResponse| Ok(r.containers.into_iter().map(convert::container).collect())
        )
    }

    fn container_status<'a>(&'a self, id: &'a str) -> CriFuture<'a, ContainerStatus> {
        let message = v1::ContainerStatusRequest { container_id: id.to_owned(), verbose: false };
        call!(self.runtime, container_status, message, |r: v1::ContainerStatusResponse| r
            .status
            .map(convert::container_status)
            .ok_or_else(|| CriError::Unknown("container status is empty".to_owned())))
    }

    fn reopen_container_log<'a>(&'a self, id: &'a str) -> CriFuture<'a, ()> {
        call!(
            self.runtime,
            reopen_container_log,
            v1::ReopenContainerLogRequest { container_id: id.to_owned() },
            |_| Ok(())
        )
    }

    fn exec_sync<'a>(
        &'a self,
        id: &'a str,
        cmd: &'a [String],
        timeout: Duration,
    ) -> CriFuture<'a, ExecSyncResponse> {
        let seconds = i64::try_from(timeout.as_secs()).unwrap_or(i64::MAX);
        let message =
            v1::ExecSyncRequest { container_id: id.to_owned(), cmd: cmd.to_vec(), timeout: seconds };
        // Zero means without limit; then the general deadline of a call does not apply either.
        let deadline =
            if timeout.is_zero() { Duration::from_secs(86_400) } else { timeout + RUNTIME_REQUEST_TIMEOUT };
        call!(self.runtime, exec_sync, message, deadline, |r: v1::ExecSyncResponse| Ok(ExecSyncResponse {
            stdout: r.stdout.to_vec(),
            stderr: r.stderr.to_vec(),
            exit_code: r.exit_code
        }))
    }

    fn exec<'a>(&'a self, id: &'a str, r: &'a StreamRequest) -> CriFuture<'a, String> {
        let message = v1::ExecRequest {
            container_id: id.to_owned(),
            cmd: r.cmd.clone(),
            tty: r.tty,
            stdin: r.stdin,
            stdout: r.stdout,
            stderr: r.stderr,
        };
        call!(self.runtime, exec, message, |r: v1::ExecResponse| Ok(r.url))
    }

    fn attach<'a>(&'a self, id: &'a str, r: &'a StreamRequest) -> CriFuture<'a, String> {
        let message = v1::AttachRequest {
            container_id: id.to_owned(),
            stdin: r.stdin,
            tty: r.tty,
            stdout: r.stdout,
            stderr: r.stderr,
        };
        call!(self.runtime, attach, message, |r: v1::AttachResponse| Ok(r.url))
    }

    fn port_forward<'a>(&'a self, sandbox_id: &'a str, ports: &'a [i32]) -> CriFuture<'a, String> {
        let message = v1::PortForwardRequest { pod_sandbox_id: sandbox_id.to_owned(), port: ports.to_vec() };
        call!(self.runtime, port_forward, message, |r: v1::PortForwardResponse| Ok(r.url))
    }

    fn list_container_stats(&self) -> CriFuture<'_, Vec<ContainerStats>> {
        call!(
            self.runtime,
            list_container_stats,
            v1::ListContainerStatsRequest { filter: None },
            |r: v1::ListContainerStatsResponse| Ok(r.stats.into_iter().map(convert::stats).collect())
        )
    }

    fn update_runtime_config<'a>(&'a self, pod_cidr: &'a str) -> CriFuture<'a, ()> {
        let network = v1::NetworkConfig { pod_cidr: pod_cidr.to_owned() };
        let config = v1::RuntimeConfig { network_config: Some(network) };
        let message = v1::UpdateRuntimeConfigRequest { runtime_config: Some(config) };
        call!(self.runtime, update_runtime_config, message, |_| Ok(()))
    }

    fn status(&self) -> CriFuture<'_, RuntimeStatus> {
        call!(self.runtime, status, v1::StatusRequest { verbose: false }, |r: v1::StatusResponse| {
            let conditions = r.status.unwrap_or_default().conditions;
            let find = |name: &str| match conditions.iter().find(|c| c.r#type == name) {
                Some(c) if c.status => Ok(()),
                Some(c) => Err(format!("{} reason:{} message:{}", name, c.reason, c.message)),
                None => Err(format!("{name} is not reported")),
            };
            Ok(RuntimeStatus { runtime_ready: find("RuntimeReady"), network_ready: find("NetworkReady") })
        })
    }
}

fn image_spec(image: &str) -> v1::ImageSpec {
    v1::ImageSpec { image: image.to_owned(), ..Default::default() }
}

impl ImageService for Containerd {
    fn list_images(&self) -> CriFuture<'_, Vec<Image>> {
        call!(
            self.images,
            list_images,
            v1::ListImagesRequest { filter: None },
            |r: v1::ListImagesResponse| Ok(r.images.into_iter().map(convert::image).collect())
        )
    }

    fn image_status<'a>(&'a self, image: &'a str) -> CriFuture<'a, Option<Image>> {
        let message = v1::ImageStatusRequest { image: Some(image_spec(image)), verbose: false };
        let call: CriFuture<'a, Option<Image>> =
            call!(self.images, image_status, message, |r: v1::ImageStatusResponse| Ok(r
                .image
                .map(convert::image)));
        Box::pin(async move {
            self.imported.cancelled().await;
            call.await
        })
    }

    fn pull_image<'a>(&'a self, image: &'a str, auth: Option<&'a AuthConfig>) -> CriFuture<'a, String> {
        let auth = auth.map(|a| v1::AuthConfig {
            username: a.username.clone(),
            password: a.password.clone(),
            auth: a.auth.clone(),
            server_address: a.server_address.clone(),
            identity_token: a.identity_token.clone(),
            registry_token: String::new(),
        });
        let message = v1::PullImageRequest { image: Some(image_spec(image)), auth, sandbox_config: None };
        let pulled =
            call!(self.images, pull_image, message, PULL_TIMEOUT, |r: v1::PullImageResponse| Ok(r.image_ref));
        Box::pin(async move {
            if let Some(loopback) = &self.loopback {
                loopback.reach(image).await;
            }
            pulled.await
        })
    }

    fn remove_image<'a>(&'a self, image: &'a str) -> CriFuture<'a, ()> {
        let done = call!(
            self.images,
            remove_image,
            v1::RemoveImageRequest { image: Some(image_spec(image)) },
            |_| Ok(())
        );
        Box::pin(async move { gone_is_fine(done.await) })
    }

    fn image_fs_used_bytes(&self) -> CriFuture<'_, u64> {
        call!(self.images, image_fs_info, v1::ImageFsInfoRequest {}, |r: v1::ImageFsInfoResponse| Ok(r
            .image_filesystems
            .into_iter()
            .filter_map(|f| f.used_bytes)
            .map(|v| v.value)
            .sum()))
    }
}

impl Runtime for Containerd {
    fn scheme(&self) -> &'static str {
        "containerd"
    }
    fn is_real(&self) -> bool {
        true
    }
}
