//! The watchdog on a clock of its own.
//!
//! # In Kubernetes
//! `pkg/controller/nodelifecycle/node_lifecycle_controller_test.go`.

use super::*;
use k8s_openapi::api::coordination::v1::LeaseSpec;
use k8s_openapi::api::core::v1::{NodeSpec, NodeStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + second).unwrap()
}

fn node(name: &str, ready: &str, taints: &[&str]) -> Arc<Node> {
    let condition = NodeCondition {
        type_: "Ready".into(),
        status: ready.into(),
        last_heartbeat_time: Some(Time(at(0))),
        ..Default::default()
    };
    let taint = |key: &&str| Taint { key: key.to_string(), effect: "NoExecute".into(), ..Default::default() };
    Arc::new(Node {
        metadata: ObjectMeta { name: Some(name.into()), uid: Some(name.into()), ..Default::default() },
        spec: Some(NodeSpec { taints: Some(taints.iter().map(taint).collect()), ..Default::default() }),
        status: Some(NodeStatus { conditions: Some(vec![condition]), ..Default::default() }),
    })
}

fn leases(names: &[&str], second: i64) -> HashMap<String, Arc<Lease>> {
    let lease = || Lease {
        spec: Some(LeaseSpec { renew_time: Some(MicroTime(at(second))), ..Default::default() }),
        ..Default::default()
    };
    names.iter().map(|name| (name.to_string(), Arc::new(lease()))).collect()
}

fn monitor() -> Monitor {
    Monitor::new(Periods {
        grace: SignedDuration::from_secs(40),
        startup_grace: SignedDuration::from_secs(60),
        monitor: Duration::from_secs(5),
    })
}

/// Prints what a step does: `n1: status Unknown`, `n1: taint unreachable`, events by reason.
fn step(
    monitor: &mut Monitor,
    nodes: &[Arc<Node>],
    leases: &HashMap<String, Arc<Lease>>,
    second: i64,
) -> Vec<String> {
    let plans = monitor.step(&Cluster { nodes, leases, pods_on: &|_| Vec::new() }, at(second));
    let print = |action: Action| match action {
        Action::Patch { target, subresource: "status", .. } => format!("{}: status", target.key.name),
        Action::Patch { target, patch, .. } => {
            let taints = patch["spec"]["taints"].as_array().map(|taints| {
                taints.iter().map(|taint| taint["key"].to_string()).collect::<Vec<_>>().join(",")
            });
            format!("{}: taints {}", target.key.name, taints.unwrap_or_default())
        }
        Action::Record { event, about } => format!("{}: {}", about.name.unwrap(), event.reason),
        other => format!("{other:?}"),
    };
    plans.into_iter().flatten().map(print).collect()
}

#[test]
fn a_node_that_stops_renewing_is_unknown_and_tainted_after_its_grace_period() {
    let mut monitor = monitor();
    let both = [node("a", "True", &[]), node("b", "True", &[])];
    assert_eq!(
        step(&mut monitor, &both, &leases(&["a", "b"], 0), 0),
        ["a: RegisteredNode", "b: RegisteredNode"]
    );
    for second in (5..=40).step_by(5) {
        let mut fresh = leases(&["a"], second);
        fresh.extend(leases(&["b"], 0));
        assert_eq!(step(&mut monitor, &both, &fresh, second), Vec::<String>::new(), "at {second} s");
    }
    let mut fresh = leases(&["a"], 45);
    fresh.extend(leases(&["b"], 0));
    assert_eq!(
        step(&mut monitor, &both, &fresh, 45),
        ["b: status", "b: NodeNotReady", "b: taints \"node.kubernetes.io/unreachable\""]
    );
}

#[test]
fn a_wrong_clock_on_the_node_is_no_silence() {
    let mut monitor = monitor();
    let nodes = [node("a", "True", &[])];
    step(&mut monitor, &nodes, &leases(&["a"], -900_000), 0);
    for second in (5..300).step_by(5) {
        // The node's clock is days behind, but its Lease changes all the time.
        assert_eq!(
            step(&mut monitor, &nodes, &leases(&["a"], second - 900_000), second),
            Vec::<String>::new()
        );
    }
}

#[test]
fn when_all_nodes_are_silent_nobody_is_evicted_and_taints_are_taken_back() {
    let mut monitor = monitor();
    let nodes = [node("a", "Unknown", &[UNREACHABLE]), node("b", "Unknown", &[])];
    let done = step(&mut monitor, &nodes, &HashMap::new(), 0);
    assert_eq!(done, ["a: RegisteredNode", "b: RegisteredNode", "a: taints "]);
}

#[test]
fn a_node_that_is_ready_again_loses_its_taint_and_one_that_speaks_swaps_it() {
    let mut monitor = monitor();
    let nodes = [node("a", "True", &[UNREACHABLE]), node("b", "False", &[UNREACHABLE])];
    let done = step(&mut monitor, &nodes, &leases(&["a", "b"], 0), 0);
    assert_eq!(done[2..], ["a: taints ", "b: taints \"node.kubernetes.io/not-ready\""]);
}

#[test]
fn silent_nodes_are_tainted_one_in_ten_seconds() {
    let mut monitor = monitor();
    let nodes = [
        node("a", "True", &[]),
        node("b", "True", &[]),
        node("c", "True", &[]),
        node("d", "Unknown", &[]),
        node("e", "Unknown", &[]),
    ];
    let names = ["a", "b", "c"];
    let taints = |monitor: &mut Monitor, second| {
        let done = step(monitor, &nodes, &leases(&names, second), second);
        done.into_iter().filter(|line| line.contains("taints")).count()
    };
    assert_eq!([0, 5, 10].map(|second| taints(&mut monitor, second)), [1, 0, 1]);
}
