//! Ranking: causes before consequences, and what rules out the other stages.
//!
//! *Beside a pod's journey.* Before: every rule said what it found. After: [`super::report`] shows a few causes, each with what
//! follows from it.
//!
//! One fault shows in many places: a wrong image leaves a pod waiting, a Deployment unavailable, a rollout stuck and a Service
//! without endpoints. A rule says itself which others can explain it ([`super::rule::Explained`]); a finding is a consequence when one
//! of those fired about an object that it shares. Two causes stay two causes: faults come in pairs more often than one thinks.
//!
//! # Invariants
//! 1. No finding is lost: each is a cause, or a consequence of exactly one cause.
//! 2. A cause comes before a warning, an earlier stage before a later one.
//!
//! # In Kubernetes
//! No counterpart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::container::containers;
use super::facts::{Facts, has_condition};
use super::finding::{Finding, ObjectRef, RuledOut};
use super::rule::{Explained, Rule};
use crate::journey::Stage;
use crate::object::Object;

/// What one rule found, and what follows from it.
#[derive(Debug, Clone)]
pub struct Diagnosis {
    /// The rule.
    pub rule: &'static Rule,
    /// What it found.
    pub finding: Finding,
    /// What follows from it.
    pub consequences: Vec<(&'static Rule, Finding)>,
}

/// The same trouble of several pods of one template is one finding.
const MAX_EVIDENCE: usize = 8;

// ANCHOR: rank
/// Sorts findings into causes with their consequences.
#[must_use]
pub fn rank(facts: &Facts, found: Vec<(&'static Rule, Finding)>) -> Vec<Diagnosis> {
    let mut found = merge(found);
    found.sort_by(|(a, x), (b, y)| {
        let key = |rule: &Rule, finding: &Finding| {
            (std::cmp::Reverse(finding.severity), rule.stage, finding.object.clone())
        };
        key(a, x).cmp(&key(b, y))
    });
    let families: Vec<BTreeSet<ObjectRef>> =
        found.iter().map(|(_, finding)| family(facts, finding)).collect();
    let cause_of = |at: usize| {
        let (rule, finding) = &found[at];
        (0..found.len()).find(|other| {
            *other != at && explains(found[*other].0, rule) && !finding.affects.is_disjoint(&families[*other])
        })
    };
    // A chain of causes ends at one that nothing explains; the relation has no cycles (tested on the rules).
    let root_of = |at: usize| {
        std::iter::successors(Some(at), |at| cause_of(*at)).take(found.len()).last().unwrap_or(at)
    };
    let mut diagnoses: BTreeMap<usize, Diagnosis> = BTreeMap::new();
    for (at, (rule, finding)) in found.iter().enumerate() {
        if root_of(at) == at {
            let mut finding = finding.clone();
            rule_out(facts, rule.stage, &mut finding);
            diagnoses.insert(at, Diagnosis { rule, finding, consequences: Vec::new() });
        }
    }
    for (at, one) in found.iter().enumerate() {
        let root = root_of(at);
        if root != at
            && let Some(diagnosis) = diagnoses.get_mut(&root)
        {
            diagnosis.consequences.push(one.clone());
        }
    }
    diagnoses.into_values().collect()
}
// ANCHOR_END: rank

/// Whether a finding of one rule can be the cause of one of another.
#[must_use]
pub fn explains(cause: &Rule, consequence: &Rule) -> bool {
    match consequence.explained {
        Explained::Never => false,
        Explained::By(rules) => rules.contains(&cause.id),
        Explained::ByAnyCause => cause.explained != Explained::ByAnyCause,
    }
}

fn merge(found: Vec<(&'static Rule, Finding)>) -> Vec<(&'static Rule, Finding)> {
    let mut merged: BTreeMap<(&str, ObjectRef, String), (&'static Rule, Finding)> = BTreeMap::new();
    for (rule, finding) in found {
        let key = (rule.id, finding.object.clone(), finding.field.clone());
        match merged.get_mut(&key) {
            None => drop(merged.insert(key, (rule, finding))),
            Some((_, first)) => {
                first.affects.extend(finding.affects);
                first.severity = first.severity.max(finding.severity);
                let new: Vec<_> =
                    finding.evidence.into_iter().filter(|one| !first.evidence.contains(one)).collect();
                let room = MAX_EVIDENCE.saturating_sub(first.evidence.len());
                first.evidence.extend(new.into_iter().take(room));
            }
        }
    }
    merged.into_values().collect()
}

/// Everything that suffers from a finding: its objects, what stands above them, and the Services in front.
fn family(facts: &Facts, finding: &Finding) -> BTreeSet<ObjectRef> {
    let mut family = finding.affects.clone();
    for one in &finding.affects {
        let Some(object) = facts.find(&one.kind, &one.namespace, &one.name) else { continue };
        family.extend(facts.owners(object).into_iter().map(ObjectRef::of));
        let mut below = vec![object];
        while let Some(owner) = below.pop() {
            for kind in ["ReplicaSet", "Job", "Pod"] {
                for child in facts.children(owner, kind) {
                    family.insert(ObjectRef::of(child));
                    below.push(child);
                }
            }
        }
    }
    let pods = family
        .iter()
        .filter(|one| one.kind == "Pod")
        .filter_map(|one| facts.find("Pod", &one.namespace, &one.name));
    let templates = family.iter().filter_map(|one| {
        let owner = facts.find(&one.kind, &one.namespace, &one.name)?;
        Some((owner, owner.string_map(&format!("{}/metadata/labels", super::facts::template_at(owner)?))))
    });
    let services: Vec<ObjectRef> = pods
        .map(|pod| (pod, pod.labels()))
        .chain(templates)
        .flat_map(|(object, labels)| {
            let same = |service: &&Object| {
                service.namespace() == object.namespace() && super::facts::selects(service, &labels)
            };
            facts.all("Service").iter().filter(same).map(ObjectRef::of).collect::<Vec<_>>()
        })
        .collect();
    family.extend(services);
    family
}

/// What proves that the stages before this one did their part.
fn rule_out(facts: &Facts, stage: Stage, finding: &mut Finding) {
    let said: BTreeSet<Stage> = finding.ruled_out.iter().map(|one| one.stage).collect();
    let mut proofs: Vec<(Stage, String)> = Vec::new();
    if facts.trouble.is_none() {
        proofs.push((Stage::Kubectl, "the server answered, and knows who asked".into()));
    }
    let objects: Vec<&Object> =
        finding.affects.iter().filter_map(|one| facts.find(&one.kind, &one.namespace, &one.name)).collect();
    if let Some(object) = objects.iter().find(|object| !object.uid().is_empty()) {
        proofs.push((Stage::ApiServer, format!("{} is stored, uid {}", ObjectRef::of(object), object.uid())));
    }
    if let Some(pod) = objects.iter().find(|object| object.kind() == "Pod") {
        proofs.extend(pod_proofs(facts, pod));
    }
    let fits = |(one, _): &(Stage, String)| *one < stage && !said.contains(one);
    let new = proofs.into_iter().filter(fits).map(|(stage, because)| RuledOut { stage, because });
    finding.ruled_out.extend(new.collect::<Vec<_>>());
    finding.ruled_out.sort_by_key(|one| one.stage);
}

fn pod_proofs(facts: &Facts, pod: &Object) -> Vec<(Stage, String)> {
    let mut proofs = Vec::new();
    match facts.owner(pod) {
        Some(owner) => proofs.push((Stage::Controllers, format!("{} made the pod", ObjectRef::of(owner)))),
        None if pod.owner_references().is_empty() => {
            proofs.push((Stage::Controllers, "a bare pod needs no controller".into()));
        }
        None => {}
    }
    if let Some(node) = pod.get_str("/spec/nodeName").filter(|node| !node.is_empty()) {
        let by = if has_condition(pod, "PodScheduled", "True") {
            "PodScheduled is True"
        } else {
            "spec.nodeName is set"
        };
        proofs.push((Stage::Scheduler, format!("bound to {node}: {by}")));
    }
    let all = containers(pod);
    let running = all.iter().filter(|one| !one.is_init && one.is_running()).count();
    let wanted = all.iter().filter(|one| !one.is_init).count();
    if wanted > 0 && running == wanted {
        let ready = pod.get("/status/conditions").and_then(Value::as_array).is_some()
            && has_condition(pod, "Ready", "True");
        let ready = if ready { ", and the pod is Ready" } else { "" };
        proofs
            .push((Stage::Kubelet, format!("{running} of {wanted} containers of {} run{ready}", pod.name())));
    }
    proofs
}
