//! `kubectl rollout`: follows, undoes, pauses and restarts a rollout.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/rollout/*.go`, `pkg/polymorphichelpers/{rollout_status,history,rollback,objectpauser,objectrestarter}.go`.
#![expect(clippy::disallowed_methods, reason = "shell: a restart is stamped with the time")]

use clap::{Args, Subcommand};
use serde_json::json;

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::print_result;
use super::set::send_change;
use super::until::until;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{PrintFlags, Printer};

mod history;
mod status;

/// `kubectl rollout …`.
#[derive(Debug, Args)]
pub struct RolloutArgs {
    /// What to do.
    #[command(subcommand)]
    pub command: RolloutCommand,
}

/// What can be done with a rollout.
#[derive(Debug, Subcommand)]
pub enum RolloutCommand {
    /// View rollout history.
    History(RolloutTarget),
    /// Mark the provided resource as paused.
    Pause(RolloutTarget),
    /// Restart a resource.
    Restart(RolloutTarget),
    /// Resume a paused resource.
    Resume(RolloutTarget),
    /// Show the status of the rollout.
    Status(RolloutTarget),
    /// Undo a previous rollout.
    Undo(RolloutTarget),
}

/// Flags of the rollout commands.
#[derive(Debug, Args)]
pub struct RolloutTarget {
    /// TYPE NAME or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// See the details, including podTemplate of the revision specified.
    #[arg(long, default_value_t = 0)]
    pub revision: i64,
    /// The revision to rollback to. Default to 0 (last revision).
    #[arg(long, default_value_t = 0)]
    pub to_revision: i64,
    /// Watch the status of the rollout until it's done.
    #[arg(short = 'w', long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    pub watch: bool,
    /// The length of time to wait before ending watch, zero means never.
    #[arg(long, default_value = "0s")]
    pub timeout: String,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-rollout")]
    pub field_manager: String,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// Runs `kubectl rollout …`.
///
/// # Errors
/// What couldn't be done.
pub async fn run(ctx: &Context, args: RolloutArgs) -> Result<(), Failure> {
    let (verb, args) = match args.command {
        RolloutCommand::History(args) => (Verb::History, args),
        RolloutCommand::Pause(args) => (Verb::Pause, args),
        RolloutCommand::Restart(args) => (Verb::Restart, args),
        RolloutCommand::Resume(args) => (Verb::Resume, args),
        RolloutCommand::Status(args) => (Verb::Status, args),
        RolloutCommand::Undo(args) => (Verb::Undo, args),
    };
    let dry_run = DryRun::parse(&args.dry_run)?;
    if args.arguments.is_empty() && args.files.is_empty() {
        return Err(Failure::message("required resource not specified"));
    }
    let printer = args.print.printer()?.map(Printer::typed);
    let selection =
        Selection { label_selector: args.selector.as_deref(), unnamed: true, ..Selection::default() };
    let mut failures = Vec::new();
    for target in builder::targets(ctx, &args.arguments, &args.files, &selection).await? {
        let done = match verb {
            Verb::History => history::show(ctx, &target, args.revision, printer.as_ref()).await,
            Verb::Undo => history::undo(ctx, &target, args.to_revision, dry_run, printer.as_ref()).await,
            Verb::Status => follow(ctx, &target, &args).await,
            verb => change(ctx, &target, verb, &args, printer.as_ref()).await,
        };
        failures.extend(done.err());
    }
    Failure::collect(failures)
}

/// The subcommands, without their flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verb {
    History,
    Pause,
    Restart,
    Resume,
    Status,
    Undo,
}

/// Pause, resume and restart: one field each.
async fn change(
    ctx: &Context,
    target: &Target,
    verb: Verb,
    args: &RolloutTarget,
    printer: Option<&Printer>,
) -> Result<(), Failure> {
    let dry_run = DryRun::parse(&args.dry_run)?;
    let before = target.get(ctx).await?;
    let mut after = before.clone();
    let name = target.display_name();
    let in_errors = format!("{} {:?}", target.resource.gvr.group_resource(), target.name);
    let paused = before.get("/spec/paused") == Some(&json!(true));
    let done = match verb {
        Verb::Pause if before.kind() != "Deployment" => {
            return Err(Failure::message(format!("{in_errors} pausing is not supported")));
        }
        Verb::Pause if paused => return Err(Failure::message(format!("{in_errors} is already paused"))),
        Verb::Pause => {
            after.set("/spec/paused", true);
            "paused"
        }
        Verb::Resume if before.kind() != "Deployment" => {
            return Err(Failure::message(format!("{in_errors} resuming is not supported")));
        }
        Verb::Resume if !paused => return Err(Failure::message(format!("{in_errors} is not paused"))),
        Verb::Resume => {
            after.remove("/spec/paused");
            "resumed"
        }
        _ if paused => {
            let why = format!("can't restart paused deployment (run rollout resume first): {name}");
            return Err(Failure::message(why));
        }
        _ if !matches!(before.kind(), "Deployment" | "DaemonSet" | "StatefulSet") => {
            return Err(Failure::message(format!("{in_errors} restarting is not supported")));
        }
        _ => {
            let now = crate::time::format_time(jiff::Timestamp::now());
            after.set("/spec/template/metadata/annotations/kubectl.kubernetes.io~1restartedAt", now);
            "restarted"
        }
    };
    let result: Object = match dry_run {
        DryRun::Client => after,
        _ => send_change(ctx, target, &before, &after, &args.field_manager, dry_run).await?,
    };
    print_result(ctx, printer, &result, done, dry_run)
}

/// Prints the status again whenever it changes, until the rollout is done.
async fn follow(ctx: &Context, target: &Target, args: &RolloutTarget) -> Result<(), Failure> {
    let limit = crate::time::parse_duration(&args.timeout).filter(|t| !t.is_zero()).map(|t| t.unsigned_abs());
    let mut shown = String::new();
    let missing = || {
        let resource = target.resource.gvr.group_resource();
        Failure::from(crate::status::Status::not_found(&resource, &target.name))
    };
    let namespace = target.namespace.as_deref();
    let following = until(ctx, &target.resource, namespace, &target.name, |live| {
        let live = live.ok_or_else(missing)?;
        let (text, done) = status::rollout_status(live, args.revision).map_err(Failure::message)?;
        if text != shown {
            ctx.print(&text);
            shown = text;
        }
        Ok((done || !args.watch).then_some(()))
    });
    match limit {
        None => following.await,
        Some(limit) => tokio::time::timeout(limit, following)
            .await
            .unwrap_or_else(|_| Err(Failure::message("timed out waiting for the condition"))),
    }
}
