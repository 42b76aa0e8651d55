//! Harness: the promises that every controller must keep, tested the same way for all.
//!
//! A controller is run to its fixpoint in a quiet world; that state is the reference. Then the same life is lived again with a random order of keys,
//! crashes between any two actions, copies that lag behind, and a kubelet that does several things between two looks. Each life must end in the same state.
//! On the way, each action is checked: it may touch only what the controller owns or may adopt, and an owner that is being deleted may make nothing.
//!
//! # In Kubernetes
//! The three classes of bugs are those of "Automatic Reliability Testing for Cluster Management Controllers" (Sieve, OSDI 2022).

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use super::{Cluster, Decide, Refused};
use crate::action::Action;
use crate::indexer::NamespacedName;
use crate::informer::factory::InformerFactory;

/// What the harness must know of a controller.
pub struct Subject {
    /// Makes it, on these stores.
    pub make: fn(&InformerFactory) -> Box<dyn Decide>,
    /// Plural of the kind whose keys it works on.
    pub primary: &'static str,
    /// Makes the world that it finds.
    pub set_up: fn(&mut Cluster),
    /// What others (kubelet, other controllers) do between two looks.
    pub others: fn(&mut Cluster),
    /// The part of the state that must come out the same.
    pub summary: fn(&Cluster) -> String,
}

/// Random numbers that a seed fixes (xorshift).
pub struct Dice(u64);

impl Dice {
    /// Dice for a seed.
    pub fn new(seed: u64) -> Dice {
        Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }
    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit.max(1) as u64) as usize
    }
}

/// One process of the controller, with its copies.
pub struct Process {
    factory: InformerFactory,
    controller: Box<dyn Decide>,
    /// Resources that a key wrote to: it waits until their copies are new.
    waits: BTreeMap<NamespacedName, BTreeSet<String>>,
}

impl Process {
    /// Starts it; its copies are complete.
    pub fn start(make: fn(&InformerFactory) -> Box<dyn Decide>, cluster: &Cluster) -> Process {
        let factory = InformerFactory::offline();
        let controller = make(&factory);
        let mut process = Process { factory, controller, waits: BTreeMap::new() };
        process.refresh(cluster, |_| true);
        process
    }

    /// Brings the copies of some resources up to date.
    pub fn refresh(&mut self, cluster: &Cluster, which: impl Fn(&str) -> bool) {
        for resource in self.factory.resources().into_iter().filter(|resource| which(resource)) {
            let objects: Vec<Value> = cluster.list(resource).map(|(_, object)| object.clone()).collect();
            self.factory.replace(resource, &objects, &cluster.revision.to_string());
            self.waits.values_mut().for_each(|waits| _ = waits.remove(resource));
        }
    }

    /// Looks at one key and does what was decided, at most `limit` actions. Returns how many wrote something.
    pub fn look(
        &mut self,
        cluster: &mut Cluster,
        key: &NamespacedName,
        limit: usize,
        check: &mut dyn FnMut(&Cluster, &Action),
    ) -> Result<usize, Refused> {
        if self.waits.get(key).is_some_and(|waits| !waits.is_empty()) {
            return Ok(0);
        }
        let mut writes = 0;
        for action in self.controller.decide(key, cluster.now).into_iter().take(limit) {
            check(cluster, &action);
            cluster.apply(&action)?;
            let resource = match &action {
                Action::Create { target, .. }
                | Action::Patch { target, .. }
                | Action::Delete { target, .. }
                | Action::UpdateStatus { target, .. } => &target.resource,
                Action::Record { .. } | Action::RequeueAfter(_) => continue,
            };
            writes += 1;
            self.waits.entry(key.clone()).or_default().insert(resource.clone());
        }
        Ok(writes)
    }
}

fn keys(cluster: &Cluster, resource: &str) -> Vec<NamespacedName> {
    cluster.list(resource).map(|(key, _)| key.clone()).collect()
}

/// Runs the controller in a quiet world until nothing changes any more.
pub fn settle(subject: &Subject, cluster: &mut Cluster) {
    let mut process = Process::start(subject.make, cluster);
    for _ in 0..300 {
        let before = cluster.revision;
        for key in keys(cluster, subject.primary) {
            process.refresh(cluster, |_| true);
            process
                .look(cluster, &key, usize::MAX, &mut |cluster, action| {
                    touches_only_its_own(subject, cluster, action)
                })
                .unwrap();
        }
        (subject.others)(cluster);
        if cluster.revision == before {
            return;
        }
        cluster.wait(1);
    }
    panic!("no fixpoint: {}", (subject.summary)(cluster));
}

