//! `kubectl journey`: one object's way through the six stages.
//!
//! The cluster's programs write down what they decide (`logs/journey.jsonl` in the state directory, beside the kubeconfig).
//! This command finds out whose steps belong to a pod: its own, those of the ReplicaSet and the Deployment that wanted it,
//! and those of the Services that send it traffic. Where a stage has written nothing (a stock component, another cluster)
//! the pod's own fields and events fill in.
//!
//! # In Kubernetes
//! No counterpart; `kubectl describe` and `kubectl events` show parts of it.
#![expect(clippy::disallowed_methods, reason = "shell: reads the journey file")]

use std::path::{Path, PathBuf};

use clap::Args;

use super::builder::{self, Wanted};
use super::listing::{bare, list_all};
use crate::context::Context;
use crate::failure::Failure;
use crate::journey::digest::{Cast, select};
use crate::journey::lanes::Journey;
use crate::journey::{Step, object_name, page, trail};
use crate::object::Object;
use crate::printers;
use crate::printers::terminal::escaped;
use crate::request::{self, ListParams};
use crate::resource::{GroupVersionKind, GroupVersionResource};
use crate::selector::LabelSelector;

/// Each step as it happens.
pub mod watching;

/// Deployment → ReplicaSet → Pod is three; custom kinds may stand above.
const MAX_OWNERS: usize = 5;

/// Flags of `kubectl journey`.
#[derive(Debug, Args)]
pub struct JourneyArgs {
    /// POD, pod/POD, or TYPE/NAME of what makes pods: its newest pod is shown.
    #[arg(required = true)]
    pub arguments: Vec<String>,
    /// The file with the recorded steps; default: logs/journey.jsonl beside the kubeconfig.
    #[arg(long)]
    pub journey_file: Option<PathBuf>,
    /// Go on, and tell each step as it happens.
    #[arg(short = 'w', long)]
    pub watch: bool,
    /// Output format: json (with -w: one object a line).
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
}

/// Runs `kubectl journey`.
///
/// # Errors
/// The object isn't there, or the file that was named can't be read.
pub async fn run(ctx: &Context, args: JourneyArgs) -> Result<(), Failure> {
    if !matches!(args.output.as_str(), "" | "json") {
        return Err(Failure::message(format!("unknown output format {:?}, only json is known", args.output)));
    }
    if args.watch {
        return watching::run(ctx, &args).await;
    }
    let journey = observe(ctx, &args).await?;
    match args.output.as_str() {
        "json" => ctx.print(&printers::to_json(&journey.to_value())),
        _ => ctx.print(&escaped(&page::render(&journey.title, &journey.steps, journey.next_hop().as_ref()))),
    }
    Ok(())
}

/// Reads how far it has come.
///
/// # Errors
/// The object isn't there, or the file that was named can't be read.
pub(crate) async fn observe(ctx: &Context, args: &JourneyArgs) -> Result<Journey, Failure> {
    let object = find_subject(ctx, &args.arguments).await?;
    let owners = owners(ctx, &object).await?;
    let (events, slices) = tokio::join!(events(ctx, &object), slices(ctx, &object));
    let title = object_name(object.kind(), object.namespace(), object.name());
    let service = |slice: &Object| {
        let service = slice.label("kubernetes.io/service-name")?;
        Some(object_name("Service", object.namespace(), service))
    };
    let cast = Cast {
        pod: title.clone(),
        created_micros: object.creation_timestamp().map_or(0, jiff::Timestamp::as_microsecond),
        owners: owners
            .iter()
            .map(|owner| object_name(owner.kind(), owner.namespace(), owner.name()))
            .collect(),
        services: slices.iter().filter_map(service).collect(),
    };
    let everyone: Vec<String> =
        [&cast.owners[..], &cast.services[..], std::slice::from_ref(&cast.pod)].concat();
    let recorded = page::about(&read(ctx, args.journey_file.as_deref())?, &everyone);
    let mut told = trail::steps(&object, &events, &slices);
    // Who asked for the topmost owner asked for the pod.
    told.extend(owners.last().and_then(trail::sent));
    let steps: Vec<Step> = select(&cast, &recorded, &told);
    Ok(Journey { has_owner: !owners.is_empty(), object, title, steps })
}

