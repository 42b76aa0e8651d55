//! `kubectl run`: makes one pod from an image.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/run/run.go`. Left out: `-it`, `--rm`, `--expose`, `--overrides`.

use clap::Args;
use http::Method;
use serde_json::{Map, Value, json};

use super::DryRun;
use super::create::print_result;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::Output;
use crate::request::{self, query};

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
    /// Output format.
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
}

/// Runs `kubectl run`.
///
/// # Errors
/// No name or image, or the server refused.
pub async fn run(ctx: &Context, args: RunArgs) -> Result<(), Failure> {
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = (!args.output.is_empty()).then(|| Output::parse(&args.output)).transpose()?;
    let pod = pod(&args)?;
    let created = match dry_run {
        DryRun::Client => pod,
        _ => {
            let pods = crate::resource::of::<k8s_openapi::api::core::v1::Pod>();
            let query = query(&[("dryRun", dry_run.query()), ("fieldManager", Some("kubectl-run".into()))]);
            let path = pods.path(Some(&ctx.namespace()), None, None) + &query;
            ctx.client().await?.request(request::request(Method::POST, &path, Some(pod.as_value()))).await?
        }
    };
    print_result(ctx, output.as_ref(), &created, "created", dry_run)
}

/// The pod that the flags describe.
fn pod(args: &RunArgs) -> Result<Object, Failure> {
    let Some((name, extra)) = args.arguments.split_first() else {
        return Err(Failure::message("NAME is required for run"));
    };
    if args.image.is_empty() {
        return Err(Failure::message("required flag(s) \"image\" not set"));
    }
    let pairs = |list: &mut dyn Iterator<Item = &str>| -> Map<String, Value> {
        list.filter_map(|pair| pair.split_once('=')).map(|(k, v)| (k.to_string(), v.into())).collect()
    };
    let labels = match &args.labels {
        Some(text) => pairs(&mut text.split(',')),
        None => pairs(&mut [format!("run={name}").as_str()].into_iter()),
    };
    let mut container = json!({"image": args.image, "name": name, "resources": {}});
    if !extra.is_empty() {
        container[if args.command { "command" } else { "args" }] = json!(extra);
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
    let mut metadata = json!({"creationTimestamp": null, "labels": labels, "name": name});
    if !args.annotations.is_empty() {
        metadata["annotations"] = Value::Object(pairs(&mut args.annotations.iter().map(String::as_str)));
    }
    let spec = json!({"containers": [container], "dnsPolicy": "ClusterFirst", "restartPolicy": args.restart});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec, "status": {}});
    Object::from_value(pod).map_err(|e| Failure::message(e.to_string()))
}
