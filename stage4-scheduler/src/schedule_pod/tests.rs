//! Properties of the decision, over generated clusters.

use std::collections::BTreeSet;

use super::*;
use crate::listers::Listers;
use crate::pod_info::PodInfo;
use proptest::prelude::*;
use serde_json::{Value, json};

#[derive(Clone, Debug)]
struct World {
    nodes: Vec<(u8, u32, bool, u8)>,
    existing: Vec<(u8, u32, u8)>,
    pod: (u32, u8, u8),
}

fn world() -> impl Strategy<Value = World> {
    let nodes = proptest::collection::vec((0u8..3, 1u32..6, any::<bool>(), 0u8..3), 1..9);
    let existing = proptest::collection::vec((0u8..9, 0u32..2500, 0u8..3), 0..14);
    (nodes, existing, (0u32..3000, 0u8..8, 0u8..3)).prop_map(|(nodes, existing, pod)| World {
        nodes,
        existing,
        pod,
    })
}

fn pod(name: &str, cpu: u32, app: u8, shape: u8) -> Arc<PodInfo> {
    let selector = json!({"matchLabels": {"app": app.to_string()}});
    let term = json!({"topologyKey": "zone", "labelSelector": selector});
    let mut spec = json!({"containers": [{"name": "c", "image": "img", "resources": {"requests": {"cpu": format!("{cpu}m")}}}]});
    match shape {
        1 => spec["nodeSelector"] = json!({"zone": "0"}),
        2 => spec["tolerations"] = json!([{"operator": "Exists"}]),
        3 => {
            spec["affinity"] =
                json!({"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
        }
        4 => {
            spec["affinity"] =
                json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
        }
        5 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "DoNotSchedule", "labelSelector": selector}]);
        }
        6 => {
            spec["topologySpreadConstraints"] = json!([{"maxSkew": 1, "topologyKey": "zone",
                "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": selector}]);
        }
        7 => {
            spec["affinity"] = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution":
                [{"weight": 50, "podAffinityTerm": term}]}});
        }
        _ => {}
    }
    let pod = json!({"metadata": {"name": name, "namespace": "w", "labels": {"app": app.to_string()}}, "spec": spec});
    Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
}

fn nodes(world: &World) -> Vec<Arc<NodeInfo>> {
    let object = |at: usize, (zone, cpus, tainted, pods): &(u8, u32, bool, u8)| -> Value {
        let taint = if *tainted { "NoSchedule" } else { "PreferNoSchedule" };
        json!({
            "metadata": {"name": format!("n{at}"), "labels": {"zone": zone.to_string(), "kubernetes.io/hostname": format!("n{at}")}},
            "spec": {"taints": if *pods == 0 { json!([{"key": "k", "effect": taint}]) } else { json!([]) }},
            "status": {"allocatable": {"cpu": cpus.to_string(), "memory": "4Gi", "pods": (pods + 2).to_string()}}
        })
    };
    let mut infos: Vec<NodeInfo> = world
        .nodes
        .iter()
        .enumerate()
        .map(|(at, node)| NodeInfo::of(Arc::new(serde_json::from_value(object(at, node)).unwrap())))
        .collect();
    for (at, (node, cpu, app)) in world.existing.iter().enumerate() {
        let home = usize::from(*node) % infos.len();
        infos[home].add_pod(pod(&format!("e{at}"), *cpu, *app, *node));
    }
    infos.into_iter().map(Arc::new).collect()
}

