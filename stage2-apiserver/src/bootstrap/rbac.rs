//! The default roles and bindings, from a table.
//!
//! `cluster_roles.txt` has the ClusterRoles in a form that a person can read: one line a role, one line a rule. Each
//! `system:controller:X` is bound to the ServiceAccount `X` in `kube-system`; the other bindings stand below.
//!
//! `admin`, `edit` and `view` are aggregated; their rules are computed here too, so that they mean something before a controller
//! manager has run. One role is ours: `six-stages:controllers` is the union of the controllers' roles, bound to the user
//! `system:kube-controller-manager`, because our controllers share that identity instead of a ServiceAccount each.
//!
//! # In Kubernetes
//! `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/{policy,controller_policy,namespace_policy}.go`.

use serde_json::{Value, json};
use stage1_kubectl::object::Object;

use super::defaults::object;
use crate::authorization::aggregation::aggregated_rules;
use crate::authorization::rules::{PolicyRule, rules_of};

const TABLE: &str = include_str!("cluster_roles.txt");
const GROUP: &str = "rbac.authorization.k8s.io";
/// The role of our controller manager.
pub const CONTROLLERS: &str = "six-stages:controllers";
const CONTROLLER_PREFIX: &str = "system:controller:";

fn role(kind: &str, namespace: Option<&str>, name: &str, labels: &[&str]) -> Object {
    let mut role = object(json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {
            "name": name,
            "labels": {"kubernetes.io/bootstrapping": "rbac-defaults"},
            "annotations": {"rbac.authorization.kubernetes.io/autoupdate": "true"},
        },
    }));
    role.set_namespace(namespace);
    for label in labels {
        role.set_label(&format!("{GROUP}/{label}"), "true");
    }
    role
}

/// `get,list core pods [names]` or `get /healthz,/livez`.
fn rule(line: &str) -> PolicyRule {
    let list = |column: &str| -> Vec<String> {
        column.split(',').map(|entry| if entry == "core" { "" } else { entry }.to_owned()).collect()
    };
    let columns: Vec<&str> = line.split_whitespace().collect();
    match columns.as_slice() {
        [verbs, urls] => {
            PolicyRule { verbs: list(verbs), non_resource_urls: list(urls), ..PolicyRule::default() }
        }
        [verbs, groups, resources, names @ ..] => PolicyRule {
            verbs: list(verbs),
            api_groups: list(groups),
            resources: list(resources),
            resource_names: names.first().map(|names| list(names)).unwrap_or_default(),
            ..PolicyRule::default()
        },
        _ => PolicyRule::default(),
    }
}

fn set_rules(role: &mut Object, rules: &[PolicyRule]) {
    role.set("/rules", serde_json::to_value(rules).expect("plain structs"));
}

/// All default ClusterRoles.
pub fn cluster_roles() -> Vec<Object> {
    let mut roles: Vec<Object> = Vec::new();
    let mut rules: Vec<PolicyRule> = Vec::new();
    let finish = |roles: &mut Vec<Object>, rules: &mut Vec<PolicyRule>| {
        if let Some(role) = roles.last_mut() {
            set_rules(role, &std::mem::take(rules));
        }
    };
    for line in TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        if line.starts_with(' ') {
            rules.push(rule(line));
            continue;
        }
        finish(&mut roles, &mut rules);
        let (head, aggregates) = line.split_once(" <- ").unwrap_or((line, ""));
        let mut words = head.split_whitespace();
        let name = words.next().unwrap_or_default();
        let mut new = role("ClusterRole", None, name, &words.collect::<Vec<_>>());
        if !aggregates.is_empty() {
            let label = format!("{GROUP}/{aggregates}");
            new.set("/aggregationRule", json!({"clusterRoleSelectors": [{"matchLabels": {label: "true"}}]}));
        }
        roles.push(new);
    }
    finish(&mut roles, &mut rules);
    let controllers = roles.iter().filter(|role| role.name().starts_with(CONTROLLER_PREFIX));
    let mut union: Vec<PolicyRule> = Vec::new();
    for rule in controllers.flat_map(rules_of) {
        if !union.contains(&rule) {
            union.push(rule);
        }
    }
    let mut ours = role("ClusterRole", None, CONTROLLERS, &[]);
    set_rules(&mut ours, &union);
    roles.push(ours);
    aggregate(roles)
}

/// Fills in aggregated rules until nothing changes (`admin` takes from `edit`, which takes from `view`).
fn aggregate(mut roles: Vec<Object>) -> Vec<Object> {
    loop {
        let before = roles.clone();
        for role in &mut roles {
            if let Some(rules) = aggregated_rules(role, &before) {
                set_rules(role, &rules);
            }
        }
        if roles == before {
            return roles;
        }
    }
}

