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
//! `kubectl/pkg/cmd/apply/{apply,patcher}.go`. Left out: ApplySets. `--wait` changes nothing there either: `--force` waits in any case, and
//! what `--prune` deletes isn't waited for. Nor does `--openapi-patch`, since the merge keys of built-in kinds are the same in both places.

use clap::Args;
use http::Method;
use serde_json::Value;

use super::DryRun;
use super::builder::{self, FilenameFlags};
use super::create::{check, field_validation, print_result};
use super::delete::{self, DeletionFlags};
use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::manifest::Manifest;
use crate::object::Object;
use crate::patch;
use crate::printers::PrintFlags;
use crate::request::{self, PatchType, query};
use crate::resource::ApiResource;

mod edit_last_applied;
mod last_applied;
pub(in crate::commands) mod prune;
mod migration;
mod server_side;

use last_applied::drop_unreadable_annotations;
pub use last_applied::last_applied;

/// The annotation that keeps the last manifest.
pub const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// How often a patch is computed anew after a conflict, as kubectl's `maxPatchRetry`.
const MAX_PATCH_RETRIES: usize = 5;

/// Flags of `kubectl apply`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct ApplyArgs {
    /// What to do with the last manifests.
    #[command(subcommand)]
    pub command: Option<last_applied::LastAppliedCommand>,
    /// Files.
    #[command(flatten)]
    pub files: FilenameFlags,
    /// How the result is printed.
    #[command(flatten)]
    pub print: PrintFlags,
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
    /// Automatically delete resource objects, that do not appear in the configs and are created by apply.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub prune: bool,
    /// Overwrite the default allowlist with <group/version/kind> for --prune.
    #[arg(long)]
    pub prune_allowlist: Vec<String>,
    /// How `--prune` and `--force` delete.
    #[command(flatten)]
    pub deletion: DeletionFlags,
    /// If true, wait for resources to be gone before returning. This waits for finalizers.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub wait: bool,
    /// If true, use openapi to calculate diff when the openapi presents (the merge keys are built in).
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "true", default_missing_value = "true", action = clap::ArgAction::Set)]
    pub openapi_patch: bool,
    /// If specified, apply will operate on the subresource of the requested object. Only allowed when using --server-side.
    #[arg(long)]
    pub subresource: Option<String>,
    /// Select all resources in the namespace of the specified resource types.
    #[arg(long, num_args = 0..=1, require_equals = true, default_value = "false", default_missing_value = "true")]
    pub all: bool,
    /// Selector (label query) to filter on.
    #[arg(short = 'l', long)]
    pub selector: Option<String>,
}

/// Runs `kubectl apply`.
///
/// # Errors
/// What the server refused, one failure an object.
pub async fn run(ctx: &Context, mut args: ApplyArgs) -> Result<(), Failure> {
    if let Some(command) = args.command.take() {
        return last_applied::run(ctx, command).await;
    }
    if args.files.is_empty() {
        return Err(Failure::message("must specify one of -f and -k"));
    }
    if args.force_conflicts && !args.server_side {
        return Err(Failure::message("--force-conflicts only works with --server-side"));
    }
    if args.deletion.force && args.server_side {
        return Err(Failure::message("--force cannot be used with --server-side"));
    }
    if args.subresource.is_some() && !args.server_side {
        return Err(Failure::message("--subresource can only be specified for --server-side"));
    }
    if args.prune && !args.all && args.selector.is_none() {
        let why = "all resources selected for prune without explicitly passing --all. To prune all resources, pass the --all flag. If you did not mean to prune all resources, specify a label selector";
        return Err(Failure::message(why));
    }
    let dry_run = DryRun::parse(&args.dry_run)?;
    if dry_run == DryRun::Client && args.server_side {
        let why = "--dry-run=client doesn't work with --server-side (did you mean --dry-run=server instead?)";
        return Err(Failure::message(why));
    }
    if dry_run == DryRun::Server && args.deletion.force {
        return Err(Failure::message("--dry-run=server cannot be used with --force"));
    }
    let output = args.print.printer()?;
    let found = args.files.read_each(check(&args.validate)?)?;
    let mut applied = Vec::new();
    let selector = args.selector.as_deref();
    builder::send_each(found, selector, "apply", async |manifest| {
        let applying = Applying::prepare(ctx, &args, dry_run, manifest).await?;
        let (object, done) = applying.apply().await?;
        applied.push(prune::Applied::of(&applying.resource, &object));
        print_result(ctx, output.as_ref(), &object, done, dry_run)
    })
    .await?;
    if args.prune {
        prune::prune(ctx, &args, dry_run, output.as_ref(), &applied).await?;
    }
    Ok(())
}

