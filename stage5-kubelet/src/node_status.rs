//! Node status: what the node offers, and that it is alive.
//!
//! *Step 5 of a pod's journey.* Before: the kubelet started. After: the scheduler sees a node with room; the node lifecycle controller sees it
//! breathe.
//!
//! The Node is created once and patched afterwards. Every ten seconds the conditions are looked at; they are sent when something
//! changed, and otherwise every five minutes: the small Lease ([`crate::node_lease`]) is the heartbeat, so that a thousand idle
//! nodes don't rewrite a thousand large objects.
//!
//! # Invariants
//! 1. The node is Ready only while the runtime and its network answer.
//! 2. Labels and conditions of others are left alone.
//!
//! # In Kubernetes
//! `pkg/kubelet/kubelet_node_status.go`, `pkg/kubelet/nodestatus/setters.go`. Left out: cloud providers, volumes in use, features of runtime
//! handlers, swap.
#![expect(clippy::disallowed_methods, reason = "shell: reads the machine's files and the clock")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{
    ContainerImage, DaemonEndpoint, Node, NodeAddress, NodeCondition, NodeDaemonEndpoints, NodeSpec,
    NodeStatus, NodeSystemInfo,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde_json::{Value, json};
use stage1_kubectl::request::Patch;
use stage3_controllers::action::EventText;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::kubelet::Kubelet;
use crate::options::Config;
use crate::pod_status::seconds;

/// Time between two looks at the conditions.
pub const NODE_STATUS_UPDATE_FREQUENCY: Duration = Duration::from_secs(10);
/// Time between two looks at the runtime while the node is not ready (`fastStatusUpdateOnce`).
const FAST_STATUS_UPDATE_PERIOD: Duration = Duration::from_millis(100);
/// Time after which an unchanged status is sent again.
pub const NODE_STATUS_REPORT_FREQUENCY: Duration = Duration::from_secs(300);
/// Memory that pods cannot have: below it the kernel's killer would choose for us (`--eviction-hard memory.available<100Mi`).
const EVICTION_HARD_MEMORY_BYTES: u64 = 100 << 20;
/// Images told in the node's status.
const MAX_IMAGES: usize = 50;
const KUBELET_VERSION: &str = "v1.33.0";
const HOSTNAME_LABEL: &str = "kubernetes.io/hostname";

/// Memory that the node offers, in bytes.
pub fn machine_memory_bytes(config: &Config) -> u64 {
    config.memory_bytes.unwrap_or_else(|| {
        let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
        let total = text.lines().find_map(|l| l.strip_prefix("MemTotal:"));
        total.and_then(|t| t.split_whitespace().next()).and_then(|kb| kb.parse::<u64>().ok()).unwrap_or(0)
            * 1024
    })
}

fn cpus(config: &Config) -> u32 {
    config.cpus.unwrap_or_else(|| {
        std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(1))
    })
}

fn resources(config: &Config, allocatable: bool) -> BTreeMap<String, Quantity> {
    let disk = nix::sys::statvfs::statvfs(&config.root_dir).map_or(0, |s| s.blocks() * s.fragment_size());
    let memory = machine_memory_bytes(config);
    let (memory, disk) = match allocatable {
        // A tenth of the disk is kept back (`nodefs.available<10%`).
        true => (memory.saturating_sub(EVICTION_HARD_MEMORY_BYTES), (disk * 9 / 10).to_string()),
        false => (memory, format!("{}Ki", disk / 1024)),
    };
    let q = |s: String| Quantity(s);
    BTreeMap::from([
        ("cpu".to_owned(), q(cpus(config).to_string())),
        ("memory".to_owned(), q(format!("{}Ki", memory / 1024))),
        ("ephemeral-storage".to_owned(), q(disk)),
        ("pods".to_owned(), q(config.max_pods.to_string())),
    ])
}

fn labels(config: &Config) -> BTreeMap<String, String> {
    let standard = [
        ("beta.kubernetes.io/arch", arch()),
        ("beta.kubernetes.io/os", "linux"),
        (HOSTNAME_LABEL, config.node_name.as_str()),
        ("kubernetes.io/arch", arch()),
        ("kubernetes.io/os", "linux"),
    ];
    let own = config.node_labels.iter().map(|(k, v)| (k.clone(), v.clone()));
    standard.into_iter().map(|(k, v)| (k.to_owned(), v.to_owned())).chain(own).collect()
}

/// The architecture's name as Go has it.
pub fn arch() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn node_info(runtime_version: String) -> NodeSystemInfo {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default().trim().to_owned();
    let os = read("/etc/os-release");
    let pretty = os
        .lines()
        .find_map(|l| l.strip_prefix("PRETTY_NAME="))
        .unwrap_or("Linux")
        .trim_matches('"')
        .to_owned();
    NodeSystemInfo {
        machine_id: read("/etc/machine-id"),
        system_uuid: read("/sys/class/dmi/id/product_uuid"),
        boot_id: read("/proc/sys/kernel/random/boot_id"),
        kernel_version: read("/proc/sys/kernel/osrelease"),
        os_image: pretty,
        container_runtime_version: runtime_version,
        kubelet_version: KUBELET_VERSION.to_owned(),
        kube_proxy_version: String::new(),
        operating_system: "linux".to_owned(),
        architecture: arch().to_owned(),
        swap: None,
    }
}

