//! `kubectl debug`: a container with tools beside one without, a changed copy of a pod, or a pod that sees a whole node.
//!
//! *After a pod's journey*, when the container has no shell. Three ways: an *ephemeral container* is added to the running pod (the only
//! change of `spec` that a running pod takes, through a subresource of its own); `--copy-to` makes a second pod with other images or
//! another command; for a node, a pod is bound to it that shares its namespaces and has its disk under `/host`.
//!
//! What is made is decided in [`pod`] and [`profile`], from the flags and the live object; this file reads the flags and sends.
//!
//! # Invariants
//! 1. The debugged pod's own containers are never changed.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/debug/{debug,profiles}.go`. Left out: nodes of Windows.
#![expect(
    clippy::disallowed_methods,
    reason = "shell: names get random suffixes, a profile stands in a file"
)]

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::attach;
use super::builder::{self, FilenameFlags, Selection, Target};
use super::create::generate::workload::random_suffix;
use super::exec::StreamFlags;
use super::logs;
use super::until::until;
use crate::context::Context;
use crate::failure::Failure;
use crate::manifest;
use crate::object::Object;
use crate::patch::three_way;
use crate::request::{self, PatchType};

mod pod;
mod profile;

use profile::Profile;

/// Flags of `kubectl debug`.
#[derive(Debug, Clone, Default, Args)]
pub struct DebugArgs {
    /// POD or TYPE/NAME ….
    pub targets: Vec<String>,
    /// The command, behind `--`.
    #[arg(last = true)]
    pub command: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// If specified, everything after -- will be passed to the new container as Args instead of Command.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub arguments_only: bool,
    /// If true, wait for the container to start running, and then attach.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub attach: Option<bool>,
    /// Container name to use for debug container.
    #[arg(short = 'c', long, default_value = "", hide_default_value = true)]
    pub container: String,
    /// Create a copy of the target Pod with this name.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub copy_to: String,
    /// When used with '--copy-to', delete the original Pod.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub replace: bool,
    /// Environment variables to set in the container.
    #[arg(long, value_delimiter = ',')]
    pub env: Vec<String>,
    /// Container image to use for debug container.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub image: String,
    /// The image pull policy for the container.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub image_pull_policy: String,
    /// If true, suppress informational messages.
    #[arg(short = 'q', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub quiet: bool,
    /// When used with '--copy-to', schedule the copy of target Pod on the same node.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub same_node: bool,
    /// When used with '--copy-to', a list of name=image pairs for changing container images.
    #[arg(long, value_delimiter = ',')]
    pub set_image: Vec<String>,
    /// When used with '--copy-to', enable process namespace sharing in the copy.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub share_processes: Option<bool>,
    /// Keep stdin open on the container(s) in the pod, even if nothing is attached.
    #[arg(short = 'i', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub stdin: bool,
    /// Allocate a TTY for the debugging container.
    #[arg(short = 't', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub tty: bool,
    /// When using an ephemeral container, target processes in this container name.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub target: String,
    /// Options are "legacy", "general", "baseline", "netadmin", "restricted" or "sysadmin".
    #[arg(id = "profile", long, default_value = "legacy")]
    pub profile: String,
    /// Path to a JSON or YAML file containing a partial container spec to customize built-in debug profiles.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub custom: String,
    /// What a copy keeps.
    #[command(flatten)]
    pub keep: profile::KeepFlags,
}

/// Runs `kubectl debug`.
///
/// # Errors
/// Flags that don't fit together, or what the server refused.
pub async fn run(ctx: &Context, args: DebugArgs) -> Result<(), Failure> {
    let set_images = pairs("set-image", &args.set_image)?;
    pairs("env", &args.env)?;
    pod::check(&args, &set_images)?;
    let profile = Profile::parse(&args.profile).map_err(Failure::message)?;
    if !args.target.is_empty() && !args.quiet {
        ctx.print(&format!("Targeting container {:?}. If you don't see processes from this container it may be because the container runtime doesn't support this feature.\n", args.target));
    }
    let custom = custom_profile(&args.custom)?;
    if profile == Profile::Legacy {
        ctx.warn("--profile=legacy is deprecated and will be removed in the future. It is recommended to explicitly specify a profile, for example \"--profile=general\".\n");
    }
    // Without a type, a name is a pod's.
    let mut words = args.targets.clone();
    if words.first().is_some_and(|first| !first.contains('/')) {
        words.insert(0, "pods".into());
    }
    let (plan, mut failures) = (pod::Plan { args: &args, profile, custom, set_images }, Vec::new());
    for target in builder::targets(ctx, &words, &args.files, &Selection::default()).await? {
        if let Err(failure) = debug(ctx, &plan, &target).await {
            failures.push(failure);
        }
    }
    Failure::collect(failures)
}

/// `key=value` pairs.
fn pairs(flag: &str, list: &[String]) -> Result<Vec<(String, String)>, Failure> {
    let pair = |text: &String| match text.split_once('=') {
        Some((key, value)) => Ok((key.to_string(), value.to_string())),
        None => Err(Failure::message(format!(
            "invalid argument {text:?} for \"--{flag}\" flag: {text} must be formatted as key=value\nSee 'kubectl debug --help' for usage."
        ))),
    };
    list.iter().map(pair).collect()
}

