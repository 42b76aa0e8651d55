//! Lanes: one object's journey, a lane for each stage, and what a lane without steps means.
//!
//! *All six steps of a pod's journey, side by side.* Before: [`super::journal`] found the steps. After: the page draws six lanes.
//!
//! A gap is the most useful thing on the page, and not every gap is a fault: stock kubectl reports nothing, a bare pod has no
//! controller, the kubelet's turn comes only after the scheduler's. So each lane has a state, and one lane at most is the *next hop*:
//! the first stage that should have done its part and has not. It is found in the steps alone, so that it works for a
//! recording, and while the API server is down. (`kubectl journey` asks the pod itself instead, and so knows pods of any cluster.)
//!
//! # Invariants
//! 1. There are six lanes, in the order of the stages.
//! 2. No lane behind the next hop is blamed: its turn has not come.
//! 3. What a lane says is a key of the page's texts, never a text.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; a pod's conditions (`PodScheduled`, `Initialized`, `Ready`) say a part of it.

use serde::Serialize;
use stage1_kubectl::journey::digest::{Cast, digest, select};
use stage1_kubectl::journey::{Stage, Step};

use super::journal::{Journal, kind};

/// How a stage stands to an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It has done its part.
    Done,
    /// It is at it.
    Working,
    /// It has said no.
    Refused,
    /// It should have acted and has not.
    Missing,
    /// It may have acted without telling.
    Silent,
    /// It isn't needed for this object.
    Passed,
    /// Its turn has not come.
    Ahead,
    /// The object ended before its turn came.
    Ended,
    /// What it does is told in the journeys of the objects that this one made.
    Elsewhere,
}

/// One lane.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// 1 to 6.
    pub stage: u8,
    /// How the stage stands to the object.
    pub state: State,
    /// Key of the text that says so; none when the steps say all.
    pub says: Option<&'static str>,
    /// What it decided, in the order of time.
    pub steps: Vec<Shown>,
}

/// A step as it is shown.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Shown {
    /// About whom: the object itself, its owner, its Service.
    pub object: String,
    /// What was decided.
    pub decided: String,
    /// Why.
    pub why: String,
    /// When, in microseconds since 1970.
    pub at_micros: i64,
    /// When, in microseconds since the journey's first step.
    pub since_micros: i64,
    /// Where in the source.
    pub source: String,
    /// How often it was told.
    pub times: usize,
    /// When it was told last, since the journey's first step.
    pub last_since_micros: i64,
}

/// One object's journey.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Journey {
    /// The object.
    pub object: String,
    /// Its lanes.
    pub lanes: Vec<Lane>,
    /// The stage that is waited for.
    pub next: Option<u8>,
    /// Who made it, nearest first.
    pub owners: Vec<String>,
    /// What it made, or (of a Service) whom it reaches.
    pub children: Vec<String>,
    /// The Services that reach it.
    pub services: Vec<String>,
    /// Whether it is deleted.
    pub ended: bool,
}

const STAGES: [Stage; 6] =
    [Stage::Kubectl, Stage::ApiServer, Stage::Controllers, Stage::Scheduler, Stage::Kubelet, Stage::Proxy];

