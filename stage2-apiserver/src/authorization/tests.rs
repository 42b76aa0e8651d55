//! Recorded answers of a stock API server, and the node authorizer's rules.
//!
//! # In Kubernetes
//! `plugin/pkg/auth/authorizer/rbac/rbac_test.go`, `…/node/node_authorizer_test.go`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::path::PathBuf;

use serde_json::{Value, json};
use stage1_kubectl::object::Object;

use super::*;
use crate::authorization::aggregation::aggregated_rules;
use crate::bootstrap;
use crate::request_info;

/// Cases with a review or an escalation; the others are about whole requests (the server's tests have them).
const FLOOR: usize = 40;

fn cases() -> Option<Vec<(String, Value)>> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases");
    let root = std::env::var_os("STAGES_CASES_DIR").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let Ok(entries) = std::fs::read_dir(root.join("server/authz")) else {
        println!("skipped: no cases");
        return None;
    };
    let paths = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "json"));
    let mut cases: Vec<_> = paths
        .map(|path| {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            (name, serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap())
        })
        .collect();
    cases.sort_by(|a: &(String, Value), b| a.0.cmp(&b.0));
    Some(cases)
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// A cluster as it is after bootstrap, with a case's objects.
fn cluster(case: &Value) -> ClusterAuthorizer {
    let authorizer = ClusterAuthorizer::default();
    let mut objects = bootstrap::rbac::cluster_roles();
    objects.extend(bootstrap::rbac::namespaced_roles());
    objects.extend(bootstrap::rbac::bindings());
    let setup = case["setup"].as_array().into_iter().flatten();
    objects.extend(setup.map(|object| Object::from_value(object.clone()).unwrap()));
    let all = objects.clone();
    for object in &mut objects {
        if let (true, Some(rules)) = (object.kind() == "ClusterRole", aggregated_rules(object, &all)) {
            object.set("/rules", serde_json::to_value(rules).unwrap());
        }
        authorizer.learn(object);
    }
    authorizer
}

fn user(name: &Value, groups: &Value) -> Arc<UserInfo> {
    let groups = groups.as_array().into_iter().flatten().map(text).collect();
    Arc::new(UserInfo { name: text(name), groups, ..UserInfo::default() })
}

fn review(spec: &Value) -> Attributes {
    let user = user(&spec["user"], &spec["groups"]);
    if let Some(path) = spec.get("nonResourceAttributes") {
        let (verb, path) = (text(&path["verb"]), text(&path["path"]));
        return Attributes { user, verb, path, ..Attributes::default() };
    }
    let asked = &spec["resourceAttributes"];
    let field = |name: &str| text(&asked[name]);
    Attributes {
        user,
        is_resource: true,
        verb: field("verb"),
        group: field("group"),
        version: field("version"),
        resource: field("resource"),
        subresource: field("subresource"),
        namespace: field("namespace"),
        name: field("name"),
        ..Attributes::default()
    }
}

/// The answer of a server without the node authorizer, as the recorded one was.
fn rbac_alone(authorizer: &ClusterAuthorizer, asked: &Attributes) -> Decision {
    match asked.user.groups.iter().any(|group| group == SYSTEM_MASTERS) {
        true => authorizer.authorize(asked),
        false => authorizer.with_rbac(|index| index.authorize(asked)),
    }
}

/// `None`: not a case for this test.
fn check(case: &Value) -> Option<Result<(), String>> {
    let authorizer = cluster(case);
    let expect =
        |want: Value, got: Value| if want == got { Ok(()) } else { Err(format!("want {want}\n got {got}")) };
    if let Some(reviews) = case["reviews"].as_array() {
        let mut checked = 0;
        for answer in reviews.iter().filter(|answer| answer["code"] == 201) {
            checked += 1;
            let decision = rbac_alone(&authorizer, &review(&answer["spec"]));
            let want = (&answer["status"]["allowed"], text(&answer["status"]["reason"]));
            let got = (json!(decision.is_allowed()), decision.reason().to_owned());
            if (want.0, &want.1) != (&got.0, &got.1) {
                return Some(Err(format!("{}\nwant {want:?}\n got {got:?}", answer["spec"])));
            }
        }
        return (checked > 0).then_some(Ok(()));
    }
    let (Some(who), method) = (case.get("as"), text(&case["request"]["method"])) else { return None };
    let user = user(&who["user"], &who["groups"]);
    let want = &case["response"];
    if method == "GET" || want["body"]["message"].as_str().is_some_and(|m| m.contains(" cannot ")) {
        let path = text(&case["request"]["path"]);
        let attributes = request_attributes(&method, &path, &user)?;
        let decision = authorizer.authorize(&attributes);
        let got = match decision.is_allowed() {
            true => Value::Null,
            false => serde_json::to_value(attributes.forbidden(decision.reason())).unwrap(),
        };
        let want = if want["code"] == 403 { want["body"].clone() } else { Value::Null };
        return Some(expect(want, got));
    }
    let body = &case["request"]["body"];
    let object = match method.as_str() {
        "POST" | "PUT" => Object::from_value(body.clone()).unwrap(),
        _ => {
            // A patch of a binding: the object as it will be is what is checked.
            let name = text(&case["request"]["path"]).rsplit('/').next()?.to_owned();
            let setup = case["setup"].as_array()?;
            let mut patched =
                setup.iter().find(|object| object["metadata"]["name"] == name.as_str())?.clone();
            for (key, value) in body.as_object()? {
                patched[key] = value.clone();
            }
            Object::from_value(patched).unwrap()
        }
    };
    let got = match authorizer.check_escalation(&user, &object, None) {
        Ok(()) => Value::Null,
        Err(status) => serde_json::to_value(status).unwrap(),
    };
    let want = if want["code"].as_u64()? < 300 { Value::Null } else { want["body"].clone() };
    Some(expect(want, got))
}

