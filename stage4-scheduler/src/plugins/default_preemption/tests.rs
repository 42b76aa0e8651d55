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
