//! `kubectl wait`: until a condition holds, a field has a value, or an object is gone.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/wait/{wait,condition,json,delete,create}.go`. `--local` changes nothing there either.

use std::time::Duration;

use clap::Args;
use serde_json::Value;

use super::builder::{self, FilenameFlags, Selection, Target};
use super::until::until;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{PrintFlags, jsonpath};

/// Flags of `kubectl wait`.
#[derive(Debug, Args)]
pub struct WaitArgs {
    /// TYPE NAME … or TYPE/NAME ….
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// The condition to wait on: [create|delete|condition=NAME[=VALUE]|jsonpath='{PATH}'[=VALUE]].
    #[arg(long = "for", default_value = "")]
    pub condition: String,
    /// The length of time to wait before giving up.
    #[arg(long, default_value = "30s")]
    pub timeout: String,
    /// Select all resources in the namespace of the specified resource types.
    #[arg(long)]
    pub all: bool,
    /// If present, list the requested object(s) across all namespaces.
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub all_namespaces: bool,
    /// If true, annotation will NOT contact api-server but run locally.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub local: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Selector (field query) to filter on.
    #[arg(long)]
    pub field_selector: Option<String>,
}

/// What to wait for.
enum Condition {
    Delete,
    Create,
    Status(String, String),
    Path(Vec<jsonpath::Node>, Option<String>),
}

fn parse(text: &str) -> Result<Condition, Failure> {
    match (text, text.split_once('=')) {
        ("delete", _) => Ok(Condition::Delete),
        ("create", _) => Ok(Condition::Create),
        (_, Some(("condition", rest))) => {
            let (name, value) = rest.split_once('=').unwrap_or((rest, "true"));
            Ok(Condition::Status(name.to_string(), value.to_string()))
        }
        (_, Some(("jsonpath", rest))) => {
            let (path, value) = match rest.rfind("}=") {
                Some(at) => (&rest[..=at], Some(rest[at + 2..].to_string())),
                None => (rest, None),
            };
            let nodes =
                jsonpath::relaxed(path).and_then(|p| jsonpath::parse(&p)).map_err(Failure::message)?;
            Ok(Condition::Path(nodes, value))
        }
        _ => Err(Failure::message(format!("unrecognized condition: {text:?}"))),
    }
}

impl Condition {
    fn holds(&self, live: Option<&Object>) -> Result<bool, Failure> {
        Ok(match (self, live) {
            (Condition::Delete, live) => live.is_none(),
            (_, None) => false,
            (Condition::Create, Some(_)) => true,
            (Condition::Status(name, wanted), Some(live)) => {
                let conditions = live.get("/status/conditions").and_then(Value::as_array);
                let mut conditions = conditions.into_iter().flatten();
                let found =
                    conditions.find(|c| c["type"].as_str().is_some_and(|t| t.eq_ignore_ascii_case(name)));
                found.and_then(|c| c["status"].as_str()).is_some_and(|s| s.eq_ignore_ascii_case(wanted))
            }
            (Condition::Path(nodes, wanted), Some(live)) => {
                match jsonpath::find_all(nodes, live.as_value()).unwrap_or_default().as_slice() {
                    [] => false,
                    [Value::Array(_) | Value::Object(_)] if wanted.is_some() => {
                        let why = "jsonpath leads to a nested object or list which is not supported";
                        return Err(Failure::message(why));
                    }
                    [one] => wanted.as_ref().is_none_or(|wanted| jsonpath::text(one) == *wanted),
                    _ => {
                        let why = "given jsonpath expression matches more than one value";
                        return Err(Failure::message(why));
                    }
                }
            }
        })
    }
}

/// Runs `kubectl wait`.
///
/// # Errors
/// The time is over, or an object isn't there.
pub async fn run(ctx: &Context, args: WaitArgs) -> Result<(), Failure> {
    let condition = parse(&args.condition)?;
    let limit = crate::time::parse_duration(&args.timeout).ok_or_else(|| {
        Failure::message(format!("invalid argument {:?} for \"--timeout\" flag", args.timeout))
    })?;
    // Zero means once, below zero means a week.
    let limit = match limit.is_negative() {
        true => Duration::from_secs(7 * 24 * 3600),
        false => limit.unsigned_abs(),
    };
    let selection = Selection {
        label_selector: args.selector.as_deref(),
        field_selector: args.field_selector.as_deref(),
        all: args.all,
        all_namespaces: args.all_namespaces,
        unnamed: false,
    };
    let targets = builder::targets(ctx, &args.arguments, &args.files, &selection).await?;
    if targets.is_empty() && !matches!(condition, Condition::Delete) {
        return Err(Failure::message("no matching resources found"));
    }
    let printer = args.print.printer()?;
    let mut failures = Vec::new();
    for target in targets {
        ctx.progress(&format!("waiting for {} ...", target.display_name()));
        let waited = tokio::time::timeout(limit, wait_for(ctx, &target, &condition)).await;
        ctx.progress_done();
        match waited {
            Ok(Ok(Some(live))) => match &printer {
                Some(printer) => ctx.print(&printer.render(live.as_value())?),
                None => ctx.print(&format!("{} {}\n", target.display_name(), done(&condition))),
            },
            Ok(Ok(None)) => {}
            Ok(Err(failure)) => failures.push(failure),
            // What isn't there can't be named.
            Err(_) if matches!(condition, Condition::Create) => {
                failures.push(Failure::message("timed out waiting for the condition"));
            }
            Err(_) => failures.push(Failure::message(format!(
                "timed out waiting for the condition on {}/{}",
                target.resource.gvr.group_resource(),
                target.name
            ))),
        }
    }
    Failure::collect(failures)
}

fn done(condition: &Condition) -> &'static str {
    match condition {
        Condition::Delete => "deleted",
        _ => "condition met",
    }
}

/// What became of the waiting: an object that wasn't there from the start is no success worth a line.
async fn wait_for(ctx: &Context, target: &Target, condition: &Condition) -> Result<Option<Object>, Failure> {
    let (mut seen, mut last) = (false, None);
    let missing = || {
        let resource = target.resource.gvr.group_resource();
        Failure::from(crate::status::Status::not_found(&resource, &target.name))
    };
    until(ctx, &target.resource, target.namespace.as_deref(), &target.name, |live| {
        let existed = std::mem::replace(&mut seen, true);
        match live {
            None if !existed && matches!(condition, Condition::Status(..) | Condition::Path(..)) => {
                Err(missing())
            }
            None if matches!(condition, Condition::Delete) => Ok(Some(last.take())),
            live => {
                last = live.cloned().or(last.take());
                Ok(condition.holds(live)?.then(|| last.clone()))
            }
        }
    })
    .await
}
