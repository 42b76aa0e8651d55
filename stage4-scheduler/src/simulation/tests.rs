//! Tests of the simulation: whole small clusters, and no overcommitted node in any.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn run(objects: Value, seed: u64) -> Simulation {
    let profiles = Arc::new(Profiles::default());
    let mut world = World::new(objects.as_array().unwrap(), profiles.clone()).unwrap();
    simulate(&mut world, &profiles, seed)
}

fn node(name: &str, cpu: &str) -> Value {
    json!({"kind": "Node", "metadata": {"name": name}, "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"}}})
}

fn pod(name: &str, cpu: &str, priority: i32) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"priority": priority,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
}

#[test]
fn a_deployment_is_placed_until_the_nodes_are_full() {
    let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": "1"}}}]}});
    let web = json!({"kind": "Deployment", "metadata": {"name": "web"}, "spec": {"replicas": 5, "template": template}});
    let result = run(json!([web, node("a", "2"), node("b", "2")]), 7);
    assert_eq!((result.placements.len(), result.unplaced.len()), (4, 1));
    assert_eq!(result.unplaced[0].pod, "default/web-4");
    assert!(result.unplaced[0].message.starts_with("0/2 nodes are available: 2 Insufficient cpu."));
    assert!(result.nodes.iter().all(|node| node.cpu_millis == (2000, 2000)));
    let text = table(&result);
    assert!(text.contains("UNPLACED        REASON") && text.contains("a      2      100%"), "{text}");
}

#[test]
fn the_most_important_pod_is_first_and_evicts() {
    let mut old = pod("old", "1", 0);
    old["spec"]["nodeName"] = "a".into();
    let result = run(json!([node("a", "1"), old, pod("late", "1", 0), pod("vip", "1", 10)]), 0);
    assert_eq!(result.placements, [Placement { pod: "default/vip".into(), node: "a".into() }]);
    assert_eq!(result.evicted[0].pod, "default/old");
    assert_eq!(result.unplaced[0].pod, "default/late");
}

#[test]
fn a_gate_and_a_foreign_scheduler_keep_a_pod_out() {
    let (mut gated, mut foreign) = (pod("gated", "1", 0), pod("foreign", "1", 0));
    gated["spec"]["schedulingGates"] = json!([{"name": "g"}]);
    foreign["spec"]["schedulerName"] = "other".into();
    let reasons: Vec<String> =
        run(json!([node("a", "4"), gated, foreign]), 0).unplaced.into_iter().map(|pod| pod.reason).collect();
    assert_eq!(reasons, ["SchedulingGated", "NoScheduler"]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_node_is_overcommitted_and_every_pod_is_accounted_for(
        nodes in proptest::collection::vec(1u32..5, 1..6),
        pods in proptest::collection::vec((100u32..2500, 0i32..3), 1..25),
        seed in any::<u64>(),
    ) {
        let mut objects: Vec<Value> =
            nodes.iter().enumerate().map(|(at, cpu)| node(&format!("n{at}"), &cpu.to_string())).collect();
        for (at, (cpu, priority)) in pods.iter().enumerate() {
            objects.push(pod(&format!("p{at}"), &format!("{cpu}m"), *priority));
        }
        let result = run(Value::Array(objects.clone()), seed);
        prop_assert!(result.nodes.iter().all(|node| node.cpu_millis.0 <= node.cpu_millis.1));
        prop_assert_eq!(result.placements.len() + result.unplaced.len(), pods.len());
        // The important ones came first: nobody had to go.
        prop_assert!(result.evicted.is_empty());
        prop_assert_eq!(run(Value::Array(objects), seed), result);
    }
}
