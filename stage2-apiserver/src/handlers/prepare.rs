//! Prepare: objects whose conversion is a program's work are converted before they are served or stored.
//!
//! *Steps 1 and 6 of a custom object's journey.* Before: a handler has objects in one version. After: [`super::convert`] turns them into
//! the other one without waiting.
//!
//! What the program made is held by the request until its answer is built: what is kept for others may be forgotten meanwhile, and the
//! definition may change. A list is sent in several questions, so that neither a question nor its answer grows with the list.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/conversion/converter.go` (`safeConverter`), where a list is one question.
#![expect(clippy::disallowed_methods, reason = "shell: makes uids of questions")]

use std::sync::Arc;

use futures::FutureExt;
use futures::future::BoxFuture;
use stage1_kubectl::object::Object;
use stage1_kubectl::status::Status;
use uuid::Uuid;

use super::Context;
use crate::custom_resources::conversion::known::{Prepared, Wanted, in_questions};
use crate::custom_resources::conversion::{self, Conversion};
use crate::registry::ResourceInfo;
use crate::server::ApiServer;

/// Has objects converted that a request is about to serve.
///
/// # Errors
/// 500 when the program can't be asked, or its answer is none.
pub async fn served(context: &Context, resource: &ResourceInfo, objects: &[&Object]) -> Result<(), Status> {
    if resource.custom.is_none() {
        return Ok(());
    }
    let made = made(&context.server, resource, objects, &resource.group_version()).await?;
    context.prepared.lock().join(made);
    Ok(())
}

/// Has an object converted that a request is about to store.
///
/// # Errors
/// As [`served`].
pub async fn stored(context: &Context, resource: &ResourceInfo, object: &Object) -> Result<(), Status> {
    if resource.custom.is_none() {
        return Ok(());
    }
    let made = made(&context.server, resource, &[object], &resource.storage_api_version()).await?;
    context.prepared.lock().join(made);
    Ok(())
}

/// What the program of a resource's definition makes of objects.
///
/// # Errors
/// As [`served`].
pub async fn made(
    server: &Arc<ApiServer>,
    resource: &ResourceInfo,
    objects: &[&Object],
    to: &str,
) -> Result<Prepared, Status> {
    let mut prepared = Prepared::default();
    let Some(conversion) = resource.custom_kind().and_then(|kind| kind.conversion.clone()) else {
        return Ok(prepared);
    };
    let to: Arc<str> = to.into();
    let other_version = objects.iter().filter(|object| object.api_version() != &*to);
    let wanted: Vec<Wanted<'_>> = other_version.map(|object| Wanted::new(object, &to)).collect();
    let missing = conversion.known.hold(&wanted, &mut prepared);
    for some in in_questions(&missing) {
        let ask = |objects: &[&Object]| question(server, &conversion, objects, &to);
        conversion.known.learn(some, &mut prepared, ask).await?;
    }
    Ok(prepared)
}

/// One call of the program.
fn question(
    server: &Arc<ApiServer>,
    conversion: &Arc<Conversion>,
    objects: &[&Object],
    to: &Arc<str>,
) -> BoxFuture<'static, Result<Vec<Object>, Status>> {
    let (server, conversion, to) = (server.clone(), conversion.clone(), to.clone());
    let sent: Vec<Object> = objects.iter().map(|object| (*object).clone()).collect();
    let asking = async move {
        let uid = Uuid::new_v4().to_string();
        let review = conversion::review(&uid, &to, &sent);
        let answer = server.webhooks.caller.call(&conversion.webhook, &server.stores, &review).await;
        answer
            .map_err(|why| conversion::not_asked(&sent, &why))
            .and_then(|answer| conversion::converted(&uid, &to, &sent, answer))
            .map_err(|why| Status::failure(500, "", why))
    };
    asking.boxed()
}
