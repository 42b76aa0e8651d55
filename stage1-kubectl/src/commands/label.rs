//! `kubectl label`: sets, changes and removes labels.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/label/label.go`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::print_result;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::patch::merge::create_merge_patch;
use crate::printers::{self, PrintFlags, Printer};
use crate::request::{self, PatchType, query};

/// Flags of `kubectl label` and `kubectl annotate`.
#[derive(Debug, Args)]
pub struct LabelArgs {
    /// TYPE NAME … or TYPE/NAME …, then KEY=VALUE … and KEY- ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// If true, allow labels to be overwritten.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub overwrite: bool,
    /// If true, will NOT contact api-server but run locally.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub local: bool,
    /// If true, display the labels for a given resource.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub list: bool,
    /// Select all resources, in the namespace of the specified resource types.
    #[arg(long)]
    pub all: bool,
    /// If true, check the specified action in all namespaces.
    #[arg(short = 'A', long)]
    pub all_namespaces: bool,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Selector (field query) to filter on.
    #[arg(long)]
    pub field_selector: Option<String>,
    /// If non-empty, the update will only succeed if this is the current resource-version for the object.
    #[arg(long, default_value = "")]
    pub resource_version: String,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long)]
    pub field_manager: Option<String>,
}

/// Which map of the metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum What {
    Label,
    Annotation,
}

impl What {
    fn field(self) -> &'static str {
        match self {
            What::Label => "labels",
            What::Annotation => "annotations",
        }
    }

    fn word(self) -> &'static str {
        match self {
            What::Label => "label",
            What::Annotation => "annotation",
        }
    }
}

/// Runs `kubectl label`.
///
/// # Errors
/// What couldn't be labelled.
pub async fn run(ctx: &Context, args: LabelArgs) -> Result<(), Failure> {
    change(ctx, args, What::Label).await
}

/// What is to be set (with a value) and removed (without).
type Changes = Vec<(String, Option<String>)>;

fn split(arguments: &[String]) -> (Vec<String>, Changes) {
    let is_change = |a: &String| a.contains('=') || (a.ends_with('-') && a.len() > 1);
    let at = arguments.iter().position(is_change).unwrap_or(arguments.len());
    let changes = arguments[at..].iter().map(|a| match a.split_once('=') {
        Some((key, value)) => (key.to_string(), Some(value.to_string())),
        None => (a.trim_end_matches('-').to_string(), None),
    });
    (arguments[..at].to_vec(), changes.collect())
}

