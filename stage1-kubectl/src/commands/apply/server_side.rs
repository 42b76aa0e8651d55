//! `kubectl apply --server-side`: the server computes the change, from who owns which field.
//!
//! # In Kubernetes
//! `kubectl/pkg/cmd/apply/apply.go`. Left out: the migration of ownership from client-side apply.

use http::{Request, header};

use super::Applying;
use crate::commands::create::field_validation;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::query;

impl Applying<'_> {
    /// Sends the whole manifest as an apply patch.
    pub(super) async fn server_side(&self) -> Result<Object, Failure> {
        let manager = self.args.field_manager.clone().unwrap_or_else(|| "kubectl".into());
        let query = query(&[
            ("dryRun", self.dry_run.query()),
            ("fieldManager", Some(manager)),
            ("fieldValidation", Some(field_validation(&self.args.validate)?.to_string())),
            ("force", Some(self.args.force_conflicts.to_string())),
        ]);
        let request = Request::patch(format!("{}{query}", self.path))
            .header(header::ACCEPT, "application/json")
            .header(header::CONTENT_TYPE, "application/apply-patch+yaml")
            .body(bytes::Bytes::from(self.object.as_value().to_string()));
        let request = request.map_err(|e| Failure::message(e.to_string()))?;
        self.ctx.client().await?.request(request).await.map_err(|error| match error.status() {
            Some(status) if error.is_conflict() => {
                Failure::message(format!("{}\n{CONFLICT_HELP}", status.message))
            }
            _ => error.into(),
        })
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
