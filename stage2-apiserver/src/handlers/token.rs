//! TokenRequest: a token for a service account, made on demand.
//!
//! The kubelet asks for one for each pod and mounts it; it is bound to the pod and dies with it. `kubectl create token`
//! asks for one too. Nothing is stored: the token is signed, handed out and forgotten.
//!
//! # In Kubernetes
//! `pkg/registry/core/serviceaccount/storage/token.go`.

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::{FieldError, Status};
use uuid::Uuid;

use super::Routed;
use super::options::WriteOptions;
use super::respond::Answer;
use crate::authentication::service_account::{Bound, Named, TokenSpec};
use crate::decode::decode_body;
use crate::negotiation::body_format;
use crate::registry;
use crate::watch_cache::At;

/// Lifetime of a token that asks for none.
const DEFAULT_EXPIRATION_SECONDS: i64 = 3600;
/// Shorter tokens would expire before they are used.
const MIN_EXPIRATION_SECONDS: i64 = 600;
/// The API server's audience.
const DEFAULT_AUDIENCE: &str = crate::authentication::service_account::ISSUER;

/// POST `serviceaccounts/NAME/token`.
///
/// # Errors
/// 404 for the account or what the token is bound to, 409 when that is another incarnation, 422 for bad lifetimes.
pub async fn handle(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&routed.context.query, "CreateOptions", false)?;
    let gvk = GroupVersionKind::new("authentication.k8s.io", "v1", "TokenRequest");
    let format = body_format(routed.content_type())?;
    let mut request = decode_body(body, format, &gvk, options.field_validation)?.object;
    let stores = &routed.context.server.stores;
    let (namespace, name) = (routed.context.namespace(), routed.context.info.name.as_str());
    let account = stores.of(routed.resource).get(namespace, name, At::Consistent).await?;
    let seconds =
        request.get_i64("/spec/expirationSeconds").filter(|s| *s != 0).unwrap_or(DEFAULT_EXPIRATION_SECONDS);
    check_lifetime(&request, seconds)?;
    let audiences: Vec<String> = match request.get("/spec/audiences").and_then(Value::as_array) {
        Some(all) if !all.is_empty() => all.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => vec![DEFAULT_AUDIENCE.to_owned()],
    };
    let mut bound = Bound {
        namespace: namespace.unwrap_or("").to_owned(),
        serviceaccount: Named { name: name.to_owned(), uid: account.object.uid().to_owned() },
        ..Bound::default()
    };
    bind(routed, &request, &mut bound).await?;
    let spec = TokenSpec { bound, audiences: audiences.clone(), expiration_seconds: seconds };
    let issued =
        routed.context.server.authenticator.service_accounts.issue(&spec, routed.context.now, &new_id());
    let token = issued.map_err(Status::internal)?;
    request.set("/metadata/name", name);
    request.set("/metadata/namespace", namespace.unwrap_or(""));
    request.set("/metadata/creationTimestamp", routed.context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    request.set("/spec/audiences", json!(audiences));
    request.set("/spec/expirationSeconds", seconds);
    request.set("/status/token", token.token);
    request.set("/status/expirationTimestamp", token.expiration.strftime("%Y-%m-%dT%H:%M:%SZ").to_string());
    Ok(routed.answer_plain(StatusCode::CREATED, &request))
}

#[expect(clippy::disallowed_methods, reason = "shell: makes the token's id")]
fn new_id() -> String {
    Uuid::new_v4().to_string()
}

fn check_lifetime(request: &Object, seconds: i64) -> Result<(), Status> {
    let why = match seconds {
        s if s < MIN_EXPIRATION_SECONDS => "may not specify a duration less than 10 minutes",
        s if s > 1 << 32 => "may not specify a duration larger than 2^32 seconds",
        _ => return Ok(()),
    };
    let error = FieldError::invalid("spec.expirationSeconds", seconds, why);
    Err(Status::invalid("TokenRequest.authentication.k8s.io", request.name(), &[error]))
}

/// Ties the token to the pod, secret or node that the request names.
async fn bind(routed: &Routed<'_>, request: &Object, bound: &mut Bound) -> Result<(), Status> {
    let field =
        |name: &str| request.get_str(&format!("/spec/boundObjectRef/{name}")).unwrap_or("").to_owned();
    let (kind, name, uid) = (field("kind"), field("name"), field("uid"));
    let resource = match kind.as_str() {
        "" => return Ok(()),
        "Pod" => "pods",
        "Secret" => "secrets",
        "Node" => "nodes",
        other => {
            return Err(Status::bad_request(format!(
                "cannot bind token for serviceaccount {:?} to object of type {other}",
                bound.serviceaccount.name
            )));
        }
    };
    let info = registry::find("", "v1", resource).expect("a core resource");
    let namespace = if info.namespaced { routed.context.namespace() } else { None };
    let stores = &routed.context.server.stores;
    let object = stores.of(info).get(namespace, &name, At::Consistent).await?;
    let object = &object.object;
    if !uid.is_empty() && uid != object.uid() {
        let why = format!(
            "the UID in the bound object reference ({uid}) does not match the UID in record. The object might have been deleted and then recreated"
        );
        return Err(Status::conflict(resource, &name, &why));
    }
    let named = Named { name: name.clone(), uid: object.uid().to_owned() };
    match resource {
        "pods" => {
            let account = object.get_str("/spec/serviceAccountName").unwrap_or("");
            if account != bound.serviceaccount.name {
                return Err(Status::bad_request(format!(
                    "cannot bind token for serviceaccount {:?} to pod running with different serviceaccount name.",
                    bound.serviceaccount.name
                )));
            }
            bound.pod = Some(named);
            if let Some(node) = object.get_str("/spec/nodeName").filter(|n| !n.is_empty()) {
                let nodes = registry::find("", "v1", "nodes").expect("nodes are registered");
                let uid = stores.of(nodes).get(None, node, At::Any).await.map(|n| n.object.uid().to_owned());
                bound.node = Some(Named { name: node.to_owned(), uid: uid.unwrap_or_default() });
            }
        }
        "secrets" => bound.secret = Some(named),
        _ => bound.node = Some(named),
    }
    Ok(())
}