/// The condition of one type, with its transition time kept where the answer is the same.
pub fn condition(
    previous: &NodeStatus,
    type_: &str,
    yes: bool,
    reason: &str,
    message: &str,
    now: Timestamp,
) -> NodeCondition {
    let status = if yes { "True" } else { "False" };
    let old = previous.conditions.iter().flatten().find(|c| c.type_ == type_ && c.status == status);
    NodeCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_heartbeat_time: Some(seconds(now)),
        last_transition_time: old.and_then(|o| o.last_transition_time.clone()).or_else(|| Some(seconds(now))),
    }
}

impl Kubelet {
    /// The node's status as it is now.
    async fn node_status(&self, port: u16) -> NodeStatus {
        let now = Timestamp::now();
        let previous = self.node.load().status.clone().unwrap_or_default();
        let version = self.runtime.version().await;
        let ready = match self.runtime.status().await {
            Ok(s) => s
                .runtime_ready
                .and(s.network_ready)
                .map_err(|e| format!("container runtime network not ready: {e}")),
            Err(e) => Err(format!("container runtime is down: {e}")),
        };
        let c = |type_, yes, reason, message: &str| condition(&previous, type_, yes, reason, message, now);
        let conditions = vec![
            c(
                "MemoryPressure",
                false,
                "KubeletHasSufficientMemory",
                "kubelet has sufficient memory available",
            ),
            c("DiskPressure", false, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            c("PIDPressure", false, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
            match &ready {
                Ok(()) => c("Ready", true, "KubeletReady", "kubelet is posting ready status"),
                Err(why) => c("Ready", false, "KubeletNotReady", why),
            },
        ];
        let address = |type_: &str, address: String| NodeAddress { type_: type_.to_owned(), address };
        let version = version.map_or_else(
            |_| previous.node_info.clone().map(|i| i.container_runtime_version).unwrap_or_default(),
            |v| format!("{}://{}", v.runtime_name, v.runtime_version),
        );
        NodeStatus {
            addresses: Some(vec![
                address("InternalIP", self.config.node_ip.to_string()),
                address("Hostname", self.config.node_name.clone()),
            ]),
            capacity: Some(resources(&self.config, false)),
            allocatable: Some(resources(&self.config, true)),
            conditions: Some(conditions),
            daemon_endpoints: Some(NodeDaemonEndpoints {
                kubelet_endpoint: Some(DaemonEndpoint { port: i32::from(port) }),
            }),
            node_info: Some(node_info(version)),
            images: Some(self.node_images().await),
            ..NodeStatus::default()
        }
    }

    async fn node_images(&self) -> Vec<ContainerImage> {
        let mut images = self.runtime.list_images().await.unwrap_or_default();
        images.sort_by(|a, b| b.size_bytes.cmp(&a.size_bytes).then(a.id.cmp(&b.id)));
        images.truncate(MAX_IMAGES);
        let names =
            |i: &crate::cri::Image| i.repo_digests.iter().chain(&i.repo_tags).cloned().collect::<Vec<_>>();
        images
            .iter()
            .map(|i| ContainerImage { names: Some(names(i)), size_bytes: i64::try_from(i.size_bytes).ok() })
            .filter(|i| i.names.as_ref().is_some_and(|n| !n.is_empty()))
            .collect()
    }
}

/// Makes the Node, or takes over the one that is there. Tries until it succeeds or `shutdown`.
pub async fn register(kubelet: &Arc<Kubelet>, port: u16, shutdown: &CancellationToken) {
    let config = &kubelet.config;
    let memory = i64::try_from(machine_memory_bytes(config)).unwrap_or(i64::MAX);
    if let Err(error) = kubelet.cgroups.setup_node(i64::from(cpus(config)) * 1000, memory) {
        warn!(%error, "Failed to set up the node's cgroups, pods run without limits");
    }
    let mut wait = Duration::from_millis(100);
    while !shutdown.is_cancelled() {
        match try_register(kubelet, port).await {
            Ok(node) => {
                info!(node = config.node_name, "Successfully registered node");
                kubelet.node.store(Arc::new(node));
                starting_events(kubelet);
                apply_pod_cidr(kubelet).await;
                return;
            }
            Err(error) => warn!(node = config.node_name, %error, "Unable to register node with API server"),
        }
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = shutdown.cancelled() => return,
        }
        wait = (wait * 2).min(Duration::from_secs(7));
    }
}

fn starting_events(kubelet: &Kubelet) {
    let name = &kubelet.config.node_name;
    kubelet.node_event(EventText::normal("Starting", "Starting kubelet."));
    if kubelet.cgroups.enabled() && !kubelet.cgroups.is_v2() {
        let text = "cgroup v1 support is in maintenance mode, please migrate to cgroup v2";
        kubelet.node_event(EventText::warning("CgroupV1", text));
    }
    if kubelet.cgroups.enabled() {
        kubelet.node_event(EventText::normal(
            "NodeAllocatableEnforced",
            "Updated Node Allocatable limit across pods",
        ));
    }
    for word in ["NodeHasSufficientMemory", "NodeHasNoDiskPressure", "NodeHasSufficientPID"] {
        kubelet.node_event(EventText::normal(word, format!("Node {name} status is now: {word}")));
    }
}

async fn try_register(kubelet: &Kubelet, port: u16) -> Result<Node, stage1_kubectl::client::ClientError> {
    let api = kubelet.client.api::<Node>();
    let name = &kubelet.config.node_name;
    let status = kubelet.node_status(port).await;
    let taints = kubelet.config.register_with_taints.clone();
    let node = Node {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            labels: Some(labels(&kubelet.config)),
            ..ObjectMeta::default()
        },
        spec: Some(NodeSpec { taints: (!taints.is_empty()).then_some(taints), ..NodeSpec::default() }),
        status: Some(status.clone()),
    };
    match api.create(&node).await {
        Err(e) if e.is_already_exists() => {}
        created => return created,
    }
    let mine = json!({"metadata": {"labels": labels(&kubelet.config)}});
    api.patch(name, &Patch::Strategic(mine)).await?;
    api.patch_subresource(name, "status", &Patch::Strategic(status_patch(&status))).await
}

