//! Formats: what a text must look like when a schema says `format`.
//!
//! A format that isn't known here says nothing, as in Kubernetes: `format: my-format` is a comment.
//!
//! # In Kubernetes
//! `kube-openapi/pkg/validation/strfmt/*.go`. Left out: `bsonobjectid`, `isbn`, `creditcard`, `ssn`, `hexcolor`, `rgbcolor` (accepted as they come).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::LazyLock;

use base64::Engine as _;
use regex::Regex;

use crate::validation::names;

static UUID: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"(?i)^[0-9a-f]{8}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{4}-?[0-9a-f]{12}$").expect("fixed")
});
static DURATION: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^-?(\d+(\.\d*)?(ns|us|µs|μs|ms|s|m|h)|\d+\s*(d|day|days|w|week|weeks|hours?|minutes?|seconds?|ms|s|m|h))+$").expect("fixed")
});
static HOST_NAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9])(\.([a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9\-]{0,61}[a-zA-Z0-9]))*\.?$")
        .expect("fixed")
});
static EMAIL: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"^[^@\s<>]+@[^@\s<>]+$").expect("fixed"));
static URI: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"^([a-zA-Z][a-zA-Z0-9+.\-]*:[^\s]*|/[^\s]*)$").expect("fixed"));

/// Whether a text has a format.
pub fn fits(format: &str, text: &str) -> bool {
    match format {
        "date" => text.parse::<jiff::civil::Date>().is_ok() && text.len() == 10,
        "date-time" | "datetime" => is_date_time(text),
        "duration" => text == "0" || DURATION.is_match(text),
        "byte" => base64::engine::general_purpose::STANDARD.decode(text).is_ok(),
        "ipv4" => text.parse::<Ipv4Addr>().is_ok(),
        "ipv6" => text.parse::<Ipv6Addr>().is_ok(),
        "ip" => text.parse::<IpAddr>().is_ok(),
        "cidr" => is_cidr(text),
        "mac" => is_mac(text),
        "uuid" => UUID.is_match(text),
        "uuid3" => UUID.is_match(text) && is_uuid_version(text, '3'),
        "uuid4" => UUID.is_match(text) && is_uuid_version(text, '4'),
        "uuid5" => UUID.is_match(text) && is_uuid_version(text, '5'),
        "hostname" => text.len() <= 255 && HOST_NAME.is_match(text),
        "email" => EMAIL.is_match(text),
        "uri" => URI.is_match(text),
        "k8s-short-name" => names::dns1123_label(text).is_empty(),
        "k8s-long-name" => names::dns1123_subdomain(text).is_empty(),
        _ => true,
    }
}

fn is_date_time(text: &str) -> bool {
    // A zone is not optional there, and neither is the `T`.
    let has_zone = text.ends_with(['Z', 'z']) || text.get(19..).is_some_and(|rest| rest.contains(['+', '-']));
    has_zone
        && text.get(10..11).is_some_and(|t| t.eq_ignore_ascii_case("t"))
        && text.parse::<jiff::Timestamp>().is_ok()
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let most = match address.parse::<IpAddr>() {
        Ok(IpAddr::V4(_)) => 32,
        Ok(IpAddr::V6(_)) => 128,
        Err(_) => return false,
    };
    bits.parse::<u8>().is_ok_and(|bits| bits <= most)
}

fn is_mac(text: &str) -> bool {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    parts.len() == 6 && parts.iter().all(|part| part.len() == 2 && u8::from_str_radix(part, 16).is_ok())
}

fn is_uuid_version(text: &str, version: char) -> bool {
    text.replace('-', "").chars().nth(12) == Some(version)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_know_their_own() {
        for (format, text) in [
            ("date", "2024-02-29"),
            ("date-time", "2024-01-01T00:00:00Z"),
            ("date-time", "2024-01-01T00:00:00.5+02:00"),
            ("duration", "1h30m"),
            ("byte", "aGk="),
            ("ipv4", "10.0.0.1"),
            ("ipv6", "fd00::1"),
            ("cidr", "10.0.0.0/8"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
            ("uri", "https://example.com/a?b=c"),
            ("hostname", "a.example.com"),
            ("my-own", "whatever"),
        ] {
            assert!(fits(format, text), "{format} {text}");
        }
        for (format, text) in [
            ("date", "2024-02-30"),
            ("date-time", "2024-01-01 00:00:00Z"),
            ("date-time", "2024-01-01T00:00:00"),
            ("duration", "soon"),
            ("ipv4", "fd00::1"),
            ("cidr", "10.0.0.0/33"),
            ("uuid4", "123e4567-e89b-12d3-a456-426614174000"),
            ("uri", "123"),
            ("mac", "00:11:22:33:44"),
        ] {
            assert!(!fits(format, text), "{format} {text}");
        }
    }
}