/// The pod itself, or the newest pod of what makes pods; while there is none, what should make them.
async fn find_subject(ctx: &Context, arguments: &[String]) -> Result<Object, Failure> {
    let arguments = match arguments {
        [name] if !name.contains('/') => vec!["pods".to_string(), name.clone()],
        other => other.to_vec(),
    };
    let wanted = builder::wanted(ctx, &arguments).await?;
    let [Wanted { resource, names }] = wanted.as_slice() else {
        return Err(Failure::message("journey shows one object: pod/NAME or TYPE/NAME"));
    };
    let [name] = names.as_slice() else {
        return Err(Failure::message("journey shows one object: pod/NAME or TYPE/NAME"));
    };
    let namespace = ctx.namespace();
    let client = ctx.client().await?;
    let object: Object = client.request(request::get(resource, Some(&namespace), name, None)).await?;
    if object.kind() == "Pod" {
        return Ok(object);
    }
    let selector = match object.kind() {
        "Service" | "ReplicationController" => {
            object.get("/spec/selector").map(|labels| serde_json::json!({ "matchLabels": labels }))
        }
        _ => object.get("/spec/selector").cloned(),
    };
    let why = || Failure::message(format!("{} has no pods: it selects none", printers::object_name(&object)));
    let selector = serde_json::from_value(selector.ok_or_else(why)?).map_err(|_| why())?;
    let params = ListParams {
        label_selector: Some(LabelSelector::from_match(&selector)?.to_string()),
        ..ListParams::default()
    };
    let pods = list_all(ctx, &bare(&core("pods"), true), Some(&namespace), &params).await?;
    let newest = pods.into_iter().max_by_key(|pod| (pod.creation_timestamp(), pod.name().to_string()));
    Ok(newest.unwrap_or(object))
}

fn core(resource: &str) -> GroupVersionResource {
    GroupVersionResource::new("", "v1", resource)
}

/// The chain of controllers above an object; one that is gone or hidden ends it.
async fn owners(ctx: &Context, pod: &Object) -> Result<Vec<Object>, Failure> {
    let mut owners: Vec<Object> = Vec::new();
    let mut below = pod.clone();
    while owners.len() < MAX_OWNERS {
        let controller = below.owner_references().into_iter().find(|owner| owner.controller == Some(true));
        let Some(owner) = controller else { break };
        let gvk = GroupVersionKind::from_api_version(&owner.api_version, &owner.kind);
        let Some(resource) = ctx.discovery().await?.for_kind(&gvk) else { break };
        let request = request::get(resource, below.namespace(), &owner.name, None);
        match ctx.client().await?.request::<Object>(request).await {
            Ok(object) if object.uid() == owner.uid => {
                owners.push(object.clone());
                below = object;
            }
            _ => break,
        }
    }
    Ok(owners)
}

/// The pod's events; none when they may not be read.
async fn events(ctx: &Context, pod: &Object) -> Vec<Object> {
    let params = ListParams {
        field_selector: Some(format!("involvedObject.name={},involvedObject.uid={}", pod.name(), pod.uid())),
        ..ListParams::default()
    };
    list_all(ctx, &bare(&core("events"), true), pod.namespace(), &params).await.unwrap_or_default()
}

/// The EndpointSlices that name the pod; none when they may not be read.
async fn slices(ctx: &Context, pod: &Object) -> Vec<Object> {
    let gvr = GroupVersionResource::new("discovery.k8s.io", "v1", "endpointslices");
    let all =
        list_all(ctx, &bare(&gvr, true), pod.namespace(), &ListParams::default()).await.unwrap_or_default();
    let names_pod = |slice: &Object| {
        let endpoints = slice.get("/endpoints").and_then(serde_json::Value::as_array);
        endpoints.into_iter().flatten().any(|endpoint| endpoint["targetRef"]["uid"] == pod.uid())
    };
    all.into_iter().filter(names_pod).collect()
}

/// The recorded steps. A file that was named must be there; the one beside the kubeconfig may be missing.
fn read(ctx: &Context, named: Option<&Path>) -> Result<String, Failure> {
    if let Some(path) = named {
        let failed = |e: std::io::Error| Failure::message(format!("read {}: {e}", path.display()));
        return std::fs::read_to_string(path).map_err(failed);
    }
    let file = ctx.journey_file();
    Ok(file.and_then(|file| std::fs::read_to_string(file).ok()).unwrap_or_default())
}
