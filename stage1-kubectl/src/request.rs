//! Requests: a verb and a resource become an HTTP request.
//!
//! *Step 1 of a pod's journey.* Before: an [`crate::object::Object`] and its [`ApiResource`]. After: [`crate::client`] sends
//! the request; [stage 2's request_info](https://kubernetes.io/docs/reference/using-api/) reads the same path backwards.
//!
//! Requests are values here: the functions fill in method, path, query, content type and body, and send nothing. So the
//! whole wire behaviour of the client can be tested without a server.
//!
//! # Invariants
//! 1. `list`, `watch` and `deletecollection` address the collection, everything else one object.
//!
//! # In Kubernetes
//! `client-go/rest/request.go` and the typed clients generated on top of it.

use bytes::Bytes;
use http::{Method, Request, header};
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Value, json};

use crate::protobuf;
use crate::resource::ApiResource;

/// The languages that a patch can be written in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PatchType {
    /// RFC 6902, a list of operations.
    Json,
    /// RFC 7386, the changed part of the object.
    Merge,
    /// The changed part of the object, where lists merge by key.
    Strategic,
    /// Server-side apply.
    Apply,
}

impl PatchType {
    /// The content type that tells the server which of them it is.
    pub fn content_type(self) -> &'static str {
        match self {
            PatchType::Json => "application/json-patch+json",
            PatchType::Merge => "application/merge-patch+json",
            PatchType::Strategic => "application/strategic-merge-patch+json",
            PatchType::Apply => "application/apply-patch+yaml",
        }
    }
}

/// A patch, and what it is written in.
#[derive(Debug, Clone, PartialEq)]
pub enum Patch {
    /// RFC 6902, a list of operations.
    Json(Value),
    /// RFC 7386, the changed part of the object.
    Merge(Value),
    /// The changed part of the object, where lists merge by key.
    Strategic(Value),
    /// Server-side apply: the fields that `field_manager` wants to own.
    Apply {
        /// The fields.
        object: Value,
        /// Who owns them.
        field_manager: String,
        /// Take fields away from other owners.
        force: bool,
    },
}

impl Patch {
    /// The content type that tells the server which kind of patch this is.
    pub fn content_type(&self) -> &'static str {
        let patch_type = match self {
            Patch::Json(_) => PatchType::Json,
            Patch::Merge(_) => PatchType::Merge,
            Patch::Strategic(_) => PatchType::Strategic,
            Patch::Apply { .. } => PatchType::Apply,
        };
        patch_type.content_type()
    }

    fn body(&self) -> &Value {
        match self {
            Patch::Json(v) | Patch::Merge(v) | Patch::Strategic(v) => v,
            Patch::Apply { object, .. } => object,
        }
    }
}

/// Which objects to list, and how many at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ListParams {
    /// `app=web`.
    pub label_selector: Option<String>,
    /// `spec.nodeName=node-1`.
    pub field_selector: Option<String>,
    /// At most so many; the answer's `continue_` fetches the rest.
    pub limit: Option<u32>,
    /// The rest of an earlier list.
    pub continue_token: Option<String>,
    /// `"0"`: any version the server has at hand; else at least this one.
    pub resource_version: Option<String>,
    /// `Exact` or `NotOlderThan`.
    pub resource_version_match: Option<String>,
}

/// Which changes to hear about, and from when on.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct WatchParams {
    /// Changes after this version.
    pub resource_version: Option<String>,
    /// `app=web`.
    pub label_selector: Option<String>,
    /// `spec.nodeName=node-1`.
    pub field_selector: Option<String>,
    /// The server ends the watch after so long.
    pub timeout_seconds: Option<u32>,
    /// Whether to send bookmarks.
    pub bookmarks: bool,
    /// Begin with the objects that exist, then a bookmark (`sendInitialEvents`).
    pub send_initial_events: bool,
}

