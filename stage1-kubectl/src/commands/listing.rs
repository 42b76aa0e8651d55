//! Whole lists: asks for pieces until there are no more.
//!
//! A server gives a long list in pieces (`limit`, `continue`), so that neither side must hold all of it at once. Commands
//! that need the whole list ask here.
//!
//! # In Kubernetes
//! `client-go/tools/pager/pager.go`. Left out: starting anew when a token has expired.

use serde_json::Value;

use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::printers;
use crate::request::{self, ListParams};
use crate::resource::{ApiResource, GroupVersionResource};

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
    let client = ctx.client().await?;
    let (mut objects, mut params) = (Vec::new(), params.clone());
    loop {
        let list: Value = client.request(request::list(resource, namespace, &params)).await?;
        let kind = list["kind"].as_str().and_then(|kind| kind.strip_suffix("List")).unwrap_or(&resource.kind);
        let items = printers::items(&list).iter().filter(|_| list.get("items").is_some());
        for item in items {
            let mut item = item.clone();
            if item.get("kind").is_none() {
                item["apiVersion"] = resource.gvr.api_version().into();
                item["kind"] = kind.into();
            }
            objects.extend(Object::from_value(item));
        }
        match list["metadata"]["continue"].as_str().filter(|token| !token.is_empty()) {
            Some(token) => params.continue_token = Some(token.to_string()),
            None => return Ok(objects),
        }
    }
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
