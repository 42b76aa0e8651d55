//! CEL: small expressions that users write, in definitions and policies, and that the API server runs on what others send.
//!
//! *Step 4 of an object's journey.* Before: its form is right. After: what a form can't say is right, too: `self.min <= self.max`.
//!
//! An expression has a life in two parts. When it is written it is [`compile`]d: parsed, and typed against what its variables are, so
//! that whoever wrote it hears of his mistakes. When an object comes it is evaluated, with a budget ([`eval::Budget`]) that no
//! object can stretch.
//!
//! The parser is that of the `cel` crate. Types and evaluation are ours, because Kubernetes' are its own: values come out of JSON by a
//! schema, functions for quantities, URLs and addresses are added, costs are counted, and every message is known to somebody's tests.
//!
//! Who uses it says what there is: a rule of a definition has `self` and `oldSelf` ([`crate::custom_resources::rules`]); a policy has
//! `object`, `oldObject`, `request`, `params` and `variables`, all of them [`types::Type::Dyn`] or typed, as it likes.
//!
//! # Invariants
//! 1. A program never changes, and may be evaluated by many at a time.
//! 2. An evaluation ends, by the size of what it looks at.
//!
//! # In Kubernetes
//! `apiserver/pkg/cel`, `apiextensions-apiserver/pkg/apiserver/schema/cel`. Left out: the estimate of what a rule may cost at most, by
//! which Kubernetes refuses definitions (here the budget ends the rule); two-variable comprehensions.

pub mod authorizer; // what an expression may ask about rights
pub mod check; // is it right as it is written
pub mod eval; // what is its value
pub mod functions; // operators and functions
pub mod kubernetes; // the functions that Kubernetes adds
#[cfg(test)]
mod tests;
pub mod texts; // functions of texts
pub mod overloads; // what may stand where
pub mod value; // objects as values

use cel::common::ast::{EntryExpr, Expr, IdedExpr, LiteralValue};
use cel::parser::Parser;

use check::Checker;
use eval::{Budget, Evaluator, Outcome};
use overloads::Type;
use value::Value;

/// What one evaluation may cost.
pub const PER_CALL_LIMIT: u64 = 1_000_000;
/// What all rules of one object may cost together.
pub const RUNTIME_COST_BUDGET: u64 = 10_000_000;
/// Longest expression.
const MAX_EXPRESSION_BYTES: usize = 16 * 1024;
/// Most brackets within each other.
const MAX_BRACKETS: usize = 48;
/// Deepest nesting that the parser takes.
const MAX_DEPTH: u16 = 96;
/// Most operations within each other: each takes a piece of a worker's stack when it is evaluated.
const MAX_EXPRESSION_DEPTH: usize = 128;
/// What the parser may need for the longest expression; only what is used is ever taken.
const PARSER_STACK_BYTES: usize = 512 * 1024 * 1024;

/// Words that a field can't be called by in an expression; `__if__` stands for `if`.
const RESERVED: [&str; 20] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
];

/// A compiled expression.
pub struct Program {
    source: String,
    expression: IdedExpr,
}

impl std::fmt::Debug for Program {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Program").field(&self.source).finish()
    }
}

// ANCHOR: cel-compile
/// Parses an expression and checks it against the types of its variables. `wanted` is what its value must be.
///
/// # Errors
/// What is wrong, as CEL shows it.
pub fn compile<'s>(
    source: &str,
    variables: Vec<(String, Type<'s>)>,
    wanted: &'static str,
) -> Result<(Program, Type<'s>), String> {
    if source.len() > MAX_EXPRESSION_BYTES {
        return Err(format!("expression is longer than {MAX_EXPRESSION_BYTES} bytes"));
    }
    if bracket_depth(source) > MAX_BRACKETS {
        return Err(format!("expression is nested more than {MAX_BRACKETS} deep"));
    }
    // The parser walks down as deep as its text goes; a worker's stack isn't made for what somebody may write.
    std::thread::scope(|scope| {
        let work = || parse_and_check(source, variables, wanted);
        let thread = std::thread::Builder::new().stack_size(PARSER_STACK_BYTES).spawn_scoped(scope, work);
        let joined = thread.map_err(|error| error.to_string())?.join();
        joined.unwrap_or_else(|_| Err("the expression could not be read".to_owned()))
    })
}
// ANCHOR_END: cel-compile