/// How to delete.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteParams {
    /// Seconds that the object may take to go; the kind's default when `None`.
    pub grace_period_seconds: Option<i64>,
    /// `Foreground`, `Background` or `Orphan`.
    pub propagation_policy: Option<String>,
    /// Delete only the object with this uid.
    pub uid: Option<String>,
    /// Delete only this version.
    pub resource_version: Option<String>,
    /// Check, but don't do it.
    pub dry_run: bool,
}

impl DeleteParams {
    /// The `DeleteOptions` for the body; `None` when everything is the default.
    pub fn body(&self) -> Option<Value> {
        let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
        if let Some(seconds) = self.grace_period_seconds {
            body["gracePeriodSeconds"] = seconds.into();
        }
        if let Some(policy) = &self.propagation_policy {
            body["propagationPolicy"] = policy.clone().into();
        }
        if let Some(uid) = &self.uid {
            body["preconditions"]["uid"] = uid.clone().into();
        }
        if let Some(version) = &self.resource_version {
            body["preconditions"]["resourceVersion"] = version.clone().into();
        }
        if self.dry_run {
            body["dryRun"] = json!(["All"]);
        }
        body.as_object().is_some_and(|b| b.len() > 2).then_some(body)
    }
}

/// A query string from pairs; pairs without a value are left out.
pub fn query(pairs: &[(&str, Option<String>)]) -> String {
    const QUERY: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    // A space is a plus, as Go writes queries.
    let encode = |text: &str| utf8_percent_encode(text, QUERY).to_string().replace("%20", "+");
    let given = pairs.iter().filter_map(|(name, value)| Some((name, value.as_ref()?)));
    let parts: Vec<String> =
        given.map(|(name, value)| format!("{}={}", encode(name), encode(value))).collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!("?{}", parts.join("&")),
    }
}

/// Any request: method, path with query, and perhaps a JSON body.
pub fn request(method: Method, path_and_query: &str, body: Option<&Value>) -> Request<Bytes> {
    let content_type = body.map(|_| "application/json");
    let body = body.map(|b| Bytes::from(b.to_string())).unwrap_or_default();
    with_body(method, path_and_query, content_type, body)
}

/// `PATCH` of what is at a path.
pub fn patch_at(path_and_query: &str, patch_type: PatchType, patch: &Value) -> Request<Bytes> {
    let body = Bytes::from(patch.to_string());
    with_body(Method::PATCH, path_and_query, Some(patch_type.content_type()), body)
}

/// As client-go's typed clients send an object of a built-in kind: in protobuf, and JSON is wanted back.
pub fn typed(method: Method, path_and_query: &str, object: &Value) -> Request<Bytes> {
    match protobuf::encode_as_go(object) {
        Ok(body) => {
            with_body(method, path_and_query, Some("application/vnd.kubernetes.protobuf"), Bytes::from(body))
        }
        // A value that its type can't hold: the server says what is wrong with it.
        Err(_) => request(method, path_and_query, Some(object)),
    }
}

fn with_body(method: Method, path: &str, content_type: Option<&str>, body: Bytes) -> Request<Bytes> {
    let mut builder = Request::builder().method(method).uri(path).header(header::ACCEPT, "application/json");
    if let Some(content_type) = content_type {
        builder = builder.header(header::CONTENT_TYPE, content_type);
    }
    builder.body(body).expect("paths and queries are percent-encoded")
}

/// `GET` of one object.
pub fn get(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    subresource: Option<&str>,
) -> Request<Bytes> {
    request(Method::GET, &resource.path(namespace, Some(name), subresource), None)
}

/// `GET` of a collection.
pub fn list(resource: &ApiResource, namespace: Option<&str>, params: &ListParams) -> Request<Bytes> {
    let query = query(&[
        ("continue", params.continue_token.clone()),
        ("fieldSelector", params.field_selector.clone()),
        ("labelSelector", params.label_selector.clone()),
        ("limit", params.limit.map(|l| l.to_string())),
        ("resourceVersion", params.resource_version.clone()),
        ("resourceVersionMatch", params.resource_version_match.clone()),
    ]);
    request(Method::GET, &(resource.path(namespace, None, None) + &query), None)
}

