//! Tests of what is sent to whom, and what answers mean.

use serde_json::json;
use stage1_kubectl::resource::{GroupVersionKind, GroupVersionResource};

use super::matcher::{Invocation, Objects, invocation, namespace_fits, should_call};
use super::*;
use crate::admission::tests::{Cluster, create};
use crate::admission::{Attributes, Operation};

fn hook(value: Value) -> Webhook {
    let mut hook = json!({"name": "w.example.com", "clientConfig": {"url": "https://h/x"}});
    for (key, part) in value.as_object().expect("a map") {
        hook[key] = part.clone();
    }
    let configuration = json!({"metadata": {"name": "c"}, "webhooks": [hook]});
    Webhook::of_configuration(&Object::from_value(configuration).expect("a map")).remove(0)
}

fn rule(resources: &[&str]) -> Value {
    json!([{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": resources}])
}

fn nothing() -> Objects<'static> {
    Objects { new: None, old: None }
}

#[test]
fn a_rule_names_the_resource_or_its_subresources() {
    let matches = |resources: &[&str], subresource: &str| {
        let mut attributes = create("pods", "Pod");
        attributes.subresource = subresource.into();
        invocation(&hook(json!({"rules": rule(resources)})).rules, true, &attributes).is_some()
    };
    assert!(matches(&["pods"], "") && !matches(&["pods"], "exec"));
    assert!(matches(&["pods/exec"], "exec") && !matches(&["pods/exec"], ""));
    assert!(matches(&["pods/*"], "") && matches(&["pods/*"], "exec") && matches(&["*/*"], "exec"));
    assert!(matches(&["*"], "") && !matches(&["*"], "exec") && matches(&["*/exec"], "exec"));
}

#[test]
fn a_scope_leaves_out_namespaces_or_what_is_in_them() {
    let matches = |scope: &str, attributes: &Attributes| {
        let mut rules = rule(&["*"]);
        rules[0]["scope"] = json!(scope);
        invocation(&hook(json!({ "rules": rules })).rules, true, attributes).is_some()
    };
    let (pod, namespace) = (create("pods", "Pod"), create("namespaces", "Namespace"));
    assert!(matches("Namespaced", &pod) && !matches("Cluster", &pod));
    assert!(!matches("Namespaced", &namespace) && matches("Cluster", &namespace));
    assert!(matches("*", &pod) && matches("*", &namespace));
}

#[test]
fn an_equivalent_version_is_matched_and_the_object_turned_into_it() {
    let mut attributes = create("events", "Event");
    attributes.resource = GroupVersionResource::new("events.k8s.io", "v1", "events");
    attributes.kind = GroupVersionKind::new("events.k8s.io", "v1", "Event");
    let rules =
        json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"]}]);
    let found = invocation(&hook(json!({ "rules": rules })).rules, true, &attributes).expect("equivalent");
    assert_eq!(found.kind, GroupVersionKind::new("", "v1", "Event"));
    let sent = json!({"apiVersion": "events.k8s.io/v1", "kind": "Event", "note": "n"});
    let sent = Object::from_value(sent).expect("a map");
    let shown = review::in_version(&sent, &attributes.resource, &found);
    assert_eq!(shown.get_str("/message"), Some("n"));
    let exact = hook(json!({ "rules": rules, "matchPolicy": "Exact" }));
    assert_eq!(invocation(&exact.rules, exact.equivalent, &attributes), None);
}

#[test]
fn selectors_are_asked_of_the_namespace_and_of_both_objects() {
    let labels = json!({"metadata": {"name": "ns", "labels": {"a": "1"}}});
    let cluster = Cluster::default().with("namespaces", labels);
    let chosen = |key: &str, value: &str| {
        let hook = hook(json!({"rules": rule(&["*"]), key: {"matchLabels": {"a": value}}}));
        let new = Object::from_value(json!({"metadata": {"labels": {"a": "2"}}})).expect("a map");
        let old = Object::from_value(json!({"metadata": {"labels": {"a": "3"}}})).expect("a map");
        let objects = Objects { new: Some(&new), old: Some(&old) };
        should_call(&hook, &create("pods", "Pod"), objects, &cluster).expect("readable").is_some()
    };
    assert!(chosen("namespaceSelector", "1") && !chosen("namespaceSelector", "2"));
    assert!(chosen("objectSelector", "2") && chosen("objectSelector", "3") && !chosen("objectSelector", "1"));
}

#[test]
fn a_namespace_that_is_gone_matters_only_to_webhooks_that_want_the_request() {
    let wants = hook(json!({"rules": rule(&["pods"]), "namespaceSelector": {"matchLabels": {"a": "1"}}}));
    let other = hook(json!({"rules": rule(&["nodes"]), "namespaceSelector": {"matchLabels": {"a": "1"}}}));
    let (attributes, cluster) = (create("pods", "Pod"), Cluster::default());
    let refusal = should_call(&wants, &attributes, nothing(), &cluster).expect_err("no namespace");
    assert_eq!(refusal.message, "namespaces \"ns\" not found");
    assert_eq!(should_call(&other, &attributes, nothing(), &cluster), Ok(None));
}

#[test]
fn a_new_namespace_is_judged_by_its_own_labels() {
    let mut attributes = create("namespaces", "Namespace");
    attributes.name = "new".into();
    attributes.operation = Operation::Create;
    let namespace = Object::from_value(json!({"metadata": {"name": "new", "labels": {"a": "1"}}}));
    let namespace = namespace.expect("a map");
    let selector = selector(Some(&json!({"matchLabels": {"a": "1"}})));
    let objects = Objects { new: Some(&namespace), old: None };
    assert_eq!(namespace_fits(selector.as_ref(), &attributes, objects, &Cluster::default()), Ok(true));
}

#[test]
fn an_answer_repeats_the_question_and_its_form() {
    let answer = |response: Value| json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    let verify = |answer: &Value| review::verify("u", Sort::Mutating, answer);
    assert!(verify(&answer(json!({"uid": "u", "allowed": true}))).expect("fine").allowed);
    let wrong = verify(&answer(json!({"uid": "zz"}))).expect_err("another uid");
    assert_eq!(wrong, "expected response.uid=\"u\", got \"zz\"");
    let bare = verify(&json!({"response": {"uid": "u"}})).expect_err("no kind");
    assert_eq!(bare, "expected webhook response of admission.k8s.io/v1, Kind=AdmissionReview, got /, Kind=");
    assert_eq!(verify(&json!({})).expect_err("nothing"), "webhook response was absent");
    let patch = answer(json!({"uid": "u", "allowed": true, "patch": "W10="}));
    let text = "webhook returned response.patch but not response.patchType";
    assert_eq!(verify(&patch).expect_err("no type"), text);
    let text = "validating webhook may not return response.patch";
    assert_eq!(review::verify("u", Sort::Validating, &patch).expect_err("a patch"), text);
}

#[test]
fn a_refusal_says_who_refused_and_why() {
    let said = |message: &str, reason: &str, code: u16| {
        let mut status = stage1_kubectl::status::Status::failure(code, reason, message);
        status.status = "Success".into();
        review::refusal("w", Some(status))
    };
    assert_eq!(said("no", "", 418).message, "admission webhook \"w\" denied the request: no");
    assert_eq!((said("no", "", 418).code, said("no", "", 200).code), (418, 400));
    assert_eq!(said("", "Why", 0).message, "admission webhook \"w\" denied the request: Why");
    let bare = review::refusal("w", None);
    assert_eq!(bare.message, "admission webhook \"w\" denied the request without explanation");
    assert_eq!((bare.code, bare.status.as_str()), (400, "Failure"));
}

#[test]
fn a_service_is_resolved_to_a_ready_endpoint_of_its_port() {
    let service =
        json!({"metadata": {"name": "s", "namespace": "n"}, "spec": {"ports": [{"name": "a", "port": 443}]}});
    let slice = json!({
        "metadata": {"name": "s-1", "namespace": "n", "labels": {"kubernetes.io/service-name": "s"}},
        "ports": [{"name": "b", "port": 1}, {"name": "a", "port": 9443}],
        "endpoints": [
            {"addresses": ["10.0.0.1"], "conditions": {"ready": false}},
            {"addresses": ["10.0.0.2"], "conditions": {"ready": true}},
            {"addresses": ["10.0.0.3"], "conditions": {}},
        ],
    });
    let place = |port| Place::Service { namespace: "n".into(), name: "s".into(), path: "x/".into(), port };
    let cluster = Cluster::default().with("services", service);
    let (target, why) = client::resolve(&place(443), &cluster, 0).expect_err("nobody there");
    assert_eq!(why, "no endpoints available for service \"s\"");
    assert_eq!((target.authority.as_str(), target.path.as_str()), ("s.n.svc:443", "/x"));
    let cluster = cluster.with("endpointslices", slice);
    let target = client::resolve(&place(443), &cluster, 0).expect("resolved");
    assert_eq!(target.server, "https://10.0.0.2:9443");
    assert_eq!(target.certificate_name.as_deref(), Some("s.n.svc"));
    let other = client::resolve(&place(443), &cluster, 7).expect("resolved");
    assert_eq!(other.server, "https://10.0.0.3:9443");
    assert!(client::resolve(&place(444), &cluster, 0).is_err());
}

#[test]
fn configurations_are_asked_in_the_order_of_their_names() {
    let configuration = |name: &str, hook: &str| json!({"metadata": {"name": name}, "webhooks": [{"name": hook}, {"name": format!("{hook}2")}]});
    let cluster = Cluster::default()
        .with(Sort::Mutating.resource(), configuration("z", "first"))
        .with(Sort::Mutating.resource(), configuration("a", "second"));
    let found = Configured::default().webhooks(Sort::Mutating, &cluster);
    let names: Vec<&str> = found.iter().map(|w| w.name.as_str()).collect();
    assert_eq!(names, ["second", "second2", "first", "first2"]);
}

#[test]
fn the_question_is_about_the_request_and_its_object() {
    let mut attributes = create("configmaps", "ConfigMap");
    attributes.user.name = "admin".into();
    let object = Object::from_value(json!({"kind": "ConfigMap"})).expect("a map");
    let as_is = Invocation { resource: attributes.resource.clone(), kind: attributes.kind.clone() };
    let objects = Objects { new: Some(&object), old: None };
    let options = json!({"kind": "CreateOptions"});
    let question = review::request(&attributes, &as_is, objects, &options, "u");
    let expected = json!({
        "uid": "u", "operation": "CREATE", "name": "a", "namespace": "ns", "dryRun": false,
        "kind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "requestKind": {"group": "", "version": "v1", "kind": "ConfigMap"},
        "resource": {"group": "", "version": "v1", "resource": "configmaps"},
        "requestResource": {"group": "", "version": "v1", "resource": "configmaps"},
        "userInfo": {"username": "admin"},
        "object": {"kind": "ConfigMap"}, "oldObject": null, "options": {"kind": "CreateOptions"},
    });
    assert_eq!(question, expected);
}
