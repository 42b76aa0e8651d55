//! Three nodes: pods spread, Services reach across, and the pods of a lost node are replaced elsewhere.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::cluster::{Pipeline, skip};

const MANIFEST: &str = include_str!("../../src/demo/web.yaml");

#[test]
fn pods_spread_over_three_nodes_and_leave_a_lost_one() {
    if skip() {
        return;
    }
    // A lost node is noticed after the grace period; tolerations of five minutes would make the test wait for them.
    let mut pipeline = Pipeline::start(&["--nodes", "3", "--node-monitor-grace-period", "8s"]);
    pipeline.wait("three nodes are Ready", || {
        pipeline.get("nodes", r#"{.items[*].status.conditions[?(@.type=="Ready")].status}"#)
            == "True True True"
    });
    let tolerations = "      tolerations:\n        - {key: node.kubernetes.io/unreachable, operator: Exists, effect: NoExecute, tolerationSeconds: 2}\n        - {key: node.kubernetes.io/not-ready, operator: Exists, effect: NoExecute, tolerationSeconds: 2}\n      containers:";
    pipeline.apply(&MANIFEST.replacen("      containers:", tolerations, 1));
    pipeline.rolled_out("web");
    let nodes = on_nodes(&pipeline);
    println!("pods on {nodes:?}");
    assert_eq!(nodes.len(), 3, "a replica on each node");
    let cluster_ip = pipeline.get("service web", "{.spec.clusterIP}");
    let pod = pipeline.get("pods -l app=web", "{.items[0].metadata.name}");
    let mut served = BTreeSet::new();
    pipeline.wait("pods of other nodes answer", || {
        served.insert(pipeline.ok(&["exec", &pod, "--", "wget", "-qO-", &format!("http://{cluster_ip}/")]));
        served.len() == 3
    });

    let lost = nodes.last().unwrap().clone();
    pipeline.ok(&["annotate", "node", &lost, "six-stages.dev/stop-kubelet=true"]);
    pipeline.wait_within("the node is NotReady", Duration::from_secs(60), || {
        pipeline.get(&format!("node {lost}"), r#"{.status.conditions[?(@.type=="Ready")].status}"#)
            == "Unknown"
    });
    pipeline.wait_within("its pods are replaced elsewhere", Duration::from_secs(120), || {
        pipeline.get("deployment web", "{.status.availableReplicas}") == "3"
            && !on_nodes(&pipeline).contains(&lost)
    });
    pipeline.stop();
}

/// Nodes of the pods that are not being deleted.
fn on_nodes(pipeline: &Pipeline) -> BTreeSet<String> {
    let path = "{range .items[*]}{.spec.nodeName} {.metadata.deletionTimestamp}{\"\\n\"}{end}";
    let lines = pipeline.get("pods -l app=web", path);
    lines.lines().filter_map(|line| line.strip_suffix(' ')).map(str::to_owned).collect()
}
