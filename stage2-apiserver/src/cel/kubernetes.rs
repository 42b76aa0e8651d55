//! The functions that Kubernetes adds to CEL: lists, patterns, URLs, quantities, addresses, sets.
//!
//! # In Kubernetes
//! `apiserver/pkg/cel/library/{lists,regex,urls,quantity,ip,cidr}.go`, `cel-go/ext/sets.go`. Left out: `format`, `semver`, and
//! `math` but for `greatest` and `least`.

use std::cmp::Ordering;
use std::net::IpAddr;
use std::sync::Arc;

use percent_encoding::percent_decode_str;
use stage1_kubectl::quantity::Quantity;

use super::eval::{Budget, EvalError, Outcome};
use super::value::{Url, Value};
use crate::validation::go_regex;

/// Calls one of them; `None` if there is none for these values.
pub fn call<'a>(name: &str, args: &[Value<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    list(name, args, budget)
        .or_else(|| pattern(name, args, budget))
        .or_else(|| url(name, args))
        .or_else(|| quantity(name, args))
        .or_else(|| address(name, args))
        .or_else(|| set(name, args, budget))
}

fn list<'a>(name: &str, args: &[Value<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let (first, rest) = args.split_first()?;
    let items = first.items()?;
    if let Err(error) = budget.spend(items.len() as u64) {
        return Some(Err(error));
    }
    let position =
        |found: Option<usize>| Value::Int(found.and_then(|at| i64::try_from(at).ok()).unwrap_or(-1));
    let best = |wanted: Ordering, what: &str| {
        let mut found: Option<&Value<'a>> = None;
        for item in &items {
            let better = found.map_or(Some(true), |best| item.compare(best).map(|order| order == wanted));
            match better {
                Some(true) => found = Some(item),
                Some(false) => {}
                None => return Err(EvalError::failed(format!("no such overload: {what}"))),
            }
        }
        found.cloned().ok_or_else(|| EvalError::failed(format!("{what} called on empty list")))
    };
    Some(match (name, rest) {
        ("isSorted", []) => Ok(Value::Bool(
            items
                .windows(2)
                .all(|two| two[0].compare(&two[1]).is_some_and(|order| order != Ordering::Greater)),
        )),
        ("sum", []) => sum(&items),
        ("min" | "math.least", []) => best(Ordering::Less, "min"),
        ("max" | "math.greatest", []) => best(Ordering::Greater, "max"),
        ("indexOf", [wanted]) => Ok(position(items.iter().position(|item| item.equals(wanted)))),
        ("lastIndexOf", [wanted]) => Ok(position(items.iter().rposition(|item| item.equals(wanted)))),
        ("join", separator) => {
            let texts: Option<Vec<String>> = items
                .iter()
                .map(|item| match item {
                    Value::Text(text) => Some(text.to_string()),
                    _ => None,
                })
                .collect();
            let separator = match separator {
                [] => "",
                [Value::Text(separator)] => separator.as_ref(),
                _ => return None,
            };
            texts
                .map(|texts| Value::text(texts.join(separator)))
                .ok_or_else(|| EvalError::failed("no such overload: join"))
        }
        ("distinct", []) => {
            let mut seen: Vec<Value<'a>> = Vec::new();
            if let Err(error) = budget.spend((items.len() as u64).pow(2)) {
                return Some(Err(error));
            }
            for item in items {
                if !seen.iter().any(|other| other.equals(&item)) {
                    seen.push(item);
                }
            }
            Ok(Value::list(seen))
        }
        _ => return None,
    })
}