pub(super) async fn change(ctx: &Context, args: LabelArgs, what: What) -> Result<(), Failure> {
    let (names, changes) = split(&args.arguments);
    if changes.is_empty() && !args.list {
        return Err(Failure::message(format!("at least one {} update is required", what.word())));
    }
    if what == What::Label {
        check_values(&changes)?;
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?;
    if args.local {
        for manifest in args.files.read()? {
            change_one(ctx, &args, what, &changes, dry_run, output.as_ref(), None, manifest.object).await?;
        }
        return Ok(());
    }
    let selection = Selection {
        label_selector: args.selector.as_deref(),
        field_selector: args.field_selector.as_deref(),
        all: args.all,
        all_namespaces: args.all_namespaces,
        unnamed: false,
    };
    let mut failures = Vec::new();
    for target in builder::targets(ctx, &names, &args.files, &selection).await? {
        let done = async {
            let live = target.get(ctx).await?;
            change_one(ctx, &args, what, &changes, dry_run, output.as_ref(), Some(&target), live).await
        };
        if let Err(failure) = done.await {
            failures.push(failure);
        }
    }
    Failure::collect(failures)
}

fn check_values(changes: &Changes) -> Result<(), Failure> {
    for (key, value) in changes {
        let Some(value) = value else { continue };
        if value.contains('=') {
            return Err(Failure::message(format!("invalid label spec: {key}={value}")));
        }
        let inner = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let edge = |c: Option<char>| c.is_none_or(|c| c.is_ascii_alphanumeric());
        let fits = value.chars().all(inner) && edge(value.chars().next()) && edge(value.chars().last());
        if !fits || value.len() > 63 {
            let why = if value.len() > 63 {
                "must be no more than 63 bytes"
            } else {
                "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
            };
            return Err(Failure::message(format!(
                "invalid label value: {:?}: {why}",
                format!("{key}={value}")
            )));
        }
    }
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "all of them vary per object")]
async fn change_one(
    ctx: &Context,
    args: &LabelArgs,
    what: What,
    changes: &Changes,
    dry_run: DryRun,
    output: Option<&Printer>,
    target: Option<&Target>,
    before: Object,
) -> Result<(), Failure> {
    if args.list && changes.is_empty() {
        let entries = before.string_map(&format!("/metadata/{}", what.field()));
        ctx.print(&entries.iter().map(|(k, v)| format!("{k}={v}\n")).collect::<String>());
        return Ok(());
    }
    let existing = before.string_map(&format!("/metadata/{}", what.field()));
    let mut after = before.clone();
    for (key, value) in changes {
        let pointer = format!("/metadata/{}/{}", what.field(), crate::object::escape(key));
        match value {
            Some(value) => {
                if let Some(old) = existing.get(key).filter(|old| *old != value && !args.overwrite) {
                    let _ = old;
                    return Err(Failure::message(match what {
                        What::Label => {
                            format!("'{key}' already has a value ({old}), and --overwrite is false")
                        }
                        What::Annotation => format!(
                            "--overwrite is false but found the following declared annotation(s): '{key}' already has a value ({old})"
                        ),
                    }));
                }
                after.set(&pointer, value.as_str());
            }
            None if existing.contains_key(key) => drop(after.remove(&pointer)),
            None if args.local || output.is_some() => {}
            None => ctx.print(&format!("{} {key:?} not found.\n", what.word())),
        }
    }
    // What no server gets is nobody's change.
    if target.is_some() && dry_run != DryRun::Client {
        ctx.record(&mut after);
    }
    if !args.resource_version.is_empty() {
        after.set_resource_version(&args.resource_version);
    }
    let empty = Map::new();
    let map = |o: &Object| o.as_value().as_object().unwrap_or(&empty).clone();
    let mut patch = create_merge_patch(&map(&before), &map(&after));
    if !args.resource_version.is_empty() {
        patch.entry("metadata").or_insert(json!({}))["resourceVersion"] =
            args.resource_version.clone().into();
    }
    let changed = before.get("/metadata").map(|m| m[what.field()].clone())
        != after.get("/metadata").map(|m| m[what.field()].clone());
    let result = match target.filter(|_| dry_run != DryRun::Client) {
        None => after,
        Some(target) => send(ctx, args, what, dry_run, target, Value::Object(patch)).await?,
    };
    let removed = changes.iter().all(|(_, value)| value.is_none());
    let done = match (what, changed, removed) {
        // An object without labels gets an empty map, which counts as a change.
        (What::Label, false, true) if before.get("/metadata/labels").is_none() => "labeled",
        (What::Label, false, _) => "not labeled",
        (What::Label, true, true) => "unlabeled",
        (What::Label, true, false) => "labeled",
        (What::Annotation, ..) => "annotated",
    };
    if output.is_none() && args.list {
        ctx.print(&format!("{} {done}\n", printers::object_name(&result)));
    }
    print_result(ctx, output, &result, done, dry_run)
}

async fn send(
    ctx: &Context,
    args: &LabelArgs,
    what: What,
    dry_run: DryRun,
    target: &Target,
    patch: Value,
) -> Result<Object, Failure> {
    let manager = match what {
        What::Label => "kubectl-label",
        What::Annotation => "kubectl-annotate",
    };
    let manager = args.field_manager.clone().unwrap_or_else(|| manager.into());
    let query = query(&[("dryRun", dry_run.query()), ("fieldManager", Some(manager))]);
    let request = request::patch_at(&(target.path(None) + &query), PatchType::Merge, &patch);
    Ok(ctx.client().await?.request(request).await?)
}
