//! Go's times: RFC 3339 in and out, and the errors of `time.Parse`.
//!
//! `metav1.Time` is whole seconds in UTC, `metav1.MicroTime` has exactly six digits, and a Lease with `…:05Z` instead of `…:05.000000Z`
//! is refused with a text that only makes sense to who knows Go's reference time. We walk the layout as Go does to say the same.
//!
//! # In Kubernetes
//! `apimachinery/pkg/apis/meta/v1/{time,micro_time}.go`, Go's `time/format.go`. Left out: the range errors of each part ("day out of range").

use jiff::Timestamp;

const SECONDS: &str = "2006-01-02T15:04:05Z07:00";
const MICROS: &str = "2006-01-02T15:04:05.000000Z07:00";

/// Reads a `metav1.Time` and writes it canonically.
///
/// # Errors
/// The text of Go's `time.Parse`.
pub fn canonical_time(text: &str) -> Result<String, String> {
    check(text, SECONDS)?;
    let time: Timestamp = text.parse().map_err(|_| failure(text, SECONDS, text, "2006"))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string())
}

/// Reads a `metav1.MicroTime` and writes it canonically.
///
/// # Errors
/// The text of Go's `time.Parse`.
pub fn canonical_micro_time(text: &str) -> Result<String, String> {
    check(text, MICROS)?;
    let time: Timestamp = text.parse().map_err(|_| failure(text, MICROS, text, "2006"))?;
    Ok(time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string())
}

fn failure(text: &str, layout: &str, rest: &str, element: &str) -> String {
    format!("parsing time {text:?} as {layout:?}: cannot parse {rest:?} as {element:?}")
}

/// Walks the layout element by element; the first that doesn't fit is the error.
fn check(text: &str, layout: &str) -> Result<(), String> {
    let elements: &[(&str, usize)] = &[
        ("2006", 4),
        ("-", 0),
        ("01", 2),
        ("-", 0),
        ("02", 2),
        ("T", 0),
        ("15", 2),
        (":", 0),
        ("04", 2),
        (":", 0),
        ("05", 2),
    ];
    let mut rest = text;
    for (element, digits) in elements {
        let fits = match digits {
            0 => rest.starts_with(element),
            n => rest.len() >= *n && rest.as_bytes()[..*n].iter().all(u8::is_ascii_digit),
        };
        if !fits {
            return Err(failure(text, layout, rest, element));
        }
        rest = &rest[element.len()..];
    }
    if layout == MICROS {
        let six =
            rest.len() >= 7 && rest.starts_with('.') && rest.as_bytes()[1..7].iter().all(u8::is_ascii_digit);
        if !six {
            return Err(failure(text, layout, rest, ".000000"));
        }
        rest = &rest[7..];
    } else if let Some(fraction) = rest.strip_prefix('.') {
        // Go takes a fraction after the seconds even where the layout has none.
        let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
        if digits > 0 {
            rest = &fraction[digits..];
        }
    }
    let zone = rest == "Z" || (rest.len() == 6 && rest.starts_with(['+', '-']) && rest.as_bytes()[3] == b':');
    if zone { Ok(()) } else { Err(failure(text, layout, rest, "Z07:00")) }
}
