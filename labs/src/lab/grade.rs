//! Grading: from a diagnosis and what was seen to a verdict.
//!
//! Diagnosis and repair are graded apart, because on a real cluster each happens without the other: a restart "repairs"
//! what nobody understood, and a right diagnosis helps even if another team holds the keys.
//!
//! # Invariants
//! 1. Every verdict is one of a closed list, and its text says what was seen.
//! 2. A right diagnosis of all four parts gives 100 points; a wrong submission costs 10, never below 0.
//! 3. Evidence counts only if it was there to be seen: now, or when the fault was made.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use serde::{Deserialize, Serialize};

use super::answer::{Answer, Evidence};
use super::catalog::{EvidenceKey, Lab, Truth};
use super::probe::Seen;
use super::texts::say;
use super::vocabulary::stage_name;
use super::world::matches;
use crate::texts::Values;

/// Points for naming the stage.
pub const STAGE_POINTS: u32 = 30;
/// Points for naming the object.
pub const OBJECT_POINTS: u32 = 25;
/// Points for naming the mechanism.
pub const MECHANISM_POINTS: u32 = 25;
/// Points for evidence.
pub const EVIDENCE_POINTS: u32 = 20;
/// Points that a wrong submission costs.
pub const WRONG_SUBMISSION_COSTS: u32 = 10;

/// The closed list of verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Verdict {
    /// The lab itself failed: the fault did not show.
    Harness,
    /// No lab is under way, so nothing was broken.
    NotBroken,
    /// The symptom is still there.
    StillBroken,
    /// Another stage.
    WrongStage,
    /// The stage is right, the object another one.
    WrongObject,
    /// Stage and object are right, the mechanism is another one.
    WrongMechanism,
    /// The symptom is gone, but so is something that should have stayed.
    RightCauseWrongFix,
    /// Repaired by something that is no repair.
    GuardTripped,
    /// Right.
    Pass,
}

impl Verdict {
    /// Its word: `STILL_BROKEN`.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Harness => "HARNESS",
            Verdict::NotBroken => "NOT_BROKEN",
            Verdict::StillBroken => "STILL_BROKEN",
            Verdict::WrongStage => "WRONG_STAGE",
            Verdict::WrongObject => "WRONG_OBJECT",
            Verdict::WrongMechanism => "WRONG_MECHANISM",
            Verdict::RightCauseWrongFix => "RIGHT_CAUSE_WRONG_FIX",
            Verdict::GuardTripped => "GUARD_TRIPPED",
            Verdict::Pass => "PASS",
        }
    }
}

/// A verdict with its reason. As an error it ends a step that could not be taken: nothing is broken, or the lab itself failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{}: {text}", .verdict.word())]
pub struct Ruling {
    /// Which.
    pub verdict: Verdict,
    /// Why, and what was seen.
    pub text: String,
}

impl Ruling {
    /// A verdict with a sentence of `catalog/texts`.
    pub(super) fn new(verdict: Verdict, key: &str, values: Values<'_>) -> Self {
        Self { verdict, text: say(key, values) }
    }
}

/// A graded diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Diagnosis {
    /// The verdict.
    pub ruling: Ruling,
    /// Points of 100, wrong submissions taken off.
    pub points: u32,
    /// A line for each piece of evidence.
    pub evidence: Vec<String>,
}

/// What was found where a piece of evidence points.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Looked {
    /// The evidence.
    pub evidence: Evidence,
    /// The values found there, now or when the fault was made.
    pub found: Vec<String>,
}

// ANCHOR: grade-diagnosis
/// Grades a diagnosis. `earlier_wrong` is the number of wrong submissions before this one.
pub fn diagnosis(lab: &Lab, answer: &Answer, looked: &[Looked], earlier_wrong: u32) -> Diagnosis {
    let truth = &lab.truth;
    let stage = answer.stage == truth.stage;
    let object = stage && names_object(truth, &answer.object);
    let mechanism = stage && answer.mechanism == truth.mechanism;
    let judged: Vec<(bool, String)> = looked.iter().map(|looked| judge_evidence(truth, looked)).collect();
    let proven = truth.evidence.is_empty() || judged.iter().any(|(counts, _)| *counts);
    let points = [
        (stage, STAGE_POINTS),
        (object, OBJECT_POINTS),
        (mechanism, MECHANISM_POINTS),
        (stage && proven, EVIDENCE_POINTS),
    ];
    let points: u32 = points.iter().filter(|(right, _)| *right).map(|(_, points)| points).sum();
    let ruling = rule(answer, stage, object, mechanism);
    Diagnosis {
        ruling,
        points: points.saturating_sub(WRONG_SUBMISSION_COSTS * earlier_wrong),
        evidence: judged.into_iter().map(|(_, text)| text).collect(),
    }
}
// ANCHOR_END: grade-diagnosis

