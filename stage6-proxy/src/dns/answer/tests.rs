use serde_json::json;

use super::*;
use crate::dns::CLUSTER_DOMAIN;

fn zone() -> Zone {
    let mut zone = Zone::new(CLUSTER_DOMAIN);
    for service in [
        json!({"metadata": {"name": "web", "namespace": "default"}, "spec": {"clusterIP": "10.96.0.7",
            "ports": [{"name": "http", "port": 80}]}}),
        json!({"metadata": {"name": "db", "namespace": "prod"}, "spec": {"clusterIP": "None",
            "ports": [{"name": "sql", "port": 5432}]}}),
        json!({"metadata": {"name": "empty", "namespace": "prod"}, "spec": {"clusterIP": "None"}}),
        json!({"metadata": {"name": "out", "namespace": "default"}, "spec": {"type": "ExternalName", "externalName": "example.org"}}),
        json!({"metadata": {"name": "in", "namespace": "default"}, "spec": {"type": "ExternalName", "externalName": "web.default.svc.cluster.local"}}),
    ] {
        let mut service = service;
        service["apiVersion"] = "v1".into();
        service["kind"] = "Service".into();
        zone.service(&serde_json::from_value(service).unwrap());
    }
    let slice = json!({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "addressType": "IPv4",
        "metadata": {"name": "db-1", "namespace": "prod", "labels": {"kubernetes.io/service-name": "db"}},
        "endpoints": [
            {"addresses": ["10.244.0.5"], "hostname": "db-0", "conditions": {"ready": true}},
            {"addresses": ["10.244.1.6"], "conditions": {"ready": true}},
            {"addresses": ["10.244.1.7"], "conditions": {"ready": false}},
        ],
        "ports": [{"name": "sql", "port": 5432}]});
    zone.slice(&serde_json::from_value(slice).unwrap(), false);
    zone
}

/// The answer as `TYPE data` lines, or the response code, or `forward`.
fn ask(name: &str, kind: TYPE) -> Vec<String> {
    let mut request = Packet::new_query(7);
    let question = Question::new(Name::new_unchecked(name), QTYPE::TYPE(kind), CLASS::IN.into(), false);
    request.questions.push(question);
    // Through the wire format, as a client sees it.
    let bytes = request.build_bytes_vec().unwrap();
    let request = Packet::parse(&bytes).unwrap();
    let Answer::Reply(reply) = answer(&request, &zone()) else { return vec!["forward".to_owned()] };
    let bytes = reply.build_bytes_vec_compressed().unwrap();
    let reply = Packet::parse(&bytes).unwrap();
    assert_eq!(reply.id(), 7);
    if reply.rcode() != RCODE::NoError {
        return vec![format!("{:?}", reply.rcode())];
    }
    let text = |record: &ResourceRecord<'_>| match &record.rdata {
        RData::A(a) => format!("A {}", Ipv4Addr::from(a.address)),
        RData::CNAME(CNAME(name)) => format!("CNAME {name}"),
        RData::PTR(PTR(name)) => format!("PTR {name}"),
        RData::SRV(srv) => format!("SRV {} {} {} {}", srv.priority, srv.weight, srv.port, srv.target),
        other => format!("{other:?}"),
    };
    reply.answers.iter().map(text).collect()
}

#[test]
fn a_service_is_its_cluster_ip() {
    assert_eq!(ask("web.default.svc.cluster.local", TYPE::A), ["A 10.96.0.7"]);
    assert_eq!(ask("WEB.Default.svc.cluster.local", TYPE::A), ["A 10.96.0.7"]);
    assert_eq!(ask("7.0.96.10.in-addr.arpa", TYPE::PTR), ["PTR web.default.svc.cluster.local"]);
}

#[test]
fn a_headless_service_is_its_ready_endpoints() {
    assert_eq!(ask("db.prod.svc.cluster.local", TYPE::A), ["A 10.244.0.5", "A 10.244.1.6"]);
    assert_eq!(ask("db-0.db.prod.svc.cluster.local", TYPE::A), ["A 10.244.0.5"]);
    assert_eq!(ask("10-244-1-6.db.prod.svc.cluster.local", TYPE::A), ["A 10.244.1.6"]);
    assert_eq!(ask("db-9.db.prod.svc.cluster.local", TYPE::A), ["NameError"]);
}

#[test]
fn named_ports_have_srv_records() {
    assert_eq!(
        ask("_http._tcp.web.default.svc.cluster.local", TYPE::SRV),
        ["SRV 0 100 80 web.default.svc.cluster.local"]
    );
    assert_eq!(
        ask("_sql._tcp.db.prod.svc.cluster.local", TYPE::SRV),
        [
            "SRV 0 100 5432 db-0.db.prod.svc.cluster.local",
            "SRV 0 100 5432 10-244-1-6.db.prod.svc.cluster.local"
        ]
    );
    assert_eq!(ask("_http._udp.web.default.svc.cluster.local", TYPE::SRV), ["NameError"]);
}

#[test]
fn a_name_of_another_type_is_empty_and_a_wrong_name_is_refused() {
    let none: [&str; 0] = [];
    assert_eq!(ask("web.default.svc.cluster.local", TYPE::AAAA), none);
    assert_eq!(ask("empty.prod.svc.cluster.local", TYPE::A), none);
    assert_eq!(ask("nosuch.default.svc.cluster.local", TYPE::A), ["NameError"]);
    assert_eq!(ask("web.nosuch.svc.cluster.local", TYPE::A), ["NameError"]);
}

#[test]
fn aliases_are_followed_inside_of_the_cluster() {
    assert_eq!(ask("out.default.svc.cluster.local", TYPE::A), ["CNAME example.org"]);
    assert_eq!(
        ask("in.default.svc.cluster.local", TYPE::A),
        ["CNAME web.default.svc.cluster.local", "A 10.96.0.7"]
    );
}

#[test]
fn names_of_the_world_are_forwarded_and_those_of_the_cluster_never() {
    assert_eq!(ask("example.org", TYPE::A), ["forward"]);
    assert_eq!(ask("notcluster.local", TYPE::A), ["forward"]);
    assert_eq!(ask("typo.cluster.local", TYPE::A), ["NameError"]);
    assert_eq!(ask("10-244-0-9.default.pod.cluster.local", TYPE::A), ["A 10.244.0.9"]);
}
