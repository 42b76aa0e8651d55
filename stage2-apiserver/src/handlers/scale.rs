//! `/scale`: the number of replicas, the same for every kind that has one.
//!
//! `kubectl scale` and the autoscaler don't need to know what a Deployment is: they read and write a Scale, which is
//! nothing but a view of `spec.replicas`, `status.replicas` and the selector.
//!
//! # In Kubernetes
//! `ScaleREST` in `pkg/registry/apps/deployment/storage/storage.go`.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::{FieldError, Status};

use super::options::WriteOptions;
use super::patch::{apply_patch, parse_patch};
use super::respond::Answer;
use super::update::check_identity;
use super::write_path::{self, WriteRequest};
use super::{Routed, apply, field_manager, prepare};
use crate::custom_resources::{Scale, simple_path};
use crate::decode::decode_body;
use crate::negotiation::{body_format, media_type};
use crate::registry::{ResourceInfo, StorageInfo};
use crate::table::cells;
use crate::watch_cache::At;

/// Reads, replaces or patches the Scale of an object.
///
/// # Errors
/// Whatever a gate refuses.
pub async fn handle(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let scale = match routed.context.info.verb.as_str() {
        "get" => {
            let store = routed.context.server.stores.of(routed.resource);
            let name = &routed.context.info.name;
            let found = store.get(routed.context.namespace(), name, At::Consistent).await?;
            prepare::served(routed.context, routed.resource, &[&found.object]).await?;
            scale_of(routed.resource, &routed.served(&found.object))
        }
        verb => write(routed, body, verb == "patch").await?,
    };
    Ok(routed.answer_plain(StatusCode::OK, &scale))
}

async fn write(routed: &Routed<'_>, body: &Bytes, is_patch: bool) -> Result<Object, Status> {
    let kind = if is_patch { "PatchOptions" } else { "UpdateOptions" };
    let media_type = media_type(routed.content_type().unwrap_or(""));
    let is_apply = is_patch && media_type == apply::MEDIA_TYPE;
    let options = WriteOptions::parse(&routed.context.query, kind, is_apply)?;
    let request = WriteRequest {
        context: routed.context,
        resource: routed.resource,
        name: routed.context.info.name.clone(),
        subresource: "scale",
        dry_run: options.dry_run,
    };
    let updated = if is_apply {
        let applied = apply::read(body)?;
        let change = |current: &Object| {
            let part = apply::scale_of_applied(&applied, current, &replicas_path(routed.resource))?;
            let new = field_manager::apply(&request, Some(current), &part, options.force);
            let new = new.map_err(|status| in_the_words_of_scale(status, current))?;
            let mut scale = scale_of(routed.resource, &new);
            scale.set_name(new.name());
            check_replicas(&scale)?;
            Ok(new)
        };
        write_path::update_applied(&request, &change).await?
    } else if is_patch {
        let patch = parse_patch(&media_type, body)?;
        let change = |current: &Object| {
            let (scale, _) =
                apply_patch(&SCALE, &patch, &scale_of(routed.resource, current), options.field_validation)?;
            with_replicas(routed.resource, current, &scale)
        };
        write_path::update(&request, &change).await?
    } else {
        let gvk = GroupVersionKind::new("autoscaling", "v1", "Scale");
        let format = body_format(routed.content_type())?;
        let mut sent = decode_body(body, format, &gvk, options.field_validation)?.object;
        check_identity(routed, &mut sent)?;
        write_path::update(&request, &|current: &Object| with_replicas(routed.resource, current, &sent))
            .await?
    };
    Ok(scale_of(routed.resource, &updated))
}

/// The Scale as a resource of its own, for patches.
const SCALE: ResourceInfo = {
    let mut info = ResourceInfo::namespaced("autoscaling", "v1", "scales", "scale", "Scale", "");
    info.storage = None::<StorageInfo>;
    info
};

/// The view of an object's replicas.
pub fn scale_of(resource: &ResourceInfo, object: &Object) -> Object {
    let mut metadata = json!({});
    for field in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = object.get(&format!("/metadata/{field}")) {
            metadata[field] = value.clone();
        }
    }
    let value = object.as_value();
    let custom = resource.custom_kind().and_then(|kind| kind.scale.clone());
    let (spec, status) = match custom {
        Some(scale) => custom_numbers(value, &scale),
        None => built_in_numbers(value),
    };
    let scale = json!({
        "kind": "Scale", "apiVersion": "autoscaling/v1", "metadata": metadata, "spec": spec, "status": status,
    });
    Object::from_value(scale).expect("a Scale is a map")
}

fn built_in_numbers(object: &Value) -> (Value, Value) {
    let mut spec = json!({});
    if let Some(replicas) = object.pointer("/spec/replicas").filter(|r| r.as_i64() != Some(0)) {
        spec["replicas"] = replicas.clone();
    }
    let mut status = json!({ "replicas": cells::number(object, "/status/replicas") });
    let is_controller = object["kind"] == "ReplicationController";
    let selector = match is_controller {
        true => cells::labels(object, "/spec/selector"),
        false => cells::selector(object, "/spec/selector"),
    };
    if selector != "<none>" {
        status["selector"] = json!(selector);
    }
    (spec, status)
}

/// The numbers where a custom kind's definition says that they are.
fn custom_numbers(object: &Value, scale: &Scale) -> (Value, Value) {
    let number = |path: &str| simple_path::get(object, path).and_then(Value::as_i64).unwrap_or(0);
    let mut spec = json!({});
    if number(&scale.spec_replicas) != 0 {
        spec["replicas"] = json!(number(&scale.spec_replicas));
    }
    let mut status = json!({ "replicas": number(&scale.status_replicas) });
    if let Some(selector) = simple_path::get(object, &scale.label_selector).and_then(Value::as_str) {
        status["selector"] = json!(selector);
    }
    (spec, status)
}

/// Where an object has its number of replicas, as a JSON pointer.
fn replicas_path(resource: &ResourceInfo) -> String {
    let custom = resource.custom_kind().and_then(|kind| kind.scale.clone());
    custom.map_or_else(|| "/spec/replicas".to_owned(), |scale| scale.spec_replicas.replace('.', "/"))
}

/// The object with the Scale's number of replicas.
///
/// # Errors
/// The number is negative.
pub fn with_replicas(resource: &ResourceInfo, current: &Object, scale: &Object) -> Result<Object, Status> {
    let replicas = check_replicas(scale)?;
    let mut new = current.clone();
    new.set(&replicas_path(resource), replicas);
    new.set_uid(scale.uid());
    new.set_resource_version(scale.resource_version());
    Ok(new)
}

/// The number of replicas that a Scale (or its object) asks for.
fn check_replicas(scale: &Object) -> Result<i64, Status> {
    let replicas = scale.get("/spec/replicas").and_then(Value::as_i64).unwrap_or(0);
    if replicas < 0 {
        let error = FieldError::invalid("spec.replicas", replicas, "must be greater than or equal to 0");
        return Err(Status::invalid("Scale.autoscaling", scale.name(), &[error]));
    }
    Ok(replicas)
}

/// Conflicts about the replicas name the version of the Scale, not of its object.
fn in_the_words_of_scale(mut status: Status, current: &Object) -> Status {
    let (object, scale) = (format!("using {}", current.api_version()), "using autoscaling/v1");
    status.message = status.message.replace(&object, scale);
    for cause in status.details.iter_mut().flat_map(|details| &mut details.causes) {
        cause.message = cause.message.replace(&object, scale);
    }
    status
}
