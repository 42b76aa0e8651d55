//! `kubectl checklist`: is this workload fit for production?
//!
//! For files nothing is asked of a server. For `TYPE/NAME` the object is read, and what stands beside it in its namespace: budgets,
//! Services, autoscalers.
//!
//! Exit codes: 0 nothing at or above `--fail-on`, 2 something, 1 the command itself failed.
//!
//! # In Kubernetes
//! No counterpart.
#![expect(clippy::disallowed_methods, reason = "shell: reads the settings file and the clock")]

use clap::Args;
use jiff::Timestamp;

use super::builder::{self, FilenameFlags, Selection};
use super::listing::{bare, list_all};
use crate::checklist::{Settings, check, report};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers;
use crate::printers::terminal::escaped;
use crate::request::ListParams;
use crate::resource::GroupVersionResource;
use crate::why::Severity;

/// Flags of `kubectl checklist`.
#[derive(Debug, Args)]
pub struct ChecklistArgs {
    /// TYPE/NAME or TYPE NAME.
    pub arguments: Vec<String>,
    /// Files with the manifests to check.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// A YAML file with severities (error, warning, info, off) by check.
    #[arg(long, default_value = "")]
    pub config: String,
    /// The least severity that makes the exit code 2: error, warning, info, or none.
    #[arg(long, default_value = "error")]
    pub fail_on: String,
    /// Output format: json or sarif.
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
}

/// Runs `kubectl checklist`.
///
/// # Errors
/// What can't be read; and, as an exit code without a text, complaints.
pub async fn run(ctx: &Context, args: ChecklistArgs) -> Result<(), Failure> {
    let least = match args.fail_on.as_str() {
        "error" => Some(Severity::Error),
        "warning" => Some(Severity::Warning),
        "info" => Some(Severity::Info),
        "none" => None,
        other => return Err(Failure::message(format!("--fail-on: {other:?} is no severity"))),
    };
    let settings = match args.config.as_str() {
        "" => Settings::default(),
        path => {
            let text =
                std::fs::read_to_string(path).map_err(|e| Failure::message(format!("read {path}: {e}")))?;
            Settings::parse(&text).map_err(|e| Failure::message(format!("{path}: {e}")))?
        }
    };
    let (objects, known) = match args.files.is_empty() {
        false => (args.files.read()?.into_iter().map(|one| (one.object, one.source)).collect(), Vec::new()),
        true => from_server(ctx, &args).await?,
    };
    let outcomes = check(&objects, &known, &settings, Timestamp::now());
    let fails = outcomes.iter().any(|one| least.is_some_and(|least| one.severity >= least));
    let code = if fails { 2 } else { 0 };
    match args.output.as_str() {
        "" => ctx.print(&escaped(&report::render(&outcomes))),
        "json" => ctx.print(&printers::to_json(&report::to_value(&outcomes, code))),
        "sarif" => ctx.print(&printers::to_json(&report::to_sarif(&outcomes))),
        other => {
            return Err(Failure::message(format!(
                "unknown output format {other:?}, json and sarif are known"
            )));
        }
    }
    if fails { Err(Failure::Exit { code, message: String::new() }) } else { Ok(()) }
}

/// The objects, and what stands beside them.
async fn from_server(
    ctx: &Context,
    args: &ChecklistArgs,
) -> Result<(Vec<(Object, String)>, Vec<Object>), Failure> {
    let mut objects = Vec::new();
    for target in builder::targets(ctx, &args.arguments, &args.files, &Selection::default()).await? {
        objects.push((target.get(ctx).await?, String::new()));
    }
    let beside = [
        ("policy", "v1", "poddisruptionbudgets", "PodDisruptionBudget"),
        ("", "v1", "services", "Service"),
        ("autoscaling", "v2", "horizontalpodautoscalers", "HorizontalPodAutoscaler"),
    ];
    let mut known = Vec::new();
    for (group, version, resource, kind) in beside {
        let mut resource = bare(&GroupVersionResource::new(group, version, resource), true);
        resource.kind = kind.into();
        let namespaces: std::collections::BTreeSet<&str> =
            objects.iter().filter_map(|(object, _)| object.namespace()).collect();
        for namespace in namespaces {
            // What may not be read isn't there, as far as the checklist can say.
            known.extend(
                list_all(ctx, &resource, Some(namespace), &ListParams::default()).await.unwrap_or_default(),
            );
        }
    }
    Ok((objects, known))
}
