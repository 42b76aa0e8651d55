//! `create deployment`, `create job`, `create cronjob`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/create/create_{deployment,job,cronjob}.go`.

use clap::Args;
use rand::{Rng, RngExt};
use serde_json::{Map, Value, json};

use super::{Common, object, require};
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request;

/// Flags of `kubectl create deployment`.
#[derive(Debug, Args)]
pub struct DeploymentArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// Image names to run, one container each.
    #[arg(long, value_delimiter = ',')]
    pub image: Vec<String>,
    /// Number of replicas to create.
    #[arg(short = 'r', long, default_value_t = 1)]
    pub replicas: i32,
    /// The containerPort that the first container exposes.
    #[arg(long)]
    pub port: Option<i32>,
    /// The command, after `--`.
    #[arg(last = true)]
    pub command: Vec<String>,
}

/// Flags of `kubectl create job`.
#[derive(Debug, Args)]
pub struct JobArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// Image name to run.
    #[arg(long)]
    pub image: Option<String>,
    /// The resource to create a job from (only cronjob is supported).
    #[arg(long)]
    pub from: Option<String>,
    /// The command, after `--`.
    #[arg(last = true)]
    pub command: Vec<String>,
}

/// Flags of `kubectl create cronjob`.
#[derive(Debug, Args)]
pub struct CronJobArgs {
    /// Shared flags.
    #[command(flatten)]
    pub common: Common,
    /// Image name to run.
    #[arg(long)]
    pub image: Option<String>,
    /// A schedule in the Cron format.
    #[arg(long)]
    pub schedule: Option<String>,
    /// The pods' restart policy.
    #[arg(long, default_value = "OnFailure")]
    pub restart: String,
    /// The command, after `--`.
    #[arg(last = true)]
    pub command: Vec<String>,
}

/// A Deployment of one container an image.
///
/// # Errors
/// A missing flag.
pub fn deployment(args: &DeploymentArgs, suffix: impl FnMut() -> String) -> Result<Value, Failure> {
    require(&[("image", !args.image.is_empty())])?;
    let name = args.common.name("deployment")?;
    if args.image.len() > 1 && !args.command.is_empty() {
        return Err(Failure::message("cannot specify multiple --image options and command"));
    }
    if args.replicas < 0 {
        return Err(Failure::message("--replicas must be non-negative"));
    }
    let mut suffix = suffix;
    let mut containers: Vec<Value> = args
        .image
        .iter()
        .map(|image| container(&container_name(image, &mut suffix), image, &args.command))
        .collect();
    if let Some(port) = args.port.filter(|port| *port >= 0) {
        containers[0]["ports"] = json!([{"containerPort": port}]);
    }
    let mut deployment = object("apps/v1", "Deployment", name);
    deployment["metadata"]["labels"] = json!({"app": name});
    deployment["spec"] = json!({
        "replicas": args.replicas,
        "selector": {"matchLabels": {"app": name}},
        "strategy": {},
        "template": {
            "metadata": {"creationTimestamp": null, "labels": {"app": name}},
            "spec": {"containers": containers},
        },
    });
    deployment["status"] = json!({});
    Ok(deployment)
}

/// The last part of the image's name; what a container's name can't hold is replaced, and then it gets a suffix.
fn container_name(image: &str, suffix: &mut impl FnMut() -> String) -> String {
    let name = image.rsplit('/').next().unwrap_or(image);
    let name = name.split([':', '@']).next().unwrap_or(name);
    match name.contains(['_', '.']) {
        true => format!("{}-{}", name.replace(['_', '.'], "-"), suffix()),
        false => name.to_string(),
    }
}

/// Five letters and digits that make no words.
pub fn random_suffix(random: &mut impl Rng) -> String {
    const ALPHABET: &[u8] = b"bcdfghjklmnpqrstvwxz2456789";
    (0..5).map(|_| char::from(ALPHABET[random.random_range(0..ALPHABET.len())])).collect()
}

