//! `kubectl apply -f`: makes objects be as the manifests say.
//!
//! *Step 1 of a pod's journey.* What isn't there is created; what is there gets the three-way patch of [`crate::patch`],
//! computed from the manifest, the live object and the last manifest, which is kept in an annotation of the object.
//! With `--server-side` the server computes, from field ownership.
//!
//! # Invariants
//! 1. When nothing differs, nothing is sent.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/apply/{apply,patcher}.go`. Left out: `--prune`, `--force`, `view-last-applied` and its siblings.

use clap::Args;
use http::{Method, Request, header};
use serde_json::Value;

use super::DryRun;
use super::builder::{self, FilenameFlags};
use super::create::{field_validation, print_result};
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::object::Object;
use crate::patch::{self, merge_keys::is_built_in};
use crate::printers::Output;
use crate::request::{self, query};

/// The annotation that keeps the last manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Flags of `kubectl apply`.
#[derive(Debug, Args)]
pub struct ApplyArgs {
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// Output format.
    #[arg(short = 'o', long, default_value = "")]
    pub output: String,
    /// Must be "none", "server", or "client".
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "none", default_missing_value = "unchanged")]
    pub dry_run: String,
    /// Name of the manager used to track field ownership.
    #[arg(long)]
    pub field_manager: Option<String>,
    /// If true, apply runs in the server instead of the client.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub server_side: bool,
    /// If true, server-side apply will force the changes against conflicts.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub force_conflicts: bool,
    /// Must be one of: strict (or true), warn, ignore (or false).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "strict", default_missing_value = "strict")]
    pub validate: String,
    /// Automatically resolve conflicts between the modified and live configuration.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true")]
    pub overwrite: bool,
}

