//! The journal: the recorded steps, found by object.
//!
//! *All six steps of a pod's journey.* Before: [`super::tail`] read a step. After: [`super::lanes`] asks for those of one object and of its
//! relatives.
//!
//! Steps name objects, not relations. But their reasons do: a pod is created because "ReplicaSet web-5d4 has 0 of 3 pods", a slice is written
//! because so many pods "stand behind Service web". From these words the journal learns who made whom and which Services reach a pod,
//! without asking a cluster: so a recording can be replayed, and a broken cluster can be looked at.
//!
//! # Invariants
//! 1. Taking in a step costs the same however many there are; so does the list of objects, which is kept in order and not sorted.
//! 2. Memory is bounded: beyond [`MAX_STEPS`] the older half is forgotten.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; `ownerReferences` say the first half of it.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde::Serialize;
use stage1_kubectl::journey::{Stage, Step};

/// More steps than these are not kept.
pub const MAX_STEPS: usize = 200_000;
/// Objects in a list.
pub const MAX_LISTED: usize = 300;
/// Kinds that only tell of others.
const NOISE: [&str; 2] = ["Event", "Lease"];
/// Kinds that make others.
const OWNERS: [&str; 8] = [
    "Deployment",
    "ReplicaSet",
    "StatefulSet",
    "DaemonSet",
    "Job",
    "CronJob",
    "ReplicationController",
    "Service",
];
/// Deployment → ReplicaSet → Pod is three; more is a circle of names.
const MAX_OWNERS: usize = 5;

/// The steps.
#[derive(Debug, Default)]
pub struct Journal {
    steps: Vec<Arc<Step>>,
    objects: HashMap<String, Known>,
    /// The objects that a list shows, by the beginning of their present life.
    order: BTreeSet<(i64, String)>,
    /// Counts births and deaths: what a list depends on.
    version: u64,
}

/// What is known of an object.
#[derive(Debug, Default)]
struct Known {
    steps: Vec<usize>,
    /// Where in `steps` its present life begins: a name may be used again after a deletion.
    born: usize,
    /// When that was; until then it was only named by others.
    born_at_micros: Option<i64>,
    ended: bool,
    owner: Option<String>,
    children: BTreeSet<String>,
    services: BTreeSet<String>,
}

/// An object in the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// `Pod default/web-0`.
    pub object: String,
    /// When its life began.
    pub born_at_micros: i64,
    /// Whether it is deleted.
    pub ended: bool,
}

/// The kind in an object's name.
#[must_use]
pub fn kind(object: &str) -> &str {
    object.split_once(' ').map_or(object, |(kind, _)| kind)
}

/// Whether objects of this kind make others.
#[must_use]
pub fn is_maker(kind: &str) -> bool {
    OWNERS.contains(&kind)
}

fn beside(object: &str, kind: &str, name: &str) -> String {
    let namespace = object.split_once(' ').and_then(|(_, name)| name.rsplit_once('/')).map(|(ns, _)| ns);
    stage1_kubectl::journey::object_name(kind, namespace, name)
}

/// The maker that a reason names: `ReplicaSet web-5d4 has 0 of 3 pods`.
fn maker(why: &str) -> Option<(&str, &str)> {
    let words: Vec<&str> = why.split_whitespace().collect();
    let pair = words.windows(2).find(|pair| OWNERS.contains(&pair[0]))?;
    Some((pair[0], pair[1].trim_end_matches([',', ':', ';', '.'])))
}

/// The pods that a slice's reason calls ready: `2 endpoints stand behind Service web, ready: web-a, web-b`.
fn ready_pods(why: &str) -> impl Iterator<Item = &str> {
    why.split_once(", ready: ").map_or("", |(_, names)| names).split(", ").filter(|name| !name.is_empty())
}

impl Journal {
    /// Takes in a step.
    pub fn push(&mut self, step: Step) {
        if self.steps.len() >= MAX_STEPS {
            let kept = self.steps.split_off(MAX_STEPS / 2);
            *self = Self { version: self.version + 1, ..Self::default() };
            kept.into_iter().for_each(|step| self.take_in(step));
        }
        self.take_in(Arc::new(step));
    }

