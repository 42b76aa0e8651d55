//! Containers of a pod: what was asked for beside what the kubelet reports.
//!
//! *Step 5 of a pod's journey.* Before: a pod is bound. After: the rules of stage ⑤ read its containers one by one.
//!
//! A container stands twice in a pod, in the spec and in the status, and the two lists needn't have the same order. Sidecars
//! stand among the init containers and run for ever. Here the two halves are joined, with the place of each, so that a
//! rule can name its evidence.
//!
//! # Invariants
//! 1. Every container of the spec comes once, with or without a status.
//!
//! # In Kubernetes
//! `pkg/api/v1/pod/util.go` (`GetContainerStatus`, `VisitContainers`). Left out: ephemeral containers.

use jiff::Timestamp;
use serde_json::Value;

use super::facts::{Facts, time_at};
use super::finding::Finding;
use crate::object::Object;

/// One container of a pod.
#[derive(Debug, Clone)]
pub struct Container<'a> {
    /// Its pod.
    pub pod: &'a Object,
    /// Its name.
    pub name: &'a str,
    /// `/spec/containers/0`.
    pub spec_at: String,
    /// `/status/containerStatuses/0`; `None`: nobody has reported it.
    pub status_at: Option<String>,
    /// Whether it must end before the others start.
    pub is_init: bool,
    /// Whether it starts before the others and runs beside them.
    pub is_sidecar: bool,
}

/// All containers of a pod, in the order in which they start.
#[must_use]
pub fn containers(pod: &Object) -> Vec<Container<'_>> {
    let lists = [
        ("/spec/initContainers", "/status/initContainerStatuses"),
        ("/spec/containers", "/status/containerStatuses"),
    ];
    let mut found = Vec::new();
    for (specs_at, statuses_at) in lists {
        let specs = pod.get(specs_at).and_then(Value::as_array).into_iter().flatten();
        let statuses = pod.get(statuses_at).and_then(Value::as_array);
        for (at, spec) in specs.enumerate() {
            let name = spec["name"].as_str().unwrap_or_default();
            let status =
                statuses.and_then(|statuses| statuses.iter().position(|status| status["name"] == name));
            let is_sidecar = specs_at == "/spec/initContainers" && spec["restartPolicy"] == "Always";
            found.push(Container {
                pod,
                name,
                spec_at: format!("{specs_at}/{at}"),
                status_at: status.map(|at| format!("{statuses_at}/{at}")),
                is_init: specs_at == "/spec/initContainers" && !is_sidecar,
                is_sidecar,
            });
        }
    }
    found
}

impl<'a> Container<'a> {
    /// A part of the spec.
    #[must_use]
    pub fn spec(&self, tail: &str) -> Option<&'a Value> {
        self.pod.get(&format!("{}{tail}", self.spec_at))
    }

    /// A text in the spec.
    #[must_use]
    pub fn spec_str(&self, tail: &str) -> &'a str {
        self.spec(tail).and_then(Value::as_str).unwrap_or_default()
    }

    /// A part of the status.
    #[must_use]
    pub fn status(&self, tail: &str) -> Option<&'a Value> {
        self.pod.get(&format!("{}{tail}", self.status_at.as_ref()?))
    }

    /// The place of a part of the status.
    #[must_use]
    pub fn status_pointer(&self, tail: &str) -> String {
        format!("{}{tail}", self.status_at.as_deref().unwrap_or("/status/containerStatuses"))
    }

    /// Reason and message of a container that waits.
    #[must_use]
    pub fn waiting(&self) -> Option<(&'a str, &'a str)> {
        let waiting = self.status("/state/waiting")?;
        Some((
            waiting["reason"].as_str().unwrap_or_default(),
            waiting["message"].as_str().unwrap_or_default(),
        ))
    }

    /// The last end of the container and its place: of this run if it has ended, else of the run before.
    #[must_use]
    pub fn last_end(&self) -> Option<(&'a Value, String)> {
        ["/state/terminated", "/lastState/terminated"]
            .into_iter()
            .find_map(|tail| Some((self.status(tail)?, self.status_pointer(tail))))
    }

    /// The same, when it ended `within` so many seconds, or when the container waits to be started again.
    #[must_use]
    pub fn recent_end(&self, facts: &Facts, within: i64) -> Option<(&'a Value, String)> {
        let end = self.last_end()?;
        let finished: Option<Timestamp> = time_at(end.0, "/finishedAt");
        let recent = finished.is_none() || facts.since(finished).as_secs() <= within;
        (recent || self.waiting().is_some()).then_some(end)
    }

    /// Whether it runs now.
    #[must_use]
    pub fn is_running(&self) -> bool {
        self.status("/state/running").is_some()
    }

    /// Whether it runs and is ready.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.status("/ready").and_then(Value::as_bool).unwrap_or(false)
    }

    /// How often it was started again.
    #[must_use]
    pub fn restarts(&self) -> i64 {
        self.status("/restartCount").and_then(Value::as_i64).unwrap_or(0)
    }

    /// `container web`, `init container wait`.
    #[must_use]
    pub fn title(&self) -> String {
        let kind = match (self.is_init, self.is_sidecar) {
            (true, _) => "init container",
            (_, true) => "sidecar",
            _ => "container",
        };
        format!("{kind} {}", self.name)
    }

    /// A finding that blames a field of this container.
    #[must_use]
    pub fn finding(&self, facts: &Facts, tail: &str) -> Finding {
        Finding::in_pod(facts, self.pod, &format!("{}{tail}", self.spec_at))
    }

    /// The command that shows the log of the run before this one.
    #[must_use]
    pub fn previous_logs(&self) -> String {
        let namespace = self.pod.namespace().unwrap_or("default");
        format!("kubectl -n {namespace} logs {} -c {} --previous", self.pod.name(), self.name)
    }

    /// The ports that it says it listens on: number and name.
    pub fn ports(&self) -> impl Iterator<Item = (i64, &'a str)> {
        let ports = self.spec("/ports").and_then(Value::as_array).into_iter().flatten();
        ports.filter_map(|port| {
            Some((port["containerPort"].as_i64()?, port["name"].as_str().unwrap_or_default()))
        })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn spec_and_status_are_joined_by_name_whatever_their_order() {
        let pod = Object::from_value(json!({"kind": "Pod", "metadata": {"name": "p"},
            "spec": {"initContainers": [{"name": "i"}, {"name": "s", "restartPolicy": "Always"}],
                     "containers": [{"name": "a"}, {"name": "b", "ports": [{"containerPort": 80}]}]},
            "status": {"containerStatuses": [
                {"name": "b", "ready": true, "state": {"running": {}}},
                {"name": "a", "restartCount": 2, "state": {"waiting": {"reason": "CrashLoopBackOff"}}}]}}))
        .unwrap();
        let all = containers(&pod);
        let titles: Vec<String> = all.iter().map(Container::title).collect();
        assert_eq!(titles, ["init container i", "sidecar s", "container a", "container b"]);
        assert_eq!(all[0].status_at, None);
        assert_eq!(all[2].waiting(), Some(("CrashLoopBackOff", "")));
        assert_eq!(all[2].status_pointer("/restartCount"), "/status/containerStatuses/1/restartCount");
        assert!(all[3].is_running() && all[3].is_ready());
        assert_eq!(all[3].ports().collect::<Vec<_>>(), [(80, "")]);
    }
}
