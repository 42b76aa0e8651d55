//! `kubectl run`: makes one pod from an image, perhaps with a Service, and perhaps stays connected with it.
//!
//! The pod is a value made from the flags ([`pod`]); what is done with it stands in [`run`].
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/run/run.go`; without effect there too: `--wait` (`--rm` doesn't wait). Left out: `--attach` of pods that restart, `--schedule` and other generators of old.

use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};

use super::DryRun;
use super::builder::FilenameFlags;
use super::create::{print_result, saved};
use super::delete::DeletionFlags;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::patch;
use crate::printers::{Output, PrintFlags, Printer, zero_values};
use crate::request::{self, query};
use crate::resource::GroupVersionKind;

mod attached;

/// Flags of `kubectl run`.
#[derive(Debug, Args)]
pub struct RunArgs {
    /// NAME, then `--` and arguments (or, with --command, the command).
    #[arg(num_args = 0..)]
    pub arguments: Vec<String>,
    /// The image for the container to run.
    #[arg(long, default_value = "")]
    pub image: String,
    /// Environment variables to set in the container.
    #[arg(long)]
    pub env: Vec<String>,
    /// The port that this container exposes.
    #[arg(long)]
    pub port: Option<u16>,
    /// Comma separated labels to apply to the pod.
    #[arg(short = 'l', long)]
    pub labels: Option<String>,
    /// Annotations to apply to the pod.
    #[arg(long)]
    pub annotations: Vec<String>,
    /// The restart policy for this Pod: [Always, OnFailure, Never].
    #[arg(long, default_value = "Always")]
    pub restart: String,
    /// The image pull policy for the container.
    #[arg(long)]
    pub image_pull_policy: Option<String>,
    /// If true and extra arguments are present, use them as the 'command' field in the container.
    #[arg(long)]
    pub command: bool,
    /// If true, run the container in privileged mode.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub privileged: bool,
    /// If true, create a ClusterIP service associated with the pod. Requires --port.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub expose: bool,
    /// An inline JSON override for the generated object.
    #[arg(long)]
    pub overrides: Option<String>,
    /// The method used to override the generated object: json, merge, or strategic.
    #[arg(long, default_value = "merge")]
    pub override_type: String,
    /// Keep stdin open on the container in the pod, even if nothing is attached.
    #[arg(short = 'i', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub stdin: bool,
    /// Allocate a TTY for the container in the pod.
    #[arg(short = 't', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub tty: bool,
    /// If true, wait for the Pod to start running, and then attach to the Pod.
    #[arg(long, num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub attach: Option<bool>,
    /// If true, delete the pod after it exits.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub rm: bool,
    /// If the pod is started in interactive mode or with stdin, leave stdin open after the first attach completes.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub leave_stdin_open: bool,
    /// If true, suppress prompt messages.
    #[arg(short = 'q', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub quiet: bool,
    /// The length of time to wait until at least one pod is running.
    #[arg(long, default_value = "1m0s")]
    pub pod_running_timeout: String,
    /// If true, the configuration of current object will be saved in its annotation.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub save_config: bool,
    /// Files (of objects that --rm deletes with the pod).
    #[command(flatten)]
    pub files: FilenameFlags,
    /// If true, wait for resources to be gone before returning. This waits for finalizers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub wait: bool,
    /// How the pod is deleted, with --rm.
    #[command(flatten)]
    pub deletion: DeletionFlags,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-run")]
    pub field_manager: String,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// Runs `kubectl run`.
///
/// # Errors
/// Flags that don't fit together, the server refused, or the attached container failed.
pub async fn run(ctx: &Context, args: RunArgs) -> Result<(), Failure> {
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?.map(Printer::typed);
    check(&args, dry_run)?;
    let pod = pod(&args)?;
    if let Some(port) = args.port.filter(|_| args.expose) {
        let service = service(&pod, port)?;
        let services = crate::resource::of::<k8s_openapi::api::core::v1::Service>();
        let service = post(ctx, &args, dry_run, &services, service).await?;
        print_result(ctx, output.as_ref(), &service, "created", dry_run)?;
        if output.as_ref().is_some_and(|printer| printer.form == Output::Yaml) {
            ctx.print("---\n---\n");
        }
    }
    let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
    let created = post(ctx, &args, dry_run, &pods, pod).await?;
    if args.attaches() {
        return attached::follow(ctx, &args, &created).await;
    }
    print_result(ctx, output.as_ref(), &created, "created", dry_run)
}

impl RunArgs {
    /// `-i` attaches unless `--attach=false` says otherwise.
    fn attaches(&self) -> bool {
        self.attach.unwrap_or(self.stdin)
    }
}

async fn post(
    ctx: &Context,
    args: &RunArgs,
    dry_run: DryRun,
    resource: &crate::resource::ApiResource,
    object: Object,
) -> Result<Object, Failure> {
    if dry_run == DryRun::Client {
        return Ok(object);
    }
    let object = Object::from_value(saved(object.into_value(), args.save_config)?)
        .map_err(|e| Failure::message(e.to_string()))?;
    let query = query(&[("dryRun", dry_run.query()), ("fieldManager", Some(args.field_manager.clone()))]);
    let namespace = object.namespace().map_or_else(|| ctx.namespace(), String::from);
    let path = resource.path(Some(&namespace), None, None) + &query;
    ctx.step(&object, "POST", "run");
    Ok(ctx.client().await?.request(request::request(Method::POST, &path, Some(object.as_value()))).await?)
}

/// A mistake in the flags, with the hint that goes with it.
fn usage(text: &str) -> Failure {
    Failure::message(format!("{text}\nSee 'kubectl run -h' for help and examples"))
}

/// Whether the flags fit together.
fn check(args: &RunArgs, dry_run: DryRun) -> Result<(), Failure> {
    if args.arguments.is_empty() {
        return Err(usage("NAME is required for run"));
    }
    if args.image.is_empty() {
        return Err(Failure::message("required flag(s) \"image\" not set"));
    }
    if !is_image(&args.image) {
        let why = format!("Invalid image name {:?}: invalid reference format", args.image);
        return Err(Failure::message(why));
    }
    if args.tty && !args.stdin {
        return Err(usage("-i/--stdin is required for containers with -t/--tty=true"));
    }
    if args.expose && args.port.is_none() {
        return Err(usage("--port must be set when exposing a service"));
    }
    if args.rm && !args.attaches() {
        return Err(usage("--rm should only be used for attached containers"));
    }
    if args.attaches() && dry_run != DryRun::None {
        return Err(usage(
            "--dry-run=[server|client] can't be used with attached containers options (--attach, --stdin, or --tty)",
        ));
    }
    match args.restart.as_str() {
        "Always" | "OnFailure" | "Never" => Ok(()),
        other => Err(usage(&format!("invalid restart policy: {other}"))),
    }
}

/// Whether a text can name an image: `[host[:port]/]path[:tag][@digest]`.
pub(super) fn is_image(text: &str) -> bool {
    let word = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*";
    let host = r"(?:(?:[a-zA-Z0-9][a-zA-Z0-9.-]*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?/)?";
    let pattern =
        format!(r"^{host}{word}(?:/{word})*(?::[\w][\w.-]{{0,127}})?(?:@[a-z0-9+._-]+:[0-9a-fA-F]{{32,}})?$");
    regex::Regex::new(&pattern).expect("a constant pattern").is_match(text)
}

/// The Service for a pod: it selects the pod's labels.
fn service(pod: &Object, port: u16) -> Result<Object, Failure> {
    let ports = json!([{"port": port, "protocol": "TCP", "targetPort": port}]);
    let mut service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": pod.name()},
        "spec": {"ports": ports, "selector": pod.labels()},
    });
    zero_values::fill(&mut service);
    Object::from_value(service).map_err(|e| Failure::message(e.to_string()))
}

fn pairs<'a>(list: impl Iterator<Item = &'a str>) -> Map<String, Value> {
    list.filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_string(), v.into())).collect()
}

/// The pod that the flags describe.
fn pod(args: &RunArgs) -> Result<Object, Failure> {
    let (name, extra) = args.arguments.split_first().expect("checked before: there is a name");
    let labels = match &args.labels {
        Some(text) => pairs(text.split(',')),
        None => pairs([format!("run={name}").as_str()].into_iter()),
    };
    let mut container = json!({"image": args.image, "name": name});
    if !extra.is_empty() {
        container[if args.command { "command" } else { "args" }] = json!(extra);
    }
    if let Some(bad) = args.env.iter().find(|one| one.find('=').is_none_or(|at| at == 0)) {
        return Err(Failure::message(format!("invalid env: {bad}")));
    }
    if !args.env.is_empty() {
        let env = args.env.iter().filter_map(|e| e.split_once('='));
        container["env"] = env.map(|(name, value)| json!({"name": name, "value": value})).collect();
    }
    if let Some(port) = args.port {
        container["ports"] = json!([{"containerPort": port}]);
    }
    if let Some(policy) = &args.image_pull_policy {
        container["imagePullPolicy"] = policy.clone().into();
    }
    if args.privileged {
        container["securityContext"] = json!({"privileged": true});
    }
    if args.stdin {
        container["stdin"] = true.into();
        if !args.leave_stdin_open {
            container["stdinOnce"] = true.into();
        }
    }
    if args.tty {
        container["tty"] = true.into();
    }
    let mut metadata = json!({"labels": labels, "name": name});
    if !args.annotations.is_empty() {
        metadata["annotations"] = Value::Object(pairs(args.annotations.iter().map(String::as_str)));
    }
    let spec = json!({"containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": args.restart});
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec});
    if let Some(text) = &args.overrides {
        override_with(&mut pod, text, &args.override_type, &GroupVersionKind::new("", "v1", "Pod"))?;
    }
    zero_values::fill(&mut pod);
    Object::from_value(pod).map_err(|e| Failure::message(e.to_string()))
}

/// Changes a made object by a patch of one of the three kinds.
pub(super) fn override_with(
    pod: &mut Value,
    text: &str,
    override_type: &str,
    gvk: &GroupVersionKind,
) -> Result<(), Failure> {
    let overrides: Value = serde_json::from_str(text)
        .or_else(|_| serde_yaml::from_str(text))
        .map_err(|e| Failure::message(format!("invalid override: {e}")))?;
    match override_type {
        "json" => Ok(patch::apply_json_patch(pod, &overrides)?),
        "merge" => {
            patch::apply_merge_patch(pod, &overrides);
            Ok(())
        }
        "strategic" => Ok(patch::apply_strategic(pod, &overrides, gvk)?),
        other => Err(usage(&format!("invalid override type: {other}"))),
    }
}
