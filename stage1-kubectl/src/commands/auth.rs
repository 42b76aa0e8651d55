//! `kubectl auth`: what may I do, who am I.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/auth/{cani,whoami}.go`.

use clap::{Args, Subcommand};
use http::Method;
use serde_json::{Value, json};

use crate::context::Context;
use crate::describe::access_control::compact;
use crate::failure::Failure;
use crate::printers::{PrintFlags, Printer, table};
use crate::request;

mod reconcile;

/// `kubectl auth …`.
#[derive(Debug, Args)]
pub struct AuthArgs {
    /// What to find out.
    #[command(subcommand)]
    pub command: AuthCommand,
}

/// What can be found out.
#[derive(Debug, Subcommand)]
pub enum AuthCommand {
    /// Check whether an action is allowed.
    CanI(CanIArgs),
    /// Reconciles rules for RBAC role, role binding, cluster role, and cluster role binding objects.
    Reconcile(reconcile::ReconcileArgs),
    /// Experimental: Check self subject attributes.
    Whoami(WhoAmIArgs),
}

/// Flags of `kubectl auth can-i`.
#[derive(Debug, Args)]
pub struct CanIArgs {
    /// VERB, then TYPE, TYPE/NAME or a path.
    pub arguments: Vec<String>,
    /// SubResource such as pod/log or deployment/scale.
    #[arg(long)]
    pub subresource: Option<String>,
    /// If true, prints all allowed actions.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub list: bool,
    /// If true, suppress output and just return the exit code.
    #[arg(short = 'q', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub quiet: bool,
    /// If true, check the specified action in all namespaces.
    #[arg(short = 'A', long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub all_namespaces: bool,
    /// If true, prints allowed actions without headers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub no_headers: bool,
}

/// Flags of `kubectl auth whoami`.
#[derive(Debug, Args)]
pub struct WhoAmIArgs {
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
}

/// Runs `kubectl auth …`.
///
/// # Errors
/// The answer is no (exit code 1), or there is none.
pub async fn run(ctx: &Context, args: AuthArgs) -> Result<(), Failure> {
    match args.command {
        AuthCommand::CanI(args) if args.list => list(ctx, &args).await,
        AuthCommand::CanI(args) => can_i(ctx, &args).await,
        AuthCommand::Reconcile(args) => reconcile::run(ctx, args).await,
        AuthCommand::Whoami(args) => who_am_i(ctx, &args).await,
    }
}

async fn post(ctx: &Context, group: &str, resource: &str, body: &Value) -> Result<Value, Failure> {
    let path = format!("/apis/{group}/v1/{resource}");
    Ok(ctx.client().await?.request(request::typed(Method::POST, &path, body)).await?)
}

async fn can_i(ctx: &Context, args: &CanIArgs) -> Result<(), Failure> {
    let spec = match args.arguments.as_slice() {
        [verb, path] if path.starts_with('/') => {
            if !PATH_VERBS.contains(&verb.as_str()) {
                ctx.warn(&format!("Warning: verb '{verb}' is not a known verb\n\n"));
            }
            json!({"nonResourceAttributes": {"path": path, "verb": verb}})
        }
        [verb, resource] => {
            json!({ "resourceAttributes": attributes(ctx, args, verb, resource, None).await? })
        }
        [verb, resource, name] => {
            json!({ "resourceAttributes": attributes(ctx, args, verb, resource, Some(name)).await? })
        }
        _ => {
            let why = "you must specify two arguments: verb resource or verb resource/resourceName.\nSee 'kubectl auth can-i -h' for help and examples.";
            return Err(Failure::message(why));
        }
    };
    let review = json!({"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": null}, "spec": spec, "status": {"allowed": false}});
    let answer = post(ctx, "authorization.k8s.io", "selfsubjectaccessreviews", &review).await?;
    let status = &answer["status"];
    let allowed = status["allowed"].as_bool().unwrap_or(false);
    let mut text = String::from(if allowed { "yes" } else { "no" });
    for part in ["reason", "evaluationError"] {
        if let Some(why) = status[part].as_str().filter(|why| !why.is_empty() && !allowed) {
            text += &format!(" - {why}");
        }
    }
    if !args.quiet {
        ctx.print(&(text + "\n"));
    }
    match allowed {
        true => Ok(()),
        false => Err(Failure::Exit { code: 1, message: String::new() }),
    }
}

/// The verbs that roles of resources know.
const RESOURCE_VERBS: [&str; 16] = [
    "get",
    "list",
    "watch",
    "create",
    "update",
    "patch",
    "delete",
    "deletecollection",
    "use",
    "bind",
    "impersonate",
    "*",
    "escalate",
    "approve",
    "sign",
    "attest",
];

