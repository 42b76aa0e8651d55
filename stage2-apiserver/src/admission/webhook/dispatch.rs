//! Dispatch: calls the webhooks that want a request, in their order, and makes one outcome of their answers.
//!
//! A call that fails (no connection, no answer in time, an answer that is none) is a refusal of the request under `failurePolicy: Fail`
//! and nothing at all under `Ignore`; a refusal by the webhook is always one.
//!
//! # Invariants
//! 1. Warnings and audit annotations of a webhook reach the client and the log even when it, or a later one, refuses.
//!
//! # In Kubernetes
//! `…/webhook/mutating/{dispatcher,reinvocationcontext}.go`, `…/webhook/validating/dispatcher.go`.
#![expect(clippy::disallowed_methods, reason = "shell: makes uids and reads the clock")]

use std::collections::BTreeSet;
use std::time::Instant;

use futures::future::join_all;
use serde_json::{Value, json};
use stage1_kubectl::client::Dial;
use stage1_kubectl::object::Object;
use stage1_kubectl::patch::json::apply_json_patch;
use stage1_kubectl::status::Status;
use uuid::Uuid;

use super::client::Caller;
use super::matcher::{Invocation, Objects, is_exempt, operation_name, should_call};
use super::review::{self, Verdict};
use super::{Configured, Sort, Webhook};
use crate::admission::policy::Question;
use crate::admission::policy::conditions;
use crate::admission::policy::expression::{Activation, Subject};
use crate::admission::{Attributes, ObjectReader};
use crate::authorization::Authorizer;
use crate::metrics::Metrics;
use crate::metrics::webhooks::{CallLabels, FailOpenLabels, RejectionLabels};
use crate::schema::{self, go_json};

/// The webhooks of a cluster, and the connections to them.
pub struct Webhooks {
    mutating: Configured,
    validating: Configured,
    /// Also used by others who ask programs outside.
    pub caller: Caller,
}

/// A request on its way through the webhooks.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    /// What it is.
    pub attributes: &'a Attributes,
    /// `CreateOptions`, … as an object.
    pub options: &'a Value,
    /// What the cluster looks like.
    pub reader: &'a dyn ObjectReader,
    /// Counts calls and refusals.
    pub metrics: &'a Metrics,
    /// Whom conditions may ask about rights.
    pub authorizer: &'a dyn Authorizer,
}

impl Request<'_> {
    /// As what a webhook is to be called, if rules, selectors and conditions say so.
    ///
    /// # Errors
    /// 404 when the namespace isn't there, 403 when the conditions of a webhook that fails closed can't be evaluated.
    fn wanted_by(&self, webhook: &Webhook, objects: Objects<'_>) -> Result<Option<Invocation>, Status> {
        let Some(found) = should_call(webhook, self.attributes, objects, self.reader)? else {
            return Ok(None);
        };
        if webhook.conditions.is_empty() {
            return Ok(Some(found));
        }
        let Request { attributes, options, reader, authorizer, .. } = *self;
        let question = Question { attributes, objects, options, reader, authorizer };
        let subject = Subject::of_question(review::request(attributes, &found, objects, options, ""));
        let mut activation =
            Activation::new(&subject, &[]).with_authorizer(authorizer, question.authorization());
        match conditions::hold(&webhook.conditions, &mut activation) {
            Ok(true) => Ok(Some(found)),
            Ok(false) => Ok(None),
            Err(why) if webhook.fail_open => {
                tracing::warn!(
                    webhook = webhook.name,
                    why,
                    "Failed evaluating match conditions, failing open"
                );
                Ok(None)
            }
            Err(why) => Err(attributes.forbidden(why)),
        }
    }
}

/// What webhooks say besides yes and no.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// For the client.
    pub warnings: Vec<String>,
    /// For the audit log.
    pub annotations: Vec<(String, String)>,
}

/// What the first round leaves for the second.
#[derive(Debug, Default)]
pub struct Rounds {
    /// The second round runs.
    pub again: bool,
    /// A webhook changed the object: the built-in plugins and `IfNeeded` webhooks run once more.
    pub changed: bool,
    /// The object after the last webhook of the first round.
    last: Option<Object>,
    called: BTreeSet<(String, String)>,
    due: BTreeSet<(String, String)>,
}

/// Why a webhook didn't let the request through.
enum Trouble {
    /// It couldn't be asked.
    Call(String),
    /// It, or what it answered, refuses the request.
    Refused(Box<Status>),
}

impl Trouble {
    fn refused(status: Status) -> Self {
        Trouble::Refused(Box::new(status))
    }
}

