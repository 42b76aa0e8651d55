//! Whole lists, as objects that commands work on.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/resource/visitor.go`, which asks `client-go/tools/pager` (`Client::list_all`).

use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, ListParams};
use crate::resource::{ApiResource, GroupVersionResource};

/// A collection as one list, whatever number of pieces it came in.
///
/// # Errors
/// What the server refused.
pub async fn whole(
    ctx: &Context,
    resource: &ApiResource,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<Value, Failure> {
    let client = ctx.client().await?;
    let mut params = ListParams { limit: params.limit.or(Some(PIECE)), ..params.clone() };
    let mut whole: Value = client.request(request::list(resource, namespace, &params)).await?;
    while let Some(token) = whole["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
        params.continue_token = Some(token.to_string());
        let mut piece: Value = client.request(request::list(resource, namespace, &params)).await?;
        let items = piece["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
        if let Some(all) = whole["items"].as_array_mut() {
            all.extend(items);
        }
        whole["metadata"] = piece["metadata"].take();
    }
    Ok(whole)
}

/// So many objects are asked for at once, as client-go's pager does.
const PIECE: u32 = 500;

/// Every object of a collection; items that don't say their kind get that of the list.
///
/// # Errors
/// What the server refused.
pub async fn list_all(
    ctx: &Context,
    resource: &ApiResource,
    namespace: Option<&str>,
    params: &ListParams,
) -> Result<Vec<Object>, Failure> {
    let items = ctx.client().await?.list_all(resource, namespace, params).await?;
    Ok(items.into_iter().filter_map(|item| Object::from_value(item).ok()).collect())
}

/// A resource of which only the path matters.
pub fn bare(gvr: &GroupVersionResource, namespaced: bool) -> ApiResource {
    ApiResource {
        gvr: gvr.clone(),
        kind: String::new(),
        namespaced,
        singular: String::new(),
        short_names: Vec::new(),
        verbs: Vec::new(),
        categories: Vec::new(),
    }
}
