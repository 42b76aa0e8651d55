//! `kubectl apply edit-last-applied`: the last manifest, in an editor.
//!
//! What is edited isn't the object but the annotation that remembers the manifest: the patch changes only that.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/apply/apply_edit_last_applied.go`, `util/editor/editoptions.go` (`ApplyEditMode`).

use clap::Args;
use serde_json::{Value, json};

use super::{LAST_APPLIED, last_applied};
use crate::commands::DryRun;
use crate::commands::builder::{self, FilenameFlags, Selection};
use crate::commands::create::{field_validation, print_result};
use crate::commands::edit::{Editor, edit_once, is_json};
use crate::context::Context;
use crate::failure::Failure;
use crate::manifest;
use crate::object::Object;
use crate::printers::{self, PrintFlags};
use crate::request::{self, PatchType, query};
use crate::yaml;

/// The head of the file.
const HEADER: &str = "# Please edit the 'last-applied-configuration' annotations below.
# Lines beginning with a '#' will be ignored, and an empty file will abort the edit.
#
";

/// Flags of `kubectl apply edit-last-applied`.
#[derive(Debug, Args)]
pub struct EditLastAppliedArgs {
    /// TYPE NAME … or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// In which form it is edited: YAML unless JSON is asked for.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-client-side-apply")]
    pub field_manager: String,
    /// Must be one of: strict (or true), warn, ignore (or false).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub validate: String,
    /// Defaults to the line ending native to your platform.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub windows_line_endings: bool,
}

/// Runs `kubectl apply edit-last-applied`.
///
/// # Errors
/// An object without a last manifest, the editor, or the server.
pub async fn run(ctx: &Context, args: EditLastAppliedArgs) -> Result<(), Failure> {
    let json = is_json(&args.print)?;
    let selection = Selection { unnamed: true, ..Selection::default() };
    let targets = builder::targets(ctx, &args.arguments, &args.files, &selection).await?;
    let mut kept = Vec::new();
    for target in &targets {
        let live = target.get(ctx).await?;
        let last = live.annotation(LAST_APPLIED).and_then(|text| serde_json::from_str::<Value>(text).ok());
        kept.extend(last.map(|last| (target, live, last)));
    }
    let shown = match kept.as_slice() {
        [] => {
            return Err(Failure::message(
                "no last-applied-configuration annotation found on resources, to create the annotation, use command `kubectl apply set-last-applied --create-annotation`",
            ));
        }
        [(_, _, one)] => one.clone(),
        several => printers::as_list(several.iter().map(|(_, _, last)| last.clone()).collect()),
    };
    let text = match json {
        true => printers::to_json(&shown),
        false => format!("{HEADER}{}", yaml::to_yaml(&shown)),
    };
    let editor = Editor::new(json, args.windows_line_endings);
    let Some((edited, _file)) = edit_once(ctx, &editor, &text)? else { return Ok(()) };
    let mut failures = Vec::new();
    for manifest in manifest::parse(&edited, "edited file")? {
        let after = manifest.object;
        let same = |live: &Object| live.gvk() == after.gvk() && live.name() == after.name();
        let Some((target, live, before)) = kept.iter().find(|(_, live, _)| same(live)) else {
            failures.push(Failure::message("At least one of apiVersion, kind and name was changed"));
            continue;
        };
        if before == after.as_value() {
            print_result(ctx, None, live, "skipped", DryRun::None)?;
            continue;
        }
        let patch = json!({"metadata": {"annotations": {LAST_APPLIED: last_applied(&after)}}});
        let query = query(&[
            ("fieldManager", Some(args.field_manager.clone())),
            ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
        ]);
        let request = request::patch_at(&(target.path(None) + &query), PatchType::Merge, &patch);
        match ctx.client().await?.request::<Object>(request).await {
            Ok(_) => print_result(ctx, None, live, "edited", DryRun::None)?,
            Err(error) => failures.push(error.into()),
        }
    }
    Failure::collect(failures)
}
