//! Three nodes: pods spread, Services reach across, and the pods of a lost node are replaced elsewhere.

use std::collections::BTreeSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::cluster::{Pipeline, binary, skip, text};

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
    let ready =
        || pipeline.get(&format!("node {lost}"), r#"{.status.conditions[?(@.type=="Ready")].status}"#);
    let agent = agent(&pipeline, &lost);
    assert_ne!(agent, pipeline.pid(), "a node's agents are a process of their own");
    kill(agent, Signal::SIGKILL).unwrap();
    pipeline.wait_within("the node is NotReady", Duration::from_secs(60), || ready() == "Unknown");
    pipeline.wait_within("its pods are replaced elsewhere", Duration::from_secs(120), || {
        pipeline.get("deployment web", "{.status.availableReplicas}") == "3"
            && !on_nodes(&pipeline).contains(&lost)
    });
    let told = pipeline.log();
    assert!(told.contains(&format!("Node {lost}: process {agent} ended by itself")), "{told}");

    // The command that the pipeline named.
    let log = std::fs::File::create(pipeline.dir().join("by-hand.log")).unwrap();
    let mut by_hand = Command::new(binary("kube-proxy"))
        .arg("--state-dir")
        .arg(pipeline.dir())
        .args(["--node-agent", &lost])
        .stdin(Stdio::null())
        .stderr(log)
        .spawn()
        .unwrap();
    pipeline.wait("the node is Ready again", || ready() == "True");
    let pods = "pods -l app=web --field-selector spec.nodeName=";
    pipeline.wait("the pods that it had are gone", || {
        pipeline.get(&format!("{pods}{lost}"), "{.items[*].metadata.name}").is_empty()
    });
    let second = Command::new(binary("kube-proxy"))
        .arg("--state-dir")
        .arg(pipeline.dir())
        .args(["--node-agent", &lost])
        .output()
        .unwrap();
    let refusal = text(&second.stderr);
    assert!(refusal.contains(&format!("run already, as process {}", by_hand.id())), "{refusal}");
    // A stop of the pipeline reaches the process that was started by hand.
    let reaped = std::thread::spawn(move || by_hand.wait().unwrap());
    pipeline.stop();
    assert!(reaped.join().unwrap().success());
}

#[test]
fn agents_end_with_a_pipeline_that_is_killed_and_a_new_one_starts_them_again() {
    if skip() {
        return;
    }
    let args = ["--nodes", "2"];
    let mut pipeline = Pipeline::start(&args);
    let ready = || {
        pipeline.get("nodes", r#"{.items[*].status.conditions[?(@.type=="Ready")].status}"#) == "True True"
    };
    pipeline.wait("two nodes are Ready", ready);
    let before = [agent(&pipeline, "node-1"), agent(&pipeline, "node-2")];
    pipeline.crash_and_restart(&args);
    let ready = || {
        pipeline.get("nodes", r#"{.items[*].status.conditions[?(@.type=="Ready")].status}"#) == "True True"
    };
    pipeline.wait("two nodes are Ready again", ready);
    for pid in before {
        pipeline.wait("the old agents are gone", || kill(pid, None).is_err());
    }
    pipeline.stop();
}

/// The process that runs a node's kubelet and kube-proxy.
fn agent(pipeline: &Pipeline, node: &str) -> Pid {
    let path = pipeline.dir().join("nodes").join(node).join("agent.pid");
    Pid::from_raw(std::fs::read_to_string(path).unwrap().trim().parse().unwrap())
}

/// Nodes of the pods that are not being deleted.
fn on_nodes(pipeline: &Pipeline) -> BTreeSet<String> {
    let path = "{range .items[*]}{.spec.nodeName} {.metadata.deletionTimestamp}{\"\\n\"}{end}";
    let lines = pipeline.get("pods -l app=web", path);
    lines.lines().filter_map(|line| line.strip_suffix(' ')).map(str::to_owned).collect()
}

#[test]
fn a_cluster_that_lost_its_state_directory_takes_nothing_of_another_one() {
    if skip() {
        return;
    }
    let first = Pipeline::start(&[]);
    let mut second = first.start_beside(&[]);
    let (lost, kept) = (bridge(&first), bridge(&second));
    assert_ne!(lost, kept, "each has a bridge of its own");
    // Its directory is there again, and empty; the process lives on.
    std::fs::remove_dir_all(first.dir()).unwrap();
    let refused = Command::new(binary("kube-proxy"))
        .args(["--secure-port", "0", "--state-dir"])
        .arg(first.dir())
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let why = text(&refused.stderr);
    assert!(
        why.contains(&format!("process {} still runs a cluster of this state directory", first.pid())),
        "{why}"
    );
    drop(first);
    assert!(!link_exists(&lost), "the first cluster removed its own bridge");
    assert!(link_exists(&kept), "and not the second one's");
    second.ok(&["run", "alive", "--image=busybox:1.36", "--command", "--", "sleep", "3600"]);
    second
        .wait("pods start on the second cluster", || second.get("pod alive", "{.status.phase}") == "Running");
    second.stop();
    assert!(!link_exists(&kept));
}

fn bridge(pipeline: &Pipeline) -> String {
    let record = std::fs::read(pipeline.dir().join("nodes/network.json")).unwrap();
    let record: serde_json::Value = serde_json::from_slice(&record).unwrap();
    format!("six{}", record["index"])
}

fn link_exists(name: &str) -> bool {
    std::path::Path::new("/sys/class/net").join(name).exists()
}
