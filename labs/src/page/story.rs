//! The story so far: the recorded pod's trace up to the moment when a stage takes its turn.
//!
//! *All six steps of a pod's journey.* A chapter begins where the stage before it ended. What had happened by then isn't drawn by hand: it is
//! cut from the recording that the page replays, so a chapter and the replay tell the same pod's story. The pieces lie in
//! `book/src/traces` and are made, never written.
//!
//! # Invariants
//! 1. A stage's trace ends before the first step of that stage about the pod or its makers.
//! 2. Every place in the source that the recording names is one that records a step ([`stale`]).
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::collections::BTreeMap;
use std::path::Path;

use stage1_kubectl::journey::{Step, digest::digest, page::line};

use super::journal::{Journal, first_choice};
use super::lanes::pod_steps;
use super::tail::steps_of;

/// A recording that is part of the program: `labs/up --demo` on one node.
pub const RECORDING: &str = include_str!("static/recording.jsonl");
/// Where it stands.
pub const RECORDING_FILE: &str = "labs/src/page/static/recording.jsonl";
/// Lines above a call in which its words may stand.
const ABOVE: usize = 4;
const NOTHING: &str = "(nothing yet: somebody has written a file)\n";

/// The recorded trace up to each stage: file in the repository, and text.
#[must_use]
pub fn traces() -> Vec<(String, String)> {
    let mut journal = Journal::default();
    steps_of(RECORDING).into_iter().for_each(|step| journal.push(step));
    let listed = journal.listed();
    let pod = first_choice(&listed).map(|one| one.object.clone()).unwrap_or_default();
    let steps = pod_steps(&journal, &pod);
    (1..=6).map(|stage| (format!("book/src/traces/stage{stage}.txt"), before(&steps, &pod, stage))).collect()
}

/// What had been told of a pod before a stage took its turn.
fn before(steps: &[Step], pod: &str, stage: u8) -> String {
    let of = |step: &Step| u8::from(step.stage);
    // A proxy writes rules for a Service without pods, too: a stage's turn comes after the one before it has begun.
    let begun = steps.iter().position(|step| of(step) + 1 == stage).unwrap_or(0);
    let turn =
        steps.iter().skip(begun).position(|step| of(step) == stage).map_or(steps.len(), |at| begun + at);
    // What the API server tells of the requests of stage 3 comes before stage 3 tells of them itself.
    let root = steps.first().map(|step| step.object.clone()).unwrap_or_default();
    let counts = |step: &&Step| of(step) < stage && (stage > 3 || step.object == root);
    let told = digest(&steps[..turn].iter().filter(counts).cloned().collect::<Vec<_>>());
    let start = told.first().map_or(0, |one| one.step.at_micros);
    let text: String = told.iter().map(|one| line(one, pod, start, true)).collect();
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

/// Places of the recording that are no longer lines that record a step, each with the line that is meant, if one can be found.
#[must_use]
pub fn stale(recording: &str, read: &dyn Fn(&Path) -> Option<String>) -> BTreeMap<String, Option<String>> {
    let mut found = BTreeMap::new();
    for step in steps_of(recording) {
        let Some((file, line)) = step.source.rsplit_once(':') else { continue };
        let Some(text) = read(Path::new(file)) else {
            found.insert(step.source.clone(), None);
            continue;
        };
        let lines: Vec<&str> = text.lines().collect();
        let at: usize = line.parse().unwrap_or_default();
        let records = |at: usize| {
            lines
                .get(at.wrapping_sub(1))
                .is_some_and(|line| line.contains("journey_step!(") || line.contains("line!()"))
        };
        if records(at) {
            continue;
        }
        let word = step.decided.split([' ', ':']).next().unwrap_or_default();
        let near = |candidate: &usize| {
            // The words may have been put together just above the call.
            let from = candidate.saturating_sub(1 + ABOVE);
            let ends = |line: &&str| line.contains(");");
            let end = lines[candidate - 1..].iter().position(ends).map_or(lines.len(), |at| candidate + at);
            let words = lines[from..end].iter().any(|line| line.contains(word));
            (!words, candidate.abs_diff(at))
        };
        let meant = (1..=lines.len()).filter(|at| records(*at)).min_by_key(near);
        found.insert(step.source.clone(), meant.map(|line| format!("{file}:{line}")));
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_grows_from_stage_to_stage_and_ends_before_its_own() {
        let traces = traces();
        let [one, two, three, four, five, six] = [0, 1, 2, 3, 4, 5].map(|at| traces[at].1.as_str());
        assert_eq!(one, NOTHING);
        assert!(two.contains("①") && !two.contains("②"), "{two}");
        assert!(three.contains("② ") && !three.contains("③"), "{three}");
        assert!(four.contains("③ ") && !four.contains("④"), "{four}");
        assert!(five.contains("④ ") && !five.contains("⑤"), "{five}");
        assert!(six.contains("⑤ ") && !six.contains("⑥"), "{six}");
    }

    #[test]
    fn a_place_that_records_nothing_any_more_is_found_with_the_line_that_is_meant() {
        let line = |at: usize, decided: &str| {
            format!(
                "{{\"stage\":4,\"object\":\"Pod d/p\",\"decided\":\"{decided}\",\"why\":\"\",\"at_micros\":1,\"source\":\"a.rs:{at}\"}}\n"
            )
        };
        let source = "x\njourney_step!(a, \"no node\");\nx\njourney_step!(\n  b, \"filtered\");\n";
        let read = |path: &Path| (path == Path::new("a.rs")).then(|| source.to_owned());
        assert!(stale(&line(2, "no node"), &read).is_empty());
        assert_eq!(stale(&line(3, "filtered: 1"), &read)["a.rs:3"], Some("a.rs:4".to_owned()));
        assert_eq!(stale(&line(1, "no node can"), &read)["a.rs:1"], Some("a.rs:2".to_owned()));
        assert_eq!(stale(&line(1, "x"), &|_| None)["a.rs:1"], None);
    }
}