fn status_patch(status: &NodeStatus) -> Value {
    let order = |list: Option<Vec<Value>>| list.unwrap_or_default();
    let types = status.conditions.as_ref().map(|c| c.iter().map(|c| json!({"type": c.type_})).collect());
    let mut value = json!(status);
    value["$setElementOrder/conditions"] = Value::Array(order(types));
    json!({"status": value})
}

/// What a status says when heartbeats are left out.
fn substance(status: &NodeStatus) -> NodeStatus {
    let mut status = status.clone();
    status.conditions.iter_mut().flatten().for_each(|c| c.last_heartbeat_time = None);
    status
}

/// Keeps the node's status true until `shutdown`.
pub async fn run(kubelet: Arc<Kubelet>, port: u16, shutdown: CancellationToken) {
    let mut told: Option<(NodeStatus, tokio::time::Instant)> = None;
    let name = kubelet.config.node_name.clone();
    loop {
        let status = kubelet.node_status(port).await;
        let due = told.as_ref().is_none_or(|(old, at)| {
            at.elapsed() >= NODE_STATUS_REPORT_FREQUENCY || substance(old) != substance(&status)
        });
        if due {
            let api = kubelet.client.api::<Node>();
            match api.patch_subresource(&name, "status", &Patch::Strategic(status_patch(&status))).await {
                Ok(_) => {
                    tell_readiness(&kubelet, told.as_ref().map(|(s, _)| s), &status);
                    told = Some((status, tokio::time::Instant::now()));
                }
                // Somebody deleted the Node: a kubelet that runs registers itself again.
                Err(e) if e.is_not_found() => register(&kubelet, port, &shutdown).await,
                Err(error) => warn!(node = name, %error, "Error updating node status, will retry"),
            }
        }
        apply_pod_cidr(&kubelet).await;
        let due = tokio::time::sleep(NODE_STATUS_UPDATE_FREQUENCY);
        let was_ready = is_ready(told.as_ref().map(|(s, _)| s));
        tokio::select! {
            () = due => {}
            // A network that comes up must not wait ten seconds for its first pods.
            () = runtime_ready(&kubelet), if !was_ready => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// Waits until the runtime and its network answer; one small question at a time.
async fn runtime_ready(kubelet: &Kubelet) {
    loop {
        tokio::time::sleep(FAST_STATUS_UPDATE_PERIOD).await;
        apply_pod_cidr(kubelet).await;
        if kubelet.runtime.status().await.is_ok_and(|s| s.runtime_ready.is_ok() && s.network_ready.is_ok()) {
            return;
        }
    }
}

fn is_ready(status: Option<&NodeStatus>) -> bool {
    status.is_some_and(|s| s.conditions.iter().flatten().any(|c| c.type_ == "Ready" && c.status == "True"))
}

fn tell_readiness(kubelet: &Kubelet, before: Option<&NodeStatus>, now: &NodeStatus) {
    let word = match (before.map(|b| is_ready(Some(b))), is_ready(Some(now))) {
        (Some(false) | None, true) => "NodeReady",
        (Some(true), false) => "NodeNotReady",
        _ => return,
    };
    let name = &kubelet.config.node_name;
    // Not what the store says: there a Ready of the last run stays true until the first heartbeat of this one.
    info!(node = name, "Node status is now: {word}");
    kubelet.node_event(EventText::normal(word, format!("Node {name} status is now: {word}")));
}

/// Tells the runtime which addresses its pods get, once they are known.
async fn apply_pod_cidr(kubelet: &Kubelet) {
    let of_node = kubelet.node.load().spec.as_ref().and_then(|s| s.pod_cidr.clone());
    let Some(cidr) = kubelet.config.pod_cidr.clone().or(of_node) else { return };
    if let Err(error) = kubelet.runtime.update_runtime_config(&cidr).await {
        warn!(%error, "Failed to tell the runtime the pod CIDR");
    }
}