/// `GET` of a collection's changes.
pub fn watch(resource: &ApiResource, namespace: Option<&str>, params: &WatchParams) -> Request<Bytes> {
    let query = query(&[
        ("allowWatchBookmarks", params.bookmarks.then(|| "true".into())),
        ("fieldSelector", params.field_selector.clone()),
        ("labelSelector", params.label_selector.clone()),
        ("resourceVersion", params.resource_version.clone()),
        ("resourceVersionMatch", params.send_initial_events.then(|| "NotOlderThan".into())),
        ("sendInitialEvents", params.send_initial_events.then(|| "true".into())),
        ("timeoutSeconds", params.timeout_seconds.map(|t| t.to_string())),
        ("watch", Some("true".into())),
    ]);
    request(Method::GET, &(resource.path(namespace, None, None) + &query), None)
}

/// `POST` of a new object.
pub fn create(resource: &ApiResource, namespace: Option<&str>, body: Bytes) -> Request<Bytes> {
    with_body(Method::POST, &resource.path(namespace, None, None), Some("application/json"), body)
}

/// `POST` to a subresource (`binding`, `eviction`, `token`).
pub fn post_subresource(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    subresource: &str,
    body: Bytes,
) -> Request<Bytes> {
    let path = resource.path(namespace, Some(name), Some(subresource));
    with_body(Method::POST, &path, Some("application/json"), body)
}

/// `PUT` of a whole object, or of its subresource.
pub fn replace(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    subresource: Option<&str>,
    body: Bytes,
) -> Request<Bytes> {
    let path = resource.path(namespace, Some(name), subresource);
    with_body(Method::PUT, &path, Some("application/json"), body)
}

/// `PATCH` of an object, or of its subresource.
pub fn patch(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    subresource: Option<&str>,
    patch: &Patch,
) -> Request<Bytes> {
    let mut path = resource.path(namespace, Some(name), subresource);
    if let Patch::Apply { field_manager, force, .. } = patch {
        path += &query(&[("fieldManager", Some(field_manager.clone())), ("force", Some(force.to_string()))]);
    }
    let body = Bytes::from(patch.body().to_string());
    with_body(Method::PATCH, &path, Some(patch.content_type()), body)
}

/// `DELETE` of one object.
pub fn delete(
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    params: &DeleteParams,
) -> Request<Bytes> {
    request(Method::DELETE, &resource.path(namespace, Some(name), None), params.body().as_ref())
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;
    use crate::resource::of;

    #[test]
    fn selectors_are_encoded_in_the_query() {
        let params = ListParams {
            label_selector: Some("app in (a,b)".into()),
            limit: Some(500),
            ..ListParams::default()
        };
        let request = list(&of::<Pod>(), Some("default"), &params);
        let uri = "/api/v1/namespaces/default/pods?labelSelector=app+in+%28a%2Cb%29&limit=500";
        assert_eq!(request.uri(), uri);
    }

    #[test]
    fn a_delete_without_options_has_no_body() {
        let plain = delete(&of::<Pod>(), Some("default"), "web", &DeleteParams::default());
        assert!(plain.body().is_empty());
        let params = DeleteParams { uid: Some("u".into()), ..DeleteParams::default() };
        let careful = delete(&of::<Pod>(), Some("default"), "web", &params);
        let body: Value = serde_json::from_slice(careful.body()).unwrap();
        assert_eq!(body["preconditions"]["uid"], "u");
    }

    #[test]
    fn the_content_type_says_which_patch_it_is() {
        let apply = Patch::Apply { object: json!({}), field_manager: "me".into(), force: true };
        let request = patch(&of::<Pod>(), Some("default"), "web", Some("status"), &apply);
        assert_eq!(request.headers()["content-type"], "application/apply-patch+yaml");
        assert_eq!(request.uri(), "/api/v1/namespaces/default/pods/web/status?fieldManager=me&force=true");
    }
}
