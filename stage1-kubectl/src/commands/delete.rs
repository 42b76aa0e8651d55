//! `kubectl delete`: asks the server to delete, and waits until it is done.
//!
//! Deleting is a request, not an act: the object stays until its grace period is over and its finalizers are gone. So by
//! default the command watches each object until it has disappeared.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/delete/delete.go`, `pkg/cmd/wait`.

use std::time::Duration;

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::until::until;
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request;

/// Flags of the commands that delete: `delete`, `replace --force`, `apply --prune`, `run --rm`.
#[derive(Debug, Clone, Default, Args)]
pub struct DeletionFlags {
    /// Must be "background", "orphan", or "foreground".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "background", default_missing_value = "background")]
    pub cascade: String,
    /// Period of time in seconds given to the resource to terminate gracefully.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub grace_period: i64,
    /// If true, immediately remove resources from API and bypass graceful deletion.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub force: bool,
    /// The length of time to wait before giving up on a delete, zero means determine a timeout from the size of the object.
    #[arg(long, default_value = "0s")]
    pub timeout: String,
}

impl DeletionFlags {
    /// The propagation policy.
    ///
    /// # Errors
    /// A word that isn't one of the three.
    pub fn policy(&self) -> Result<&'static str, Failure> {
        match self.cascade.as_str() {
            "background" | "true" => Ok("Background"),
            "foreground" => Ok("Foreground"),
            "orphan" | "false" => Ok("Orphan"),
            other => Err(Failure::message(format!(
                "invalid cascade value ({other}). Must be \"background\", \"foreground\", or \"orphan\""
            ))),
        }
    }

    /// The grace period, where one is given.
    pub fn grace_period_seconds(&self) -> Option<i64> {
        Some(self.grace_period).filter(|period| *period >= 0)
    }

    /// The body of a `DELETE`.
    ///
    /// # Errors
    /// As [`DeletionFlags::policy`].
    pub fn body(&self, grace_period_seconds: Option<i64>) -> Result<Value, Failure> {
        let mut options = json!({"propagationPolicy": self.policy()?});
        if let Some(seconds) = grace_period_seconds {
            options["gracePeriodSeconds"] = seconds.into();
        }
        Ok(options)
    }

    /// How long is waited.
    pub fn limit(&self) -> Option<Duration> {
        crate::time::parse_duration(&self.timeout).filter(|t| !t.is_zero()).map(|t| t.unsigned_abs())
    }
}

/// How long `--force` waits for the old object to go, unless `--timeout` says otherwise.
const FORCE_TIMEOUT: Duration = Duration::from_secs(5 * 60);

