//! `kubectl kustomize`: prints what a kustomization makes.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/kustomize`, `sigs.k8s.io/kustomize/kustomize/commands/build`. Left out: remote folders, Helm charts, plugins,
//! an `--output` that is a folder.
#![expect(clippy::disallowed_methods, reason = "shell: writes the file of --output")]

use std::path::Path;

use clap::Args;

use crate::context::Context;
use crate::failure::Failure;
use crate::kustomize;
use crate::yaml;

/// Flags of what kustomize does by other programs: Helm charts and functions in containers. Known, and refused.
#[derive(Debug, Args)]
pub struct ForeignFlags {
    /// Use the uid and gid of the command executor to run the function in the container.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub as_current_user: bool,
    /// Enable kustomize plugins.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub enable_alpha_plugins: bool,
    /// Enable use of the Helm chart inflator generator.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub enable_helm: bool,
    /// Enable debug output from the Helm chart inflator generator.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub helm_debug: bool,
    /// Enable network access for functions that declare it.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub network: bool,
    /// A list of environment variables to be used by functions.
    #[arg(short = 'e', long)]
    pub env: Vec<String>,
    /// Kubernetes api versions used by Helm for Capabilities.APIVersions.
    #[arg(long)]
    pub helm_api_versions: Vec<String>,
    /// A list of storage options read from the filesystem.
    #[arg(long)]
    pub mount: Vec<String>,
    /// Helm command (path to executable).
    #[arg(long, default_value = "helm")]
    pub helm_command: String,
    /// Kubernetes version used by Helm for Capabilities.KubeVersion.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub helm_kube_version: String,
    /// The docker network to run the container in.
    #[arg(long, default_value = "bridge")]
    pub network_name: String,
}

/// Flags of `kubectl kustomize`.
#[derive(Debug, Args)]
pub struct KustomizeArgs {
    /// The folder; default: this one.
    pub folder: Option<String>,
    /// If specified, write output to this path.
    #[arg(short = 'o', long, default_value = "", hide_default_value = true)]
    pub output: String,
    /// If set to 'LoadRestrictionsNone', local kustomizations may load files from outside their root.
    #[arg(long, default_value = "LoadRestrictionsRootOnly")]
    pub load_restrictor: String,
    /// What needs other programs.
    #[command(flatten)]
    pub foreign: ForeignFlags,
}

/// Runs `kubectl kustomize`.
///
/// # Errors
/// What is wrong with the kustomization.
pub fn run(ctx: &Context, args: &KustomizeArgs) -> Result<(), Failure> {
    if !matches!(args.load_restrictor.as_str(), "LoadRestrictionsRootOnly" | "LoadRestrictionsNone") {
        let why = format!(
            "illegal flag value --load-restrictor {}; legal values: [LoadRestrictionsRootOnly LoadRestrictionsNone]",
            args.load_restrictor
        );
        return Err(Failure::message(why));
    }
    if args.foreign.enable_helm || args.foreign.enable_alpha_plugins {
        return Err(Failure::message(
            "Helm charts and plugins are not supported: kustomizations are built without other programs",
        ));
    }
    let folder = args.folder.as_deref().unwrap_or(".");
    if let Err(error) = std::fs::metadata(folder)
        && error.kind() == std::io::ErrorKind::NotFound
    {
        let full = std::path::absolute(folder)?;
        let why = "must build at directory: not a valid directory: evalsymlink failure on";
        return Err(Failure::message(format!(
            "{why} '{folder}' : lstat {}: no such file or directory",
            full.display()
        )));
    }
    let objects = kustomize::build(Path::new(folder)).map_err(Failure::message)?;
    let documents: Vec<String> = objects.iter().map(yaml::to_yaml).collect();
    match args.output.as_str() {
        "" => ctx.print(&documents.join("---\n")),
        path => std::fs::write(path, documents.join("---\n"))?,
    }
    Ok(())
}