/// Runs `kubectl apply`.
///
/// # Errors
/// What the server refused, one failure an object.
pub async fn run(ctx: &Context, args: ApplyArgs) -> Result<(), Failure> {
    if args.files.is_empty() {
        return Err(Failure::message("must specify one of -f and -k"));
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    let output = (!args.output.is_empty()).then(|| Output::parse(&args.output)).transpose()?;
    let manifests = args.files.read()?;
    if manifests.is_empty() {
        return Err(Failure::message("no objects passed to apply"));
    }
    let mut failures = Vec::new();
    for manifest in manifests {
        match apply(ctx, &args, dry_run, manifest).await {
            Ok((object, done)) => print_result(ctx, output.as_ref(), &object, done, dry_run)?,
            Err(failure) => failures.push(failure),
        }
    }
    Failure::collect(failures)
}

/// The manifest as it is kept: one line of JSON without the annotation itself, and a line end.
pub fn last_applied(object: &Object) -> String {
    let mut object = object.clone();
    let had_annotations = object.get("/metadata/annotations").is_some_and(Value::is_object);
    if had_annotations {
        object.remove(&format!("/metadata/annotations/{}", crate::object::escape(LAST_APPLIED)));
    } else {
        object.set("/metadata/annotations", Value::Object(Default::default()));
    }
    // Go's encoder escapes what could end a script in a web page.
    let text = object.as_value().to_string();
    let text = text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e");
    text + "\n"
}

async fn apply(
    ctx: &Context,
    args: &ApplyArgs,
    dry_run: DryRun,
    manifest: Manifest,
) -> Result<(Object, &'static str), Failure> {
    let Manifest { mut object, source } = manifest;
    let resource = ctx.resource_of(&object, &source).await?.clone();
    let namespace = builder::place(ctx, &resource, &mut object)?;
    if object.name().is_empty() {
        return Err(Failure::message(format!(
            "error when retrieving current configuration of:\nResource: \"{}, Resource={}\", GroupVersionKind: \"{}\"\nName: \"\", Namespace: {:?}\nfrom server for: {source:?}: resource name may not be empty",
            resource.gvr.api_version(),
            resource.gvr.resource,
            object.gvk(),
            namespace.clone().unwrap_or_default()
        )));
    }
    let path = resource.path(namespace.as_deref(), Some(object.name()), None);
    let client = ctx.client().await?;
    if args.server_side {
        let applied = server_side(ctx, args, dry_run, &path, &object).await?;
        return Ok((applied, "serverside-applied"));
    }
    let manager = args.field_manager.clone().unwrap_or_else(|| "kubectl-client-side-apply".into());
    let query = query(&[
        ("dryRun", dry_run.query()),
        ("fieldManager", Some(manager)),
        ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
    ]);
    let mut modified = object.clone();
    modified.set_annotation(LAST_APPLIED, &last_applied(&object));
    let live = client.request::<Object>(request::request(Method::GET, &path, None)).await;
    let live = match live {
        Ok(live) => live,
        Err(error) if error.is_not_found() => {
            if dry_run == DryRun::Client {
                return Ok((modified, "created"));
            }
            let path = resource.path(namespace.as_deref(), None, None) + &query;
            let request = request::request(Method::POST, &path, Some(modified.as_value()));
            let created = client
                .request(request)
                .await
                .map_err(|e| Failure::from(e).while_doing("creating", &source))?;
            return Ok((created, "created"));
        }
        Err(error @ ClientError::Api(_)) => {
            let what = format!(
                "retrieving current configuration of:\nResource: \"{}, Resource={}\", GroupVersionKind: \"{}\"\nName: {:?}, Namespace: {:?}\nfrom server for:",
                resource.gvr.api_version(),
                resource.gvr.resource,
                object.gvk(),
                object.name(),
                namespace.clone().unwrap_or_default()
            );
            return Err(Failure::from(error).while_doing(&what, &source));
        }
        Err(error) => return Err(error.into()),
    };
    if live.annotation(LAST_APPLIED).is_none() {
        ctx.warn(&format!("Warning: resource {} is missing the {LAST_APPLIED} annotation which is required by kubectl apply. kubectl apply should only be used on resources created declaratively by either kubectl create --save-config or kubectl apply. The missing annotation will be patched automatically.\n", super::apply::resource_name(&resource, &object)));
    }
    if dry_run == DryRun::Client {
        // As kubectl: what would change isn't computed, the live object is shown.
        return Ok((live, "configured"));
    }
    let (patch, content_type) = compute(&modified, &live)?;
    if patch.as_object().is_some_and(|p| p.is_empty()) {
        return Ok((live, "unchanged"));
    }
    let patching = |body: &Value| {
        let mut request = request::request(Method::PATCH, &format!("{path}{query}"), Some(body));
        request
            .headers_mut()
            .insert(header::CONTENT_TYPE, content_type.parse().expect("a constant content type"));
        request
    };
    let result: Object = client.request(patching(&patch)).await.map_err(|e| {
        let what = format!("applying patch:\n{patch}\nto:\nResource: \"{}, Resource={}\", GroupVersionKind: \"{}\"\nName: {:?}, Namespace: {:?}\nfor:", resource.gvr.api_version(), resource.gvr.resource, object.gvk(), object.name(), namespace.clone().unwrap_or_default());
        Failure::from(e).while_doing(&what, &source)
    })?;
    Ok((result, "configured"))
}

/// `deployments/web`: how the warning names an object.
fn resource_name(resource: &crate::resource::ApiResource, object: &Object) -> String {
    format!("{}/{}", resource.gvr.resource, object.name())
}

/// The patch and its content type.
fn compute(modified: &Object, live: &Object) -> Result<(Value, &'static str), Failure> {
    let last: Value = match live.annotation(LAST_APPLIED) {
        Some(text) => serde_json::from_str(text).unwrap_or(Value::Null),
        None => Value::Null,
    };
    let (modified_value, current) = (modified.as_value(), live.as_value());
    let gvk = modified.gvk();
    if is_built_in(&gvk) {
        let patch = patch::three_way(&last, modified_value, current, &gvk)?;
        return Ok((patch, "application/strategic-merge-patch+json"));
    }
    Ok((patch::three_way_merge(&last, modified_value, current), "application/merge-patch+json"))
}

async fn server_side(
    ctx: &Context,
    args: &ApplyArgs,
    dry_run: DryRun,
    path: &str,
    object: &Object,
) -> Result<Object, Failure> {
    let manager = args.field_manager.clone().unwrap_or_else(|| "kubectl".into());
    let query = query(&[
        ("dryRun", dry_run.query()),
        ("fieldManager", Some(manager)),
        ("fieldValidation", Some(field_validation(&args.validate)?.to_string())),
        ("force", Some(args.force_conflicts.to_string())),
    ]);
    let request = Request::patch(format!("{path}{query}"))
        .header(header::ACCEPT, "application/json")
        .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
        .body(bytes::Bytes::from(object.as_value().to_string()));
    let request = request.map_err(|e| Failure::message(e.to_string()))?;
    ctx.client().await?.request(request).await.map_err(|error| match error.status() {
        Some(status) if error.is_conflict() => {
            Failure::message(format!("{}\n{CONFLICT_HELP}", status.message))
        }
        _ => error.into(),
    })
}

/// What to do about fields that somebody else owns.
const CONFLICT_HELP: &str = "\
Please review the fields above--they currently have other managers. Here
are the ways you can resolve this warning:
* If you intend to manage all of these fields, please re-run the apply
  command with the `--force-conflicts` flag.
* If you do not intend to manage all of the fields, please edit your
  manifest to remove references to the fields that should keep their
  current managers.
* You may co-own fields by updating your manifest to match the existing
  value; in this case, you'll become the manager if the other manager(s)
  stop managing the field (remove it from their configuration).
See https://kubernetes.io/docs/reference/using-api/server-side-apply/#conflicts";
