//! The same state and the same packet get the same verdicts from both dialects, whatever the state.
#![allow(clippy::unwrap_used, reason = "a test: a panic is its way to fail")]

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::Arc;

use proptest::prelude::*;
use stage6_proxy::endpoints_map::Endpoint;
use stage6_proxy::iptables::Iptables;
use stage6_proxy::nftables::{self, Nftables};
use stage6_proxy::packet::{Hook, Packet, Ruleset as _};
use stage6_proxy::proxy_state::{LocalDetector, NodePortAddresses, NodeView, ProxyState, ServiceState};
use stage6_proxy::service_map::{NamespacedName, Protocol, ServicePort, ServicePortName};
use stage6_proxy::topology::categorize_endpoints;

const NODE_IP: Ipv4Addr = Ipv4Addr::new(10, 210, 0, 11);

fn view() -> NodeView {
    NodeView {
        node_name: "node-1".to_owned(),
        node_ip: NODE_IP,
        zone: Some("a".to_owned()),
        local_detector: LocalDetector::ClusterCidr("10.244.0.0/16".parse().unwrap()),
        node_port_addresses: NodePortAddresses::Only(vec![NODE_IP]),
        localhost_node_ports: false,
        masquerade_all: false,
        nfacct: false,
    }
}

fn endpoints() -> impl Strategy<Value = Vec<Endpoint>> {
    let endpoint =
        (1..6u8, any::<bool>(), 0..4u8, 0..3u8).prop_map(|(number, is_local, life, zone)| Endpoint {
            address: SocketAddrV4::new(Ipv4Addr::new(10, 244, u8::from(!is_local), number), 8080),
            is_local,
            ready: life < 2,
            serving: life < 3,
            terminating: life >= 2,
            zone_hints: match zone {
                0 => ["a".to_owned()].into(),
                1 => ["b".to_owned()].into(),
                _ => Default::default(),
            },
        });
    proptest::collection::vec(endpoint, 0..5).prop_map(|endpoints| {
        let unique: BTreeMap<String, Endpoint> =
            endpoints.into_iter().map(|endpoint| (endpoint.address.to_string(), endpoint)).collect();
        unique.into_values().collect()
    })
}

fn service(number: u8) -> impl Strategy<Value = ServiceState> {
    let flags = proptest::collection::vec(any::<bool>(), 7);
    (flags, endpoints()).prop_map(move |(flags, endpoints)| {
        let port = ServicePort {
            cluster_ip: Ipv4Addr::new(10, 96, 0, number),
            port: 80,
            node_port: if flags[0] { 30000 + u16::from(number) } else { 0 },
            external_ips: if flags[1] { vec![Ipv4Addr::new(203, 0, 113, number)] } else { vec![] },
            load_balancer_vips: if flags[2] { vec![Ipv4Addr::new(192, 0, 2, number)] } else { vec![] },
            source_ranges: if flags[3] { vec!["198.51.100.0/24".parse().unwrap()] } else { vec![] },
            affinity_seconds: flags[4].then_some(60),
            health_check_node_port: 0,
            internal_policy_local: flags[5],
            external_policy_local: flags[6],
        };
        let endpoints = categorize_endpoints(&endpoints, &port, Some("a"));
        ServiceState { port: Arc::new(port), endpoints }
    })
}

fn name(number: u8) -> ServicePortName {
    let service = NamespacedName { namespace: "default".to_owned(), name: format!("s{number}") };
    ServicePortName { service, port: String::new(), protocol: Protocol::Tcp }
}

fn state() -> impl Strategy<Value = ProxyState> {
    (proptest::option::of(service(1)), proptest::option::of(service(2)), proptest::option::of(service(3)))
        .prop_map(|(one, two, three)| {
            let services = [(1, one), (2, two), (3, three)];
            services.into_iter().filter_map(|(number, service)| Some((name(number), service?))).collect()
        })
}

fn packets(state: &ProxyState) -> Vec<Packet> {
    let mut packets = Vec::new();
    for service in state.values() {
        let port = &service.port;
        let addresses = port.external_ips.iter().chain(&port.load_balancer_vips).chain([&port.cluster_ip]);
        let mut fronts: Vec<_> = addresses.map(|address| (*address, port.port)).collect();
        fronts.extend((port.node_port != 0).then_some((NODE_IP, port.node_port)));
        for (destination, port) in fronts {
            for (source, hook) in [
                ([10, 244, 0, 1], Hook::Prerouting),
                ([10, 244, 0, 99], Hook::Prerouting),
                ([198, 51, 100, 7], Hook::Prerouting),
                ([172, 16, 0, 7], Hook::Prerouting),
                (NODE_IP.octets(), Hook::Output),
            ] {
                // kube-proxy's two modes differ here, and so do we: the iptables mode refuses nothing that the
                // node itself sends to external addresses (KUBE-EXTERNAL-SERVICES isn't on OUTPUT); the nftables
                // mode does, and before DNAT could short-circuit it.
                let external = destination != service.port.cluster_ip;
                if hook == Hook::Output && external && !service.has_external_endpoints() {
                    continue;
                }
                packets.push(Packet {
                    hook,
                    interface: None,
                    source: source.into(),
                    destination,
                    port,
                    protocol: Protocol::Tcp,
                    local_addresses: [NODE_IP].into(),
                });
            }
        }
    }
    packets
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_dialects_say_the_same(state in state()) {
        let (nftables, iptables) = (Nftables::render(&state, &view()), Iptables::render(&state, &view()));
        let (nftables, iptables) = (
            nftables::trace::Table::parse(&nftables.to_string()),
            stage6_proxy::iptables::trace::Tables::parse(&iptables.to_string()),
        );
        for packet in packets(&state) {
            let (ours, theirs) = (nftables.verdicts(&packet), iptables.verdicts(&packet));
            let sum: f64 = ours.iter().map(|(_, probability)| probability).sum();
            prop_assert!((sum - 1.0).abs() < 1e-3, "{packet:?}: {ours:?}");
            prop_assert_eq!(ours, theirs, "{:?}", packet);
        }
    }

    #[test]
    fn an_update_gives_the_table_of_a_full_render(before in state(), after in state()) {
        let mut table = Nftables::render(&before, &view());
        let mut kernel = nftables::trace::Table::parse(&table.full());
        let names = before.keys().chain(after.keys());
        let changed = names.map(|name| (name.clone(), after.get(name).cloned())).collect();
        let transaction = table.update(&changed);
        kernel.apply(&transaction.text);
        kernel.apply(&transaction.cleanup);
        let whole = Nftables::render(&after, &view()).full();
        prop_assert_eq!(table.full(), whole.clone());
        prop_assert_eq!(kernel, nftables::trace::Table::parse(&whole));
    }

    #[test]
    fn an_iptables_update_gives_the_rules_of_a_full_render(before in state(), after in state()) {
        let mut rules = Iptables::render(&before, &view());
        let names = before.keys().chain(after.keys());
        let changed = names.map(|name| (name.clone(), after.get(name).cloned())).collect();
        let changes = rules.update(&changed);
        let whole = Iptables::render(&after, &view());
        prop_assert_eq!(rules.to_string(), whole.to_string());
        for chain in &changes.delete {
            prop_assert!(!whole.to_string().contains(chain.as_str()), "{} is deleted but used", chain);
        }
    }
}
