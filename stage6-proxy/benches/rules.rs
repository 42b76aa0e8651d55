//! How long rules take: rendering, an update, and (as root) loading them into a kernel namespace.
#![expect(clippy::disallowed_methods, reason = "shell: runs nft and iptables")]

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};
use std::sync::Arc;

use divan::Bencher;
use stage6_proxy::endpoints_map::Endpoint;
use stage6_proxy::iptables::Iptables;
use stage6_proxy::nftables::Nftables;
use stage6_proxy::proxy_state::{LocalDetector, NodePortAddresses, NodeView, ProxyState, ServiceState};
use stage6_proxy::service_map::{NamespacedName, Protocol, ServicePort, ServicePortName};
use stage6_proxy::topology::categorize_endpoints;

fn main() {
    divan::main();
}

const SIZES: [u32; 3] = [100, 1_000, 5_000];

fn view() -> NodeView {
    let node_ip = Ipv4Addr::new(10, 210, 0, 11);
    NodeView {
        node_name: "node-1".to_owned(),
        node_ip,
        zone: None,
        local_detector: LocalDetector::ClusterCidr("10.244.0.0/16".parse().expect("a CIDR")),
        node_port_addresses: NodePortAddresses::Only(vec![node_ip]),
        localhost_node_ports: false,
        masquerade_all: false,
        nfacct: false,
    }
}

fn name(number: u32) -> ServicePortName {
    let service = NamespacedName { namespace: "default".to_owned(), name: format!("service-{number}") };
    ServicePortName { service, port: "http".to_owned(), protocol: Protocol::Tcp }
}

fn service(number: u32, endpoints: u32) -> ServiceState {
    let port = ServicePort {
        cluster_ip: Ipv4Addr::from(u32::from(Ipv4Addr::new(10, 96, 0, 0)) + number + 1),
        port: 80,
        node_port: 0,
        external_ips: vec![],
        load_balancer_vips: vec![],
        source_ranges: vec![],
        affinity_seconds: None,
        health_check_node_port: 0,
        internal_policy_local: false,
        external_policy_local: false,
    };
    let first = u32::from(Ipv4Addr::new(10, 244, 0, 0)) + number * 3;
    let endpoint = |index| Endpoint {
        address: SocketAddrV4::new(Ipv4Addr::from(first + index), 8080),
        is_local: false,
        ready: true,
        serving: true,
        terminating: false,
        zone_hints: Default::default(),
    };
    let endpoints: Vec<Endpoint> = (0..endpoints).map(endpoint).collect();
    let endpoints = categorize_endpoints(&endpoints, &port, None);
    ServiceState { port: Arc::new(port), endpoints }
}

fn state(services: u32) -> ProxyState {
    (0..services).map(|number| (name(number), service(number, 3))).collect()
}

#[divan::bench(args = SIZES)]
fn nftables_render(bencher: Bencher, services: u32) {
    let (state, view) = (state(services), view());
    bencher.bench(|| Nftables::render(&state, &view).full());
}

#[divan::bench(args = SIZES)]
fn iptables_render(bencher: Bencher, services: u32) {
    let (state, view) = (state(services), view());
    bencher.bench(|| Iptables::render(&state, &view).full(""));
}

#[divan::bench(args = SIZES)]
fn nftables_update_one_service(bencher: Bencher, services: u32) {
    let mut table = Nftables::render(&state(services), &view());
    let mut endpoints = 0;
    bencher.bench_local(|| {
        endpoints = endpoints % 3 + 1;
        table.update(&[(name(7), Some(service(7, endpoints)))].into())
    });
}

#[divan::bench(args = SIZES)]
fn iptables_update_one_service(bencher: Bencher, services: u32) {
    let mut rules = Iptables::render(&state(services), &view());
    let mut endpoints = 0;
    bencher.bench_local(|| {
        endpoints = endpoints % 3 + 1;
        let changes = rules.update(&[(name(7), Some(service(7, endpoints)))].into());
        rules.partial(&changes)
    });
}

fn load(program: &[&str], text: &str) {
    let mut child =
        Command::new("unshare").arg("-n").args(program).stdin(Stdio::piped()).spawn().expect("unshare runs");
    child.stdin.take().expect("piped").write_all(text.as_bytes()).expect("it reads");
    assert!(child.wait().expect("it ends").success(), "{program:?} refused the rules");
}

#[divan::bench(args = SIZES, sample_count = 3, sample_size = 1)]
fn nftables_load_into_the_kernel(bencher: Bencher, services: u32) {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let text = Nftables::render(&state(services), &view()).full();
    bencher.bench(|| load(&["nft", "-f", "-"], &text));
}

#[divan::bench(args = SIZES, sample_count = 3, sample_size = 1)]
fn iptables_load_into_the_kernel(bencher: Bencher, services: u32) {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let text = Iptables::render(&state(services), &view()).full("");
    bencher.bench(|| load(&["iptables-restore", "-w", "5", "--noflush"], &text));
}
