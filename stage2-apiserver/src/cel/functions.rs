//! Functions of CEL: operators, sizes, texts, conversions, times.
//!
//! A function is found by its name and the types of what it is given; what no function takes is `no such overload`, as in CEL. The
//! functions that Kubernetes adds are in [`super::kubernetes`].
//!
//! # In Kubernetes
//! `cel-go/common/stdlib`, `cel-go/ext/strings.go`. Left out: `format` and `strings.quote`.

use std::cmp::Ordering;
use std::sync::Arc;

use cel::common::ast::operators as op;
use jiff::tz::TimeZone;
use jiff::{SignedDuration, Timestamp};

use super::eval::{Budget, EvalError, Outcome, no_overload};
use super::value::{Value, parse_duration};
use super::{authorizer, kubernetes, texts};

/// Names before a dot that are no values.
pub const NAMESPACES: [&str; 6] = ["cel", "sets", "math", "base64", "optional", "ip"];

/// The type that a name stands for.
pub fn type_called(name: &str) -> Option<&'static str> {
    const TYPES: [&str; 11] = [
        "null_type",
        "bool",
        "int",
        "uint",
        "double",
        "string",
        "bytes",
        "list",
        "map",
        "type",
        "optional_type",
    ];
    TYPES.into_iter().find(|known| *known == name)
}

/// Calls a function.
///
/// # Errors
/// No function takes these values, it fails, or the budget is used up.
pub fn call<'a>(name: &str, args: &[Value<'a>], budget: &mut Budget) -> Outcome<'a> {
    if let Some(outcome) = operator(name, args, budget) {
        return outcome;
    }
    let found = match args {
        [Value::Text(text), rest @ ..] => texts::call(name, text, rest, budget),
        [Value::Timestamp(_) | Value::Duration(_), ..] => time_function(name, args),
        [Value::Asked(asked), rest @ ..] => authorizer::call(name, asked, rest, budget),
        _ => None,
    };
    found
        .or_else(|| conversion(name, args))
        .or_else(|| optional(name, args))
        .or_else(|| kubernetes::call(name, args, budget))
        .unwrap_or_else(|| Err(no_overload(name, &args.iter().collect::<Vec<_>>())))
}

fn operator<'a>(name: &str, args: &[Value<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let outcome = match (name, args) {
        (op::EQUALS, [a, b]) => budget.compare(a, b).map(|()| Value::Bool(a.equals(b))),
        (op::NOT_EQUALS, [a, b]) => budget.compare(a, b).map(|()| Value::Bool(!a.equals(b))),
        (op::LESS | op::LESS_EQUALS | op::GREATER | op::GREATER_EQUALS, [a, b]) => {
            let Some(order) = a.compare(b) else { return Some(Err(no_overload(name, &[a, b]))) };
            Ok(Value::Bool(match name {
                op::LESS => order == Ordering::Less,
                op::LESS_EQUALS => order != Ordering::Greater,
                op::GREATER => order == Ordering::Greater,
                _ => order != Ordering::Less,
            }))
        }
        (op::LOGICAL_NOT, [Value::Bool(on)]) => Ok(Value::Bool(!on)),
        (op::NEGATE, [Value::Int(n)]) => n.checked_neg().map(Value::Int).ok_or_else(overflow),
        (op::NEGATE, [Value::Double(n)]) => Ok(Value::Double(-n)),
        (op::IN, [item, Value::Optional(_)]) => Err(no_overload(name, &[item])),
        (op::IN, [item, list]) => contains(item, list, budget),
        (op::INDEX, [maybe @ Value::Optional(_), key]) => Ok(optional_index(maybe.clone(), key)),
        (op::INDEX, [list, key]) => index(list, key),
        (op::ADD | op::SUBSTRACT | op::MULTIPLY | op::DIVIDE | op::MODULO, [a, b]) => {
            if let Err(error) = budget.walk(a).and_then(|()| budget.walk(b)) {
                return Some(Err(error));
            }
            arithmetic(name, a, b)
        }
        ("size", [value]) => match value.size() {
            Some(size) => Ok(Value::Int(i64::try_from(size).unwrap_or(i64::MAX))),
            None => Err(no_overload("size", &[value])),
        },
        _ => return None,
    };
    Some(outcome)
}

