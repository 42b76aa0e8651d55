//! The field manager of a request: its name, the versions of its kind, and what its path can't change.
//!
//! *Step 2 of a pod's journey.* Before: [`super::write_path`] has the object as it was and as it shall be. After: what
//! changed is booked in `metadata.managedFields`, by the rules of [`crate::managed_fields`].
//!
//! # Invariants
//! 1. What a strategy puts back to what it was is nobody's.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/{create,update,patch}.go` (`scope.FieldManager`), `GetResetFields` of the storages.

use jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::Status;

use super::convert;
use super::write_path::WriteRequest;
use crate::custom_resources::conversion::known::Prepared;
use crate::managed_fields::field_types::{ObjectType, built_in};
use crate::managed_fields::updater::Versions;
use crate::managed_fields::{self, Writer};
use crate::registry::{self, ResourceInfo};
use crate::schema::{self, zero};
use crate::strategies::core::DEPRECATED_TEMPLATE_GENERATION;

/// A path of fields.
type Path = &'static [&'static str];

/// The versions in which the objects of a resource are served.
struct Served(&'static ResourceInfo);

impl Served {
    /// The same objects in another version.
    fn in_version(&self, api_version: &str) -> Option<&'static ResourceInfo> {
        if let Some(kind) = self.0.custom_kind() {
            return kind.siblings.iter().copied().find(|info| info.group_version() == api_version);
        }
        let gvk = GroupVersionKind::from_api_version(api_version, self.0.kind);
        let found = registry::find_kind(&gvk.group, &gvk.version, &gvk.kind)?;
        let prefix = |info: &ResourceInfo| info.storage.map(|storage| storage.prefix);
        (prefix(found) == prefix(self.0)).then_some(found)
    }
}

impl Versions for Served {
    fn api_version(&self) -> String {
        self.0.group_version()
    }

    fn object_type(&self, api_version: &str) -> Option<ObjectType> {
        self.in_version(api_version).map(|info| match info.custom_kind() {
            Some(kind) => kind.object_type.clone(),
            None => built_in::object_type(&info.gvk()),
        })
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        let from = self.in_version(object["apiVersion"].as_str()?)?;
        let to = self.in_version(api_version)?;
        let unprepared = Prepared::default();
        let stored = convert::to_stored(from, Object::from_value(object.clone()).ok()?, &unprepared);
        Some(convert::to_served(to, &stored, &unprepared).into_owned().into_value())
    }
}

/// What a request can't change, whatever it sends.
fn reset_fields(resource: &ResourceInfo, subresource: &str) -> &'static [Path] {
    const STATUS: &[Path] = &[&["status"]];
    const SPEC: &[Path] = &[&["spec"]];
    const POD_STATUS: &[Path] =
        &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]];
    match (subresource, resource.kind) {
        ("status", _) if resource.custom.is_some() => &[&["metadata"], &["spec"]],
        ("", "CertificateSigningRequest") => &[&["spec"], &["status"]],
        ("", _) if resource.subresource("status").is_none() => &[],
        ("" | "finalize" | "ephemeralcontainers" | "resize" | "scale", _) => STATUS,
        ("status", "Pod") => POD_STATUS,
        ("status", "Deployment") => &[&["spec"], &["metadata", "labels"]],
        ("approval", _) => &[&["spec"], &["status", "certificate"]],
        _ => SPEC,
    }
}

/// The kind's empty object.
fn empty(resource: &ResourceInfo) -> Value {
    let schema = schema::schema_for(&resource.gvk());
    let bare = || json!({ "apiVersion": resource.group_version(), "kind": resource.kind, "metadata": {} });
    schema.map_or_else(bare, zero::zero_object)
}

fn with_writer<T>(request: &WriteRequest<'_>, act: impl FnOnce(&Writer<'_>) -> T) -> T {
    act(&Writer {
        manager: &request.context.field_manager(),
        subresource: request.subresource,
        now: request.context.now,
        versions: &Served(request.resource),
        ignored: reset_fields(request.resource, request.subresource),
    })
}

