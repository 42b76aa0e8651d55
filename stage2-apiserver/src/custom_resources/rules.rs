//! Rules: what a schema's form can't say, in CEL.
//!
//! *Step 4 of a custom object's journey.* Before: the form of the object is right. After: `self.minReplicas <= self.maxReplicas` holds.
//!
//! A rule stands at a schema and speaks of the value there as `self`. With `oldSelf` it speaks of a change: it is asked only on
//! updates, and only where it is clear what the value was before (fields, and items of lists with keys). All other rules are asked
//! whenever the value is new.
//!
//! # Invariants
//! 1. The rules of an object cost at most a budget together, whatever the object.
//! 2. A rule that can't be compiled is never stored in a definition; one that is stored all the same refuses every object.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/schema/cel/{compilation,validation}.go`. Left out: estimated costs.

use std::sync::Arc;

use serde_json::Value as Json;
use stage1_kubectl::status::{ErrorType, FieldError};

use super::openapi_validation::OldItems;
use super::structural::Schema;
use crate::cel::eval::{Budget, EvalError};
use crate::cel::overloads::Type;
use crate::cel::value::Value;
use crate::cel::{self, PER_CALL_LIMIT, Program, RUNTIME_COST_BUDGET};
use crate::validation::custom_resource_definition::rule_forms::go_rule;
use crate::validation::fields::{child, entries, flag, list, text};
use crate::validation::{Errors, field, index, key};

/// A compiled rule.
#[derive(Debug)]
pub struct Rule {
    rule: Result<Program, String>,
    text: String,
    message: String,
    message_expression: Option<Program>,
    reason: ErrorType,
    field_path: String,
    uses_old_self: bool,
    optional_old_self: bool,
}

/// Compiles all rules of a schema.
pub fn compile(schema: &mut Schema) {
    schema.compiled = schema.rules.iter().map(|said| Arc::new(Rule::parse(said, schema))).collect();
    schema.properties.values_mut().for_each(compile);
    if let super::structural::Additional::Of(more) = &mut schema.additional {
        compile(more);
    }
    schema.items.iter_mut().for_each(|items| compile(items));
    schema.any_rules = !schema.compiled.is_empty()
        || schema.properties.values().any(|property| property.any_rules)
        || schema.additional.schema().is_some_and(|more| more.any_rules)
        || schema.items.as_ref().is_some_and(|items| items.any_rules);
}

fn variables(schema: &Schema, optional_old_self: bool) -> Vec<(String, Type<'_>)> {
    let old = match optional_old_self {
        true => Type::Optional(Box::new(Type::of(schema))),
        false => Type::of(schema),
    };
    vec![("self".to_owned(), Type::of(schema)), ("oldSelf".to_owned(), old)]
}

impl Rule {
    fn parse(said: &Json, schema: &Schema) -> Rule {
        let optional_old_self = flag(said, "optionalOldSelf");
        let compiled = |source: &str, wanted| {
            cel::compile(source, variables(schema, optional_old_self), wanted).map(|(program, _)| program)
        };
        let rule = compiled(text(said, "rule"), "bool");
        let message_expression = Some(text(said, "messageExpression")).filter(|source| !source.is_empty());
        Rule {
            uses_old_self: rule.as_ref().is_ok_and(|program| program.mentions("oldSelf")),
            rule,
            text: text(said, "rule").trim().to_owned(),
            message: text(said, "message").trim().to_owned(),
            message_expression: message_expression.and_then(|source| compiled(source, "string").ok()),
            reason: match text(said, "reason") {
                "FieldValueForbidden" => ErrorType::Forbidden,
                "FieldValueRequired" => ErrorType::Required,
                "FieldValueDuplicate" => ErrorType::Duplicate,
                _ => ErrorType::Invalid,
            },
            field_path: text(said, "fieldPath").to_owned(),
            optional_old_self,
        }
    }

    /// How messages name the rule.
    fn shown(&self) -> &str {
        if self.message.is_empty() { &self.text } else { &self.message }
    }
}

/// What is wrong with an object by its rules.
pub fn validate(value: &Json, old: Option<&Json>, schema: &Schema) -> Errors {
    let mut walk = Walk { budget: Budget::new(RUNTIME_COST_BUDGET), errors: Errors::new(), ended: false };
    walk.value(value, old, schema, "");
    walk.errors
}

