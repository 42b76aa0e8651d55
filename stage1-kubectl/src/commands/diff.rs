//! `kubectl diff -f`: what `apply` would change, as a diff.
//!
//! The server itself makes the "after": the patch is sent with `dryRun=All`, so defaults and admission are in it. Both
//! versions go into folders, which an external `diff` compares. Values of Secrets are masked.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/diff/{diff,mask}.go`. Left out: `--concurrency` (one object after the other).
#![expect(clippy::disallowed_methods, reason = "shell: writes the two versions and runs diff")]

use std::path::Path;

use clap::Args;
use http::{Method, header};
use serde_json::Value;

use super::apply::prune::{Applied, candidates};
use super::apply::{LAST_APPLIED, last_applied};
use super::builder::{self, FilenameFlags, Selection, Target};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::patch::{merge_keys::is_built_in, three_way, three_way_merge};
use crate::request::{self, query};
use crate::selector::LabelSelector;
use crate::yaml;

/// Flags of `kubectl diff`.
#[derive(Debug, Args)]
pub struct DiffArgs {
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-client-side-apply")]
    pub field_manager: String,
    /// Number of objects to process in parallel when diffing against the live version (they are processed in order).
    #[arg(long, default_value_t = 1)]
    pub concurrency: u32,
    /// If true, apply runs in the server instead of the client.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub server_side: bool,
    /// If true, server-side apply will force the changes against conflicts.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub force_conflicts: bool,
    /// Include resources that would be deleted by pruning. Can be used with -l and default shows all resources would be pruned.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub prune: bool,
    /// Overwrite the default allowlist with <group/version/kind> for --prune.
    #[arg(long)]
    pub prune_allowlist: Vec<String>,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Include managed fields in the diff.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub show_managed_fields: bool,
}

/// Runs `kubectl diff`.
///
/// # Errors
/// Exit code 1 when there are differences, more when it couldn't be found out.
pub async fn run(ctx: &Context, args: DiffArgs) -> Result<(), Failure> {
    if args.files.is_empty() {
        return Err(Failure::message("must specify one of -f and -k"));
    }
    let live_dir = tempfile::Builder::new().prefix("LIVE-").tempdir()?;
    let merged_dir = tempfile::Builder::new().prefix("MERGED-").tempdir()?;
    let selector = args.selector.as_deref().map(LabelSelector::parse).transpose()?;
    let fits = |object: &Object| selector.as_ref().is_none_or(|s| s.matches(&object.labels()));
    let mut applied = Vec::new();
    for target in builder::targets(ctx, &[], &args.files, &Selection::default()).await? {
        let Some(manifest) = target.manifest.as_ref().filter(|m| fits(&m.object)) else { continue };
        let live = match target.get(ctx).await {
            Ok(live) => Some(live),
            Err(Failure::Client(error)) if error.is_not_found() => None,
            Err(failure) => return Err(failure),
        };
        let merged = merged(ctx, &args, &target, live.as_ref(), &manifest.object).await?;
        applied.push(Applied::of(&target.resource, live.as_ref().unwrap_or(&merged)));
        let file = file_name(&merged);
        // An object that isn't there yet is compared with nothing.
        let shown = |object: &Object| shown(&args, object);
        std::fs::write(live_dir.path().join(&file), live.as_ref().map(shown).unwrap_or_default())?;
        std::fs::write(merged_dir.path().join(&file), shown(&merged))?;
    }
    if args.prune {
        for (_, object) in candidates(ctx, &args.prune_allowlist, args.selector.as_ref(), &applied).await? {
            std::fs::write(live_dir.path().join(file_name(&object)), shown(&args, &object))?;
        }
    }
    compare(ctx, live_dir.path(), merged_dir.path())
}

fn file_name(object: &Object) -> String {
    let gvk = object.gvk();
    let namespace = object.namespace().unwrap_or_default();
    let file = format!("{}.{}.{}.{namespace}.{}", gvk.group, gvk.version, gvk.kind, object.name());
    file.trim_start_matches('.').replace('/', "_")
}

