//! Expression: one piece of CEL of a policy or webhook, compiled once, and what it is evaluated on.
//!
//! A policy may name parts of its work (`variables`), each from those before it. A variable is evaluated when an expression needs it, once
//! for a request; what nobody looks at costs nothing and can't fail.
//!
//! # Invariants
//! 1. All expressions about one object cost at most a budget together.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/cel/{compile,composition,condition}.go`. Left out: types of `object` and `request` (fields are looked up
//! when the expression runs).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;

use crate::authorization::{Attributes, Authorizer};
use crate::cel::authorizer::Asked;
use crate::cel::eval::{Budget, EvalError};
use crate::cel::overloads::Type;
use crate::cel::value::Value as CelValue;
use crate::cel::{PER_CALL_LIMIT, Program, RUNTIME_COST_BUDGET, compile};

/// What expressions are about.
#[derive(Debug, Clone, Default)]
pub struct Subject {
    /// `object`
    pub object: Value,
    /// `oldObject`
    pub old_object: Value,
    /// `request`
    pub request: Value,
    /// `params`
    pub params: Value,
    /// `namespaceObject`
    pub namespace: Value,
}

impl Subject {
    /// From the question that a webhook would be asked: the same things, in other places.
    pub fn of_question(mut question: Value) -> Subject {
        let mut take = |name: &str| question.get_mut(name).map(Value::take).unwrap_or_default();
        let (object, old_object) = (take("object"), take("oldObject"));
        if let Some(fields) = question.as_object_mut() {
            for name in ["object", "oldObject", "uid"] {
                fields.remove(name);
            }
        }
        Subject { object, old_object, request: question, ..Subject::default() }
    }
}

/// What an expression may speak of besides `object`, `oldObject`, `request` and `namespaceObject`.
#[derive(Debug, Clone, Copy, Default)]
pub struct Declared {
    /// `params`: the policy has a kind of parameters.
    pub params: bool,
    /// `authorizer`.
    pub authorizer: bool,
    /// `variables`: there are some before this expression.
    pub variables: bool,
}

/// Compiles, and says what it found and of which type the value is.
///
/// # Errors
/// What is wrong with it.
pub fn compile_typed(source: &str, declared: Declared) -> Result<(Program, String), String> {
    let mut names: Vec<(String, Type<'_>)> = ["object", "oldObject", "request", "namespaceObject"]
        .into_iter()
        .map(|name| (name.to_owned(), Type::Dyn))
        .collect();
    for (name, is_declared) in [("params", declared.params), ("variables", declared.variables)] {
        names.extend(is_declared.then(|| (name.to_owned(), Type::Dyn)));
    }
    names.extend(declared.authorizer.then(|| ("authorizer".to_owned(), Type::Plain("authorizer"))));
    compile(source, names, "")
        .map(|(program, found)| (program, found.to_string()))
        .map_err(|why| format!("compilation failed: {why}"))
}

/// One expression.
#[derive(Debug, Clone)]
pub struct Expression {
    /// As it was written.
    pub text: String,
    program: Result<Arc<Program>, String>,
    /// Which variables it needs.
    needs: Vec<String>,
}

impl Expression {
    /// Compiles; what is wrong is said when somebody evaluates it.
    pub fn new(text: &str) -> Expression {
        let all = Declared { params: true, authorizer: true, variables: true };
        let program = compile_typed(text, all).map(|(program, _)| Arc::new(program));
        let needs = program.as_ref().map_or_else(|_| Vec::new(), |program| program.fields_of("variables"));
        Expression { text: text.to_owned(), program, needs }
    }
}

/// A subject, who may be asked about rights, and what was found out so far.
pub struct Activation<'a> {
    subject: &'a Subject,
    authorizer: Option<Asked<'a>>,
    variables: &'a [(String, Expression)],
    known: BTreeMap<String, Result<Value, String>>,
    left: u64,
}

impl<'a> Activation<'a> {
    /// For one object and one parameter.
    pub fn new(subject: &'a Subject, variables: &'a [(String, Expression)]) -> Activation<'a> {
        Activation { subject, authorizer: None, variables, known: BTreeMap::new(), left: RUNTIME_COST_BUDGET }
    }

    /// Lets expressions ask about rights; `request` is what the request itself is about.
    pub fn with_authorizer(mut self, authorizer: &'a dyn Authorizer, request: Attributes) -> Activation<'a> {
        self.authorizer = Some(Asked::new(authorizer, request));
        self
    }

    /// The value of an expression.
    ///
    /// # Errors
    /// As a refusal shows it.
    pub fn evaluate(&mut self, expression: &Expression) -> Result<Value, String> {
        let program = match &expression.program {
            Ok(program) => program.clone(),
            Err(why) => return Err(format!("compilation error: {why}")),
        };
        let shown = |why: &str| format!("expression '{}' resulted in error: {why}", expression.text);
        self.prepare(&expression.needs);
        let outcome = self.run(&program);
        outcome.map_err(|error| {
            // What a variable's failure leaves is a gap, and that is what the expression fell into.
            let gap =
                expression.needs.iter().find_map(|name| Some((name, self.known.get(name)?.as_ref().err()?)));
            match gap {
                Some((name, why)) => shown(&format!("composited variable {name:?} fails to evaluate: {why}")),
                None => shown(&error.to_string()),
            }
        })
    }

    /// Evaluates the variables that are needed, and those that they need.
    fn prepare(&mut self, needs: &[String]) {
        let all = self.variables;
        for name in needs {
            let Some(at) = all.iter().position(|(known, _)| known == name) else { continue };
            if self.known.contains_key(name) {
                continue;
            }
            // Only those before it: no variable can wait for itself.
            let below: Vec<String> = all[at]
                .1
                .needs
                .iter()
                .filter(|n| all[..at].iter().any(|(known, _)| known == *n))
                .cloned()
                .collect();
            self.prepare(&below);
            let outcome = match &all[at].1.program {
                Ok(program) => self.run(&program.clone()).map_err(|error| error.to_string()),
                Err(why) => Err(why.clone()),
            };
            self.known.insert(name.clone(), outcome);
        }
    }

    fn run(&mut self, program: &Program) -> Result<Value, EvalError> {
        let named: serde_json::Map<String, Value> = self
            .known
            .iter()
            .filter_map(|(name, value)| Some((name.clone(), value.as_ref().ok()?.clone())))
            .collect();
        let (named, subject) = (Value::Object(named), self.subject);
        let mut scope = vec![
            ("object", CelValue::of(&subject.object, None)),
            ("oldObject", CelValue::of(&subject.old_object, None)),
            ("request", CelValue::of(&subject.request, None)),
            ("params", CelValue::of(&subject.params, None)),
            ("namespaceObject", CelValue::of(&subject.namespace, None)),
            ("variables", CelValue::of(&named, None)),
        ];
        scope.extend(self.authorizer.clone().map(|asked| ("authorizer", CelValue::Asked(Arc::new(asked)))));
        let granted = PER_CALL_LIMIT.min(self.left);
        let mut budget = Budget::new(granted);
        let outcome = program.evaluate(scope, &mut budget).map(|value| value.to_json());
        self.left = self.left.saturating_sub(granted - budget.left());
        outcome
    }
}
