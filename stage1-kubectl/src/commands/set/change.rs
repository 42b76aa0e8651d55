//! What the `set` commands share: find the objects, change each by a pure function, send the difference.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/set/helper.go` (`CalculatePatches`).

use clap::Args;
use serde_json::Value;

use super::send_change;
use crate::commands::DryRun;
use crate::commands::builder::{self, FilenameFlags, Selection};
use crate::commands::create::print_result;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{self, PrintFlags, Printer, zero_values};

/// Flags that all `set` commands have.
#[derive(Debug, Args)]
pub struct ChangeFlags {
    /// TYPE NAME … or TYPE/NAME …, then what to set.
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
    /// If true, will NOT contact api-server but run locally.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub local: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-set")]
    pub field_manager: String,
}

/// Changes every object that is meant, and says what was `done`. An object that the change leaves alone is not mentioned.
///
/// # Errors
/// One failure an object.
pub async fn each(
    ctx: &Context,
    flags: &ChangeFlags,
    names: &[String],
    done: &str,
    change: impl Fn(&mut Object) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let dry_run = DryRun::parse(&flags.dry_run)?;
    let output = flags.print.printer()?.map(Printer::typed);
    let mut failures = Vec::new();
    if flags.local {
        for manifest in flags.files.read()? {
            let mut after = manifest.object.clone();
            match change(&mut after) {
                Ok(()) if after == manifest.object => {}
                Ok(()) => {
                    ctx.record(&mut after);
                    print_local(ctx, output.as_ref(), after, done)?;
                }
                Err(failure) => failures.push(failure),
            }
        }
        return Failure::collect(failures);
    }
    let selection =
        Selection { label_selector: flags.selector.as_deref(), all: flags.all, ..Selection::default() };
    for target in builder::targets(ctx, names, &flags.files, &selection).await? {
        let changed = async {
            let before = target.get(ctx).await?;
            let mut after = before.clone();
            change(&mut after)?;
            if after == before {
                return Ok(());
            }
            ctx.record(&mut after);
            let result = match dry_run {
                DryRun::Client => after,
                _ => send_change(ctx, &target, &before, &after, &flags.field_manager, dry_run).await?,
            };
            print_result(ctx, output.as_ref(), &result, done, dry_run)
        };
        if let Err(failure) = changed.await {
            failures.push(failure);
        }
    }
    Failure::collect(failures)
}

/// Prints an object that was on no server, as Go prints its struct.
fn print_local(ctx: &Context, output: Option<&Printer>, object: Object, done: &str) -> Result<(), Failure> {
    let mut value: Value = object.into_value();
    zero_values::fill(&mut value);
    let object = Object::from_value(value).map_err(|e| Failure::message(e.to_string()))?;
    print_result(ctx, output, &object, done, DryRun::None)
}

/// `deployment.apps/web` and, in a line of its own, what is wrong with it.
pub fn about(object: &Object, why: &str) -> Failure {
    Failure::message(format!("{}\n {why}", printers::object_name(object)))
}

/// Runs `change` on every container whose name fits the pattern, init containers last; how many fitted.
pub fn containers(
    object: &mut Object,
    pattern: &str,
    mut change: impl FnMut(&mut Value) -> Result<(), Failure>,
) -> Result<Option<usize>, Failure> {
    let Some(pod_spec) = super::pod_spec_pointer(object) else { return Ok(None) };
    let mut fitted = 0;
    for field in ["containers", "initContainers"] {
        let at = format!("{pod_spec}/{field}");
        let Some(Value::Array(mut list)) = object.get(&at).cloned() else { continue };
        for container in &mut list {
            if fits(pattern, container["name"].as_str().unwrap_or_default()) {
                change(container)?;
                fitted += 1;
            }
        }
        object.set(&at, Value::Array(list));
    }
    Ok(Some(fitted))
}

/// Whether a name fits a pattern, in which each `*` stands for any text.
fn fits(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((start, rest)) => {
            let Some(name) = name.strip_prefix(start) else { return false };
            let ends = name.char_indices().map(|(at, _)| at).chain([name.len()]);
            ends.into_iter().any(|at| fits(rest, &name[at..]))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_star_stands_for_any_text() {
        assert!(fits("*", "web") && fits("l*", "log") && fits("*o*g", "log") && fits("web", "web"));
        assert!(!fits("l*", "web") && !fits("we", "web"));
    }
}
