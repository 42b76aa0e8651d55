//! `kubectl diff -f`: what `apply` would change, as a diff.
//!
//! The server itself makes the "after": the patch is sent with `dryRun=All`, so defaults and admission are in it. Both
//! versions go into folders, which an external `diff` compares. Values of Secrets are masked.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/diff/{diff,mask}.go`. A Secret's last manifest is hidden as well, which a stock kubectl shows.
#![expect(clippy::disallowed_methods, reason = "shell: writes the two versions and runs diff")]

use std::path::Path;

use clap::Args;
use futures::{StreamExt, TryStreamExt};
use http::Method;
use serde_json::{Map, Value};

use super::apply::prune::{Applied, candidates};
use super::apply::{LAST_APPLIED, last_manifest};
use super::builder::{self, FilenameFlags, Selection, Target};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::patch;
use crate::request::{self, PatchType, query};
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
    /// Number of objects to process in parallel when diffing against the live version.
    #[arg(long, default_value_t = 1)]
    pub concurrency: usize,
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
    match differences(ctx, &args).await {
        Err(Failure::Exit { code, message }) => Err(Failure::Exit { code, message }),
        // 1 says "they differ", so what went wrong has another code.
        Err(failure) => Err(Failure::Exit { code: failure.report().1 + 1, message: failure.report().0 }),
        Ok(()) => Ok(()),
    }
}

async fn differences(ctx: &Context, args: &DiffArgs) -> Result<(), Failure> {
    if args.files.is_empty() {
        return Err(Failure::message("must specify one of -f and -k"));
    }
    if args.force_conflicts && !args.server_side {
        return Err(Failure::message("--force-conflicts only works with --server-side"));
    }
    let live_dir = tempfile::Builder::new().prefix("LIVE-").tempdir()?;
    let merged_dir = tempfile::Builder::new().prefix("MERGED-").tempdir()?;
    let selector = args.selector.as_deref().map(LabelSelector::parse).transpose()?;
    let fits = |object: &Object| selector.as_ref().is_none_or(|s| s.matches(&object.labels()));
    let targets = builder::targets(ctx, &[], &args.files, &Selection::default()).await?;
    let chosen = targets.iter().filter(|target| target.manifest.as_ref().is_some_and(|m| fits(&m.object)));
    let asked: Vec<_> = chosen.map(|target| both(ctx, args, target)).collect();
    let found: Vec<(Applied, Option<Object>, Object)> =
        futures::stream::iter(asked).buffered(args.concurrency.max(1)).try_collect().await?;
    let mut applied = Vec::new();
    for (one, mut live, mut merged) in found {
        let file = file_name(&merged);
        mask(live.as_mut(), Some(&mut merged));
        // An object that isn't there yet is compared with nothing.
        let before = live.as_ref().map(|live| shown(args, live)).unwrap_or_default();
        std::fs::write(live_dir.path().join(&file), before)?;
        std::fs::write(merged_dir.path().join(&file), shown(args, &merged))?;
        applied.push(one);
    }
    if args.prune {
        for (_, mut object) in
            candidates(ctx, &args.prune_allowlist, args.selector.as_ref(), &applied).await?
        {
            let file = file_name(&object);
            mask(Some(&mut object), None);
            std::fs::write(live_dir.path().join(file), shown(args, &object))?;
        }
    }
    compare(ctx, live_dir.path(), merged_dir.path())
}

/// An object as it is, and as it would be.
async fn both(
    ctx: &Context,
    args: &DiffArgs,
    target: &Target,
) -> Result<(Applied, Option<Object>, Object), Failure> {
    let manifest = target.manifest.as_ref().expect("chosen for its manifest");
    let live = match target.get(ctx).await {
        Ok(live) => Some(live),
        Err(Failure::Client(error)) if error.is_not_found() => None,
        Err(failure) => return Err(failure),
    };
    let merged = merged(ctx, args, target, live.as_ref(), &manifest.object).await?;
    Ok((Applied::of(&target.resource, live.as_ref().unwrap_or(&merged)), live, merged))
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
    yaml::to_yaml(object.as_value())
}

/// Runs `diff`, or the program that the user wants.
fn compare(ctx: &Context, live: &Path, merged: &Path) -> Result<(), Failure> {
    let wanted = std::env::var("KUBECTL_EXTERNAL_DIFF").ok().filter(|program| !program.is_empty());
    let (program, arguments, ignored) = command(wanted.as_deref(), live, merged);
    for word in ignored {
        ctx.warn(&format!(
            "Warning: invalid argument is ignored: {word}, only Alphanumeric (case-insensitive), dash and equal are allowed\n"
        ));
    }
    let output = std::process::Command::new(&program).args(arguments).output();
    let failed = |why: String| Failure::message(format!("failed to run {program:?}: {why}"));
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => failed("executable file not found in $PATH".into()),
        _ => failed(error.to_string()),
    })?;
    ctx.print(&String::from_utf8_lossy(&output.stdout));
    ctx.warn(&String::from_utf8_lossy(&output.stderr));
    match output.status.code() {
        Some(0) => Ok(()),
        Some(1) => Err(Failure::Exit { code: 1, message: String::new() }),
        Some(code) => Err(failed(format!("exit status {code}"))),
        None => Err(failed(output.status.to_string())),
    }
}

