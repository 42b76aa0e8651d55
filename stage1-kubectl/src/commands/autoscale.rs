//! `kubectl autoscale`: makes a HorizontalPodAutoscaler for a workload.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/autoscale/autoscale.go`.

use clap::Args;
use http::Method;
use serde_json::{Value, json};

use super::DryRun;
use super::builder::{self, FilenameFlags, Selection};
use super::create::{print_result, saved};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers::{PrintFlags, Printer};
use crate::request::{self, query};
use crate::resource::GroupVersionResource;

/// Flags of `kubectl autoscale`.
#[derive(Debug, Args)]
pub struct AutoscaleArgs {
    /// TYPE NAME or TYPE/NAME.
    pub arguments: Vec<String>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// The lower limit for the number of pods.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub min: i32,
    /// The upper limit for the number of pods.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub max: i32,
    /// The target average CPU utilization over all the pods, in percent of what they request.
    #[arg(long, default_value_t = -1, allow_hyphen_values = true)]
    pub cpu_percent: i32,
    /// The name for the newly created object; default: the workload's.
    #[arg(long, default_value = "")]
    pub name: String,
    /// If true, the configuration of current object will be saved in its annotation.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub save_config: bool,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long, default_value = "kubectl-autoscale")]
    pub field_manager: String,
}

/// The autoscaler for one workload.
fn autoscaler(args: &AutoscaleArgs, workload: &Object) -> Value {
    let name = if args.name.is_empty() { workload.name() } else { &args.name };
    let mut spec = json!({
        "scaleTargetRef": {"kind": workload.kind(), "name": workload.name(), "apiVersion": workload.api_version()},
        "maxReplicas": args.max,
    });
    if args.min > 0 {
        spec["minReplicas"] = args.min.into();
    }
    if args.cpu_percent >= 0 {
        spec["targetCPUUtilizationPercentage"] = args.cpu_percent.into();
    }
    json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler",
        "metadata": {"name": name, "creationTimestamp": null},
        "spec": spec, "status": {"currentReplicas": 0, "desiredReplicas": 0}})
}

/// Runs `kubectl autoscale`.
///
/// # Errors
/// Limits that make no sense, or what the server refused.
pub async fn run(ctx: &Context, args: AutoscaleArgs) -> Result<(), Failure> {
    if args.max == -1 {
        return Err(Failure::message("required flag(s) \"max\" not set"));
    }
    if args.max < 1 {
        let max = args.max;
        return Err(Failure::message(format!(
            "--max=MAXPODS is required and must be at least 1, max: {max}"
        )));
    }
    if args.max < args.min {
        return Err(Failure::message(format!(
            "--max=MAXPODS must be larger or equal to --min=MINPODS, max: {}, min: {}",
            args.max, args.min
        )));
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = args.print.printer()?.map(Printer::typed);
    let scalable = ["Deployment", "ReplicaSet", "StatefulSet", "ReplicationController"];
    for target in builder::targets(ctx, &args.arguments, &args.files, &Selection::default()).await? {
        let workload = target.get(ctx).await?;
        if !scalable.contains(&workload.kind()) {
            let why = format!(
                "cannot autoscale a {}: could not find scale subresource",
                workload.gvk().group_kind()
            );
            return Err(Failure::message(why));
        }
        let object = saved(autoscaler(&args, &workload), args.save_config)?;
        let created = match dry_run {
            DryRun::Client => Object::from_value(object).map_err(|e| Failure::message(e.to_string()))?,
            _ => {
                let query =
                    query(&[("dryRun", dry_run.query()), ("fieldManager", Some(args.field_manager.clone()))]);
                let gvr = GroupVersionResource::new("autoscaling", "v1", "horizontalpodautoscalers");
                let path = gvr.path(target.namespace.as_deref(), None, None) + &query;
                ctx.client().await?.request(request::typed(Method::POST, &path, &object)).await?
            }
        };
        print_result(ctx, output.as_ref(), &created, "autoscaled", dry_run)?;
    }
    Ok(())
}
