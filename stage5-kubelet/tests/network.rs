//! Node networks in the real kernel: namespaces, a bridge, and a connection between two nodes.
#![allow(clippy::unwrap_used, reason = "a test: a panic is its way to fail")]
#![expect(clippy::disallowed_methods, reason = "shell: a test with real sockets")]

use stage5_kubelet::network::execute::{claim, execute, observe};
use stage5_kubelet::network::netns::NodeRuntime;
use stage5_kubelet::network::{ClusterNetwork, NodeNetwork, plan_down, plan_up};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

/// With STAGES_REQUIRE_REAL=1 the absence of a real part is a failure.
fn skipped(why: &str) {
    assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "real part missing: {why}");
    println!("skipped: {why}");
}

#[test]
fn two_nodes_reach_each_other_over_the_bridge_and_down_leaves_nothing() {
    if !nix::unistd::geteuid().is_root() {
        return skipped("not root");
    }
    let owner = format!("six-stages:test-{}", std::process::id());
    let claimed = claim(&owner, None).expect("a bridge");
    let cluster = claimed.network.clone();
    let refusal = claim(&owner, Some(cluster.index)).expect_err("one process has it").to_string();
    assert_eq!(
        refusal,
        format!("process {} still runs a cluster of this state directory", std::process::id())
    );
    // A killed process leaves its bridge, but no lock.
    drop(claimed);
    let claimed = claim(&owner, Some(cluster.index)).expect("the same bridge");
    assert_eq!(cluster, claimed.network, "a bridge with our mark is adopted");
    let other = claim("six-stages:test-somebody-else", Some(cluster.index)).expect("another bridge");
    assert_ne!(cluster.index, other.network.index, "a stranger's bridge is left alone");
    let theirs = other.network.clone();
    drop(other);
    // What remembers the stranger's number as its own removes nothing there.
    let mistaken = ClusterNetwork { index: theirs.index, owner: owner.clone() };
    assert_eq!(plan_down(&mistaken, &[], &observe().unwrap()), vec![]);
    execute(&plan_down(&theirs, &[], &observe().unwrap())).expect("remove the other bridge");

    let nodes: Vec<NodeNetwork> = (1..=2).map(|ordinal| cluster.node(ordinal)).collect();
    let outcome = std::panic::catch_unwind(|| {
        execute(&plan_up(&cluster, &nodes, &observe().unwrap())).expect("up");
        assert_eq!(plan_up(&cluster, &nodes, &observe().unwrap()), vec![], "a second plan is empty");
        assert_eq!(talk(&nodes), format!("hello from {}", nodes[1].ip));
    });
    execute(&plan_down(&cluster, &nodes, &observe().unwrap())).expect("down");
    let after = observe().unwrap();
    assert!(!after.links.keys().any(|link| link.starts_with(&cluster.bridge())), "{after:?}");
    assert!(!after.namespaces.iter().any(|path| nodes.iter().any(|node| node.netns == *path)), "{after:?}");
    outcome.expect("the nodes talk");
}

/// Node 2 connects to node 1, which answers with what it sees of its caller.
fn talk(nodes: &[NodeNetwork]) -> String {
    let first = NodeRuntime::start("node-1", Some(&nodes[0].netns)).expect("a runtime in node 1");
    let second = NodeRuntime::start("node-2", Some(&nodes[1].netns)).expect("a runtime in node 2");
    let address = (nodes[0].ip, 10250);
    let (ready, is_ready) = std::sync::mpsc::channel();
    first.handle().spawn(async move {
        let listener = TcpListener::bind(address).await.expect("node 1's own port 10250");
        ready.send(()).expect("the test waits");
        let (mut stream, peer) = listener.accept().await.expect("a connection");
        stream.write_all(format!("hello from {}", peer.ip()).as_bytes()).await.expect("write");
    });
    is_ready.recv().expect("node 1 listens");
    let (done, answer) = std::sync::mpsc::channel();
    second.handle().spawn(async move {
        let mut stream = TcpStream::connect(address).await.expect("node 1 answers");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("read");
        done.send(text).expect("the test waits");
    });
    answer.recv_timeout(std::time::Duration::from_secs(10)).expect("an answer in time")
}