fn sum<'a>(items: &[Value<'a>]) -> Outcome<'a> {
    let Some((first, rest)) = items.split_first() else { return Ok(Value::Int(0)) };
    rest.iter().try_fold(first.clone(), |total, item| match (&total, item) {
        (Value::Int(a), Value::Int(b)) => {
            a.checked_add(*b).map(Value::Int).ok_or_else(|| EvalError::failed("integer overflow"))
        }
        (Value::Uint(a), Value::Uint(b)) => {
            a.checked_add(*b).map(Value::Uint).ok_or_else(|| EvalError::failed("unsigned integer overflow"))
        }
        (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
        (Value::Duration(a), Value::Duration(b)) => {
            a.checked_add(*b).map(Value::Duration).ok_or_else(|| EvalError::failed("duration overflow"))
        }
        _ => Err(EvalError::failed("no such overload: sum")),
    })
}

fn pattern<'a>(name: &str, args: &[Value<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let [Value::Text(text), Value::Text(pattern), rest @ ..] = args else { return None };
    if !matches!(name, "find" | "findAll") {
        return None;
    }
    let cost = (text.len() as u64 / 10 + 1) * (pattern.len() as u64 / 4 + 1);
    let compiled = budget.spend(cost).and_then(|()| {
        go_regex::compile(pattern).map_err(|error| EvalError::failed(format!("Illegal regex: {error}")))
    });
    let compiled = match compiled {
        Ok(compiled) => compiled,
        Err(error) => return Some(Err(error)),
    };
    Some(Ok(match (name, rest) {
        ("find", []) => Value::text(compiled.find(text).map_or("", |found| found.as_str())),
        ("findAll", []) => {
            Value::list(compiled.find_iter(text).map(|found| Value::text(found.as_str())).collect())
        }
        ("findAll", [Value::Int(most)]) => {
            let most = usize::try_from(*most).unwrap_or(usize::MAX);
            Value::list(
                compiled.find_iter(text).take(most).map(|found| Value::text(found.as_str())).collect(),
            )
        }
        _ => return None,
    }))
}

/// Reads an absolute URL, or a path that begins with a slash.
pub fn parse_url(text: &str) -> Option<Url> {
    let (rest, query) = text.split_once('?').unwrap_or((text, ""));
    let (scheme, rest) = match rest.split_once("://") {
        Some((scheme, rest)) => (scheme, rest),
        None if rest.starts_with('/') => ("", rest),
        None => return None,
    };
    let letters = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    if text.contains([' ', '\t', '\n']) || !scheme.chars().all(letters) {
        return None;
    }
    let (host, path) = match (scheme, rest.find('/')) {
        ("", _) => ("", rest),
        (_, Some(at)) => rest.split_at(at),
        (_, None) => (rest, ""),
    };
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    let mut found: Vec<(String, Vec<String>)> = Vec::new();
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let decode =
            |text: &str| percent_decode_str(&text.replace('+', " ")).decode_utf8_lossy().into_owned();
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name), decode(value));
        match found.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => found.push((name, vec![value])),
        }
    }
    Some(Url { scheme: scheme.to_owned(), host: host.to_owned(), path: path.to_owned(), query: found })
}

fn url<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let [value] = args else { return None };
    let bad = |text: &str| {
        EvalError::failed(format!(
            "URL parse error during conversion from string: parse {text:?}: invalid URI for request"
        ))
    };
    Some(match (name, value) {
        ("isURL", Value::Text(text)) => Ok(Value::Bool(parse_url(text).is_some())),
        ("url", Value::Text(text)) => {
            parse_url(text).map(|url| Value::Url(Arc::new(url))).ok_or_else(|| bad(text))
        }
        ("getScheme", Value::Url(url)) => Ok(Value::text(url.scheme.as_str())),
        ("getHost", Value::Url(url)) => Ok(Value::text(url.host.as_str())),
        ("getHostname", Value::Url(url)) => {
            let host = url.host.as_str();
            let name = match host.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
                Some((inside, _)) => inside,
                None => host.rsplit_once(':').map_or(host, |(name, _)| name),
            };
            Ok(Value::text(name))
        }
        ("getPort", Value::Url(url)) => {
            let port = url.host.rsplit_once(':').map_or("", |(_, port)| port);
            Ok(Value::text(if port.ends_with(']') { "" } else { port }))
        }
        ("getEscapedPath", Value::Url(url)) => Ok(Value::text(url.path.as_str())),
        ("getQuery", Value::Url(url)) => {
            let entry = |(name, values): &(String, Vec<String>)| {
                let values = values.iter().map(|value| Value::text(value.as_str())).collect();
                (Value::text(name.as_str()), Value::list(values))
            };
            Ok(Value::Map(Arc::new(url.query.iter().map(entry).collect())))
        }
        _ => return None,
    })
}

