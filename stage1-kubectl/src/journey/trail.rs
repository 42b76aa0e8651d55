//! The trail: what an object itself tells of its journey, on any cluster.
//!
//! *All steps of a pod's journey, seen from its end.* Before: the pod, its events and the EndpointSlices that name it were
//! fetched. After: [`super::page`] shows the steps.
//!
//! A cluster that reports no journey steps still leaves traces: managed fields say who wrote when, conditions when they
//! turned, container states when they began, events what happened, EndpointSlices who sends traffic. Their times are whole
//! seconds, so steps of the same second keep the order of the stages.
//!
//! # Invariants
//! 1. A step is only told when a field of an object proves it.
//! 2. The steps come in the order of time, within a second in the order of the stages.
//!
//! # In Kubernetes
//! No counterpart; the fields are those of `k8s.io/api/core/v1/types.go`.

use jiff::Timestamp;
use serde_json::Value;

use super::{Stage, Step, object_name};
use crate::object::Object;

/// The steps that a pod, its events and the EndpointSlices of its Services tell.
#[must_use]
pub fn steps(pod: &Object, events: &[Object], slices: &[Object]) -> Vec<Step> {
    let trail = Trail { pod, name: object_name("Pod", pod.namespace(), pod.name()) };
    let mut steps = trail.written();
    steps.extend(trail.scheduled());
    steps.extend(trail.run());
    steps.extend(events.iter().filter_map(|event| trail.event(event)));
    steps.extend(slices.iter().filter_map(|slice| trail.reachable(slice)));
    steps.sort_by_key(|step| (step.at_micros, step.stage));
    steps
}

/// Who asked for an object that nobody controls: the first field manager, else somebody.
#[must_use]
pub fn sent(object: &Object) -> Option<Step> {
    let created = object.get_str("/metadata/creationTimestamp")?.parse::<Timestamp>().ok()?;
    let managers = object.get("/metadata/managedFields").and_then(Value::as_array);
    let first = managers.and_then(|list| list.first()).and_then(|entry| entry.get("manager")?.as_str());
    Some(Step {
        stage: Stage::Kubectl,
        object: object_name(object.kind(), object.namespace(), object.name()),
        decided: "sent".into(),
        why: format!("by {}", first.unwrap_or("a client")),
        at_micros: created.as_microsecond(),
        source: String::new(),
    })
}

struct Trail<'a> {
    pod: &'a Object,
    name: String,
}

