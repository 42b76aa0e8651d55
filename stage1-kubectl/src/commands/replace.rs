//! `kubectl replace -f`: sends whole objects in place of those that are there.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/replace/replace.go`. Left out: `--force`.

use clap::Args;
use http::Method;

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection};
use super::create::{field_validation, print_result};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::Output;
use crate::request::{self, query};

/// Flags of `kubectl replace`.
#[derive(Debug, Args)]
pub struct ReplaceArgs {
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Output format.
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-replace")]
    pub field_manager: String,
    /// Must be one of: strict (or true), warn, ignore (or false).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub validate: String,
}

/// Runs `kubectl replace`.
///
/// # Errors
/// What the server refused.
pub async fn run(ctx: &Context, args: ReplaceArgs) -> Result<(), Failure> {
    if args.files.is_empty() {
        return Err(Failure::message("must specify one of -f and -k"));
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = (!args.output.is_empty()).then(|| Output::parse(&args.output)).transpose()?;
    let mut failures = Vec::new();
    for target in builder::targets(ctx, &[], &args.files, &Selection::default()).await? {
        let Some(manifest) = &target.manifest else { continue };
        let mut object = manifest.object.clone();
        let replaced: Result<Object, Failure> = async {
            // Without a version in the manifest the current one is replaced, whatever it is.
            if object.resource_version().is_empty() {
                let live = target.get(ctx).await?;
                object.set_resource_version(live.resource_version());
            }
            let query = query(&[
                ("dryRun", dry_run.query()),
                ("fieldManager", Some(args.field_manager.clone())),
                ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
            ]);
            let request =
                request::request(Method::PUT, &(target.path(None) + &query), Some(object.as_value()));
            Ok(ctx.client().await?.request(request).await?)
        }
        .await;
        match replaced {
            Ok(object) => print_result(ctx, output.as_ref(), &object, "replaced", dry_run)?,
            Err(failure) => failures.push(failure.while_doing("replacing", &manifest.source)),
        }
    }
    Failure::collect(failures)
}
