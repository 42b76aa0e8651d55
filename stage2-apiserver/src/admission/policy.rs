//! ValidatingAdmissionPolicy: rules in CEL, run by the API server itself.
//!
//! *Step 3 of a pod's journey through the API server.* Before: the plugins had their say. After: every policy that is bound and that wants such a
//! request found nothing against it.
//!
//! A policy says *what* is judged and how; a binding says *where*, with which parameters, and what follows: a refusal, a warning, a note in
//! the audit log. A policy without a binding judges nothing. What a webhook does over the network with a program of its own, a policy does
//! here in microseconds, and it can't be down.
//!
//! The subtle thing is what a mistake means. An expression may look at a field that this object doesn't have; then nobody knows whether the
//! policy would have said no. `failurePolicy` decides: `Fail` takes the mistake for a no, `Ignore` for silence.
//!
//! # Invariants
//! 1. Policies never change an object.
//! 2. An expression that fails refuses the request under `failurePolicy: Fail`, and is as if it weren't there under `Ignore`.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/policy/validating`. Left out: type checking of policies into their status (`status.typeChecking`),
//! MutatingAdmissionPolicy (alpha), metrics of policies.

pub mod conditions;
pub mod evaluate;
pub mod expression;
pub mod params;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::selector::LabelSelector;
use stage1_kubectl::status::{Status, StatusCause};

use super::webhook::dispatch::Report;
use super::webhook::matcher::{Invocation, Objects, invocation, is_exempt, namespace_fits, object_fits};
use super::webhook::{GROUP, Rule, review, rules, selector};
use super::{Attributes, ObjectReader};
use crate::authentication::UserInfo;
use crate::authorization::{self, Authorizer};
use evaluate::{Compiled, Verdict};
use expression::{Activation, Subject};

/// Key of the note about validations that failed.
const FAILURE_KEY: &str = "validation.policy.admission.k8s.io/validation_failure";

/// Which requests are meant.
#[derive(Debug, Clone)]
pub struct Match {
    rules: Vec<Rule>,
    excluded: Vec<Rule>,
    namespaces: Option<LabelSelector>,
    objects: Option<LabelSelector>,
    equivalent: bool,
}

impl Match {
    fn read(value: Option<&Value>) -> Match {
        let part = |name: &str| value.and_then(|value| value.get(name));
        Match {
            rules: rules(part("resourceRules")),
            excluded: rules(part("excludeResourceRules")),
            namespaces: selector(part("namespaceSelector")),
            objects: selector(part("objectSelector")),
            equivalent: part("matchPolicy").and_then(Value::as_str) != Some("Exact"),
        }
    }

    /// As what the request is seen, if it is meant; a match without rules means every request.
    ///
    /// # Errors
    /// The namespace isn't there.
    fn fits(&self, request: &Question<'_>) -> Result<Option<Invocation>, Status> {
        let (attributes, objects) = (request.attributes, request.objects);
        // What is excluded is so under every version of its resource, unless the policy wants exactly this one.
        if invocation(&self.excluded, self.equivalent, attributes).is_some() {
            return Ok(None);
        }
        let as_is = || Invocation { resource: attributes.resource.clone(), kind: attributes.kind.clone() };
        let found = match self.rules.is_empty() {
            true => Some(as_is()),
            false => invocation(&self.rules, self.equivalent, attributes),
        };
        let Some(found) = found else { return Ok(None) };
        let fits = object_fits(self.objects.as_ref(), objects)?
            && namespace_fits(self.namespaces.as_ref(), attributes, objects, request.reader)?;
        Ok(fits.then_some(found))
    }
}

/// What policies are asked.
#[derive(Clone, Copy)]
pub struct Question<'a> {
    /// The request.
    pub attributes: &'a Attributes,
    /// The object before and after.
    pub objects: Objects<'a>,
    /// `CreateOptions`, … as an object.
    pub options: &'a Value,
    /// What the cluster looks like.
    pub reader: &'a dyn ObjectReader,
    /// Whom expressions may ask about rights.
    pub authorizer: &'a dyn Authorizer,
}

impl Question<'_> {
    /// What expressions are about, the object as the rule that matched wants it.
    fn subject(&self, invocation: &Invocation) -> Subject {
        Subject::of_question(review::request(self.attributes, invocation, self.objects, self.options, ""))
    }

    /// What the request is about, as the authorizers see it.
    pub fn authorization(&self) -> authorization::Attributes {
        let attributes = self.attributes;
        let user = UserInfo {
            name: attributes.user.name.clone(),
            uid: attributes.user.uid.clone(),
            groups: attributes.user.groups.clone(),
            extra: attributes.user.extra.clone(),
        };
        authorization::Attributes {
            user: Arc::new(user),
            is_resource: true,
            group: attributes.resource.group.clone(),
            version: attributes.resource.version.clone(),
            resource: attributes.resource.resource.clone(),
            subresource: attributes.subresource.clone(),
            namespace: attributes.namespace.clone(),
            name: attributes.name.clone(),
            ..authorization::Attributes::default()
        }
    }
}