struct Walk {
    budget: Budget,
    errors: Errors,
    ended: bool,
}

impl Walk {
    fn value(&mut self, value: &Json, old: Option<&Json>, schema: &Schema, path: &str) {
        if !schema.any_rules || value.is_null() {
            return;
        }
        for rule in &schema.compiled {
            let is_asked = match (rule.uses_old_self, old) {
                (true, Some(_)) => true,
                (true, None) => rule.optional_old_self,
                (false, old) => old != Some(value),
            };
            if is_asked && !self.ended {
                self.rule(rule, value, old, schema, path);
            }
        }
        match value {
            Json::Object(fields) => {
                for (name, found) in fields {
                    let before = old.and_then(|old| old.get(name));
                    if let Some(property) = schema.properties.get(name) {
                        self.value(found, before, property, &field(path, name));
                    } else if let Some(more) = schema.additional.schema() {
                        self.value(found, before, more, &key(path, name));
                    }
                }
            }
            Json::Array(items) => {
                let Some(below) = schema.items.as_deref() else { return };
                let before = OldItems::new(schema, old);
                for (at, item) in items.iter().enumerate() {
                    self.value(item, before.of(schema, item), below, &index(path, at));
                }
            }
            _ => {}
        }
    }

    fn rule(&mut self, rule: &Rule, value: &Json, old: Option<&Json>, schema: &Schema, path: &str) {
        let shown_path = if path.is_empty() { "<nil>" } else { path };
        let kind = if schema.kind.is_empty() { "object" } else { schema.kind.as_str() };
        let program = match &rule.rule {
            Ok(program) => program,
            Err(why) => {
                self.errors.push(FieldError::invalid(shown_path, kind, format!("rule compile error: {why}")));
                return;
            }
        };
        let outcome = self.spend(|budget| {
            program
                .evaluate(bound(rule, value, old, schema), budget)
                .map(|value| matches!(value, Value::Bool(true)))
        });
        match outcome {
            Some(Ok(true)) => {}
            Some(Ok(false)) => self.refuse(rule, value, old, schema, path),
            Some(Err(EvalError::TooCostly)) => {
                self.ended = true;
                let why = format!(
                    "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {}",
                    EvalError::TooCostly,
                    rule.shown()
                );
                self.errors.push(FieldError::invalid(shown_path, kind, why));
            }
            Some(Err(error)) => {
                let text = error.to_string();
                let why = match text.starts_with("no such overload") {
                    true => format!(
                        "'{text}': call arguments did not match a supported operator, function or macro signature for rule: {}",
                        rule.shown()
                    ),
                    false => format!("{text} evaluating rule: {}", rule.shown()),
                };
                self.errors.push(FieldError::invalid(shown_path, kind, why));
            }
            None => {
                self.ended = true;
                let why = "validation failed due to running out of cost budget, no further validation rules will be run";
                self.errors.push(FieldError::invalid(shown_path, kind, why));
            }
        }
    }

    /// Runs with what one call may cost, and takes it off what all may cost; `None` when that is nothing.
    fn spend<T>(
        &mut self,
        run: impl FnOnce(&mut Budget) -> Result<T, EvalError>,
    ) -> Option<Result<T, EvalError>> {
        let granted = PER_CALL_LIMIT.min(self.budget.left());
        let mut call = Budget::new(granted);
        let outcome = run(&mut call);
        let is_over = self.budget.spend(granted - call.left()).is_err() || self.budget.left() == 0;
        if is_over && matches!(outcome, Err(EvalError::TooCostly)) { None } else { Some(outcome) }
    }