fn container(name: &str, image: &str, command: &[String]) -> Value {
    let mut container = json!({"name": name, "image": image, "resources": {}});
    if !command.is_empty() {
        container["command"] = json!(command);
    }
    container
}

/// A Job of one container, or one that a CronJob would make.
///
/// # Errors
/// Flags that exclude each other, or a CronJob that isn't there.
pub async fn job(ctx: &Context, args: &JobArgs) -> Result<Value, Failure> {
    let name = args.common.name("job")?;
    match (&args.image, &args.from) {
        (Some(image), None) => Ok(simple_job(name, image, &args.command)),
        (None, Some(_)) if !args.command.is_empty() => {
            Err(Failure::message("cannot specify --from and command"))
        }
        (None, Some(from)) => {
            let missing = || Failure::message("from must be an existing cronjob");
            let (kind, cron_job) = from.split_once('/').ok_or_else(missing)?;
            let resource = ctx.resource(kind).await?;
            if resource.kind != "CronJob" {
                return Err(missing());
            }
            let request = request::get(resource, Some(&ctx.namespace()), cron_job, None);
            let cron_job: Object = ctx.client().await?.request(request).await?;
            Ok(job_from(name, &cron_job))
        }
        _ => Err(Failure::message("either --image or --from must be specified")),
    }
}

fn simple_job(name: &str, image: &str, command: &[String]) -> Value {
    let mut job = object("batch/v1", "Job", name);
    job["spec"] = json!({"template": {
        "metadata": {"creationTimestamp": null},
        "spec": {"containers": [container(name, image, command)], "restartPolicy": "Never"},
    }});
    job["status"] = json!({});
    job
}

/// What the CronJob controller would make, and a note that a person made it.
fn job_from(name: &str, cron_job: &Object) -> Value {
    let template = cron_job.get("/spec/jobTemplate").cloned().unwrap_or_default();
    let mut annotations: Map<String, Value> = Map::new();
    annotations.insert("cronjob.kubernetes.io/instantiate".into(), "manual".into());
    annotations.extend(template["metadata"]["annotations"].as_object().cloned().unwrap_or_default());
    let mut job = object("batch/v1", "Job", name);
    job["metadata"]["annotations"] = annotations.into();
    if let Some(labels) = template.pointer("/metadata/labels") {
        job["metadata"]["labels"] = labels.clone();
    }
    job["metadata"]["ownerReferences"] = json!([{
        "apiVersion": "batch/v1", "kind": "CronJob", "name": cron_job.name(), "uid": cron_job.uid(), "controller": true,
    }]);
    job["spec"] = template["spec"].clone();
    job["status"] = json!({});
    job
}

/// A CronJob of one container.
///
/// # Errors
/// A missing flag.
pub fn cron_job(args: &CronJobArgs) -> Result<Value, Failure> {
    require(&[("image", args.image.is_some()), ("schedule", args.schedule.is_some())])?;
    let name = args.common.name("cronjob")?;
    let image = args.image.as_deref().unwrap_or_default();
    let mut cron_job = object("batch/v1", "CronJob", name);
    cron_job["spec"] = json!({
        "schedule": args.schedule,
        "jobTemplate": {
            "metadata": {"creationTimestamp": null, "name": name},
            "spec": {"template": {
                "metadata": {"creationTimestamp": null},
                "spec": {"containers": [container(name, image, &args.command)], "restartPolicy": args.restart},
            }},
        },
    });
    cron_job["status"] = json!({});
    Ok(cron_job)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_containers_name_comes_from_its_image() {
        let mut suffix = || "xxxxx".to_string();
        assert_eq!(container_name("nginx:1.25", &mut suffix), "nginx");
        assert_eq!(container_name("registry:5000/team/web@sha256:1", &mut suffix), "web");
        assert_eq!(container_name("a/my_app.v2:1", &mut suffix), "my-app-v2-xxxxx");
    }
}
