//! Tests of the explanation: it says what the decision says, and all of it.

use super::*;
use crate::profiles::Profiles;
use crate::world::World;
use serde_json::{Value, json};

fn world(objects: Value) -> World {
    World::new(objects.as_array().unwrap(), Arc::new(Profiles::default())).unwrap()
}

fn node(name: &str, cpu: &str, taints: Value) -> Value {
    json!({"kind": "Node", "metadata": {"name": name, "labels": {"disk": name}}, "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": cpu, "memory": "4Gi", "pods": "10"}}})
}

fn pod(name: &str, cpu: &str, node_name: Option<&str>) -> Value {
    json!({"kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node_name,
        "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]}})
}

#[test]
fn every_objection_is_named_with_its_numbers() {
    let taint = json!([{"key": "gpu", "value": "only", "effect": "NoSchedule"}]);
    let mut world = world(json!([
        node("full", "1", taint),
        node("free", "2", json!([])),
        pod("old", "800m", Some("full")),
        pod("new", "500m", None)
    ]));
    let snapshot = world.snapshot();
    let explanation = explain(&Profile::default(), &world.waiting[0], &snapshot, 0);
    assert_eq!(explanation.decision.node.as_deref(), Some("free"));
    let full = &explanation.nodes[1];
    let plugins: Vec<_> = full.objections.iter().map(|objection| objection.plugin.as_str()).collect();
    assert_eq!(plugins, ["TaintToleration", "NodeResourcesFit"]);
    assert_eq!(
        full.objections[0].details.as_deref(),
        Some("taints gpu=only:NoSchedule; the pod tolerates none of them")
    );
    assert_eq!(
        full.objections[1].details.as_deref(),
        Some("cpu: the pod requests 500m, 200m of 1 are free, 800m are requested by 1 pod(s)")
    );
    let text = table::explanation(&explanation, false);
    assert!(text.starts_with("Pod default/new (priority 0): goes to free\n1 of 2 nodes can take it\n\nNODE   FITS   TOTAL   WHY\nfree   yes "), "{text}");
}

#[test]
fn the_json_form_can_be_read_again() {
    let mut world = world(json!([node("a", "1", json!([])), pod("new", "3", None)]));
    let snapshot = world.snapshot();
    let explanation = explain(&Profile::default(), &world.waiting[0], &snapshot, 0);
    let value = serde_json::to_value(&explanation).unwrap();
    assert_eq!(value["apiVersion"], "explain.kube-scheduler/v1");
    assert_eq!(value["nodes"][0]["objections"][0]["preemptionMayHelp"], true);
    assert_eq!(serde_json::from_value::<Explanation>(value).unwrap(), explanation);
    assert_eq!(
        explanation.decision.message,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    );
}

#[test]
fn a_gate_and_a_missing_claim_are_refusals_of_the_pod_itself() {
    let mut gated = pod("gated", "1", None);
    gated["spec"]["schedulingGates"] = json!([{"name": "quota"}]);
    let mut claim = pod("claim", "1", None);
    claim["spec"]["volumes"] = json!([{"name": "v", "persistentVolumeClaim": {"claimName": "none"}}]);
    let mut world = world(json!([node("a", "4", json!([])), gated, claim]));
    let snapshot = world.snapshot();
    let why = |at: usize| explain(&Profile::default(), &world.waiting[at], &snapshot, 0).refused.unwrap();
    assert_eq!(
        (why(0).plugin.as_str(), why(0).reasons),
        ("SchedulingGates", vec!["waiting for scheduling gates: [quota]".to_owned()])
    );
    assert_eq!(why(1).reasons, ["persistentvolumeclaim \"none\" not found"]);
}

mod agreement {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(96))]

        #[test]
        fn a_node_is_feasible_exactly_if_nobody_objects_and_the_best_is_chosen(
            nodes in proptest::collection::vec((1u32..4, any::<bool>()), 1..7),
            old in proptest::collection::vec((0usize..7, 1u32..1500), 0..9),
            cpu in 1u32..3000,
            chance in any::<u64>(),
        ) {
            let taint = |tainted: bool| if tainted { json!([{"key": "k", "effect": "NoSchedule"}]) } else { json!([]) };
            let mut objects: Vec<Value> = nodes.iter().enumerate()
                .map(|(at, (cpus, tainted))| node(&format!("n{at}"), &cpus.to_string(), taint(*tainted))).collect();
            for (at, (home, cpu)) in old.iter().enumerate() {
                objects.push(pod(&format!("e{at}"), &format!("{cpu}m"), Some(&format!("n{}", home % nodes.len()))));
            }
            objects.push(pod("new", &format!("{cpu}m"), None));
            let mut world = world(Value::Array(objects));
            let snapshot = world.snapshot();
            let profile = Profile::default();
            let explanation = explain(&profile, &world.waiting[0], &snapshot, chance);
            let feasible: Vec<_> = explanation.nodes.iter().filter(|node| node.feasible).collect();
            prop_assert!(explanation.nodes.iter().all(|node| node.feasible == node.objections.is_empty()));
            prop_assert_eq!(explanation.nodes.len(), nodes.len());
            prop_assert_eq!(explanation.decision.node.is_some(), !feasible.is_empty());
            if let Some(chosen) = &explanation.decision.node {
                let best = feasible.iter().map(|node| node.total).max().flatten();
                let total = explanation.nodes.iter().find(|node| node.name == *chosen).unwrap().total;
                prop_assert_eq!(total, best);
            }
        }
    }
}
