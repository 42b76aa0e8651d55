//! `kubectl edit`: opens objects in an editor and sends what changed.
//!
//! The object is written into a temporary file as YAML. When the editor ends, the file is read again, and the difference
//! between the two versions goes to the server as a patch. If the server refuses, the file stays, so no work is lost.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/util/editor/{editor,editoptions}.go`. Left out: several objects of which one is refused are
//! edited again together.
#![expect(clippy::disallowed_methods, reason = "shell: runs the editor")]

use std::io::Write;
use std::path::Path;

use clap::Args;
use http::{Method, header};
use serde_json::Value;

use super::apply::{LAST_APPLIED, last_applied};
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::{field_validation, print_result};
use crate::context::Context;
use crate::failure::Failure;
use crate::manifest;
use crate::object::Object;
use crate::patch::{merge_keys::is_built_in, three_way, three_way_merge};
use crate::printers::{self, PrintFlags};
use crate::request::{self, query};
use crate::yaml;

pub(super) const HEADER: &str = "# Please edit the object below. Lines beginning with a '#' will be ignored,
# and an empty file will abort the edit. If an error occurs while saving this file will be
# reopened with the relevant failures.
#
";

/// Flags of `kubectl edit`.
#[derive(Debug, Args)]
pub struct EditArgs {
    /// TYPE NAME … or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// In which form it is edited: YAML unless JSON is asked for.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Output the patch if the resource is edited.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub output_patch: bool,
    /// If true, the configuration of current object will be saved in its annotation.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub save_config: bool,
    /// Defaults to the line ending native to your platform.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub windows_line_endings: bool,
    /// If specified, edit will operate on the subresource of the requested object.
    #[arg(long)]
    pub subresource: Option<String>,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-edit")]
    pub field_manager: String,
    /// Must be one of: strict (or true), warn, ignore (or false).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub validate: String,
}

/// Runs `kubectl edit`.
///
/// # Errors
/// The editor can't be run, or what the server refused.
pub async fn run(ctx: &Context, args: EditArgs) -> Result<(), Failure> {
    let json = match args.print.output.as_str() {
        "" | "yaml" => false,
        "json" => true,
        other => {
            return Err(Failure::message(format!("The flag 'output' must be one of yaml|json, not {other}")));
        }
    };
    let selection = Selection { all: true, ..Selection::default() };
    let targets = builder::targets(ctx, &args.arguments, &args.files, &selection).await?;
    let mut objects = Vec::new();
    for target in &targets {
        let path = target.path(args.subresource.as_deref());
        let mut live: Object =
            ctx.client().await?.request(request::request(Method::GET, &path, None)).await?;
        if !args.print.show_managed_fields {
            live.remove("/metadata/managedFields");
        }
        objects.push(live);
    }
    let shown = match objects.as_slice() {
        [] => return Err(Failure::message("edit cancelled, no objects found")),
        [one] => one.as_value().clone(),
        several => printers::as_list(several.iter().map(|object| object.as_value().clone()).collect()),
    };
    let suffix = if json { "json" } else { "yaml" };
    let mut text = match json {
        true => printers::to_json(&shown),
        false => format!("{HEADER}{}", yaml::to_yaml(&shown)),
    };
    let mut refused: Option<Failure> = None;
    loop {
        let edited = edit_text(ctx, &text, suffix)?;
        let (edited, file) = match (edited, refused.take()) {
            (Some(edited), _) => edited,
            (None, None) => return Ok(()),
            // Left as it was refused: the user gives up.
            (None, Some(failure)) => {
                let mut file = editor_file(suffix)?;
                file.write_all(text.as_bytes())?;
                return keep(ctx, file, failure);
            }
        };
        match send(ctx, &args, &targets, &objects, &edited).await {
            Ok(()) => return Ok(()),
            // Only a refusal of what was written can be mended by writing something else.
            Err(failure) if can_be_mended(&failure) => {
                ctx.warn(&format!("{}\n", failure.report().0));
                text = with_reasons(&edited, &failure);
                refused = Some(failure);
            }
            Err(failure) => return keep(ctx, file, failure),
        }
    }
}

/// The server said what is wrong with the object, or it was no object.
fn can_be_mended(failure: &Failure) -> bool {
    match failure {
        Failure::Client(error) => {
            error.is_invalid() || error.status().is_some_and(|status| status.code == 400)
        }
        Failure::Message(_) => false,
        _ => false,
    }
}