fn overflow() -> EvalError {
    EvalError::failed("integer overflow")
}

fn contains<'a>(item: &Value<'a>, container: &Value<'a>, budget: &mut Budget) -> Outcome<'a> {
    budget.spend(container.size().unwrap_or(0) as u64)?;
    if let (Value::Text(name), true) = (item, container.entries().is_some()) {
        return Ok(Value::Bool(container.field(name).is_some()));
    }
    match (container.items(), container.entries()) {
        (Some(items), _) => found_in(items.iter(), item, budget),
        (_, Some(entries)) => found_in(entries.iter().map(|(key, _)| key), item, budget),
        _ => Err(no_overload("@in", &[item, container])),
    }
}

fn found_in<'i, 'a: 'i>(
    items: impl Iterator<Item = &'i Value<'a>>,
    item: &Value<'a>,
    budget: &mut Budget,
) -> Outcome<'a> {
    for other in items {
        budget.compare(other, item)?;
        if other.equals(item) {
            return Ok(Value::Bool(true));
        }
    }
    Ok(Value::Bool(false))
}

/// `list[?1]`: what is there, or nothing.
pub fn optional_index<'a>(target: Value<'a>, key: &Value<'a>) -> Value<'a> {
    let target = match target {
        Value::Optional(None) => return Value::Optional(None),
        Value::Optional(Some(inner)) => *inner,
        other => other,
    };
    Value::Optional(index(&target, key).ok().map(Box::new))
}

/// `list[1]` and `map["a"]`.
pub fn index<'a>(container: &Value<'a>, key: &Value<'a>) -> Outcome<'a> {
    if let Some(items) = container.items() {
        let at = match key {
            Value::Int(at) => *at,
            Value::Uint(at) => i64::try_from(*at).unwrap_or(i64::MAX),
            _ => return Err(no_overload("_[_]", &[container, key])),
        };
        let found = usize::try_from(at).ok().and_then(|at| items.into_iter().nth(at));
        return found.ok_or_else(|| EvalError::failed(format!("index out of bounds: {at}")));
    }
    let missing = || EvalError::failed(format!("no such key: {}", to_text(key).unwrap_or_default()));
    if let (Value::Text(name), Value::Data(..)) = (key, container) {
        return container.field(name).ok_or_else(missing);
    }
    let Some(entries) = container.entries() else { return Err(no_overload("_[_]", &[container, key])) };
    entries.into_iter().find(|(known, _)| known.equals(key)).map(|(_, value)| value).ok_or_else(missing)
}

