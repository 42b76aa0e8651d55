//! `kubectl set resources|selector|serviceaccount|subject`.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/set/set_{resources,selector,serviceaccount,subject}.go`.

use clap::Args;
use serde_json::{Map, Value, json};

use super::change::{self, ChangeFlags};
use super::pod_spec_pointer;
use crate::commands::create::generate::policy;
use crate::context::{Context, GlobalFlags};
use crate::failure::Failure;
use crate::object::Object;

/// Flags of `kubectl set resources`.
#[derive(Debug, Args)]
pub struct ResourcesArgs {
    /// Shared flags.
    #[command(flatten)]
    pub shared: ChangeFlags,
    /// The names of containers in the selected pod templates to change; may use wildcards.
    #[arg(short = 'c', long, default_value = "*")]
    pub containers: String,
    /// The resource requirement limits for this container.
    #[arg(long, default_value = "")]
    pub limits: String,
    /// The resource requirement requests for this container.
    #[arg(long, default_value = "")]
    pub requests: String,
}

/// Flags of `kubectl set selector`.
#[derive(Debug, Args)]
pub struct SelectorArgs {
    /// Shared flags.
    #[command(flatten)]
    pub shared: ChangeFlags,
    /// If non-empty, the selectors update will only succeed if this is the current resource-version for the object.
    #[arg(long, default_value = "", hide_default_value = true)]
    pub resource_version: String,
}

/// Flags of `kubectl set subject`.
#[derive(Debug, Args)]
pub struct SubjectArgs {
    /// Shared flags.
    #[command(flatten)]
    pub shared: ChangeFlags,
    /// The subjects.
    #[command(flatten)]
    pub subjects: crate::commands::create::generate::access::SubjectFlags,
}

/// Runs `kubectl set resources`.
///
/// # Errors
/// What couldn't be changed.
pub async fn resources(ctx: &Context, args: ResourcesArgs) -> Result<(), Failure> {
    if args.limits.is_empty() && args.requests.is_empty() {
        let why = "you must specify an update to requests or limits (in the form of --requests/--limits)";
        return Err(Failure::message(why));
    }
    let amounts = [
        ("limits", policy::resource_list(&args.limits)?),
        ("requests", policy::resource_list(&args.requests)?),
    ];
    let set = |object: &mut Object| {
        let fitted = change::containers(object, &args.containers, |container| {
            for (field, list) in &amounts {
                for (name, amount) in list {
                    container["resources"][field][name] = amount.clone();
                }
            }
            Ok(())
        })?;
        match fitted {
            Some(0) => Err(Failure::message(format!("unable to find container named {}", args.containers))),
            _ => Ok(()),
        }
    };
    change::each(ctx, &args.shared, &args.shared.arguments, "resource requirements updated", set).await
}

/// The resources, and the last argument.
fn last<'a>(flags: &'a ChangeFlags, missing: &str) -> Result<(&'a [String], &'a str), Failure> {
    let (last, resources) = flags.arguments.split_last().ok_or_else(|| Failure::message(missing))?;
    Ok((resources, last))
}

/// Runs `kubectl set selector`.
///
/// # Errors
/// What couldn't be changed.
pub async fn selector(ctx: &Context, flags: SelectorArgs) -> Result<(), Failure> {
    let (args, version) = (flags.shared, flags.resource_version);
    let (resources, text) = last(&args, "one selector is required")?;
    let pairs = text.split(',').map(|pair| {
        let wrong = || Failure::message(format!("invalid selector {text:?}: only key=value is supported"));
        let (key, value) = pair.split_once('=').ok_or_else(wrong)?;
        Ok((key.to_string(), Value::from(value.trim_start_matches('='))))
    });
    let labels = pairs.collect::<Result<Map<String, Value>, Failure>>()?;
    let set = |object: &mut Object| {
        if object.kind() != "Service" {
            return Err(Failure::message("setting a selector is only supported for Services"));
        }
        object.set("/spec/selector", Value::Object(labels.clone()));
        if !version.is_empty() {
            object.set_resource_version(&version);
        }
        Ok(())
    };
    change::each(ctx, &args, resources, "selector updated", set).await
}

/// Runs `kubectl set serviceaccount`.
///
/// # Errors
/// What couldn't be changed.
pub async fn service_account(ctx: &Context, args: ChangeFlags) -> Result<(), Failure> {
    let (resources, name) = last(&args, "serviceaccount is required")?;
    let set = |object: &mut Object| {
        let Some(pod_spec) = pod_spec_pointer(object) else {
            return Err(Failure::message(format!(
                "the object is not a pod or does not have a pod template: {}",
                object.kind()
            )));
        };
        object.set(&format!("{pod_spec}/serviceAccountName"), name);
        Ok(())
    };
    change::each(ctx, &args, resources, "serviceaccount updated", set).await
}

/// Runs `kubectl set subject`.
///
/// # Errors
/// What couldn't be changed.
pub async fn subject(ctx: &Context, args: SubjectArgs) -> Result<(), Failure> {
    // `--user` is a subject here, not the kubeconfig's user.
    let ctx = &Context::new(GlobalFlags { user: None, ..ctx.flags.clone() });
    let flags = &args.subjects;
    let new = crate::commands::create::generate::access::subjects(flags)?;
    if new.is_empty() && !args.shared.files.is_empty() {
        let why = "you must specify at least one value of user, group or serviceaccount";
        return Err(Failure::message(why));
    }
    let set = |object: &mut Object| {
        if !matches!(object.kind(), "RoleBinding" | "ClusterRoleBinding") {
            let why = "setting subjects is only supported for RoleBinding/ClusterRoleBinding";
            return Err(change::about(object, why));
        }
        let mut all = object.get("/subjects").and_then(Value::as_array).cloned().unwrap_or_default();
        for subject in &new {
            let same = |there: &Value| {
                ["kind", "name", "namespace"].iter().all(|field| there.get(field) == subject.get(field))
            };
            if !all.iter().any(same) {
                all.push(subject.clone());
            }
        }
        object.set("/subjects", json!(all));
        Ok(())
    };
    change::each(ctx, &args.shared, &args.shared.arguments, "subjects updated", set).await
}