fn shown(args: &DiffArgs, object: &Object) -> String {
    let mut object = object.clone();
    if !args.show_managed_fields {
        object.remove("/metadata/managedFields");
    }
    mask(&mut object);
    yaml::to_yaml(object.as_value())
}

/// Runs `diff`, or the program that the user wants.
fn compare(ctx: &Context, live: &Path, merged: &Path) -> Result<(), Failure> {
    let program = std::env::var("KUBECTL_EXTERNAL_DIFF").ok().filter(|program| !program.is_empty());
    let program = program.unwrap_or_else(|| "diff -u -N".into());
    let mut words = program.split_whitespace();
    let output = std::process::Command::new(words.next().unwrap_or("diff"))
        .args(words)
        .args([live, merged])
        .output()
        .map_err(|error| Failure::message(format!("failed to run {program:?}: {error}")))?;
    ctx.print(&String::from_utf8_lossy(&output.stdout));
    ctx.warn(&String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(Failure::Exit { code: 1, message: String::new() }),
        code => Err(Failure::Exit { code: code.unwrap_or(2), message: format!("error: {program} failed") }),
    }
}

/// What the server would make of the manifest.
async fn merged(
    ctx: &Context,
    args: &DiffArgs,
    target: &Target,
    live: Option<&Object>,
    manifest: &Object,
) -> Result<Object, Failure> {
    if args.server_side {
        return server_side(ctx, args, target, manifest).await;
    }
    let query = query(&[("dryRun", Some("All".into())), ("fieldManager", Some(args.field_manager.clone()))]);
    let mut modified = manifest.clone();
    let text = last_applied(&modified);
    modified.set_annotation(LAST_APPLIED, &text);
    let client = ctx.client().await?;
    let Some(live) = live else {
        let path = target.resource.path(target.namespace.as_deref(), None, None) + &query;
        return Ok(client.request(request::request(Method::POST, &path, Some(modified.as_value()))).await?);
    };
    let original: Value =
        live.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null);
    let gvk = live.gvk();
    let (patch, content_type) = match is_built_in(&gvk) {
        true => (
            three_way(&original, modified.as_value(), live.as_value(), &gvk)?,
            "application/strategic-merge-patch+json",
        ),
        false => {
            (three_way_merge(&original, modified.as_value(), live.as_value()), "application/merge-patch+json")
        }
    };
    let mut request = request::request(Method::PATCH, &(target.path(None) + &query), Some(&patch));
    request
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type.parse().expect("a constant content type"));
    Ok(client.request(request).await?)
}

/// What the server would make of it by its own apply.
async fn server_side(
    ctx: &Context,
    args: &DiffArgs,
    target: &Target,
    manifest: &Object,
) -> Result<Object, Failure> {
    let manager = match args.field_manager.as_str() {
        "kubectl-client-side-apply" => "kubectl".to_string(),
        other => other.to_string(),
    };
    let query = query(&[
        ("dryRun", Some("All".into())),
        ("fieldManager", Some(manager)),
        ("force", Some(args.force_conflicts.to_string())),
    ]);
    let mut request =
        request::request(Method::PATCH, &(target.path(None) + &query), Some(manifest.as_value()));
    let kind = "application/apply-patch+yaml".parse().expect("a constant content type");
    request.headers_mut().insert(header::CONTENT_TYPE, kind);
    Ok(ctx.client().await?.request(request).await?)
}

/// Hides a Secret's values.
fn mask(object: &mut Object) {
    if object.kind() != "Secret" || !object.gvk().group.is_empty() {
        return;
    }
    for field in ["/data", "/stringData"] {
        if let Some(Value::Object(mut values)) = object.get(field).cloned() {
            values.values_mut().for_each(|value| *value = "***".into());
            object.set(field, Value::Object(values));
        }
    }
    // What apply wrote for itself holds the values too.
    if object.annotation(LAST_APPLIED).is_some() {
        object.set_annotation(LAST_APPLIED, "***");
    }
}