/// One manifest on its way.
struct Applying<'a> {
    ctx: &'a Context,
    args: &'a ApplyArgs,
    dry_run: DryRun,
    object: Object,
    source: String,
    resource: ApiResource,
    namespace: Option<String>,
    /// The object's path.
    path: String,
}

impl<'a> Applying<'a> {
    /// Finds where the object belongs.
    async fn prepare(
        ctx: &'a Context,
        args: &'a ApplyArgs,
        dry_run: DryRun,
        manifest: Manifest,
    ) -> Result<Self, Failure> {
        let Manifest { mut object, source } = manifest;
        let resource = ctx.resource_of(&object, &source).await?.clone();
        let namespace = builder::place(ctx, &resource, &mut object)?;
        let path = resource.path(namespace.as_deref(), Some(object.name()), None);
        let applying = Applying { ctx, args, dry_run, object, source, resource, namespace, path };
        if applying.object.name().is_empty() {
            return Err(Failure::message(format!(
                "error when retrieving current configuration of:\n{}\nfrom server for: {:?}: resource name may not be empty",
                applying.subject(),
                applying.source
            )));
        }
        Ok(applying)
    }

    /// How errors name the object.
    fn subject(&self) -> String {
        format!(
            "Resource: \"{}, Resource={}\", GroupVersionKind: \"{}\"\nName: {:?}, Namespace: {:?}",
            self.resource.gvr.api_version(),
            self.resource.gvr.resource,
            self.object.gvk(),
            self.object.name(),
            self.namespace.clone().unwrap_or_default()
        )
    }

    /// Dry run, field manager and validation.
    fn query(&self) -> Result<String, Failure> {
        let manager = self.args.field_manager.clone();
        Ok(query(&[
            ("dryRun", self.dry_run.query()),
            ("fieldManager", Some(manager.unwrap_or_else(|| "kubectl-client-side-apply".into()))),
            ("fieldValidation", Some(field_validation(&self.args.validate)?.to_string())),
        ]))
    }

    /// Creates or patches; says which.
    async fn apply(&self) -> Result<(Object, &'static str), Failure> {
        if self.args.server_side {
            return Ok((self.server_side().await?, "serverside-applied"));
        }
        let mut modified = self.object.clone();
        drop_unreadable_annotations(&mut modified);
        self.ctx.record(&mut modified);
        modified.set_annotation(LAST_APPLIED, &last_applied(&modified));
        let get = request::request(Method::GET, &self.path, None);
        match self.ctx.client().await?.request::<Object>(get).await {
            Ok(live) => self.patch_again(&modified, live).await,
            Err(error) if error.is_not_found() => Ok((self.create(modified).await?, "created")),
            Err(error @ ClientError::Api(_)) => {
                let what =
                    format!("retrieving current configuration of:\n{}\nfrom server for:", self.subject());
                Err(Failure::from(error).while_doing(&what, &self.source))
            }
            Err(error) => Err(error.into()),
        }
    }

    async fn create(&self, mut modified: Object) -> Result<Object, Failure> {
        if self.dry_run == DryRun::Client {
            return Ok(modified);
        }
        // A null says "not set": there is nothing yet that it could remove.
        drop_nulls(modified.as_map_mut());
        let path = self.resource.path(self.namespace.as_deref(), None, None) + &self.query()?;
        self.ctx.step(&modified, "POST", "apply: the server has no such object yet");
        let request = request::request(Method::POST, &path, Some(modified.as_value()));
        let created = self.ctx.client().await?.request(request).await;
        created.map_err(|e| Failure::from(e).while_doing("creating", &self.source))
    }

