//! Probes on a world of maps.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

#[derive(Default)]
struct Small(BTreeMap<&'static str, Value>);

impl World for Small {
    fn subject(&self, subject: &str) -> Result<Option<Value>, String> {
        match subject {
            "Deployment/hidden" => Err("forbidden".to_owned()),
            _ => Ok(self.0.get(subject).cloned()),
        }
    }
    fn http(&self, service: &str, _port: u16) -> Result<String, String> {
        if service == "web" { Ok("hello".to_owned()) } else { Err("connection refused".to_owned()) }
    }
    fn learner_kubectl(&self, args: &[String]) -> (i32, String) {
        if args[0] == "get" { (0, "NAME\nweb\n".to_owned()) } else { (1, "error: no\n".to_owned()) }
    }
    fn now_seconds(&self) -> i64 {
        "2026-01-01T00:01:00Z".parse::<jiff::Timestamp>().unwrap().as_second()
    }
    fn source_copy_passes(&self) -> Result<(), String> {
        Err("a test fails".to_owned())
    }
}

fn check(world: &Small, yaml: &str) -> (bool, String) {
    let value = stage1_kubectl::manifest::documents(&format!("---\n{yaml}"), "probe").unwrap().remove(0);
    let probe: Probe = serde_json::from_value(value).unwrap();
    let seen = probe.check(world);
    (seen.holds, seen.text)
}

#[test]
fn a_probe_says_what_it_saw() {
    let world = Small(BTreeMap::from([("Deployment/web", json!({"status": {"readyReplicas": 2}}))]));
    for (yaml, holds, text) in [
        (
            "{value: {subject: Deployment/web, path: .status.readyReplicas, is: '2'}}",
            true,
            "Deployment/web .status.readyReplicas is 2",
        ),
        (
            "{value: {subject: Deployment/web, path: .status.readyReplicas, is: '3'}}",
            false,
            "Deployment/web .status.readyReplicas is 2",
        ),
        (
            "{value: {subject: Deployment/web, path: .status.x, is: ''}}",
            true,
            "Deployment/web .status.x is not set",
        ),
        (
            "{value: {subject: Deployment/none, path: .status.x, is: '1'}}",
            false,
            "Deployment/none .status.x is not set",
        ),
        ("{value: {subject: Deployment/hidden, path: .x, is: ''}}", false, "Deployment/hidden: forbidden"),
        ("{absent: Deployment/none}", true, "there is no Deployment/none"),
        ("{present: Deployment/none}", false, "there is no Deployment/none"),
        ("{answers: {service: web, port: 80}}", true, "Service web answers on port 80"),
        ("{answers: {service: shop, port: 80}}", false, "Service shop on port 80: connection refused"),
        ("{kubectl: {args: [get, pods], prints: '*web*'}}", true, "kubectl get pods: exit code 0, \"web\""),
        ("{kubectl: {args: [delete]}}", false, "kubectl delete: exit code 1, \"error: no\""),
        (
            "{kubectl_fails: {args: [delete], prints: '*no*'}}",
            true,
            "kubectl delete: exit code 1, \"error: no\"",
        ),
        ("source_copy_passes", false, "a test fails"),
        ("{not: source_copy_passes}", true, "a test fails"),
        ("{all: [{present: Deployment/web}, {absent: Deployment/web}]}", false, "Deployment/web is there"),
    ] {
        assert_eq!(check(&world, yaml), (holds, text.to_owned()), "{yaml}");
    }
}

#[test]
fn steady_counts_from_the_last_start() {
    let pod = |started: &str, ready: &str| {
        json!({"status": {
            "conditions": [{"type": "Ready", "status": ready}],
            "containerStatuses": [{"restartCount": 3, "state": {"running": {"startedAt": started}}}],
        }})
    };
    let steady = |pod: Value| {
        check(&Small(BTreeMap::from([("Pod/web-*", pod)])), "{steady: {pod: 'Pod/web-*', seconds: 30}}")
    };
    assert!(steady(pod("2026-01-01T00:00:20Z", "True")).0);
    let (holds, text) = steady(pod("2026-01-01T00:00:50Z", "True"));
    assert!(!holds);
    assert_eq!(text, "Pod/web-* is Ready, its containers have run for 10 s (restarts 3; 30 s are asked for)");
    assert_eq!(steady(pod("2026-01-01T00:00:20Z", "False")), (false, "Pod/web-* is not Ready".to_owned()));
}
