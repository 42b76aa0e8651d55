//! Checking: what is wrong with an expression before anybody runs it.
//!
//! Each part gets a type. A field that its object doesn't declare, a name that nothing has, a call that no function takes: these are told
//! with their place in the text, and the definition or policy is refused. What is `dyn` is let through.
//!
//! # In Kubernetes
//! `cel-go/checker/checker.go`, `cel-go/common/error.go` for the form of messages.

use cel::common::ast::{
    CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SourceInfo, operators,
};

use super::overloads::{self, Type};
use super::{functions, unescaped};

/// Types an expression.
pub struct Checker<'s, 'e> {
    scope: Vec<(String, Type<'s>)>,
    source: &'e SourceInfo,
    /// What was found, in the order of the text.
    pub errors: Vec<(usize, String)>,
}

impl<'s, 'e> Checker<'s, 'e> {
    /// With the types of the variables.
    pub fn new(scope: Vec<(String, Type<'s>)>, source: &'e SourceInfo) -> Self {
        Checker { scope, source, errors: Vec::new() }
    }

    /// All that was found, as CEL shows it.
    pub fn shown(&mut self) -> Option<String> {
        self.errors.sort();
        let lines: Vec<String> =
            self.errors.iter().map(|(at, why)| shown(&self.source.source, *at, why)).collect();
        (!lines.is_empty()).then(|| lines.join("\n"))
    }

    fn start(&self, expression: &IdedExpr) -> usize {
        self.source.offset_for(expression.id).map_or(0, |(start, _)| start as usize)
    }

    fn report(&mut self, at: usize, why: impl Into<String>) -> Type<'s> {
        self.errors.push((at, why.into()));
        Type::Dyn
    }

