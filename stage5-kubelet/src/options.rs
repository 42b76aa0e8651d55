//! Options: the kubelet's flags, and the configuration that they amount to.
//!
//! *Beside the journey.* Before: the command line. After: [`crate::kubelet::run`] gets a [`Config`] in which every value is decided.
//!
//! # Invariants
//! 1. Flags are what was typed; defaults that depend on the machine are filled in by [`Flags::config`].
//!
//! # In Kubernetes
//! `cmd/kubelet/app/options`, `pkg/kubelet/apis/config/v1beta1/defaults.go`. Left out: the configuration file, feature gates.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use k8s_openapi::api::core::v1::Taint;

/// Port of the kubelet's own server.
pub const KUBELET_PORT: u16 = 10250;
/// Pods a node takes at most: more, and the pod network of a /24 runs out of addresses.
pub const MAX_PODS: u32 = 110;
/// Size at which a container's log is rotated.
pub const CONTAINER_LOG_MAX_SIZE_BYTES: u64 = 10 << 20;
/// Log files kept of a container, the current one included.
pub const CONTAINER_LOG_MAX_FILES: usize = 5;

/// Which runtime runs the containers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RuntimeKind {
    /// containerd over CRI.
    Containerd,
    /// A runtime inside this process (a later chapter).
    Embedded,
    /// Nothing runs; states are simulated.
    Sim,
}

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(name = "kubelet", version, about = "Runs the pods that are bound to this node")]
pub struct Flags {
    /// Kubeconfig of the API server; without it the stages before this one are started in this process
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Socket of the container runtime
    #[arg(long, value_name = "unix:///PATH")]
    pub container_runtime_endpoint: Option<String>,
    /// Which runtime: containerd where it is found, else sim
    #[arg(long, value_enum)]
    pub runtime: Option<RuntimeKind>,
    /// Name of the node instead of the hostname
    #[arg(long, value_name = "NAME")]
    pub hostname_override: Option<String>,
    /// Address of the node
    #[arg(long, value_name = "IP")]
    pub node_ip: Option<IpAddr>,
    /// Addresses for pods; without it the node's spec.podCIDR is used
    #[arg(long, value_name = "CIDR")]
    pub pod_cidr: Option<String>,
    /// Addresses of the cluster's DNS
    #[arg(long, value_name = "IP", value_delimiter = ',', default_value = "10.96.0.10")]
    pub cluster_dns: Vec<IpAddr>,
    /// Domain of the cluster
    #[arg(long, default_value = "cluster.local")]
    pub cluster_domain: String,
    /// Folder of pods, volumes and plugins
    #[arg(long, value_name = "DIR")]
    pub root_dir: Option<PathBuf>,
    /// Folder of manifests of static pods
    #[arg(long, value_name = "DIR")]
    pub pod_manifest_path: Option<PathBuf>,
    /// Pods that run here at most
    #[arg(long, default_value_t = MAX_PODS)]
    pub max_pods: u32,
    /// Port of the kubelet's server
    #[arg(long, default_value_t = KUBELET_PORT)]
    pub port: u16,
    /// Address of the kubelet's server
    #[arg(long, value_name = "IP")]
    pub address: Option<IpAddr>,
    /// CA of client certificates; without it only tokens are accepted
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Certificate of the kubelet's server; without it one is made
    #[arg(long, value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// Key of the certificate
    #[arg(long, value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Cgroup below which kubepods is made
    #[arg(long, default_value = "")]
    pub cgroup_root: String,
    /// Labels of the node, `key=value`
    #[arg(long, value_delimiter = ',', value_name = "KEY=VALUE")]
    pub node_labels: Vec<String>,
    /// Folder of the cluster's state
    #[arg(long, env = "STAGES_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Nodes to start (without --kubeconfig)
    #[arg(long, default_value_t = 1)]
    pub nodes: u32,
    /// How much is logged
    #[arg(short, default_value_t = 0, value_name = "LEVEL")]
    pub v: u8,
}

