//! `kubectl replace -f`: sends whole objects in place of those that are there.
//!
//! What is replaced must be there, with the version that the manifest names or with any; with `--force` it is deleted first, so that fields
//! can change that otherwise may not.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/replace/replace.go`. `--wait` changes nothing there either: `--force` waits in any case, without it nothing is deleted.

use clap::Args;
use http::Method;

use super::DryRun;
use super::apply::{LAST_APPLIED, last_applied};
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::{field_validation, print_result};
use super::delete::{self, DeletionFlags};
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
    /// How `--force` deletes.
    #[command(flatten)]
    pub deletion: DeletionFlags,
    /// If true, wait for resources to be gone before returning. This waits for finalizers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub wait: bool,
    /// If true, the configuration of current object will be saved in its annotation.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub save_config: bool,
    /// If specified, replace will operate on the subresource of the requested object.
    #[arg(long)]
    pub subresource: Option<String>,
    /// Raw URI to PUT to the server. Uses the transport specified by the kubeconfig file.
    #[arg(long)]
    pub raw: Option<String>,
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
    if args.deletion.grace_period >= 0 && !args.deletion.force {
        return Err(Failure::message("--grace-period must have --force specified"));
    }
    if args.deletion.limit().is_some() && !args.deletion.force {
        return Err(Failure::message("--timeout must have --force specified"));
    }
    if let Some(path) = &args.raw {
        let manifest = args.files.read()?.into_iter().next();
        let body = manifest.map(|m| m.object.into_value());
        let answer = ctx.client().await?.send(request::request(Method::PUT, path, body.as_ref())).await?;
        ctx.print(&String::from_utf8_lossy(answer.body()));
        return Ok(());
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    if args.deletion.force && dry_run != DryRun::None {
        return Err(Failure::message("--dry-run can not be used when --force is set"));
    }
    let output = args.print.printer()?;
    let mut failures = Vec::new();
    for target in builder::targets(ctx, &[], &args.files, &Selection::default()).await? {
        let Some(manifest) = &target.manifest else { continue };
        let replaced = match args.deletion.force {
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
    if args.save_config || object.annotation(LAST_APPLIED).is_some() {
        let text = last_applied(&object);
        object.set_annotation(LAST_APPLIED, &text);
    }
    if dry_run == DryRun::Client {
        return Ok(object);
    }
    // Without a version in the manifest the current one is replaced, whatever it is.
    if object.resource_version().is_empty() {
        let path = target.path(args.subresource.as_deref());
        let live: Object = ctx.client().await?.request(request::request(Method::GET, &path, None)).await?;
        object.set_resource_version(live.resource_version());
    }
    let query = query(&[
        ("dryRun", dry_run.query()),
        ("fieldManager", Some(args.field_manager.clone())),
        ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
    ]);
    let request = request::request(
        Method::PUT,
        &(target.path(args.subresource.as_deref()) + &query),
        Some(object.as_value()),
    );
    Ok(ctx.client().await?.request(request).await?)
}

/// `--force`: deletes, waits until it is gone, and creates.
async fn recreate(
    ctx: &Context,
    args: &ReplaceArgs,
    target: &Target,
    object: &Object,
) -> Result<Object, Failure> {
    // No grace at all could lose data, so the shortest is asked for.
    let grace_period_seconds = args.deletion.grace_period_seconds().map(|period| period.max(1));
    if delete::delete_and_wait(ctx, target, &args.deletion, grace_period_seconds).await? {
        let name = target.display_name();
        let kind = name.split('/').next().unwrap_or_default();
        ctx.print(&format!("{kind} {:?} deleted\n", target.name));
    }
    let query = query(&[
        ("fieldManager", Some(args.field_manager.clone())),
        ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
    ]);
    let path = target.resource.path(target.namespace.as_deref(), None, None) + &query;
    Ok(ctx.client().await?.request(request::request(Method::POST, &path, Some(object.as_value()))).await?)
}
