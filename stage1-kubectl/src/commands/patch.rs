//! `kubectl patch`: changes fields of an object, on the server or with `--local` here.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/patch/patch.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads --patch-file")]

use clap::Args;
use http::Method;
use serde_json::Value;

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection};
use super::create::print_result;
use crate::context::Context;
use crate::failure::Failure;
use crate::manifest;
use crate::object::Object;
use crate::patch::{self, PatchError};
use crate::printers::PrintFlags;
use crate::request::{self, PatchType, query};

/// Flags of `kubectl patch`.
#[derive(Debug, Args)]
pub struct PatchArgs {
    /// TYPE NAME or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// The patch to be applied to the resource JSON file.
    #[arg(short = 'p', long, allow_hyphen_values = true)]
    pub patch: Option<String>,
    /// A file containing a patch to be applied to the resource.
    #[arg(long)]
    pub patch_file: Option<String>,
    /// The type of patch being provided; one of [json merge strategic].
    #[arg(long = "type", default_value = "strategic")]
    pub patch_type: String,
    /// If true, patch will operate on the content of the file, not the server-side resource.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub local: bool,
    /// If specified, patch will operate on the subresource of the requested object.
    #[arg(long)]
    pub subresource: Option<String>,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-patch")]
    pub field_manager: String,
}

/// Runs `kubectl patch`.
///
/// # Errors
/// A patch that can't be read or applied.
pub async fn run(ctx: &Context, args: PatchArgs) -> Result<(), Failure> {
    let text = match (&args.patch, &args.patch_file) {
        (Some(_), Some(_)) => {
            return Err(Failure::message("cannot specify --patch and --patch-file together"));
        }
        (Some(patch), None) => patch.clone(),
        (None, Some(file)) => std::fs::read_to_string(file)
            .map_err(|e| Failure::message(format!("unable to read patch file: open {file}: {e}")))?,
        (None, None) => {
            return Err(Failure::message(
                "must specify --patch or --patch-file containing the contents of the patch",
            ));
        }
    };
    let patch_type = match args.patch_type.as_str() {
        "json" => PatchType::Json,
        "merge" => PatchType::Merge,
        "strategic" => PatchType::Strategic,
        other => {
            return Err(Failure::message(format!(
                "--type must be one of [json merge strategic], not {other:?}"
            )));
        }
    };
    // A patch of nothing is a document, too.
    let patch = match text.trim() {
        "null" => Value::Null,
        _ => manifest::documents(&text, "patch")
            .ok()
            .and_then(|mut documents| (documents.len() == 1).then(|| documents.remove(0)))
            .ok_or_else(|| {
                Failure::message(format!(
                    "unable to parse {text:?}: yaml: could not find expected JSON or YAML"
                ))
            })?,
    };
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?;
    if args.local {
        for manifest in args.files.read()? {
            let after = patch_locally(&args.patch_type, &manifest.object, &patch)?;
            let done = if after == manifest.object { "patched (no change)" } else { "patched" };
            print_result(ctx, output.as_ref(), &after, done, DryRun::None)?;
        }
        return Ok(());
    }
    let client = ctx.client().await?;
    let mut failures = Vec::new();
    for target in builder::targets(ctx, &args.arguments, &args.files, &Selection::default()).await? {
        let path = target.path(args.subresource.as_deref());
        let done = async {
            let before: Object = client.request(request::request(Method::GET, &path, None)).await?;
            let after = match dry_run {
                DryRun::Client => patch_locally(&args.patch_type, &before, &patch)?,
                _ => {
                    let query = query(&[
                        ("dryRun", dry_run.query()),
                        ("fieldManager", Some(args.field_manager.clone())),
                    ]);
                    client.request(request::patch_at(&format!("{path}{query}"), patch_type, &patch)).await?
                }
            };
            let done = if after == before { "patched (no change)" } else { "patched" };
            print_result(ctx, output.as_ref(), &after, done, dry_run)
        };
        if let Err(failure) = done.await {
            failures.push(failure);
        }
    }
    Failure::collect(failures)
}

fn patch_locally(patch_type: &str, object: &Object, patch: &Value) -> Result<Object, Failure> {
    if patch_type == "merge" && !patch.is_object() {
        return Err(Failure::message("Invalid JSON Patch"));
    }
    if patch.is_null() {
        return Ok(object.clone());
    }
    let mut value = object.as_value().clone();
    match patch_type {
        "json" => patch::apply_json_patch(&mut value, patch)?,
        "merge" => patch::apply_merge_patch(&mut value, patch),
        _ => match patch::apply_strategic(&mut value, patch, &object.gvk()) {
            Err(error @ PatchError::Unsupported(_)) => {
                return Err(Failure::message(format!("{error} locally, try --type merge")));
            }
            other => other?,
        },
    }
    Object::from_value(value).map_err(|e| Failure::message(e.to_string()))
}