/// Books a write that isn't an apply; `old` is `None` for a new object.
pub fn record(request: &WriteRequest<'_>, old: Option<&Object>, new: &mut Object) {
    let mut value = std::mem::take(new).into_value();
    let lent = old.is_none() && lend_labels(request.resource, &mut value);
    if request.subresource.is_empty() {
        count_template(request.resource, &mut value);
    }
    with_writer(request, |writer| writer.record(request.resource, old, &mut value));
    if let (true, Some(metadata)) = (lent, value["metadata"].as_object_mut()) {
        metadata.remove("labels");
    }
    *new = Object::from_value(value).expect("books are kept in a map");
}

/// Books what the server writes of its own accord.
pub fn record_own(
    resource: &'static ResourceInfo,
    manager: &str,
    now: Timestamp,
    old: Option<&Object>,
    new: &mut Object,
) {
    let mut value = std::mem::take(new).into_value();
    // A Namespace's finalizer is its strategy's doing, wherever it comes from.
    const NAMESPACE: &[Path] = &[&["spec"], &["status"]];
    let ignored = if resource.kind == "Namespace" { NAMESPACE } else { reset_fields(resource, "") };
    let writer = Writer { manager, subresource: "", now, versions: &Served(resource), ignored };
    writer.record(resource, old, &mut value);
    *new = Object::from_value(value).expect("books are kept in a map");
}

/// Books a status that the server writes of its own accord.
pub fn record_own_status(
    resource: &'static ResourceInfo,
    manager: &str,
    now: Timestamp,
    old: &Object,
    new: &mut Object,
) {
    let mut value = std::mem::take(new).into_value();
    let ignored = reset_fields(resource, "status");
    let writer = Writer { manager, subresource: "status", now, versions: &Served(resource), ignored };
    writer.record(resource, Some(old), &mut value);
    *new = Object::from_value(value).expect("books are kept in a map");
}

impl Writer<'_> {
    fn record(&self, resource: &ResourceInfo, old: Option<&Object>, new: &mut Value) {
        match old {
            Some(old) => self.record_update(old.as_value(), new),
            None => self.record_update(&empty(resource), new),
        }
    }
}

/// A new Job without labels has its template's by default. The strategy adds to both later, so until then they are only lent.
fn lend_labels(resource: &ResourceInfo, job: &mut Value) -> bool {
    let filled = |labels: Option<&Value>| labels.and_then(Value::as_object).is_some_and(|l| !l.is_empty());
    let labels = job.pointer("/spec/template/metadata/labels").cloned();
    if resource.kind != "Job" || filled(job.pointer("/metadata/labels")) || !filled(labels.as_ref()) {
        return false;
    }
    job["metadata"]["labels"] = labels.unwrap_or_default();
    true
}

/// Every DaemonSet counts its template's generations in an annotation, from 0 when a client leaves it out.
fn count_template(resource: &ResourceInfo, daemon_set: &mut Value) {
    if resource.kind == "DaemonSet"
        && daemon_set["metadata"]["annotations"].get(DEPRECATED_TEMPLATE_GENERATION).is_none()
    {
        daemon_set["metadata"]["annotations"][DEPRECATED_TEMPLATE_GENERATION] = json!("0");
    }
}

/// Leaves the times of the books alone if nothing else changed in the end.
pub fn keep_times(old: &Object, new: &mut Object) {
    let mut value = std::mem::take(new).into_value();
    managed_fields::keep_times(old.as_value(), &mut value);
    *new = Object::from_value(value).expect("books are kept in a map");
}

/// Lays an applied object over the live one, or makes a new one of it.
///
/// # Errors
/// What can't be applied, and conflicts.
pub fn apply(
    request: &WriteRequest<'_>,
    live: Option<&Object>,
    applied: &Value,
    force: bool,
) -> Result<Object, Status> {
    let empty = empty(request.resource);
    let live = live.map_or(&empty, Object::as_value);
    let merged = with_writer(request, |writer| writer.apply(live, &empty, applied, force))?;
    let Some(schema) = schema::schema_for(&request.resource.gvk()) else {
        return Object::from_value(merged).map_err(|e| Status::bad_request(e.to_string()));
    };
    let decoded = schema::decode_value(merged, schema);
    if let Some(error) = decoded.error {
        let shown = managed_fields::shown_object(applied);
        let text = format!("failed to convert new typed object ({shown}) to object: {error}");
        return Err(Status::failure(500, "", text));
    }
    let mut object = Object::from_value(decoded.value).map_err(|e| Status::bad_request(e.to_string()))?;
    object.set_gvk(&request.resource.gvk());
    Ok(object)
}