/// A policy, ready to judge.
#[derive(Debug)]
struct Policy {
    name: String,
    fail_open: bool,
    param_kind: Option<(String, String)>,
    scope: Match,
    compiled: Compiled,
}

/// Where a policy holds.
#[derive(Debug)]
struct Binding {
    name: String,
    policy: String,
    actions: Vec<String>,
    scope: Match,
    param_ref: Option<Value>,
}

fn text(object: &Object, pointer: &str) -> String {
    object.get_str(pointer).unwrap_or("").to_owned()
}

impl Policy {
    fn read(object: &Object) -> Policy {
        let kind = object
            .get("/spec/paramKind")
            .map(|_| (text(object, "/spec/paramKind/apiVersion"), text(object, "/spec/paramKind/kind")));
        Policy {
            name: object.name().to_owned(),
            fail_open: object.get_str("/spec/failurePolicy") == Some("Ignore"),
            param_kind: kind,
            scope: Match::read(object.get("/spec/matchConstraints")),
            compiled: Compiled::read(object),
        }
    }
}

impl Binding {
    fn read(object: &Object) -> Binding {
        let actions = object.get("/spec/validationActions").and_then(Value::as_array);
        Binding {
            name: object.name().to_owned(),
            policy: text(object, "/spec/policyName"),
            actions: actions.into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect(),
            scope: Match::read(object.get("/spec/matchResources")),
            param_ref: object.get("/spec/paramRef").cloned(),
        }
    }
}

/// Policies and bindings, and the versions of which they were read.
type Parsed = ([Vec<(String, String)>; 2], Arc<Present>);

/// The policies and bindings of a moment.
#[derive(Debug)]
pub struct Present {
    policies: Vec<Policy>,
    bindings: Vec<Binding>,
}

/// The policies of a cluster, compiled again only when they changed.
#[derive(Default)]
pub struct Policies {
    last: Mutex<Option<Parsed>>,
}

impl Policies {
    /// Those of now.
    pub fn present(&self, reader: &dyn ObjectReader) -> Arc<Present> {
        let resources = ["validatingadmissionpolicies", "validatingadmissionpolicybindings"];
        let versions = resources.map(|resource| reader.versions(GROUP, resource));
        let mut last = self.last.lock();
        match &*last {
            Some((known, parsed)) if *known == versions => parsed.clone(),
            _ => {
                let [policies, bindings] = resources.map(|resource| {
                    let mut found = reader.list(GROUP, resource, "");
                    found.sort_by(|a, b| a.name().cmp(b.name()));
                    found
                });
                let policies = policies.iter().map(|object| Policy::read(object)).collect();
                let bindings = bindings.iter().map(|object| Binding::read(object)).collect();
                let parsed = Arc::new(Present { policies, bindings });
                *last = Some((versions, parsed.clone()));
                parsed
            }
        }
    }
}

impl Present {
    /// The kinds of parameters that bound policies have.
    pub fn param_kinds(&self) -> BTreeSet<(String, String)> {
        let is_bound = |policy: &&Policy| self.bindings.iter().any(|binding| binding.policy == policy.name);
        self.policies.iter().filter(is_bound).filter_map(|policy| policy.param_kind.clone()).collect()
    }

    // ANCHOR: policies
    /// Lets every bound policy judge the request.
    ///
    /// # Errors
    /// The first refusal.
    pub fn validate(&self, question: Question<'_>, report: &mut Report) -> Result<(), Status> {
        let (policies, bindings) = (&self.policies, &self.bindings);
        if bindings.is_empty() || is_exempt(question.attributes) {
            return Ok(());
        }
        let mut judged = Judged { question, report, denied: None, notes: BTreeMap::new() };
        for policy in policies {
            for binding in bindings.iter().filter(|binding| binding.policy == policy.name) {
                judged.by(policy, binding)?;
            }
        }
        judged.finish()
    }
    // ANCHOR_END: policies
}

/// What policies said so far.
struct Judged<'a> {
    question: Question<'a>,
    report: &'a mut Report,
    denied: Option<Status>,
    /// What several bindings and parameters say under one key is said once, together.
    notes: BTreeMap<String, BTreeSet<String>>,
}

