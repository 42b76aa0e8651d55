//! `kube-scheduler bench` on a real API server.

use stage4_scheduler::bench::live::{self, BenchError, Flags};

use crate::harness::Harness;

fn flags(workload: &str, yes: bool) -> Flags {
    Flags { workload: workload.to_owned(), nodes: 5, pods: Some(12), yes, timeout_seconds: 60 }
}

/// How many nodes, pods and priority classes of the bench there are.
async fn left(harness: &Harness) -> [usize; 3] {
    let classes = harness.items("/apis/scheduling.k8s.io/v1/priorityclasses").await;
    let made = |class: &&serde_json::Value| class["metadata"]["name"].as_str().unwrap().starts_with("bench-");
    let classes = classes.iter().filter(made).count();
    [harness.items("/api/v1/nodes").await.len(), harness.items("/api/v1/pods").await.len(), classes]
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bench_counts_bound_pods_asks_first_and_leaves_nothing_behind() {
    let harness = Harness::start().await;
    let (_scheduler, _stop) = harness.scheduler("").await;
    let refused = live::run(&harness.client, "here", &flags("SchedulingBasic", false)).await.err();
    assert!(matches!(refused, Some(BenchError::NotAllowed(5, 13, _))), "{refused:?}");
    assert_eq!(left(&harness).await, [0, 0, 0]);
    for name in ["SchedulingBasic", "PreemptionAsync"] {
        let (workload, figures) = live::run(&harness.client, "here", &flags(name, true)).await.unwrap();
        assert_eq!((workload.name, figures.pods), (name, 12));
        assert!(figures.line(&workload, 5).starts_with(&format!("{name}: 12 pods on 5 nodes, created in ")));
        assert_eq!(left(&harness).await, [0, 0, 0], "after {name}");
    }
}
