//! `kubectl scale`: sets the number of replicas through the `scale` subresource.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/scale/scale.go`, `pkg/scale`.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::print_result;
use super::until::until;
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::PrintFlags;
use crate::request::{self, PatchType, query};
use crate::status::Status;

/// Flags of `kubectl scale`.
#[derive(Debug, Args)]
pub struct ScaleArgs {
    /// TYPE NAME … or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// The new desired number of replicas. Required.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub replicas: i32,
    /// Precondition for current size.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub current_replicas: i32,
    /// Precondition for resource version.
    #[arg(long, default_value = "")]
    pub resource_version: String,
    /// Select all resources in the namespace of the specified resource types.
    #[arg(long)]
    pub all: bool,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// The length of time to wait before giving up on a scale operation, zero means don't wait.
    #[arg(long, default_value = "0s")]
    pub timeout: String,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// Runs `kubectl scale`.
///
/// # Errors
/// What couldn't be scaled.
pub async fn run(ctx: &Context, args: ScaleArgs) -> Result<(), Failure> {
    if args.replicas == -1 {
        return Err(Failure::message("required flag(s) \"replicas\" not set"));
    }
    if args.replicas < 0 {
        return Err(Failure::message(
            "The --replicas=COUNT flag is required, and COUNT must be greater than or equal to 0",
        ));
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?;
    let selection =
        Selection { label_selector: args.selector.as_deref(), all: args.all, ..Selection::default() };
    let (mut found, mut failures) = (Vec::new(), Vec::new());
    for target in builder::targets(ctx, &args.arguments, &args.files, &selection).await? {
        match target.get(ctx).await {
            Ok(object) => found.push((target, object)),
            Err(failure) => failures.push(failure),
        }
    }
    let there = found.len();
    for (target, object) in found {
        match scale(ctx, &args, dry_run, &target).await {
            Ok(()) => print_result(ctx, output.as_ref(), &object, "scaled", dry_run)?,
            Err(failure) => failures.push(failure),
        }
    }
    // Where nothing is there to be scaled, that is what is said first.
    if let ([Failure::Client(ClientError::Api(status))], 0) = (failures.as_slice(), there)
        && status.code == 404
    {
        return Err(Failure::message(format!("no objects passed to scale {}", status.message)));
    }
    Failure::collect(failures)
}

async fn scale(ctx: &Context, args: &ScaleArgs, dry_run: DryRun, target: &Target) -> Result<(), Failure> {
    let client = ctx.client().await?;
    let path = target.path(Some("scale"));
    if args.current_replicas >= 0 {
        let scale: Object = client.request(request::request(Method::GET, &path, None)).await?;
        let current = scale.get_i64("/spec/replicas").unwrap_or(0);
        if current != i64::from(args.current_replicas) {
            let why = format!("Expected replicas to be {}, was {current}", args.current_replicas);
            return Err(Failure::message(why));
        }
    }
    if dry_run == DryRun::Client {
        return Ok(());
    }
    let mut patch = json!({"spec": {"replicas": args.replicas}});
    if !args.resource_version.is_empty() {
        patch["metadata"] = json!({"resourceVersion": args.resource_version});
    }
    let query = query(&[("dryRun", dry_run.query())]);
    let request = request::patch_at(&format!("{path}{query}"), PatchType::Merge, &patch);
    client.request::<Value>(request).await?;
    match dry_run {
        DryRun::None => reached(ctx, args, target).await,
        _ => Ok(()),
    }
}

/// With `--timeout`, waits until there are as many replicas as were asked for.
async fn reached(ctx: &Context, args: &ScaleArgs, target: &Target) -> Result<(), Failure> {
    let bad = || Failure::message(format!("invalid argument {:?} for \"--timeout\" flag", args.timeout));
    let limit = crate::time::parse_duration(&args.timeout).ok_or_else(bad)?;
    if limit.is_zero() {
        return Ok(());
    }
    let gone = || Failure::from(Status::not_found(&target.resource.gvr.group_resource(), &target.name));
    let there = until(ctx, &target.resource, target.namespace.as_deref(), &target.name, |live| {
        let replicas = live.ok_or_else(gone)?.get_i64("/status/replicas").unwrap_or(0);
        Ok((replicas == i64::from(args.replicas)).then_some(()))
    });
    let waited = tokio::time::timeout(limit.unsigned_abs(), there).await;
    waited.unwrap_or_else(|_| Err(Failure::message("timed out waiting for the condition")))
}
