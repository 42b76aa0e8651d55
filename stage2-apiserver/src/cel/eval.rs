//! Evaluation: an expression and its variables become a value, or an error, or run out of budget.
//!
//! A rule runs in the API server while somebody waits, on objects that anybody may send. So every step costs: a call one, a walk over a
//! text or list something for each piece of it, and an evaluation ends when it has cost too much. Nothing in CEL runs for ever anyhow:
//! the only loops are over what is there.
//!
//! The subtle thing is `&&` and `||`: they don't care on which side the error is. `has(self.a) && self.a > 1` and the same turned around
//! give the same answer, since an error on one side is forgotten when the other side decides.
//!
//! # Invariants
//! 1. An evaluation costs at most its budget, and a little.
//!
//! # In Kubernetes
//! `cel-go/interpreter`, `apiserver/pkg/cel/library/cost.go`. Left out: costs equal to the last digit; `x-kubernetes-list-type` in `+`.

use std::sync::Arc;

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr, operators,
};

use super::value::Value;
use super::{functions, unescaped};

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// What CEL calls an error: `no such key: a`.
    #[error("{0}")]
    Failed(String),
    /// The budget is used up.
    #[error("operation cancelled: actual cost limit exceeded")]
    TooCostly,
}

impl EvalError {
    /// An error with a text.
    pub fn failed(text: impl Into<String>) -> Self {
        EvalError::Failed(text.into())
    }
}

/// What came of a part of an expression.
pub type Outcome<'a> = Result<Value<'a>, EvalError>;

/// What may still be spent.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// So much.
    pub fn new(left: u64) -> Self {
        Budget { left }
    }

    /// What is left.
    pub fn left(&self) -> u64 {
        self.left
    }

    /// Spends.
    ///
    /// # Errors
    /// There isn't so much left.
    pub fn spend(&mut self, cost: u64) -> Result<(), EvalError> {
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(EvalError::TooCostly)
            }
        }
    }

    /// Spends for a walk over a value: a tenth a piece.
    ///
    /// # Errors
    /// There isn't so much left.
    pub fn walk(&mut self, value: &Value<'_>) -> Result<(), EvalError> {
        self.spend(value.size().unwrap_or(0) as u64 / 10)
    }

    /// Spends for a walk over all that is in two values that are compared, the smaller of which decides how far.
    ///
    /// # Errors
    /// There isn't so much left.
    pub fn compare(&mut self, one: &Value<'_>, other: &Value<'_>) -> Result<(), EvalError> {
        let limit = usize::try_from(self.left.saturating_mul(10)).unwrap_or(usize::MAX).saturating_add(10);
        let (one, other) = (one.deep_size(limit), other.deep_size(limit));
        self.spend(one.min(other) as u64 / 10)
    }
}

/// The state of an evaluation.
pub struct Evaluator<'a, 'e> {
    variables: Vec<(&'e str, Value<'a>)>,
    budget: &'e mut Budget,
}

impl<'a, 'e> Evaluator<'a, 'e> {
    /// With variables and a budget.
    pub fn new(variables: Vec<(&'e str, Value<'a>)>, budget: &'e mut Budget) -> Self {
        Evaluator { variables, budget }
    }

