//! `kubectl taint`: sets and removes taints of nodes.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/taint/{taint,utils}.go`.

use clap::Args;
use serde_json::{Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection};
use super::create::{field_validation, print_result};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::PrintFlags;
use crate::request::{self, PatchType};

/// Flags of `kubectl taint`.
#[derive(Debug, Args)]
pub struct TaintArgs {
    /// node NAME …, then KEY=VALUE:EFFECT … or KEY[:EFFECT]- ….
    pub arguments: Vec<String>,
    /// If true, allow taints to be overwritten.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub overwrite: bool,
    /// Select all nodes in the cluster.
    #[arg(long)]
    pub all: bool,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-taint")]
    pub field_manager: String,
    /// Must be one of: strict (or true), warn, ignore (or false).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub validate: String,
}

/// A taint that is set (with an effect and perhaps a value) or removed (perhaps with an effect).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Taint {
    key: String,
    value: Option<String>,
    effect: String,
    remove: bool,
}

fn parse(text: &str) -> Result<Taint, Failure> {
    let (spec, remove) = text.strip_suffix('-').map_or((text, false), |spec| (spec, true));
    let (pair, effect) = spec.split_once(':').unwrap_or((spec, ""));
    let (key, value) =
        pair.split_once('=').map_or((pair, None), |(key, value)| (key, Some(value.to_string())));
    let wrong = || Failure::message(format!("invalid taint spec: {text}"));
    if key.is_empty() || effect.contains(':') || (!remove && effect.is_empty()) {
        return Err(wrong());
    }
    if !effect.is_empty() && !["NoSchedule", "PreferNoSchedule", "NoExecute"].contains(&effect) {
        let hint = "See 'kubectl taint -h' for help and examples";
        let why = format!("invalid taint effect: {effect}, unsupported taint effect");
        return Err(Failure::message(format!("{why}\n{hint}")));
    }
    Ok(Taint {
        key: key.into(),
        value: value.filter(|value| !value.is_empty()),
        effect: effect.into(),
        remove,
    })
}

/// Splits arguments into nodes and taints.
fn split(arguments: &[String]) -> Result<(Vec<String>, Vec<Taint>), Failure> {
    let is_taint = |a: &String| a.contains('=') || a.contains(':') || a.ends_with('-');
    let at = arguments.iter().position(is_taint).unwrap_or(arguments.len());
    let (nodes, taints) = arguments.split_at(at);
    if taints.is_empty() {
        return Err(Failure::message("at least one taint update is required"));
    }
    if let Some(mixed) = taints.iter().find(|a| !is_taint(a)) {
        return Err(Failure::message(format!(
            "all resources must be specified before taint changes: {mixed}"
        )));
    }
    Ok((nodes.to_vec(), taints.iter().map(|taint| parse(taint)).collect::<Result<_, _>>()?))
}

/// What the node's taints become, and what is said about it.
fn change(
    old: &[Value],
    changes: &[Taint],
    overwrite: bool,
    node: &str,
) -> Result<(Vec<Value>, &'static str), Failure> {
    let same = |there: &Value, taint: &Taint| {
        there["key"] == taint.key && (taint.effect.is_empty() || there["effect"] == taint.effect)
    };
    let sets: Vec<&Taint> = changes.iter().filter(|taint| !taint.remove).collect();
    let exists = sets.iter().filter(|taint| old.iter().any(|there| same(there, taint))).collect::<Vec<_>>();
    if let (Some(first), false) = (exists.first(), overwrite) {
        let why = format!(
            "node {node} already has {} taint(s) with same effect(s) and --overwrite is false",
            first.key
        );
        return Err(Failure::message(why));
    }
    let missing = changes.iter().filter(|taint| taint.remove && !old.iter().any(|there| same(there, taint)));
    let missing: Vec<Failure> = missing
        .map(|taint| {
            let shown = if taint.effect.is_empty() {
                taint.key.clone()
            } else {
                format!("{}:{}", taint.key, taint.effect)
            };
            Failure::message(format!("taint {shown:?} not found"))
        })
        .collect();
    Failure::collect(missing)?;
    let mut new: Vec<Value> = sets
        .iter()
        .map(|taint| {
            let mut set = json!({"key": taint.key, "effect": taint.effect});
            if let Some(value) = &taint.value {
                set["value"] = value.clone().into();
            }
            set
        })
        .collect();
    new.extend(old.iter().filter(|there| !changes.iter().any(|taint| same(there, taint))).cloned());
    let done = match (sets.is_empty(), exists.is_empty(), changes.len() > sets.len()) {
        (true, _, _) => "untainted",
        (false, true, false) => "tainted",
        _ => "modified",
    };
    Ok((new, done))
}

/// Runs `kubectl taint`.
///
/// # Errors
/// Taints that are none, or that can't be set.
pub async fn run(ctx: &Context, args: TaintArgs) -> Result<(), Failure> {
    let (nodes, changes) = split(&args.arguments)?;
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?;
    let selection =
        Selection { label_selector: args.selector.as_deref(), all: args.all, ..Selection::default() };
    let mut failures = Vec::new();
    for target in builder::targets(ctx, &nodes, &FilenameFlags::default(), &selection).await? {
        let tainted = async {
            let mut node = target.get(ctx).await?;
            if node.kind() != "Node" {
                let kind = node.kind().to_lowercase();
                return Err(Failure::message(format!(
                    "invalid resource type {kind}, only node(s) is supported"
                )));
            }
            let old = node.get("/spec/taints").and_then(Value::as_array).cloned().unwrap_or_default();
            let (new, done) = change(&old, &changes, args.overwrite, &target.name)?;
            let taints = if new.is_empty() { Value::Null } else { new.into() };
            if dry_run == DryRun::Client {
                node.set("/spec/taints", taints);
                return print_result(ctx, output.as_ref(), &node, done, DryRun::None);
            }
            let query = request::query(&[
                ("dryRun", dry_run.query()),
                ("fieldManager", Some(args.field_manager.clone())),
                ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
            ]);
            let patch = json!({"spec": {"taints": taints}});
            let request = request::patch_at(&(target.path(None) + &query), PatchType::Strategic, &patch);
            let node: Object = ctx.client().await?.request(request).await?;
            // That it was a trial isn't said, as there.
            print_result(ctx, output.as_ref(), &node, done, DryRun::None)
        };
        if let Err(failure) = tainted.await {
            failures.push(failure);
        }
    }
    Failure::collect(failures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn taints_are_set_replaced_and_removed_by_key_and_effect() {
        let old = [json!({"key": "a", "value": "b", "effect": "NoSchedule"})];
        let run = |text: &str, overwrite| change(&old, &[parse(text).unwrap()], overwrite, "n1");
        let added = run("k=v:NoExecute", false).unwrap();
        assert_eq!((added.0.len(), added.1), (2, "tainted"));
        assert!(run("a=c:NoSchedule", false).is_err());
        let replaced = run("a=c:NoSchedule", true).unwrap();
        assert_eq!(
            (replaced.0, replaced.1),
            (vec![json!({"key": "a", "value": "c", "effect": "NoSchedule"})], "modified")
        );
        assert_eq!(run("a-", false).unwrap(), (Vec::new(), "untainted"));
        assert!(run("zz:NoSchedule-", false).is_err());
        assert!(parse("k=v").is_err() && parse("k=v:Never").is_err());
    }
}
