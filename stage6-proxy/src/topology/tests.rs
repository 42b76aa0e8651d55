use std::collections::BTreeSet;

use super::*;

fn service(internal_local: bool, external_local: bool) -> ServicePort {
    ServicePort {
        cluster_ip: [10, 96, 1, 1].into(),
        port: 80,
        node_port: if external_local { 30080 } else { 0 },
        external_ips: vec![],
        load_balancer_vips: vec![],
        source_ranges: vec![],
        affinity_seconds: None,
        health_check_node_port: 0,
        internal_policy_local: internal_local,
        external_policy_local: external_local,
    }
}

fn endpoint(number: u8) -> Endpoint {
    Endpoint {
        address: format!("10.244.0.{number}:8080").parse().unwrap(),
        is_local: false,
        ready: true,
        serving: true,
        terminating: false,
        zone_hints: BTreeSet::new(),
    }
}

fn terminating(number: u8, serving: bool) -> Endpoint {
    Endpoint { ready: false, serving, terminating: true, ..endpoint(number) }
}

fn hinted(number: u8, zone: &str) -> Endpoint {
    Endpoint { zone_hints: BTreeSet::from([zone.to_owned()]), ..endpoint(number) }
}

fn local(endpoint: Endpoint) -> Endpoint {
    Endpoint { is_local: true, ..endpoint }
}

fn numbers(endpoints: &[Endpoint]) -> Vec<u8> {
    endpoints.iter().map(|endpoint| endpoint.address.ip().octets()[3]).collect()
}

#[test]
fn unready_endpoint_gets_no_traffic() {
    let unready = Endpoint { ready: false, ..endpoint(2) };
    let chosen = categorize_endpoints(&[endpoint(1), unready], &service(false, false), None);
    assert_eq!(numbers(&chosen.cluster), [1]);
    assert!(chosen.local.is_empty() && chosen.has_any);
}

#[test]
fn terminating_endpoints_serve_only_when_no_ready_one_is_left() {
    let all_go = [terminating(1, true), terminating(2, false)];
    assert_eq!(numbers(&categorize_endpoints(&all_go, &service(false, false), None).cluster), [1]);
    let one_stays = [terminating(1, true), endpoint(3)];
    assert_eq!(numbers(&categorize_endpoints(&one_stays, &service(false, false), None).cluster), [3]);
}

#[test]
fn zone_hints_count_only_when_all_have_some_and_one_is_ours() {
    let full = [hinted(1, "a"), hinted(2, "b")];
    let chosen = |endpoints: &[Endpoint], zone| {
        numbers(&categorize_endpoints(endpoints, &service(false, false), zone).cluster)
    };
    assert_eq!(chosen(&full, Some("a")), [1]);
    assert_eq!(chosen(&full, Some("c")), [1, 2], "none for our zone");
    assert_eq!(chosen(&full, None), [1, 2], "a node without a zone");
    assert_eq!(chosen(&[hinted(1, "a"), endpoint(2)], Some("a")), [1, 2], "half hinted");
}

#[test]
fn local_policy_sees_this_nodes_endpoints_and_knows_of_the_others() {
    let endpoints = [local(terminating(1, true)), endpoint(2)];
    let chosen = categorize_endpoints(&endpoints, &service(false, true), None);
    assert_eq!((numbers(&chosen.cluster), numbers(&chosen.local)), (vec![2], vec![1]));
    assert_eq!(numbers(&chosen.all), [1, 2]);
    let elsewhere = categorize_endpoints(&[endpoint(2)], &service(true, false), None);
    assert!(elsewhere.has_any && elsewhere.local.is_empty() && elsewhere.cluster.is_empty());
}