impl Webhooks {
    /// With the way to pods.
    pub fn new(pod_network: Dial) -> Self {
        Webhooks {
            mutating: Configured::default(),
            validating: Configured::default(),
            caller: Caller::new(pod_network),
        }
    }

    /// Lets the mutating webhooks change the object; `default` fills what a patch leaves out.
    ///
    /// # Errors
    /// The first refusal.
    pub async fn mutate(
        &self,
        request: Request<'_>,
        object: &mut Option<Object>,
        old: Option<&Object>,
        rounds: &mut Rounds,
        report: &mut Report,
        default: &(dyn Fn(&mut Object) + Send + Sync),
    ) -> Result<(), Status> {
        let webhooks = self.mutating.webhooks(Sort::Mutating, request.reader);
        if webhooks.is_empty() || is_exempt(request.attributes) {
            return Ok(());
        }
        if rounds.again && rounds.last != *object {
            // A built-in plugin changed it after the webhooks had seen it.
            rounds.due.append(&mut rounds.called);
        }
        let mut index = 0;
        for webhook in webhooks.iter() {
            let objects = Objects { new: object.as_ref(), old };
            let Some(invocation) = request.wanted_by(webhook, objects)? else { continue };
            let id = (webhook.configuration.clone(), webhook.name.clone());
            if rounds.again && !rounds.due.remove(&id) {
                continue;
            }
            let at = format!("round_{}_index_{index}", u8::from(rounds.again));
            index += 1;
            let outcome = self.mutate_by(webhook, &invocation, request, object, old, report, default).await;
            let changed = *outcome.as_ref().unwrap_or(&false);
            let note =
                json!({"configuration": webhook.configuration, "webhook": webhook.name, "mutated": changed});
            report.annotations.push((format!("mutation.webhook.admission.k8s.io/{at}"), note.to_string()));
            if changed {
                rounds.due.append(&mut rounds.called);
                rounds.changed = true;
            }
            if webhook.reinvoke {
                rounds.called.insert(id);
            }
            settle(webhook, Sort::Mutating, &at, outcome.map(drop), request, report)?;
        }
        if rounds.changed {
            rounds.last.clone_from(object);
        }
        Ok(())
    }

    /// Asks one webhook and applies its patch; true if the object is another one afterwards.
    #[expect(clippy::too_many_arguments, reason = "one call's whole situation")]
    async fn mutate_by(
        &self,
        webhook: &Webhook,
        invocation: &Invocation,
        request: Request<'_>,
        object: &mut Option<Object>,
        old: Option<&Object>,
        report: &mut Report,
        default: &(dyn Fn(&mut Object) + Send + Sync),
    ) -> Result<bool, Trouble> {
        let objects = Objects { new: object.as_ref(), old };
        let verdict = self.ask(webhook, Sort::Mutating, invocation, request, objects).await?;
        let verdict = judged(webhook, verdict, report)?;
        if verdict.patch.is_empty() {
            return Ok(false);
        }
        let Some(current) = object else {
            return Err(Trouble::refused(Status::internal(format!(
                "admission webhook {:?} attempted to modify the object, which is not supported for this operation",
                webhook.name
            ))));
        };
        let seen = review::in_version(current, &request.attributes.resource, invocation).into_owned();
        let Some(mut patched) = patched(&seen, &verdict.patch).map_err(Trouble::refused)? else {
            return Ok(false);
        };
        let own = Invocation {
            resource: request.attributes.resource.clone(),
            kind: request.attributes.kind.clone(),
        };
        if invocation.resource != own.resource {
            patched = review::in_version(&patched, &invocation.resource, &own).into_owned();
        }
        let changed = patched != *current;
        default(&mut patched);
        *current = patched;
        Ok(changed)
    }

    /// Asks all validating webhooks that want the request, at once.
    ///
    /// # Errors
    /// The first refusal, in the order of the webhooks.
    pub async fn validate(
        &self,
        request: Request<'_>,
        objects: Objects<'_>,
        report: &mut Report,
    ) -> Result<(), Status> {
        let webhooks = self.validating.webhooks(Sort::Validating, request.reader);
        if webhooks.is_empty() || is_exempt(request.attributes) {
            return Ok(());
        }
        let mut wanted = Vec::new();
        for webhook in webhooks.iter() {
            if let Some(invocation) = request.wanted_by(webhook, objects)? {
                wanted.push((webhook, invocation));
            }
        }
        let calls = wanted
            .iter()
            .map(|(webhook, invocation)| self.ask(webhook, Sort::Validating, invocation, request, objects));
        let mut outcome = Ok(());
        for (index, ((webhook, _), answer)) in wanted.iter().zip(join_all(calls).await).enumerate() {
            let verdict = answer.and_then(|verdict| judged(webhook, verdict, report)).map(drop);
            let at = format!("round_0_index_{index}");
            let settled = settle(webhook, Sort::Validating, &at, verdict, request, report);
            outcome = outcome.and(settled);
        }
        outcome
    }

