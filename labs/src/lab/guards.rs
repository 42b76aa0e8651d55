//! Guards: repairs that are no repairs, read from the audit log.
//!
//! Deleting the quota makes the pods start, and the next morning the bill comes. A guard names such a change; whether it was
//! made is read from the API server's audit log, not from the end state, so that "deleted and created again" is seen.
//!
//! # Invariants
//! 1. Only people's requests count: components and the lab itself are left out.
//! 2. Only requests that succeeded, after the fault was made.
//!
//! # In Kubernetes
//! `audit.k8s.io/v1` events.

use serde_json::Value;

use super::catalog::Guard;
use super::texts::say;

/// The lab's own user.
pub const HARNESS_USER: &str = "labs";

/// The guards that were tripped since a time (RFC 3339), each with why and by which request.
pub fn tripped(guards: &[Guard], audit_lines: &str, namespace: &str, since: &str) -> Vec<String> {
    let events: Vec<Value> = audit_lines.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let by_people: Vec<&Value> =
        events.iter().filter(|event| succeeded_since(event, since) && by_a_person(event)).collect();
    guards
        .iter()
        .filter_map(|guard| {
            let event = by_people.iter().find(|event| trips(guard, event, namespace))?;
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let request = [text("/verb"), text("/objectRef/resource"), text("/objectRef/name")].join(" ");
            Some(say("guard.tripped", &[("why", &guard.why), ("request", &request.trim_end())]))
        })
        .collect()
}

fn succeeded_since(event: &Value, since: &str) -> bool {
    let code = event.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default();
    let received = event["requestReceivedTimestamp"].as_str().unwrap_or_default();
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let dry = event["requestURI"].as_str().is_some_and(|uri| uri.contains("dryRun="));
    (200..300).contains(&code)
        && !dry
        && matches!((time(received), time(since)), (Some(at), Some(start)) if at >= start)
}

/// Seconds from a time (RFC 3339) to a user's first request behind it, whatever the answer was.
pub fn first_request(audit_lines: &str, user: &str, since: &str) -> Option<i64> {
    let time = |text: &str| text.parse::<jiff::Timestamp>().ok();
    let start = time(since)?;
    audit_lines.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok()).find_map(|event| {
        let by = event.pointer("/user/username").and_then(Value::as_str);
        let at = time(event["requestReceivedTimestamp"].as_str()?)?;
        (by == Some(user) && at >= start).then(|| at.as_second() - start.as_second())
    })
}

fn by_a_person(event: &Value) -> bool {
    let user = event.pointer("/user/username").and_then(Value::as_str).unwrap_or_default();
    !user.is_empty() && user != HARNESS_USER && !user.starts_with("system:")
}

fn trips(guard: &Guard, event: &Value, namespace: &str) -> bool {
    let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
    let there = text("/objectRef/namespace");
    guard.verbs.iter().any(|verb| verb == text("/verb"))
        && (guard.resource == "*" || guard.resource == text("/objectRef/resource"))
        && (there.is_empty() || there == namespace || there == "kube-system")
        && guard.name.as_ref().is_none_or(|name| super::world::matches(name, text("/objectRef/name")))
        && text("/objectRef/subresource").is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn line(user: &str, verb: &str, resource: &str, code: u16, at: &str) -> String {
        json!({
            "verb": verb, "user": {"username": user}, "requestURI": "/x", "requestReceivedTimestamp": at,
            "objectRef": {"resource": resource, "namespace": "lab-shop", "name": "q"}, "responseStatus": {"code": code},
        })
        .to_string()
    }

    fn guard() -> Vec<Guard> {
        vec![Guard {
            verbs: vec!["delete".to_owned()],
            resource: "resourcequotas".to_owned(),
            name: None,
            why: "the quota is there for a reason".to_owned(),
        }]
    }

    #[test]
    fn a_person_who_deletes_the_quota_trips_the_guard_even_if_it_is_back() {
        let at = "2026-01-01T00:00:05.000000Z";
        let lines = [
            line("learner", "delete", "resourcequotas", 200, at),
            line("learner", "create", "resourcequotas", 201, at),
        ];
        let found = tripped(&guard(), &lines.join("\n"), "lab-shop", "2026-01-01T00:00:00Z");
        assert_eq!(found, ["the quota is there for a reason (delete resourcequotas q)"]);
    }

    #[test]
    fn the_first_look_is_the_users_own_first_request_after_the_fault() {
        let lines = [
            line("learner", "get", "pods", 200, "2026-01-01T00:00:01Z"),
            line(HARNESS_USER, "get", "pods", 200, "2026-01-01T00:00:12Z"),
            "{\"verb\"".to_owned(),
            line("learner", "get", "pods", 403, "2026-01-01T00:00:19Z"),
        ]
        .join("\n");
        assert_eq!(first_request(&lines, "learner", "2026-01-01T00:00:10Z"), Some(9));
        assert_eq!(first_request(&lines, "learner", "2026-01-01T00:01:00Z"), None);
    }

    #[test]
    fn components_refusals_older_requests_and_broken_lines_trip_nothing() {
        let at = "2026-01-01T00:00:05.000000Z";
        let lines = [
            line(
                "system:serviceaccount:kube-system:namespace-controller",
                "delete",
                "resourcequotas",
                200,
                at,
            ),
            line(HARNESS_USER, "delete", "resourcequotas", 200, at),
            line("learner", "delete", "resourcequotas", 403, at),
            line("learner", "delete", "resourcequotas", 200, "2025-12-31T23:59:59.000000Z"),
            line("learner", "delete", "pods", 200, at),
            "{\"verb\": \"dele".to_owned(),
        ];
        assert_eq!(
            tripped(&guard(), &lines.join("\n"), "lab-shop", "2026-01-01T00:00:00Z"),
            Vec::<String>::new()
        );
    }
}
