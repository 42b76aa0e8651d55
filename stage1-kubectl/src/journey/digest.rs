//! The digest: a journey short enough to read.
//!
//! *All steps of a pod's journey, seen from its end.* Before: steps were recorded by the stages, or told by the object's
//! [`super::trail`]. After: [`super::page`] writes them.
//!
//! A pod that lives for a day has thousands of steps, nearly all of them the same: the kubelet reports a status, the API
//! server stores it, a rule is written again. So what repeats is told once, with a count; what the API server says about
//! one write (who, allowed by what, stored as what) is told in full for the first write of an object and in one line for
//! the others; and steps that belong to an earlier pod of the same name, or to other pods of the same owner, are left out.
//!
//! # Invariants
//! 1. No stage that has a step loses all of them.
//! 2. What is left stands in the order of time.
//!
//! # In Kubernetes
//! No counterpart; events are counted in a similar way (`client-go/tools/record/events_cache.go`).

use std::collections::{BTreeMap, BTreeSet};

use super::{Stage, Step};

const SECOND_MICROS: i64 = 1_000_000;

/// A step, and how often it came.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    /// The first of them.
    pub step: Step,
    /// How many there were.
    pub times: usize,
    /// When the last of them came.
    pub last_at_micros: i64,
}

/// Whose steps are looked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cast {
    /// The pod: `Pod default/web-0`.
    pub pod: String,
    /// When the pod was made, in microseconds since 1970 (whole seconds).
    pub created_micros: i64,
    /// What made it: `ReplicaSet default/web-5d4`, `Deployment default/web`.
    pub owners: Vec<String>,
    /// The Services that send traffic to it.
    pub services: Vec<String>,
}

// ANCHOR: select-steps
/// The recorded steps that belong to this pod's journey, completed by the trail where a stage has recorded nothing.
#[must_use]
pub fn select(cast: &Cast, recorded: &[Step], trail: &[Step]) -> Vec<Step> {
    // A creation time is cut to the second, and the request was judged a moment before it.
    let (born, settled) = (cast.created_micros - SECOND_MICROS, cast.created_micros + SECOND_MICROS);
    let belongs = |step: &Step| {
        let of_pod = step.object == cast.pod && step.at_micros >= born;
        let of_owner = cast.owners.contains(&step.object) && step.at_micros < settled;
        let of_service =
            cast.services.contains(&step.object) && step.at_micros >= born && step.stage == Stage::Proxy;
        of_pod || of_owner || of_service
    };
    let mut steps: Vec<Step> = recorded.iter().filter(|step| belongs(step)).cloned().collect();
    steps.sort_by_key(|step| (step.at_micros, step.stage));
    let known: BTreeSet<Stage> = steps.iter().map(|step| step.stage).collect();
    let told = trail.iter().filter(|step| !known.contains(&step.stage)).map(|step| place(step, &steps));
    let told: Vec<Step> = told.collect();
    steps.extend(told);
    steps.sort_by_key(|step| (step.at_micros, step.stage));
    steps
}
// ANCHOR_END: select-steps

/// A step that is known to the second goes behind the earlier stages' steps of that second, or else before the later ones.
fn place(step: &Step, recorded: &[Step]) -> Step {
    let second = step.at_micros..step.at_micros + SECOND_MICROS;
    let within = || recorded.iter().filter(|other| second.contains(&other.at_micros));
    let before = within().filter(|other| other.stage < step.stage).map(|other| other.at_micros).max();
    let after = within().filter(|other| other.stage > step.stage).map(|other| other.at_micros).min();
    Step { at_micros: before.or(after).unwrap_or(step.at_micros), ..step.clone() }
}

/// Tells every step once.
#[must_use]
pub fn digest(steps: &[Step]) -> Vec<Told> {
    let mut ordered = fold_writes(steps);
    ordered.sort_by_key(|step| (step.at_micros, step.stage));
    let mut told: Vec<Told> = Vec::new();
    let mut seen: BTreeMap<(Stage, String, String, String), usize> = BTreeMap::new();
    for step in ordered {
        let key = (step.stage, step.object.clone(), without_digits(&step.decided), without_digits(&step.why));
        match seen.get(&key) {
            Some(at) => {
                told[*at].times += 1;
                told[*at].last_at_micros = step.at_micros;
            }
            None => {
                seen.insert(key, told.len());
                told.push(Told { times: 1, last_at_micros: step.at_micros, step });
            }
        }
    }
    told
}

