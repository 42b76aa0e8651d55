//! `kubectl set image`: changes the images of a workload's containers.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/set/set_image.go`. Left out: `set env|resources|selector|serviceaccount|subject`.

use clap::{Args, Subcommand};
use http::{Method, header};
use serde_json::{Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::print_result;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::patch::{merge_keys::is_built_in, three_way, three_way_merge};
use crate::printers::Output;
use crate::request::{self, query};

/// `kubectl set …`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// What to set.
    #[command(subcommand)]
    pub command: SetCommand,
}

/// What can be set.
#[derive(Debug, Subcommand)]
pub enum SetCommand {
    /// Update the image of a pod template.
    Image(ImageArgs),
}

/// Flags of `kubectl set image`.
#[derive(Debug, Args)]
pub struct ImageArgs {
    /// TYPE NAME … or TYPE/NAME …, then CONTAINER=IMAGE ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Select all resources, in the namespace of the specified resource types.
    #[arg(long)]
    pub all: bool,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// If true, set image will NOT contact api-server but run locally.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub local: bool,
    /// Output format.
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-set")]
    pub field_manager: String,
}

/// Runs `kubectl set …`.
///
/// # Errors
/// What couldn't be set.
pub async fn run(ctx: &Context, args: SetArgs) -> Result<(), Failure> {
    match args.command {
        SetCommand::Image(args) => image(ctx, args).await,
    }
}

async fn image(ctx: &Context, args: ImageArgs) -> Result<(), Failure> {
    let (names, images): (Vec<String>, Vec<String>) =
        args.arguments.iter().cloned().partition(|a| !a.contains('='));
    let images: Vec<(String, String)> = images
        .iter()
        .filter_map(|a| a.split_once('='))
        .map(|(c, i)| (c.to_string(), i.to_string()))
        .collect();
    if images.is_empty() {
        return Err(Failure::message("at least one image update is required"));
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = (!args.output.is_empty()).then(|| Output::parse(&args.output)).transpose()?;
    if args.local {
        for manifest in args.files.read()? {
            let mut object = manifest.object;
            set_images(&mut object, &images)?;
            print_result(ctx, output.as_ref(), &object, "image updated", DryRun::None)?;
        }
        return Ok(());
    }
    let selection =
        Selection { label_selector: args.selector.as_deref(), all: args.all, ..Selection::default() };
    let mut failures = Vec::new();
    for target in builder::targets(ctx, &names, &args.files, &selection).await? {
        let done = async {
            let before = target.get(ctx).await?;
            let mut after = before.clone();
            set_images(&mut after, &images)?;
            if after == before {
                return Ok(());
            }
            let result = match dry_run {
                DryRun::Client => after,
                _ => send_change(ctx, &target, &before, &after, &args.field_manager, dry_run).await?,
            };
            print_result(ctx, output.as_ref(), &result, "image updated", dry_run)
        };
        if let Err(failure) = done.await {
            failures.push(failure);
        }
    }
    Failure::collect(failures)
}

/// Sends the difference between two states of an object as a patch.
///
/// # Errors
/// What the server refused.
pub(super) async fn send_change(
    ctx: &Context,
    target: &Target,
    before: &Object,
    after: &Object,
    field_manager: &str,
    dry_run: DryRun,
) -> Result<Object, Failure> {
    let gvk = before.gvk();
    let (before, after) = (before.as_value(), after.as_value());
    let (patch, content_type) = match is_built_in(&gvk) {
        true => (three_way(before, after, before, &gvk)?, "application/strategic-merge-patch+json"),
        false => (three_way_merge(before, after, before), "application/merge-patch+json"),
    };
    let query = query(&[("dryRun", dry_run.query()), ("fieldManager", Some(field_manager.to_string()))]);
    let mut request = request::request(Method::PATCH, &(target.path(None) + &query), Some(&patch));
    request
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type.parse().expect("a constant content type"));
    Ok(ctx.client().await?.request(request).await?)
}

/// Where a kind keeps its pod's spec.
pub(super) fn pod_spec_pointer(object: &Object) -> Option<&'static str> {
    match object.kind() {
        "Pod" => Some("/spec"),
        "CronJob" => Some("/spec/jobTemplate/spec/template/spec"),
        _ => object.get("/spec/template/spec").map(|_| "/spec/template/spec"),
    }
}

fn set_images(object: &mut Object, images: &[(String, String)]) -> Result<(), Failure> {
    let pointer = pod_spec_pointer(object);
    let pointer =
        pointer.ok_or_else(|| Failure::message(format!("cannot set images of {}", object.kind())))?;
    for (container, image) in images {
        let mut found = container == "*";
        for field in ["initContainers", "containers"] {
            let at = format!("{pointer}/{field}");
            let Some(Value::Array(mut list)) = object.get(&at).cloned() else { continue };
            for element in list.iter_mut().filter(|e| container == "*" || e["name"] == *container) {
                element["image"] = json!(image);
                found = true;
            }
            object.set(&at, Value::Array(list));
        }
        if !found {
            return Err(Failure::message(format!("unable to find container named {container:?}")));
        }
    }
    Ok(())
}
