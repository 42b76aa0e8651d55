//! `kubectl kustomize`: prints what a kustomization makes.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/kustomize`, `sigs.k8s.io/kustomize/kustomize/commands/build`. Left out: `--output`, remote folders.

use std::path::Path;

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::kustomize;
use crate::yaml;

/// Flags of `kubectl kustomize`.
#[derive(Debug, Args)]
pub struct KustomizeArgs {
    /// The folder; default: this one.
    pub folder: Option<String>,
}

/// Runs `kubectl kustomize`.
///
/// # Errors
/// What is wrong with the kustomization.
pub fn run(ctx: &Context, args: &KustomizeArgs) -> Result<(), Failure> {
    let folder = args.folder.as_deref().unwrap_or(".");
    let objects = kustomize::build(Path::new(folder)).map_err(Failure::message)?;
    let documents: Vec<String> = objects.iter().map(yaml::to_yaml).collect();
    ctx.print(&documents.join("---\n"));
    Ok(())
}
