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
    // A stage's turn comes after the one before it has begun. A proxy writes rules for a Service without ready pods, too:
    // of this pod it tells when the kubelet has told all.
    let before = |step: &Step| of(step) + 1 == stage;
    let begun = match stage {
        6 => steps.iter().rposition(before),
        _ => steps.iter().position(before),
    };
    let begun = begun.unwrap_or(0);
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
    let mut told: BTreeMap<String, BTreeMap<usize, String>> = BTreeMap::new();
    for step in steps_of(recording) {
        let Some((file, line)) = step.source.rsplit_once(':') else { continue };
        let word = step.decided.split([' ', ':']).next().unwrap_or_default().to_owned();
        told.entry(file.to_owned()).or_default().entry(line.parse().unwrap_or_default()).or_insert(word);
    }
    let mut found = BTreeMap::new();
    for (file, places) in told {
        let text = read(Path::new(&file)).unwrap_or_default();
        let lines: Vec<&str> = text.lines().collect();
        let records = |line: &str| line.contains("journey_step!(") || line.contains("line!()");
        let there: Vec<usize> =
            lines.iter().enumerate().filter(|(_, line)| records(line)).map(|(at, _)| at + 1).collect();
        for (order, (at, word)) in places.iter().enumerate().filter(|(_, (at, _))| !there.contains(at)) {
            let meant = match there.len() == places.len() {
                // All that the file records has been told: lines were only moved.
                true => there.get(order).copied(),
                false => there.iter().copied().min_by_key(|line| unlike(&lines, *line, *at, word)),
            };
            found.insert(format!("{file}:{at}"), meant.map(|line| format!("{file}:{line}")));
        }
    }
    found
}

/// How little a recording line looks like the one that was at `at` and said `word`.
fn unlike(lines: &[&str], line: usize, at: usize, word: &str) -> (bool, usize) {
    // The words may have been put together just above the call.
    let from = line.saturating_sub(1 + ABOVE);
    let ends = |line: &&str| line.contains(");");
    let end = lines[line - 1..].iter().position(ends).map_or(lines.len(), |further| line + further);
    (!lines[from..end].iter().any(|line| line.contains(word)), line.abs_diff(at))
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
        let both = line(7, "no words of it") + &line(9, "nor of this");
        let moved = stale(&both, &read);
        assert_eq!(
            moved["a.rs:7"],
            Some("a.rs:2".to_owned()),
            "all were only moved: the first is still the first"
        );
        assert_eq!(moved["a.rs:9"], Some("a.rs:4".to_owned()));
        assert_eq!(stale(&line(1, "no node can"), &read)["a.rs:1"], Some("a.rs:2".to_owned()));
        assert_eq!(stale(&line(1, "x"), &|_| None)["a.rs:1"], None);
    }
}