/// The program, its arguments, and the words of `KUBECTL_EXTERNAL_DIFF` that are no plain flags.
fn command(wanted: Option<&str>, live: &Path, merged: &Path) -> (String, Vec<String>, Vec<String>) {
    let folders = [live, merged].map(|folder| folder.display().to_string());
    let Some(wanted) = wanted else {
        return ("diff".into(), [vec!["-u".into(), "-N".into()], folders.to_vec()].concat(), Vec::new());
    };
    let mut words = wanted.split(' ').map(String::from);
    let program = words.next().unwrap_or_default();
    let plain = |word: &String| {
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '='))
    };
    let (flags, ignored): (Vec<String>, Vec<String>) = words.partition(plain);
    (program, [folders.to_vec(), flags].concat(), ignored)
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
    let client = ctx.client().await?;
    let Some(live) = live else {
        let path = target.resource.path(target.namespace.as_deref(), None, None) + &query;
        return Ok(client.request(request::request(Method::POST, &path, Some(manifest.as_value()))).await?);
    };
    let original = last_manifest(live);
    let gvk = live.gvk();
    let modified = unannotated(manifest);
    let (patch, patch_type) = patch::difference(&original, modified.as_value(), live.as_value(), &gvk)?;
    Ok(client.request(request::patch_at(&(target.path(None) + &query), patch_type, &patch)).await?)
}

/// A manifest as `apply` remembers it: without what `apply` wrote, and never without annotations, since the map that is in what was
/// remembered and not in the manifest would be a map to delete.
fn unannotated(manifest: &Object) -> Object {
    let mut modified = manifest.clone();
    let annotations = modified.get("/metadata/annotations").and_then(Value::as_object).cloned();
    let mut annotations = annotations.unwrap_or_default();
    annotations.remove(LAST_APPLIED);
    modified.set("/metadata/annotations", annotations);
    modified
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
    let path = target.path(None) + &query;
    Ok(ctx.client().await?.request(request::patch_at(&path, PatchType::Apply, manifest.as_value())).await?)
}

/// Hides a Secret's values; which of them differ can still be seen.
fn mask(live: Option<&mut Object>, merged: Option<&mut Object>) {
    const MASK: &str = "***";
    let is_secret = |object: &&mut Object| object.kind() == "Secret" && object.gvk().group.is_empty();
    let (mut live, mut merged) = (live.filter(is_secret), merged.filter(is_secret));
    for field in ["data", "stringData"] {
        let values = |object: &Option<&mut Object>| {
            let object = object.as_ref()?;
            object.get(&format!("/{field}")).and_then(Value::as_object).cloned()
        };
        let (before, after) = (values(&live), values(&merged));
        let hide = |own: Option<Map<String, Value>>, other: &Option<Map<String, Value>>, word: &str| {
            let mut own = own?;
            for (key, value) in &mut own {
                let differs =
                    other.as_ref().and_then(|other| other.get(key)).is_some_and(|other| other != value);
                *value = if differs { format!("{MASK} ({word})").into() } else { MASK.into() };
            }
            Some(Value::Object(own))
        };
        let hidden = [hide(before.clone(), &after, "before"), hide(after, &before, "after")];
        for (object, hidden) in [&mut live, &mut merged].into_iter().zip(hidden) {
            if let (Some(object), Some(hidden)) = (object, hidden) {
                object.set(&format!("/{field}"), hidden);
            }
        }
    }
    // What apply wrote for itself holds the values too.
    for object in [live, merged].into_iter().flatten() {
        if object.annotation(LAST_APPLIED).is_some() {
            object.set_annotation(LAST_APPLIED, MASK);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_applied_and_not_touched_since_is_no_difference() {
        let manifest = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" }, "data": { "a": "1" } });
        let manifest = Object::from_value(manifest).unwrap();
        let mut live = manifest.clone();
        live.set_annotation(LAST_APPLIED, &super::super::apply::last_applied(&manifest));
        let (original, modified) = (last_manifest(&live), unannotated(&manifest));
        let difference = patch::difference(&original, modified.as_value(), live.as_value(), &live.gvk());
        assert_eq!(difference.unwrap().0, json!({}));
    }

    #[test]
    fn a_secrets_values_are_hidden_but_not_that_they_differ() {
        let secret = |data: Value| {
            Object::from_value(
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": data}),
            )
            .unwrap()
        };
        let (mut live, mut merged) =
            (secret(json!({"a": "1", "b": "2", "c": "3"})), secret(json!({"a": "1", "b": "9", "d": "4"})));
        mask(Some(&mut live), Some(&mut merged));
        assert_eq!(live.get("/data"), Some(&json!({"a": "***", "b": "*** (before)", "c": "***"})));
        assert_eq!(merged.get("/data"), Some(&json!({"a": "***", "b": "*** (after)", "d": "***"})));
    }

    #[test]
    fn another_program_gets_the_folders_and_plain_flags_only() {
        let (a, b) = (Path::new("/l"), Path::new("/m"));
        let (program, arguments, ignored) = command(None, a, b);
        assert_eq!(
            (program.as_str(), arguments, ignored.len()),
            ("diff", ["-u", "-N", "/l", "/m"].map(String::from).to_vec(), 0)
        );
        let (program, arguments, ignored) = command(Some("colordiff -N -u;rm"), a, b);
        assert_eq!(program, "colordiff");
        assert_eq!(arguments, ["/l", "/m", "-N"]);
        assert_eq!(ignored, ["-u;rm"]);
    }
}
