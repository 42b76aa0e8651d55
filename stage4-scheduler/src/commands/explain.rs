//! explain: why a pod goes where it goes, on a live cluster's objects (or those of files).
//!
//! The pod is one of a file (`-f pod.yaml`) or one that the cluster has (`pod/NAME -n NAMESPACE`). One that runs already is
//! looked at as if it were new: taken off its node first.
//!
//! # Invariants
//! 1. Every request is a GET.
//!
//! # In Kubernetes
//! Nothing; `kubectl describe pod` shows the counts.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Parser;
use serde_json::Value;
use stage1_kubectl::client::{Client, ClientConfig};

use super::{CommandError, Output, objects, profiles, show, what_if};
use crate::explain::{explain, table};
use crate::pod_info::PodInfo;
use crate::profiles::Profiles;
use crate::simulation;
use crate::world::{World, pod_as_stored};

/// `kube-scheduler explain -f pod.yaml`, `kube-scheduler explain pod/web -n prod`
#[derive(Parser, Debug)]
#[command(name = "kube-scheduler explain", about = "Says why a pod goes where it goes; reads, never writes")]
pub struct Explain {
    /// A pod that the cluster has: pod/NAME
    pub pod: Option<String>,
    /// A file with the pod
    #[arg(short, long = "filename")]
    pub filename: Option<String>,
    /// Namespace of the pod
    #[arg(short, long)]
    pub namespace: Option<String>,
    /// Files with the cluster's objects, instead of a live cluster
    #[arg(long, value_name = "FILE")]
    pub cluster_file: Vec<String>,
    /// Kubeconfig of the API server
    #[arg(long, env = "KUBECONFIG", value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Address of the API server, instead of the kubeconfig's
    #[arg(long, value_name = "URL")]
    pub master: Option<String>,
    /// KubeSchedulerConfiguration file
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Form of the result
    #[arg(short, long, value_enum, default_value_t)]
    pub output: Output,
    /// Places so many such pods and explains the first that doesn't fit
    #[arg(long, value_name = "N")]
    pub replicas: Option<usize>,
    /// Changes to the cluster's objects
    #[command(flatten)]
    pub what_if: what_if::WhatIf,
}

/// The result as text.
///
/// # Errors
/// The cluster or a file can't be read, or there is no such pod.
pub async fn run(flags: &Explain) -> Result<String, CommandError> {
    let profiles = profiles(flags.config.as_deref())?;
    let (mut all, namespace) = if flags.cluster_file.is_empty() {
        let config = ClientConfig::from_flags(flags.kubeconfig.as_deref(), flags.master.as_deref())?
            .with_user_agent("kube-scheduler-explain");
        let client = Client::new(config)?;
        let (all, left_out) = objects::of_cluster(&client).await?;
        if !left_out.is_empty() {
            tracing::warn!(kinds = left_out.join(", "), "Kinds that can't be read are left out");
        }
        (all, client.default_namespace().to_owned())
    } else {
        (objects::of_files(&flags.cluster_file)?, "default".to_owned())
    };
    let namespace = flags.namespace.clone().unwrap_or(namespace);
    what_if::apply(&mut all, &flags.what_if, |path| objects::of_files(&[path.to_owned()]))?;
    let pod = subject(flags, &mut all, &namespace)?;
    let classes = all.iter().filter(|object| object["kind"] == "PriorityClass");
    let classes: BTreeMap<String, Value> = classes
        .map(|class| (class["metadata"]["name"].as_str().unwrap_or("").to_owned(), class.clone()))
        .collect();
    let mut world = World::new(&all, profiles.clone())?;
    match flags.replicas {
        Some(count) => many(flags, &mut world, &profiles, &pod, &classes, count),
        None => {
            let info = pod_as_stored(&pod, &classes)?;
            let result = one(&mut world, &profiles, &info)?;
            show(&result, flags.output, |wide| table::explanation(&result, wide))
        }
    }
}

/// The pod to explain, taken out of the objects if it is among them.
fn subject(flags: &Explain, all: &mut Vec<Value>, namespace: &str) -> Result<Value, CommandError> {
    let mut pod = match (&flags.filename, &flags.pod) {
        (Some(file), None) => {
            let mut read = objects::of_files(std::slice::from_ref(file))?;
            let at = read.iter().position(|object| object["kind"] == "Pod");
            read.swap_remove(at.ok_or_else(|| CommandError::Usage(format!("{file} has no pod")))?)
        }
        (None, Some(name)) => {
            let name = name.strip_prefix("pod/").or(name.strip_prefix("pods/")).unwrap_or(name);
            let is = |object: &Value| {
                object["kind"] == "Pod"
                    && object["metadata"]["name"] == name
                    && object["metadata"]["namespace"].as_str().unwrap_or("default") == namespace
            };
            let missing =
                || CommandError::Usage(format!("pods \"{name}\" not found in namespace \"{namespace}\""));
            let at = all.iter().position(is);
            all.swap_remove(at.ok_or_else(missing)?)
        }
        _ => return Err(CommandError::Usage("give a pod: -f FILE, or pod/NAME".to_owned())),
    };
    if pod["metadata"]["namespace"].as_str().is_none_or(str::is_empty) {
        pod["metadata"]["namespace"] = namespace.into();
    }
    if let Some(spec) = pod["spec"].as_object_mut() {
        spec.remove("nodeName");
    }
    Ok(pod)
}

fn one(
    world: &mut World,
    profiles: &Profiles,
    pod: &Arc<PodInfo>,
) -> Result<crate::explain::Explanation, CommandError> {
    let name = pod.scheduler_name();
    let unknown = || CommandError::Usage(format!("no profile has the scheduler name {name:?}"));
    let profile = profiles.of(pod).ok_or_else(unknown)?;
    let snapshot = world.snapshot();
    Ok(explain(profile, pod, &snapshot, 0))
}

/// Places the copies; if one doesn't fit, says why.
fn many(
    flags: &Explain,
    world: &mut World,
    profiles: &Arc<Profiles>,
    pod: &Value,
    classes: &BTreeMap<String, Value>,
    count: usize,
) -> Result<String, CommandError> {
    let copies = what_if::replicas(pod, count);
    let copies = copies.iter().map(|copy| pod_as_stored(copy, classes)).collect::<Result<Vec<_>, _>>()?;
    world.waiting = copies.clone();
    let result = simulation::simulate(world, profiles, 0);
    let Some(first) = result.unplaced.first() else {
        return show(&result, flags.output, |_| simulation::table(&result));
    };
    let unlucky = copies.iter().find(|copy| *copy.key == *first.pod);
    let unlucky = unlucky.expect("only copies were placed");
    let why = one(world, profiles, unlucky)?;
    let both = serde_json::json!({"simulation": &result, "explanation": &why});
    show(&both, flags.output, |wide| {
        format!("{}\n{}", simulation::table(&result), table::explanation(&why, wide))
    })
}