fn arithmetic<'a>(name: &str, a: &Value<'a>, b: &Value<'a>) -> Outcome<'a> {
    let divided =
        || EvalError::failed(if name == op::MODULO { "modulus by zero" } else { "division by zero" });
    match (a, b) {
        (Value::Int(a), Value::Int(b)) => {
            if *b == 0 && matches!(name, op::DIVIDE | op::MODULO) {
                return Err(divided());
            }
            let value = match name {
                op::ADD => a.checked_add(*b),
                op::SUBSTRACT => a.checked_sub(*b),
                op::MULTIPLY => a.checked_mul(*b),
                op::DIVIDE => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            value.map(Value::Int).ok_or_else(overflow)
        }
        (Value::Uint(a), Value::Uint(b)) => {
            if *b == 0 && matches!(name, op::DIVIDE | op::MODULO) {
                return Err(divided());
            }
            let value = match name {
                op::ADD => a.checked_add(*b),
                op::SUBSTRACT => a.checked_sub(*b),
                op::MULTIPLY => a.checked_mul(*b),
                op::DIVIDE => a.checked_div(*b),
                _ => a.checked_rem(*b),
            };
            value.map(Value::Uint).ok_or_else(|| EvalError::failed("unsigned integer overflow"))
        }
        (Value::Double(a), Value::Double(b)) if name != op::MODULO => Ok(Value::Double(match name {
            op::ADD => a + b,
            op::SUBSTRACT => a - b,
            op::MULTIPLY => a * b,
            _ => a / b,
        })),
        (Value::Text(a), Value::Text(b)) if name == op::ADD => Ok(Value::text(format!("{a}{b}"))),
        (Value::Bytes(a), Value::Bytes(b)) if name == op::ADD => {
            Ok(Value::Bytes([&a[..], &b[..]].concat().into()))
        }
        (Value::Timestamp(at), Value::Duration(by)) | (Value::Duration(by), Value::Timestamp(at))
            if name == op::ADD =>
        {
            at.checked_add(*by).map(Value::Timestamp).map_err(|_| EvalError::failed("timestamp overflow"))
        }
        (Value::Timestamp(at), Value::Duration(by)) if name == op::SUBSTRACT => {
            at.checked_sub(*by).map(Value::Timestamp).map_err(|_| EvalError::failed("timestamp overflow"))
        }
        (Value::Timestamp(a), Value::Timestamp(b)) if name == op::SUBSTRACT => {
            Ok(Value::Duration(a.duration_since(*b)))
        }
        (Value::Duration(a), Value::Duration(b)) if matches!(name, op::ADD | op::SUBSTRACT) => {
            let value = if name == op::ADD { a.checked_add(*b) } else { a.checked_sub(*b) };
            value.map(Value::Duration).ok_or_else(|| EvalError::failed("duration overflow"))
        }
        _ => match (name, a.items(), b.items()) {
            (op::ADD, Some(mut items), Some(more)) => {
                items.extend(more);
                Ok(Value::list(items))
            }
            _ => Err(no_overload(name, &[a, b])),
        },
    }
}

fn time_function<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    if let [Value::Duration(duration)] = args {
        let value = match name {
            "getHours" => duration.as_secs() / 3600,
            "getMinutes" => duration.as_secs() / 60,
            "getSeconds" => duration.as_secs(),
            "getMilliseconds" => i64::from(duration.subsec_millis()),
            _ => return None,
        };
        return Some(Ok(Value::Int(value)));
    }
    let (at, zone) = match args {
        [Value::Timestamp(at)] => (at, TimeZone::UTC),
        [Value::Timestamp(at), Value::Text(zone)] => match TimeZone::get(zone) {
            Ok(found) => (at, found),
            Err(_) => return Some(Err(EvalError::failed(format!("unknown time zone {zone}")))),
        },
        _ => return None,
    };
    let local = at.to_zoned(zone);
    let value = match name {
        "getFullYear" => i64::from(local.year()),
        "getMonth" => i64::from(local.month()) - 1,
        "getDayOfYear" => i64::from(local.day_of_year()) - 1,
        "getDayOfMonth" => i64::from(local.day()) - 1,
        "getDate" => i64::from(local.day()),
        "getDayOfWeek" => i64::from(local.weekday().to_sunday_zero_offset()),
        "getHours" => i64::from(local.hour()),
        "getMinutes" => i64::from(local.minute()),
        "getSeconds" => i64::from(local.second()),
        "getMilliseconds" => i64::from(local.millisecond()),
        _ => return None,
    };
    Some(Ok(Value::Int(value)))
}

