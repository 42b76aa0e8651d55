//! Properties of preemption: whom it evicts, and whom never.

use super::*;
use crate::framework::WhatIf;
use crate::listers::Listers;
use crate::schedule_pod::schedule_pod;
use proptest::prelude::*;
use serde_json::json;

fn pod(name: &str, cpu: u32, priority: i32) -> Arc<PodInfo> {
    let pod = json!({
        "metadata": {"name": name, "namespace": "w", "labels": {"app": name}},
        "spec": {"priority": priority, "containers": [{"name": "c", "resources": {"requests": {"cpu": format!("{cpu}m")}}}]}
    });
    Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
}

fn snapshot(nodes: usize, pods: &[(usize, u32, i32)]) -> Snapshot {
    let mut infos: Vec<NodeInfo> = (0..nodes)
        .map(|at| {
            let node = json!({"metadata": {"name": format!("n{at}")}, "status": {"allocatable": {"cpu": "2", "pods": "5"}}});
            NodeInfo::of(Arc::new(serde_json::from_value(node).unwrap()))
        })
        .collect();
    for (at, (node, cpu, priority)) in pods.iter().enumerate() {
        infos[node % nodes].add_pod(pod(&format!("e{at}"), *cpu, *priority));
    }
    Snapshot::new(infos.into_iter().map(Arc::new).collect(), Arc::new(Listers::default()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn victims_are_less_important_enough_and_none_too_many(
        nodes in 1usize..4,
        pods in proptest::collection::vec((0usize..4, 1u32..1500, 0i32..5), 0..12),
        cpu in 1u32..2500,
        priority in 0i32..5,
        offset in 0usize..9,
    ) {
        let profile = Profile::default();
        let snapshot = snapshot(nodes, &pods);
        let newcomer = pod("new", cpu, priority);
        let Err(error) = schedule_pod(&profile, &newcomer, &snapshot, 0) else { return Ok(()) };
        let result = DefaultPreemption::default().post_filter(&profile, &newcomer, &snapshot, &error, offset);
        let Some(candidate) = result.nominated else {
            prop_assert!(result.message.starts_with("preemption: 0/"), "{}", result.message);
            return Ok(());
        };
        prop_assert!(!candidate.victims.is_empty());
        prop_assert!(candidate.victims.iter().all(|victim| victim.priority < priority));
        let Ok(rules) = Rules::new(&profile, &newcomer, &snapshot) else { panic!("rules refused") };
        let mut node = (**snapshot.get(&candidate.node).unwrap()).clone();
        for victim in &candidate.victims {
            node.remove_pod(&victim.uid);
        }
        prop_assert!(rules.check(&node, &WhatIf::NOTHING).is_success());
        for victim in &candidate.victims {
            let mut with_one_back = node.clone();
            with_one_back.add_pod(victim.clone());
            prop_assert!(!rules.check(&with_one_back, &WhatIf::NOTHING).is_success(), "{} needn't go", victim.key);
        }
    }
}

/// How many of the pods a budget that allows no disruption protects.
fn protected(pods: &[Arc<PodInfo>]) -> usize {
    pods.iter().filter(|pod| pod.labels()["tier"] == "db").count()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn the_node_with_the_fewest_violated_budgets_is_taken(
        pods in proptest::collection::vec((0usize..3, 1u32..1500, 0i32..3, any::<bool>()), 1..12),
        cpu in 500u32..2000,
        offset in 0usize..9,
    ) {
        let mut snapshot = snapshot(3, &[]);
        let mut nodes: Vec<NodeInfo> = snapshot.nodes().iter().map(|node| (**node).clone()).collect();
        for (at, (node, cpu, priority, database)) in pods.iter().enumerate() {
            let mut object = (*pod(&format!("e{at}"), *cpu, *priority).pod).clone();
            let tier = if *database { "db" } else { "web" };
            object.metadata.labels = Some([("tier".to_owned(), tier.to_owned())].into());
            nodes[*node].add_pod(Arc::new(PodInfo::new(Arc::new(object))));
        }
        let budget = json!({"metadata": {"name": "db", "namespace": "w"}, "spec": {"selector": {"matchLabels": {"tier": "db"}}},
            "status": {"disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}});
        let mut listers = Listers::default();
        listers.set_budget("w/db", Some(Arc::new(serde_json::from_value(budget).unwrap())));
        snapshot = Snapshot::new(nodes.into_iter().map(Arc::new).collect(), Arc::new(listers));
        let (profile, newcomer) = (Profile::default(), pod("new", cpu, 10));
        let Err(error) = schedule_pod(&profile, &newcomer, &snapshot, 0) else { return Ok(()) };
        let result = DefaultPreemption::default().post_filter(&profile, &newcomer, &snapshot, &error, offset);
        let Some(chosen) = result.nominated else { return Ok(()) };
        prop_assert_eq!(chosen.violations, protected(&chosen.victims));
        let found = DefaultPreemption::default().find_candidates(&profile, &newcomer, &snapshot, &error, 0);
        let fewest = found.unwrap_or_default().iter().map(|candidate| protected(&candidate.victims)).min();
        prop_assert_eq!(Some(chosen.violations), fewest);
    }
}

#[test]
fn a_pod_waits_for_victims_that_leave_but_not_for_pods_that_end_by_themselves() {
    let leaving = |reason: &str| {
        let mut object = (*pod("old", 2000, 0).pod).clone();
        object.metadata.deletion_timestamp = serde_json::from_value(json!("2024-01-01T00:00:00Z")).unwrap();
        object.status = serde_json::from_value(
            json!({"conditions": [{"type": "DisruptionTarget", "status": "True", "reason": reason}]}),
        )
        .unwrap();
        let mut node = (**snapshot(1, &[]).get("n0").unwrap()).clone();
        node.add_pod(Arc::new(PodInfo::new(Arc::new(object))));
        Snapshot::new(vec![Arc::new(node)], Arc::new(Listers::default()))
    };
    let mut newcomer = (*pod("new", 1000, 10).pod).clone();
    newcomer.status = serde_json::from_value(json!({"nominatedNodeName": "n0"})).unwrap();
    let newcomer = PodInfo::new(Arc::new(newcomer));
    let profile = Profile::default();
    let ask = |snapshot: &Snapshot| {
        let error = schedule_pod(&profile, &newcomer, snapshot, 0).unwrap_err();
        DefaultPreemption::default().post_filter(&profile, &newcomer, snapshot, &error, 0)
    };
    let waits = ask(&leaving("PreemptionByScheduler"));
    assert_eq!(waits.message, "preemption: not eligible due to a terminating pod on the nominated node.");
    assert!(!waits.clear_nomination && ask(&leaving("DeletionByTaintManager")).nominated.is_some());
}

#[test]
fn a_pod_that_never_preempts_says_so() {
    let snapshot = snapshot(1, &[(0, 2000, 0)]);
    let mut newcomer = (*pod("new", 1000, 10).pod).clone();
    newcomer.spec.as_mut().unwrap().preemption_policy = Some("Never".to_owned());
    let newcomer = PodInfo::new(Arc::new(newcomer));
    let profile = Profile::default();
    let error = schedule_pod(&profile, &newcomer, &snapshot, 0).unwrap_err();
    let result = DefaultPreemption::default().post_filter(&profile, &newcomer, &snapshot, &error, 0);
    assert_eq!(result.message, "preemption: not eligible due to preemptionPolicy=Never.");
}
