//! Configuration: a KubeSchedulerConfiguration file, read, completed, checked and turned into what runs.
//!
//! *Beside a pod's journey through this stage.* Before: [`crate::options`] read a file. After: [`crate::pipeline`] runs with
//! these [`Profiles`], extenders and limits.
//!
//! Nothing in the file is ignored in silence. A field that nobody knows is an error ([`strict`]), a value that makes no
//! sense is one ([`validation`]), a plugin that doesn't exist is one ([`registry`]). The few fields that this scheduler
//! has no use for are read, checked and named in [`Configuration::notes`], which the log shows at the start.
//!
//! The steps are Kubernetes': decode, fill in the defaults ([`defaults`], [`plugin_args`]), validate, then build each profile
//! from the plugin sets ([`plugin_sets`]) and the arguments.
//!
//! # Invariants
//! 1. A file without content but kind and version means the same as no file.
//! 2. Everything that is wrong with the values is reported at once.
//!
//! # In Kubernetes
//! `pkg/scheduler/apis/config/scheme`, `cmd/kube-scheduler/app/options/configfile.go`, `pkg/scheduler/scheduler.go`
//! (`New`, `buildExtenders`). Left out: v1beta3, `enableProfiling` (there is no /debug/pprof).

use std::time::Duration;

use serde_json::Value;

use crate::profile::NodesToScore;
use crate::profiles::Profiles;

pub mod defaults;
pub mod field;
pub mod plugin_args;
mod plugin_args_validation;
pub mod plugin_sets;
pub mod registry;
pub mod strict;
#[cfg(test)]
mod tests;
pub mod v1;
pub mod validation;

use plugin_args::PluginArgs;
use registry::Registry;
use v1::KubeSchedulerConfiguration;

/// Group of the file's kind.
pub const GROUP: &str = "kubescheduler.config.k8s.io";
/// Group and version of the file's kind.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// The file's kind.
pub const KIND: &str = "KubeSchedulerConfiguration";

/// Why a file can't be used, in Kubernetes' words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigurationError {
    /// It can't be read.
    #[error("{0}")]
    Decode(String),
    /// Its values make no sense.
    #[error("{0}")]
    Invalid(String),
    /// A profile can't be built.
    #[error("initializing profiles: creating profile for scheduler name {0}: {1}")]
    Profile(String, String),
}

/// Of several schedulers one works: how that is settled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaderElection {
    /// Namespace of the lease.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// After this time without renewal others may take over.
    pub lease_duration: Duration,
    /// The leader stops when it could not renew for so long.
    pub renew_deadline: Duration,
    /// Between two tries.
    pub retry_period: Duration,
}

/// What a file amounts to.
pub struct Configuration {
    /// The file with everything filled in.
    pub file: KubeSchedulerConfiguration,
    /// Who places which pods.
    pub profiles: Profiles,
    /// `None`: this scheduler works alone.
    pub leader_election: Option<LeaderElection>,
    /// Requests a second and at once; `None` is no limit.
    pub rate: Option<(f64, u32)>,
    /// What of the file has no effect here, and why.
    pub notes: Vec<String>,
}

/// Reads Go's duration (`15s`), which isn't negative.
pub fn duration(text: &str) -> Option<Duration> {
    stage1_kubectl::time::parse_duration(text).and_then(|duration| Duration::try_from(duration).ok())
}

/// Reads a file with the plugins of the tree.
///
/// # Errors
/// In Kubernetes' words.
pub fn load(text: &str) -> Result<Configuration, ConfigurationError> {
    load_with(text, &Registry::default())
}

/// Reads a file; `registry` knows more plugins.
///
/// # Errors
/// In Kubernetes' words.
pub fn load_with(text: &str, registry: &Registry) -> Result<Configuration, ConfigurationError> {
    complete(decode(text)?, registry)
}

/// Reads a file as it is written.
///
/// # Errors
/// It is none, or has fields that nobody knows.
pub fn decode(text: &str) -> Result<KubeSchedulerConfiguration, ConfigurationError> {
    let document = strict::document(text).map_err(ConfigurationError::Decode)?;
    of_our_kind(&document).map_err(ConfigurationError::Decode)?;
    strict::decode(&document).map_err(ConfigurationError::Decode)
}

