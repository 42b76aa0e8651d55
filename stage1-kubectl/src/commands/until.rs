//! Waiting for one object: a list, and then a watch, until a condition holds.
//!
//! `delete`, `wait`, `rollout status` and `run --attach` all wait for something that the server will tell. Asking again and
//! again would be late and would load the server; a watch that begins at the version of the list misses nothing.
//!
//! # Invariants
//! 1. The condition sees the object as it is at first, and then after each change; `None` stands for "it isn't there".
//! 2. A watch that ends (servers close them after some minutes) is begun anew with a list.
//!
//! # In Kubernetes
//! `client-go/tools/watch/until.go` (`UntilWithSync`).

use std::time::Duration;

use futures::StreamExt;
use serde_json::Value;

use crate::client::ClientError;
use crate::context::Context;
use crate::failure::Failure;
use crate::object::Object;
use crate::request::{self, ListParams, WatchParams};
use crate::resource::ApiResource;
use crate::watch::{WatchEvent, decode_events};

/// Between two watches, so that a server that ends them at once isn't asked without end.
const PAUSE: Duration = Duration::from_millis(200);

/// Waits until `decide` gives a value for the object.
///
/// # Errors
/// What `decide` or the server refused.
pub async fn until<T>(
    ctx: &Context,
    resource: &ApiResource,
    namespace: Option<&str>,
    name: &str,
    mut decide: impl FnMut(Option<&Object>) -> Result<Option<T>, Failure>,
) -> Result<T, Failure> {
    let client = ctx.client().await?;
    let field_selector = Some(format!("metadata.name={name}"));
    loop {
        let params = ListParams { field_selector: field_selector.clone(), ..ListParams::default() };
        let list: Value = client.request(request::list(resource, namespace, &params)).await?;
        let item = list["items"].as_array().and_then(|items| items.first()).cloned();
        let found = item.and_then(|mut item| {
            item["apiVersion"] = resource.gvr.api_version().into();
            item["kind"] = resource.kind.clone().into();
            Object::from_value(item).ok()
        });
        if let Some(done) = decide(found.as_ref())? {
            return Ok(done);
        }
        let params = WatchParams {
            resource_version: list["metadata"]["resourceVersion"].as_str().map(String::from),
            field_selector: field_selector.clone(),
            ..WatchParams::default()
        };
        let response = client.stream(request::watch(resource, namespace, &params)).await?;
        let events = decode_events::<Object, _>(response.into_body(), client.config().server.clone());
        let mut events = Box::pin(events);
        while let Some(event) = events.next().await {
            let done = match event {
                Ok(WatchEvent::Added(object) | WatchEvent::Modified(object)) => decide(Some(&object))?,
                Ok(WatchEvent::Deleted(_)) => decide(None)?,
                Ok(WatchEvent::Bookmark(_)) => None,
                // Too old, or the connection broke: the list tells how things stand.
                Ok(WatchEvent::Error(_)) | Err(ClientError::Connection { .. }) => break,
                Err(error) => return Err(error.into()),
            };
            if let Some(done) = done {
                return Ok(done);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
}
