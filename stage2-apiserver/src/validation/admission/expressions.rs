//! Expressions of policies and webhooks: a wrong one is refused when it is written, and not when the first request meets it.
//!
//! Each is compiled as it will be when it runs; what it may speak of depends on where it stands: `params` only where the policy has a kind of
//! parameters, `variables` only where some were named before.
//!
//! # In Kubernetes
//! `validateValidatingAdmissionPolicySpec` and `validateMatchConditions` in `pkg/apis/admissionregistration/validation/validation.go`. Left
//! out: fields of `request` and `variables` that aren't there (an expression that looks at one fails when it runs).

use serde_json::Value;

use crate::admission::policy::expression::{Declared, compile_typed};
use crate::validation::fields::{has, list, text};
use crate::validation::values::{one_of_if_set, required_form};
use crate::validation::{Errors, FieldError, field, index, names};

/// Most notes that a policy may make for the audit log.
const MAX_AUDIT_ANNOTATIONS: usize = 20;
/// Most conditions.
const MAX_MATCH_CONDITIONS: usize = 64;

/// Compiles an expression whose value must be of one of these types.
fn expression(errors: &mut Errors, source: &str, path: &str, declared: Declared, wanted: &[&str]) {
    let why = match compile_typed(source, declared) {
        Err(why) => why,
        Ok((_, found)) if wanted.is_empty() || wanted.contains(&found.as_str()) => return,
        Ok(_) if wanted.len() == 1 => format!("must evaluate to {}", wanted[0]),
        Ok(_) => format!("must evaluate to one of [{}]", wanted.join(" ")),
    };
    errors.push(FieldError::invalid(path, source, why));
}

/// The conditions of a webhook or a policy.
pub fn match_conditions(errors: &mut Errors, owner: &Value, path: &str, params: bool) {
    let path = field(path, "matchConditions");
    let conditions = list(owner, "matchConditions");
    if conditions.len() > MAX_MATCH_CONDITIONS {
        errors.push(FieldError::too_many(&path, conditions.len(), MAX_MATCH_CONDITIONS));
    }
    let mut seen: Vec<&str> = Vec::new();
    for (at, condition) in conditions.iter().enumerate() {
        let path = index(&path, at);
        let source = text(condition, "expression").trim();
        match source.is_empty() {
            true => errors.push(FieldError::required(field(&path, "expression"), "")),
            false => {
                let declared = Declared { params, authorizer: true, variables: false };
                expression(errors, source, &field(&path, "expression"), declared, &["bool"]);
            }
        }
        required_form(errors, condition, "name", &path, names::qualified_name);
        let name = text(condition, "name");
        if !name.is_empty() && seen.contains(&name) {
            errors.push(FieldError::duplicate(field(&path, "name"), name));
        }
        seen.push(name);
    }
}

/// Conditions, variables, validations and audit annotations of a policy.
pub fn of_policy(errors: &mut Errors, spec: &Value) {
    let params = has(spec, "paramKind");
    match_conditions(errors, spec, "spec", params);
    let mut declared = Declared { params, authorizer: true, variables: false };
    for (at, entry) in list(spec, "variables").iter().enumerate() {
        variable(errors, entry, &index("spec.variables", at), declared);
        declared.variables = true;
    }
    let (validations, notes) = (list(spec, "validations"), list(spec, "auditAnnotations"));
    if validations.is_empty() && notes.is_empty() {
        let why = "validations or auditAnnotations must be specified";
        errors.push(FieldError::required("spec.validations", why));
        errors.push(FieldError::required("spec.auditAnnotations", why));
        return;
    }
    for (at, rule) in validations.iter().enumerate() {
        validation(errors, rule, &index("spec.validations", at), declared);
    }
    if notes.len() > MAX_AUDIT_ANNOTATIONS {
        let why = format!("must not have more than {MAX_AUDIT_ANNOTATIONS} auditAnnotations");
        errors.push(FieldError::invalid("spec.auditAnnotations", notes.len(), why));
    }
    let mut keys: Vec<&str> = Vec::new();
    for (at, note) in notes.iter().enumerate() {
        let path = index("spec.auditAnnotations", at);
        audit_annotation(errors, note, &path, declared);
        let key = text(note, "key");
        if keys.contains(&key) {
            errors.push(FieldError::duplicate(field(&path, "key"), key));
        }
        keys.push(key);
    }
}

/// A name by which others can call it.
fn is_identifier(name: &str) -> bool {
    let mut letters = name.chars();
    letters.next().is_some_and(|first| first.is_ascii_alphabetic() || first == '_')
        && letters.all(|letter| letter.is_ascii_alphanumeric() || letter == '_')
}

