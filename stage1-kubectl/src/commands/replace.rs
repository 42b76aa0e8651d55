//! `kubectl replace -f`: sends whole objects in place of those that are there.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/replace/replace.go`. Left out: `--cascade`, `--raw`.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::{field_validation, print_result};
use super::delete;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::PrintFlags;
use crate::request::{self, query};

/// Flags of `kubectl replace`.
#[derive(Debug, Args)]
pub struct ReplaceArgs {
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-replace")]
    pub field_manager: String,
    /// If true, immediately remove resources from API and create them anew.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub force: bool,
    /// Period of time in seconds given to the resource to terminate gracefully. Only with --force.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub grace_period: i64,
    /// The length of time to wait before giving up on a delete. Only with --force.
    #[arg(long, default_value = "0s")]
    pub timeout: String,
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
    let output = args.print.printer()?;
    let mut failures = Vec::new();
    for target in builder::targets(ctx, &[], &args.files, &Selection::default()).await? {
        let Some(manifest) = &target.manifest else { continue };
        let replaced = match args.force {
            true => recreate(ctx, &args, &target, &manifest.object).await,
            false => replace(ctx, &args, dry_run, &target, &manifest.object).await,
        };
        match replaced {
            Ok(object) => print_result(ctx, output.as_ref(), &object, "replaced", dry_run)?,
            Err(failure) => failures.push(failure.while_doing("replacing", &manifest.source)),
        }
    }
    Failure::collect(failures)
}

async fn replace(
    ctx: &Context,
    args: &ReplaceArgs,
    dry_run: DryRun,
    target: &Target,
    object: &Object,
) -> Result<Object, Failure> {
    let mut object = object.clone();
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
    let request = request::request(Method::PUT, &(target.path(None) + &query), Some(object.as_value()));
    Ok(ctx.client().await?.request(request).await?)
}

/// `--force`: deletes, waits until it is gone, and creates.
async fn recreate(
    ctx: &Context,
    args: &ReplaceArgs,
    target: &Target,
    object: &Object,
) -> Result<Object, Failure> {
    let mut options = json!({"propagationPolicy": "Background"});
    if args.grace_period >= 0 {
        options["gracePeriodSeconds"] = args.grace_period.into();
    }
    let client = ctx.client().await?;
    let delete = request::request(Method::DELETE, &target.path(None), Some(&options));
    match client.request::<Value>(delete).await {
        Ok(_) => {
            let name = target.display_name();
            let kind = name.split('/').next().unwrap_or_default();
            ctx.print(&format!("{kind} {:?} deleted\n", target.name));
        }
        Err(error) if error.is_not_found() => {}
        Err(error) => return Err(error.into()),
    }
    let limit = crate::time::parse_duration(&args.timeout).filter(|t| !t.is_zero()).map(|t| t.unsigned_abs());
    delete::wait_until_gone(ctx, target, "", limit).await?;
    let query = query(&[
        ("fieldManager", Some(args.field_manager.clone())),
        ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
    ]);
    let path = target.resource.path(target.namespace.as_deref(), None, None) + &query;
    Ok(client.request(request::request(Method::POST, &path, Some(object.as_value()))).await?)
}