impl Judged<'_> {
    fn by(&mut self, policy: &Policy, binding: &Binding) -> Result<(), Status> {
        let question = self.question;
        let Some(invocation) = policy.scope.fits(&question)? else { return Ok(()) };
        if binding.scope.fits(&question)?.is_none() {
            return Ok(());
        }
        let (kind, reference) = (policy.param_kind.as_ref(), binding.param_ref.as_ref());
        let params = match params::collect(kind, reference, question.attributes, question.reader) {
            Ok(params) => params,
            Err(why) if policy.fail_open => {
                tracing::warn!(
                    policy = policy.name,
                    why,
                    "A policy's parameters weren't found, failing open"
                );
                return Ok(());
            }
            Err(why) => {
                self.deny(policy, binding, &format!("failed to configure binding: {why}"), "Invalid");
                return Ok(());
            }
        };
        let mut subject = question.subject(&invocation);
        let namespace = question.reader.get("", "namespaces", "", &question.attributes.namespace);
        subject.namespace = namespace.map_or(Value::Null, |namespace| namespace.as_value().clone());
        for param in params {
            subject.params = param.map_or(Value::Null, |param| param.as_value().clone());
            self.one(policy, binding, &subject);
        }
        Ok(())
    }

    /// One policy with one parameter.
    fn one(&mut self, policy: &Policy, binding: &Binding, subject: &Subject) {
        let mut activation = Activation::new(subject, &policy.compiled.variables)
            .with_authorizer(self.question.authorizer, self.question.authorization());
        let Some(verdicts) = policy.compiled.judge(&mut activation) else { return };
        for (index, verdict) in verdicts.into_iter().enumerate() {
            match verdict {
                Verdict::Admit => {}
                Verdict::Error(why) if policy.fail_open => {
                    tracing::warn!(policy = policy.name, why, "An expression failed, failing open");
                }
                Verdict::Error(message) => self.act(policy, binding, index, &message, "Invalid"),
                Verdict::Deny { message, reason } => self.act(policy, binding, index, &message, &reason),
            }
        }
        for (key, note) in policy.compiled.annotations(&mut activation) {
            match note {
                Ok(note) => {
                    self.notes.entry(format!("{}/{key}", policy.name)).or_default().insert(note);
                }
                Err(why) if policy.fail_open => {
                    tracing::warn!(policy = policy.name, why, "An audit annotation failed, failing open");
                }
                Err(why) => self.deny(policy, binding, &why, "Invalid"),
            }
        }
    }

    fn deny(&mut self, policy: &Policy, binding: &Binding, why: &str, reason: &str) {
        let refusal = refusal(self.question.attributes, policy, binding, why, reason);
        self.denied.get_or_insert(refusal);
    }

    /// Does what the binding says about a validation that failed.
    fn act(&mut self, policy: &Policy, binding: &Binding, index: usize, message: &str, reason: &str) {
        for action in &binding.actions {
            match action.as_str() {
                "Deny" => self.deny(policy, binding, message, reason),
                "Warn" => self.report.warnings.push(format!(
                    "Validation failed for ValidatingAdmissionPolicy '{}' with binding '{}': {message}",
                    policy.name, binding.name
                )),
                // There is one such note; the first failure has it.
                "Audit" if self.report.annotations.iter().all(|(key, _)| key != FAILURE_KEY) => {
                    let failure = json!([{
                        "message": message, "policy": policy.name, "binding": binding.name,
                        "expressionIndex": index, "validationActions": binding.actions,
                    }]);
                    self.report.annotations.push((FAILURE_KEY.to_owned(), failure.to_string()));
                }
                _ => {}
            }
        }
    }

    fn finish(self) -> Result<(), Status> {
        for (key, notes) in self.notes {
            let notes: Vec<String> = notes.into_iter().collect();
            self.report.annotations.push((key, notes.join(", ")));
        }
        self.denied.map_or(Ok(()), Err)
    }
}

/// The refusal; its code is the reason's, although its text says "is forbidden".
fn refusal(
    attributes: &Attributes,
    policy: &Policy,
    binding: &Binding,
    message: &str,
    reason: &str,
) -> Status {
    let message = format!(
        "ValidatingAdmissionPolicy '{}' with binding '{}' denied request: {message}",
        policy.name, binding.name
    );
    let mut status = attributes.forbidden(&message);
    reason.clone_into(&mut status.reason);
    status.code = match reason {
        "Unauthorized" => 401,
        "Forbidden" => 403,
        "RequestEntityTooLarge" => 413,
        _ => 422,
    };
    let cause = StatusCause { reason: String::new(), message, field: String::new() };
    status.details.get_or_insert_default().causes.push(cause);
    status
}

#[cfg(test)]
mod tests;
