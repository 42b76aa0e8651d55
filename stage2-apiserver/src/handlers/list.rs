//! LIST: the objects of a resource, all or in pieces.
//!
//! *Step 2 of a pod's journey.* Before: an informer starts, or somebody runs `kubectl get`. After: a state with a
//! resourceVersion, from which a watch can go on.
//!
//! # Invariants
//! 1. The list's resourceVersion is the revision of the state that it shows.
//! 2. Items have no kind and apiVersion of their own: the list says it once.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/get.go` (`ListResource`).

use std::sync::Arc;

use bytes::{BufMut, BytesMut};
use http::StatusCode;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;

use super::options::ListOptions;
use super::respond::{self, Answer};
use super::selectors::{check_field_selector, matches};
use super::{Routed, convert, prepare};
use crate::custom_resources::conversion::known::Prepared;
use crate::negotiation::{Format, PROTOBUF, Transform};
use crate::protobuf;
use crate::registry::ResourceInfo;
use crate::table::render_table;
use crate::watch_cache::{self, At, CachedObject, Listed, Predicate};

/// Answers with the list that the query describes.
///
/// # Errors
/// 400 and 422 for bad options, 410 for a past that is forgotten.
pub async fn handle(routed: &Routed<'_>) -> Result<Answer, Status> {
    let options = ListOptions::parse(&routed.context.query, false)?;
    check_field_selector(routed.resource, &options.field_selector)?;
    let listed = list(routed, &options).await?;
    let objects: Vec<&Object> = listed.items.iter().map(|item| &item.object).collect();
    prepare::served(routed.context, routed.resource, &objects).await?;
    Ok(render(routed, &listed))
}

/// Lists as the options say.
///
/// # Errors
/// As [`handle`].
pub async fn list(routed: &Routed<'_>, options: &ListOptions) -> Result<Listed, Status> {
    let limit = usize::try_from(options.limit).unwrap_or(0);
    check_version(&options.resource_version)?;
    let continues = !options.continue_token.is_empty();
    let at = At::of_list(&options.resource_version, &options.resource_version_match, limit, continues)?;
    let cache = routed.context.server.stores.of(routed.resource).cacher().clone();
    let request = watch_cache::ListOptions {
        scope: routed.resource.key_prefix(routed.context.namespace()),
        selector: selector(routed.resource, options),
        at,
        limit,
        continue_token: options.continue_token.clone(),
    };
    cache.list(&request).await
}

/// A text instead of a revision is an internal error there, and so here.
fn check_version(version: &str) -> Result<(), Status> {
    match version.is_empty() || version.parse::<u64>().is_ok() {
        true => Ok(()),
        false => Err(Status::failure(
            500,
            "",
            format!(
                "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
            ),
        )),
    }
}

/// The condition that objects must meet; `None` for all.
pub fn selector(resource: &'static ResourceInfo, options: &ListOptions) -> Option<Predicate> {
    if options.label_selector.is_empty() && options.field_selector.is_empty() {
        return None;
    }
    let (labels, fields) = (options.label_selector.clone(), options.field_selector.clone());
    let stored_otherwise = convert::is_converted(resource);
    let unprepared = Prepared::default();
    Some(Arc::new(move |object: &Object| match stored_otherwise {
        false => matches(object, &labels, &fields),
        true => matches(&convert::to_served(resource, object, &unprepared), &labels, &fields),
    }))
}

fn list_metadata(listed: &Listed) -> Value {
    let mut metadata = json!({ "resourceVersion": listed.revision.to_string() });
    if let Some(token) = &listed.continue_token {
        metadata["continue"] = json!(token);
    }
    if let Some(remaining) = listed.remaining {
        metadata["remainingItemCount"] = json!(remaining);
    }
    metadata
}

fn render(routed: &Routed<'_>, listed: &Listed) -> Answer {
    let metadata = list_metadata(listed);
    let format = routed.negotiated.format;
    match &routed.negotiated.transform {
        Transform::Plain if format == Format::Json => plain_json(routed, &metadata, &listed.items),
        Transform::Plain if format == Format::Protobuf && !convert::is_converted(routed.resource) => {
            plain_protobuf(routed.resource, &metadata, &listed.items)
        }
        Transform::Plain => {
            let items: Vec<Value> = served(routed, listed).into_iter().map(without_kind).collect();
            let list = json!({
                "kind": routed.resource.list_kind(),
                "apiVersion": routed.resource.group_version(),
                "metadata": metadata,
                "items": items,
            });
            respond::value(StatusCode::OK, format, &list)
        }
        Transform::Table(api_version) => {
            let objects = served(routed, listed);
            let references: Vec<&Value> = objects.iter().collect();
            let view = routed.view();
            let options = view.table_options(api_version, false);
            let table = render_table(view.group, view.kind, &references, metadata, &options);
            respond::value(StatusCode::OK, format, &table)
        }
        Transform::PartialObjectMetadata(api_version) | Transform::PartialObjectMetadataList(api_version) => {
            let partial = |o: &Arc<CachedObject>| respond::partial_metadata(api_version, o.object.as_value());
            let items: Vec<Value> = listed.items.iter().map(partial).collect();
            let list = json!({
                "kind": "PartialObjectMetadataList",
                "apiVersion": api_version,
                "metadata": metadata,
                "items": items,
            });
            respond::value(StatusCode::OK, format, &list)
        }
    }
}

