//! Options: kube-controller-manager's flags, and the validated configuration that they make.
//!
//! The flags are Kubernetes' where Kubernetes has them; a flag that this controller manager does not need is accepted when a usual
//! installation sets it, and has no effect (its help says so).
//!
//! # In Kubernetes
//! `cmd/kube-controller-manager/app/options/`.

use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use k8s_openapi::jiff::SignedDuration;

use crate::node_ipam::{CidrError, CidrSet};
use crate::node_lifecycle::monitor::Periods;

/// Flags of the controllers themselves, also taken by the binaries that start this stage in their process.
#[derive(Args, Clone, Debug)]
pub struct ControllerFlags {
    /// Controllers to enable: '*' enables all on-by-default controllers, 'foo' enables foo, '-foo' disables it
    #[arg(long, value_delimiter = ',', default_value = "*")]
    pub controllers: Vec<String>,
    /// CIDR range for pods in the cluster
    #[arg(long, default_value = "10.244.0.0/16")]
    pub cluster_cidr: String,
    /// Should CIDRs for pods be allocated and set on nodes
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub allocate_node_cidrs: bool,
    /// Mask size for a node's range in the cluster CIDR
    #[arg(long, alias = "node-cidr-mask-size-ipv4", default_value_t = 24)]
    pub node_cidr_mask_size: u8,
    /// Time that a running node may be unresponsive before it is marked unhealthy, in seconds or as 40s, 1m
    #[arg(long, default_value = "40s", value_parser = parse_duration)]
    pub node_monitor_grace_period: Duration,
    /// Time that a starting node may be unresponsive before it is marked unhealthy
    #[arg(long, default_value = "1m", value_parser = parse_duration)]
    pub node_startup_grace_period: Duration,
    /// The period for syncing NodeStatus in the node lifecycle controller
    #[arg(long, default_value = "5s", value_parser = parse_duration)]
    pub node_monitor_period: Duration,
    /// Number of terminated pods that can exist before the terminated pod garbage collector starts deleting them; 0 disables it
    #[arg(long, default_value_t = 12500)]
    pub terminated_pod_gc_threshold: usize,
    /// Number of Deployments that are allowed to sync concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_deployment_syncs: usize,
    /// Number of ReplicaSets that are allowed to sync concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_replicaset_syncs: usize,
    /// Number of Services whose endpoints are synced concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_endpoint_syncs: usize,
    /// Number of Services whose endpoint slices are synced concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_service_endpoint_syncs: usize,
    /// Number of garbage collector workers
    #[arg(long, default_value_t = 20)]
    pub concurrent_gc_syncs: usize,
    /// Number of namespaces that are allowed to sync concurrently
    #[arg(long, default_value_t = 10)]
    pub concurrent_namespace_syncs: usize,
    /// Number of Jobs that are allowed to sync concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_job_syncs: usize,
    /// Number of DaemonSets that are allowed to sync concurrently
    #[arg(long, default_value_t = 2)]
    pub concurrent_daemonset_syncs: usize,
    /// Number of StatefulSets that are allowed to sync concurrently
    #[arg(long, default_value_t = 5)]
    pub concurrent_statefulset_syncs: usize,
}

/// Flags of the binary on its own.
#[derive(Args, Clone, Debug)]
pub struct Flags {
    /// Path to a kubeconfig file with authorization and master location information
    #[arg(long, env = "KUBECONFIG")]
    pub kubeconfig: Option<PathBuf>,
    /// The address of the Kubernetes API server (overrides any value in kubeconfig)
    #[arg(long)]
    pub master: Option<String>,
    /// Start a leader election client and gain leadership before executing the main loop
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub leader_elect: bool,
    /// Namespace of the Lease that is used for locking during leader election
    #[arg(long, default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
    /// Name of the Lease that is used for locking during leader election
    #[arg(long, default_value = "kube-controller-manager")]
    pub leader_elect_resource_name: String,
    /// File with the PEM-encoded private key that signs service account tokens (for token Secrets)
    #[arg(long)]
    pub service_account_private_key_file: Option<PathBuf>,
    /// File with the root CA that is published to every namespace; default: the kubeconfig's CA
    #[arg(long)]
    pub root_ca_file: Option<PathBuf>,
    /// Accepted; all controllers use one identity
    #[arg(long, num_args = 0..=1, default_missing_value = "true")]
    pub use_service_account_credentials: Option<bool>,
    /// Address to serve health and metrics on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_address: IpAddr,
    /// Port to serve health and metrics on with TLS; 0 picks a free one
    #[arg(long, default_value_t = 10257)]
    pub secure_port: u16,
    /// File with the serving certificate; default: one is made at the start
    #[arg(long, requires = "tls_private_key_file")]
    pub tls_cert_file: Option<PathBuf>,
    /// File with the serving certificate's key
    #[arg(long, requires = "tls_cert_file")]
    pub tls_private_key_file: Option<PathBuf>,
    /// Directory of the cluster's state; a cluster that runs there is used when no kubeconfig is given
    #[arg(long, env = "STAGES_STATE_DIR")]
    pub state_dir: Option<PathBuf>,
    /// Number for the log level verbosity
    #[arg(short, long, default_value_t = 0)]
    pub v: u8,
    /// Sets the log format: text or json
    #[arg(long, alias = "logging-format", default_value = "text", value_parser = ["text", "json"])]
    pub log_format: String,
    /// What the controllers do
    #[command(flatten)]
    pub controllers: ControllerFlags,
}

