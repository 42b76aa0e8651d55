//! Options: kube-scheduler's flags, and the configuration that they amount to.
//!
//! *Beside a pod's journey through this stage.* Before: the command line. After: [`crate::pipeline::run`].
//!
//! # Invariants
//! 1. Without flags the scheduler behaves as Kubernetes' does without flags.
//!
//! # In Kubernetes
//! `cmd/kube-scheduler/app/options`, `pkg/scheduler/apis/config/v1`. Of the configuration file these are read: profiles
//! (schedulerName, percentageOfNodesToScore), podInitialBackoffSeconds, podMaxBackoffSeconds, percentageOfNodesToScore.
//! Left out: plugins on and off, pluginConfig, extenders, feature gates.
#![expect(clippy::disallowed_methods, reason = "shell: reads the configuration file")]

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Parser;
use serde::Deserialize;

use crate::profile::{NodesToScore, Profile};
use crate::profiles::Profiles;

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
    /// Only one of several schedulers works at a time
    #[arg(long, default_value_t = true, action = clap::ArgAction::Set, num_args = 0..=1, default_missing_value = "true")]
    pub leader_elect: bool,
    /// Namespace of the lease
    #[arg(long, default_value = "kube-system")]
    pub leader_elect_resource_namespace: String,
    /// Name of the lease
    #[arg(long, default_value = "kube-scheduler")]
    pub leader_elect_resource_name: String,
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
    /// Who places which pods.
    pub profiles: Profiles,
    /// Namespace and name of the lease, if leaders are elected.
    pub lease: Option<(String, String)>,
    /// Where health and metrics are served.
    pub serving: SocketAddr,
}

/// Why the options can't be used.
#[derive(Debug, thiserror::Error)]
pub enum OptionsError {
    /// The configuration file can't be read.
    #[error("cannot read {0}")]
    Read(PathBuf, #[source] std::io::Error),
    /// It is no KubeSchedulerConfiguration.
    #[error("{0} is no KubeSchedulerConfiguration: {1}")]
    Parse(PathBuf, String),
}

/// The part of a KubeSchedulerConfiguration that is read.
#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct File {
    api_version: String,
    kind: String,
    percentage_of_nodes_to_score: Option<u32>,
    pod_initial_backoff_seconds: Option<u64>,
    pod_max_backoff_seconds: Option<u64>,
    profiles: Vec<FileProfile>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct FileProfile {
    scheduler_name: Option<String>,
    percentage_of_nodes_to_score: Option<u32>,
}

impl Flags {
    /// Reads the configuration file and fills in what nobody said.
    ///
    /// # Errors
    /// The file can't be read or isn't one.
    pub fn config(&self) -> Result<Config, OptionsError> {
        let profiles = match &self.config {
            None => Profiles::default(),
            Some(path) => {
                let text =
                    std::fs::read_to_string(path).map_err(|error| OptionsError::Read(path.clone(), error))?;
                profiles(&text).map_err(|why| OptionsError::Parse(path.clone(), why))?
            }
        };
        let lease = (self.leader_elect_resource_namespace.clone(), self.leader_elect_resource_name.clone());
        Ok(Config {
            profiles,
            lease: self.leader_elect.then_some(lease),
            serving: SocketAddr::new(self.bind_address, self.secure_port),
        })
    }
}

/// The profiles of a configuration file.
fn profiles(text: &str) -> Result<Profiles, String> {
    let file: File = serde_yaml::from_str(text).map_err(|error| error.to_string())?;
    if file.kind != "KubeSchedulerConfiguration" || file.api_version != "kubescheduler.config.k8s.io/v1" {
        return Err(format!("no kind \"{}\" is registered for version \"{}\"", file.kind, file.api_version));
    }
    let share = |percentage: Option<u32>| match percentage.or(file.percentage_of_nodes_to_score) {
        None | Some(0) => NodesToScore::Adaptive,
        Some(share) => NodesToScore::Percentage(share),
    };
    let mut list: Vec<Profile> = Vec::new();
    for profile in &file.profiles {
        let mut made =
            Profile { nodes_to_score: share(profile.percentage_of_nodes_to_score), ..Profile::default() };
        made.scheduler_name = profile.scheduler_name.clone().unwrap_or(made.scheduler_name);
        list.push(made);
    }
    if list.is_empty() {
        list.push(Profile { nodes_to_score: share(None), ..Profile::default() });
    }
    let mut profiles = Profiles::new(list);
    let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
    profiles.backoff = (
        seconds(file.pod_initial_backoff_seconds, profiles.backoff.0),
        seconds(file.pod_max_backoff_seconds, profiles.backoff.1),
    );
    Ok(profiles)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_sets_pauses_and_names_and_another_kind_is_refused() {
        let text = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\npodMaxBackoffSeconds: 5\nprofiles:\n- schedulerName: mine\n";
        let read = profiles(text).unwrap();
        assert_eq!(read.backoff, (Duration::from_secs(1), Duration::from_secs(5)));
        assert!(profiles("kind: Pod\napiVersion: v1\n").is_err());
    }

    #[test]
    fn the_defaults_are_kubernetes_defaults() {
        let flags = Flags::parse_from(["kube-scheduler"]);
        assert!(flags.leader_elect && flags.secure_port == 10259);
        assert!(!Flags::parse_from(["kube-scheduler", "--leader-elect=false"]).leader_elect);
    }
}
