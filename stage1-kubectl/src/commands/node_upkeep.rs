//! `kubectl cordon`, `uncordon`, `drain`: a node is closed, opened, emptied.
//!
//! Draining asks for each pod's eviction instead of deleting it, so that a PodDisruptionBudget can say "not now". What must
//! not be evicted without being asked (pods of DaemonSets, pods with data on the node, pods that nobody will make again)
//! stops the drain before the first eviction.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/drain/drain.go`, `kubectl/pkg/drain/{drain,filters,cordon}.go`.
#![expect(clippy::disallowed_methods, reason = "shell: waits for pods to go")]

use std::time::Duration;

use clap::Args;
use http::Method;
use jiff::Timestamp;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::listing::{bare, list_all};
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, ListParams, PatchType};
use crate::resource::GroupVersionResource;
use crate::time::parse_duration;

/// The pause after a budget said no.
const EVICTION_RETRY: Duration = Duration::from_secs(5);
/// How often it is looked whether a pod is gone.
const GONE_INTERVAL: Duration = Duration::from_secs(1);

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
    if args.nodes.is_empty() && args.selector.is_none() {
        return Err(Failure::message(format!(
            "USAGE: {command} NODE [flags]\nSee 'kubectl {command} -h' for help and examples"
        )));
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
        ctx.client().await?.request::<Value>(request).await?;
    }
    ctx.print(&format!("node/{} {done}{}\n", node.name, dry_run.suffix()));
    Ok(())
}

