//! When the answer is right.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::sync::Arc;

use exercise_controller::{answer, starter};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use stage3_controllers::action::Action;
use stage3_controllers::controller::Controller;
use stage3_controllers::indexer::NamespacedName;
use stage3_controllers::informer::Store;
use stage3_controllers::reflector::Delta;

fn pod(labels: Value, deleted: bool) -> Arc<Pod> {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "7", "labels": labels}});
    if deleted {
        pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn patches<C: Controller<World = Arc<Pod>>>(labels: Value, deleted: bool) -> Vec<Value> {
    let actions = C::reconcile(&pod(labels, deleted));
    let patch = |action| match action {
        Action::Patch { subresource: "", patch, target, .. } => {
            assert_eq!(target.uid.as_deref(), Some("u"));
            patch
        }
        other => panic!("only a patch is needed, not {other:?}"),
    };
    actions.into_iter().map(patch).collect()
}

fn moves<C: Controller<World = Arc<Pod>>>(_: &dyn Fn(Store<Pod>) -> C) {
    let found = patches::<C>(json!({"app": "web", "quarantine": "true"}), false);
    assert_eq!(found, [json!({"metadata": {"labels": {"app": null, "was-app": "web"}}})]);
}

fn rests<C: Controller<World = Arc<Pod>>>(_: &dyn Fn(Store<Pod>) -> C) {
    for labels in [
        json!({"app": "web"}),
        json!({"app": "web", "quarantine": "false"}),
        json!({"was-app": "web", "quarantine": "true"}),
    ] {
        assert!(patches::<C>(labels.clone(), false).is_empty(), "{labels}");
    }
    assert!(
        patches::<C>(json!({"app": "web", "quarantine": "true"}), true).is_empty(),
        "a pod that goes is left alone"
    );
}

fn observes<C: Controller<World = Arc<Pod>>>(make: &dyn Fn(Store<Pod>) -> C) {
    let pods = Store::new();
    pods.apply(Delta::Upsert(pod(json!({"app": "web"}), false)));
    let controller = make(pods);
    let look = |name: &str| controller.observe(&NamespacedName::new("shop", name), Timestamp::UNIX_EPOCH);
    assert_eq!(look("p").unwrap().metadata.uid.as_deref(), Some("u"));
    assert!(look("gone").is_none());
}

fn answer(pods: Store<Pod>) -> answer::Quarantine {
    answer::Quarantine { pods }
}

#[test]
fn a_pod_in_quarantine_loses_its_label_and_keeps_its_name() {
    moves(&answer);
}

#[test]
fn every_other_pod_is_left_alone() {
    rests(&answer);
}

#[test]
fn the_world_is_the_pod_of_the_local_copy() {
    observes(&answer);
}

#[test]
fn the_starter_fails_every_check() {
    let starter = |pods| starter::Quarantine { pods };
    for check in [moves, rests, observes] {
        assert!(std::panic::catch_unwind(|| check(&starter)).is_err());
    }
}
