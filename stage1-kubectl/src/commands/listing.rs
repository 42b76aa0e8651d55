//! Whole lists, as objects that commands work on.
//!
//! # In Kubernetes
//! `cli-runtime/pkg/resource/visitor.go`, which asks `client-go/tools/pager` (`Client::list_all`).

use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::ListParams;
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