    /// One question and its answer.
    async fn ask(
        &self,
        webhook: &Webhook,
        sort: Sort,
        invocation: &Invocation,
        request: Request<'_>,
        objects: Objects<'_>,
    ) -> Result<Verdict, Trouble> {
        if request.attributes.dry_run && !matches!(webhook.side_effects.as_str(), "None" | "NoneOnDryRun") {
            return Err(Trouble::refused(Status::bad_request(format!(
                "admission webhook {:?} does not support dry run",
                webhook.name
            ))));
        }
        let uid = Uuid::new_v4().to_string();
        let question = review::request(request.attributes, invocation, objects, request.options, &uid);
        let began = Instant::now();
        let answer = self.caller.call(webhook, request.reader, &review::envelope(question)).await;
        let verdict = answer.and_then(|answer| {
            review::verify(&uid, sort, &answer)
                .map_err(|why| format!("received invalid webhook response: {why}"))
        });
        let rejected = !verdict.as_ref().is_ok_and(|v| v.allowed);
        let labels = CallLabels {
            name: webhook.name.clone(),
            r#type: sort.metric_type().into(),
            operation: operation_name(request.attributes.operation).into(),
            rejected: rejected.to_string(),
        };
        request.metrics.webhooks.observe(labels, began.elapsed().as_secs_f64());
        verdict.map_err(Trouble::Call)
    }
}

/// Takes what a webhook says besides its answer, and its refusal.
fn judged(webhook: &Webhook, verdict: Verdict, report: &mut Report) -> Result<Verdict, Trouble> {
    for (key, value) in &verdict.audit_annotations {
        report.annotations.push((format!("{}/{key}", webhook.name), value.clone()));
    }
    report.warnings.extend(verdict.warnings.iter().cloned());
    match verdict.allowed {
        true => Ok(verdict),
        false => Err(Trouble::refused(review::refusal(&webhook.name, verdict.result))),
    }
}

/// What an outcome means for the request.
fn settle(
    webhook: &Webhook,
    sort: Sort,
    at: &str,
    outcome: Result<(), Trouble>,
    request: Request<'_>,
    report: &mut Report,
) -> Result<(), Status> {
    let (name, r#type) = (webhook.name.clone(), sort.metric_type().to_owned());
    let (kind, code, refusal) = match outcome {
        Ok(()) => return Ok(()),
        Err(Trouble::Call(why)) if webhook.fail_open => {
            tracing::warn!(webhook = webhook.name, why, "Failed calling webhook, failing open");
            let prefix = if sort == Sort::Mutating { "mutation" } else { "validating" };
            let key = format!("failed-open.{prefix}.webhook.admission.k8s.io/{at}");
            report.annotations.push((key, webhook.name.clone()));
            request.metrics.webhooks.fail_open(FailOpenLabels { name, r#type });
            return Ok(());
        }
        Err(Trouble::Call(why)) => {
            let refusal = Status::internal(format!("failed calling webhook {:?}: {why}", webhook.name));
            ("calling_webhook_error", 0, refusal)
        }
        Err(Trouble::Refused(status)) => ("no_error", status.code, *status),
    };
    request.metrics.webhooks.reject(RejectionLabels {
        name,
        r#type,
        operation: operation_name(request.attributes.operation).into(),
        error_type: kind.into(),
        rejection_code: code.to_string(),
    });
    Err(refusal)
}

/// The object after a patch, read again as its kind; `None` for a patch without operations.
fn patched(object: &Object, patch: &[u8]) -> Result<Option<Object>, Status> {
    let operations: Value = serde_json::from_slice(patch).map_err(|error| {
        Status::internal(go_json::syntax_error(patch).unwrap_or_else(|| error.to_string()))
    })?;
    if operations.as_array().is_none_or(Vec::is_empty) {
        return Ok(None);
    }
    let mut value = object.as_value().clone();
    apply_json_patch(&mut value, &operations).map_err(Status::internal)?;
    if let Some(schema) = schema::schema_for(&object.gvk()) {
        let decoded = schema::decode_value(value, schema);
        if let Some(error) = decoded.error {
            return Err(Status::internal(error));
        }
        value = decoded.value;
    }
    let mut patched = Object::from_value(value).map_err(Status::internal)?;
    patched.set_gvk(&object.gvk());
    Ok(Some(patched))
}
