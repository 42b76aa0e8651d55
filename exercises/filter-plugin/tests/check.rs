//! When the answer is right.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::sync::Arc;

use exercise_filter_plugin::{answer, starter};
use serde_json::json;
use stage4_scheduler::framework::{ClusterEvent, Code, Hint, Plugin, PreFilter, Status, WhatIf};
use stage4_scheduler::listers::Listers;
use stage4_scheduler::node_info::NodeInfo;
use stage4_scheduler::pod_info::PodInfo;
use stage4_scheduler::snapshot::Snapshot;

fn node(retires: bool) -> Arc<NodeInfo> {
    let labels = if retires { json!({"example.org/retires": "soon"}) } else { json!({}) };
    let node = serde_json::from_value(json!({"metadata": {"name": "n", "labels": labels}})).unwrap();
    Arc::new(NodeInfo::of(Arc::new(node)))
}

fn pod(short: &str) -> PodInfo {
    let labels = json!({"example.org/short": short});
    let pod = json!({"metadata": {"name": "p", "namespace": "default", "labels": labels}, "spec": {"containers": []}});
    PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap()))
}

fn ask(plugin: &dyn Plugin, short: &str, retires: bool) -> Option<Status> {
    let snapshot = Snapshot::new(vec![node(retires)], Arc::new(Listers::default()));
    let pod = pod(short);
    match plugin.pre_filter(&pod, &snapshot) {
        PreFilter::Skip => None,
        PreFilter::Run(rule) | PreFilter::Only(_, rule) => Some(rule(&snapshot.nodes()[0], &WhatIf::NOTHING)),
        PreFilter::Reject(status) => Some(status),
    }
}

fn refuses(plugin: &dyn Plugin) {
    let status = ask(plugin, "false", true).unwrap();
    assert_eq!(status.message(), "node(s) retire soon");
    assert_eq!(status.code, Code::UnschedulableAndUnresolvable, "no eviction makes a node younger");
}

fn lets_in(plugin: &dyn Plugin) {
    assert!(ask(plugin, "false", false).unwrap().is_success());
}

fn skips(plugin: &dyn Plugin) {
    assert!(ask(plugin, "true", true).is_none(), "the rule has nothing to say about short pods");
}

fn wakes(plugin: &dyn Plugin) {
    let hint =
        |old, new| plugin.hint(&pod("false"), &ClusterEvent::NodeUpdated { old: node(old), new: node(new) });
    assert_eq!(
        (hint(true, false), hint(false, true), hint(false, false)),
        (Hint::Queue, Hint::Skip, Hint::Skip)
    );
    assert_eq!(plugin.hint(&pod("false"), &ClusterEvent::NodeAdded(node(false))), Hint::Queue);
    assert_eq!(plugin.hint(&pod("false"), &ClusterEvent::NodeAdded(node(true))), Hint::Skip);
}

#[test]
fn a_node_that_retires_refuses_a_pod_that_stays() {
    refuses(&answer::RetiresSoon);
}

#[test]
fn any_other_node_lets_it_in() {
    lets_in(&answer::RetiresSoon);
}

#[test]
fn a_short_pod_is_not_asked_about() {
    skips(&answer::RetiresSoon);
}

#[test]
fn a_node_that_stays_after_all_wakes_the_pod() {
    wakes(&answer::RetiresSoon);
}

#[test]
fn the_starter_fails_every_check() {
    for check in [refuses, lets_in, skips, wakes] {
        assert!(std::panic::catch_unwind(|| check(&starter::RetiresSoon)).is_err());
    }
}