fn request_attributes(method: &str, path: &str, user: &Arc<UserInfo>) -> Option<Attributes> {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let query = request_info::Query::parse(Some(query));
    let info = request_info::parse_request_info(method, path, &query);
    Some(Attributes {
        user: user.clone(),
        verb: info.verb.to_owned(),
        is_resource: info.is_resource_request,
        group: info.api_group.to_owned(),
        version: info.api_version.to_owned(),
        resource: info.resource.to_owned(),
        subresource: info.subresource.to_owned(),
        namespace: info.namespace.to_owned(),
        name: info.name.to_owned(),
        path: path.to_owned(),
        ..Attributes::default()
    })
}

#[test]
fn decisions_are_those_of_a_stock_api_server() {
    let Some(cases) = cases() else { return };
    let (mut passed, mut other, mut failed) = (0, 0, Vec::new());
    for (name, case) in cases {
        match check(&case) {
            Some(Ok(())) => passed += 1,
            Some(Err(difference)) => failed.push(format!("{name}: {difference}")),
            None => other += 1,
        }
    }
    println!("authz: {passed} passed, {} failed, {other} not for this test", failed.len());
    assert!(failed.is_empty(), "{}", failed.join("\n\n"));
    assert!(passed >= FLOOR, "{passed} of at least {FLOOR}");
}

fn asks(node: &str, verb: &str, resource: &str, namespace: &str, name: &str) -> Attributes {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Attributes {
        user: Arc::new(UserInfo::new(&format!("system:node:{node}"), &["system:nodes"])),
        verb: verb.into(),
        is_resource: true,
        resource: resource.into(),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        ..Attributes::default()
    }
}

#[test]
fn a_kubelet_reads_what_its_pods_name_while_they_are_there() {
    let authorizer = ClusterAuthorizer::default();
    let may = |asked: &Attributes| authorizer.authorize(asked).is_allowed();
    let secret = |node: &str| asks(node, "get", "secrets", "default", "key");
    let pod = Object::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "namespace": "default"},
        "spec": {
            "nodeName": "n1", "serviceAccountName": "robot",
            "containers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "key", "key": "k"}}}]}],
            "volumes": [{"projected": {"sources": [{"configMap": {"name": "kube-root-ca.crt"}}]}}],
        },
    }))
    .unwrap();
    assert!(!may(&secret("n1")));
    authorizer.learn(&pod);
    assert!(may(&secret("n1")));
    assert!(!may(&secret("n2")));
    assert_eq!(
        authorizer.authorize(&secret("n2")).reason(),
        "no relationship found between node 'n2' and this object"
    );
    assert!(!may(&asks("n1", "list", "secrets", "default", "")), "one by one, by name");
    assert!(may(&asks("n1", "get", "configmaps", "default", "kube-root-ca.crt")));
    assert!(may(&asks("n1", "create", "serviceaccounts/token", "default", "robot")));
    assert!(!may(&asks("n1", "create", "serviceaccounts/token", "kube-system", "robot")));
    assert!(may(&asks("n1", "get", "nodes", "", "n1")) && !may(&asks("n1", "get", "nodes", "", "n2")));
    assert!(may(&asks("n1", "patch", "nodes/status", "", "n1")));
    let mut pods = asks("n1", "list", "pods", "", "");
    assert!(!may(&pods));
    pods.fields = vec![("spec.nodeName".into(), "n1".into())];
    assert!(may(&pods));
    authorizer.forget(&pod);
    assert!(!may(&secret("n1")), "gone with the pod");
}
