//! No lost wake-up: over random histories every pod that fits is scheduled in the end.

use super::*;
use crate::decision::{Decision, decide};
use crate::snapshot::Snapshot;
use proptest::prelude::*;
use serde_json::json;

fn pod(name: &str, node: Option<&str>, shape: u8) -> Arc<Pod> {
    let mut spec = json!({"containers": [{"name": "c", "resources": {"requests": {"cpu": format!("{}m", 300 + 300 * u32::from(shape))}}}]});
    match shape {
        1 => spec["nodeSelector"] = json!({"disk": "ssd"}),
        2 => {
            spec["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "host", "labelSelector": {"matchLabels": {"app": "2"}}}]}});
        }
        3 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "host", "whenUnsatisfiable": "DoNotSchedule",
                "labelSelector": {"matchLabels": {"app": "3"}}}]);
        }
        _ => {}
    }
    if let Some(node) = node {
        spec["nodeName"] = node.into();
    }
    let pod = json!({"metadata": {"name": name, "namespace": "w", "uid": name, "labels": {"app": shape.to_string()}}, "spec": spec});
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn node(name: &str, variant: u8) -> Arc<Node> {
    let mut labels = json!({"host": name});
    if variant.is_multiple_of(2) {
        labels["disk"] = "ssd".into();
    }
    let taints = if variant == 3 { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!([]) };
    let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": "2", "pods": "4"}}});
    Arc::new(serde_json::from_value(node).unwrap())
}

/// Tries pods until the queue has nothing ready; binds at once. Returns how many were placed.
fn drain(state: &mut State, snapshot: &mut Snapshot, now: Duration) {
    let profile = crate::profile::Profile { preemption: None, ..Default::default() };
    while let Some(queued) = state.queue.pop(now) {
        state.cache.update(snapshot);
        let name = queued.info.name().to_owned();
        match decide(&profile, &queued.info, snapshot, 0) {
            Decision::Bind { result, .. } => {
                state.cache.assume(queued.info.clone(), &result.suggested_host);
                state.queue.done(&queued.info.uid);
                let shape = queued.info.labels()["app"].parse().unwrap();
                state.set_pod(pod(&name, Some(&result.suggested_host), shape), now);
            }
            Decision::Unschedulable { error, .. } => {
                state.queue.return_refused(queued, error.rejectors(), now)
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(160))]

    #[test]
    fn every_pod_that_fits_is_scheduled_in_the_end(history in proptest::collection::vec((0u8..5, 0u8..4, 0u8..9), 1..70)) {
        let mut state = State::new(Arc::default());
        let mut snapshot = Snapshot::default();
        let mut now = Duration::ZERO;
        for (what, n, p) in history {
            now += Duration::from_millis(250);
            let (node_name, pod_name) = (format!("n{n}"), format!("p{p}"));
            let known = state.queue.contains(&pod_name) || state.cache.pod(&pod_name).is_some();
            match what {
                0 => state.set_node(node(&node_name, p % 4), now),
                1 => state.remove_node(&node_name, now),
                2 | 3 if !known => state.set_pod(pod(&pod_name, None, p % 4), now),
                _ => state.remove_pod(&pod_name, now),
            }
            drain(&mut state, &mut snapshot, now);
        }
        // The longest pause passes; nothing else happens. Whoever still waits must really not fit.
        now += Duration::from_secs(11);
        drain(&mut state, &mut snapshot, now);
        state.cache.update(&mut snapshot);
        let profile = crate::profile::Profile { preemption: None, ..Default::default() };
        for uid in state.queue.uids() {
            let shape = (uid[1..].parse::<u8>().unwrap()) % 4;
            let info = PodInfo::new(pod(&uid, None, shape));
            let fits = crate::schedule_pod::schedule_pod(&profile, &info, &snapshot, 0);
            prop_assert!(fits.is_err(), "{} sleeps although {:?} has room", uid, fits.map(|r| r.suggested_host));
        }
    }
}

#[test]
fn a_heartbeat_wakes_nobody() {
    let mut state = State::new(Arc::default());
    state.set_node(node("n", 1), Duration::ZERO);
    state.set_pod(pod("p", None, 1), Duration::ZERO);
    drain(&mut state, &mut Snapshot::default(), Duration::ZERO);
    assert_eq!(state.queue.pending().unschedulable, 1);
    state.set_node(node("n", 1), Duration::ZERO);
    assert_eq!(state.queue.pending().unschedulable, 1);
    state.set_node(node("n", 0), Duration::ZERO);
    assert_eq!(state.queue.pending().unschedulable, 0);
}

#[test]
fn what_only_an_extender_may_look_at_wakes_whom_an_extender_refused() {
    let version = |annotation: &str, ready: &str| {
        let mut object = (*node("n", 1)).clone();
        object.metadata.annotations = Some([("rack".to_owned(), annotation.to_owned())].into());
        let condition =
            json!([{"type": "Ready", "status": ready, "lastHeartbeatTime": "2026-11-30T08:00:00Z"}]);
        object.status.as_mut().unwrap().conditions = serde_json::from_value(condition).unwrap();
        Arc::new(object)
    };
    let mut state = State::new(Arc::default());
    state.set_node(version("1", "True"), Duration::ZERO);
    for (name, plugin) in [("a", "NodeResourcesFit"), ("b", crate::extender::EXTENDER_NAME)] {
        state.set_pod(pod(name, None, 0), Duration::ZERO);
        let tried = state.queue.pop(Duration::ZERO).unwrap();
        state.queue.return_refused(tried, [plugin].into(), Duration::ZERO);
    }
    let _ = state.queue.take_incoming();
    let woken = |state: &mut State| -> Vec<_> { state.queue.take_incoming().into_keys().collect() };
    state.set_node(version("1", "True"), Duration::ZERO);
    assert_eq!(woken(&mut state), []);
    state.set_node(version("2", "True"), Duration::ZERO);
    assert_eq!(woken(&mut state), [("backoff", ("Node", "UpdateNodeAnnotation"))]);
    let again = state.queue.pop(Duration::ZERO).unwrap();
    assert_eq!(again.info.name(), "b");
    state.queue.return_refused(again, [crate::extender::EXTENDER_NAME].into(), Duration::ZERO);
    let _ = state.queue.take_incoming();
    state.set_node(version("2", "Unknown"), Duration::ZERO);
    assert_eq!(woken(&mut state), [("backoff", ("Node", "UpdateNodeCondition"))]);
    assert_eq!(state.queue.pending().unschedulable, 1, "no room was made: the other one sleeps on");
}
