//! The form of rules; what they say is CEL's business ([`crate::custom_resources::rules`]).
//!
//! # In Kubernetes
//! `ValidateCustomResourceDefinitionOpenAPISchema` and `pathValid` in `apiextensions-apiserver/pkg/apis/apiextensions/validation/validation.go`.

use serde_json::Value;
use stage1_kubectl::status::quote;

use super::super::fields::{child, has, list, text};
use super::super::{Errors, FieldError, field, go_syntax, index};

/// What is wrong with the rules of a schema, their expressions aside.
pub fn check(errors: &mut Errors, schema: &Value, path: &str) {
    const REASONS: [&str; 4] =
        ["FieldValueDuplicate", "FieldValueForbidden", "FieldValueInvalid", "FieldValueRequired"];
    for (at, rule) in list(schema, "x-kubernetes-validations").iter().enumerate() {
        let path = index(&field(path, "x-kubernetes-validations"), at);
        let trimmed = |name: &str| text(rule, name).trim();
        let broken = |text: &str| text.contains(['\n', '\r']);
        let message = text(rule, "message");
        if trimmed("rule").is_empty() {
            errors.push(FieldError::required(field(&path, "rule"), "rule is not specified"));
        } else if !message.is_empty() && trimmed("message").is_empty() {
            errors.push(FieldError::invalid(
                field(&path, "message"),
                message,
                "message must be non-empty if specified",
            ));
        } else if broken(trimmed("message")) {
            errors.push(FieldError::invalid(
                field(&path, "message"),
                message,
                "message must not contain line breaks",
            ));
        } else if broken(trimmed("rule")) && trimmed("message").is_empty() {
            let why = "message must be specified if rule contains line breaks";
            errors.push(FieldError::required(field(&path, "message"), why));
        }
        if !text(rule, "messageExpression").is_empty() && trimmed("messageExpression").is_empty() {
            let why = "messageExpression must be non-empty if specified";
            errors.push(FieldError::required(field(&path, "messageExpression"), why));
        }
        let reason = text(rule, "reason");
        if has(rule, "reason") && !REASONS.contains(&reason) {
            errors.push(FieldError::not_supported(field(&path, "reason"), reason, &REASONS));
        }
        let field_path = text(rule, "fieldPath");
        let refuse = |why: &str| FieldError::invalid(field(&path, "fieldPath"), field_path, why);
        if !field_path.is_empty() && trimmed("fieldPath").is_empty() {
            errors.push(refuse("fieldPath must be non-empty if specified"));
        }
        if broken(field_path) {
            errors.push(refuse("fieldPath must not contain line breaks"));
        }
        if !field_path.is_empty() && schema_at(schema, field_path).is_none() {
            errors.push(refuse("fieldPath must be a valid path"));
        }
    }
}

/// The schema that a path `.spec.a` or `.spec['a b']` leads to.
pub fn schema_at<'a>(schema: &'a Value, path: &str) -> Option<&'a Value> {
    let mut at = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let name;
        if let Some(quoted) = rest.strip_prefix("['") {
            (name, rest) = quoted.split_once("']")?;
        } else {
            let plain = rest.strip_prefix('.')?;
            let end = plain.find(['.', '[']).unwrap_or(plain.len());
            (name, rest) = plain.split_at(end);
        }
        let declared = child(child(at, "properties"), name);
        at = if declared.is_object() { declared } else { child(at, "additionalProperties") };
        if !at.is_object() {
            return None;
        }
    }
    Some(at)
}

/// A rule as messages show it.
pub fn go_rule(rule: &Value) -> Value {
    let pointer = |name: &str, kind: &str| match has(rule, name) {
        true => format!("(*{kind})(0x0)"),
        false => format!("(*{kind})(nil)"),
    };
    go_syntax::raw(format!(
        "apiextensions.ValidationRule{{Rule:{}, Message:{}, MessageExpression:{}, Reason:{}, FieldPath:{}, OptionalOldSelf:{}}}",
        quote(text(rule, "rule")),
        quote(text(rule, "message")),
        quote(text(rule, "messageExpression")),
        pointer("reason", "apiextensions.FieldValueErrorReason"),
        quote(text(rule, "fieldPath")),
        pointer("optionalOldSelf", "bool"),
    ))
}
