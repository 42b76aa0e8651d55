//! simulate: places the pods of files on the nodes of files, without a cluster.
//!
//! # In Kubernetes
//! Nothing.

use std::path::PathBuf;

use clap::Parser;

use super::{CommandError, Output, objects, profiles, show, what_if};
use crate::simulation::{simulate, table};
use crate::world::World;

/// `kube-scheduler simulate -f objects.yaml`
#[derive(Parser, Debug)]
#[command(
    name = "kube-scheduler simulate",
    about = "Places the pods of files on the nodes of files, offline"
)]
pub struct Simulate {
    /// Files, folders or - with nodes, pods, workloads and whatever they need
    #[arg(short, long = "filename", required = true)]
    pub filename: Vec<String>,
    /// KubeSchedulerConfiguration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Which of equally good nodes is taken
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    /// Changes to the objects
    #[command(flatten)]
    pub what_if: what_if::WhatIf,
}

/// The result as text.
///
/// # Errors
/// Something can't be read, or isn't what it says.
pub fn run(flags: &Simulate) -> Result<String, CommandError> {
    let profiles = profiles(flags.config.as_deref())?;
    let mut read = objects::of_files(&flags.filename)?;
    what_if::apply(&mut read, &flags.what_if, |path| objects::of_files(&[path.to_owned()]))?;
    let mut world = World::new(&read, profiles.clone())?;
    let result = simulate(&mut world, &profiles, flags.seed);
    show(&result, flags.output, |_| table(&result))
}
