//! Options: kube-scheduler's flags, and the configuration that they amount to.
//!
//! *Beside a pod's journey through this stage.* Before: the command line. After: [`crate::pipeline::run`].
//!
//! A configuration file ([`crate::configuration`]) says more than flags can; where both speak of the same thing (leader
//! election, the kubeconfig, the client's limits) the flag that was given wins.
//!
//! # Invariants
//! 1. Without flags the scheduler behaves as Kubernetes' does without flags.
//!
//! # In Kubernetes
//! `cmd/kube-scheduler/app/options`. Left out: feature gates, serving certificates. The kubeconfigs for authentication
//! and authorization are taken, as kubeadm gives them, and the log says that /metrics asks nobody.
#![expect(clippy::disallowed_methods, reason = "shell: reads the configuration file")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use clap::{ArgAction, Parser};

use crate::configuration::registry::Registry;
use crate::configuration::{self, Configuration, ConfigurationError, strict, v1};

/// The command line.
#[derive(Clone, Debug, Parser)]
#[command(name = "kube-scheduler", version, about = "Chooses a node for each pod that has none")]
pub struct Flags {
    /// Kubeconfig of the API server
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server, instead of the kubeconfig's
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    /// KubeSchedulerConfiguration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Writes the configuration with all defaults to this file and ends
    #[arg(long, value_name = "FILE")]
    pub write_config_to: Option<PathBuf>,
    /// Only one of several schedulers works at a time (default true)
    #[arg(long, action = ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub leader_elect: Option<bool>,
    /// Namespace of the lease (default kube-system)
    #[arg(long)]
    pub leader_elect_resource_namespace: Option<String>,
    /// Name of the lease (default kube-scheduler)
    #[arg(long)]
    pub leader_elect_resource_name: Option<String>,
    /// Kind of the lock: leases
    #[arg(long)]
    pub leader_elect_resource_lock: Option<String>,
    /// After this time without renewal others may take over (default 15s)
    #[arg(long)]
    pub leader_elect_lease_duration: Option<String>,
    /// The leader stops when it could not renew for so long (default 10s)
    #[arg(long)]
    pub leader_elect_renew_deadline: Option<String>,
    /// Time between two tries (default 2s)
    #[arg(long)]
    pub leader_elect_retry_period: Option<String>,
    /// Requests a second; 0 is no limit
    #[arg(long)]
    pub kube_api_qps: Option<f64>,
    /// Requests at once
    #[arg(long)]
    pub kube_api_burst: Option<i32>,
    /// Taken for kubeadm's sake
    #[arg(long, value_name = "FILE")]
    pub authentication_kubeconfig: Option<PathBuf>,
    /// Taken for kubeadm's sake
    #[arg(long, value_name = "FILE")]
    pub authorization_kubeconfig: Option<PathBuf>,
    /// Port of /healthz, /readyz and /metrics; 0 picks a free one
    #[arg(long, default_value_t = 10259)]
    pub secure_port: u16,
    /// Address of that port
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub bind_address: IpAddr,
    /// Folder of the cluster's state
    #[arg(long, env = "STAGES_STATE_DIR", value_name = "DIR")]
    pub state_dir: Option<PathBuf>,
    /// How much is logged
    #[arg(short, long = "v", default_value_t = 0, value_name = "LEVEL")]
    pub v: u8,
}

/// What the flags and the file amount to.
pub struct Config {
    /// Who places which pods, and how.
    pub configuration: Configuration,
    /// Where health and metrics are served.
    pub serving: SocketAddr,
}

/// Why the options can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The configuration file can't be read.
    #[error("open {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// Something in it is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
}

impl Flags {
    /// Reads the configuration file and fills in what nobody said.
    ///
    /// # Errors
    /// The file can't be read, or something in it is wrong.
    pub fn config(&self) -> Result<Config, OptionsError> {
        let mut file = v1::KubeSchedulerConfiguration::default();
        if let Some(path) = &self.config {
            let read = std::fs::read_to_string(path);
            let text = read.map_err(|error| OptionsError::Read(path.clone(), error))?;
            file = configuration::decode(&text)?;
        }
        self.outvote(&mut file);
        let mut configuration = configuration::complete(file, &Registry::default())?;
        if self.authentication_kubeconfig.is_some() || self.authorization_kubeconfig.is_some() {
            let note =
                "the kubeconfigs for authentication and authorization have no effect: /metrics asks nobody";
            configuration.notes.push(note.to_owned());
        }
        Ok(Config { configuration, serving: SocketAddr::new(self.bind_address, self.secure_port) })
    }

    fn outvote(&self, file: &mut v1::KubeSchedulerConfiguration) {
        let election = &mut file.leader_election;
        let text = |field: &mut String, flag: &Option<String>| {
            if let Some(given) = flag {
                field.clone_from(given);
            }
        };
        text(&mut election.resource_namespace, &self.leader_elect_resource_namespace);
        text(&mut election.resource_name, &self.leader_elect_resource_name);
        text(&mut election.resource_lock, &self.leader_elect_resource_lock);
        let time = |field: &mut Option<String>, flag: &Option<String>| {
            if flag.is_some() {
                field.clone_from(flag);
            }
        };
        time(&mut election.lease_duration, &self.leader_elect_lease_duration);
        time(&mut election.renew_deadline, &self.leader_elect_renew_deadline);
        time(&mut election.retry_period, &self.leader_elect_retry_period);
        election.leader_elect = self.leader_elect.or(election.leader_elect);
        let connection = &mut file.client_connection;
        connection.qps = self.kube_api_qps.unwrap_or(connection.qps);
        connection.burst = self.kube_api_burst.unwrap_or(connection.burst);
        if let Some(path) = &self.kubeconfig {
            connection.kubeconfig = path.display().to_string();
        }
    }
}

/// The completed file as YAML, as `--write-config-to` writes it.
///
/// # Errors
/// It can't be written as JSON (it always can).
pub fn shown(configuration: &Configuration) -> Result<String, serde_json::Error> {
    let mut value = serde_json::to_value(&configuration.file)?;
    strict::without_empty(&mut value);
    value["apiVersion"] = configuration::API_VERSION.into();
    value["kind"] = configuration::KIND.into();
    Ok(stage1_kubectl::yaml::to_yaml(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_kubernetes_defaults() {
        let config = Flags::parse_from(["kube-scheduler"]).config().unwrap();
        assert!(config.configuration.leader_election.is_some() && config.serving.port() == 10259);
        let alone = Flags::parse_from(["kube-scheduler", "--leader-elect=false"]).config().unwrap();
        assert!(alone.configuration.leader_election.is_none());
    }

    #[test]
    fn a_flag_outvotes_the_file_and_what_is_written_can_be_read_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("config.yaml");
        let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nleaderElection: {leaderElect: true, resourceName: mine}\npodMaxBackoffSeconds: 5\n";
        std::fs::write(&path, text).unwrap();
        let file = path.to_str().unwrap();
        let flags = [
            "kube-scheduler",
            "--config",
            file,
            "--leader-elect-lease-duration",
            "20s",
            "--kube-api-qps",
            "9",
        ];
        let config = Flags::parse_from(flags).config().unwrap().configuration;
        let election = config.leader_election.clone().unwrap();
        assert_eq!((election.name.as_str(), election.lease_duration.as_secs()), ("mine", 20));
        assert_eq!((config.rate, config.profiles.backoff.1.as_secs()), (Some((9.0, 9)), 5));
        let again = configuration::load(&shown(&config).unwrap()).ok().unwrap();
        assert_eq!((again.leader_election, again.rate), (config.leader_election, config.rate));
    }
}