/// The text with the reasons at its head, as comments.
fn with_reasons(text: &str, failure: &Failure) -> String {
    let body: String =
        text.lines().skip_while(|line| line.starts_with('#')).map(|line| format!("{line}\n")).collect();
    let reasons: String = failure.report().0.lines().map(|line| format!("# {line}\n")).collect();
    format!("{HEADER}{reasons}#\n{body}")
}

fn keep(ctx: &Context, file: tempfile::NamedTempFile, failure: Failure) -> Result<(), Failure> {
    let kept = file.keep().map_err(|e| Failure::message(e.to_string()))?.1;
    ctx.warn(&format!("A copy of your changes has been stored to {:?}\n", kept.display().to_string()));
    Err(failure)
}

fn editor_file(suffix: &str) -> Result<tempfile::NamedTempFile, Failure> {
    Ok(tempfile::Builder::new().prefix("kubectl-edit-").suffix(&format!(".{suffix}")).tempfile()?)
}

/// Lets the user change a text; nothing when it is left as it was.
///
/// # Errors
/// The editor can't be run.
pub fn edit_text(
    ctx: &Context,
    text: &str,
    suffix: &str,
) -> Result<Option<(String, tempfile::NamedTempFile)>, Failure> {
    let mut file = editor_file(suffix)?;
    file.write_all(text.as_bytes())?;
    file.flush()?;
    run_editor(file.path())?;
    let edited = std::fs::read_to_string(file.path())?;
    let content = |text: &str| -> String {
        text.lines().filter(|line| !line.starts_with('#')).map(|line| format!("{line}\n")).collect()
    };
    if content(&edited) == content(text) {
        ctx.warn("Edit cancelled, no changes made.\n");
        return Ok(None);
    }
    if content(&edited).trim().is_empty() {
        ctx.warn("Edit cancelled, saved file was empty.\n");
        return Ok(None);
    }
    Ok(Some((edited, file)))
}

/// `KUBE_EDITOR`, `EDITOR` or `vi`, by the shell, because the variable may hold arguments.
fn run_editor(path: &Path) -> Result<(), Failure> {
    let from = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
    let editor = from("KUBE_EDITOR").or_else(|| from("EDITOR")).unwrap_or_else(|| "vi".into());
    let command = format!("{editor} \"$1\"");
    let status = std::process::Command::new("sh").args(["-c", &command, "sh"]).arg(path).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            Err(Failure::message(format!("there was a problem with the editor {editor:?}: {status}")))
        }
        Err(error) => Err(Failure::message(format!("unable to launch the editor {editor:?}: {error}"))),
    }
}

async fn send(
    ctx: &Context,
    args: &EditArgs,
    targets: &[Target],
    before: &[Object],
    edited: &str,
) -> Result<(), Failure> {
    let after = manifest::parse(edited, "edited file")?;
    let mut failures = Vec::new();
    for manifest in after {
        let after = manifest.object;
        let same = |object: &Object| {
            object.gvk() == after.gvk()
                && object.name() == after.name()
                && object.namespace() == after.namespace()
        };
        let Some(at) = before.iter().position(same) else {
            let why = "At least one of apiVersion, kind and name was changed";
            failures.push(Failure::message(why));
            continue;
        };
        if before[at] == after {
            continue;
        }
        match patch(ctx, args, &targets[at], &before[at], &after).await {
            Ok(result) => print_result(ctx, None, &result, "edited", super::DryRun::None)?,
            Err(failure) => failures.push(failure),
        }
    }
    Failure::collect(failures)
}

async fn patch(
    ctx: &Context,
    args: &EditArgs,
    target: &Target,
    before: &Object,
    after: &Object,
) -> Result<Object, Failure> {
    let gvk = before.gvk();
    let mut after = after.clone();
    if args.save_config {
        let text = last_applied(&after);
        after.set_annotation(LAST_APPLIED, &text);
    }
    let (before, after): (&Value, &Value) = (before.as_value(), after.as_value());
    let (patch, content_type) = match is_built_in(&gvk) {
        true => (three_way(before, after, before, &gvk)?, "application/strategic-merge-patch+json"),
        false => (three_way_merge(before, after, before), "application/merge-patch+json"),
    };
    if args.output_patch {
        ctx.print(&format!("Patch: {patch}\n"));
    }
    let query = query(&[
        ("fieldManager", Some(args.field_manager.clone())),
        ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
    ]);
    let mut request =
        request::request(Method::PATCH, &(target.path(args.subresource.as_deref()) + &query), Some(&patch));
    request
        .headers_mut()
        .insert(header::CONTENT_TYPE, content_type.parse().expect("a constant content type"));
    Ok(ctx.client().await?.request(request).await?)
}
