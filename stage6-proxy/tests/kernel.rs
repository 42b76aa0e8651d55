//! The rules in the real kernel: loaded with the real tools, in a network namespace made for the test.
#![allow(clippy::unwrap_used, reason = "a test: a panic is its way to fail")]
#![expect(clippy::disallowed_methods, reason = "shell: runs nft and iptables")]

use std::io::Write as _;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::process::{Command, Stdio};
use std::sync::Arc;

use stage6_proxy::endpoints_map::Endpoint;
use stage6_proxy::iptables::Iptables;
use stage6_proxy::nftables::Nftables;
use stage6_proxy::proxy_state::{LocalDetector, NodePortAddresses, NodeView, ProxyState, ServiceState};
use stage6_proxy::service_map::{NamespacedName, Protocol, ServicePort, ServicePortName};
use stage6_proxy::topology::categorize_endpoints;

/// With STAGES_REQUIRE_REAL=1 the absence of a real part is a failure.
fn have(program: &str) -> bool {
    let there = nix::unistd::geteuid().is_root()
        && Command::new(program).arg("--version").stdout(Stdio::null()).status().is_ok();
    if !there {
        assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "real part missing: {program} as root");
        println!("skipped: no {program}, or not root");
    }
    there
}

/// Runs a script in a namespace of its own, with `STDIN` on its standard input.
fn in_namespace(script: &str, stdin: &str) -> String {
    let mut child = Command::new("unshare")
        .args(["-n", "sh", "-ec", script])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("unshare runs");
    child.stdin.take().unwrap().write_all(stdin.as_bytes()).expect("the script reads");
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}\n{stdin}");
    String::from_utf8(output.stdout).unwrap()
}

fn view(addresses: NodePortAddresses) -> NodeView {
    NodeView {
        node_name: "node-1".to_owned(),
        node_ip: Ipv4Addr::new(10, 210, 0, 11),
        zone: None,
        local_detector: LocalDetector::ClusterCidr("10.244.0.0/16".parse().unwrap()),
        node_port_addresses: addresses,
        localhost_node_ports: true,
        masquerade_all: false,
        nfacct: false,
    }
}

fn name(number: u8) -> ServicePortName {
    let service = NamespacedName { namespace: "default".to_owned(), name: format!("s{number}") };
    ServicePortName { service, port: "http".to_owned(), protocol: Protocol::Tcp }
}

/// A Service with everything: all kinds of addresses, affinity (even numbers), source ranges, policy Local (from 3).
fn service(number: u8, endpoints: u8) -> ServiceState {
    let port = ServicePort {
        cluster_ip: Ipv4Addr::new(10, 96, 0, number),
        port: 80,
        node_port: 30000 + u16::from(number),
        external_ips: vec![Ipv4Addr::new(203, 0, 113, number)],
        load_balancer_vips: vec![Ipv4Addr::new(192, 0, 2, number)],
        source_ranges: vec!["198.51.100.0/24".parse().unwrap(), "10.210.0.0/16".parse().unwrap()],
        affinity_seconds: number.is_multiple_of(2).then_some(60),
        health_check_node_port: 0,
        internal_policy_local: false,
        external_policy_local: number >= 3,
    };
    let endpoints: Vec<Endpoint> = (1..=endpoints)
        .map(|endpoint| Endpoint {
            address: SocketAddrV4::new(Ipv4Addr::new(10, 244, number, endpoint), 8080),
            is_local: endpoint == 1,
            ready: true,
            serving: true,
            terminating: false,
            zone_hints: Default::default(),
        })
        .collect();
    let endpoints = categorize_endpoints(&endpoints, &port, None);
    ServiceState { port: Arc::new(port), endpoints }
}

fn state() -> ProxyState {
    (1..=4).map(|number| (name(number), service(number, number))).chain([(name(5), service(5, 0))]).collect()
}

#[test]
fn nft_takes_the_table_and_every_update() {
    if !have("nft") {
        return;
    }
    let view = view(NodePortAddresses::Only(vec![Ipv4Addr::new(10, 210, 0, 11)]));
    let mut table = Nftables::render(&state(), &view);
    let mut steps = vec![table.full(), table.full()];
    for changed in [
        [(name(1), Some(service(1, 3))), (name(2), Some(service(2, 1)))],
        [(name(3), Some(service(3, 0))), (name(4), None)],
        [(name(2), None), (name(5), Some(service(5, 2)))],
        [(name(2), Some(service(2, 2))), (name(4), Some(service(4, 4)))],
    ] {
        let transaction = table.update(&changed.into());
        steps.extend([transaction.text, transaction.cleanup]);
    }
    // The kernel's table after all the updates is the one that a full render loads.
    let listing = "nft list table ip kube-proxy";
    let script = "while IFS= read -r -d '' step; do printf '%s' \"$step\" | nft -f -; done; ".to_owned();
    let script = format!("exec bash -ec '{}'", (script + listing).replace('\'', "'\\''"));
    let updated = in_namespace(&script, &format!("{}\0", steps.join("\0")));
    let full = in_namespace(&format!("nft -f -; {listing}"), &table.full());
    let parse = stage6_proxy::nftables::trace::Table::parse;
    assert_eq!(parse(&updated), parse(&full));
    assert!(full.contains("10.96.0.2 . tcp . 80"), "{full}");
}

#[test]
fn iptables_takes_the_rules_and_every_update() {
    if !have("iptables-restore") {
        return;
    }
    let mut rules = Iptables::render(&state(), &view(NodePortAddresses::All));
    let mut steps = vec![rules.full("")];
    for changed in [
        [(name(1), Some(service(1, 3))), (name(2), Some(service(2, 1)))],
        [(name(3), Some(service(3, 0))), (name(4), None)],
    ] {
        let changes = rules.update(&changed.into());
        steps.push(rules.partial(&changes));
    }
    let script = "while IFS= read -r -d '' step; do printf '%s' \"$step\" | iptables-restore -w 5 --noflush; done; iptables-save";
    let script = format!("exec bash -ec '{}'", script.replace('\'', "'\\''"));
    let updated = in_namespace(&script, &format!("{}\0", steps.join("\0")));
    let full = in_namespace("iptables-restore -w 5 --noflush; iptables-save", &rules.full(""));
    // iptables-nft lists chains in the order of their making; the rules in each are what counts.
    let sorted = |text: &str| {
        let mut lines: Vec<String> = text
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| line.split('[').next().unwrap_or_default().to_owned())
            .collect();
        lines.sort();
        lines
    };
    assert_eq!(sorted(&updated), sorted(&full));
    // A full sync over what is there adds no second jump.
    let again = in_namespace(
        "cat > /tmp/stage6-full.$$; iptables-restore -w 5 --noflush < /tmp/stage6-full.$$; rm /tmp/stage6-full.$$; iptables-save",
        &rules.full(""),
    );
    assert!(!rules.full(&again).contains("\n-I "), "{}", rules.full(&again));
}