    fn take_in(&mut self, step: Arc<Step>) {
        let at = self.steps.len();
        let known = self.objects.entry(step.object.clone()).or_default();
        let deleted = step.stage == Stage::ApiServer && step.decided == "deleted";
        // The same name again: another object. Late words of controllers and kubelets about the old one don't revive it.
        let again = known.ended && step.decided.starts_with("committed ");
        if again {
            (known.born, known.ended, known.owner) = (known.steps.len(), false, None);
            known.services.clear();
            known.children.clear();
        }
        self.version += u64::from(again || (deleted && !known.ended));
        known.ended |= deleted;
        known.steps.push(at);
        // Steps of several programs may come a little out of order: the earliest counts.
        let before = known.born_at_micros;
        let now =
            if again { step.at_micros } else { before.map_or(step.at_micros, |at| at.min(step.at_micros)) };
        known.born_at_micros = Some(now);
        if before != Some(now) && !NOISE.contains(&kind(&step.object)) {
            before.map(|before| self.order.remove(&(before, step.object.clone())));
            self.order.insert((now, step.object.clone()));
            self.version += 1;
        }
        if step.stage == Stage::Controllers {
            self.relate(&step);
        }
        self.steps.push(step);
    }

    fn relate(&mut self, step: &Step) {
        let Some((kind_of_maker, name)) = maker(&step.why) else { return };
        let maker = beside(&step.object, kind_of_maker, name);
        if kind(&step.object) == "EndpointSlice" {
            for pod in ready_pods(&step.why) {
                let pod = beside(&step.object, "Pod", pod);
                self.objects.entry(maker.clone()).or_default().children.insert(pod.clone());
                self.objects.entry(pod).or_default().services.insert(maker.clone());
            }
        }
        if step.decided.ends_with(" created") && maker != step.object {
            self.objects.entry(maker.clone()).or_default().children.insert(step.object.clone());
            self.objects.entry(step.object.clone()).or_default().owner = Some(maker);
        }
    }

    /// How many steps.
    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// The first steps of this journal, as if no more had happened.
    #[must_use]
    pub fn first(&self, count: usize) -> Journal {
        let mut journal = Journal::default();
        self.steps.iter().take(count).for_each(|step| journal.take_in(step.clone()));
        journal
    }

    /// Every step, oldest first.
    pub fn steps(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().map(AsRef::as_ref)
    }

    fn life(&self, known: &Known) -> impl Iterator<Item = &Step> {
        known.steps[known.born.min(known.steps.len())..].iter().map(|at| &*self.steps[*at])
    }

    /// The steps of an object's present life.
    #[must_use]
    pub fn of(&self, object: &str) -> Vec<Step> {
        self.objects.get(object).map(|known| self.life(known).cloned().collect()).unwrap_or_default()
    }

    /// Whether an object is deleted.
    #[must_use]
    pub fn ended(&self, object: &str) -> bool {
        self.objects.get(object).is_some_and(|known| known.ended)
    }

    /// Who made it, and who made that: `ReplicaSet default/web-5d4`, `Deployment default/web`.
    #[must_use]
    pub fn owners(&self, object: &str) -> Vec<String> {
        let above = |object: &String| self.objects.get(object)?.owner.clone();
        std::iter::successors(Some(object.to_owned()), above).skip(1).take(MAX_OWNERS).collect()
    }

    /// What it made.
    #[must_use]
    pub fn children(&self, object: &str) -> Vec<String> {
        self.objects.get(object).map(|known| known.children.iter().cloned().collect()).unwrap_or_default()
    }

    /// The Services that have sent it traffic.
    #[must_use]
    pub fn services(&self, object: &str) -> Vec<String> {
        self.objects.get(object).map(|known| known.services.iter().cloned().collect()).unwrap_or_default()
    }

    /// Changes when a list does.
    #[must_use]
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The objects, newest first.
    #[must_use]
    pub fn listed(&self) -> Vec<Listed> {
        let newest = self.order.iter().rev().take(MAX_LISTED);
        newest
            .map(|(born_at_micros, object)| Listed {
                object: object.clone(),
                born_at_micros: *born_at_micros,
                ended: self.ended(object),
            })
            .collect()
    }
}

/// What a reader sees first: the newest pod that lives, else the newest Deployment, else the newest of all.
#[must_use]
pub fn first_choice(listed: &[Listed]) -> Option<&Listed> {
    let newest = |wanted: &str| listed.iter().find(|one| kind(&one.object) == wanted && !one.ended);
    newest("Pod").or_else(|| newest("Deployment")).or(listed.first())
}

#[cfg(test)]
pub(in crate::page) mod tests;
