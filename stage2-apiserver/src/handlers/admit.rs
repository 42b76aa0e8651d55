//! Admit: a request before the cluster's policy: plugins, then expressions and webhooks, and once more if a webhook changed something.
//!
//! *Step 2 of a pod's journey.* Before: the object is decoded and has its defaults. After: [`mutate`] made of it what the cluster wants;
//! [`validate`] found nobody who objects.
//!
//! Plugins and policies are pure and read caches; webhooks are programs elsewhere, asked over HTTPS. All see the same [`Attributes`]. A DELETE goes
//! through both, too: it has no new object, and nothing can be changed about it.
//!
//! # Invariants
//! 1. Mutating comes before validating, for every attempt of a write anew.
//! 2. What webhooks said (warnings, audit annotations) is kept even when the request is refused.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/{chain,reinvocation,audit}.go`, `…/endpoints/handlers/{create,update,delete}.go`. Left out: admission of
//! reviews and token requests.

use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::status::Status;

use super::access::WithCustoms;
use super::{Context, scale};
use crate::admission::Attributes;
use crate::admission::policy::{Question, params};
use crate::admission::webhook::dispatch::{Report, Request, Rounds};
use crate::admission::webhook::matcher::Objects;
use crate::registry::{self, ResourceInfo};
use crate::request_info::Query;
use crate::strategies;

/// Lets plugins and webhooks change the object.
///
/// # Errors
/// The first refusal.
pub async fn mutate(
    context: &Context,
    attributes: &Attributes,
    object: &mut Object,
    old: Option<&Object>,
) -> Result<(), Status> {
    let server = &context.server;
    server.admission.admit(attributes, object, old, &server.stores)?;
    let mut changing = Some(std::mem::take(object));
    let mut rounds = Rounds::default();
    let options = options(context);
    let first = mutate_by_webhooks(context, attributes, &options, &mut changing, old, &mut rounds).await;
    *object = changing.unwrap_or_default();
    first?;
    if rounds.changed {
        rounds.again = true;
        server.admission.admit(attributes, object, old, &server.stores)?;
        let mut changing = Some(std::mem::take(object));
        let second = mutate_by_webhooks(context, attributes, &options, &mut changing, old, &mut rounds).await;
        *object = changing.unwrap_or_default();
        second?;
    }
    Ok(())
}

/// As what webhooks see a write through `/scale`: as a Scale, of an object of this resource.
fn scale_view(context: &Context, attributes: &Attributes) -> Option<(Attributes, &'static ResourceInfo)> {
    let scale = GroupVersionKind::new("autoscaling", "v1", "Scale");
    if attributes.subresource != "scale" || attributes.kind == scale {
        return None;
    }
    let resource = &attributes.resource;
    let (group, version, name) = (&resource.group, &resource.version, &resource.resource);
    let built_in = registry::find(group, version, name);
    let info = built_in.or_else(|| context.server.customs.find(group, version, name))?;
    Some((Attributes { kind: scale, ..attributes.clone() }, info))
}

async fn mutate_by_webhooks(
    context: &Context,
    attributes: &Attributes,
    options: &Value,
    object: &mut Option<Object>,
    old: Option<&Object>,
    rounds: &mut Rounds,
) -> Result<(), Status> {
    if let (Some((view, info)), Some(whole)) = (scale_view(context, attributes), object.as_mut()) {
        let mut scale = Some(scale::scale_of(info, whole));
        let old = old.map(|old| scale::scale_of(info, old));
        Box::pin(mutate_by_webhooks(context, &view, options, &mut scale, old.as_ref(), rounds)).await?;
        *whole = scale::with_replicas(info, whole, &scale.unwrap_or_default())?;
        return Ok(());
    }
    let server = &context.server;
    let request = asked(context, attributes, options);
    let mut report = Report::default();
    let strategy = strategies::for_kind(&attributes.kind, !attributes.namespace.is_empty());
    let default = |object: &mut Object| strategy.default(object);
    let outcome = server.webhooks.mutate(request, object, old, rounds, &mut report, &default).await;
    context.report(report);
    outcome
}

/// Lets plugins and webhooks refuse; the answer is the plugins' warnings.
///
/// # Errors
/// The first refusal.
pub async fn validate(
    context: &Context,
    attributes: &Attributes,
    object: Option<&Object>,
    old: Option<&Object>,
) -> Result<Vec<String>, Status> {
    let options = options(context);
    validate_with(context, attributes, object, old, &options).await
}

