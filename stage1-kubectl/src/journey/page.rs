//! The journey as text: one line a step, and a line for each stage that has not done its part.
//!
//! *All steps of a pod's journey, seen from its end.* Before: steps were reported or found in the object's [`super::trail`].
//! After: a person reads.
//!
//! # Invariants
//! 1. Every step stands on one line, in the order of time; what repeats stands once, with a count.
//! 2. A stage without a step is named, with the question to ask next: a gap is the most useful thing on this page.
//!
//! # In Kubernetes
//! No counterpart.

use std::fmt::Write as _;

use jiff::SignedDuration;

use super::digest::{Told, digest};
use super::lanes::Hop;
use super::{Stage, Step};
use crate::time::human_duration;

/// What a stage's silence means for a pod.
const SILENCE: [(Stage, &str); 6] = [
    (Stage::Kubectl, "no client's request is on record"),
    (Stage::ApiServer, "the API server has stored nothing"),
    (
        Stage::Controllers,
        "no controller made it: a bare pod has none, a Deployment's pod needs a running controller manager",
    ),
    (
        Stage::Scheduler,
        "nobody has bound this pod yet: is the scheduler running, does schedulerName name it?",
    ),
    (Stage::Kubelet, "no kubelet has taken it: is its node Ready?"),
    (Stage::Proxy, "no Service sends traffic to it"),
];

/// What it means that a stage has left no step.
#[must_use]
pub fn silence(stage: Stage) -> &'static str {
    SILENCE.iter().find(|(one, _)| *one == stage).map_or("", |(_, meaning)| meaning)
}

/// The sign of a stage.
#[must_use]
pub fn sign(stage: Stage) -> char {
    ['①', '②', '③', '④', '⑤', '⑥'][usize::from(u8::from(stage)) - 1]
}

/// More lines than these and the middle is left out.
const MAX_LINES: usize = 32;
/// How many of them stand at the end.
const LAST_LINES: usize = 12;
/// A reason longer than this is cut.
const MAX_WHY_CHARS: usize = 90;

// ANCHOR: render-journey
/// Renders the steps of one object's journey, and the hop that is missing.
#[must_use]
pub fn render(title: &str, steps: &[Step], next: Option<&Hop>) -> String {
    let told = digest(steps);
    let start = told.first().map_or(0, |told| told.step.at_micros);
    let mut page = format!("{title}, through the six stages\n\n");
    let hidden = match told.len() > MAX_LINES {
        true => MAX_LINES - LAST_LINES..told.len() - LAST_LINES,
        false => 0..0,
    };
    for (at, one) in told.iter().enumerate() {
        if at == hidden.start && !hidden.is_empty() {
            let _ = writeln!(page, "{:>13} {} more steps", "…", hidden.len());
        }
        if !hidden.contains(&at) {
            // The same place in the source is named once in a row.
            let known = at > 0 && told[at - 1].step.source == one.step.source;
            page.push_str(&line(one, title, start, known));
        }
    }
    for (stage, meaning) in SILENCE {
        let missing = next.is_some_and(|hop| hop.stage == stage);
        if !missing && !told.iter().any(|told| told.step.stage == stage) {
            let _ = writeln!(page, "{} {:>10}  {meaning}", sign(stage), "–");
        }
    }
    if let Some(hop) = next {
        let _ = writeln!(page, "{} {:>10}  {}", sign(hop.stage), "→", hop.text);
    }
    page
}
// ANCHOR_END: render-journey

/// `② +12.3 ms  pod: stored (because)  [file:line]`, with a count and the last time of what repeats.
#[must_use]
pub fn line(told: &Told, title: &str, start: i64, source_known: bool) -> String {
    let Told { step, times, last_at_micros } = told;
    let decided = step.decided.strip_prefix(&step.object).map_or(step.decided.as_str(), str::trim_start);
    let mut text = format!(
        "{} {:>10}  {}: {decided}",
        sign(step.stage),
        since(step.at_micros - start),
        short_name(&step.object, title)
    );
    if !step.why.is_empty() {
        let cut = if step.why.chars().count() > MAX_WHY_CHARS { "…" } else { "" };
        let why: String = step.why.chars().take(MAX_WHY_CHARS).collect();
        let _ = write!(text, " ({}{cut})", why.replace('\n', " "));
    }
    if *times > 1 {
        let _ = write!(text, " ×{times}, last {}", since(last_at_micros - start));
    }
    if !step.source.is_empty() && !source_known {
        let _ = write!(text, "  [{}]", step.source);
    }
    text + "\n"
}

/// The object of the page by its kind alone, others without their namespace.
fn short_name(object: &str, title: &str) -> String {
    let Some((kind, name)) = object.split_once(' ') else { return object.to_string() };
    match object == title {
        true => kind.to_lowercase(),
        false => format!("{kind} {}", name.rsplit('/').next().unwrap_or(name)),
    }
}

/// `+12.3 ms`, `+4.21 s`, `+5m12s`.
fn since(micros: i64) -> String {
    match micros {
        600_000_000.. => format!("+{}", human_duration(SignedDuration::from_micros(micros))),
        ..1_000_000 => format!("+{}.{} ms", micros / 1000, micros % 1000 / 100),
        _ => format!("+{}.{:02} s", micros / 1_000_000, micros % 1_000_000 / 10_000),
    }
}

/// The steps of a journey file (one JSON object a line) that are about one of these objects.
///
/// Lines that are no steps are passed over: a process that was killed may have left half a line.
#[must_use]
pub fn about(file: &str, objects: &[String]) -> Vec<Step> {
    file.lines()
        .filter_map(|line| serde_json::from_str::<Step>(line).ok())
        .filter(|step| objects.contains(&step.object))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use expect_test::expect;

    fn step(stage: Stage, at_micros: i64, decided: &str) -> Step {
        Step {
            stage,
            object: "Pod d/p".into(),
            decided: decided.into(),
            why: "because".into(),
            at_micros,
            source: String::new(),
        }
    }

    #[test]
    fn steps_come_in_order_and_silent_stages_are_named() {
        let steps = [step(Stage::Scheduler, 1_012_345, "bound"), step(Stage::ApiServer, 1_000_000, "stored")];
        expect![[r#"
            Pod d/p, through the six stages

            ②    +0.0 ms  pod: stored (because)
            ④   +12.3 ms  pod: bound (because)
            ①          –  no client's request is on record
            ③          –  no controller made it: a bare pod has none, a Deployment's pod needs a running controller manager
            ⑤          –  no kubelet has taken it: is its node Ready?
            ⑥          –  no Service sends traffic to it
        "#]]
        .assert_eq(&render("Pod d/p", &steps, None));
    }

    #[test]
    fn the_missing_hop_is_named_even_when_its_stage_has_said_no() {
        let hop = Hop { stage: Stage::Scheduler, text: "nobody has bound this pod yet: stage ④".into() };
        let page = render("Pod d/p", &[step(Stage::Scheduler, 1, "not bound")], Some(&hop));
        assert!(page.ends_with("④          →  nobody has bound this pod yet: stage ④\n"), "{page}");
    }

    #[test]
    fn half_a_line_and_other_objects_are_passed_over() {
        let line = serde_json::to_string(&step(Stage::Kubelet, 1, "ran")).unwrap();
        let file = format!("{line}\n{}\n{{\"stage\":", line.replace("d/p", "d/other"));
        assert_eq!(about(&file, &["Pod d/p".into()]).len(), 1);
    }
}
