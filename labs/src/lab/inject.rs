//! Injection: breaking things, one step at a time.
//!
//! A lab's file lists steps; each is what a careless colleague might have done. The same steps serve a reset.
//!
//! # Invariants
//! 1. Steps go to the lab cluster only: kubectl is always given the lab's own kubeconfig.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use anyhow::Context as _;
use serde::Deserialize;

use super::cluster::components;
use super::engine::wait;
use super::probe::Probe;
use super::real_world::RealWorld;
use super::{learner, source_copy};

/// A step.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Step {
    /// Applies objects, as YAML.
    Apply(String),
    /// Runs kubectl as the lab.
    Kubectl(Vec<String>),
    /// Takes a component's manifest away.
    RemoveComponent(String),
    /// Adds a flag to a component's command.
    AddFlag {
        /// Which component.
        component: String,
        /// Flag and value.
        flag: String,
    },
    /// Points the learner's kubeconfig at a port where nothing listens.
    MoveEndpoint,
    /// Gives the learner's kubeconfig a certificate that ended yesterday.
    ExpireCredential,
    /// Lays out the copy of the source.
    CopySource,
    /// Waits until this holds.
    Wait(Probe),
}

impl Step {
    /// Does it.
    ///
    /// # Errors
    /// What went wrong, with the step's object.
    pub fn run(&self, world: &RealWorld) -> anyhow::Result<()> {
        let state_dir = world.state_dir();
        match self {
            Step::Apply(objects) => world.apply(objects),
            Step::Kubectl(args) => world.kubectl(args).map(drop),
            Step::RemoveComponent(name) => {
                let path = components::file(state_dir, name);
                std::fs::remove_file(&path).with_context(|| path.display().to_string())
            }
            Step::AddFlag { component, flag } => {
                let manifest = components::read(state_dir)?.remove(component).context("no such component")?;
                let mut manifest = manifest.map_err(anyhow::Error::msg)?;
                manifest.command.push(flag.clone());
                components::edit(state_dir, &manifest)
            }
            Step::MoveEndpoint => learner::move_endpoint(state_dir),
            Step::ExpireCredential => learner::expire(state_dir),
            Step::CopySource => Ok(source_copy::lay_out(state_dir)?),
            Step::Wait(probe) => wait(probe, world).map(drop),
        }
    }
}