/// What a file of these fields amounts to.
///
/// # Errors
/// As [`load`].
pub fn complete(
    mut file: KubeSchedulerConfiguration,
    registry: &Registry,
) -> Result<Configuration, ConfigurationError> {
    let args = file.profiles.iter().enumerate();
    let mut args = args
        .map(|(at, profile)| PluginArgs::decode(&profile.plugin_config, at))
        .collect::<Result<Vec<_>, _>>()
        .map_err(ConfigurationError::Decode)?;
    durations(&file).map_err(ConfigurationError::Decode)?;
    defaults::fill_in(&mut file);
    args.resize_with(file.profiles.len(), PluginArgs::default);
    if let Some(wrong) = validation::validate(&file, &args).aggregate() {
        return Err(ConfigurationError::Invalid(wrong));
    }
    let managed = file.extenders.iter().flat_map(|extender| &extender.managed_resources);
    let ignored: Vec<String> = managed.filter(|r| r.ignored_by_scheduler).map(|r| r.name.clone()).collect();
    let mut profiles = Vec::new();
    for (profile, args) in file.profiles.iter().zip(&args) {
        let name = profile.scheduler_name.clone().unwrap_or_default();
        let plugins = profile.plugins.clone().unwrap_or_default();
        let mut made = registry
            .profile(&name, &plugins, args, &ignored)
            .map_err(|why| ConfigurationError::Profile(name, why))?;
        let share = profile.percentage_of_nodes_to_score.or(file.percentage_of_nodes_to_score);
        made.nodes_to_score = match share.and_then(|share| u32::try_from(share).ok()) {
            None | Some(0) => NodesToScore::Adaptive,
            Some(share) => NodesToScore::Percentage(share),
        };
        profiles.push(made);
    }
    let seconds = |value: Option<i64>| Duration::from_secs(value.unwrap_or(0).unsigned_abs());
    let mut profiles = Profiles::new(profiles);
    profiles.backoff = (seconds(file.pod_initial_backoff_seconds), seconds(file.pod_max_backoff_seconds));
    Ok(Configuration {
        profiles,
        leader_election: leader_election(&file),
        rate: rate(&file),
        notes: notes(&file),
        file,
    })
}

impl Default for Configuration {
    /// As without a file.
    fn default() -> Self {
        complete(KubeSchedulerConfiguration::default(), &Registry::default())
            .expect("Kubernetes' defaults are valid")
    }
}

fn of_our_kind(document: &Value) -> Result<(), String> {
    let field = |name: &str| document.get(name).and_then(Value::as_str).filter(|text| !text.is_empty());
    let Some(kind) = field("kind") else { return Err(format!("Object 'Kind' is missing in '{document}'")) };
    let Some(version) = field("apiVersion") else {
        return Err(format!("Object 'apiVersion' is missing in '{document}'"));
    };
    if version == API_VERSION && kind == KIND {
        return Ok(());
    }
    Err(format!(
        "no kind \"{kind}\" is registered for version \"{version}\" in scheme \"k8s.io/kubernetes/pkg/scheduler/apis/config/scheme/scheme.go:30\""
    ))
}

fn durations(file: &KubeSchedulerConfiguration) -> Result<(), String> {
    let election = &file.leader_election;
    let given = [&election.lease_duration, &election.renew_deadline, &election.retry_period].into_iter();
    let timeouts = file.extenders.iter().map(|extender| &extender.http_timeout);
    for text in given.chain(timeouts).flatten() {
        if stage1_kubectl::time::parse_duration(text).is_none() {
            return Err(format!("time: invalid duration {text:?}"));
        }
    }
    Ok(())
}

fn leader_election(file: &KubeSchedulerConfiguration) -> Option<LeaderElection> {
    let election = &file.leader_election;
    let time = |text: &Option<String>| duration(text.as_deref().unwrap_or("")).unwrap_or_default();
    (election.leader_elect == Some(true)).then(|| LeaderElection {
        namespace: election.resource_namespace.clone(),
        name: election.resource_name.clone(),
        lease_duration: time(&election.lease_duration),
        renew_deadline: time(&election.renew_deadline),
        retry_period: time(&election.retry_period),
    })
}

/// As client-go: without `burst` as many at once as in a second; a negative `qps` is no limit.
fn rate(file: &KubeSchedulerConfiguration) -> Option<(f64, u32)> {
    let connection = &file.client_connection;
    let burst = u32::try_from(connection.burst).unwrap_or(0);
    (connection.qps > 0.0)
        .then(|| (connection.qps, if burst > 0 { burst } else { connection.qps.ceil() as u32 }))
}

fn notes(file: &KubeSchedulerConfiguration) -> Vec<String> {
    let mut notes = Vec::new();
    if file.parallelism != Some(defaults::DEFAULT_PARALLELISM) {
        notes.push("parallelism has no effect: the indices leave too little work to share".to_owned());
    }
    let connection = &file.client_connection;
    if !connection.accept_content_types.is_empty() {
        notes.push("clientConnection.acceptContentTypes has no effect: JSON is spoken".to_owned());
    }
    notes
}
