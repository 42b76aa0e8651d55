//! Functions of texts: parts, places, cases, patterns. Places count characters, not bytes.
//!
//! # In Kubernetes
//! `cel-go/ext/strings.go`. Left out: `format`, `strings.quote`.

use super::eval::{Budget, EvalError, Outcome};
use super::value::Value;
use crate::validation::go_regex;

/// Calls one of them; `None` if there is none for these arguments.
pub fn call<'a>(name: &str, text: &str, args: &[Value<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let position = |at: i64| {
        usize::try_from(at)
            .ok()
            .filter(|at| *at <= text.chars().count())
            .ok_or_else(|| EvalError::failed(format!("index out of range: {at}")))
    };
    let slice =
        |from: usize, to: usize| Value::text(text.chars().skip(from).take(to - from).collect::<String>());
    let count = |bytes: usize| i64::try_from(text[..bytes].chars().count()).unwrap_or(i64::MAX);
    Some(match (name, args) {
        ("contains", [Value::Text(part)]) => Ok(Value::Bool(text.contains(part.as_ref()))),
        ("startsWith", [Value::Text(part)]) => Ok(Value::Bool(text.starts_with(part.as_ref()))),
        ("endsWith", [Value::Text(part)]) => Ok(Value::Bool(text.ends_with(part.as_ref()))),
        ("matches", [Value::Text(pattern)]) => matches(text, pattern, budget).map(Value::Bool),
        ("lowerAscii", []) => Ok(Value::text(text.to_ascii_lowercase())),
        ("upperAscii", []) => Ok(Value::text(text.to_ascii_uppercase())),
        ("trim", []) => Ok(Value::text(text.trim())),
        ("reverse", []) => Ok(Value::text(text.chars().rev().collect::<String>())),
        ("charAt", [Value::Int(at)]) => position(*at).map(|at| slice(at, at + 1)),
        ("substring", [Value::Int(from)]) => position(*from).map(|from| slice(from, text.chars().count())),
        ("substring", [Value::Int(from), Value::Int(to)]) => match (position(*from), position(*to)) {
            (Ok(from), Ok(to)) if from <= to => Ok(slice(from, to)),
            (Err(error), _) | (_, Err(error)) => Err(error),
            _ => Err(EvalError::failed(format!("invalid substring range. start: {from}, end: {to}"))),
        },
        ("indexOf", [Value::Text(part)]) => Ok(Value::Int(text.find(part.as_ref()).map_or(-1, count))),
        ("indexOf", [Value::Text(part), Value::Int(from)]) => position(*from).map(|from| {
            let start = text.char_indices().nth(from).map_or(text.len(), |(at, _)| at);
            Value::Int(text[start..].find(part.as_ref()).map_or(-1, |at| count(start + at)))
        }),
        ("lastIndexOf", [Value::Text(part)]) => Ok(Value::Int(text.rfind(part.as_ref()).map_or(-1, count))),
        ("replace", [Value::Text(old), Value::Text(new)]) => {
            budget.spend(text.len() as u64 / 10).map(|()| Value::text(text.replace(old.as_ref(), new)))
        }
        ("replace", [Value::Text(old), Value::Text(new), Value::Int(times)]) => {
            let times = usize::try_from(*times).unwrap_or(usize::MAX);
            Ok(Value::text(text.replacen(old.as_ref(), new, times)))
        }
        ("split", [Value::Text(by)]) => Ok(split(text, by, -1)),
        ("split", [Value::Text(by), Value::Int(times)]) => Ok(split(text, by, *times)),
        _ => return None,
    })
}

fn split<'a>(text: &str, by: &str, times: i64) -> Value<'a> {
    let parts: Vec<String> = match (times, by) {
        (0, _) => Vec::new(),
        (_, "") => text.chars().map(String::from).collect(),
        (times, by) if times > 0 => {
            text.splitn(usize::try_from(times).unwrap_or(usize::MAX), by).map(str::to_owned).collect()
        }
        (_, by) => text.split(by).map(str::to_owned).collect(),
    };
    Value::list(parts.into_iter().map(Value::text).collect())
}

/// Whether a text matches a pattern somewhere. A pattern costs by its length, as the text does.
///
/// # Errors
/// The pattern is none, or the budget is used up.
pub fn matches(text: &str, pattern: &str, budget: &mut Budget) -> Result<bool, EvalError> {
    budget.spend((text.len() as u64 / 10 + 1) * (pattern.len() as u64 / 4 + 1))?;
    go_regex::compile(pattern).map(|pattern| pattern.is_match(text)).map_err(EvalError::failed)
}