/// Draws an object's journey from what is recorded.
#[must_use]
pub fn journey(journal: &Journal, object: &str) -> Journey {
    let steps = match kind(object) {
        "Pod" => pod_steps(journal, object),
        _ => other_steps(journal, object),
    };
    let ended = journal.ended(object);
    let (children, owners) = (journal.children(object), journal.owners(object));
    let states: [(State, Option<&'static str>); 6] = match kind(object) {
        "Pod" => pod_states(&Facts::of(&steps, object, ended)),
        _ => other_states(&steps, kind(object), ended, !children.is_empty()),
    };
    let waits = |state: State| matches!(state, State::Missing | State::Refused | State::Working);
    let next = states.iter().position(|(state, _)| waits(*state)).map(|at| at as u8 + 1);
    let told = digest(&steps);
    let start = told.first().map_or(0, |one| one.step.at_micros);
    let shown = |stage: Stage| {
        let of_stage = told.iter().filter(move |one| one.step.stage == stage);
        of_stage.map(|one| Shown {
            object: one.step.object.clone(),
            decided: one.step.decided.clone(),
            why: one.step.why.clone(),
            at_micros: one.step.at_micros,
            since_micros: one.step.at_micros - start,
            source: one.step.source.clone(),
            times: one.times,
            last_since_micros: one.last_at_micros - start,
        })
    };
    let lanes = STAGES.iter().zip(states).map(|(stage, (state, says))| Lane {
        stage: u8::from(*stage),
        state,
        says,
        steps: shown(*stage).collect(),
    });
    let (lanes, services) = (lanes.collect(), journal.services(object));
    Journey { object: object.to_owned(), lanes, next, owners, children, services, ended }
}

/// A pod's own steps, those of its owners before it was made, and what the proxies did for its Services since.
pub(super) fn pod_steps(journal: &Journal, pod: &str) -> Vec<Step> {
    let own = journal.of(pod);
    let (owners, services) = (journal.owners(pod), journal.services(pod));
    let Some(created_micros) = own.iter().map(|step| step.at_micros).min() else { return Vec::new() };
    let others = owners.iter().chain(&services).flat_map(|object| journal.of(object));
    let recorded: Vec<Step> = others.chain(own).collect();
    select(&Cast { pod: pod.to_owned(), created_micros, owners, services }, &recorded, &[])
}

/// An object's own steps, and what controllers made or removed on its behalf.
fn other_steps(journal: &Journal, object: &str) -> Vec<Step> {
    let own = journal.of(object);
    let made = journal.children(object).into_iter().flat_map(|child| journal.of(&child));
    let mut steps: Vec<Step> =
        own.into_iter().chain(made.filter(|step| step.stage == Stage::Controllers)).collect();
    steps.sort_by_key(|step| (step.at_micros, step.stage));
    steps
}

/// What a pod's steps prove.
#[derive(Debug, Default)]
struct Facts {
    seen: [bool; 7],
    stored: bool,
    bound: bool,
    no_node: bool,
    runs: bool,
    failed: bool,
    reachable: bool,
    over: bool,
}

impl Facts {
    fn of(steps: &[Step], pod: &str, deleted: bool) -> Facts {
        let mut facts = Facts { over: deleted, ..Facts::default() };
        for step in steps {
            facts.seen[usize::from(u8::from(step.stage))] = true;
            let decided = step.decided.as_str();
            match step.stage {
                Stage::ApiServer if step.object == pod => facts.stored |= decided.starts_with("committed "),
                Stage::Scheduler if decided.starts_with("no node can take") => facts.no_node = true,
                Stage::Scheduler if decided.starts_with("bound to") || decided.starts_with("binding to") => {
                    (facts.bound, facts.no_node) = (true, false);
                }
                Stage::Kubelet => facts.kubelet(decided),
                Stage::Proxy if decided.contains("programmed") => {
                    facts.reachable = !decided.starts_with("0 ");
                }
                _ => {}
            }
        }
        facts
    }

    fn kubelet(&mut self, decided: &str) {
        match decided {
            "Running" | "Succeeded" => (self.runs, self.failed) = (true, false),
            "Failed" | "rejected" => self.failed = true,
            _ if decided.starts_with("started container") => self.runs = true,
            _ => {}
        }
        self.over |= matches!(decided, "Succeeded" | "Failed" | "rejected");
    }
}

// ANCHOR: pod-lanes
/// How each stage stands to a pod. From left to right: once a stage is waited for, the later ones' turn has not come.
fn pod_states(facts: &Facts) -> [(State, Option<&'static str>); 6] {
    use State::{Ahead, Done, Ended, Missing, Passed, Refused, Silent, Working};
    let seen = |stage: usize| facts.seen[stage];
    let later = (2..=6).rev().find(|stage| seen(*stage)).unwrap_or(0);
    let kubectl = if seen(1) { (Done, None) } else { (Silent, Some("silent.kubectl")) };
    let api_server = match facts.stored {
        true => (Done, None),
        false if later > 2 => (Silent, Some("silent.apiserver")),
        false => (Missing, Some("missing.apiserver")),
    };
    let controllers = match seen(3) {
        true => (Done, None),
        false if facts.stored => (Passed, Some("passed.controllers")),
        false => (Ahead, Some("ahead")),
    };
    let scheduler = match (facts.bound, facts.no_node) {
        (true, _) => (Done, None),
        (_, true) => (Refused, Some("refused.scheduler")),
        _ if seen(5) => (Passed, Some("passed.scheduler")),
        _ if seen(4) => (Working, Some("working.scheduler")),
        _ if !facts.stored => (Ahead, Some("ahead")),
        _ => (Missing, Some("missing.scheduler")),
    };
    let on_node = facts.bound || seen(5);
    let kubelet = match (facts.failed, facts.runs) {
        (true, _) => (Refused, Some("refused.kubelet")),
        (_, true) => (Done, None),
        _ if seen(5) => (Working, Some("working.kubelet")),
        _ if on_node => (Missing, Some("missing.kubelet")),
        _ => (Ahead, Some("ahead")),
    };
    let proxy = match (facts.reachable, facts.runs) {
        (true, _) => (Done, None),
        (_, true) if seen(6) => (Working, Some("working.proxy")),
        (_, true) => (Missing, Some("missing.proxy")),
        _ => (Ahead, Some("ahead")),
    };
    // Nobody is to blame for what a pod that is over didn't get.
    let closed = |(state, says): (State, Option<&'static str>)| match state {
        Missing | Ahead | Working if facts.over => (Ended, Some("ended")),
        _ => (state, says),
    };
    [kubectl, closed(api_server), controllers, closed(scheduler), closed(kubelet), closed(proxy)]
}
// ANCHOR_END: pod-lanes

/// How each stage stands to another object: controllers owe something to what makes others, the rest is told where it happens.
fn other_states(
    steps: &[Step],
    kind: &str,
    ended: bool,
    has_children: bool,
) -> [(State, Option<&'static str>); 6] {
    use State::{Done, Elsewhere, Ended, Missing, Passed, Silent};
    let seen = |stage: Stage| steps.iter().any(|step| step.stage == stage);
    let makes_pods = !matches!(kind, "Service") && super::journal::is_maker(kind);
    let rest = |stage: Stage| match seen(stage) {
        true => (Done, None),
        false if makes_pods && has_children => (Elsewhere, Some("elsewhere")),
        false => (Passed, Some("passed.other")),
    };
    let controllers = match seen(Stage::Controllers) {
        true => (Done, None),
        false if ended => (Ended, Some("ended")),
        false if super::journal::is_maker(kind) => (Missing, Some("missing.controllers")),
        false => (Passed, Some("passed.other")),
    };
    let proxy = match rest(Stage::Proxy) {
        (Passed, _) if kind == "Service" && !ended => (Missing, Some("missing.rules")),
        other => other,
    };
    [
        if seen(Stage::Kubectl) { (Done, None) } else { (Silent, Some("silent.kubectl")) },
        if seen(Stage::ApiServer) { (Done, None) } else { (Silent, Some("silent.apiserver")) },
        controllers,
        rest(Stage::Scheduler),
        rest(Stage::Kubelet),
        proxy,
    ]
}

#[cfg(test)]
mod tests;
