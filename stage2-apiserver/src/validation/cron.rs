//! Cron schedules: five fields, or a word like `@daily`.
//!
//! The parser says what it doesn't like in the words of the library that Kubernetes uses, because those are the words that the answer has.
//! Day of week 7 is refused: Sunday is 0 only.
//!
//! # In Kubernetes
//! `github.com/robfig/cron/v3` (`ParseStandard`). Left out: computing the next time, which is stage 3's.

struct Bounds {
    min: u32,
    max: u32,
    names: &'static [&'static str],
}

const MONTHS: &[&str] = &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: &[&str] = &["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const FIELDS: [Bounds; 5] = [
    Bounds { min: 0, max: 59, names: &[] },
    Bounds { min: 0, max: 23, names: &[] },
    Bounds { min: 1, max: 31, names: &[] },
    Bounds { min: 1, max: 12, names: MONTHS },
    Bounds { min: 0, max: 6, names: DAYS },
];
const DESCRIPTORS: &[&str] =
    &["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Checks a schedule.
///
/// # Errors
/// What the library would say.
pub fn parse(schedule: &str) -> Result<(), String> {
    if schedule.is_empty() {
        return Err("empty spec string".to_owned());
    }
    let mut rest = schedule;
    if schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=") {
        let Some((zone, after)) = schedule.split_once(' ') else {
            return Err("provided bad location".to_owned());
        };
        let zone = zone.split_once('=').map_or("", |(_, zone)| zone);
        if jiff::tz::db().get(zone).is_err() && zone != "Local" {
            return Err(format!("provided bad location {zone}: unknown time zone {zone}"));
        }
        rest = after.trim();
    }
    if rest.starts_with('@') {
        return descriptor(rest);
    }
    let fields: Vec<&str> = rest.split_whitespace().collect();
    if fields.len() != 5 {
        return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
    }
    fields
        .iter()
        .zip(&FIELDS)
        .try_for_each(|(field, bounds)| field.split(',').try_for_each(|part| range(part, bounds)))
}

fn descriptor(text: &str) -> Result<(), String> {
    if DESCRIPTORS.contains(&text) {
        return Ok(());
    }
    if let Some(every) = text.strip_prefix("@every ") {
        let good = !every.is_empty()
            && every.bytes().any(|b| b.is_ascii_digit())
            && every.ends_with(['s', 'm', 'h']);
        return if good {
            Ok(())
        } else {
            Err(format!("failed to parse duration {text}: time: invalid duration {every:?}"))
        };
    }
    Err(format!("unrecognized descriptor: {text}"))
}

/// `number | number "-" number [ "/" number ]`, or `*`, or `?`.
fn range(text: &str, bounds: &Bounds) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let low_high: Vec<&str> = parts[0].split('-').collect();
    let single = low_high.len() == 1;
    let (start, mut end) = if matches!(low_high[0], "*" | "?") {
        (bounds.min, bounds.max)
    } else {
        let start = number_or_name(low_high[0], bounds)?;
        match low_high[..] {
            [_] => (start, start),
            [_, high] => (start, number_or_name(high, bounds)?),
            _ => return Err(format!("too many hyphens: {text}")),
        }
    };
    let step = match parts[..] {
        [_] => 1,
        [_, step] => {
            // "N/step" means "N-max/step".
            if single {
                end = bounds.max;
            }
            number(step)?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < bounds.min {
        return Err(format!("beginning of range ({start}) below minimum ({}): {text}", bounds.min));
    }
    if end > bounds.max {
        return Err(format!("end of range ({end}) above maximum ({}): {text}", bounds.max));
    }
    if start > end {
        return Err(format!("beginning of range ({start}) beyond end of range ({end}): {text}"));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u32, String> {
    let lower = text.to_lowercase();
    match bounds.names.iter().position(|name| **name == lower) {
        Some(at) => Ok(bounds.min + u32::try_from(at).expect("at most twelve names")),
        None => number(text),
    }
}

fn number(text: &str) -> Result<u32, String> {
    let failed =
        || format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax");
    text.parse().map_err(|_| failed())
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn schedules_are_refused_in_words_of_the_library() {
        for good in ["*/5 * * * *", "0 0 1 jan ?", "@daily", "1-5,7 0 * * mon-fri"] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
        assert_eq!(parse("0 0 * * 7"), Err("end of range (7) above maximum (6): 7".to_owned()));
        assert_eq!(parse("*/0 * * * *"), Err("step of range should be a positive number: */0".to_owned()));
        assert_eq!(parse("@foo"), Err("unrecognized descriptor: @foo".to_owned()));
    }
}
