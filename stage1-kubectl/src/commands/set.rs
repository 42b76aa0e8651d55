//! `kubectl set`: changes a part of objects: images here, the rest in files of their own.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/set/{set,set_image}.go`.

use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::DryRun;
use super::builder::Target;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::patch;
use crate::printers;
use crate::request::{self, query};

/// What all of them share.
pub mod change;
/// Variables.
pub mod env;
/// Resources, selectors, service accounts, subjects.
pub mod parts;

/// `kubectl set …`.
#[derive(Debug, Args)]
pub struct SetArgs {
    /// What to set.
    #[command(subcommand)]
    pub command: SetCommand,
}

/// What can be set.
#[derive(Debug, Subcommand)]
pub enum SetCommand {
    /// Update environment variables on a pod template.
    Env(env::EnvArgs),
    /// Update the image of a pod template.
    Image(ImageArgs),
    /// Update resource requests/limits on objects with pod templates.
    Resources(parts::ResourcesArgs),
    /// Set the selector on a resource.
    Selector(parts::SelectorArgs),
    /// Update the service account of a resource.
    #[command(visible_alias = "sa")]
    Serviceaccount(change::ChangeFlags),
    /// Update the user, group, or service account in a role binding or cluster role binding.
    Subject(parts::SubjectArgs),
}

/// Flags of `kubectl set image`.
#[derive(Debug, Args)]
pub struct ImageArgs {
    /// Shared flags; CONTAINER=IMAGE … behind the resources.
    #[command(flatten)]
    pub shared: change::ChangeFlags,
}

/// Runs `kubectl set …`.
///
/// # Errors
/// What couldn't be set.
pub async fn run(ctx: &Context, args: SetArgs) -> Result<(), Failure> {
    match args.command {
        SetCommand::Env(args) => env::run(ctx, args).await,
        SetCommand::Image(args) => image(ctx, args).await,
        SetCommand::Resources(args) => parts::resources(ctx, args).await,
        SetCommand::Selector(args) => parts::selector(ctx, args).await,
        SetCommand::Serviceaccount(args) => parts::service_account(ctx, args).await,
        SetCommand::Subject(args) => parts::subject(ctx, args).await,
    }
}

async fn image(ctx: &Context, args: ImageArgs) -> Result<(), Failure> {
    let (names, images): (Vec<String>, Vec<String>) =
        args.shared.arguments.iter().cloned().partition(|argument| !argument.contains('='));
    let images: Vec<(String, String)> = images
        .iter()
        .filter_map(|a| a.split_once('='))
        .map(|(c, i)| (c.to_string(), i.to_string()))
        .collect();
    if args.shared.local && !names.is_empty() {
        return Err(Failure::message(
            "you must specify resources by --filename when --local is set.\nExample resource specifications include:\n   '-f rsrc.yaml'\n   '--filename=rsrc.json'",
        ));
    }
    if images.is_empty() {
        return Err(Failure::message("at least one image update is required"));
    }
    let set = |object: &mut Object| set_images(object, &images);
    change::each(ctx, &args.shared, &names, "image updated", set).await
}

/// Sends the difference between two states of an object as a patch.
///
/// # Errors
/// What the server refused.
pub(super) async fn send_change(
    ctx: &Context,
    target: &Target,
    before: &Object,
    after: &Object,
    field_manager: &str,
    dry_run: DryRun,
) -> Result<Object, Failure> {
    let gvk = before.gvk();
    let (before, after) = (before.as_value(), after.as_value());
    let (patch, patch_type) = patch::difference(before, after, before, &gvk)?;
    let query = query(&[("dryRun", dry_run.query()), ("fieldManager", Some(field_manager.to_string()))]);
    let request = request::patch_at(&(target.path(None) + &query), patch_type, &patch);
    Ok(ctx.client().await?.request(request).await?)
}

/// Where a kind keeps its pod's spec.
pub(super) fn pod_spec_pointer(object: &Object) -> Option<&'static str> {
    match object.kind() {
        "Pod" => Some("/spec"),
        "CronJob" => Some("/spec/jobTemplate/spec/template/spec"),
        _ => object.get("/spec/template/spec").map(|_| "/spec/template/spec"),
    }
}

fn set_images(object: &mut Object, images: &[(String, String)]) -> Result<(), Failure> {
    let pointer = pod_spec_pointer(object);
    let pointer = pointer.ok_or_else(|| {
        let (name, gvk) = (printers::object_name(object), object.gvk());
        let why = "the object is not a pod or does not have a pod template";
        Failure::message(format!("{name} {why}: *{}.{}", gvk.version, gvk.kind))
    })?;
    for (container, image) in images {
        let mut found = container == "*";
        for field in ["initContainers", "containers"] {
            let at = format!("{pointer}/{field}");
            let Some(Value::Array(mut list)) = object.get(&at).cloned() else { continue };
            for element in list.iter_mut().filter(|e| container == "*" || e["name"] == *container) {
                element["image"] = json!(image);
                found = true;
            }
            object.set(&at, Value::Array(list));
        }
        if !found {
            return Err(Failure::message(format!("unable to find container named {container:?}")));
        }
    }
    Ok(())
}
