//! Evaluate: a policy's conditions, validations and audit annotations, on what one request is about.
//!
//! # In Kubernetes
//! `apiserver/pkg/admission/plugin/policy/validating/validator.go`. Left out: nothing but what [`super::expression`] leaves out.

use serde_json::Value;
use stage1_kubectl::object::Object;

use super::conditions;
use super::expression::{Activation, Expression};

/// Longest message that an expression may make.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;
/// Longest note for the audit log.
const MAX_ANNOTATION_BYTES: usize = 10 * 1024;

/// What one validation says.
#[derive(Debug, Clone, PartialEq)]
pub enum Verdict {
    /// Nothing against it.
    Admit,
    /// No.
    Deny {
        /// Why.
        message: String,
        /// `Invalid`, `Forbidden` …
        reason: String,
    },
    /// The expression failed.
    Error(String),
}

#[derive(Debug)]
struct Validation {
    expression: Expression,
    message: String,
    message_expression: Option<Expression>,
    reason: String,
}

/// A policy's expressions.
#[derive(Debug)]
pub struct Compiled {
    conditions: Vec<Expression>,
    /// Parts that the others name.
    pub variables: Vec<(String, Expression)>,
    validations: Vec<Validation>,
    annotations: Vec<(String, Expression)>,
}

fn list<'a>(object: &'a Object, field: &str) -> impl Iterator<Item = &'a Value> {
    object.get(&format!("/spec/{field}")).and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value[name].as_str().unwrap_or("")
}

impl Compiled {
    /// Of a policy object.
    pub fn read(policy: &Object) -> Compiled {
        let named = |entry: &Value, name: &str, expression: &str| {
            (text(entry, name).to_owned(), Expression::new(text(entry, expression)))
        };
        Compiled {
            conditions: conditions::read(policy.get("/spec/matchConditions")),
            variables: list(policy, "variables").map(|v| named(v, "name", "expression")).collect(),
            validations: list(policy, "validations").map(Validation::read).collect(),
            annotations: list(policy, "auditAnnotations")
                .map(|a| named(a, "key", "valueExpression"))
                .collect(),
        }
    }

    /// What each validation says; one error if the policy's own conditions fail, nothing if they don't hold.
    pub fn judge(&self, activation: &mut Activation<'_>) -> Option<Vec<Verdict>> {
        match conditions::hold(&self.conditions, activation) {
            Ok(true) => {
                Some(self.validations.iter().map(|validation| validation.judge(activation)).collect())
            }
            Ok(false) => None,
            Err(why) => Some(vec![Verdict::Error(why)]),
        }
    }

    /// Notes for the audit log.
    pub fn annotations(&self, activation: &mut Activation<'_>) -> Vec<(String, Result<String, String>)> {
        let mut note = |expression: &Expression| match activation.evaluate(expression) {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let end =
                    (0..=text.len().min(MAX_ANNOTATION_BYTES)).rev().find(|at| text.is_char_boundary(*at));
                (!text.is_empty()).then(|| Ok(text[..end.unwrap_or(0)].to_owned()))
            }
            Ok(_) => None,
            Err(why) => Some(Err(why)),
        };
        self.annotations.iter().filter_map(|(key, value)| Some((key.clone(), note(value)?))).collect()
    }
}

impl Validation {
    fn read(entry: &Value) -> Validation {
        let (message, reason) = (text(entry, "messageExpression"), text(entry, "reason"));
        Validation {
            expression: Expression::new(text(entry, "expression")),
            message: text(entry, "message").trim().to_owned(),
            message_expression: (!message.is_empty()).then(|| Expression::new(message)),
            reason: if reason.is_empty() { "Invalid".into() } else { reason.into() },
        }
    }

    fn judge(&self, activation: &mut Activation<'_>) -> Verdict {
        match activation.evaluate(&self.expression) {
            Ok(Value::Bool(true)) => Verdict::Admit,
            Ok(_) => Verdict::Deny { message: self.message(activation), reason: self.reason.clone() },
            Err(why) => Verdict::Error(why),
        }
    }

    /// The message's expression if it gives a usable text, else the message, else the expression itself.
    fn message(&self, activation: &mut Activation<'_>) -> String {
        let made = self.message_expression.as_ref().and_then(|made| activation.evaluate(made).ok());
        let made = made.as_ref().and_then(Value::as_str).map(str::trim);
        let usable =
            made.filter(|text| !text.is_empty() && !text.contains('\n') && text.len() <= MAX_MESSAGE_BYTES);
        match (usable, self.message.as_str()) {
            (Some(text), _) => text.to_owned(),
            (None, "") => format!("failed expression: {}", self.expression.text.trim()),
            (None, message) => message.to_owned(),
        }
    }
}
