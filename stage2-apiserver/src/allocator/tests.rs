//! Tests of the allocators.

use std::net::Ipv4Addr;

use serde_json::json;
use stage1_kubectl::object::Object;

use super::service::ServiceAllocators;
use super::*;

fn allocators() -> ServiceAllocators {
    ServiceAllocators {
        ips: IpAllocator::new("10.96.0.0/16").expect("a range"),
        ports: PortAllocator::default(),
    }
}

fn service(spec: serde_json::Value) -> Object {
    Object::from_value(
        json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}, "spec": spec}),
    )
    .expect("a map")
}

#[test]
fn no_address_is_given_out_twice_until_the_range_is_full() {
    let mut ips = IpAllocator::new("10.0.0.0/28").expect("a range");
    let mut given: Vec<Ipv4Addr> =
        (0..14).map(|random| ips.allocate_next(random * 7).expect("free")).collect();
    given.sort();
    given.dedup();
    assert_eq!(given.len(), 14);
    assert_eq!((given[0], given[13]), (Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 14)));
    assert_eq!(ips.allocate_next(3), None);
}

#[test]
fn a_reverted_transaction_leaves_nothing_taken() {
    let mut allocators = allocators();
    let free = allocators.ips.free();
    let mut wanted =
        service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}));
    let transaction = allocators.allocate(&mut wanted, None, false, 42).expect("free");
    assert!(wanted.get_str("/spec/clusterIP").is_some_and(|ip| ip.starts_with("10.96.")));
    transaction.revert(&mut allocators);
    assert_eq!(allocators.ips.free(), free);
    assert!(!allocators.ports.has(30080));
}

#[test]
fn a_taken_node_port_is_refused_in_the_words_of_kubernetes() {
    let mut allocators = allocators();
    let stored = service(
        json!({"clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": [{"port": 80, "nodePort": 30080}]}),
    );
    allocators.rebuild([&stored]);
    let mut wanted =
        service(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30080, "protocol": "TCP"}]}));
    let refused = allocators.allocate(&mut wanted, None, false, 1).expect_err("taken");
    assert_eq!(
        refused.message,
        r#"Service "s" is invalid: spec.ports[0].nodePort: Invalid value: 30080: provided port is already allocated"#
    );
}

#[test]
fn a_changed_type_gives_the_node_port_back_after_the_write() {
    let mut allocators = allocators();
    let old = service(
        json!({"type": "NodePort", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": [{"port": 80, "nodePort": 30080}]}),
    );
    allocators.rebuild([&old]);
    let mut new = service(
        json!({"type": "ClusterIP", "clusterIP": "10.96.0.9", "clusterIPs": ["10.96.0.9"], "ports": [{"port": 80}]}),
    );
    let transaction = allocators.allocate(&mut new, Some(&old), false, 1).expect("nothing to take");
    assert!(allocators.ports.has(30080));
    transaction.commit(&mut allocators);
    assert!(!allocators.ports.has(30080));
}