fn quantity<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let parse = |text: &str| {
        Quantity::parse(text).map(Value::Quantity).map_err(|error| EvalError::failed(error.to_string()))
    };
    let compared = |a: &Quantity, b: &Quantity| match a.cmp(b) {
        Ordering::Less => -1,
        Ordering::Equal => 0,
        Ordering::Greater => 1,
    };
    Some(match (name, args) {
        ("quantity", [Value::Text(text)]) => parse(text),
        ("isQuantity", [Value::Text(text)]) => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        ("sign", [Value::Quantity(a)]) => Ok(Value::Int(a.sign().into())),
        ("isInteger", [Value::Quantity(a)]) => Ok(Value::Bool(a.milli_value() % 1000 == 0)),
        ("asInteger", [Value::Quantity(a)]) => match a.milli_value() % 1000 {
            0 => Ok(Value::Int(a.value())),
            _ => Err(EvalError::failed("cannot convert value to integer")),
        },
        ("asApproximateFloat", [Value::Quantity(a)]) => Ok(Value::Double(a.as_f64())),
        ("isGreaterThan", [Value::Quantity(a), Value::Quantity(b)]) => Ok(Value::Bool(a > b)),
        ("isLessThan", [Value::Quantity(a), Value::Quantity(b)]) => Ok(Value::Bool(a < b)),
        ("compareTo", [Value::Quantity(a), Value::Quantity(b)]) => Ok(Value::Int(compared(a, b))),
        ("add" | "sub", [Value::Quantity(a), other]) => {
            let other = match other {
                Value::Quantity(other) => *other,
                Value::Int(whole) => Quantity::from_value(*whole, a.format()),
                _ => return None,
            };
            Ok(Value::Quantity(if name == "add" { *a + other } else { *a - other }))
        }
        _ => return None,
    })
}

/// A network in canonical form or not.
fn parse_cidr(text: &str) -> Option<(IpAddr, u8)> {
    let (address, bits) = text.split_once('/')?;
    let address: IpAddr = address.parse().ok()?;
    let bits: u8 = bits.parse().ok()?;
    (bits <= if address.is_ipv4() { 32 } else { 128 }).then_some((address, bits))
}

/// The address with all bits after the first `bits` gone.
fn masked(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V4(v4) => {
            let mask = u32::MAX.checked_shl(32 - u32::from(bits)).unwrap_or(0);
            IpAddr::V4((u32::from(v4) & mask).into())
        }
        IpAddr::V6(v6) => {
            let mask = u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0);
            IpAddr::V6((u128::from(v6) & mask).into())
        }
    }
}