/// A value as `string()` writes it.
pub fn to_text(value: &Value<'_>) -> Option<String> {
    Some(match value {
        Value::Text(text) => text.to_string(),
        Value::Bool(on) => on.to_string(),
        Value::Int(n) => n.to_string(),
        Value::Uint(n) => n.to_string(),
        Value::Double(n) => n.to_string(),
        Value::Bytes(bytes) => String::from_utf8(bytes.to_vec()).ok()?,
        Value::Timestamp(at) => at.to_string(),
        Value::Duration(duration) => format!("{}s", duration.as_secs_f64()),
        Value::Quantity(quantity) => quantity.to_string(),
        Value::Ip(ip) => ip.to_string(),
        Value::Cidr(ip, bits) => format!("{ip}/{bits}"),
        Value::Url(url) => format!("{}://{}{}", url.scheme, url.host, url.path),
        Value::Type(name) => (*name).to_owned(),
        _ => return None,
    })
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "ranges are checked, or saturate as CEL says"
)]
fn conversion<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let [value] = args else { return None };
    let bad = |wanted: &str| {
        EvalError::failed(format!("type conversion error from '{}' to '{wanted}'", value.type_name()))
    };
    Some(match (name, value) {
        ("dyn", value) => Ok(value.clone()),
        ("type", value) => Ok(Value::Type(value.type_name())),
        ("string", value) => to_text(value).map(Value::text).ok_or_else(|| bad("string")),
        ("bool", Value::Bool(on)) => Ok(Value::Bool(*on)),
        ("bool", Value::Text(text)) => match text.as_ref() {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(bad("bool")),
        },
        ("int", Value::Int(n)) => Ok(Value::Int(*n)),
        ("int", Value::Uint(n)) => i64::try_from(*n).map(Value::Int).map_err(|_| overflow()),
        ("int", Value::Double(n)) if n.abs() < 9.2e18 => Ok(Value::Int(*n as i64)),
        ("int", Value::Double(_)) => Err(overflow()),
        ("int", Value::Text(text)) => text.parse().map(Value::Int).map_err(|_| bad("int")),
        ("int", Value::Timestamp(at)) => Ok(Value::Int(at.as_second())),
        ("uint", Value::Uint(n)) => Ok(Value::Uint(*n)),
        ("uint", Value::Int(n)) => u64::try_from(*n).map(Value::Uint).map_err(|_| overflow()),
        ("uint", Value::Double(n)) if (0.0..1.8e19).contains(n) => Ok(Value::Uint(*n as u64)),
        ("uint", Value::Double(_)) => Err(overflow()),
        ("uint", Value::Text(text)) => text.parse().map(Value::Uint).map_err(|_| bad("uint")),
        ("double", Value::Text(text)) => text.parse().map(Value::Double).map_err(|_| bad("double")),
        ("double", value) => value.as_double().map(Value::Double).ok_or_else(|| bad("double")),
        ("bytes", Value::Text(text)) => Ok(Value::Bytes(text.as_bytes().into())),
        ("bytes", Value::Bytes(bytes)) => Ok(Value::Bytes(bytes.clone())),
        ("duration", Value::Duration(duration)) => Ok(Value::Duration(*duration)),
        ("duration", Value::Text(text)) => {
            parse_duration(text).map(Value::Duration).ok_or_else(|| bad("google.protobuf.Duration"))
        }
        ("timestamp", Value::Timestamp(at)) => Ok(Value::Timestamp(*at)),
        ("timestamp", Value::Int(seconds)) => Timestamp::from_second(*seconds)
            .map(Value::Timestamp)
            .map_err(|_| EvalError::failed("timestamp overflow")),
        ("timestamp", Value::Text(text)) => {
            text.parse().map(Value::Timestamp).map_err(|_| bad("google.protobuf.Timestamp"))
        }
        _ => return None,
    })
}

fn optional<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    Some(Ok(match (name, args) {
        ("optional.none", []) => Value::Optional(None),
        ("optional.of", [value]) => Value::Optional(Some(Box::new(value.clone()))),
        ("optional.ofNonZeroValue", [value]) => {
            let is_zero = match value {
                Value::Null | Value::Bool(false) | Value::Int(0) | Value::Uint(0) => true,
                Value::Double(n) => *n == 0.0,
                Value::Duration(duration) => *duration == SignedDuration::ZERO,
                other => other.size() == Some(0),
            };
            Value::Optional((!is_zero).then(|| Box::new(value.clone())))
        }
        ("hasValue", [Value::Optional(inner)]) => Value::Bool(inner.is_some()),
        ("value", [Value::Optional(inner)]) => match inner {
            Some(inner) => (**inner).clone(),
            None => return Some(Err(EvalError::failed("optional.none() dereference"))),
        },
        ("orValue", [Value::Optional(inner), other]) => {
            inner.as_ref().map_or_else(|| other.clone(), |v| (**v).clone())
        }
        ("or", [Value::Optional(inner), other]) if inner.is_none() => other.clone(),
        ("or", [this @ Value::Optional(_), _]) => this.clone(),
        ("base64.encode", [Value::Bytes(bytes)]) => {
            use base64::Engine as _;
            Value::text(base64::engine::general_purpose::STANDARD.encode(bytes))
        }
        ("base64.decode", [Value::Text(text)]) => {
            use base64::Engine as _;
            match base64::engine::general_purpose::STANDARD.decode(text.as_bytes()) {
                Ok(bytes) => Value::Bytes(Arc::from(bytes)),
                Err(error) => return Some(Err(EvalError::failed(error.to_string()))),
            }
        }
        _ => return None,
    }))
}
