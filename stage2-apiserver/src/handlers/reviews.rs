//! Reviews: questions that look like objects. Who am I? May I? Is this token good?
//!
//! A review is POSTed, answered in its status, and forgotten. kubelets ask TokenReview and SubjectAccessReview about
//! their own clients; `kubectl auth can-i` asks SelfSubjectAccessReview; `kubectl auth whoami` SelfSubjectReview.
//!
//! # In Kubernetes
//! `pkg/registry/authorization/`, `pkg/registry/authentication/`.

use std::sync::Arc;

use bytes::Bytes;
use http::StatusCode;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::status::{FieldError, Status};

use super::options::WriteOptions;
use super::respond::Answer;
use super::{Context, Routed};
use crate::authentication::UserInfo;
use crate::authentication::service_account::ISSUER;
use crate::authorization::{Authorizer, Decision};
use crate::decode::decode_body;
use crate::filters::attributes_of;
use crate::negotiation::body_format;
use crate::request_info::{Query, RequestInfo};

/// Answers a review.
///
/// # Errors
/// 422 for reviews that ask nothing.
pub async fn handle(routed: &Routed<'_>, body: &Bytes) -> Result<Answer, Status> {
    let options = WriteOptions::parse(&routed.context.query, "CreateOptions", false)?;
    let format = body_format(routed.content_type())?;
    let decoded = decode_body(body, format, &routed.resource.gvk(), options.field_validation)?;
    routed.context.warn(decoded.warnings);
    let mut review = decoded.object;
    let context = routed.context;
    let status = match routed.resource.kind {
        "SelfSubjectAccessReview" => access(context, &review, &context.user)?,
        "SubjectAccessReview" => access(context, &review, &Arc::new(named_user(&review)?))?,
        "LocalSubjectAccessReview" => {
            check_local(context, &review)?;
            access(context, &review, &Arc::new(named_user(&review)?))?
        }
        "SelfSubjectRulesReview" => rules(context, &review),
        "SelfSubjectReview" => json!({ "userInfo": user_info(&context.user) }),
        "TokenReview" => token(context, &review).await,
        _ => return Err(Status::generic_not_found()),
    };
    review.set("/status", status);
    if routed.resource.kind == "SelfSubjectReview" {
        let now = context.now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
        review.set("/metadata/creationTimestamp", now);
    } else if review.get("/metadata/creationTimestamp").is_none() {
        review.set("/metadata/creationTimestamp", Value::Null);
    }
    Ok(routed.answer_plain(StatusCode::CREATED, &review))
}

/// The words that a review asks about.
fn asked(review: &Object) -> Result<RequestInfo, Status> {
    let text = |field: &str| review.get_str(field).unwrap_or("").to_owned();
    let resource = review.get("/spec/resourceAttributes").is_some();
    let non_resource = review.get("/spec/nonResourceAttributes").is_some();
    if resource == non_resource {
        let why = match resource {
            true => "cannot be specified in combination with resourceAttributes",
            false => "exactly one of nonResourceAttributes or resourceAttributes must be specified",
        };
        let field = if resource { "spec.nonResourceAttributes" } else { "spec.resourceAttributes" };
        let error = FieldError::invalid(field, Value::Null, why);
        return Err(Status::invalid_kind(&review.gvk(), "", &[error]));
    }
    if non_resource {
        let (path, verb) =
            (text("/spec/nonResourceAttributes/path"), text("/spec/nonResourceAttributes/verb"));
        return Ok(RequestInfo { path, verb, ..RequestInfo::default() });
    }
    let attribute = |name: &str| text(&format!("/spec/resourceAttributes/{name}"));
    Ok(RequestInfo {
        is_resource_request: true,
        verb: attribute("verb"),
        api_group: attribute("group"),
        api_version: attribute("version"),
        namespace: attribute("namespace"),
        resource: attribute("resource"),
        subresource: attribute("subresource"),
        name: attribute("name"),
        ..RequestInfo::default()
    })
}

fn access(context: &Context, review: &Object, user: &Arc<UserInfo>) -> Result<Value, Status> {
    let info = asked(review)?;
    let decision = context.server.authorizer.authorize(&attributes_of(user, &info, &Query::default()));
    let (allowed, denied, reason) = match decision {
        Decision::Allow { reason } => (true, false, reason),
        Decision::Deny { reason } => (false, true, reason),
        Decision::NoOpinion { reason } => (false, false, reason),
    };
    let mut status = json!({ "allowed": allowed });
    if denied {
        status["denied"] = json!(true);
    }
    if !reason.is_empty() {
        status["reason"] = json!(reason);
    }
    Ok(status)
}

fn named_user(review: &Object) -> Result<UserInfo, Status> {
    let user = UserInfo {
        name: review.get_str("/spec/user").unwrap_or("").to_owned(),
        uid: review.get_str("/spec/uid").unwrap_or("").to_owned(),
        groups: review.get("/spec/groups").map(texts).unwrap_or_default(),
        ..UserInfo::default()
    };
    if user.name.is_empty() && user.groups.is_empty() {
        let error = FieldError::invalid("spec.user", "", "at least one of user or group must be specified");
        return Err(Status::invalid_kind(&review.gvk(), "", &[error]));
    }
    Ok(user)
}

fn check_local(context: &Context, review: &Object) -> Result<(), Status> {
    let namespace = review.get_str("/spec/resourceAttributes/namespace").unwrap_or("");
    match namespace == context.info.namespace {
        true => Ok(()),
        false => {
            let field = "spec.resourceAttributes.namespace";
            let error = FieldError::invalid(field, namespace, "must match metadata.namespace");
            Err(Status::invalid(".authorization.k8s.io", "", &[error]))
        }
    }
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn user_info(user: &UserInfo) -> Value {
    let mut info = json!({ "username": user.name, "groups": user.groups });
    if !user.uid.is_empty() {
        info["uid"] = json!(user.uid);
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}

fn rules(context: &Context, review: &Object) -> Value {
    let namespace = review.get_str("/spec/namespace").unwrap_or("");
    let (rules, errors) =
        context.server.authorizer.with_rbac(|index| index.rules_for(&context.user, namespace));
    let of_paths = |on_paths: bool| -> Vec<Value> {
        let chosen = rules.iter().filter(|r| r.non_resource_urls.is_empty() != on_paths);
        chosen.filter_map(|r| serde_json::to_value(r).ok()).collect()
    };
    let mut status = json!({
        "resourceRules": of_paths(false), "nonResourceRules": of_paths(true), "incomplete": !errors.is_empty(),
    });
    if !errors.is_empty() {
        status["evaluationError"] = json!(errors.join(", "));
    }
    status
}

async fn token(context: &Context, review: &Object) -> Value {
    let token = review.get_str("/spec/token").unwrap_or("");
    let audiences = review.get("/spec/audiences").map(texts).unwrap_or_default();
    match context.server.authenticator.token(token, &audiences, context.now).await {
        Some(user) => {
            let user = user.authenticated();
            let audiences = if audiences.is_empty() { vec![ISSUER.to_owned()] } else { audiences };
            json!({ "authenticated": true, "user": user_info(&user), "audiences": audiences })
        }
        None => json!({ "user": {}, "error": "[invalid bearer token, token lookup failed]" }),
    }
}