fn address<'a>(name: &str, args: &[Value<'a>]) -> Option<Outcome<'a>> {
    let holds = |(network, bits): (IpAddr, u8), address: IpAddr| {
        network.is_ipv4() == address.is_ipv4() && masked(address, bits) == masked(network, bits)
    };
    let no_ip = |text: &str| {
        EvalError::failed(format!(
            "IP Address {text:?} parse error during conversion from string: ParseAddr({text:?}): unable to parse IP"
        ))
    };
    let no_cidr = |text: &str| {
        EvalError::failed(format!(
            "network address parse error during conversion from string: netip.ParsePrefix({text:?}): no '/'"
        ))
    };
    let loopback = |ip: &IpAddr| ip.is_loopback();
    Some(match (name, args) {
        ("isIP", [Value::Text(text)]) => Ok(Value::Bool(text.parse::<IpAddr>().is_ok())),
        ("ip", [Value::Text(text)]) => text.parse().map(Value::Ip).map_err(|_| no_ip(text)),
        ("ip.isCanonical", [Value::Text(text)]) => match text.parse::<IpAddr>() {
            Ok(ip) => Ok(Value::Bool(ip.to_string() == *text)),
            Err(_) => Err(no_ip(text)),
        },
        ("family", [Value::Ip(ip)]) => Ok(Value::Int(if ip.is_ipv4() { 4 } else { 6 })),
        ("isUnspecified", [Value::Ip(ip)]) => Ok(Value::Bool(ip.is_unspecified())),
        ("isLoopback", [Value::Ip(ip)]) => Ok(Value::Bool(loopback(ip))),
        ("isLinkLocalMulticast", [Value::Ip(ip)]) => Ok(Value::Bool(match ip {
            IpAddr::V4(v4) => v4.octets()[..3] == [224, 0, 0],
            IpAddr::V6(v6) => v6.segments()[0] == 0xff02,
        })),
        ("isLinkLocalUnicast", [Value::Ip(ip)]) => Ok(Value::Bool(match ip {
            IpAddr::V4(v4) => v4.is_link_local(),
            IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
        })),
        ("isGlobalUnicast", [Value::Ip(ip)]) => {
            let link_local = match ip {
                IpAddr::V4(v4) => v4.is_link_local() || v4.is_broadcast(),
                IpAddr::V6(v6) => v6.segments()[0] & 0xffc0 == 0xfe80,
            };
            Ok(Value::Bool(!ip.is_unspecified() && !loopback(ip) && !ip.is_multicast() && !link_local))
        }
        ("isCIDR", [Value::Text(text)]) => Ok(Value::Bool(parse_cidr(text).is_some())),
        ("cidr", [Value::Text(text)]) => {
            parse_cidr(text).map(|(ip, bits)| Value::Cidr(ip, bits)).ok_or_else(|| no_cidr(text))
        }
        ("ip", [Value::Cidr(ip, _)]) => Ok(Value::Ip(*ip)),
        ("prefixLength", [Value::Cidr(_, bits)]) => Ok(Value::Int((*bits).into())),
        ("masked", [Value::Cidr(ip, bits)]) => Ok(Value::Cidr(masked(*ip, *bits), *bits)),
        ("containsIP", [Value::Cidr(network, bits), Value::Ip(ip)]) => {
            Ok(Value::Bool(holds((*network, *bits), *ip)))
        }
        ("containsIP", [Value::Cidr(network, bits), Value::Text(text)]) => match text.parse() {
            Ok(ip) => Ok(Value::Bool(holds((*network, *bits), ip))),
            Err(_) => Err(no_ip(text)),
        },
        ("containsCIDR", [Value::Cidr(network, bits), other]) => {
            let inner = match other {
                Value::Cidr(ip, bits) => Ok((*ip, *bits)),
                Value::Text(text) => parse_cidr(text).ok_or_else(|| no_cidr(text)),
                _ => return None,
            };
            inner.map(|(ip, inner)| Value::Bool(inner >= *bits && holds((*network, *bits), ip)))
        }
        _ => return None,
    })
}

fn set<'a>(name: &str, args: &[Value<'a>], budget: &mut Budget) -> Option<Outcome<'a>> {
    let [a, b] = args else { return None };
    let (a, b) = (a.items()?, b.items()?);
    if !name.starts_with("sets.") {
        return None;
    }
    if let Err(error) = budget.spend(a.len() as u64 * b.len() as u64) {
        return Some(Err(error));
    }
    let within = |items: &[Value<'a>], all: &[Value<'a>]| {
        items.iter().all(|item| all.iter().any(|one| one.equals(item)))
    };
    Some(Ok(Value::Bool(match name {
        "sets.contains" => within(&b, &a),
        "sets.equivalent" => within(&a, &b) && within(&b, &a),
        "sets.intersects" => a.iter().any(|item| b.iter().any(|one| one.equals(item))),
        _ => return None,
    })))
}
