//! `kubectl cordon`, `uncordon`, `drain`: a node is closed, opened, emptied.
//!
//! Draining asks for each pod's eviction instead of deleting it, so that a PodDisruptionBudget can say "not now". What must
//! not be evicted without being asked (pods of DaemonSets, pods with data on the node, pods that nobody will make again)
//! stops the drain before the first eviction.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/drain/drain.go`, `kubectl/pkg/drain/{drain,filters,cordon}.go`.
#![expect(clippy::disallowed_methods, reason = "shell: waits for pods to go")]

use std::borrow::Cow;

use clap::Args;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::listing::{bare, list_all};
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, ListParams, PatchType};
use crate::resource::GroupVersionResource;
use crate::selector::LabelSelector;

mod evict;
mod verdict;

use verdict::{Verdict, verdict};

/// Flags of `kubectl cordon` and `kubectl uncordon`.
#[derive(Debug, Args)]
pub struct CordonArgs {
    /// The nodes.
    pub nodes: Vec<String>,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// Flags of `kubectl drain`.
#[derive(Debug, Args)]
pub struct DrainArgs {
    /// The nodes.
    #[command(flatten)]
    pub nodes: CordonArgs,
    /// Continue even if there are pods that do not declare a controller.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub force: bool,
    /// Ignore DaemonSet-managed pods.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub ignore_daemonsets: bool,
    /// Continue even if there are pods using emptyDir.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub delete_emptydir_data: bool,
    /// Force drain to use delete, even if eviction is supported.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub disable_eviction: bool,
    /// Period of time in seconds given to each pod to terminate gracefully; negative: the pod's own.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub grace_period: i64,
    /// The length of time to wait before giving up, zero means infinite.
    #[arg(long, default_value = "0s")]
    pub timeout: String,
    /// Return large lists in chunks rather than all at once. Pass 0 to disable.
    #[arg(long, default_value_t = 500)]
    pub chunk_size: u32,
    /// If pod DeletionTimestamp older than N seconds, skip waiting for the pod. Seconds must be greater than 0 to skip.
    #[arg(long, default_value_t = 0)]
    pub skip_wait_for_delete_timeout: i64,
    /// Label selector to filter pods on the node.
    #[arg(long)]
    pub pod_selector: Option<String>,
}

/// Runs `kubectl cordon` (closed) or `kubectl uncordon`.
///
/// # Errors
/// A node that isn't there.
pub async fn cordon(ctx: &Context, args: CordonArgs, closed: bool) -> Result<(), Failure> {
    let mut failures = Vec::new();
    for node in nodes(ctx, &args, if closed { "cordon" } else { "uncordon" }).await? {
        if let Err(failure) = mark(ctx, &args, &node, closed).await {
            failures.push(failure);
        }
    }
    Failure::collect(failures)
}

async fn nodes(ctx: &Context, args: &CordonArgs, command: &str) -> Result<Vec<Target>, Failure> {
    let hint = format!("See 'kubectl {command} -h' for help and examples");
    if args.nodes.is_empty() && args.selector.is_none() {
        return Err(Failure::message(format!("USAGE: {command} NODE [flags]\n{hint}")));
    }
    if !args.nodes.is_empty() && args.selector.is_some() {
        let why = "error: cannot specify both a node name and a --selector option";
        return Err(Failure::message(format!("{why}\n{hint}")));
    }
    let mut words: Vec<String> =
        args.nodes.iter().map(|node| node.trim_start_matches("node/").to_string()).collect();
    words.insert(0, "nodes".into());
    let selection = Selection { label_selector: args.selector.as_deref(), ..Selection::default() };
    builder::targets(ctx, &words, &FilenameFlags::default(), &selection).await
}

async fn mark(ctx: &Context, args: &CordonArgs, node: &Target, closed: bool) -> Result<(), Failure> {
    let dry_run = DryRun::parse(&args.dry_run)?;
    let live = node.get(ctx).await?;
    let done = if closed { "cordoned" } else { "uncordoned" };
    let is_closed = live.get("/spec/unschedulable").and_then(Value::as_bool).unwrap_or(false);
    if is_closed == closed {
        ctx.print(&format!("node/{} already {done}{}\n", node.name, dry_run.suffix()));
        return Ok(());
    }
    if dry_run != DryRun::Client {
        let value = if closed { json!(true) } else { Value::Null };
        let patch = json!({"spec": {"unschedulable": value}});
        let path = node.path(None) + &request::query(&[("dryRun", dry_run.query())]);
        let request = request::patch_at(&path, PatchType::Strategic, &patch);
        if let Err(error) = ctx.client().await?.request::<Value>(request).await {
            // Told, and no failure of the command, as there.
            let verb = if closed { "cordon" } else { "uncordon" };
            ctx.warn(&format!("error: unable to {verb} node {:?}: {error}\n", node.name));
            return Ok(());
        }
    }
    ctx.print(&format!("node/{} {done}{}\n", node.name, dry_run.suffix()));
    Ok(())
}

/// Runs `kubectl drain`.
///
/// # Errors
/// Nodes that couldn't be emptied.
pub async fn drain(ctx: &Context, args: DrainArgs) -> Result<(), Failure> {
    if args.pod_selector.as_ref().is_some_and(|text| LabelSelector::parse(text).is_err()) {
        return Err(Failure::message("--pod-selector=<pod_selector> must be a valid label selector"));
    }
    let nodes = nodes(ctx, &args.nodes, "drain").await?;
    for node in &nodes {
        mark(ctx, &args.nodes, node, true).await?;
    }
    let mut failed: Vec<(String, String)> = Vec::new();
    for node in &nodes {
        match empty(ctx, &args, &node.name).await {
            Ok(()) => ctx.print(&format!(
                "node/{} drained{}\n",
                node.name,
                DryRun::parse(&args.nodes.dry_run)?.suffix()
            )),
            Err(failure) => {
                let why = told(&failure);
                ctx.warn(&format!(
                    "error: unable to drain node {:?} due to error: {why}, continuing command...\n",
                    node.name
                ));
                failed.push((node.name.clone(), reasons(&failure).join("\n")));
            }
        }
    }
    if failed.is_empty() {
        return Ok(());
    }
    let pending: String = failed.iter().map(|(node, _)| format!(" {node}\n")).collect();
    ctx.warn(&format!("There are pending nodes to be drained:\n{pending}"));
    let reasons: Vec<String> = failed.into_iter().map(|(_, why)| why).collect();
    Err(Failure::Exit { code: 1, message: reasons.join("\n") })
}

/// Evicts what may be evicted from one node.
async fn empty(ctx: &Context, args: &DrainArgs, node: &str) -> Result<(), Failure> {
    let chosen = choose(ctx, args, node).await?;
    if !chosen.refused.is_empty() {
        return Failure::collect(chosen.refused);
    }
    if !chosen.warnings.is_empty() {
        ctx.warn(&format!("Warning: {}\n", chosen.warnings));
    }
    let Err(failure) = evict::all(ctx, args, &chosen.pods).await else { return Ok(()) };
    // What is still there is told; it may have become less by now.
    let pending = choose(ctx, args, node).await?;
    if !pending.pods.is_empty() {
        let why = told(&failure);
        ctx.warn(&format!("There are pending pods in node {node:?} when an error occurred: {why}\n"));
        for pod in &pending.pods {
            ctx.warn(&format!("pod/{}\n", pod.name()));
        }
    }
    Err(failure)
}

/// What is to be done on a node.
struct Chosen {
    pods: Vec<Object>,
    warnings: String,
    refused: Vec<Failure>,
}

async fn choose(ctx: &Context, args: &DrainArgs, node: &str) -> Result<Chosen, Failure> {
    let resource = GroupVersionResource::new("", "v1", "pods");
    let params = ListParams {
        field_selector: Some(format!("spec.nodeName={node}")),
        label_selector: args.pod_selector.clone(),
        limit: Some(args.chunk_size).filter(|limit| *limit > 0),
        ..ListParams::default()
    };
    let mut pods = Vec::new();
    let (mut warned, mut refused) = (Noted::new(), Noted::new());
    for pod in list_all(ctx, &bare(&resource, true), None, &params).await? {
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name());
        match verdict(args, &pod, daemon_set(ctx, &pod).await?, Timestamp::now()) {
            Verdict::Evict => pods.push(pod),
            Verdict::Warn(why) => {
                note(&mut warned, why, name);
                pods.push(pod);
            }
            Verdict::Skip(Some(why)) => note(&mut warned, why, name),
            Verdict::Skip(None) => {}
            Verdict::Refuse(why) => note(&mut refused, why, name),
        }
    }
    let sentences = |list: &Noted| {
        list.iter().map(|(why, pods)| format!("{why}: {}", pods.join(", "))).collect::<Vec<_>>()
    };
    let refused =
        sentences(&refused).into_iter().map(|why| Failure::message(format!("cannot delete {why}"))).collect();
    Ok(Chosen { pods, warnings: sentences(&warned).join("; "), refused })
}

