//! Tests of the plugins, by what users see.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::*;

#[derive(Default)]
pub(super) struct Cluster(BTreeMap<(String, String, String), Arc<Object>>);

impl Cluster {
    pub(super) fn with(mut self, resource: &str, value: Value) -> Self {
        let object = Object::from_value(value).expect("a map");
        let key = (
            resource.to_owned(),
            object.namespace().unwrap_or_default().to_owned(),
            object.name().to_owned(),
        );
        self.0.insert(key, Arc::new(object));
        self
    }
}

impl ObjectReader for Cluster {
    fn get(&self, _: &str, resource: &str, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.0.get(&(resource.to_owned(), namespace.to_owned(), name.to_owned())).cloned()
    }

    fn list(&self, _: &str, resource: &str, namespace: &str) -> Vec<Arc<Object>> {
        let of = |(r, ns, _): &(String, String, String)| {
            r == resource && (namespace.is_empty() || ns == namespace)
        };
        self.0.iter().filter(|(key, _)| of(key)).map(|(_, object)| object.clone()).collect()
    }
}

pub(super) fn create(resource: &str, kind: &str) -> Attributes {
    Attributes {
        operation: Operation::Create,
        resource: GroupVersionResource::new("", "v1", resource),
        subresource: String::new(),
        kind: GroupVersionKind::new("", "v1", kind),
        namespace: "ns".to_owned(),
        name: "a".to_owned(),
        user: Requester::default(),
        dry_run: false,
        now: Timestamp::UNIX_EPOCH,
        random: 7,
    }
}

fn cluster() -> Cluster {
    Cluster::default()
        .with(
            "namespaces",
            json!({"metadata": {"name": "ns", "labels": {"pod-security.kubernetes.io/enforce": "baseline"}}}),
        )
        .with("serviceaccounts", json!({"metadata": {"name": "default", "namespace": "ns"}}))
}

fn pod(spec: Value) -> Object {
    Object::from_value(json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a", "namespace": "ns"}, "spec": spec})).expect("a map")
}

#[test]
fn a_namespace_that_is_not_there_or_going_takes_no_objects() {
    let mut object = pod(json!({"containers": [{"name": "c"}]}));
    let chain = Chain::recommended();
    let refused = chain
        .admit(&create("pods", "Pod"), &mut object, None, &Cluster::default())
        .expect_err("no namespace");
    assert_eq!(refused.message, "namespaces \"ns\" not found");
    let going =
        cluster().with("namespaces", json!({"metadata": {"name": "ns"}, "status": {"phase": "Terminating"}}));
    let refused = chain.admit(&create("pods", "Pod"), &mut object, None, &going).expect_err("terminating");
    assert_eq!(
        refused.message,
        "pods \"a\" is forbidden: unable to create new content in namespace ns because it is being terminated"
    );
}

#[test]
fn a_pod_that_reaches_for_the_host_violates_baseline() {
    let object = pod(json!({"hostNetwork": true, "serviceAccountName": "default",
        "containers": [{"name": "c", "securityContext": {"privileged": true}}]}));
    let refused = Chain::recommended()
        .validate(&create("pods", "Pod"), Some(&object), None, &cluster())
        .expect_err("baseline");
    assert_eq!(
        refused.message,
        "pods \"a\" is forbidden: violates PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true), privileged (container \
         \"c\" must not set securityContext.privileged=true)"
    );
}

#[test]
fn a_quota_counts_what_it_lets_in_and_refuses_the_rest() {
    let quota = |used: &str| {
        json!({"metadata": {"name": "q", "namespace": "ns"}, "spec": {"hard": {"pods": "1"}},
            "status": {"hard": {"pods": "1"}, "used": {"pods": used}}})
    };
    let object = pod(json!({"containers": [{"name": "c"}]}));
    let attributes = create("pods", "Pod");
    let updates =
        resource_quota::reserve(&attributes, &object, None, &cluster().with("resourcequotas", quota("0")))
            .expect("fits");
    assert_eq!(updates[0].get("/status/used"), Some(&json!({"pods": "1"})));
    let refused =
        resource_quota::reserve(&attributes, &object, None, &cluster().with("resourcequotas", quota("1")))
            .expect_err("full");
    assert_eq!(
        refused.message,
        "pods \"a\" is forbidden: exceeded quota: q, requested: pods=1, used: pods=1, limited: pods=1"
    );
}

#[test]
fn a_limit_range_fills_requests_and_refuses_what_is_too_large() {
    let limits = json!({"metadata": {"name": "l", "namespace": "ns"}, "spec": {"limits": [
        {"type": "Container", "default": {"cpu": "500m"}, "defaultRequest": {"cpu": "100m"}, "max": {"cpu": "1"}}]}});
    let cluster = cluster().with("limitranges", limits);
    let mut object = pod(json!({"containers": [{"name": "c"}]}));
    Chain::recommended().admit(&create("pods", "Pod"), &mut object, None, &cluster).expect("fits");
    assert_eq!(
        object.get("/spec/containers/0/resources"),
        Some(&json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "100m"}}))
    );
    let large = pod(
        json!({"serviceAccountName": "default", "containers": [{"name": "c", "resources": {"limits": {"cpu": "2"}, "requests": {"cpu": "2"}}}]}),
    );
    let refused = Chain::recommended()
        .validate(&create("pods", "Pod"), Some(&large), None, &cluster)
        .expect_err("too large");
    assert_eq!(
        refused.message,
        "pods \"a\" is forbidden: maximum cpu usage per Container is 1, but limit is 2"
    );
}

#[test]
fn a_node_may_not_write_another_node() {
    let mut attributes = create("nodes", "Node");
    attributes.namespace = String::new();
    attributes.user = Requester {
        name: "system:node:n1".to_owned(),
        groups: vec!["system:nodes".to_owned()],
        ..Requester::default()
    };
    let other = Object::from_value(json!({"metadata": {"name": "n2"}})).expect("a map");
    attributes.name = "n2".to_owned();
    let refused =
        Chain::recommended().validate(&attributes, Some(&other), None, &cluster()).expect_err("another node");
    assert_eq!(
        refused.message,
        "nodes \"n2\" is forbidden: node \"n1\" is not allowed to modify node \"n2\""
    );
}