/// What is done with a pod of the node.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Verdict {
    Evict,
    /// Evicted, with a warning.
    Warn(&'static str),
    /// Left where it is, perhaps with a warning.
    Skip(Option<&'static str>),
    /// Stops the drain.
    Refuse(&'static str),
}

/// Decides about one pod; `daemon_set` says whether its DaemonSet is still there.
// ANCHOR: drain-verdict
fn verdict(args: &DrainArgs, pod: &Object, daemon_set: Option<bool>, now: Timestamp) -> Verdict {
    let phase = pod.get_str("/status/phase").unwrap_or_default();
    let finished = matches!(phase, "Succeeded" | "Failed");
    let controlled = pod.owner_references().iter().any(|owner| owner.controller == Some(true));
    let volumes = pod.get("/spec/volumes").and_then(Value::as_array);
    let local = volumes.into_iter().flatten().any(|volume| volume.get("emptyDir").is_some());
    if pod.annotation("kubernetes.io/config.mirror").is_some() {
        return Verdict::Skip(None);
    }
    if args.skip_wait_for_delete_timeout > 0
        && let Some(going) =
            pod.get_str("/metadata/deletionTimestamp").and_then(|t| t.parse::<Timestamp>().ok())
        && now.duration_since(going).as_secs() > args.skip_wait_for_delete_timeout
    {
        return Verdict::Skip(None);
    }
    match daemon_set {
        Some(true) if args.ignore_daemonsets => {
            return Verdict::Skip(Some("ignoring DaemonSet-managed Pods"));
        }
        Some(true) => {
            return Verdict::Refuse("DaemonSet-managed Pods (use --ignore-daemonsets to ignore)");
        }
        Some(false) if !args.force => {
            return Verdict::Refuse("Pods declare no controller (use --force to override)");
        }
        _ => {}
    }
    let mut warning = None;
    if local && !finished {
        if !args.delete_emptydir_data {
            let why = "Pods with local storage (use --delete-emptydir-data to override)";
            return Verdict::Refuse(why);
        }
        warning = Some("deleting Pods with local storage");
    }
    if !controlled && !finished {
        if !args.force {
            let why = "cannot delete Pods that declare no controller (use --force to override)";
            return Verdict::Refuse(why);
        }
        warning = Some("deleting Pods that declare no controller");
    }
    warning.map_or(Verdict::Evict, Verdict::Warn)
}
// ANCHOR_END: drain-verdict

/// Runs `kubectl drain`.
///
/// # Errors
/// Nodes that couldn't be emptied.
pub async fn drain(ctx: &Context, args: DrainArgs) -> Result<(), Failure> {
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
                let reasons = match failure {
                    Failure::Several(failures) => failures.iter().map(reason).collect::<Vec<_>>(),
                    one => vec![reason(&one)],
                };
                let why = match reasons.as_slice() {
                    [one] => one.clone(),
                    several => format!("[{}]", several.join(", ")),
                };
                ctx.warn(&format!(
                    "error: unable to drain node {:?} due to error: {why}, continuing command...\n",
                    node.name
                ));
                failed.push((node.name.clone(), reasons.join("\n")));
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
    let pods = GroupVersionResource::new("", "v1", "pods");
    let params = ListParams {
        field_selector: Some(format!("spec.nodeName={node}")),
        label_selector: args.pod_selector.clone(),
        limit: Some(args.chunk_size).filter(|limit| *limit > 0),
        ..ListParams::default()
    };
    let mut chosen = Vec::new();
    let mut warned: Vec<(&'static str, Vec<String>)> = Vec::new();
    let mut refused: Vec<(&'static str, Vec<String>)> = Vec::new();
    for pod in list_all(ctx, &bare(&pods, true), None, &params).await? {
        let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name());
        match verdict(args, &pod, daemon_set(ctx, &pod).await?, Timestamp::now()) {
            Verdict::Evict => chosen.push(pod),
            Verdict::Warn(why) => {
                note(&mut warned, why, name);
                chosen.push(pod);
            }
            Verdict::Skip(Some(why)) => note(&mut warned, why, name),
            Verdict::Skip(None) => {}
            Verdict::Refuse(why) => note(&mut refused, why, name),
        }
    }
    let sentences = |list: &[(&str, Vec<String>)]| -> Vec<String> {
        list.iter().map(|(why, pods)| format!("{why}: {}", pods.join(", "))).collect()
    };
    if !refused.is_empty() {
        let why = sentences(&refused).into_iter().map(|why| Failure::message(format!("cannot delete {why}")));
        return Failure::collect(why.collect());
    }
    if !warned.is_empty() {
        ctx.warn(&format!("Warning: {}\n", sentences(&warned).join("; ")));
    }
    let timeout = parse_duration(&args.timeout).unwrap_or_default().unsigned_abs();
    let deadline = (!timeout.is_zero()).then(|| Instant::now() + timeout);
    let goings = chosen.iter().map(|pod| remove(ctx, args, pod, deadline));
    let results = futures::future::join_all(goings).await;
    Failure::collect(results.into_iter().filter_map(Result::err).collect())
}

/// A failure's text as one of several.
fn reason(failure: &Failure) -> String {
    let text = failure.report().0;
    text.strip_prefix("error: ").unwrap_or(&text).to_string()
}

fn note(list: &mut Vec<(&'static str, Vec<String>)>, why: &'static str, pod: String) {
    match list.iter_mut().find(|(known, _)| *known == why) {
        Some((_, pods)) => pods.push(pod),
        None => list.push((why, vec![pod])),
    }
}

/// Whether the pod is a DaemonSet's, and whether that is still there.
async fn daemon_set(ctx: &Context, pod: &Object) -> Result<Option<bool>, Failure> {
    let owner = pod.owner_references().into_iter().find(|owner| owner.controller == Some(true));
    let Some(owner) = owner.filter(|owner| owner.kind == "DaemonSet") else { return Ok(None) };
    let sets = GroupVersionResource::new("apps", "v1", "daemonsets");
    let path = sets.path(pod.namespace(), Some(&owner.name), None);
    match ctx.client().await?.request::<Value>(request::request(Method::GET, &path, None)).await {
        Ok(_) => Ok(Some(true)),
        Err(error) if error.is_not_found() => Ok(Some(false)),
        Err(error) => Err(error.into()),
    }
}

/// Evicts (or deletes) one pod and waits until it is gone.
async fn remove(
    ctx: &Context,
    args: &DrainArgs,
    pod: &Object,
    deadline: Option<Instant>,
) -> Result<(), Failure> {
    let (name, namespace) = (pod.name(), pod.namespace().unwrap_or_default());
    let dry_run = DryRun::parse(&args.nodes.dry_run)?;
    let (verb, done) = if args.disable_eviction { ("deleting", "deleted") } else { ("evicting", "evicted") };
    ctx.print(&format!("{verb} pod {namespace}/{name}{}\n", dry_run.suffix()));
    if dry_run == DryRun::Client {
        return Ok(());
    }
    let pods = GroupVersionResource::new("", "v1", "pods");
    let path = pods.path(Some(namespace), Some(name), None);
    let mut options = json!({});
    if args.grace_period >= 0 {
        options["gracePeriodSeconds"] = args.grace_period.into();
    }
    if dry_run == DryRun::Server {
        options["dryRun"] = json!(["All"]);
    }
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction",
        "metadata": {"name": name, "namespace": namespace}, "deleteOptions": options});
    let client = ctx.client().await?;
    loop {
        let request = match args.disable_eviction {
            true => request::request(Method::DELETE, &path, Some(&options)),
            false => request::request(Method::POST, &format!("{path}/eviction"), Some(&eviction)),
        };
        match client.request::<Value>(request).await {
            Ok(_) => break,
            Err(error) if error.is_not_found() => break,
            // The budget has no room now; it may have later.
            Err(ClientError::Api(status)) if status.code == 429 => {
                let why = status.message;
                ctx.warn(&format!(
                    "error when evicting pods/{name:?} -n {namespace:?} (will retry after 5s): {why}\n"
                ));
            }
            Err(error) => {
                let why = Failure::from(error).report().0;
                return Err(Failure::message(format!(
                    "error when {verb} pods/{name:?} -n {namespace:?}: {why}"
                )));
            }
        }
        pause(EVICTION_RETRY, deadline, name).await?;
    }
    if dry_run == DryRun::None {
        wait_until_gone(ctx, pod, &path, deadline).await?;
    }
    ctx.print(&format!("pod/{name} {done}{}\n", dry_run.suffix()));
    Ok(())
}

async fn wait_until_gone(
    ctx: &Context,
    pod: &Object,
    path: &str,
    deadline: Option<Instant>,
) -> Result<(), Failure> {
    loop {
        match ctx.client().await?.request::<Object>(request::request(Method::GET, path, None)).await {
            Ok(there) if there.uid() == pod.uid() => pause(GONE_INTERVAL, deadline, pod.name()).await?,
            Ok(_) => return Ok(()),
            Err(error) if error.is_not_found() => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}

async fn pause(time: Duration, deadline: Option<Instant>, pod: &str) -> Result<(), Failure> {
    if deadline.is_some_and(|deadline| Instant::now() + time > deadline) {
        return Err(Failure::message(format!(
            "drain did not complete within the given time: pod {pod} is still there"
        )));
    }
    sleep(time).await;
    Ok(())
}