    fn refuse(&mut self, rule: &Rule, value: &Json, old: Option<&Json>, schema: &Schema, path: &str) {
        let from_expression = rule.message_expression.as_ref().and_then(|expression| {
            let outcome = self.spend(|budget| {
                expression.evaluate(bound(rule, value, old, schema), budget).map(|value| match value {
                    Value::Text(text) => text.trim().to_owned(),
                    _ => String::new(),
                })
            });
            // A message that can't be made doesn't hide that the rule failed.
            outcome?.ok().filter(|text| !text.is_empty() && !text.contains('\n'))
        });
        let detail = from_expression.unwrap_or_else(|| match rule.message.is_empty() {
            true => format!("failed rule: {}", rule.shown()),
            false => rule.message.clone(),
        });
        let path = format!("{path}{}", rule.field_path);
        let path = path.trim_start_matches('.');
        let path = if path.is_empty() { "<nil>" } else { path };
        let kind = if schema.kind.is_empty() { "object" } else { schema.kind.as_str() };
        self.errors.push(match rule.reason {
            ErrorType::Forbidden => FieldError::forbidden(path, detail),
            ErrorType::Required => FieldError::required(path, detail),
            ErrorType::Duplicate => FieldError::duplicate(path, kind),
            _ => FieldError::invalid(path, kind, detail),
        });
    }
}

fn bound<'a>(
    rule: &Rule,
    value: &'a Json,
    old: Option<&'a Json>,
    schema: &'a Schema,
) -> Vec<(&'static str, Value<'a>)> {
    let mut variables = vec![("self", Value::of(value, Some(schema)))];
    let before = old.map(|old| Value::of(old, Some(schema)));
    match rule.optional_old_self {
        true => variables.push(("oldSelf", Value::Optional(before.map(Box::new)))),
        false => variables.extend(before.map(|before| ("oldSelf", before))),
    }
    variables
}

/// What is wrong with the rules of a schema that is written now.
pub fn check(schema: &Json, path: &str) -> Errors {
    let mut errors = Errors::new();
    check_below(&mut errors, schema, path, None, true);
    errors
}

/// `apart`: the schema from which on it isn't clear what a value was before.
fn check_below(errors: &mut Errors, schema: &Json, path: &str, apart: Option<&str>, is_root: bool) {
    let map_type = text(schema, "x-kubernetes-map-type");
    let below_fields = apart.or(Some(path).filter(|_| map_type == "atomic"));
    for (name, property) in entries(schema, "properties") {
        check_below(errors, property, &key(&field(path, "properties"), name), below_fields, false);
    }
    let more = child(schema, "additionalProperties");
    if more.is_object() {
        check_below(errors, more, &field(path, "additionalProperties"), apart, false);
    }
    let items = child(schema, "items");
    if items.is_object() {
        let below_items = apart.or(Some(path).filter(|_| text(schema, "x-kubernetes-list-type") != "map"));
        check_below(errors, items, &field(path, "items"), below_items, false);
    }
    let rules = list(schema, "x-kubernetes-validations");
    if rules.is_empty() {
        return;
    }
    let mut parsed = Schema::parse(schema);
    parsed.embedded_resource |= is_root;
    for (at, said) in rules.iter().enumerate() {
        let path = index(&field(path, "x-kubernetes-validations"), at);
        let optional = flag(said, "optionalOldSelf");
        let uses_old_self = match cel::compile(text(said, "rule"), variables(&parsed, optional), "bool") {
            Ok((program, _)) => program.mentions("oldSelf"),
            Err(why) => {
                let why = if why.starts_with("must evaluate") {
                    why.replace("to bool", "to a bool")
                } else {
                    format!("compilation failed: {why}")
                };
                errors.push(FieldError::invalid(field(&path, "rule"), go_rule(said), why));
                false
            }
        };
        let expression = text(said, "messageExpression");
        if !expression.is_empty()
            && let Err(why) = cel::compile(expression, variables(&parsed, optional), "string")
        {
            let why = match why.starts_with("must evaluate") {
                true => "messageExpression must evaluate to a string".to_owned(),
                false => format!("messageExpression compilation failed: {why}"),
            };
            errors.push(FieldError::invalid(field(&path, "messageExpression"), go_rule(said), why));
        }
        match (uses_old_self, apart) {
            (true, Some(apart)) => {
                let why = format!(
                    "oldSelf cannot be used on the uncorrelatable portion of the schema within {apart}"
                );
                errors.push(FieldError::invalid(field(&path, "rule"), text(said, "rule"), why));
            }
            (false, _) if optional => {
                let why = "may not be set if oldSelf is not used in rule";
                errors.push(FieldError::invalid(field(&path, "optionalOldSelf"), true, why));
            }
            _ => {}
        }
    }
}
