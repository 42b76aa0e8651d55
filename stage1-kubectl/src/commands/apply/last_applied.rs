//! The last manifest, which `kubectl apply` keeps in an annotation of the object: written, shown, set.
//!
//! Without it nobody could tell a field that was taken out of the manifest from one that somebody else has set.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/apply/apply_{view,set}_last_applied.go`, `pkg/util/apply.go`.

use clap::{Args, Subcommand};
use serde::Serialize;
use serde_json::{Value, json};

use super::LAST_APPLIED;
use crate::commands::DryRun;
use crate::commands::builder::{self, FilenameFlags, Selection};
use crate::commands::create::print_result;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::PrintFlags;
use crate::request::{self, PatchType, query};

/// `kubectl apply …-last-applied`.
#[derive(Debug, Subcommand)]
pub enum LastAppliedCommand {
    /// Edit latest last-applied-configuration annotations of a resource/object.
    #[command(name = "edit-last-applied")]
    Edit(super::edit_last_applied::EditLastAppliedArgs),
    /// View the latest last-applied-configuration annotations by type/name or file.
    #[command(name = "view-last-applied")]
    View(ViewArgs),
    /// Set the last-applied-configuration annotation on a live object to match the contents of a file.
    #[command(name = "set-last-applied")]
    Set(SetArgs),
}

/// Flags of `kubectl apply view-last-applied`.
#[derive(Debug, Args)]
pub struct ViewArgs {
    /// TYPE NAME … or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Output format. Must be one of (yaml, json).
    #[arg(short = 'o', long, default_value = "yaml")]
    pub output: String,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Select all resources in the namespace of the specified resource types.
    #[arg(long)]
    pub all: bool,
}

/// Flags of `kubectl apply set-last-applied`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Will create 'last-applied-configuration' annotations if current objects doesn't have one.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub create_annotation: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// The manifest as it is kept: one line of JSON without the annotation itself, and a line end.
pub fn last_applied(object: &Object) -> String {
    let mut object = object.clone();
    match object.get("/metadata/annotations") {
        Some(Value::Object(_)) => {
            object.remove(&format!("/metadata/annotations/{}", crate::object::escape(LAST_APPLIED)));
        }
        _ => object.set("/metadata/annotations", Value::Object(Default::default())),
    }
    // Go's encoder escapes what could end a script in a web page.
    let text = object.as_value().to_string();
    let text = text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    text + "\n"
}

/// Annotations with a value that is no text are none at all: they can't be read as a map of texts, as there.
pub(super) fn drop_unreadable_annotations(object: &mut Object) {
    let annotations = object.get("/metadata/annotations").and_then(Value::as_object);
    if annotations.is_some_and(|all| all.values().any(|value| !value.is_string())) {
        object.set("/metadata/annotations", Value::Object(Default::default()));
    }
}

/// Runs `kubectl apply …-last-applied`.
///
/// # Errors
/// An object that isn't there or has no last manifest.
pub async fn run(ctx: &Context, command: LastAppliedCommand) -> Result<(), Failure> {
    match command {
        LastAppliedCommand::Edit(args) => super::edit_last_applied::run(ctx, args).await,
        LastAppliedCommand::View(args) => view(ctx, args).await,
        LastAppliedCommand::Set(args) => set(ctx, args).await,
    }
}

async fn view(ctx: &Context, args: ViewArgs) -> Result<(), Failure> {
    if !matches!(args.output.as_str(), "yaml" | "json") {
        return Err(Failure::message(format!(
            "Unexpected -o output mode: {}, the flag 'output' must be one of yaml|json\nSee 'kubectl apply view-last-applied -h' for help and examples",
            args.output
        )));
    }
    let selection =
        Selection { label_selector: args.selector.as_deref(), all: args.all, ..Selection::default() };
    for target in builder::targets(ctx, &args.arguments, &args.files, &selection).await? {
        let live = target.get(ctx).await?;
        let last = live.annotation(LAST_APPLIED).ok_or_else(|| {
            Failure::message(format!(
                "no last-applied-configuration annotation found on resource: {}\n",
                live.name()
            ))
        })?;
        let last: Value = serde_json::from_str(last).map_err(|e| Failure::message(e.to_string()))?;
        match args.output.as_str() {
            "json" => ctx.print(&two_spaces(&last)),
            _ => ctx.print(&crate::yaml::to_yaml(&last)),
        }
    }
    Ok(())
}

/// JSON indented by two: only this command does it.
fn two_spaces(value: &Value) -> String {
    let mut bytes = Vec::new();
    let formatter = serde_json::ser::PrettyFormatter::with_indent(b"  ");
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, formatter);
    value.serialize(&mut serializer).expect("a JSON value serializes");
    String::from_utf8(bytes).expect("JSON is UTF-8") + "\n"
}

async fn set(ctx: &Context, args: SetArgs) -> Result<(), Failure> {
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?;
    for target in builder::targets(ctx, &[], &args.files, &Selection::default()).await? {
        let Some(manifest) = &target.manifest else { continue };
        let mut live = target.get(ctx).await?;
        let wanted = last_applied(&manifest.object);
        let current = live.annotation(LAST_APPLIED);
        if current.is_none() && !args.create_annotation {
            return Err(Failure::message(format!(
                "no last-applied-configuration annotation found on resource: {}, to create the annotation, run the command with --create-annotation",
                live.name()
            )));
        }
        if current != Some(wanted.as_str()) {
            let patch = json!({"metadata": {"annotations": {LAST_APPLIED: wanted}}});
            match dry_run {
                DryRun::Client => live.set_annotation(LAST_APPLIED, &wanted),
                _ => {
                    let path = target.path(None) + &query(&[("dryRun", dry_run.query())]);
                    let request = request::patch_at(&path, PatchType::Merge, &patch);
                    live = ctx.client().await?.request(request).await?;
                }
            }
        }
        print_result(ctx, output.as_ref(), &live, "configured", dry_run)?;
    }
    Ok(())
}