fn snapshot(nodes: Vec<Arc<NodeInfo>>) -> Snapshot {
    Snapshot::new(nodes, Arc::new(Listers::default()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(192))]

    #[test]
    fn the_chosen_node_passes_every_filter_and_every_refusal_has_a_reason(world in world(), chance in any::<u64>()) {
        let profile = Profile::default();
        let newcomer = pod("new", world.pod.0, world.pod.2, world.pod.1);
        let snapshot = snapshot(nodes(&world));
        match schedule_pod(&profile, &newcomer, &snapshot, chance) {
            Ok(result) => {
                let Ok(rules) = Rules::new(&profile, &newcomer, &snapshot) else { panic!("rules refused") };
                let node = snapshot.get(&result.suggested_host).unwrap();
                prop_assert!(rules.check(node, &WhatIf::NOTHING).is_success());
                prop_assert_eq!(result.evaluated_nodes, world.nodes.len());
                prop_assert_eq!(result.feasible_nodes + result.refused.len(), world.nodes.len());
            }
            Err(error) => {
                let counted: usize = error.histogram().values().sum();
                prop_assert!(counted >= world.nodes.len() || !error.pre_filter_message.is_empty(), "{}", error);
                prop_assert!(!error.rejectors().is_empty());
            }
        }
    }

    #[test]
    fn scores_lie_between_0_and_100(world in world()) {
        let profile = Profile::default();
        let newcomer = pod("new", world.pod.0, world.pod.2, world.pod.1);
        let snapshot = snapshot(nodes(&world));
        let all: Vec<&NodeInfo> = snapshot.nodes().iter().map(|node| &**node).collect();
        for (plugin, _, scores) in score_table(&profile, &newcomer, &snapshot, &all) {
            prop_assert!(scores.iter().all(|score| (0..=100).contains(score)), "{} {:?}", plugin, scores);
        }
    }

    #[test]
    fn the_order_of_the_nodes_changes_nothing_but_ties(world in world(), turn in 0usize..9) {
        let profile = Profile::default();
        let newcomer = pod("new", world.pod.0, world.pod.2, world.pod.1);
        let forward = nodes(&world);
        let mut turned = forward.clone();
        turned.reverse();
        let turn = turn % turned.len();
        turned.rotate_left(turn);
        let best = |snapshot: &Snapshot| match schedule_pod(&profile, &newcomer, snapshot, 0) {
            Ok(result) => {
                // With each chance in turn: every node that a tie may fall on.
                let chances = 0..snapshot.nodes().len() as u64;
                let chosen = chances.map(|chance| schedule_pod(&profile, &newcomer, snapshot, chance).unwrap());
                let hosts: BTreeSet<String> = chosen.map(|result| result.suggested_host.to_string()).collect();
                let total = result.top.first().map_or(-1, |best| best.total);
                (total, result.feasible_nodes, hosts, String::new())
            }
            Err(error) => (0, 0, BTreeSet::new(), error.to_string()),
        };
        prop_assert_eq!(best(&snapshot(forward)), best(&snapshot(turned)));
    }
}

#[test]
fn a_nominated_pod_keeps_its_place_from_pods_of_lower_priority() {
    let world = World { nodes: vec![(0, 1, false, 2)], existing: vec![], pod: (800, 0, 0) };
    let mut snapshot = snapshot(nodes(&world));
    let mut important = (*pod("important", 800, 0, 0).pod).clone();
    important.spec.as_mut().unwrap().priority = Some(10);
    let important = Arc::new(PodInfo::new(Arc::new(important)));
    snapshot.nominate("n0", vec![important.clone()]);
    let profile = Profile::default();
    let error = schedule_pod(&profile, &pod("new", 800, 0, 0), &snapshot, 0).unwrap_err();
    assert_eq!(error.to_string(), "0/1 nodes are available: 1 Insufficient cpu.");
    assert!(schedule_pod(&profile, &important, &snapshot, 0).is_ok());
}

proptest! {
    #[test]
    fn the_chosen_one_is_the_nth_of_the_best_and_the_next_best_follow(totals in proptest::collection::vec(0i64..4, 0..12), chance in 0u64..40) {
        let best = totals.iter().max();
        let equals: Vec<usize> = (0..totals.len()).filter(|&at| Some(&totals[at]) == best).collect();
        let chosen = (!equals.is_empty()).then(|| equals[chance as usize % equals.len()]);
        let mut others: Vec<usize> = (0..totals.len()).filter(|&at| Some(at) != chosen).collect();
        others.sort_by_key(|&at| std::cmp::Reverse(totals[at]));
        let expected: Vec<usize> = chosen.into_iter().chain(others.into_iter().take(TOP - 1)).collect();
        prop_assert_eq!(select_hosts(&totals, chance), expected);
    }
}
