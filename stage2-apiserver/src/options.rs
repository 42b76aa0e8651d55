//! Options: kube-apiserver's flags, and ours.
//!
//! The names and defaults are Kubernetes'. Certificates and keys that aren't given are made in the state directory, so that the
//! server starts with no flag at all.
//!
//! # In Kubernetes
//! `cmd/kube-apiserver/app/options`. Left out: what has no counterpart here (egress, cloud providers).

pub mod audit;
pub mod oidc;

use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, ValueEnum};
use stage1_kubectl::time::parse_duration;

use crate::filters::in_flight::{DEFAULT_MAX_READS, DEFAULT_MAX_WRITES};

/// Where objects are kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum StoreKind {
    /// etcd: one that is given, or one that we start.
    Etcd,
    /// The embedded store in the state directory.
    Embedded,
    /// Memory: gone with the process.
    Memory,
}

/// The flags of a cluster's API server; later stages flatten them into their own.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "API server")]
pub struct ClusterFlags {
    /// Directory of the cluster's state (default: ~/.six-stages)
    #[arg(long, env = "STAGES_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// Where objects are kept (default: etcd where it is built in and installed, else embedded)
    #[arg(long, value_enum)]
    pub store: Option<StoreKind>,
    /// Port to serve on; 0 picks a free one, which the state directory remembers
    #[arg(long, default_value_t = 6443, value_name = "PORT")]
    pub secure_port: u16,
    /// Addresses to serve on
    #[arg(long, default_value = "127.0.0.1", value_delimiter = ',', value_name = "IP")]
    pub bind_address: Vec<IpAddr>,
    /// Address that members of the cluster are told (default: the first bind address)
    #[arg(long, value_name = "IP")]
    pub advertise_address: Option<IpAddr>,
    /// etcd servers to use instead of starting one
    #[arg(long, value_delimiter = ',', value_name = "URL")]
    pub etcd_servers: Vec<String>,
    /// CA of the etcd servers
    #[arg(long, value_name = "FILE")]
    pub etcd_cafile: Option<PathBuf>,
    /// Client certificate for etcd
    #[arg(long, value_name = "FILE")]
    pub etcd_certfile: Option<PathBuf>,
    /// Key of the client certificate for etcd
    #[arg(long, value_name = "FILE")]
    pub etcd_keyfile: Option<PathBuf>,
    /// CA whose client certificates are believed (default: the cluster's own)
    #[arg(long, value_name = "FILE")]
    pub client_ca_file: Option<PathBuf>,
    /// Serving certificate (default: made by the cluster's CA)
    #[arg(long, requires = "tls_private_key_file", value_name = "FILE")]
    pub tls_cert_file: Option<PathBuf>,
    /// Key of the serving certificate
    #[arg(long, requires = "tls_cert_file", value_name = "FILE")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Addresses of Services
    #[arg(long, default_value = crate::allocator::DEFAULT_SERVICE_CLUSTER_IP_RANGE, value_name = "CIDR")]
    pub service_cluster_ip_range: String,
    /// Ports of Services on nodes
    #[arg(long, default_value = "30000-32767", value_name = "FIRST-LAST")]
    pub service_node_port_range: String,
    /// Key that signs service account tokens (default: made in the state directory)
    #[arg(long, value_name = "FILE")]
    pub service_account_signing_key_file: Option<PathBuf>,
    /// Authorizers in order; Node and RBAC are always on
    #[arg(long, default_value = "Node,RBAC", value_delimiter = ',', value_name = "MODES")]
    pub authorization_mode: Vec<String>,
    /// Admission plugins to add to the default ones
    #[arg(long, value_delimiter = ',', value_name = "PLUGINS")]
    pub enable_admission_plugins: Vec<String>,
    /// Admission plugins to leave out
    #[arg(long, value_delimiter = ',', value_name = "PLUGINS")]
    pub disable_admission_plugins: Vec<String>,
    /// Port on loopback at which etcdctl can look into the embedded store; 0 picks one (default: none)
    #[arg(long, value_name = "PORT")]
    pub store_client_port: Option<u16>,
    /// Which resources are stored encrypted, and how (EncryptionConfiguration)
    #[arg(long, value_name = "FILE")]
    pub encryption_provider_config: Option<PathBuf>,
    /// The audit log.
    #[command(flatten)]
    pub audit: audit::AuditFlags,
    /// File of static tokens: token,user,uid,"group1,group2"
    #[arg(long, value_name = "FILE")]
    pub token_auth_file: Option<PathBuf>,
    /// Believe the tokens of joining nodes, which are Secrets of kube-system
    #[arg(long, default_value_t = false, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true", value_name = "BOOL")]
    pub enable_bootstrap_token_auth: bool,
    /// An identity provider.
    #[command(flatten)]
    pub oidc: oidc::OidcFlags,
    /// Let requests without credentials in as system:anonymous
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub anonymous_auth: bool,
    /// How long Events are kept
    #[arg(long, default_value = "1h0m0s", value_parser = parse_ttl, value_name = "DURATION")]
    pub event_ttl: Duration,
    /// CA of the kubelets' serving certificates (default: they are not verified)
    #[arg(long, value_name = "FILE")]
    pub kubelet_certificate_authority: Option<PathBuf>,
    /// Client certificate for kubelets (default: made by the cluster's CA)
    #[arg(long, requires = "kubelet_client_key", value_name = "FILE")]
    pub kubelet_client_certificate: Option<PathBuf>,
    /// Key of the client certificate for kubelets
    #[arg(long, requires = "kubelet_client_certificate", value_name = "FILE")]
    pub kubelet_client_key: Option<PathBuf>,
    /// Divide the requests that run at a time by FlowSchemas and PriorityLevelConfigurations
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, value_name = "BOOL")]
    pub enable_priority_and_fairness: bool,
    /// Reads that run at a time (with priority and fairness: reads and writes together, as many as both)
    #[arg(long, default_value_t = DEFAULT_MAX_READS, value_name = "N")]
    pub max_requests_inflight: usize,
    /// Writes that run at a time
    #[arg(long, default_value_t = DEFAULT_MAX_WRITES, value_name = "N")]
    pub max_mutating_requests_inflight: usize,
}