    // ANCHOR: cel-eval
    /// The value of an expression.
    ///
    /// # Errors
    /// What CEL calls an error, or the budget is used up.
    pub fn eval(&mut self, expression: &'e IdedExpr) -> Outcome<'a> {
        self.budget.spend(1)?;
        match &expression.expr {
            Expr::Literal(literal) => Ok(self.literal(literal)),
            Expr::Ident(name) => self.variable(name),
            Expr::Select(select) if select.test => {
                let operand = self.eval(&select.operand)?;
                Ok(Value::Bool(has(&operand, &select.field)?))
            }
            Expr::Select(select) => {
                let operand = self.eval(&select.operand)?;
                field(&operand, &select.field)
            }
            Expr::List(list) => self.list(list),
            Expr::Map(map) => self.map(map),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(call),
            Expr::Struct(_) | Expr::Unspecified => Err(EvalError::failed("unsupported expression")),
        }
    }
    // ANCHOR_END: cel-eval

    fn list(&mut self, list: &'e ListExpr) -> Outcome<'a> {
        let mut items = Vec::with_capacity(list.elements.len());
        for (at, element) in list.elements.iter().enumerate() {
            match self.eval(element)? {
                Value::Optional(inner) if list.optional_indices.contains(&at) => {
                    items.extend(inner.map(|inner| *inner));
                }
                item => items.push(item),
            }
        }
        Ok(Value::list(items))
    }

    fn map(&mut self, map: &'e MapExpr) -> Outcome<'a> {
        let mut entries = Vec::with_capacity(map.entries.len());
        for entry in &map.entries {
            let EntryExpr::MapEntry(entry) = &entry.expr else { continue };
            let key = self.eval(&entry.key)?;
            match self.eval(&entry.value)? {
                Value::Optional(inner) if entry.optional => entries.extend(inner.map(|inner| (key, *inner))),
                value => entries.push((key, value)),
            }
        }
        Ok(Value::Map(Arc::new(entries)))
    }

    fn literal(&self, literal: &LiteralValue) -> Value<'a> {
        match literal {
            LiteralValue::Boolean(on) => Value::Bool(*on.inner()),
            LiteralValue::Bytes(bytes) => Value::Bytes(bytes.inner().into()),
            LiteralValue::Double(number) => Value::Double(*number.inner()),
            LiteralValue::Int(number) => Value::Int(*number.inner()),
            LiteralValue::Null => Value::Null,
            LiteralValue::String(text) => Value::text(text.inner()),
            LiteralValue::UInt(number) => Value::Uint(*number.inner()),
        }
    }

    fn variable(&self, name: &str) -> Outcome<'a> {
        let found = self.variables.iter().rev().find(|(known, _)| *known == name);
        match found {
            Some((_, value)) => Ok(value.clone()),
            None => functions::type_called(name)
                .map(Value::Type)
                .ok_or_else(|| EvalError::failed(format!("no such attribute(s): {name}"))),
        }
    }

    /// `all`, `exists`, `map`, `filter`: what the parser made of them.
    fn comprehension(&mut self, loops: &'e ComprehensionExpr) -> Outcome<'a> {
        let range = self.eval(&loops.iter_range)?;
        let pairs: Vec<(Value<'a>, Option<Value<'a>>)> = match (range.items(), range.entries()) {
            (Some(items), _) => items.into_iter().map(|item| (item, None)).collect(),
            (_, Some(entries)) => entries.into_iter().map(|(key, value)| (key, Some(value))).collect(),
            _ => return Err(no_overload("comprehension", &[&range])),
        };
        let depth = self.variables.len();
        let mut result = self.eval(&loops.accu_init);
        for (at, (first, second)) in pairs.into_iter().enumerate() {
            self.budget.spend(1)?;
            self.variables.truncate(depth);
            if let Ok(value) = &result {
                self.variables.push((loops.accu_var.as_str(), value.clone()));
            }
            match (&loops.iter_var2, second) {
                (Some(name), Some(value)) => {
                    self.variables.push((loops.iter_var.as_str(), first));
                    self.variables.push((name.as_str(), value));
                }
                (Some(name), None) => {
                    let position = Value::Int(i64::try_from(at).unwrap_or(i64::MAX));
                    self.variables.push((loops.iter_var.as_str(), position));
                    self.variables.push((name.as_str(), first));
                }
                (None, _) => self.variables.push((loops.iter_var.as_str(), first)),
            }
            if result.is_ok() && matches!(self.eval(&loops.loop_cond), Ok(Value::Bool(false))) {
                break;
            }
            let carried = result.clone();
            result = self.step(&loops.loop_step, &loops.accu_var, carried);
            if matches!(result, Err(EvalError::TooCostly)) {
                break;
            }
        }
        self.variables.truncate(depth);
        self.variables.push((loops.accu_var.as_str(), result?));
        let outcome = self.eval(&loops.result);
        self.variables.truncate(depth);
        outcome
    }

    /// One round. An error of an earlier round lives on unless this round decides (`exists` finds one after all).
    fn step(&mut self, step: &'e IdedExpr, accu: &str, carried: Outcome<'a>) -> Outcome<'a> {
        let Err(error) = carried else { return self.eval(step) };
        let Expr::Call(call) = &step.expr else { return Err(error) };
        let decides = match call.func_name.as_str() {
            operators::LOGICAL_OR => true,
            operators::LOGICAL_AND => false,
            _ => return Err(error),
        };
        let other = call.args.iter().find(|arg| !matches!(&arg.expr, Expr::Ident(name) if name == accu));
        match other.map(|other| self.eval(other)) {
            Some(Ok(Value::Bool(found))) if found == decides => Ok(Value::Bool(found)),
            Some(Err(EvalError::TooCostly)) => Err(EvalError::TooCostly),
            _ => Err(error),
        }
    }

    fn call(&mut self, call: &'e CallExpr) -> Outcome<'a> {
        let arg = |at: usize| call.args.get(at).ok_or_else(|| EvalError::failed("too few arguments"));
        match call.func_name.as_str() {
            operators::LOGICAL_AND => return self.either(arg(0)?, arg(1)?, false),
            operators::LOGICAL_OR => return self.either(arg(0)?, arg(1)?, true),
            operators::CONDITIONAL => {
                return match self.eval(arg(0)?)? {
                    Value::Bool(true) => self.eval(arg(1)?),
                    Value::Bool(false) => self.eval(arg(2)?),
                    other => Err(no_overload("_?_:_", &[&other])),
                };
            }
            operators::NOT_STRICTLY_FALSE => {
                return match self.eval(arg(0)?) {
                    Err(EvalError::TooCostly) => Err(EvalError::TooCostly),
                    outcome => Ok(Value::Bool(!matches!(outcome, Ok(Value::Bool(false))))),
                };
            }
            operators::OPT_SELECT | operators::OPT_INDEX => {
                let (target, key) = (self.eval(arg(0)?)?, self.eval(arg(1)?)?);
                return Ok(functions::optional_index(target, &key));
            }
            "bind" if is_namespace(call, "cel") => {
                let Expr::Ident(name) = &arg(0)?.expr else {
                    return Err(EvalError::failed("cel.bind needs a name"));
                };
                let value = self.eval(arg(1)?)?;
                self.variables.push((name.as_str(), value));
                let outcome = self.eval(arg(2)?);
                self.variables.pop();
                return outcome;
            }
            "optMap" | "optFlatMap" => return self.optional_map(call, arg(0)?, arg(1)?),
            _ => {}
        }
        let mut values = Vec::with_capacity(call.args.len() + 1);
        let mut name = call.func_name.clone();
        if let Some(target) = &call.target {
            match namespace(&target.expr).filter(|space| !self.is_variable(space)) {
                // `sets.contains(a, b)`: not a call on a value.
                Some(space) => name = format!("{space}.{name}"),
                None => values.push(self.eval(target)?),
            }
        }
        for argument in &call.args {
            values.push(self.eval(argument)?);
        }
        for value in &values {
            self.budget.walk(value)?;
        }
        functions::call(&name, &values, self.budget)
    }

    fn is_variable(&self, name: &str) -> bool {
        self.variables.iter().any(|(known, _)| *known == name)
    }

    /// `&&` (decided by false) and `||` (decided by true).
    fn either(&mut self, left: &'e IdedExpr, right: &'e IdedExpr, decides: bool) -> Outcome<'a> {
        let name = if decides { "_||_" } else { "_&&_" };
        let first = self.eval(left);
        match &first {
            Ok(Value::Bool(value)) if *value == decides => return first,
            Err(EvalError::TooCostly) => return first,
            _ => {}
        }
        let second = self.eval(right);
        match (first, second) {
            (_, Ok(Value::Bool(value))) if value == decides => Ok(Value::Bool(value)),
            (Ok(Value::Bool(_)), Ok(Value::Bool(value))) => Ok(Value::Bool(value)),
            (_, Err(EvalError::TooCostly)) => Err(EvalError::TooCostly),
            (Err(error), _) | (Ok(_), Err(error)) => Err(error),
            (Ok(a), Ok(b)) => Err(no_overload(name, &[&a, &b])),
        }
    }

    fn optional_map(&mut self, call: &'e CallExpr, name: &'e IdedExpr, body: &'e IdedExpr) -> Outcome<'a> {
        let target = call.target.as_ref().ok_or_else(|| EvalError::failed("optMap needs a target"))?;
        let Expr::Ident(name) = &name.expr else { return Err(EvalError::failed("optMap needs a name")) };
        let Value::Optional(inner) = self.eval(target)? else {
            return Err(EvalError::failed("no such overload: optMap"));
        };
        let Some(inner) = inner else { return Ok(Value::Optional(None)) };
        self.variables.push((name.as_str(), *inner));
        let outcome = self.eval(body);
        self.variables.pop();
        match call.func_name.as_str() {
            "optMap" => outcome.map(|value| Value::Optional(Some(Box::new(value)))),
            _ => outcome,
        }
    }
}

fn namespace(expression: &Expr) -> Option<&str> {
    match expression {
        Expr::Ident(name) if functions::NAMESPACES.contains(&name.as_str()) => Some(name),
        _ => None,
    }
}

fn is_namespace(call: &CallExpr, name: &str) -> bool {
    call.target.as_ref().is_some_and(|target| matches!(&target.expr, Expr::Ident(found) if found == name))
}

/// The error of a call that no function takes.
pub fn no_overload(name: &str, _: &[&Value<'_>]) -> EvalError {
    EvalError::failed(format!("no such overload: {name}"))
}

/// A field by the name that a rule has for it.
fn field<'a>(operand: &Value<'a>, name: &str) -> Outcome<'a> {
    if let Value::Optional(inner) = operand {
        return match inner {
            Some(inner) => Ok(functions::optional_index((**inner).clone(), &Value::text(name))),
            None => Ok(Value::Optional(None)),
        };
    }
    match operand {
        Value::Asked(asked) => asked
            .field(name)
            .map(|found| Value::Asked(Arc::new(found)))
            .ok_or_else(|| EvalError::failed(format!("no such key: {name}"))),
        Value::Data(..) | Value::Map(_) => operand
            .field(&unescaped(name))
            .or_else(|| operand.field(name))
            .ok_or_else(|| EvalError::failed(format!("no such key: {name}"))),
        other => Err(EvalError::failed(format!("no such overload: {}.{name}", other.type_name()))),
    }
}

fn has(operand: &Value<'_>, name: &str) -> Result<bool, EvalError> {
    match operand {
        Value::Optional(inner) => inner.as_ref().map_or(Ok(false), |inner| has(inner, name)),
        Value::Data(..) | Value::Map(_) => {
            Ok(operand.field(&unescaped(name)).or_else(|| operand.field(name)).is_some())
        }
        _ => Err(EvalError::failed("no such overload")),
    }
}