/// The text of one failure, or of several as one.
fn told(failure: &Failure) -> String {
    match reasons(failure).as_slice() {
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    }
}

fn reasons(failure: &Failure) -> Vec<String> {
    match failure {
        Failure::Several(failures) => failures.iter().map(reason).collect(),
        one => vec![reason(one)],
    }
}

/// A failure's text as one of several.
fn reason(failure: &Failure) -> String {
    let text = failure.report().0;
    text.strip_prefix("error: ").unwrap_or(&text).to_string()
}

/// Words, and the pods that they are about.
type Noted = Vec<(Cow<'static, str>, Vec<String>)>;

fn note(list: &mut Noted, why: Cow<'static, str>, pod: String) {
    match list.iter_mut().find(|(known, _)| *known == why) {
        Some((_, pods)) => pods.push(pod),
        None => list.push((why, vec![pod])),
    }
}

/// Looks for the DaemonSet that controls a pod, if one does.
async fn daemon_set(ctx: &Context, pod: &Object) -> Result<Option<Result<(), String>>, Failure> {
    let owner = pod.owner_references().into_iter().find(|owner| owner.controller == Some(true));
    let Some(owner) = owner.filter(|owner| owner.kind == "DaemonSet") else { return Ok(None) };
    let sets = GroupVersionResource::new("apps", "v1", "daemonsets");
    let path = sets.path(pod.namespace(), Some(&owner.name), None);
    match ctx.client().await?.request::<Value>(request::request(Method::GET, &path, None)).await {
        Ok(_) => Ok(Some(Ok(()))),
        Err(ClientError::Api(status)) if status.code == 404 => Ok(Some(Err(status.message))),
        Err(error) => Err(error.into()),
    }
}
