//! Commands: what `kube-scheduler` does besides scheduling.
//!
//! *Beside a pod's journey through this stage.* `explain` says why a pod goes where it goes, on a live cluster's objects;
//! `simulate` places the pods of a file on the nodes of a file. Both only read.
//!
//! # In Kubernetes
//! Nothing: stock kube-scheduler has no subcommands.

pub mod explain;
pub mod objects;
pub mod simulate;
pub mod what_if;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::ValueEnum;
use serde::Serialize;
use stage1_kubectl::client::ClientError;
use stage1_kubectl::manifest::ManifestError;

use crate::configuration::{Configuration, ConfigurationError};
use crate::profiles::Profiles;
use crate::world::WorldError;

/// How the result is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Output {
    /// For people, the first nodes.
    #[default]
    Table,
    /// For people, all nodes.
    Wide,
    /// For programs.
    Json,
    /// For both.
    Yaml,
}

/// Why a command can't answer.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// A file can't be read.
    #[error("read {0}: {1}")]
    Read(PathBuf, std::io::Error),
    /// A file holds no objects.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// An object isn't what it says.
    #[error(transparent)]
    World(#[from] WorldError),
    /// The configuration file is wrong.
    #[error(transparent)]
    Configuration(#[from] ConfigurationError),
    /// The cluster can't be read.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The result can't be written as JSON (it always can).
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// What was asked makes no sense.
    #[error("{0}")]
    Usage(String),
}

/// A result in the form asked for.
///
/// # Errors
/// It can't be written as JSON (it always can).
pub fn show<T: Serialize>(
    value: &T,
    output: Output,
    table: impl FnOnce(bool) -> String,
) -> Result<String, CommandError> {
    Ok(match output {
        Output::Table => table(false),
        Output::Wide => table(true),
        Output::Json => format!("{}\n", serde_json::to_string_pretty(value)?),
        Output::Yaml => stage1_kubectl::yaml::to_yaml(&serde_json::to_value(value)?),
    })
}

/// The profiles of a configuration file, or Kubernetes' default one.
///
/// # Errors
/// The file can't be read, or something in it is wrong.
pub fn profiles(path: Option<&Path>) -> Result<Arc<Profiles>, CommandError> {
    let configuration = match path {
        None => Configuration::default(),
        Some(path) => crate::configuration::load(&objects::read(path)?)?,
    };
    Ok(Arc::new(configuration.profiles))
}