/// [`validate`] for an object that validation let through with warnings; its refusal stays one.
///
/// # Errors
/// Validation's, or the first refusal here.
pub async fn validate_valid(
    context: &Context,
    attributes: &Attributes,
    valid: Result<Vec<String>, Status>,
    object: &Object,
    old: Option<&Object>,
) -> Result<Vec<String>, Status> {
    let warnings = valid?;
    let admitted = validate(context, attributes, Some(object), old).await?;
    Ok([warnings, admitted].concat())
}

async fn validate_with(
    context: &Context,
    attributes: &Attributes,
    object: Option<&Object>,
    old: Option<&Object>,
    options: &Value,
) -> Result<Vec<String>, Status> {
    let warnings = context.server.admission.validate(attributes, object, old, &context.server.stores)?;
    let outcome = match scale_view(context, attributes) {
        Some((view, info)) => {
            let view_of = |object: &Object| scale::scale_of(info, object);
            let (new, old) = (object.map(view_of), old.map(view_of));
            judge(context, &view, Objects { new: new.as_ref(), old: old.as_ref() }, options).await
        }
        None => judge(context, attributes, Objects { new: object, old }, options).await,
    };
    outcome.map(|()| warnings)
}

/// Lets first the cluster's expressions and then its webhooks refuse.
async fn judge(
    context: &Context,
    attributes: &Attributes,
    objects: Objects<'_>,
    options: &Value,
) -> Result<(), Status> {
    let server = &context.server;
    let policies = server.policies.present(&server.stores);
    let mut with_customs = WithCustoms::new(server);
    for (api_version, kind) in policies.param_kinds() {
        if let Some(info) = params::resource_of(&api_version, &kind, &with_customs) {
            with_customs.settle(info).await;
        }
    }
    let authorizer = &*server.authorizer;
    let mut report = Report::default();
    let question = Question { attributes, objects, options, reader: &with_customs, authorizer };
    let mut outcome = policies.validate(question, &mut report);
    if outcome.is_ok() {
        outcome = server.webhooks.validate(asked(context, attributes, options), objects, &mut report).await;
    }
    context.report(report);
    outcome
}

/// A request as webhooks get it.
fn asked<'a>(context: &'a Context, attributes: &'a Attributes, options: &'a Value) -> Request<'a> {
    let server = &context.server;
    let (reader, metrics, authorizer) = (&server.stores, &server.metrics, &*server.authorizer);
    Request { attributes, options, reader, metrics, authorizer }
}

/// A deletion before plugins and webhooks.
///
/// # Errors
/// The first refusal.
pub async fn delete(
    context: &Context,
    attributes: &Attributes,
    old: &Object,
    options: &Value,
) -> Result<(), Status> {
    let mut nothing = None;
    mutate_by_webhooks(context, attributes, options, &mut nothing, Some(old), &mut Rounds::default()).await?;
    validate_with(context, attributes, None, Some(old), options).await.map(drop)
}

/// A connection (exec, attach, port-forward, proxy) before plugins and webhooks; `asked` are its options as an object.
///
/// # Errors
/// The first refusal.
pub async fn connect(context: &Context, attributes: &Attributes, asked: Object) -> Result<(), Status> {
    let mut object = Some(asked);
    mutate_by_webhooks(context, attributes, &Value::Null, &mut object, None, &mut Rounds::default()).await?;
    validate_with(context, attributes, object.as_ref(), None, &Value::Null).await.map(drop)
}

/// The options of a write, as the object that webhooks see.
fn options(context: &Context) -> Value {
    let kind = match context.info.verb.as_str() {
        "update" => "UpdateOptions",
        "patch" => "PatchOptions",
        _ => "CreateOptions",
    };
    options_of(kind, &context.query)
}

fn options_of(kind: &str, query: &Query) -> Value {
    let mut options = json!({ "kind": kind, "apiVersion": "meta.k8s.io/v1" });
    let dry_run: Vec<&str> = query.all("dryRun").collect();
    if !dry_run.is_empty() {
        options["dryRun"] = json!(dry_run);
    }
    for name in ["fieldManager", "fieldValidation"] {
        if let Some(value) = query.get(name).filter(|value| !value.is_empty()) {
            options[name] = json!(value);
        }
    }
    if kind == "PatchOptions" && query.get("force").is_some() {
        options["force"] = json!(query.flag("force"));
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_see_the_options_of_the_query() {
        let query = Query::parse(Some("dryRun=All&fieldManager=me&force=true"));
        let expected = json!({
            "kind": "PatchOptions", "apiVersion": "meta.k8s.io/v1",
            "dryRun": ["All"], "fieldManager": "me", "force": true,
        });
        assert_eq!(options_of("PatchOptions", &query), expected);
        let create = json!({ "kind": "CreateOptions", "apiVersion": "meta.k8s.io/v1" });
        assert_eq!(options_of("CreateOptions", &Query::parse(None)), create);
    }
}