fn variable(errors: &mut Errors, entry: &Value, path: &str, declared: Declared) {
    let (name, source) = (text(entry, "name"), text(entry, "expression"));
    if name.trim().is_empty() {
        errors.push(FieldError::required(field(path, "name"), "name is not specified"));
    } else if !is_identifier(name) {
        errors.push(FieldError::invalid(field(path, "name"), name, "name is not a valid CEL identifier"));
    }
    match source.trim().is_empty() {
        true => errors.push(FieldError::required(field(path, "expression"), "expression is not specified")),
        false => expression(errors, source, &field(path, "expression"), declared, &[]),
    }
}

fn validation(errors: &mut Errors, rule: &Value, path: &str, declared: Declared) {
    let (source, message) = (text(rule, "expression").trim(), text(rule, "message"));
    match source.is_empty() {
        true => errors.push(FieldError::required(field(path, "expression"), "expression is not specified")),
        false => expression(errors, source, &field(path, "expression"), declared, &["bool"]),
    }
    let made = text(rule, "messageExpression");
    let at = field(path, "messageExpression");
    if !made.is_empty() && made.trim().is_empty() {
        errors.push(FieldError::invalid(&at, made, "must be non-empty if specified"));
    } else if !made.is_empty() {
        expression(errors, made.trim(), &at, Declared { authorizer: false, ..declared }, &["string"]);
    }
    let at = field(path, "message");
    if has(rule, "message") && !message.is_empty() && message.trim().is_empty() {
        errors.push(FieldError::invalid(&at, message, "message must be non-empty if specified"));
    } else if message.trim().contains('\n') {
        errors.push(FieldError::invalid(&at, message, "message must not contain line breaks"));
    } else if source.contains('\n') && message.is_empty() {
        let why = "message must be specified if expression contains line breaks";
        errors.push(FieldError::required(&at, why));
    }
    one_of_if_set(errors, rule, "reason", path, &["Forbidden", "Invalid", "RequestEntityTooLarge"]);
}

fn audit_annotation(errors: &mut Errors, note: &Value, path: &str, declared: Declared) {
    required_form(errors, note, "key", path, names::qualified_name);
    let (source, at) = (text(note, "valueExpression").trim(), field(path, "valueExpression"));
    match source.is_empty() {
        true => errors.push(FieldError::required(&at, "valueExpression is not specified")),
        false => expression(errors, source, &at, declared, &["string", "null"]),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn said(spec: Value) -> Vec<String> {
        let mut errors = Errors::new();
        of_policy(&mut errors, &spec);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn an_expression_must_be_right_and_of_its_type() {
        let of = |expression: &str| said(json!({ "validations": [{ "expression": expression }] }));
        assert!(of("object.data.a == '1'").is_empty());
        assert_eq!(
            of("object.data.a"),
            ["spec.validations[0].expression: Invalid value: \"object.data.a\": must evaluate to bool"]
        );
        let unknown =
            "ERROR: <input>:1:1: undeclared reference to 'params' (in container '')\n | params.a == 1\n | ^";
        let whole = format!(
            "spec.validations[0].expression: Invalid value: \"params.a == 1\": compilation failed: {unknown}"
        );
        assert_eq!(of("params.a == 1"), [whole]);
        let with_kind = json!({ "paramKind": { "apiVersion": "v1", "kind": "ConfigMap" }, "validations": [{ "expression": "params.a == 1" }] });
        assert!(said(with_kind).is_empty());
    }

    #[test]
    fn variables_are_known_to_those_after_them_and_rights_not_to_messages() {
        let spec = json!({
            "variables": [{ "name": "a", "expression": "1" }, { "name": "b-c", "expression": "variables.a + 1" }],
            "validations": [{ "expression": "variables.a > 0", "messageExpression": "string(authorizer.path('/').check('get').allowed())" }],
            "auditAnnotations": [{ "key": "k", "valueExpression": "1" }],
        });
        let found = said(spec);
        assert_eq!(
            found[0],
            "spec.variables[1].name: Invalid value: \"b-c\": name is not a valid CEL identifier"
        );
        assert!(
            found[1].starts_with("spec.validations[0].messageExpression: ")
                && found[1].contains("undeclared reference to 'authorizer'")
        );
        assert_eq!(
            found[2],
            "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string null]"
        );
        assert_eq!(found.len(), 3, "{found:?}");
    }
}
