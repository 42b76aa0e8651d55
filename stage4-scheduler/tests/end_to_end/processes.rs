//! The binary itself: two of them with one lease, and `kill -9` between the assumption and the binding.

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::harness::{Harness, node, pod};
use crate::webhook::listen;

/// A scheduler process, killed at the end.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn start(harness: &Harness, more: &[&str]) -> Process {
    let kubeconfig: PathBuf = harness.cluster.kubeconfig("kube-scheduler").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_kube-scheduler"));
    command.arg("--kubeconfig").arg(kubeconfig).args(["--secure-port", "0"]).args(more);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    Process(command.spawn().unwrap())
}

const QUICK: [&str; 3] = [
    "--leader-elect-lease-duration=2s",
    "--leader-elect-renew-deadline=1500ms",
    "--leader-elect-retry-period=300ms",
];

async fn holder(harness: &Harness) -> Option<String> {
    let lease =
        harness.get("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/kube-scheduler").await;
    lease["spec"]["holderIdentity"].as_str().filter(|holder| !holder.is_empty()).map(str::to_owned)
}

async fn scheduled_events(harness: &Harness, pod: &str) -> usize {
    harness.events(pod).await.iter().filter(|event| event["reason"] == "Scheduled").count()
}

/// Waits until each of these pods has its one event.
async fn once_scheduled(harness: &Harness, pods: &[&str]) {
    for name in pods {
        let told = || async { (scheduled_events(harness, name).await == 1).then_some(()) };
        harness.wait_for(&format!("one Scheduled event of {name}"), told).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn of_two_schedulers_one_works_and_the_other_takes_over() {
    let harness = Harness::start().await;
    harness.create(&node("n1", "100")).await;
    let mut first = start(&harness, &QUICK);
    let leader = harness.wait_for("a leader", || holder(&harness)).await;
    let _second = start(&harness, &QUICK);
    for number in 0..5 {
        harness.create(&pod(&format!("a{number}"), "1")).await;
    }
    for number in 0..5 {
        harness.bound(&format!("a{number}")).await;
    }
    // An event is told after its binding: a scheduler that dies in between never tells it.
    once_scheduled(&harness, &["a0", "a1", "a2", "a3", "a4"]).await;
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    for number in 0..5 {
        harness.create(&pod(&format!("b{number}"), "1")).await;
    }
    for number in 0..5 {
        harness.bound(&format!("b{number}")).await;
    }
    assert_ne!(holder(&harness).await.unwrap(), leader);
    once_scheduled(&harness, &["a0", "a4", "b0", "b4"]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_scheduler_killed_between_assumption_and_binding_loses_no_pod() {
    let harness = Harness::start().await;
    let (url, mut questions) = listen().await;
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config.yaml");
    let text = format!(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n- {{urlPrefix: '{url}', bindVerb: bind, httpTimeout: 60s}}\n"
    );
    std::fs::write(&config, text).unwrap();
    harness.create(&node("n1", "1")).await;
    let mut first = start(&harness, &["--leader-elect=false", "--config", config.to_str().unwrap()]);
    harness.create(&pod("p", "1")).await;
    // It has assumed the pod and asks the webhook to bind it; there it dies.
    let question = questions.recv().await.unwrap();
    assert_eq!((question.verb.as_str(), &question.body["Node"]), ("bind", &Value::from("n1")));
    first.0.kill().unwrap();
    first.0.wait().unwrap();
    drop(question);
    assert_eq!(harness.node_of("p").await, None);
    let _second = start(&harness, &["--leader-elect=false"]);
    assert_eq!(harness.bound("p").await, "n1");
    // And nothing was given away twice.
    harness.create(&pod("q", "1")).await;
    assert!(
        harness
            .refusal("q", "Unschedulable")
            .await
            .starts_with("0/1 nodes are available: 1 Insufficient cpu.")
    );
}

/// What the binary prints, run with the admin's kubeconfig.
async fn printed(harness: &Harness, args: &[&str]) -> String {
    let mut command = tokio::process::Command::new(env!("CARGO_BIN_EXE_kube-scheduler"));
    command.args(args).env("KUBECONFIG", harness.cluster.kubeconfig("admin").unwrap());
    let output = command.output().await.unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn explain_says_what_the_scheduler_then_does_and_answers_what_if() {
    let harness = Harness::start().await;
    let mut tainted = node("tainted", "8");
    tainted["spec"]["taints"] = serde_json::json!([{"key": "gpu", "value": "only", "effect": "NoSchedule"}]);
    for node in [node("small", "1"), node("large", "4"), tainted] {
        harness.create(&node).await;
    }
    harness.create(&pod("web", "2")).await;
    let told = printed(&harness, &["explain", "pod/web", "-n", "w", "-o", "json"]).await;
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(
        (&told["apiVersion"], &told["decision"]["node"]),
        (&"explain.kube-scheduler/v1".into(), &"large".into())
    );
    assert_eq!(told["nodes"][1]["objections"][0]["plugin"], "NodeResourcesFit");
    let table = printed(
        &harness,
        &["explain", "web", "-n", "w", "--without-taint", "gpu", "--with-node", "huge=cpu=64,memory=64Gi"],
    )
    .await;
    assert!(table.starts_with("Pod w/web (priority 0): goes to huge\n3 of 4 nodes can take it\n"), "{table}");
    let many = printed(&harness, &["explain", "web", "-n", "w", "--replicas", "3"]).await;
    assert!(many.contains("w/web-2    Unschedulable   0/3 nodes are available: 1 node(s) had untolerated taint {gpu: only}, 2 Insufficient cpu."), "{many}");
    // Nothing of it was real.
    assert_eq!(harness.items("/api/v1/nodes").await.len(), 3);
    assert_eq!(harness.items("/api/v1/namespaces/w/pods").await.len(), 1);
    let _scheduler = start(&harness, &["--leader-elect=false"]);
    assert_eq!(harness.bound("web").await, "large");
    let again = printed(&harness, &["explain", "web", "-n", "w"]).await;
    assert!(again.starts_with("Pod w/web (priority 0): goes to large\n"), "{again}");
}