/// Revisions, durations and counts differ between repetitions.
fn without_digits(text: &str) -> String {
    text.chars().filter(|c| !c.is_ascii_digit()).collect()
}

/// The API server tells three steps a write: who asked, what allowed it, what was stored. From an object's second write on
/// they become one.
fn fold_writes(steps: &[Step]) -> Vec<Step> {
    let mut ordered: Vec<&Step> = steps.iter().collect();
    ordered.sort_by_key(|step| (step.at_micros, step.stage));
    let mut writes: BTreeMap<&str, usize> = BTreeMap::new();
    let mut askers: BTreeMap<&str, &str> = BTreeMap::new();
    let mut kept = Vec::new();
    for step in ordered {
        if step.stage != Stage::ApiServer {
            kept.push(step.clone());
            continue;
        }
        let count = writes.entry(&step.object).or_default();
        let first = *count == 0;
        if let Some(user) = step.decided.strip_prefix("authenticated as ") {
            askers.insert(&step.object, user);
        }
        let committed = step.decided.starts_with("committed ");
        *count += usize::from(committed);
        let gate = step.decided.starts_with("authenticated as ") || step.decided == "authorised";
        match (first, gate, committed) {
            (false, true, _) => {}
            (false, _, true) => {
                let why = askers.get(step.object.as_str()).map(|user| format!("{user} asked for it"));
                kept.push(Step { why: why.unwrap_or_else(|| step.why.clone()), ..step.clone() });
            }
            _ => kept.push(step.clone()),
        }
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(stage: Stage, object: &str, at_micros: i64, decided: &str, why: &str) -> Step {
        let (object, decided, why) = (object.into(), decided.into(), why.into());
        Step { stage, object, decided, why, at_micros, source: String::new() }
    }

    fn cast() -> Cast {
        Cast {
            pod: "Pod d/p".into(),
            created_micros: 10 * SECOND_MICROS,
            owners: vec!["ReplicaSet d/r".into()],
            services: vec!["Service d/s".into()],
        }
    }

    #[test]
    fn steps_of_an_earlier_pod_with_the_same_name_are_left_out() {
        let old = step(Stage::Kubelet, "Pod d/p", 5 * SECOND_MICROS, "ran", "");
        let new = step(Stage::Kubelet, "Pod d/p", 11 * SECOND_MICROS, "ran", "");
        assert_eq!(select(&cast(), &[old, new.clone()], &[]), [new]);
    }

    #[test]
    fn a_stage_that_recorded_nothing_is_told_by_the_trail_behind_the_earlier_stages() {
        let bound = step(Stage::Scheduler, "Pod d/p", 10 * SECOND_MICROS + 300, "bound", "");
        let trail = [
            step(Stage::Scheduler, "Pod d/p", 10 * SECOND_MICROS, "bound to n", ""),
            step(Stage::Kubelet, "Pod d/p", 10 * SECOND_MICROS, "accepted", ""),
        ];
        let decided: Vec<String> =
            select(&cast(), &[bound], &trail).into_iter().map(|step| step.decided).collect();
        assert_eq!(decided, ["bound", "accepted"]);
    }

    #[test]
    fn what_repeats_is_told_once_and_later_writes_take_one_line() {
        let mut steps = Vec::new();
        for write in 0..50 {
            let at = write * 1000;
            let user = if write == 0 { "admin" } else { "system:node:n" };
            steps.push(step(
                Stage::ApiServer,
                "Pod d/p",
                at,
                &format!("authenticated as {user}"),
                "certificate",
            ));
            steps.push(step(Stage::ApiServer, "Pod d/p", at + 1, "authorised", "RBAC"));
            steps.push(step(
                Stage::ApiServer,
                "Pod d/p",
                at + 2,
                &format!("committed at revision {write}"),
                "gates",
            ));
        }
        let told = digest(&steps);
        let lines: Vec<(&str, usize)> =
            told.iter().map(|told| (told.step.why.as_str(), told.times)).collect();
        assert_eq!(
            lines,
            [("certificate", 1), ("RBAC", 1), ("gates", 1), ("system:node:n asked for it", 49)]
        );
        assert_eq!(told[3].last_at_micros, 49_002);
    }
}