fn served(routed: &Routed<'_>, listed: &Listed) -> Vec<Value> {
    let convert = |o: &Arc<CachedObject>| routed.served(&o.object).into_owned().into_value();
    listed.items.iter().map(convert).collect()
}

fn without_kind(mut item: Value) -> Value {
    if let Value::Object(map) = &mut item {
        map.remove("kind");
        map.remove("apiVersion");
    }
    item
}

/// Writes the list item by item, without building a tree of it.
fn plain_json(routed: &Routed<'_>, metadata: &Value, items: &[Arc<CachedObject>]) -> Answer {
    let resource = routed.resource;
    let mut body = BytesMut::with_capacity(256 + items.len() * 1024);
    let head = format!(
        "{{\"kind\":{:?},\"apiVersion\":{:?},\"metadata\":{metadata},\"items\":[",
        resource.list_kind(),
        resource.group_version()
    );
    body.put_slice(head.as_bytes());
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            body.put_u8(b',');
        }
        write_item(&mut body, &routed.served(&item.object));
    }
    body.put_slice(b"]}");
    respond::bytes(StatusCode::OK, "application/json", body.freeze())
}

/// Puts the items' messages, which the cache has, one after the other into the list's.
fn plain_protobuf(resource: &'static ResourceInfo, metadata: &Value, items: &[Arc<CachedObject>]) -> Answer {
    let (group_version, kind) = (resource.group_version(), resource.list_kind());
    let mut list = protobuf::encode_raw(&group_version, &kind, &json!({ "metadata": metadata }))
        .expect("a list's metadata fits its message");
    for item in items.iter().filter_map(|item| item.message()) {
        protobuf::put_bytes(protobuf::LIST_ITEMS, item, &mut list);
    }
    respond::bytes(StatusCode::OK, PROTOBUF, protobuf::seal(&group_version, &kind, &list))
}

/// One item, field by field, without kind and apiVersion.
fn write_item(body: &mut BytesMut, object: &Object) {
    body.put_u8(b'{');
    let fields = object.as_value().as_object().into_iter().flatten();
    for (index, (key, value)) in
        fields.filter(|(k, _)| !matches!(k.as_str(), "kind" | "apiVersion")).enumerate()
    {
        if index > 0 {
            body.put_u8(b',');
        }
        serde_json::to_writer((&mut *body).writer(), key).expect("writing to memory doesn't fail");
        body.put_u8(b':');
        serde_json::to_writer((&mut *body).writer(), value).expect("writing to memory doesn't fail");
    }
    body.put_u8(b'}');
}

/// The deprecated list of the control plane's health: the store, and nothing else is known here.
///
/// # Errors
/// 404 for a name that isn't listed.
pub fn component_statuses(routed: &Routed<'_>) -> Result<Answer, Status> {
    routed.context.warn(["v1 ComponentStatus is deprecated in v1.19+".to_owned()]);
    let condition = json!([{ "type": "Healthy", "status": "True", "message": "ok" }]);
    let component = json!({
        "kind": "ComponentStatus",
        "apiVersion": "v1",
        "metadata": { "name": "etcd-0" },
        "conditions": condition,
    });
    match routed.context.info.name.as_str() {
        "" => {
            let objects = [&component];
            let list = match &routed.negotiated.transform {
                Transform::Table(api_version) => {
                    let view = routed.view();
                    render_table(
                        "",
                        "ComponentStatus",
                        &objects,
                        json!({}),
                        &view.table_options(api_version, false),
                    )
                }
                _ => {
                    json!({ "kind": "ComponentStatusList", "apiVersion": "v1", "metadata": {}, "items": objects })
                }
            };
            Ok(respond::value(StatusCode::OK, routed.negotiated.format, &list))
        }
        "etcd-0" => Ok(respond::object(StatusCode::OK, &routed.negotiated, &routed.view(), &component)),
        _ => Err(routed.not_found()),
    }
}