/// An action's target must be the controller's own kind, something it controls, or something nobody controls.
fn touches_only_its_own(subject: &Subject, cluster: &Cluster, action: &Action) {
    let controller_uid = |object: &Value| {
        let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
        owners
            .iter()
            .find(|owner| owner["controller"] == true)
            .and_then(|owner| owner["uid"].as_str().map(str::to_owned))
    };
    let is_ours =
        |uid: &str| cluster.list(subject.primary).any(|(_, object)| object["metadata"]["uid"] == uid);
    match action {
        Action::Create { object, .. } => {
            let uid = controller_uid(object);
            assert!(uid.as_deref().is_none_or(is_ours), "made something for a stranger: {action:?}");
            let owner = cluster
                .list(subject.primary)
                .find(|(_, owner)| owner["metadata"]["uid"].as_str() == uid.as_deref());
            let deleting = owner.is_some_and(|(_, owner)| owner["metadata"]["deletionTimestamp"].is_string());
            assert!(!deleting, "an owner that is being deleted made something: {action:?}");
        }
        Action::Patch { target, .. }
        | Action::Delete { target, .. }
        | Action::UpdateStatus { target, .. } => {
            let Some(object) =
                cluster.get(&target.resource, &target.key).filter(|_| target.resource != subject.primary)
            else {
                return;
            };
            assert!(
                controller_uid(object).as_deref().is_none_or(is_ours),
                "touched a stranger's object: {action:?}"
            );
        }
        Action::Record { .. } | Action::RequeueAfter(_) => {}
    }
}

/// One life with crashes, stale copies, random order and bursts; it must end as the quiet one.
fn troubled_life(subject: &Subject, reference: &str, seed: u64) {
    let mut dice = Dice::new(seed);
    let mut cluster = Cluster::new();
    (subject.set_up)(&mut cluster);
    let mut process = Process::start(subject.make, &cluster);
    for _ in 0..120 {
        match dice.below(10) {
            0 => process = Process::start(subject.make, &cluster),
            1 | 2 => (subject.others)(&mut cluster),
            3 => cluster.wait(1),
            4 => {
                let lucky = dice.below(2);
                process.refresh(&cluster, |resource| resource.len() % 2 == lucky);
            }
            5 => process.refresh(&cluster, |_| true),
            _ => {
                let all = keys(&cluster, subject.primary);
                if all.is_empty() {
                    continue;
                }
                let key = all[dice.below(all.len())].clone();
                let limit = 1 + dice.below(6);
                let crashes = dice.below(3) == 0;
                let limit = if crashes { limit } else { usize::MAX };
                // A refusal (conflict of a stale copy) ends the decision, as it does in the runner.
                let _ = process.look(&mut cluster, &key, limit, &mut |cluster, action| {
                    touches_only_its_own(subject, cluster, action)
                });
                if crashes {
                    process = Process::start(subject.make, &cluster);
                }
            }
        }
    }
    settle(subject, &mut cluster);
    assert_eq!((subject.summary)(&cluster), reference, "seed {seed}");
}

/// Checks every promise; prints the seed of a life that went wrong.
pub fn check(subject: &Subject) {
    let mut cluster = Cluster::new();
    (subject.set_up)(&mut cluster);
    settle(subject, &mut cluster);
    let reference = (subject.summary)(&cluster);
    for seed in 1..=25 {
        troubled_life(subject, &reference, seed);
    }
    deleted_makes_nothing(subject);
}

/// With every primary object being deleted (held by a finalizer), nothing may be made.
fn deleted_makes_nothing(subject: &Subject) {
    let mut cluster = Cluster::new();
    (subject.set_up)(&mut cluster);
    for key in keys(&cluster, subject.primary) {
        cluster.change(subject.primary, &key, |object| {
            object["metadata"]["finalizers"] = serde_json::json!(["example.com/hold"])
        });
        cluster.delete(subject.primary, &key, false);
    }
    let mut process = Process::start(subject.make, &cluster);
    for key in keys(&cluster, subject.primary) {
        let mut nothing_made = |_: &Cluster, action: &Action| {
            assert!(!matches!(action, Action::Create { .. }), "made while being deleted: {action:?}")
        };
        process.look(&mut cluster, &key, usize::MAX, &mut nothing_made).unwrap();
    }
}
