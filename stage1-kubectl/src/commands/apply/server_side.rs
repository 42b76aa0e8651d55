//! `kubectl apply --server-side`: the server computes the change, from who owns which field.
//!
//! What an object owes to earlier client-side applies belongs to a manager of its own, `kubectl-client-side-apply`. A field that is taken
//! out of the manifest would stay, because that manager still owns it. So after the first server-side apply the ownership is moved
//! ([`super::migration`]), and the manifest is applied once more.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/apply/apply.go`.

use http::{Method, Request};
use serde_json::json;

use super::{Applying, LAST_APPLIED, last_applied, migration};
use crate::client::ClientError;
use crate::commands::DryRun;
use crate::commands::create::field_validation;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, PatchType, query};

/// The manager of server-side applies, unless `--field-manager` says otherwise.
pub(super) const MANAGER: &str = "kubectl";
/// Who owns the annotation that client-side applies read.
const ANNOTATION_MANAGER: &str = "kubectl-last-applied";

impl Applying<'_> {
    fn manager(&self) -> &str {
        self.args.field_manager.as_deref().unwrap_or(MANAGER)
    }

    /// Applies the manifest, and takes over what client-side applies own.
    pub(super) async fn server_side(&self) -> Result<Object, Failure> {
        self.ctx.step(
            &self.object,
            "PATCH apply",
            "server-side apply: the server knows who owns which field",
        );
        let applied = self.send(&self.object, self.manager(), self.args.force_conflicts).await;
        let applied = applied.map_err(refused)?;
        if self.manager() != MANAGER || self.dry_run != DryRun::None || self.args.subresource.is_some() {
            return Ok(applied);
        }
        if let Err(failure) = self.keep_annotation(&applied).await {
            let why = failure.report().0;
            self.ctx.warn(&format!(
                "Warning: error while migrating last-applied-configuration annotation: {why}\n"
            ));
            return Ok(applied);
        }
        match self.migrate(&applied).await {
            Ok(false) => Ok(applied),
            Ok(true) => {
                self.send(&self.object, self.manager(), self.args.force_conflicts).await.map_err(refused)
            }
            Err(failure) => {
                let why = failure.report().0;
                self.ctx.warn(&format!("Warning: server rejected managed fields migration to Server-Side Apply. This is non-fatal and will be retried next time you apply. Error: {why}\n"));
                Ok(applied)
            }
        }
    }

    /// Sends an object as an apply patch.
    async fn send(&self, object: &Object, manager: &str, force: bool) -> Result<Object, ClientError> {
        let validation = field_validation(&self.args.validate).unwrap_or("Strict");
        let query = query(&[
            ("dryRun", self.dry_run.query()),
            ("fieldManager", Some(manager.to_string())),
            ("fieldValidation", Some(validation.to_string())),
            ("force", Some(force.to_string())),
        ]);
        let path = self.resource.path(
            self.namespace.as_deref(),
            Some(self.object.name()),
            self.args.subresource.as_deref(),
        );
        self.client_for(request::patch_at(&format!("{path}{query}"), PatchType::Apply, object.as_value()))
            .await
    }

    async fn client_for(&self, request: Request<bytes::Bytes>) -> Result<Object, ClientError> {
        match self.ctx.client().await {
            Ok(client) => client.request(request).await,
            Err(failure) => Err(ClientError::Config(failure.report().0)),
        }
    }

    /// An object that client-side applies know keeps its last manifest up to date, so that both ways can be mixed.
    async fn keep_annotation(&self, applied: &Object) -> Result<(), Failure> {
        if applied.annotation(LAST_APPLIED).is_none() {
            return Ok(());
        }
        let mut annotation = json!({
            "apiVersion": self.object.api_version(), "kind": self.object.kind(),
            "metadata": {"name": self.object.name(), "annotations": {LAST_APPLIED: last_applied(&self.object)}},
        });
        if let Some(namespace) = &self.namespace {
            annotation["metadata"]["namespace"] = namespace.clone().into();
        }
        let annotation = Object::from_value(annotation).map_err(|e| Failure::message(e.to_string()))?;
        self.send(&annotation, ANNOTATION_MANAGER, true).await?;
        Ok(())
    }

    /// Moves the ownership of client-side applies; whether there was any.
    async fn migrate(&self, applied: &Object) -> Result<bool, Failure> {
        if migration::upgrade(applied, MANAGER).is_none() {
            return Ok(false);
        }
        // The annotation was just written, so the record of owners may be newer than ours.
        let client = self.ctx.client().await?;
        let live: Object = client.request(request::request(Method::GET, &self.path, None)).await?;
        let Some(managed_fields) = migration::upgrade(&live, MANAGER) else { return Ok(false) };
        let patch = json!([
            {"op": "replace", "path": "/metadata/managedFields", "value": managed_fields},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": live.resource_version()},
        ]);
        let query = query(&[("fieldManager", Some(MANAGER.to_string()))]);
        let request = request::patch_at(&format!("{}{query}", self.path), PatchType::Json, &patch);
        client.request::<Object>(request).await?;
        Ok(true)
    }
}

fn refused(error: ClientError) -> Failure {
    match error.status() {
        Some(status) if error.is_conflict() => {
            Failure::message(format!("{}\n{CONFLICT_HELP}", status.message))
        }
        Some(status) if matches!(status.code, 406 | 415) => {
            Failure::message(format!("Server-side apply not available on the server: ({})", status.message))
        }
        _ => error.into(),
    }
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