impl Trail<'_> {
    fn step(&self, stage: Stage, time: &str, decided: String, why: String) -> Option<Step> {
        let at_micros = time.parse::<Timestamp>().ok()?.as_microsecond();
        Some(Step { stage, object: self.name.clone(), decided, why, at_micros, source: String::new() })
    }

    /// Who asked for it, and when it was stored.
    fn written(&self) -> Vec<Step> {
        let created = self.pod.get_str("/metadata/creationTimestamp").unwrap_or_default();
        let owner = self.pod.owner_references().into_iter().find(|owner| owner.controller == Some(true));
        let asked = match owner {
            Some(owner) => self.step(
                Stage::Controllers,
                created,
                "created".into(),
                format!("{} {} needs it", owner.kind, owner.name),
            ),
            None => sent(self.pod),
        };
        let stored = self.step(Stage::ApiServer, created, "stored".into(), format!("uid {}", self.pod.uid()));
        asked.into_iter().chain(stored).collect()
    }

    fn condition(&self, kind: &str) -> Option<&Value> {
        let conditions = self.pod.get("/status/conditions")?.as_array()?;
        conditions.iter().find(|condition| condition["type"] == kind)
    }

    fn scheduled(&self) -> Option<Step> {
        let condition = self.condition("PodScheduled")?;
        let time = condition["lastTransitionTime"].as_str()?;
        if condition["status"] == "True" {
            let node = self.pod.get_str("/spec/nodeName").unwrap_or_default();
            return self.step(
                Stage::Scheduler,
                time,
                format!("bound to {node}"),
                "condition PodScheduled".into(),
            );
        }
        let message = condition["message"].as_str().unwrap_or_default();
        self.step(Stage::Scheduler, time, "not bound".into(), message.into())
    }

    /// What the kubelet reports: accepted, each container's state, ready.
    fn run(&self) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(start) = self.pod.get_str("/status/startTime") {
            let why =
                format!("status.startTime on {}", self.pod.get_str("/spec/nodeName").unwrap_or_default());
            steps.extend(self.step(Stage::Kubelet, start, "accepted".into(), why));
        }
        for list in ["/status/initContainerStatuses", "/status/containerStatuses"] {
            let statuses = self.pod.get(list).and_then(Value::as_array);
            steps.extend(statuses.into_iter().flatten().flat_map(|status| self.container(status)));
        }
        if let Some(ready) = self.condition("Ready").filter(|condition| condition["status"] == "True") {
            let time = ready["lastTransitionTime"].as_str().unwrap_or_default();
            steps.extend(self.step(Stage::Kubelet, time, "ready".into(), "condition Ready".into()));
        }
        steps
    }

    fn container(&self, status: &Value) -> Vec<Step> {
        let name = status["name"].as_str().unwrap_or_default();
        let running = status.pointer("/state/running/startedAt").and_then(Value::as_str).and_then(|time| {
            let restarts = status["restartCount"].as_i64().unwrap_or_default();
            self.step(
                Stage::Kubelet,
                time,
                format!("container {name} runs"),
                format!("restarted {restarts} times"),
            )
        });
        let ended = ["/state/terminated", "/lastState/terminated"]
            .into_iter()
            .find_map(|at| status.pointer(at))
            .and_then(|end| {
                let code = end["exitCode"].as_i64().unwrap_or_default();
                let reason = end["reason"].as_str().unwrap_or_default();
                let time = end["finishedAt"].as_str().unwrap_or_default();
                self.step(
                    Stage::Kubelet,
                    time,
                    format!("container {name} ended"),
                    format!("{reason}, exit code {code}"),
                )
            });
        running.into_iter().chain(ended).collect()
    }

    /// Warnings and the image's fate; what conditions and states already tell is left out.
    fn event(&self, event: &Object) -> Option<Step> {
        let (kind, reason) = (event.get_str("/type")?, event.get_str("/reason")?);
        let told = ["Scheduled", "Created", "Started"].contains(&reason);
        if kind != "Warning" && told {
            return None;
        }
        let component = event
            .get_str("/source/component")
            .filter(|name| !name.is_empty())
            .or(event.get_str("/reportingComponent"))?;
        let stage = match component {
            "kubelet" => Stage::Kubelet,
            name if name.ends_with("scheduler") => Stage::Scheduler,
            _ => Stage::Controllers,
        };
        let times = ["/lastTimestamp", "/eventTime", "/firstTimestamp"];
        let time = times.into_iter().filter_map(|at| event.get_str(at)).find(|time| !time.is_empty())?;
        self.step(stage, time, reason.into(), event.get_str("/message").unwrap_or_default().into())
    }

    /// A Service sends traffic to the pod when one of its slices names the pod's address.
    fn reachable(&self, slice: &Object) -> Option<Step> {
        let endpoints = slice.get("/endpoints")?.as_array()?;
        let ours = endpoints.iter().find(|endpoint| {
            endpoint.pointer("/targetRef/uid").and_then(Value::as_str) == Some(self.pod.uid())
        })?;
        let ready = ours.pointer("/conditions/ready").and_then(Value::as_bool).unwrap_or(true);
        let service = slice.label("kubernetes.io/service-name")?;
        let time = slice
            .annotation("endpoints.kubernetes.io/last-change-trigger-time")
            .or_else(|| self.condition("Ready")?["lastTransitionTime"].as_str())?;
        let decided = if ready {
            format!("endpoint of Service {service}")
        } else {
            format!("no endpoint of Service {service} yet")
        };
        self.step(Stage::Proxy, time, decided, format!("EndpointSlice {} says ready: {ready}", slice.name()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(value: Value) -> Object {
        Object::from_value(value).unwrap()
    }

    #[test]
    fn a_pod_that_waits_for_a_node_tells_three_stages_and_the_schedulers_reason() {
        let pod = object(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "d", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "message": "0/1 nodes are available",
                                       "lastTransitionTime": "2026-01-01T00:00:01Z"}]}}));
        let told: Vec<(Stage, String, String)> =
            steps(&pod, &[], &[]).into_iter().map(|step| (step.stage, step.decided, step.why)).collect();
        assert_eq!(
            told,
            [
                (Stage::Kubectl, "sent".into(), "by a client".into()),
                (Stage::ApiServer, "stored".into(), "uid u".into()),
                (Stage::Scheduler, "not bound".into(), "0/1 nodes are available".into()),
            ]
        );
    }

    #[test]
    fn a_slice_that_names_another_pod_proves_nothing() {
        let pod = object(json!({"apiVersion": "v1", "kind": "Pod",
            "metadata": {"name": "p", "namespace": "d", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}}));
        let slice = object(json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {"name": "s", "labels": {"kubernetes.io/service-name": "web"},
                         "annotations": {"endpoints.kubernetes.io/last-change-trigger-time": "2026-01-01T00:00:02Z"}},
            "endpoints": [{"addresses": ["10.0.0.1"], "targetRef": {"kind": "Pod", "uid": "other"}}]}));
        assert!(steps(&pod, &[], &[slice]).iter().all(|step| step.stage != Stage::Proxy));
    }
}