/// The verbs that roles of paths know.
const PATH_VERBS: [&str; 8] = ["get", "put", "post", "head", "options", "delete", "patch", "*"];

async fn attributes(
    ctx: &Context,
    args: &CanIArgs,
    verb: &str,
    resource: &str,
    name: Option<&str>,
) -> Result<Value, Failure> {
    let (word, name) = match (resource.split_once('/'), name) {
        (Some((word, name)), None) => (word, name),
        (_, name) => (resource, name.unwrap_or_default()),
    };
    let mut wanted = json!({"verb": verb, "resource": word});
    let warn = |text: String| ctx.warn(&format!("Warning: {text}\n\n"));
    if !RESOURCE_VERBS.contains(&verb) {
        warn(format!("verb '{verb}' is not a known verb"));
    }
    match ctx.discovery().await?.find(word) {
        _ if word == "*" => {}
        Some(found) => {
            wanted["resource"] = found.gvr.resource.clone().into();
            if !found.gvr.group.is_empty() {
                wanted["group"] = found.gvr.group.clone().into();
            }
            if !found.namespaced && !args.all_namespaces {
                let group = match found.gvr.group.as_str() {
                    "" => String::new(),
                    group => format!(" in group '{group}'"),
                };
                warn(format!("resource '{}' is not namespace scoped{group}", found.gvr.resource));
            }
        }
        None => {
            if let Some((name, group)) = word.split_once('.') {
                (wanted["resource"], wanted["group"]) = (name.into(), group.into());
                warn(format!("the server doesn't have a resource type '{name}' in group '{group}'"));
            } else {
                warn(format!("the server doesn't have a resource type '{word}'"));
            }
        }
    }
    if !args.all_namespaces {
        wanted["namespace"] = ctx.namespace().into();
    }
    if !name.is_empty() {
        wanted["name"] = name.into();
    }
    if let Some(subresource) = &args.subresource {
        wanted["subresource"] = subresource.clone().into();
    }
    Ok(wanted)
}

async fn list(ctx: &Context, args: &CanIArgs) -> Result<(), Failure> {
    let review = json!({"kind": "SelfSubjectRulesReview", "apiVersion": "authorization.k8s.io/v1",
        "metadata": {"creationTimestamp": null}, "spec": {"namespace": ctx.namespace()},
        "status": {"resourceRules": null, "nonResourceRules": null, "incomplete": false}});
    let answer = post(ctx, "authorization.k8s.io", "selfsubjectrulesreviews", &review).await?;
    let status = &answer["status"];
    if status["incomplete"] == true {
        let why = status["evaluationError"].as_str().unwrap_or_default();
        ctx.warn(&format!("warning: the list may be incomplete: {why}\n"));
    }
    let rules = ["resourceRules", "nonResourceRules"].iter().filter_map(|field| status[*field].as_array());
    let rules: Vec<Value> = rules.flatten().cloned().collect();
    let mut lines: Vec<Vec<String>> = compact(&rules).iter().map(|rule| rule.cells().to_vec()).collect();
    if !args.no_headers {
        lines.insert(
            0,
            ["Resources", "Non-Resource URLs", "Resource Names", "Verbs"].map(String::from).into(),
        );
    }
    ctx.print(&table::align(&lines));
    Ok(())
}

async fn who_am_i(ctx: &Context, args: &WhoAmIArgs) -> Result<(), Failure> {
    let review = json!({"kind": "SelfSubjectReview", "apiVersion": "authentication.k8s.io/v1",
        "metadata": {"creationTimestamp": null}, "status": {"userInfo": {}}});
    let answer = post(ctx, "authentication.k8s.io", "selfsubjectreviews", &review).await?;
    if let Some(printer) = args.print.printer()?.map(Printer::typed) {
        ctx.print(&printer.render(&answer)?);
        return Ok(());
    }
    let user = &answer["status"]["userInfo"];
    let go = |list: &Value| {
        let words: Vec<&str> = list.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        format!("[{}]", words.join(" "))
    };
    let mut lines = vec![vec!["ATTRIBUTE".to_string(), "VALUE".to_string()]];
    for (title, field) in [("Username", "username"), ("UID", "uid")] {
        if let Some(value) = user[field].as_str().filter(|value| !value.is_empty()) {
            lines.push(vec![title.into(), value.into()]);
        }
    }
    if user["groups"].as_array().is_some_and(|groups| !groups.is_empty()) {
        lines.push(vec!["Groups".into(), go(&user["groups"])]);
    }
    for (key, values) in user["extra"].as_object().into_iter().flatten() {
        lines.push(vec![format!("Extra: {key}"), go(values)]);
    }
    ctx.print(&table::align(&lines));
    Ok(())
}
