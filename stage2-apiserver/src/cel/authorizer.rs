//! Authorizer: what an expression may ask about rights.
//!
//! A policy may judge by more than the object: `authorizer.group('').resource('pods').namespace('a').check('create').allowed()` asks the
//! cluster's authorizers, about whoever sends the request. Each call narrows the question; `check` asks it. `authorizer.requestResource` is
//! the question about what the request itself is about.
//!
//! Asking costs a third of what one expression may cost: two of them fit, a loop over all namespaces doesn't.
//!
//! # In Kubernetes
//! `apiserver/pkg/cel/library/authz.go`. Left out: `fieldSelector` and `labelSelector` of a check.

use std::fmt;
use std::sync::Arc;

use super::eval::{Budget, EvalError, Outcome};
use super::value::Value;
use crate::authentication::UserInfo;
use crate::authorization::{Attributes, Authorizer, Decision};

/// What one question costs.
const CHECK_COST: u64 = 350_000;

/// How far a question has come.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Stage {
    Authorizer,
    Path,
    Group,
    Resource,
    Decided(Decision),
}

/// A question to the authorizers, or its answer.
#[derive(Clone)]
pub struct Asked<'a> {
    authorizer: &'a dyn Authorizer,
    /// The resource of the request.
    request: Arc<Attributes>,
    attributes: Attributes,
    stage: Stage,
}

impl fmt::Debug for Asked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asked").field(&self.attributes).field(&self.stage).finish()
    }
}

impl<'a> Asked<'a> {
    /// The variable `authorizer`; `request` says who asks, and for what resource the request is.
    pub fn new(authorizer: &'a dyn Authorizer, request: Attributes) -> Self {
        let attributes = Attributes { user: request.user.clone(), ..Attributes::default() };
        Asked { authorizer, request: Arc::new(request), attributes, stage: Stage::Authorizer }
    }

    /// `authorizer.requestResource`.
    pub fn field(&self, name: &str) -> Option<Asked<'a>> {
        let is_it = self.stage == Stage::Authorizer && name == "requestResource";
        is_it.then(|| Asked { attributes: (*self.request).clone(), stage: Stage::Resource, ..self.clone() })
    }

    /// The name of the type.
    pub fn type_name(&self) -> &'static str {
        match self.stage {
            Stage::Authorizer => "kubernetes.authorization.Authorizer",
            Stage::Path => "kubernetes.authorization.PathCheck",
            Stage::Group => "kubernetes.authorization.GroupCheck",
            Stage::Resource => "kubernetes.authorization.ResourceCheck",
            Stage::Decided(_) => "kubernetes.authorization.Decision",
        }
    }

    fn narrowed(&self, stage: Stage, change: impl FnOnce(&mut Attributes)) -> Value<'a> {
        let mut asked = Asked { stage, ..self.clone() };
        change(&mut asked.attributes);
        Value::Asked(Arc::new(asked))
    }
}

/// Calls a function of a question; `None` if it has no such one.
pub fn call<'a>(
    name: &str,
    asked: &Asked<'a>,
    args: &[Value<'a>],
    budget: &mut Budget,
) -> Option<Outcome<'a>> {
    let texts: Option<Vec<String>> = args
        .iter()
        .map(|arg| match arg {
            Value::Text(text) => Some(text.to_string()),
            _ => None,
        })
        .collect();
    let texts = texts?;
    let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
    Some(Ok(match (&asked.stage, name, texts.as_slice()) {
        (Stage::Authorizer, "path", [""]) => {
            return Some(Err(EvalError::failed("path must not be empty")));
        }
        (Stage::Authorizer, "path", [path]) => {
            asked.narrowed(Stage::Path, |a| (*path).clone_into(&mut a.path))
        }
        (Stage::Authorizer, "group", [group]) => {
            asked.narrowed(Stage::Group, |a| (*group).clone_into(&mut a.group))
        }
        (Stage::Authorizer, "serviceAccount", [namespace, account]) => {
            asked.narrowed(Stage::Authorizer, |a| {
                let (all, own) = ("system:serviceaccounts", format!("system:serviceaccounts:{namespace}"));
                let user = format!("system:serviceaccount:{namespace}:{account}");
                a.user = Arc::new(UserInfo::new(&user, &[all, &own]));
            })
        }
        (Stage::Group, "resource", [resource]) => asked.narrowed(Stage::Resource, |a| {
            (a.is_resource, a.version) = (true, "*".to_owned());
            (*resource).clone_into(&mut a.resource);
        }),
        (Stage::Resource, "subresource", [part]) => {
            asked.narrowed(Stage::Resource, |a| (*part).clone_into(&mut a.subresource))
        }
        (Stage::Resource, "namespace", [namespace]) => {
            asked.narrowed(Stage::Resource, |a| (*namespace).clone_into(&mut a.namespace))
        }
        (Stage::Resource, "name", [name]) => {
            asked.narrowed(Stage::Resource, |a| (*name).clone_into(&mut a.name))
        }
        (Stage::Resource | Stage::Path, "check", [verb]) => {
            if let Err(error) = budget.spend(CHECK_COST) {
                return Some(Err(error));
            }
            let question = Attributes { verb: (*verb).to_owned(), ..asked.attributes.clone() };
            let decision = asked.authorizer.authorize(&question);
            asked.narrowed(Stage::Decided(decision), |_| {})
        }
        (Stage::Decided(decision), "allowed", []) => Value::Bool(decision.is_allowed()),
        (Stage::Decided(decision), "reason", []) => Value::text(decision.reason()),
        (Stage::Decided(_), "errored", []) => Value::Bool(false),
        (Stage::Decided(_), "error", []) => Value::text(""),
        _ => return None,
    }))
}
