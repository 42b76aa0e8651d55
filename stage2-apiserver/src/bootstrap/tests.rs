//! A new cluster against what a stock API server makes, and a repaired one.
//!
//! # In Kubernetes
//! `plugin/pkg/auth/authorizer/rbac/bootstrappolicy/policy_test.go`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use serde_json::Value;

use super::*;
use crate::authorization::rules::{PolicyRule, describe, rules_of};
use crate::storage::memory::MemoryStorage;
use crate::watch_cache::{At, Caches, ListOptions};

/// The recorded objects of a fresh cluster, or `None` without the cases.
fn recorded(file: &str) -> Option<Vec<Object>> {
    let default = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/cases");
    let root = std::env::var_os("STAGES_CASES_DIR").map_or_else(|| PathBuf::from(default), PathBuf::from);
    let Ok(text) = std::fs::read_to_string(root.join("server/discovery").join(file)) else {
        println!("skipped: no cases");
        return None;
    };
    let case: Value = serde_json::from_str(&text).unwrap();
    let items = case["response"]["body"]["items"].as_array().unwrap().clone();
    Some(items.into_iter().map(|item| Object::from_value(item).unwrap()).collect())
}

type Comparable = BTreeMap<(String, String), (Vec<PolicyRule>, BTreeMap<String, String>)>;

fn comparable(roles: &[Object]) -> Comparable {
    let key = |role: &Object| (role.namespace().unwrap_or_default().to_owned(), role.name().to_owned());
    let entry = |role: &Object| {
        // Aggregated rules are the controller manager's in the record.
        let aggregated = role.get("/aggregationRule").is_some_and(|rule| !rule.is_null());
        let rules = if aggregated { Vec::new() } else { rules_of(role) };
        (key(role), (rules, role.labels()))
    };
    let ours = |role: &&Object| {
        !role.name().starts_with("six-stages:") && !role.name().ends_with("service-ca-cert-publisher")
    };
    roles.iter().filter(ours).map(entry).collect()
}

#[test]
fn roles_are_those_of_a_fresh_cluster() {
    let (Some(cluster), Some(namespaced)) = (
        recorded("063-fresh-apiserver-only-clusterroles.json"),
        recorded("065-fresh-apiserver-only-roles.json"),
    ) else {
        return;
    };
    assert_eq!(comparable(&rbac::cluster_roles()), comparable(&cluster));
    assert_eq!(comparable(&rbac::namespaced_roles()), comparable(&namespaced));
}

#[test]
fn namespaces_are_those_of_a_fresh_cluster() {
    let Some(recorded) = recorded("059-fresh-apiserver-only-namespaces.json") else { return };
    let plain = |object: &Object| (object.name().to_owned(), object.labels(), object.get("/spec").cloned());
    let ours: Vec<_> = defaults::namespaces().iter().map(plain).collect();
    assert_eq!(ours, recorded.iter().map(plain).collect::<Vec<_>>());
}

#[test]
fn every_binding_leads_to_a_role() {
    let mut roles = rbac::cluster_roles();
    roles.extend(rbac::namespaced_roles());
    for binding in rbac::bindings() {
        let name = binding.get_str("/roleRef/name").unwrap();
        let there = roles.iter().any(|role| role.name() == name && role.namespace() == binding.namespace());
        assert!(there, "{} → {name}", binding.name());
    }
}

#[test]
fn an_aggregated_role_holds_what_it_is_made_of() {
    let roles = rbac::cluster_roles();
    let rules = |name: &str| rules_of(roles.iter().find(|role| role.name() == name).unwrap());
    assert!(rules("admin").contains(&rules("system:aggregate-to-view")[0]));
    assert!(rules("edit").contains(&rules("system:aggregate-to-edit")[0]));
    assert!(!rules("view").contains(&rules("system:aggregate-to-edit")[0]));
}

#[test]
fn a_repaired_role_keeps_what_was_added() {
    let expected = rbac::cluster_roles().into_iter().find(|role| role.name() == "system:basic-user").unwrap();
    let mut current = expected.clone();
    let added = PolicyRule {
        verbs: vec!["get".into()],
        api_groups: vec![String::new()],
        resources: vec!["pods".into()],
        ..PolicyRule::default()
    };
    current.set("/rules", serde_json::to_value([&added]).unwrap());
    let repaired = reconcile::repaired(&current, &expected).unwrap();
    assert_eq!(describe(&rules_of(&repaired)).len(), 4, "{:?}", describe(&rules_of(&repaired)));
    assert_eq!(rules_of(&repaired)[0], added);
    assert_eq!(reconcile::repaired(&repaired, &expected), None);
    current.set_annotation("rbac.authorization.kubernetes.io/autoupdate", "false");
    assert_eq!(reconcile::repaired(&current, &expected), None);
}

#[tokio::test]
async fn bootstrap_makes_a_cluster_once() {
    let stores = Stores::new(Caches::new(Arc::new(MemoryStorage::default())));
    let server = kubernetes_service::Server {
        service_ip: "10.96.0.1".parse().unwrap(),
        addresses: vec!["10.210.0.1".parse().unwrap()],
        port: 6443,
    };
    let mut config = Config { server, client_ca_pem: "PEM".into(), front_proxy_ca_pem: "PEM".into() };
    run(&stores, &config).await.unwrap();
    let services = stores.of(registry::find("", "v1", "services").unwrap());
    let first = services.get(Some("default"), "kubernetes", At::Consistent).await.unwrap();
    assert_eq!(first.object.get_str("/spec/clusterIP"), Some("10.96.0.1"));
    let revision = first.object.resource_version().to_owned();
    run(&stores, &config).await.unwrap();
    let all = ListOptions {
        scope: registry::find("", "v1", "namespaces").unwrap().key_prefix(None),
        selector: None,
        at: At::Consistent,
        limit: 0,
        continue_token: String::new(),
    };
    let namespaces = stores.of(registry::find("", "v1", "namespaces").unwrap()).list(&all).await.unwrap();
    assert_eq!(namespaces.items.len(), 4);
    let again = services.get(Some("default"), "kubernetes", At::Consistent).await.unwrap();
    assert_eq!(again.object.resource_version(), revision, "the second run changed nothing");
    let endpoints = stores.of(registry::find("", "v1", "endpoints").unwrap());
    config.server.addresses.push("127.0.0.2".parse().unwrap());
    run(&stores, &config).await.unwrap();
    let moved = endpoints.get(Some("default"), "kubernetes", At::Consistent).await.unwrap();
    assert_eq!(moved.object.get_str("/subsets/0/addresses/1/ip"), Some("127.0.0.2"));
}
