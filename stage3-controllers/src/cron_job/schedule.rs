//! Schedules: five fields of numbers, lists, ranges and steps.
//!
//! `*/5 8-18 * * MON-FRI`. Each field becomes a set of bits; the next time is found by stepping through the days that match, then the hours, then the
//! minutes. If both day of month and day of week are restricted, either may match (as cron always did).
//!
//! # In Kubernetes
//! `github.com/robfig/cron/v3` (`ParseStandard`). Left out: `@every`.

use k8s_openapi::jiff::civil::{DateTime, Time};
use k8s_openapi::jiff::{Timestamp, ToSpan, tz::TimeZone};

const MONTHS: [&str; 12] =
    ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// A schedule that never comes (31 February) is given up after this many days.
const SEARCH_DAYS: u32 = 366 * 5;

/// A parsed schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    minutes: u64,
    hours: u64,
    days: u64,
    months: u64,
    weekdays: u64,
    /// Whether day of month and day of week are both restricted.
    either_day: bool,
}

impl Schedule {
    /// Reads a schedule.
    ///
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Schedule, String> {
        let text = match text.trim() {
            "@yearly" | "@annually" => "0 0 1 1 *",
            "@monthly" => "0 0 1 * *",
            "@weekly" => "0 0 * * 0",
            "@daily" | "@midnight" => "0 0 * * *",
            "@hourly" => "0 * * * *",
            other => other,
        };
        let fields: Vec<&str> = text.split_whitespace().collect();
        let [minutes, hours, days, months, weekdays] = fields[..] else {
            return Err(format!("expected exactly 5 fields, found {}: [{}]", fields.len(), fields.join(" ")));
        };
        let restricted = |field: &str| !field.starts_with('*') && !field.starts_with('?');
        Ok(Schedule {
            minutes: field(minutes, 0, 59, &[])?,
            hours: field(hours, 0, 23, &[])?,
            days: field(days, 1, 31, &[])?,
            months: field(months, 1, 12, &MONTHS)?,
            weekdays: field(weekdays, 0, 6, &DAYS)?,
            either_day: restricted(days) && restricted(weekdays),
        })
    }

    fn has_day(&self, at: DateTime) -> bool {
        let day = self.days >> at.day() & 1 == 1;
        let weekday = self.weekdays >> at.weekday().to_sunday_zero_offset() & 1 == 1;
        let matches = if self.either_day { day || weekday } else { day && weekday };
        matches && self.months >> at.month() & 1 == 1
    }

    /// The scheduled times after `after`, in order.
    pub fn times<'a>(&'a self, after: Timestamp, zone: &'a TimeZone) -> impl Iterator<Item = Timestamp> + 'a {
        let mut last = after;
        std::iter::from_fn(move || {
            last = self.next(last, zone)?;
            Some(last)
        })
    }

    fn next(&self, after: Timestamp, zone: &TimeZone) -> Option<Timestamp> {
        let start = zone.to_datetime(after);
        let mut at =
            start.with().second(0).subsec_nanosecond(0).build().ok()?.checked_add(1.minute()).ok()?;
        for _ in 0..SEARCH_DAYS {
            if self.has_day(at) {
                for hour in at.hour()..24 {
                    if self.hours >> hour & 1 == 0 {
                        continue;
                    }
                    let first = if hour == at.hour() { at.minute() } else { 0 };
                    if let Some(minute) = (first..60).find(|minute| self.minutes >> minute & 1 == 1) {
                        let found = at.date().to_datetime(Time::new(hour, minute, 0, 0).ok()?);
                        let found = zone.to_timestamp(found).ok()?;
                        // When clocks go back an hour comes twice; the schedule goes on.
                        if found > after {
                            return Some(found);
                        }
                    }
                }
            }
            at = at.date().checked_add(1.day()).ok()?.to_datetime(Time::midnight());
        }
        None
    }
}

/// One field as bits.
fn field(text: &str, min: u32, max: u32, names: &[&str]) -> Result<u64, String> {
    let mut bits = 0;
    for part in text.split(',') {
        let (range, step) = part.split_once('/').map_or((part, None), |(range, step)| (range, Some(step)));
        let step: u32 =
            step.map_or(Ok(1), |step| step.parse().map_err(|_| format!("failed to parse int from {step}")))?;
        if step == 0 {
            return Err(format!("step of range should be a positive number: {part}"));
        }
        let (first, last) = match range {
            "*" | "?" => (min, max),
            range => match range.split_once('-') {
                Some((first, last)) => (number(first, names, min)?, number(last, names, min)?),
                None if part.contains('/') => (number(range, names, min)?, max),
                None => (number(range, names, min)?, number(range, names, min)?),
            },
        };
        if first < min {
            return Err(format!("beginning of range ({first}) below minimum ({min}): {part}"));
        }
        if last > max {
            return Err(format!("end of range ({last}) above maximum ({max}): {part}"));
        }
        if first > last {
            return Err(format!("beginning of range ({first}) beyond end of range ({last}): {part}"));
        }
        bits |= (first..=last).step_by(step as usize).fold(0, |bits, value| bits | 1 << value);
    }
    Ok(bits)
}

fn number(text: &str, names: &[&str], min: u32) -> Result<u32, String> {
    if let Some(index) = names.iter().position(|name| *name == text.to_lowercase()) {
        return Ok(index as u32 + min);
    }
    text.parse().map_err(|_| format!("failed to parse int from {text}"))
}
