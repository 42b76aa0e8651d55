//! Time: ages for people, timestamps for the wire, durations for flags.
//!
//! *Step 1 of a pod's journey*, and every table. `AGE` shows two units at most (`3d4h`), finer for young things.
//!
//! # Invariants
//! 1. Nothing here reads a clock: `now` is an argument.
//!
//! # In Kubernetes
//! `apimachinery/pkg/util/duration/duration.go`; Go's `time.ParseDuration` and `Duration.String`.

use jiff::{SignedDuration, Timestamp};

/// An age as `kubectl get` prints it: `45s`, `3m20s`, `5h`, `2d3h`, `1y40d`.
// ANCHOR: human-duration
pub fn human_duration(age: SignedDuration) -> String {
    let seconds = age.as_secs();
    if seconds < -1 {
        return "<invalid>".into();
    }
    if seconds < 0 {
        return "0s".into();
    }
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |a: i64, unit: &str, b: i64, small: &str| match b {
        0 => format!("{a}{unit}"),
        b => format!("{a}{unit}{b}{small}"),
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if years < 2 => format!("{days}d"),
        () if years < 8 => two(years, "y", days % 365, "d"),
        () => format!("{years}y"),
    }
}
// ANCHOR_END: human-duration

/// The age of something since a timestamp, `<unknown>` without one.
pub fn age(since: Option<Timestamp>, now: Timestamp) -> String {
    since.map_or_else(|| "<unknown>".into(), |since| human_duration(now.duration_since(since)))
}

/// RFC 3339 in whole seconds: the form of `metav1.Time`.
pub fn format_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// RFC 3339 in microseconds: the form of `metav1.MicroTime`.
pub fn format_micro_time(time: Timestamp) -> String {
    time.strftime("%Y-%m-%dT%H:%M:%S.%6fZ").to_string()
}

/// Cut to whole seconds, as a timestamp is after it went over the wire.
pub fn truncate_to_second(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).expect("a second inside the range of its own timestamp")
}