/// All flags of `kube-apiserver`.
#[derive(Debug, Parser)]
#[command(name = "kube-apiserver", version = crate::version::GIT_VERSION, about = "Stage 2: remember it, tell everyone")]
pub struct Flags {
    /// The cluster's.
    #[command(flatten)]
    pub cluster: ClusterFlags,
    /// How much to log
    #[arg(short, long, default_value_t = 0, value_name = "LEVEL")]
    pub v: u8,
    /// How log lines look
    #[arg(long, default_value = "text", value_parser = ["text", "json"], value_name = "FORMAT")]
    pub log_format: String,
}

impl Default for ClusterFlags {
    /// What `kube-apiserver` without flags has.
    fn default() -> Self {
        Flags::parse_from(["kube-apiserver"]).cluster
    }
}

/// A duration that isn't negative, as `1h0m0s`.
fn parse_ttl(text: &str) -> Result<Duration, String> {
    let bad = || format!("{text:?} is not a duration like 1h0m0s");
    Duration::try_from(parse_duration(text).ok_or_else(bad)?).map_err(|_| bad())
}

/// First and last port of a range.
///
/// # Errors
/// The text isn't `FIRST-LAST`.
pub fn parse_port_range(text: &str) -> Result<(u16, u16), String> {
    let bad = || format!("node port range {text:?} is not FIRST-LAST");
    let (first, last) = text.split_once('-').ok_or_else(bad)?;
    let range = (first.trim().parse().map_err(|_| bad())?, last.trim().parse().map_err(|_| bad())?);
    if range.0 <= range.1 { Ok(range) } else { Err(bad()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flag_is_needed() {
        let flags = ClusterFlags::default();
        assert_eq!(flags.secure_port, 6443);
        assert_eq!(flags.bind_address, [IpAddr::from([127, 0, 0, 1])]);
        assert!(flags.anonymous_auth);
        assert_eq!(flags.event_ttl, crate::store::event_ttl::EVENT_TTL);
        assert!(parse_ttl("-1s").is_err() && parse_ttl("soon").is_err());
    }

    #[test]
    fn a_port_range_has_two_ends() {
        assert_eq!(parse_port_range("30000-32767"), Ok((30000, 32767)));
        assert!(parse_port_range("32767-30000").is_err());
        assert!(parse_port_range("80").is_err());
    }
}
