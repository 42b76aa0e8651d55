//! Checks of images: tag, age, pull policy.
//!
//! # In Kubernetes
//! "Images" in the documentation; `pkg/util/parsers` cuts tag and digest off.

use jiff::civil::Date;
use serde_json::Value;

use super::pod::each;
use super::{Complaint, Subject};

/// The tag of an image, or `@…` for a digest; `None`: neither.
fn tag(image: &str) -> Option<&str> {
    if let Some((_, digest)) = image.split_once('@') {
        return Some(digest);
    }
    let (_, last) = image.rsplit_once('/').unwrap_or(("", image));
    last.split_once(':').map(|(_, tag)| tag)
}

pub(super) fn image_tag(subject: &Subject<'_>) -> Vec<Complaint> {
    each(subject, true, |at, name, container| {
        let image = container["image"].as_str().unwrap_or_default();
        let what = match tag(image) {
            None => "has no tag, which means latest",
            Some("latest") => "has the tag latest",
            Some(_) => return None,
        };
        Some(subject.complain(&format!("{at}/image"), format!("image {image:?} of {name} {what}")))
    })
}

pub(super) fn image_age(subject: &Subject<'_>) -> Vec<Complaint> {
    let template = subject.spec_at().unwrap_or_default().replace("/spec/template/spec", "/spec/template");
    let created =
        subject.object.get(&format!("{template}/metadata/annotations/org.opencontainers.image.created"));
    let told = created.and_then(Value::as_str).and_then(|text| text.get(..10)?.parse::<Date>().ok());
    each(subject, true, |at, name, container| {
        let image = container["image"].as_str().unwrap_or_default();
        let date = told.or_else(|| date_in(tag(image)?))?;
        let made = date.to_zoned(jiff::tz::TimeZone::UTC).ok()?.timestamp();
        let days = subject.now.duration_since(made).as_hours() / 24;
        let message = format!("image {image:?} of {name} is {days} days old");
        (days > subject.max_image_age_days).then(|| subject.complain(&format!("{at}/image"), message))
    })
}

/// A date in a tag: `20240131`, `2024-01-31`, `2024.01.31-2`.
fn date_in(tag: &str) -> Option<Date> {
    let digits: String = tag
        .chars()
        .take_while(|c| c.is_ascii_digit() || matches!(c, '-' | '.'))
        .filter(char::is_ascii_digit)
        .collect();
    let (year, month, day) = (digits.get(..4)?, digits.get(4..6)?, digits.get(6..8)?);
    let date = Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()?;
    (2000..2100).contains(&date.year()).then_some(date)
}

pub(super) fn pull_policy(subject: &Subject<'_>) -> Vec<Complaint> {
    each(subject, true, |at, name, container| {
        let moves = matches!(tag(container["image"].as_str().unwrap_or_default()), None | Some("latest"));
        let what = match (container["imagePullPolicy"].as_str(), moves) {
            (Some("Never"), _) => "is never pulled: it must be on every node already",
            (Some("IfNotPresent"), true) => "moves, but isn't pulled again where it is present",
            _ => return None,
        };
        Some(subject.complain(&format!("{at}/imagePullPolicy"), format!("the image of {name} {what}")))
    })
}
