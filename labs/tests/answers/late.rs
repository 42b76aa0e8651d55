//! Stages ④ to ⑥: refusals, hints, containers, waits, rules and names.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use clap::Parser as _;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Value, json};
use stage3_controllers::options::ControllerFlags;
use stage4_scheduler::framework::{ClusterEvent, Hint, Plugin as _};
use stage4_scheduler::listers::Listers;
use stage4_scheduler::node_info::NodeInfo;
use stage4_scheduler::plugins::node_resources_fit::NodeResourcesFit;
use stage4_scheduler::pod_info::PodInfo;
use stage4_scheduler::profile::Profile;
use stage4_scheduler::schedule_pod::schedule_pod;
use stage4_scheduler::snapshot::Snapshot;
use stage5_kubelet::backoff::Backoffs;
use stage5_kubelet::cri::{ContainerState, PodSandboxMetadata, PodSandboxStatus, SandboxState};
use stage5_kubelet::dns::{NodeDns, pod_dns};
use stage5_kubelet::pod::hash_container;
use stage5_kubelet::pod_actions::{PodAction, compute_pod_actions};
use stage5_kubelet::pod_status::{StatusInput, generate_api_pod_status};
use stage5_kubelet::runtime_view::{ProbeResult, RuntimeContainer, RuntimePod};
use stage6_proxy::dns::zone::{Found, Zone};
use stage6_proxy::endpoints_map::Endpoint;
use stage6_proxy::iptables::Iptables;
use stage6_proxy::packet::{Hook, Packet, Ruleset as _};
use stage6_proxy::proxy_state::{LocalDetector, NodePortAddresses, NodeView, ProxyState, ServiceState};
use stage6_proxy::service_map::{NamespacedName, Protocol, ServicePort, ServicePortName};
use stage6_proxy::topology::categorize_endpoints;

use crate::{object, word};

fn node(name: &str, cpu: &str, labels: Value, taints: Value) -> Arc<NodeInfo> {
    let node = json!({"metadata": {"name": name, "labels": labels}, "spec": {"taints": taints},
        "status": {"allocatable": {"cpu": cpu, "memory": "1Gi", "pods": "110"}}});
    Arc::new(NodeInfo::of(Arc::new(object(node))))
}