fn parse_and_check<'s>(
    source: &str,
    variables: Vec<(String, Type<'s>)>,
    wanted: &'static str,
) -> Result<(Program, Type<'s>), String> {
    let parser = Parser::new().max_recursion_depth(MAX_DEPTH).enable_optional_syntax(true);
    let (expression, info) = parser.parse_with_source_info(source).map_err(|errors| {
        let first = errors.errors.first();
        let (line, column) = first.map_or((1, 1), |error| error.pos);
        let lines = usize::try_from(line - 1).unwrap_or(0);
        let offset: usize = source.split_inclusive('\n').take(lines).map(str::len).sum();
        let at = offset + usize::try_from(column - 1).unwrap_or(0);
        let why = first.map_or("", |error| error.msg.as_str()).trim_start_matches("Syntax error: ");
        check::shown(source, at, &format!("Syntax error: {why}"))
    })?;
    if depth(&expression) > MAX_EXPRESSION_DEPTH {
        return Err(format!("expression is more than {MAX_EXPRESSION_DEPTH} operations deep"));
    }
    let mut checker = Checker::new(variables, &info);
    let found = checker.check(&expression);
    if let Some(errors) = checker.shown() {
        return Err(errors);
    }
    if !matches!(&found, Type::Dyn) && !wanted.is_empty() && found.to_string() != wanted {
        return Err(format!("must evaluate to {wanted}"));
    }
    Ok((Program { source: source.to_owned(), expression }, found))
}

/// How deep brackets are nested, those in texts aside.
fn bracket_depth(source: &str) -> usize {
    let (mut depth, mut deepest, mut quote) = (0_usize, 0, None);
    let mut letters = source.chars();
    while let Some(letter) = letters.next() {
        match (quote, letter) {
            (Some(_), '\\') => drop(letters.next()),
            (Some(open), letter) if letter == open => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(letter),
            (None, '(' | '[' | '{') => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            (None, ')' | ']' | '}') => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

/// The parts of an expression.
fn parts(expression: &IdedExpr) -> Vec<&IdedExpr> {
    match &expression.expr {
        Expr::Select(select) => vec![&*select.operand],
        Expr::Call(call) => call.target.as_deref().into_iter().chain(&call.args).collect(),
        Expr::List(list) => list.elements.iter().collect(),
        Expr::Map(map) => map
            .entries
            .iter()
            .flat_map(|entry| match &entry.expr {
                EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
                EntryExpr::StructField(field) => vec![&field.value],
            })
            .collect(),
        Expr::Comprehension(loops) => {
            vec![&loops.iter_range, &loops.accu_init, &loops.loop_cond, &loops.loop_step, &loops.result]
        }
        _ => Vec::new(),
    }
}

/// How many operations are within each other. It doesn't call itself: the answer may be "too many".
fn depth(expression: &IdedExpr) -> usize {
    let (mut open, mut deepest) = (vec![(expression, 1)], 0);
    while let Some((part, depth)) = open.pop() {
        deepest = deepest.max(depth);
        open.extend(parts(part).into_iter().map(|below| (below, depth + 1)));
    }
    deepest
}

impl Program {
    /// The expression as it was written.
    pub fn source(&self) -> &str {
        &self.source
    }

    /// Whether a name occurs in the expression.
    pub fn mentions(&self, name: &str) -> bool {
        let mut open = vec![&self.expression];
        while let Some(part) = open.pop() {
            if matches!(&part.expr, Expr::Ident(found) if found == name) {
                return true;
            }
            open.extend(parts(part));
        }
        false
    }

    /// The fields of a variable that the expression looks at: `a` and `b` of `v.a > v.?b`.
    pub fn fields_of(&self, variable: &str) -> Vec<String> {
        let is_variable = |part: &IdedExpr| matches!(&part.expr, Expr::Ident(found) if found == variable);
        let (mut open, mut found) = (vec![&self.expression], Vec::new());
        while let Some(part) = open.pop() {
            match &part.expr {
                Expr::Select(select) if is_variable(&select.operand) => found.push(unescaped(&select.field)),
                Expr::Call(call) => {
                    if let [target, key] = call.args.as_slice()
                        && is_variable(target)
                        && let Expr::Literal(LiteralValue::String(name)) = &key.expr
                    {
                        found.push(name.inner().to_owned());
                    }
                }
                _ => {}
            }
            open.extend(parts(part));
        }
        found
    }

    /// The value for these variables.
    ///
    /// # Errors
    /// What CEL calls an error, or the budget is used up.
    pub fn evaluate<'a, 'e>(
        &'e self,
        variables: Vec<(&'e str, Value<'a>)>,
        budget: &'e mut Budget,
    ) -> Outcome<'a> {
        Evaluator::new(variables, budget).eval(&self.expression)
    }
}

/// The field that a name in an expression stands for: `__dash__` is a dash, `__if__` is `if`.
pub fn unescaped(name: &str) -> String {
    if !name.contains("__") {
        return name.to_owned();
    }
    let inner = name.strip_prefix("__").and_then(|rest| rest.strip_suffix("__"));
    if let Some(word) = inner.filter(|word| RESERVED.contains(word)) {
        return word.to_owned();
    }
    name.replace("__underscores__", "\u{0}")
        .replace("__dot__", ".")
        .replace("__dash__", "-")
        .replace("__slash__", "/")
        .replace('\u{0}', "__")
}