/// All default Roles.
pub fn namespaced_roles() -> Vec<Object> {
    const LEADER: &str = "system::leader-locking-";
    let lock = |component: &str| {
        vec![
            "watch core configmaps".to_owned(),
            format!("get,update core configmaps {component}"),
            "create,get,list,update,watch coordination.k8s.io leases".to_owned(),
            "create,get,list,update,watch coordination.k8s.io leasecandidates".to_owned(),
        ]
    };
    let lines = |lines: &[&str]| lines.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>();
    let events = "create,patch,update core,events.k8s.io events";
    let table = [
        (
            "kube-public",
            "system:controller:bootstrap-signer".to_owned(),
            lines(&["get,list,watch core configmaps", "update core configmaps cluster-info", events]),
        ),
        (
            "kube-system",
            "extension-apiserver-authentication-reader".to_owned(),
            lines(&["get,list,watch core configmaps extension-apiserver-authentication"]),
        ),
        ("kube-system", format!("{LEADER}kube-controller-manager"), lock("kube-controller-manager")),
        ("kube-system", format!("{LEADER}kube-scheduler"), lock("kube-scheduler")),
        (
            "kube-system",
            "system:controller:bootstrap-signer".to_owned(),
            lines(&["get,list,watch core secrets"]),
        ),
        (
            "kube-system",
            "system:controller:cloud-provider".to_owned(),
            lines(&["create,get,list,watch core configmaps"]),
        ),
        (
            "kube-system",
            "system:controller:token-cleaner".to_owned(),
            lines(&["delete,get,list,watch core secrets", events]),
        ),
    ];
    let make = |(namespace, name, lines): (&str, String, Vec<String>)| {
        let mut role = role("Role", Some(namespace), &name, &[]);
        set_rules(&mut role, &lines.iter().map(|line| rule(line)).collect::<Vec<_>>());
        role
    };
    table.into_iter().map(make).collect()
}

fn user(name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": "User", "name": name})
}

fn group(name: &str) -> Value {
    json!({"apiGroup": GROUP, "kind": "Group", "name": name})
}

fn service_account(name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": "kube-system"})
}

fn binding(namespace: Option<&str>, name: &str, role_name: &str, subjects: Vec<Value>) -> Object {
    let (kind, role_kind) = match namespace {
        Some(_) => ("RoleBinding", "Role"),
        None => ("ClusterRoleBinding", "ClusterRole"),
    };
    let mut binding = role(kind, namespace, name, &[]);
    binding.set("/roleRef", json!({"apiGroup": GROUP, "kind": role_kind, "name": role_name}));
    if !subjects.is_empty() {
        binding.set("/subjects", subjects);
    }
    binding
}

/// All default ClusterRoleBindings and RoleBindings.
pub fn bindings() -> Vec<Object> {
    let (manager, scheduler) = ("system:kube-controller-manager", "system:kube-scheduler");
    let authenticated = || group("system:authenticated");
    let cluster = |name: &str, subjects: Vec<Value>| binding(None, name, name, subjects);
    let mut all = vec![
        cluster("cluster-admin", vec![group("system:masters")]),
        cluster("system:monitoring", vec![group("system:monitoring")]),
        cluster("system:discovery", vec![authenticated()]),
        cluster("system:basic-user", vec![authenticated()]),
        cluster("system:public-info-viewer", vec![authenticated(), group("system:unauthenticated")]),
        cluster("system:node-proxier", vec![user("system:kube-proxy")]),
        cluster("system:kube-controller-manager", vec![user(manager)]),
        cluster("system:kube-dns", vec![service_account("kube-dns")]),
        cluster("system:kube-scheduler", vec![user(scheduler)]),
        cluster("system:volume-scheduler", vec![user(scheduler)]),
        cluster("system:node", Vec::new()),
        cluster("system:service-account-issuer-discovery", vec![group("system:serviceaccounts")]),
        cluster(CONTROLLERS, vec![user(manager)]),
    ];
    let controllers = TABLE.lines().filter_map(|line| line.strip_prefix(CONTROLLER_PREFIX));
    all.extend(controllers.map(|name| {
        let role = format!("{CONTROLLER_PREFIX}{name}");
        binding(None, &role, &role, vec![service_account(name)])
    }));
    let reader = "extension-apiserver-authentication-reader";
    let system = Some("kube-system");
    let reader_name = format!("system::{reader}");
    all.push(binding(system, &reader_name, reader, vec![user(manager), user(scheduler)]));
    for component in ["kube-controller-manager", "kube-scheduler"] {
        let name = format!("system::leader-locking-{component}");
        let subjects = vec![user(&format!("system:{component}")), service_account(component)];
        all.push(binding(system, &name, &name, subjects));
    }
    let controllers = [
        ("kube-public", "bootstrap-signer"),
        ("kube-system", "bootstrap-signer"),
        ("kube-system", "cloud-provider"),
        ("kube-system", "token-cleaner"),
    ];
    for (namespace, name) in controllers {
        let role = format!("{CONTROLLER_PREFIX}{name}");
        all.push(binding(Some(namespace), &role, &role, vec![service_account(name)]));
    }
    all
}