    /// The type of an expression.
    pub fn check(&mut self, expression: &IdedExpr) -> Type<'s> {
        match &expression.expr {
            Expr::Literal(literal) => Type::Plain(match literal {
                LiteralValue::Boolean(_) => "bool",
                LiteralValue::Bytes(_) => "bytes",
                LiteralValue::Double(_) => "double",
                LiteralValue::Int(_) => "int",
                LiteralValue::Null => "null_type",
                LiteralValue::String(_) => "string",
                LiteralValue::UInt(_) => "uint",
            }),
            Expr::Ident(name) => {
                let known =
                    self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, found)| found.clone());
                match known {
                    Some(found) => found,
                    None if functions::type_called(name).is_some() => Type::Plain("type"),
                    None => {
                        let at = self.start(expression);
                        self.report(at, format!("undeclared reference to '{name}' (in container '')"))
                    }
                }
            }
            Expr::Select(select) => {
                let operand = self.check(&select.operand);
                let found = operand.field(&unescaped(&select.field)).or_else(|| operand.field(&select.field));
                let at = self.dot(expression, &select.operand, &select.field);
                match (found, &operand) {
                    (Some(_), _) if select.test => Type::Plain("bool"),
                    (Some(found), _) => found,
                    (None, Type::Object(_) | Type::Metadata) => {
                        self.report(at, format!("undefined field '{}'", select.field))
                    }
                    (None, other) => {
                        self.report(at, format!("type '{other}' does not support field selection"))
                    }
                }
            }
            Expr::List(list) => {
                let items: Vec<Type<'s>> = list.elements.iter().map(|element| self.check(element)).collect();
                Type::List(Box::new(common(items)))
            }
            Expr::Map(map) => {
                let (mut keys, mut values) = (Vec::new(), Vec::new());
                for entry in &map.entries {
                    if let EntryExpr::MapEntry(entry) = &entry.expr {
                        keys.push(self.check(&entry.key));
                        values.push(self.check(&entry.value));
                    }
                }
                Type::Map(Box::new(common(keys)), Box::new(common(values)))
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Call(call) => self.call(expression, call),
            Expr::Struct(_) | Expr::Unspecified => {
                let at = self.start(expression);
                self.report(at, "unsupported expression")
            }
        }
    }

    /// Where a selection's dot is.
    fn dot(&self, expression: &IdedExpr, operand: &IdedExpr, field: &str) -> usize {
        let text = &self.source.source;
        let (start, end) = match self.source.offset_for(operand.id) {
            Some((_, stop)) => (stop as usize, self.start(expression)),
            None => (0, self.start(expression)),
        };
        let from = start.max(end.min(text.len())).min(text.len());
        let found = |from: usize| {
            text.get(from..).and_then(|rest| rest.find(&format!(".{field}"))).map(|at| from + at)
        };
        found(start.min(text.len())).or_else(|| found(0)).unwrap_or(from)
    }

    fn comprehension(&mut self, loops: &ComprehensionExpr) -> Type<'s> {
        let range = self.check(&loops.iter_range);
        let (first, second) = match &range {
            Type::List(item) => ((**item).clone(), Type::Dyn),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Object(_) | Type::Metadata => (Type::Plain("string"), Type::Dyn),
            Type::Dyn => (Type::Dyn, Type::Dyn),
            other => {
                let at = self.start(&loops.iter_range);
                let why = format!(
                    "expression of type '{other}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                (self.report(at, why), Type::Dyn)
            }
        };
        let depth = self.scope.len();
        let accumulated = self.check(&loops.accu_init);
        self.scope.push((loops.accu_var.clone(), accumulated.clone()));
        match &loops.iter_var2 {
            Some(name) => {
                let (first, second) = match range {
                    Type::List(_) => (Type::Plain("int"), first),
                    _ => (first, second),
                };
                self.scope.push((loops.iter_var.clone(), first));
                self.scope.push((name.clone(), second));
            }
            None => self.scope.push((loops.iter_var.clone(), first)),
        }
        self.check(&loops.loop_cond);
        let step = self.check(&loops.loop_step);
        self.scope.truncate(depth);
        // What `map` collects is known after one round of it.
        let collected = match (&accumulated, step) {
            (Type::List(_), step @ Type::List(_)) => step,
            _ => accumulated,
        };
        self.scope.push((loops.accu_var.clone(), collected));
        let result = self.check(&loops.result);
        self.scope.truncate(depth);
        result
    }

    fn call(&mut self, expression: &IdedExpr, call: &CallExpr) -> Type<'s> {
        if let Some(found) = self.macro_call(call) {
            return found;
        }
        let mut name = call.func_name.clone();
        let mut args = Vec::with_capacity(call.args.len() + 1);
        let mut is_member = false;
        if let Some(target) = &call.target {
            let space = match &target.expr {
                Expr::Ident(space) if functions::NAMESPACES.contains(&space.as_str()) => Some(space),
                _ => None,
            };
            match space.filter(|space| !self.scope.iter().any(|(known, _)| known == *space)) {
                Some(space) => name = format!("{space}.{name}"),
                None => {
                    is_member = true;
                    args.push(self.check(target));
                }
            }
        }
        for argument in &call.args {
            let found = self.check(argument);
            args.push(found);
        }
        if let Some(found) = overloads::result(&name, is_member, &args) {
            return found;
        }
        let at = self.operator_position(expression, call);
        if !overloads::is_function(&name) {
            return self.report(at, format!("undeclared reference to '{name}' (in container '')"));
        }
        let shown: Vec<String> = args.iter().map(ToString::to_string).collect();
        let signature = match (is_member, shown.split_first()) {
            (true, Some((target, rest))) => format!("{target}.({})", rest.join(", ")),
            _ => format!("({})", shown.join(", ")),
        };
        self.report(at, format!("found no matching overload for '{name}' applied to '{signature}'"))
    }

    /// Calls whose arguments are names or have their own rules.
    fn macro_call(&mut self, call: &CallExpr) -> Option<Type<'s>> {
        match (call.func_name.as_str(), call.args.as_slice()) {
            ("bind", [name, value, body]) if call.target.is_some() => {
                let Expr::Ident(name) = &name.expr else { return None };
                let value = self.check(value);
                self.scope.push((name.clone(), value));
                let found = self.check(body);
                self.scope.pop();
                Some(found)
            }
            ("optMap" | "optFlatMap", [name, body]) => {
                let Expr::Ident(name) = &name.expr else { return None };
                let inner = match self.check(call.target.as_ref()?) {
                    Type::Optional(inner) => *inner,
                    _ => Type::Dyn,
                };
                self.scope.push((name.clone(), inner));
                let found = self.check(body);
                self.scope.pop();
                Some(if call.func_name == "optMap" { Type::Optional(Box::new(found)) } else { found })
            }
            (operators::OPT_SELECT | operators::OPT_INDEX, [target, key]) => {
                let target = self.check(target);
                let found = match (&key.expr, &target) {
                    (Expr::Literal(LiteralValue::String(name)), target) => target.field(name.inner()),
                    (_, Type::List(item)) => Some((**item).clone()),
                    (_, Type::Map(_, value)) => Some((**value).clone()),
                    _ => None,
                };
                Some(match found {
                    Some(found @ Type::Optional(_)) => found,
                    found => Type::Optional(Box::new(found.unwrap_or(Type::Dyn))),
                })
            }
            (operators::INDEX, [target, key]) => {
                // `self['a b']` of an object is a field.
                let target = self.check(target);
                if let Type::Optional(inner) = target {
                    self.check(key);
                    let found = match *inner {
                        Type::List(item) => *item,
                        Type::Map(_, value) => *value,
                        _ => Type::Dyn,
                    };
                    return Some(Type::Optional(Box::new(found)));
                }
                let Type::Object(_) = target else {
                    let key = self.check(key);
                    return overloads::result(operators::INDEX, false, &[target, key]);
                };
                self.check(key);
                Some(Type::Dyn)
            }
            _ => None,
        }
    }

    /// Where CEL says that a call is: at its operator, or at its bracket.
    fn operator_position(&self, expression: &IdedExpr, call: &CallExpr) -> usize {
        let start = self.start(expression);
        let text = &self.source.source;
        let symbol = call.func_name.trim_matches('_').trim_start_matches('@');
        let is_operator = call.func_name.contains('_') || call.func_name.starts_with('@');
        let after = match call.args.first().filter(|_| is_operator && call.args.len() == 2) {
            Some(left) => self.source.offset_for(left.id).map_or(start, |(_, stop)| stop as usize),
            None => call.target.as_ref().map_or(start, |target| {
                self.source.offset_for(target.id).map_or(start, |(_, stop)| stop as usize)
            }),
        };
        let wanted = if is_operator { symbol } else { "(" };
        let found = text.get(after.min(text.len())..).and_then(|rest| rest.find(wanted));
        found.map_or(start, |at| after + at)
    }
}

/// What several types have in common.
fn common(types: Vec<Type<'_>>) -> Type<'_> {
    let mut types = types.into_iter();
    let Some(first) = types.next() else { return Type::Dyn };
    let name = first.to_string();
    match types.all(|other| other.to_string() == name) {
        true => first,
        false => Type::Dyn,
    }
}

/// A finding with its line and a mark below.
pub fn shown(source: &str, at: usize, why: &str) -> String {
    let at = at.min(source.len());
    let before = source.get(..at).unwrap_or("");
    let line = before.matches('\n').count();
    let column = before.rsplit('\n').next().unwrap_or("").chars().count();
    let text = source.lines().nth(line).unwrap_or("");
    format!("ERROR: <input>:{}:{}: {why}\n | {text}\n | {}^", line + 1, column + 1, ".".repeat(column))
}