/// Everything that one kubelet must know about its node.
#[derive(Clone, Debug)]
pub struct Config {
    /// Name of the node.
    pub node_name: String,
    /// Its address.
    pub node_ip: IpAddr,
    /// Addresses for pods; the node's `spec.podCIDR` where absent.
    pub pod_cidr: Option<String>,
    /// Addresses of the cluster's DNS.
    pub cluster_dns: Vec<IpAddr>,
    /// Domain of the cluster.
    pub cluster_domain: String,
    /// Folder of pods and volumes.
    pub root_dir: PathBuf,
    /// Folder of the pods' logs.
    pub pod_logs_dir: PathBuf,
    /// Folder of static pods' manifests.
    pub pod_manifest_path: Option<PathBuf>,
    /// resolv.conf of the node.
    pub resolv_conf: PathBuf,
    /// Pods that run here at most.
    pub max_pods: u32,
    /// Where the kubelet's server listens (port 0: any).
    pub address: IpAddr,
    /// See `address`.
    pub port: u16,
    /// CA of client certificates.
    pub client_ca_file: Option<PathBuf>,
    /// Certificate and key of the server.
    pub tls_files: Option<(PathBuf, PathBuf)>,
    /// Cgroup below which `kubepods` is made (`""`, `/six0-node-1`); each node of a machine needs its own.
    pub cgroup_root: String,
    /// Whether cgroups can be made.
    pub cgroups: bool,
    /// Labels of the node beside the standard ones.
    pub node_labels: BTreeMap<String, String>,
    /// Taints at registration.
    pub register_with_taints: Vec<Taint>,
    /// Processors to offer; the machine's where absent.
    pub cpus: Option<u32>,
    /// Memory to offer, in bytes; the machine's where absent.
    pub memory_bytes: Option<u64>,
    /// Size at which logs are rotated, in bytes.
    pub container_log_max_size_bytes: u64,
    /// Log files kept.
    pub container_log_max_files: usize,
    /// Share of the disk, in percent, above which unused images are removed; 100 never does.
    pub image_gc_high_threshold_percent: u64,
}

impl Config {
    /// A node of that name with its state in `root_dir`; everything else by default.
    pub fn new(node_name: &str, node_ip: IpAddr, root_dir: PathBuf) -> Self {
        Config {
            node_name: node_name.to_owned(),
            node_ip,
            pod_cidr: None,
            cluster_dns: vec![IpAddr::V4(Ipv4Addr::new(10, 96, 0, 10))],
            cluster_domain: "cluster.local".to_owned(),
            pod_logs_dir: root_dir.join("log/pods"),
            root_dir,
            pod_manifest_path: None,
            resolv_conf: PathBuf::from("/etc/resolv.conf"),
            max_pods: MAX_PODS,
            address: node_ip,
            port: KUBELET_PORT,
            client_ca_file: None,
            tls_files: None,
            cgroup_root: String::new(),
            cgroups: true,
            node_labels: BTreeMap::new(),
            register_with_taints: Vec::new(),
            cpus: None,
            memory_bytes: None,
            container_log_max_size_bytes: CONTAINER_LOG_MAX_SIZE_BYTES,
            container_log_max_files: CONTAINER_LOG_MAX_FILES,
            image_gc_high_threshold_percent: crate::container_gc::IMAGE_GC_HIGH_THRESHOLD_PERCENT,
        }
    }
}

impl Flags {
    /// The configuration of a kubelet that runs alone; `hostname` and `default_ip` are the machine's.
    pub fn config(&self, hostname: &str, default_ip: IpAddr) -> Config {
        let name = self.hostname_override.clone().unwrap_or_else(|| hostname.to_lowercase());
        let root = self.root_dir.clone().unwrap_or_else(|| PathBuf::from("/var/lib/kubelet"));
        let ip = self.node_ip.unwrap_or(default_ip);
        let mut config = Config::new(&name, ip, root);
        if self.root_dir.is_none() {
            config.pod_logs_dir = PathBuf::from("/var/log/pods");
        }
        config.pod_cidr = self.pod_cidr.clone();
        config.cluster_dns = self.cluster_dns.clone();
        config.cluster_domain = self.cluster_domain.clone();
        config.pod_manifest_path = self.pod_manifest_path.clone();
        config.max_pods = self.max_pods;
        config.port = self.port;
        config.address = self.address.unwrap_or(ip);
        config.client_ca_file = self.client_ca_file.clone();
        config.tls_files = self.tls_cert_file.clone().zip(self.tls_private_key_file.clone());
        config.cgroup_root = self.cgroup_root.clone();
        let labels = self.node_labels.iter().filter_map(|l| l.split_once('='));
        config.node_labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).collect();
        config
    }
}