    /// Patches; once more when somebody else was faster, and anew with `--force` when the server refuses the change.
    async fn patch_again(&self, modified: &Object, live: Object) -> Result<(Object, &'static str), Failure> {
        let first = live.clone();
        let mut patched = self.patch(modified, live).await;
        for _ in 0..MAX_PATCH_RETRIES {
            let conflict = matches!(&patched, Err(Failure::Client(error)) if error.is_conflict());
            if !conflict {
                break;
            }
            let get = request::request(Method::GET, &self.path, None);
            let live: Object = self.ctx.client().await?.request(get).await?;
            patched = self.patch(modified, live).await;
        }
        let refused =
            matches!(&patched, Err(Failure::Client(error)) if error.is_conflict() || error.is_invalid());
        match refused && self.args.deletion.force {
            true => Ok((self.recreate(modified, first).await?, "configured")),
            false => patched,
        }
    }

    /// `--force`: what can't be changed is deleted and created.
    async fn recreate(&self, modified: &Object, mut live: Object) -> Result<Object, Failure> {
        live.set_resource_version("");
        live.remove("/metadata/resourceVersion");
        let target = builder::Target {
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            name: self.object.name().to_string(),
            manifest: None,
        };
        let flags = &self.args.deletion;
        delete::delete_and_wait(self.ctx, &target, flags, flags.grace_period_seconds()).await?;
        match self.create(modified.clone()).await {
            Ok(created) => Ok(created),
            // Better the old object than none; the error is told all the same.
            Err(failure) => match self.create(live).await {
                Ok(_) => Err(failure),
                Err(second) => Err(Failure::message(format!(
                    "An error occurred force-replacing the existing object with the newly provided one:\n\n{}.\n\nAdditionally, an error occurred attempting to restore the original object:\n\n{}",
                    failure.report().0,
                    second.report().0
                ))),
            },
        }
    }

    async fn patch(&self, modified: &Object, live: Object) -> Result<(Object, &'static str), Failure> {
        if live.annotation(LAST_APPLIED).is_none() {
            let name = format!("{}/{}", self.resource.gvr.resource, self.object.name());
            self.ctx.warn(&format!("Warning: resource {name} is missing the {LAST_APPLIED} annotation which is required by kubectl apply. kubectl apply should only be used on resources created declaratively by either kubectl create --save-config or kubectl apply. The missing annotation will be patched automatically.\n"));
        }
        if self.dry_run == DryRun::Client {
            // As kubectl: what would change isn't computed, the live object is shown.
            return Ok((live, "configured"));
        }
        let (patch, patch_type) = self.compute(modified, &live)?;
        if patch.as_object().is_some_and(|p| p.is_empty()) {
            return Ok((live, "unchanged"));
        }
        let path = format!("{}{}", self.path, self.query()?);
        self.ctx.step(
            modified,
            "PATCH",
            "apply: the manifest differs from what was applied last or what the server has",
        );
        let request = request::patch_at(&path, patch_type, &patch);
        let result: Object = self.ctx.client().await?.request(request).await.map_err(|e| {
            let what = format!("applying patch:\n{patch}\nto:\n{}\nfor:", self.subject());
            Failure::from(e).while_doing(&what, &self.source)
        })?;
        Ok((result, "configured"))
    }

    /// The patch and what it is written in.
    fn compute(&self, modified: &Object, live: &Object) -> Result<(Value, PatchType), Failure> {
        let last = last_manifest(live);
        let (modified, current, gvk) = (modified.as_value(), live.as_value(), modified.gvk());
        let (patch, patch_type) = patch::difference(&last, modified, current, &gvk)?;
        if !self.args.overwrite && patch_type == PatchType::Strategic {
            patch::refuse_conflicts(&patch, &last, current, &gvk).map_err(|conflict| {
                let (subject, source) = (self.subject(), &self.source);
                let what = format!("error when applying patch:\n\nto:\n{subject}\nfor: {source:?}: error when patching {source:?}");
                let with = format!("original:\n{last}\n\nmodified:\n{modified}\n\ncurrent:\n{current}\n\nfor:");
                Failure::message(format!("{what}: creating patch with:\n{with}: {conflict}"))
            })?;
        }
        Ok((patch, patch_type))
    }
}

/// The manifest that an object was applied from last.
pub(in crate::commands) fn last_manifest(live: &Object) -> Value {
    let text = live.annotation(LAST_APPLIED);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or(Value::Null)
}

fn drop_nulls(map: &mut serde_json::Map<String, Value>) {
    map.retain(|_, value| !value.is_null());
    map.values_mut().filter_map(Value::as_object_mut).for_each(drop_nulls);
}
