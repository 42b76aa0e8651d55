//! Tests of the cache: assuming, and that what is kept equals what is rebuilt.

use super::*;
use proptest::prelude::*;
use serde_json::json;

fn pod(name: &str, node: Option<&str>, cpu: u32) -> Arc<PodInfo> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "w", "uid": name, "labels": {"app": name}},
        "spec": {"containers": [{"name": "c", "ports": [{"containerPort": 1, "hostPort": 1000 + cpu}],
            "resources": {"requests": {"cpu": format!("{cpu}m"), "example.com/x": "1"}}}],
            "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]}
    });
    if let Some(node) = node {
        pod["spec"]["nodeName"] = node.into();
    }
    if cpu.is_multiple_of(2) {
        pod["spec"]["affinity"] = json!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"topologyKey": "h", "labelSelector": {"matchLabels": {"app": "x"}}}]}});
    }
    Arc::new(PodInfo::new(Arc::new(serde_json::from_value(pod).unwrap())))
}

fn node(name: &str, zone: u8) -> Arc<Node> {
    let node = json!({
        "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone.to_string()}},
        "status": {"allocatable": {"cpu": "4"}, "images": [{"names": [format!("image-{zone}:1")], "sizeBytes": 1}]}
    });
    Arc::new(serde_json::from_value(node).unwrap())
}

#[test]
fn an_assumed_pod_counts_until_it_is_forgotten() {
    let mut cache = Cache::default();
    cache.set_node(node("n", 0));
    assert!(cache.assume(pod("a", None, 100), "n"));
    assert!(!cache.assume(pod("a", None, 100), "n"), "twice is once");
    assert_eq!(cache.node("n").unwrap().requested.cpu_millis, 100);
    assert!(cache.forget("a"));
    assert_eq!(cache.node("n").unwrap().requested.cpu_millis, 0);
}

#[test]
fn what_the_watch_confirmed_is_neither_forgotten_nor_expires() {
    let mut cache = Cache { time_to_live: Some(Duration::from_secs(30)), ..Cache::default() };
    cache.set_node(node("n", 0));
    cache.assume(pod("a", None, 100), "n");
    cache.assume(pod("b", None, 100), "n");
    for uid in ["a", "b"] {
        cache.finish_binding(uid, Duration::ZERO);
    }
    cache.set_pod(pod("a", Some("n"), 100));
    let expired: Vec<_> =
        cache.expire(Duration::from_secs(30)).iter().map(|pod| pod.name().to_owned()).collect();
    assert_eq!(expired, ["b"]);
    assert!(!cache.forget("a"));
    assert_eq!(cache.node("n").unwrap().pods.len(), 1);
}

#[test]
fn zones_take_turns() {
    let mut cache = Cache::default();
    for (name, zone) in [("a", 0), ("b", 0), ("c", 0), ("d", 1)] {
        cache.set_node(node(name, zone));
    }
    let mut snapshot = Snapshot::default();
    cache.update(&mut snapshot);
    let order: Vec<&str> = snapshot.nodes().iter().map(|node| &*node.name).collect();
    assert_eq!(order, ["a", "d", "b", "c"]);
}

/// The parts of a snapshot that must not depend on how it came about.
fn summary(snapshot: &Snapshot) -> Vec<String> {
    let names = |pods: &crate::node_info::PodList| {
        let mut names: Vec<String> = pods.iter().map(|pod| pod.key.to_string()).collect();
        names.sort();
        names
    };
    let ports = |node: &NodeInfo| {
        let mut ports: Vec<i32> = node.used_ports.iter().map(|port| port.port).collect();
        ports.sort_unstable();
        ports
    };
    let mut lines: Vec<String> = snapshot
        .nodes()
        .iter()
        .map(|node| {
            format!(
                "{} {:?} {:?} {:?} {:?} {:?} {:?} {:?}",
                node.name,
                names(&node.pods),
                names(&node.pods_with_affinity),
                names(&node.pods_with_required_anti_affinity),
                node.requested,
                node.non_zero_requested,
                ports(node),
                node.claims,
            )
        })
        .collect();
    let mut images: Vec<_> = snapshot.image_nodes.iter().collect();
    images.sort();
    lines.push(format!("{images:?}"));
    lines.push(format!("{:?}", snapshot.nodes_with_affinity().map(|node| &*node.name).collect::<Vec<_>>()));
    lines
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn an_incremental_snapshot_equals_one_built_from_scratch(history in proptest::collection::vec((0u8..6, 0u8..5, 0u8..8), 1..80)) {
        let mut cache = Cache::default();
        let mut snapshot = Snapshot::default();
        for (what, n, p) in history {
            let (node_name, pod_name) = (format!("n{n}"), format!("p{p}"));
            match what {
                0 => drop(cache.set_node(node(&node_name, p % 3))),
                1 => drop(cache.remove_node(&node_name)),
                2 => drop(cache.set_pod(pod(&pod_name, Some(&node_name), u32::from(p)))),
                3 => drop(cache.remove_pod(&pod_name)),
                4 => drop(cache.assume(pod(&pod_name, None, u32::from(p)), &node_name)),
                _ => drop(cache.forget(&pod_name)),
            }
            cache.update(&mut snapshot);
            let mut fresh = Cache::default();
            for info in cache.nodes.values() {
                if let Some(object) = &info.object {
                    fresh.set_node(object.node.clone());
                }
            }
            for state in cache.pods.values() {
                fresh.insert(state.info.clone(), &state.node, state.assumed);
            }
            let mut rebuilt = Snapshot::default();
            fresh.update(&mut rebuilt);
            prop_assert_eq!(summary(&snapshot), summary(&rebuilt));
        }
    }
}