fn rule(answer: &Answer, stage: bool, object: bool, mechanism: bool) -> Ruling {
    let name = stage_name(answer.stage);
    let values: Values<'_> = &[
        ("stage", &answer.stage),
        ("name", &name),
        ("object", &answer.object),
        ("mechanism", &answer.mechanism),
    ];
    match (stage, object, mechanism) {
        (false, ..) if answer.stage == 0 => Ruling::new(Verdict::WrongStage, "verdict.not-healthy", values),
        (false, ..) => Ruling::new(Verdict::WrongStage, "verdict.wrong-stage", values),
        (true, false, _) => Ruling::new(Verdict::WrongObject, "verdict.wrong-object", values),
        (true, true, false) => Ruling::new(Verdict::WrongMechanism, "verdict.wrong-mechanism", values),
        (true, true, true) if answer.stage == 0 => Ruling::new(Verdict::Pass, "verdict.healthy", values),
        (true, true, true) => Ruling::new(Verdict::Pass, "verdict.right", values),
    }
}

/// Names compare without case in the kind; `component/` may be left out of a component's name.
fn names_object(truth: &Truth, object: &str) -> bool {
    let canonical = |name: &str| match name.split_once('/') {
        Some((kind, name)) => format!("{}/{name}", kind.to_lowercase()),
        None => name.to_lowercase(),
    };
    let object = canonical(object);
    truth.objects.iter().any(|known| {
        let known = canonical(known);
        matches(&known, &object) || known.strip_prefix("component/").is_some_and(|name| name == object)
    })
}

fn judge_evidence(truth: &Truth, looked: &Looked) -> (bool, String) {
    let Evidence { subject, path, value } = &looked.evidence;
    let shown = format!("{subject} {path}={value}");
    if looked.found.is_empty() {
        return (false, say("evidence.nothing", &[("shown", &shown)]));
    }
    if !looked.found.iter().any(|found| !value.is_empty() && found.contains(value.as_str())) {
        return (false, say("evidence.other", &[("shown", &shown), ("found", &looked.found.join(" | "))]));
    }
    let proves = |key: &EvidenceKey| {
        (matches(&key.subject.to_lowercase(), &subject.to_lowercase())
            || matches(&subject.to_lowercase(), &key.subject.to_lowercase()))
            && key.path == *path
            && looked.found.iter().any(|found| matches(&key.matches, found) && found.contains(value.as_str()))
    };
    match truth.evidence.iter().any(proves) {
        true => (true, say("evidence.proves", &[("shown", &shown)])),
        false => (false, say("evidence.symptom", &[("shown", &shown)])),
    }
}

/// Grades a repair: guards first, then the symptom, the outcome, and what had to stay.
pub fn repair(tripped: &[String], broken: &Seen, repaired: &Seen, lost: &[(String, Seen)]) -> Ruling {
    if let Some(why) = tripped.first() {
        Ruling { verdict: Verdict::GuardTripped, text: why.clone() }
    } else if !repaired.holds && broken.holds {
        Ruling::new(Verdict::StillBroken, "repair.symptom", &[("seen", &broken.text)])
    } else if !repaired.holds {
        Ruling::new(Verdict::StillBroken, "repair.not-yet", &[("seen", &repaired.text)])
    } else if let Some((why, seen)) = lost.first() {
        Ruling::new(Verdict::RightCauseWrongFix, "repair.lost", &[("why", why), ("seen", &seen.text)])
    } else {
        Ruling::new(Verdict::Pass, "repair.done", &[("seen", &repaired.text)])
    }
}

#[cfg(test)]
mod tests;