fn asks_for(requests: Value) -> PodInfo {
    PodInfo::new(Arc::new(object(json!({"metadata": {"name": "p", "namespace": "d", "uid": "p"},
        "spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}}))))
}

pub fn three_nodes_refuse() -> Vec<String> {
    let taint = || json!([{"key": "dedicated", "value": "gpu", "effect": "NoSchedule"}]);
    let nodes = vec![
        node("a", "4", json!({}), taint()),
        node("b", "4", json!({}), taint()),
        node("c", "1", json!({}), json!([])),
    ];
    let snapshot = Snapshot::new(nodes, Arc::new(Listers::default()));
    vec![
        schedule_pod(&Profile::default(), &asks_for(json!({"cpu": "2"})), &snapshot, 0)
            .unwrap_err()
            .to_string(),
    ]
}

pub fn does_a_label_give_memory() -> Vec<String> {
    let pod = asks_for(json!({"memory": "4Gi"}));
    let (old, new) =
        (node("a", "4", json!({}), json!([])), node("a", "4", json!({"disk": "ssd"}), json!([])));
    let hint = NodeResourcesFit::default().hint(&pod, &ClusterEvent::NodeUpdated { old, new });
    vec![if hint == Hint::Skip { "No." } else { "Yes." }.to_owned()]
}

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(seconds).unwrap()
}

fn pod(spec: Value) -> Pod {
    object(json!({"metadata": {"name": "p", "namespace": "ns", "uid": "u"}, "spec": spec}))
}

fn container(pod: &Pod, name: &str, state: ContainerState, exit_code: i32) -> RuntimeContainer {
    let spec = pod.spec.as_ref().unwrap();
    let mut all = spec.init_containers.iter().flatten().chain(&spec.containers);
    let ended = state == ContainerState::Exited;
    RuntimeContainer {
        id: name.to_owned(),
        name: name.to_owned(),
        image: "x".to_owned(),
        image_id: String::new(),
        state,
        created_at: at(1),
        started_at: Some(at(1)),
        finished_at: ended.then(|| at(5)),
        exit_code,
        reason: if ended { "Error" } else { "" }.to_owned(),
        message: String::new(),
        restart_count: 0,
        hash: hash_container(all.find(|one| one.name == name).unwrap()),
        log_path: String::new(),
        liveness: None,
        startup: None,
        readiness: None,
        termination_message: None,
    }
}

fn runtime(containers: Vec<RuntimeContainer>) -> RuntimePod {
    let sandbox = PodSandboxStatus {
        id: "sandbox".to_owned(),
        metadata: PodSandboxMetadata::default(),
        state: SandboxState::Ready,
        created_at: at(0),
        ips: vec!["10.244.0.2".to_owned()],
        host_network: false,
    };
    RuntimePod { uid: "u".to_owned(), ips: sandbox.ips.clone(), sandboxes: vec![sandbox], containers }
}

fn one() -> Pod {
    pod(json!({"containers": [{"name": "c", "image": "x"}]}))
}

fn actions(pod: &Pod, runtime: &RuntimePod) -> Vec<PodAction> {
    compute_pod_actions(pod, runtime, &Backoffs::default(), at(60))
}

pub fn a_container_that_runs() -> Vec<String> {
    let pod = one();
    let found = actions(&pod, &runtime(vec![container(&pod, "c", ContainerState::Running, 0)]));
    vec![if found.is_empty() { "does nothing" } else { "restarts it" }.to_owned()]
}

pub fn a_second_init_container_failed() -> Vec<String> {
    let pod = pod(json!({"initContainers": [{"name": "i1", "image": "x"}, {"name": "i2", "image": "x"}],
        "containers": [{"name": "c", "image": "x"}]}));
    let ended = |name: &str, code| container(&pod, name, ContainerState::Exited, code);
    match actions(&pod, &runtime(vec![ended("i2", 1), ended("i1", 0)])).as_slice() {
        [PodAction::StartInitContainer(1)] => vec!["The second one only".to_owned()],
        other => panic!("{other:?}"),
    }
}

/// A container that fails at once, each time.
pub fn the_fifth_start() -> Vec<String> {
    let (mut backoffs, mut now, mut waits) = (Backoffs::default(), at(0), Vec::new());
    for _ in 2..=5 {
        let failed = now;
        if let Some((until, wait)) = backoffs.until("c", failed, now) {
            waits.push(wait.as_secs().to_string());
            now = until;
        }
        backoffs.next("c", failed, now);
    }
    let [first, second, third] = waits.as_slice() else { panic!("{waits:?}") };
    let passed: SignedDuration = now.duration_since(at(0));
    vec![format!("{first}, {second} and {third} seconds"), format!("after {} seconds", passed.as_secs())]
}

pub fn readiness_restarts() -> Vec<String> {
    let pod = one();
    let mut unready = container(&pod, "c", ContainerState::Running, 0);
    unready.readiness = Some(ProbeResult::Failure);
    let found = actions(&pod, &runtime(vec![unready]));
    vec![if found.is_empty() { "Never." } else { "Each time." }.to_owned()]
}

/// The controllers' flags as they are when nobody says anything.
#[derive(clap::Parser)]
struct Defaults {
    #[command(flatten)]
    flags: ControllerFlags,
}

pub fn patience_with_a_node() -> Vec<String> {
    let flags = Defaults::parse_from(["kube-controller-manager"]).flags;
    vec![format!("after {} seconds", flags.node_monitor_grace_period.as_secs())]
}

pub fn phase_of_a_crash_loop() -> Vec<String> {
    let pod = one();
    let ended = container(&pod, "c", ContainerState::Exited, 1);
    let input = StatusInput {
        pod: &pod,
        runtime: &runtime(vec![ended]),
        previous: &PodStatus::default(),
        errors: &[("c".to_owned(), ("CrashLoopBackOff".to_owned(), "back-off 10s".to_owned()))].into(),
        terminal: false,
        evicted: None,
        host_ips: &[],
        scheme: "containerd",
        now: at(60),
    };
    vec![format!("`{}`", generate_api_pod_status(&input).phase.unwrap())]
}

/// A Service with three ready endpoints, one of them on this node.
fn rules() -> Iptables {
    let endpoint = |number: u8| Endpoint {
        address: SocketAddrV4::new(Ipv4Addr::new(10, 244, number, 2), 8080),
        is_local: number == 0,
        ready: true,
        serving: true,
        terminating: false,
        zone_hints: BTreeSet::new(),
    };
    let port = ServicePort {
        cluster_ip: Ipv4Addr::new(10, 96, 0, 7),
        port: 80,
        node_port: 0,
        external_ips: Vec::new(),
        load_balancer_vips: Vec::new(),
        source_ranges: Vec::new(),
        affinity_seconds: None,
        health_check_node_port: 0,
        internal_policy_local: false,
        external_policy_local: false,
    };
    let view = NodeView {
        node_name: "node-1".to_owned(),
        node_ip: Ipv4Addr::new(10, 210, 0, 11),
        zone: None,
        local_detector: LocalDetector::ClusterCidr("10.244.0.0/16".parse().unwrap()),
        node_port_addresses: NodePortAddresses::Only(Vec::new()),
        localhost_node_ports: false,
        masquerade_all: false,
        nfacct: false,
    };
    let service = NamespacedName { namespace: "default".to_owned(), name: "web".to_owned() };
    let name = ServicePortName { service, port: String::new(), protocol: Protocol::Tcp };
    let endpoints = categorize_endpoints(&[0, 1, 2].map(endpoint), &port, None);
    let state = ProxyState::from([(name, ServiceState { port: Arc::new(port), endpoints })]);
    Iptables::render(&state, &view)
}

pub fn share_of_an_endpoint() -> Vec<String> {
    let packet = Packet {
        hook: Hook::Prerouting,
        interface: None,
        source: Ipv4Addr::new(10, 244, 0, 9),
        destination: Ipv4Addr::new(10, 96, 0, 7),
        port: 80,
        protocol: Protocol::Tcp,
        local_addresses: [Ipv4Addr::new(10, 210, 0, 11)].into(),
    };
    let shares = stage6_proxy::packet::normalize(&rules().verdicts(&packet));
    let shares: BTreeSet<String> =
        shares.iter().map(|(_, share)| format!("`1/{:.0}`", 1.0 / share)).collect();
    shares.into_iter().collect()
}

pub fn dice_of_iptables() -> Vec<String> {
    let text = rules().to_string();
    let dice: Vec<String> = text
        .lines()
        .filter_map(|line| line.split("--probability ").nth(1)?.split(' ').next()?.parse::<f64>().ok())
        .map(|probability| format!("1/{:.0}", 1.0 / probability))
        .collect();
    let ways =
        text.lines().filter(|line| line.contains("-A KUBE-SVC-") && line.contains("-j KUBE-SEP-")).count();
    let last = if ways == dice.len() + 1 { "the last one always" } else { "no last one" };
    let [first, second] = dice.as_slice() else { panic!("{text}") };
    vec![format!("probability {first}"), format!("with {second}"), last.to_owned()]
}

/// Each search domain, and then the name itself.
pub fn questions_for_a_name() -> Vec<String> {
    let node = NodeDns {
        cluster_dns: vec!["10.96.0.10".parse().unwrap()],
        cluster_domain: "cluster.local".to_owned(),
        ..NodeDns::default()
    };
    let (dns, _) = pod_dns(&one(), &node);
    assert!(dns.options.contains(&"ndots:5".to_owned()), "{:?}", dns.options);
    vec![format!("Up to {}", word(dns.searches.len() + 1))]
}

pub fn a_headless_name() -> Vec<String> {
    let mut zone = Zone::new("cluster.local");
    zone.service(&object(json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"clusterIP": "None", "ports": [{"port": 80}]}})));
    let endpoint =
        |address: &str, ready: bool| json!({"addresses": [address], "conditions": {"ready": ready}});
    let slice = json!({"metadata": {"name": "web-a", "namespace": "default", "labels": {"kubernetes.io/service-name": "web"}},
        "addressType": "IPv4", "ports": [{"port": 80}],
        "endpoints": [endpoint("10.244.0.2", true), endpoint("10.244.0.3", false), endpoint("10.244.0.4", true)]});
    zone.slice(&object(slice), false);
    let ready: Vec<Ipv4Addr> = ["10.244.0.2", "10.244.0.4"].map(|address| address.parse().unwrap()).into();
    match zone.lookup(&["web", "default", "svc"]) {
        Some(Found::Addresses(mut found)) => {
            found.sort_unstable();
            assert_eq!(found, ready);
            vec!["The addresses of its ready pods".to_owned()]
        }
        other => panic!("{other:?}"),
    }
}
