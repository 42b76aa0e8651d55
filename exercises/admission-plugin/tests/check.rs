//! When the answer is right.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::sync::Arc;

use exercise_admission_plugin::{answer, starter};
use jiff::Timestamp;
use serde_json::json;
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::{GroupVersionKind, GroupVersionResource};
use stage2_apiserver::admission::{AdmissionPlugin, Attributes, ObjectReader, Operation};
use stage2_apiserver::strategies::Requester;

/// Two namespaces: `shop` of team blue, `lab` of nobody.
struct Cluster;

impl ObjectReader for Cluster {
    fn get(&self, _: &str, resource: &str, _: &str, name: &str) -> Option<Arc<Object>> {
        let labels = match (resource, name) {
            ("namespaces", "shop") => json!({"team": "blue"}),
            ("namespaces", "lab") => json!({}),
            _ => return None,
        };
        Some(Arc::new(Object::from_value(json!({"metadata": {"name": name, "labels": labels}})).unwrap()))
    }

    fn list(&self, _: &str, _: &str, _: &str) -> Vec<Arc<Object>> {
        Vec::new()
    }
}

fn attributes(resource: &str, namespace: &str, operation: Operation) -> Attributes {
    Attributes {
        operation,
        resource: GroupVersionResource {
            group: String::new(),
            version: "v1".into(),
            resource: resource.into(),
        },
        subresource: String::new(),
        kind: GroupVersionKind { group: String::new(), version: "v1".into(), kind: "Pod".into() },
        namespace: namespace.into(),
        name: "p".into(),
        user: Requester::default(),
        dry_run: false,
        now: Timestamp::UNIX_EPOCH,
        random: 0,
    }
}

/// The team after both gates, or the refusal.
fn send(plugin: &dyn AdmissionPlugin, to: &Attributes, team: Option<&str>) -> Result<Option<String>, String> {
    let mut pod = Object::from_value(json!({"kind": "Pod", "metadata": {"name": "p"}})).unwrap();
    team.into_iter().for_each(|team| pod.set_label("team", team));
    plugin.admit(to, &mut pod, None, &Cluster).map_err(|status| status.message)?;
    plugin.validate(to, Some(&pod), None, &Cluster).map_err(|status| {
        assert_eq!(status.code, 403);
        status.message
    })?;
    Ok(pod.label("team").map(str::to_owned))
}

fn fills(plugin: &dyn AdmissionPlugin) {
    let to = attributes("pods", "shop", Operation::Create);
    assert_eq!(send(plugin, &to, None), Ok(Some("blue".to_owned())));
    assert_eq!(send(plugin, &to, Some("blue")), Ok(Some("blue".to_owned())));
}

fn refuses(plugin: &dyn AdmissionPlugin) {
    let to = attributes("pods", "shop", Operation::Create);
    let text = "pods \"p\" is forbidden: team \"red\" may not use a namespace of team \"blue\"";
    assert_eq!(send(plugin, &to, Some("red")), Err(text.to_owned()));
}

fn leaves_alone(plugin: &dyn AdmissionPlugin) {
    let others = [
        attributes("pods", "lab", Operation::Create),
        attributes("services", "shop", Operation::Create),
        attributes("pods", "shop", Operation::Update),
    ];
    for to in others {
        assert_eq!(send(plugin, &to, None), Ok(None), "{to:?}");
        assert_eq!(send(plugin, &to, Some("red")), Ok(Some("red".to_owned())), "{to:?}");
    }
}

#[test]
fn a_pod_gets_the_team_of_its_namespace() {
    fills(&answer::TeamLabel);
}

#[test]
fn another_team_is_refused() {
    refuses(&answer::TeamLabel);
}

#[test]
fn everything_else_is_left_alone() {
    leaves_alone(&answer::TeamLabel);
}

#[test]
fn the_starter_fails_every_check() {
    for check in [fills, refuses, leaves_alone] {
        assert!(std::panic::catch_unwind(|| check(&starter::TeamLabel)).is_err());
    }
}