/// `40s`, `1m`, `1m30s`, `500ms`, or a plain number of seconds.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let invalid = || format!("time: invalid duration {text:?}");
    if let Ok(seconds) = text.parse::<u64>() {
        return Ok(Duration::from_secs(seconds));
    }
    let mut total = Duration::ZERO;
    let mut rest = text;
    while !rest.is_empty() {
        let digits =
            rest.find(|letter: char| !letter.is_ascii_digit() && letter != '.').ok_or_else(invalid)?;
        let number: f64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let end = rest.find(|letter: char| letter.is_ascii_digit()).unwrap_or(rest.len());
        let unit = match &rest[..end] {
            "ms" => 0.001,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(invalid()),
        };
        total += Duration::try_from_secs_f64(number * unit).map_err(|_| invalid())?;
        rest = &rest[end..];
    }
    Ok(total)
}

/// What the controllers need to know.
#[derive(Clone, Debug)]
pub struct Config {
    /// The flags, for the numbers that need no checking.
    pub flags: ControllerFlags,
    /// Ranges for nodes, when they are to be given.
    pub node_cidrs: Option<CidrSet>,
    /// How long nodes may be silent.
    pub periods: Periods,
    /// PEM of the CA that is published.
    pub root_ca: Option<String>,
    /// PEM of the key that signs tokens.
    pub service_account_key: Option<String>,
}

impl ControllerFlags {
    /// Checks the flags. `root_ca` is the text of `--root-ca-file` or of the kubeconfig's CA, `service_account_key` that of the key file.
    ///
    /// # Errors
    /// When the cluster CIDR cannot be cut into node CIDRs.
    pub fn config(
        &self,
        root_ca: Option<String>,
        service_account_key: Option<String>,
    ) -> Result<Config, CidrError> {
        let node_cidrs = if self.allocate_node_cidrs {
            Some(CidrSet::new(&self.cluster_cidr, self.node_cidr_mask_size)?)
        } else {
            None
        };
        let signed = |duration: Duration| SignedDuration::try_from(duration).unwrap_or(SignedDuration::MAX);
        let periods = Periods {
            grace: signed(self.node_monitor_grace_period),
            startup_grace: signed(self.node_startup_grace_period),
            monitor: self.node_monitor_period.max(Duration::from_millis(100)),
        };
        Ok(Config { flags: self.clone(), node_cidrs, periods, root_ca, service_account_key })
    }
}

impl Config {
    /// Whether a controller is to run: the last word on it counts.
    pub fn is_enabled(&self, name: &str, on_by_default: bool) -> bool {
        let mut enabled = false;
        for word in &self.flags.controllers {
            match word.as_str() {
                "*" => enabled = enabled || on_by_default,
                word if word == name => return true,
                word if word.strip_prefix('-') == Some(name) => return false,
                _ => {}
            }
        }
        enabled
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        flags: Flags,
    }

    fn config(arguments: &[&str]) -> Config {
        let all = std::iter::once("kube-controller-manager").chain(arguments.iter().copied());
        Cli::try_parse_from(all).unwrap().flags.controllers.config(None, None).unwrap()
    }

    #[test]
    fn controllers_are_chosen_by_name() {
        let all = config(&[]);
        assert!(
            all.is_enabled("job-controller", true) && !all.is_enabled("bootstrap-signer-controller", false)
        );
        let some = config(&["--controllers=*,-job-controller"]);
        assert!(!some.is_enabled("job-controller", true) && some.is_enabled("deployment-controller", true));
        let one = config(&["--controllers=job-controller"]);
        assert!(one.is_enabled("job-controller", true) && !one.is_enabled("deployment-controller", true));
    }

    #[test]
    fn durations_are_read_as_go_writes_them() {
        assert_eq!(parse_duration("1m30s"), Ok(Duration::from_secs(90)));
        assert_eq!(parse_duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(parse_duration("40"), Ok(Duration::from_secs(40)));
        assert!(parse_duration("soon").is_err() && parse_duration("5d").is_err());
    }

    #[test]
    fn flags_with_and_without_value_are_accepted() {
        let parse =
            |arguments: &[&str]| Cli::try_parse_from(std::iter::once(&"x").chain(arguments)).unwrap().flags;
        assert!(
            parse(&["--leader-elect", "--use-service-account-credentials=true", "--secure-port=0"])
                .leader_elect
        );
        assert!(!parse(&["--leader-elect=false", "-v", "4"]).leader_elect);
        assert!(config(&["--allocate-node-cidrs=false"]).node_cidrs.is_none());
    }
}
