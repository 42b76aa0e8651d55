//! Lanes: a journey as a value, with the hop that is missing.
//!
//! *All steps of a pod's journey, seen from its end.* Before: [`super::digest`] chose the steps. After: [`super::page`] writes
//! them for a person, or a page draws them in six lanes.
//!
//! The most useful thing on such a picture is the gap: the first stage that has not done its part yet. It can't be read
//! from the steps alone, since a scheduler that says "no node fits" has left a step and has bound nothing. So the object itself is
//! asked: has it pods, a node, a start time, is it Ready?
//!
//! # Invariants
//! 1. There are always six lanes, in the order of the stages.
//! 2. The next hop names the earliest stage that has not done its part; none when all have.
//!
//! # In Kubernetes
//! No counterpart.

use serde_json::{Value, json};

use super::digest::{Told, digest};
use super::page::{sign, silence};
use super::{Stage, Step};
use crate::object::Object;

/// The version of the JSON form.
pub const API_VERSION: &str = "journey.six-stages/v1";

/// The six stages.
pub const STAGES: [Stage; 6] =
    [Stage::Kubectl, Stage::ApiServer, Stage::Controllers, Stage::Scheduler, Stage::Kubelet, Stage::Proxy];

/// One object's way through the six stages.
#[derive(Debug, Clone)]
pub struct Journey {
    /// The pod; or what should make pods, while there is none.
    pub object: Object,
    /// `Pod default/web-0`.
    pub title: String,
    /// Whether a controller made it.
    pub has_owner: bool,
    /// Its steps, in the order of time.
    pub steps: Vec<Step>,
}

/// The stage that has not done its part yet, and what that means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hop {
    /// The stage.
    pub stage: Stage,
    /// `nobody has bound this pod yet: stage ④`.
    pub text: String,
}

impl Journey {
    /// The first stage that has not done its part.
    #[must_use]
    pub fn next_hop(&self) -> Option<Hop> {
        let hop =
            |stage: Stage, text: &str| Some(Hop { stage, text: format!("{text}: stage {}", sign(stage)) });
        let pod = &self.object;
        if pod.kind() != "Pod" {
            return hop(Stage::Controllers, "no controller has made a pod yet");
        }
        if matches!(pod.get_str("/status/phase"), Some("Succeeded" | "Failed")) {
            return None;
        }
        if pod.get_str("/spec/nodeName").is_none_or(str::is_empty) {
            return hop(Stage::Scheduler, "nobody has bound this pod yet");
        }
        let started = pod.get_str("/status/startTime").is_some();
        if !started {
            return hop(Stage::Kubelet, "no kubelet has taken this pod yet");
        }
        let conditions = pod.get("/status/conditions").and_then(Value::as_array);
        let ready =
            conditions.into_iter().flatten().any(|one| one["type"] == "Ready" && one["status"] == "True");
        if !ready {
            return hop(Stage::Kubelet, "the kubelet hasn't reported this pod ready yet");
        }
        let reachable = self.steps.iter().any(|step| step.stage == Stage::Proxy);
        if reachable { None } else { hop(Stage::Proxy, "no Service sends traffic to this pod") }
    }

    /// The steps, each told once.
    #[must_use]
    pub fn told(&self) -> Vec<Told> {
        digest(&self.steps)
    }

    /// The journey as a value.
    #[must_use]
    pub fn to_value(&self) -> Value {
        let told = self.told();
        let next = self.next_hop();
        let lanes: Vec<Value> = STAGES
            .iter()
            .map(|stage| {
                let count = told.iter().filter(|one| one.step.stage == *stage).count();
                let missing = next.as_ref().filter(|hop| hop.stage == *stage).map(|hop| hop.text.clone());
                let state = match (count, &missing) {
                    (_, Some(_)) => "missing",
                    (0, None) if *stage == Stage::Controllers && !self.has_owner => "none",
                    (0, None) => "silent",
                    _ => "done",
                };
                let missing = missing.or_else(|| (count == 0).then(|| silence(*stage).to_owned()));
                json!({"stage": stage, "sign": sign(*stage).to_string(), "name": crate::why::report::stage_name(*stage),
                       "state": state, "missing": missing, "steps": count})
            })
            .collect();
        json!({
            "apiVersion": API_VERSION,
            "kind": "Journey",
            "title": self.title,
            "object": crate::why::ObjectRef::of(&self.object),
            "uid": self.object.uid(),
            "startedAtMicros": told.first().map(|one| one.step.at_micros),
            "next": next.map(|hop| json!({"stage": hop.stage, "text": hop.text})),
            "lanes": lanes,
            "steps": told.iter().map(step_value).collect::<Vec<_>>(),
        })
    }
}

/// A step as a value, with its count.
#[must_use]
pub fn step_value(told: &Told) -> Value {
    let mut value = serde_json::to_value(&told.step).unwrap_or_default();
    value["times"] = told.times.into();
    value["last_at_micros"] = told.last_at_micros.into();
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journey(object: Value) -> Journey {
        let object = Object::from_value(object).unwrap();
        Journey { object, title: "Pod d/p".into(), has_owner: false, steps: Vec::new() }
    }

    #[test]
    fn the_next_hop_is_read_from_the_object() {
        let stage = |value: Value| journey(value).next_hop().map(|hop| u8::from(hop.stage));
        assert_eq!(stage(json!({"kind": "Deployment", "metadata": {"name": "d"}})), Some(3));
        assert_eq!(stage(json!({"kind": "Pod", "metadata": {"name": "p"}})), Some(4));
        assert_eq!(stage(json!({"kind": "Pod", "spec": {"nodeName": "n"}})), Some(5));
        let running = json!({"kind": "Pod", "spec": {"nodeName": "n"}, "status": {"startTime": "2026-01-01T00:00:00Z",
            "conditions": [{"type": "Ready", "status": "True"}]}});
        assert_eq!(stage(running), Some(6));
        assert_eq!(stage(json!({"kind": "Pod", "status": {"phase": "Succeeded"}})), None);
    }

    #[test]
    fn the_value_has_six_lanes_and_says_which_is_missing() {
        let mut waiting =
            journey(json!({"kind": "Pod", "metadata": {"name": "p", "namespace": "d", "uid": "u"}}));
        waiting.steps.push(Step {
            stage: Stage::Scheduler,
            object: "Pod d/p".into(),
            decided: "not bound".into(),
            why: "0/1 nodes are available".into(),
            at_micros: 5,
            source: String::new(),
        });
        let value = waiting.to_value();
        assert_eq!(value["apiVersion"], "journey.six-stages/v1");
        assert_eq!(value["next"], json!({"stage": 4, "text": "nobody has bound this pod yet: stage ④"}));
        let states: Vec<&str> =
            value["lanes"].as_array().unwrap().iter().map(|lane| lane["state"].as_str().unwrap()).collect();
        assert_eq!(states, ["silent", "silent", "none", "missing", "silent", "silent"]);
        assert_eq!(value["steps"][0]["times"], 1);
    }
}