/// Flags of `kubectl delete`.
#[derive(Debug, Args)]
pub struct DeleteArgs {
    /// TYPE [NAME …] or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Selector (field query) to filter on.
    #[arg(long)]
    pub field_selector: Option<String>,
    /// Delete all resources, in the namespace of the specified resource types.
    #[arg(long)]
    pub all: bool,
    /// If present, list the requested object(s) across all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// How to delete.
    #[command(flatten)]
    pub deletion: DeletionFlags,
    /// Delete resource only when user confirms.
    #[arg(short = 'i', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub interactive: bool,
    /// Raw URI to DELETE to the server. Uses the transport specified by the kubeconfig file.
    #[arg(long)]
    pub raw: Option<String>,
    /// If true, resources are signaled for immediate shutdown (same as --grace-period=1).
    #[arg(long)]
    pub now: bool,
    /// Treat "resource not found" as a successful delete.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub ignore_not_found: bool,
    /// If true, wait for resources to be gone before returning.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    pub wait: bool,
    /// Output mode. Use "-o name" for shorter output (resource/name).
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// Runs `kubectl delete`.
///
/// # Errors
/// What couldn't be deleted.
pub async fn run(ctx: &Context, args: DeleteArgs) -> Result<(), Failure> {
    if let Some(path) = &args.raw {
        let answer = ctx.client().await?.send(request::request(Method::DELETE, path, None)).await?;
        ctx.print(&String::from_utf8_lossy(answer.body()));
        return Ok(());
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let options = delete_options(&args, dry_run)?;
    let selection = Selection {
        label_selector: args.selector.as_deref(),
        field_selector: args.field_selector.as_deref(),
        all: args.all,
        all_namespaces: args.all_namespaces,
        unnamed: false,
    };
    let targets = builder::targets(ctx, &args.arguments, &args.files, &selection).await?;
    if args.deletion.force {
        ctx.warn("Warning: Immediate deletion does not wait for confirmation that the running resource has been terminated. The resource may continue to run on the cluster indefinitely.\n");
    }
    if targets.is_empty() {
        if args.output.is_empty() && !args.ignore_not_found {
            ctx.print("No resources found\n");
        }
        return Ok(());
    }
    if args.interactive && !confirmed(ctx, &targets)? {
        ctx.print("deletion is cancelled\n");
        return Ok(());
    }
    let (mut failures, mut waiting) = (Vec::new(), Vec::new());
    for target in targets {
        match delete_one(ctx, &args, dry_run, &target, &options).await {
            Ok(Some(uid)) => waiting.push((target, uid)),
            Ok(None) => {}
            Err(Failure::Client(error)) if error.is_not_found() && (args.ignore_not_found || args.all) => {}
            Err(failure) => failures.push(failure),
        }
    }
    if args.wait && dry_run == DryRun::None {
        let limit = args.deletion.limit();
        for (target, uid) in waiting {
            ctx.progress(&format!("waiting until {} is gone ...", target.display_name()));
            let gone = wait_until_gone(ctx, &target, &uid, limit).await;
            ctx.progress_done();
            gone?;
        }
    }
    Failure::collect(failures)
}

/// Shows what would go and asks.
fn confirmed(ctx: &Context, targets: &[Target]) -> Result<bool, Failure> {
    ctx.print("You are about to delete the following ");
    ctx.print(&format!("{} resource(s):\n", targets.len()));
    for target in targets {
        ctx.print(&format!("{}\n", target.display_name()));
    }
    ctx.print("Do you want to continue? (y/n): ");
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer)?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}

fn delete_options(args: &DeleteArgs, dry_run: DryRun) -> Result<Value, Failure> {
    let grace_period_seconds = match (args.now, args.deletion.force, args.deletion.grace_period) {
        (true, _, _) => Some(1),
        (_, true, period) if period <= 0 => Some(0),
        // Zero without --force means: as fast as it can be done safely.
        (_, false, 0) => Some(1),
        (_, _, period) if period > 0 => Some(period),
        _ => None,
    };
    let mut options = args.deletion.body(grace_period_seconds)?;
    if dry_run == DryRun::Server {
        options["dryRun"] = json!(["All"]);
    }
    Ok(options)
}

/// Deletes one object; gives its uid to wait for.
async fn delete_one(
    ctx: &Context,
    args: &DeleteArgs,
    dry_run: DryRun,
    target: &Target,
    options: &Value,
) -> Result<Option<String>, Failure> {
    let mut uid = None;
    if dry_run != DryRun::Client {
        let request = request::request(Method::DELETE, &target.path(None), Some(options));
        let answer: Value = ctx.client().await?.request(request).await?;
        let found = answer["details"]["uid"].as_str().or(answer["metadata"]["uid"].as_str());
        uid = Some(found.unwrap_or_default().to_string());
    }
    if args.output == "name" {
        ctx.print(&format!("{}\n", target.display_name()));
        return Ok(uid);
    }
    let kind = target.display_name();
    let kind = kind.rsplit_once('/').map_or(kind.as_str(), |(kind, _)| kind);
    let done = if args.deletion.force { "force deleted" } else { "deleted" };
    ctx.print(&format!("{kind} {:?} {done}{}\n", target.name, dry_run.suffix()));
    Ok(uid)
}

/// `--force` of `apply` and `replace`: deletes an object and waits until it is gone; whether it was there.
///
/// # Errors
/// The server refuses, or the object is still there when the time is over.
pub(super) async fn delete_and_wait(
    ctx: &Context,
    target: &Target,
    flags: &DeletionFlags,
    grace_period_seconds: Option<i64>,
) -> Result<bool, Failure> {
    let options = flags.body(grace_period_seconds)?;
    let request = request::request(Method::DELETE, &target.path(None), Some(&options));
    let was_there = match ctx.client().await?.request::<Value>(request).await {
        Ok(_) => true,
        Err(error) if error.is_not_found() => false,
        Err(error) => return Err(error.into()),
    };
    wait_until_gone(ctx, target, "", Some(flags.limit().unwrap_or(FORCE_TIMEOUT))).await?;
    Ok(was_there)
}

/// Watches until the object (the one with this uid) is gone.
pub(super) async fn wait_until_gone(
    ctx: &Context,
    target: &Target,
    uid: &str,
    limit: Option<Duration>,
) -> Result<(), Failure> {
    let is_gone = |live: Option<&Object>| {
        Ok(live.is_none_or(|live| !uid.is_empty() && live.uid() != uid).then_some(()))
    };
    let gone = async {
        match until(ctx, &target.resource, target.namespace.as_deref(), &target.name, is_gone).await {
            // We may delete but not look: then there is nothing to wait with.
            Err(Failure::Client(ClientError::Api(status))) if matches!(status.code, 403 | 405) => Ok(()),
            done => done,
        }
    };
    match limit {
        None => gone.await,
        Some(limit) => tokio::time::timeout(limit, gone).await.unwrap_or_else(|_| {
            let name = format!("{}/{}", target.resource.gvr.group_resource(), target.name);
            Err(Failure::message(format!("timed out waiting for the condition on {name}")))
        }),
    }
}
