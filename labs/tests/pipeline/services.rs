//! Requests through Services: from the node, from a pod, from the host; and what happens when a pod goes.

use std::collections::BTreeSet;
use std::process::Command;

use crate::cluster::{Pipeline, skip, text};

const MANIFEST: &str = include_str!("../../src/demo/web.yaml");

/// Who answers, over so many fresh connections that three replicas are asked.
fn answers(mut ask: impl FnMut() -> String) -> BTreeSet<String> {
    (0..40).map(|_| ask().trim().to_owned()).filter(|answer| !answer.is_empty()).collect()
}

fn curl(program: &mut Command) -> String {
    let output = program.output().unwrap();
    text(&output.stdout)
}

#[test]
fn all_replicas_answer_and_a_replaced_pod_receives_traffic() {
    if skip() {
        return;
    }
    let mut pipeline = Pipeline::start(&[]);
    pipeline.apply(MANIFEST);
    pipeline.rolled_out("web");
    let pods: BTreeSet<String> = pods(&pipeline);
    assert_eq!(pods.len(), 3);
    let cluster_ip = pipeline.get("service web", "{.spec.clusterIP}");
    let node_ip = pipeline.get("nodes", r#"{.items[0].status.addresses[?(@.type=="InternalIP")].address}"#);
    let from = pods.first().unwrap().clone();

    let from_pod = answers(|| {
        text(&pipeline.run(&["exec", &from, "--", "wget", "-qO-", &format!("http://{cluster_ip}/")]).stdout)
    });
    println!("ClusterIP from a pod: {from_pod:?}");
    assert_eq!(from_pod, pods);

    let net = format!("--net={}", node_namespace(&pipeline));
    let from_node = answers(|| {
        curl(Command::new("nsenter").args([
            &net,
            "busybox",
            "wget",
            "-qO-",
            &format!("http://{cluster_ip}/"),
        ]))
    });
    println!("ClusterIP from the node: {from_node:?}");
    assert_eq!(from_node, pods);

    let from_host =
        answers(|| curl(Command::new("busybox").args(["wget", "-qO-", &format!("http://{node_ip}:30080/")])));
    println!("NodePort from the host: {from_host:?}");
    assert_eq!(from_host, pods);

    pipeline.ok(&["delete", "pod", &from, "--grace-period=1"]);
    pipeline.rolled_out("web");
    let now = self::pods(&pipeline);
    assert!(!now.contains(&from) && now.len() == 3, "{now:?}");
    pipeline.wait("the new pod receives traffic", || {
        answers(|| curl(Command::new("busybox").args(["wget", "-qO-", &format!("http://{node_ip}:30080/")])))
            == now
    });
    pipeline.stop();
}

/// The first node's network namespace: the bridge's number in the address is the one in its name.
fn node_namespace(pipeline: &Pipeline) -> String {
    let ip = pipeline.get("nodes", r#"{.items[0].status.addresses[?(@.type=="InternalIP")].address}"#);
    let number = ip.split('.').nth(2).unwrap().to_owned();
    format!("/run/netns/six{number}-{}", pipeline.get("nodes", "{.items[0].metadata.name}"))
}

fn pods(pipeline: &Pipeline) -> BTreeSet<String> {
    let path =
        r"{range .items[*]}{.metadata.name} {.metadata.deletionTimestamp}{'\n'}{end}".replace('\'', "\"");
    let lines = pipeline.get("pods -l app=web", &path);
    lines.lines().filter_map(|line| line.strip_suffix(' ')).map(str::to_owned).collect()
}

#[test]
fn a_pod_calls_the_api_by_its_service_account() {
    if skip() {
        return;
    }
    let mut pipeline = Pipeline::start(&[]);
    pipeline.ok(&["run", "caller", "--image=busybox:1.36", "--command", "--", "sleep", "3600"]);
    pipeline.wait("caller runs", || pipeline.get("pod caller", "{.status.phase}") == "Running");
    let dir = "/var/run/secrets/kubernetes.io/serviceaccount";
    let listed = pipeline.ok(&["exec", "caller", "--", "ls", dir]);
    assert_eq!(listed.split_whitespace().collect::<Vec<_>>(), ["ca.crt", "namespace", "token"]);
    let variables = pipeline.ok(&["exec", "caller", "--", "env"]);
    assert!(variables.contains("KUBERNETES_SERVICE_HOST=10.96.0.1"), "{variables}");
    let found = pipeline.run(&["exec", "caller", "--", "nslookup", "kubernetes"]);
    assert!(
        text(&found.stdout).contains("Name:\tkubernetes.default.svc.cluster.local"),
        "{}",
        text(&found.stdout)
    );
    // libc's resolver completes names with a dot, too; a cluster IP answers no ping.
    let found = pipeline.run(&["exec", "caller", "--", "ping", "-c1", "-w1", "kubernetes.default"]);
    assert!(text(&found.stdout).contains("PING kubernetes.default (10.96.0.1)"), "{}", text(&found.stdout));
    // busybox speaks no verified TLS; a connection to the Service's address shows the way, the token its holder.
    let connected = pipeline.run(&["exec", "caller", "--", "sh", "-c", "nc -w 3 10.96.0.1 443 </dev/null"]);
    assert!(connected.status.success(), "{}", text(&connected.stderr));
    let token = pipeline.ok(&["exec", "caller", "--", "cat", &format!("{dir}/token")]);
    let who = pipeline.ok(&[
        "--token",
        token.trim(),
        "--kubeconfig",
        "/dev/null",
        "--server",
        &server(&pipeline),
        "--insecure-skip-tls-verify",
        "auth",
        "whoami",
    ]);
    assert!(who.contains("system:serviceaccount:default:default"), "{who}");
    proxies(&pipeline);
    pipeline.stop();
}

fn server(pipeline: &Pipeline) -> String {
    pipeline.ok(&["config", "view", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}"])
}

/// Through the API server to a pod: by the scheme that is asked for, and never to the API server's own machine.
fn proxies(pipeline: &Pipeline) {
    // On the node's network: its port 10250 is the kubelet's, which speaks TLS and knows no anonymous callers.
    pipeline.apply(
        "---\n{apiVersion: v1, kind: Pod, metadata: {name: front}, spec: {hostNetwork: true, containers: [{name: c, image: 'busybox:1.36', command: [sleep, '3600']}]}}",
    );
    pipeline.wait("front runs", || pipeline.get("pod front", "{.status.phase}") == "Running");
    let get = |pod: &str, path: &str| {
        let output =
            pipeline.run(&["get", "--raw", &format!("/api/v1/namespaces/default/pods/{pod}/proxy/{path}")]);
        text(&output.stdout) + &text(&output.stderr)
    };
    let by_tls = get("https:front:10250", "pods");
    assert!(by_tls.contains("Unauthorized"), "{by_tls}");
    let plain = get("front:10250", "pods");
    assert!(!plain.contains("Unauthorized"), "{plain}");
    assert!(get("ftp:front:21", "").contains("invalid pod request \"ftp:front:21\""));
    // Whoever may write a pod's status must not reach what listens on the server's loopback.
    pipeline.apply(
        "---\n{apiVersion: v1, kind: Pod, metadata: {name: liar}, spec: {schedulerName: nobody, containers: [{name: c, image: 'busybox:1.36'}]}}",
    );
    for address in ["127.0.0.1", "169.254.169.254"] {
        let lie = format!(r#"{{"status":{{"podIP":"{address}","podIPs":[{{"ip":"{address}"}}]}}}}"#);
        pipeline.ok(&["patch", "pod", "liar", "--subresource=status", "--type=merge", "-p", &lie]);
        let refusal = get("liar:2379", "version");
        assert!(refusal.contains("address not allowed"), "{refusal}");
    }
}