fn custom_profile(file: &str) -> Result<Option<Value>, Failure> {
    if file.is_empty() {
        return Ok(None);
    }
    let text = std::fs::read_to_string(file).map_err(|e| {
        Failure::message(format!(
            "must pass a valid container spec json or yaml file for custom profile: {e}"
        ))
    })?;
    let found = manifest::documents(&text, file).ok().and_then(|mut list| list.pop());
    let found = found
        .filter(Value::is_object)
        .ok_or_else(|| Failure::message(format!("{file} does not contain a valid container spec")))?;
    let fixed = ["name", "command", "image", "lifecycle", "volumeDevices"];
    match fixed.iter().any(|field| found.get(field).is_some()) {
        true => Err(Failure::message(
            "name, command, image, lifecycle and volume devices are not modifiable via custom profile",
        )),
        false => Ok(Some(found)),
    }
}

async fn debug(ctx: &Context, plan: &pod::Plan<'_>, target: &Target) -> Result<(), Failure> {
    let args = plan.args;
    let live = target.get(ctx).await?;
    let mut suffix = || random_suffix(&mut rand::rng());
    let (debugged, container) = match live.kind() {
        "Node" => {
            let made = plan.for_node(&live, &suffix()).map_err(Failure::message)?;
            let container = made.get_str("/spec/containers/0/name").unwrap_or_default().to_string();
            if !args.quiet {
                let (name, node) = (made.name(), live.name());
                ctx.print(&format!(
                    "Creating debugging pod {name} with container {container} on node {node}.\n"
                ));
            }
            (create(ctx, &ctx.namespace(), &made).await?, container)
        }
        "Pod" if !args.copy_to.is_empty() => {
            let (made, container) = plan.copy(&live, || defaulted(ctx, plan, &live, &mut suffix))?;
            let created = create(ctx, live.namespace().unwrap_or_default(), &made).await?;
            if args.replace {
                let at_once = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0});
                let delete = request::typed(Method::DELETE, &target.path(None), &at_once);
                ctx.client().await?.request::<Value>(delete).await?;
            }
            (created, container)
        }
        "Pod" => {
            let container = defaulted(ctx, plan, &live, &mut suffix);
            let after = plan.with_ephemeral_container(&live, &container).map_err(Failure::message)?;
            (add(ctx, target, &live, &after).await?, container)
        }
        _ => {
            let gvk = live.gvk();
            let why = format!("\"{}/{}, Kind={}\" not supported by debug", gvk.group, gvk.version, gvk.kind);
            return Err(Failure::message(why));
        }
    };
    if args.attach.unwrap_or(args.stdin) && !container.is_empty() {
        return stay(ctx, args, &debugged, &container).await;
    }
    Ok(())
}

/// The given name, or one that no container of the pod has.
fn defaulted(
    ctx: &Context,
    plan: &pod::Plan<'_>,
    pod: &Object,
    suffix: &mut impl FnMut() -> String,
) -> String {
    if !plan.args.container.is_empty() {
        return plan.args.container.clone();
    }
    let name = loop {
        let name = format!("debugger-{}", suffix());
        if !pod::has_container(pod, &name) {
            break name;
        }
    };
    if !plan.args.quiet {
        ctx.print(&format!("Defaulting debug container name to {name}.\n"));
    }
    name
}

async fn create(ctx: &Context, namespace: &str, pod: &Object) -> Result<Object, Failure> {
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    ctx.step(pod, "POST", "debug");
    let request = request::typed(Method::POST, &pods.path(Some(namespace), None, None), pod.as_value());
    Ok(ctx.client().await?.request(request).await?)
}

/// Adds the ephemeral container.
async fn add(ctx: &Context, target: &Target, before: &Object, after: &Object) -> Result<Object, Failure> {
    let patch = three_way(before.as_value(), after.as_value(), before.as_value(), &before.gvk())?;
    let path = target.path(Some("ephemeralcontainers"));
    let request = request::patch_at(&path, PatchType::Strategic, &patch);
    ctx.step(after, "PATCH ephemeralcontainers", "debug: a running pod takes no other new container");
    ctx.client().await?.request(request).await.map_err(|error| match error.status() {
        // The pod is there; what is missing is the subresource.
        Some(status) if error.is_not_found() && status.details.as_ref().is_none_or(|d| d.name.is_empty()) => {
            Failure::message(format!(
                "ephemeral containers are disabled for this cluster (error from server: {:?})",
                status.message
            ))
        }
        _ => error.into(),
    })
}

/// Waits until the container runs and attaches; its log is shown where it is over already.
async fn stay(ctx: &Context, args: &DebugArgs, pod: &Object, container: &str) -> Result<(), Failure> {
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let missing = || Failure::message(format!("pods {:?} not found", pod.name()));
    let (live, over) = until(ctx, &pods, pod.namespace(), pod.name(), |live| {
        let live = live.ok_or_else(missing)?;
        Ok(pod::container_runs(live, container).map(|runs| (live.clone(), !runs)))
    })
    .await?;
    if over {
        return logs::print(ctx, &live, container).await;
    }
    let flags = StreamFlags {
        container: container.to_string(),
        stdin: args.stdin,
        tty: args.tty,
        quiet: args.quiet,
        pod_running_timeout: String::new(),
    };
    attach::or_log(ctx, &live, &flags).await
}