/// Reads Go's duration form: `1h30m`, `1.5s`, `300ms`, `-2m`, `0`.
pub fn parse_duration(text: &str) -> Option<SignedDuration> {
    let (negative, rest) = match text.strip_prefix(['-', '+']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    if rest == "0" {
        return Some(SignedDuration::ZERO);
    }
    let mut total_nanos: i128 = 0;
    let mut rest = Some(rest).filter(|r| !r.is_empty())?;
    while !rest.is_empty() {
        let end = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, tail) = rest.split_at(end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let unit_nanos: i128 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        total_nanos = total_nanos.checked_add(fixed_point(number, unit_nanos)?)?;
        rest = tail;
    }
    let nanos = i64::try_from(total_nanos).ok()?;
    Some(SignedDuration::from_nanos(if negative { -nanos } else { nanos }))
}

/// `1.5` × unit, without floats.
fn fixed_point(number: &str, unit_nanos: i128) -> Option<i128> {
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() {
        return None;
    }
    let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
    let mut nanos = whole.checked_mul(unit_nanos)?;
    let mut unit = unit_nanos;
    for digit in fraction.chars() {
        unit /= 10;
        nanos += unit * i128::from(digit.to_digit(10)?);
    }
    Some(nanos)
}

/// Why Go can't read a text as RFC 3339, in its words; nothing when it can.
pub fn go_parse_error(text: &str) -> Option<String> {
    const LAYOUT: &str = "2006-01-02T15:04:05Z07:00";
    const PARTS: [&str; 11] = ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"];
    let failed = |rest: &str, part: &str| {
        Some(format!("parsing time {text:?} as {LAYOUT:?}: cannot parse {rest:?} as {part:?}"))
    };
    let mut rest = text;
    for part in PARTS {
        let digits = part.starts_with(|c: char| c.is_ascii_digit());
        let fits =
            |found: &str| if digits { found.bytes().all(|b| b.is_ascii_digit()) } else { found == part };
        match rest.get(..part.len()) {
            Some(found) if fits(found) => rest = &rest[part.len()..],
            _ => return failed(rest, part),
        }
    }
    let fraction =
        rest.strip_prefix('.').map_or(rest, |more| more.trim_start_matches(|c: char| c.is_ascii_digit()));
    if text.parse::<Timestamp>().is_ok() {
        return None;
    }
    match fraction.starts_with(['Z', '+', '-']) {
        true => Some(format!("parsing time {text:?}: out of range")),
        false => failed(fraction, "Z07:00"),
    }
}

/// Go's `Duration.String`: `1m30s`, `1.5s`, `300ms`, `0s`.
pub fn format_duration(duration: SignedDuration) -> String {
    let nanos = duration.as_nanos();
    let magnitude = nanos.unsigned_abs();
    let sign = if nanos < 0 { "-" } else { "" };
    let decimal = |unit: u128, name: &str| {
        let fraction = format!("{:0width$}", magnitude % unit, width = unit.ilog10() as usize);
        let fraction = fraction.trim_end_matches('0');
        let dot = if fraction.is_empty() { "" } else { "." };
        format!("{sign}{}{dot}{fraction}{name}", magnitude / unit)
    };
    match magnitude {
        0 => "0s".into(),
        1..1_000 => format!("{nanos}ns"),
        1_000..1_000_000 => decimal(1_000, "µs"),
        1_000_000..1_000_000_000 => decimal(1_000_000, "ms"),
        1_000_000_000..60_000_000_000 => decimal(1_000_000_000, "s"),
        _ => {
            let minutes = magnitude / 60_000_000_000;
            let seconds = SignedDuration::from_nanos((magnitude % 60_000_000_000) as i64);
            let seconds = format_seconds(seconds);
            match minutes / 60 {
                0 => format!("{sign}{minutes}m{seconds}"),
                hours => format!("{sign}{hours}h{}m{seconds}", minutes % 60),
            }
        }
    }
}

/// The seconds part behind minutes: always in seconds, `0s` when there are none.
fn format_seconds(rest: SignedDuration) -> String {
    let fraction = format!("{:09}", rest.subsec_nanos());
    let fraction = fraction.trim_end_matches('0');
    let dot = if fraction.is_empty() { "" } else { "." };
    format!("{}{dot}{fraction}s", rest.as_secs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_have_two_units_at_most() {
        let cases = [
            (-5, "<invalid>"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (200, "3m20s"),
            (600, "10m"),
            (10_799, "179m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (8 * 3600, "8h"),
            (47 * 3600, "47h"),
            (50 * 3600, "2d2h"),
            (8 * 86_400, "8d"),
            (800 * 86_400, "2y70d"),
            (9 * 365 * 86_400, "9y"),
        ];
        for (seconds, text) in cases {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), text);
        }
    }

    #[test]
    fn times_that_go_cant_read_are_told_in_its_words() {
        let why = |text: &str, rest: &str, part: &str| {
            format!(
                "parsing time {text:?} as \"2006-01-02T15:04:05Z07:00\": cannot parse {rest:?} as {part:?}"
            )
        };
        assert_eq!(go_parse_error("x"), Some(why("x", "x", "2006")));
        assert_eq!(go_parse_error("2024-01-01"), Some(why("2024-01-01", "", "T")));
        assert_eq!(go_parse_error("2024-01-01T00:00:00"), Some(why("2024-01-01T00:00:00", "", "Z07:00")));
        assert_eq!(go_parse_error("2024-01-01T00:00:00Z"), None);
        assert_eq!(go_parse_error("2024-01-01T00:00:00.5+02:00"), None);
    }

    #[test]
    fn durations_are_read_and_written_as_go_does() {
        let cases = [
            ("1h30m", "1h30m0s"),
            ("90s", "1m30s"),
            ("1.5s", "1.5s"),
            ("300ms", "300ms"),
            ("0", "0s"),
            ("-2m", "-2m0s"),
            ("1m0.5s", "1m0.5s"),
        ];
        for (text, canonical) in cases {
            assert_eq!(format_duration(parse_duration(text).unwrap()), canonical, "{text}");
        }
        for text in ["", "5", "1x", "s", "1m5"] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }

    #[test]
    fn micro_time_has_six_digits() {
        let time: Timestamp = "2024-01-01T00:00:00.5Z".parse().unwrap();
        assert_eq!(format_micro_time(time), "2024-01-01T00:00:00.500000Z");
        assert_eq!(format_time(truncate_to_second(time)), "2024-01-01T00:00:00Z");
    }
}
