use std::collections::{HashMap, HashSet};

use super::*;

#[test]
fn resources_and_kinds_are_unique() {
    let mut resources = HashSet::new();
    let mut kinds = HashSet::new();
    for info in all() {
        assert!(resources.insert((info.group, info.version, info.resource)), "{info:?}");
        assert!(kinds.insert((info.group, info.version, info.kind)), "{info:?}");
        assert!(info.verbs.is_sorted(), "{} verbs", info.resource);
        assert!(info.subresources.iter().map(|s| s.name).is_sorted(), "{} subresources", info.resource);
    }
}

#[test]
fn entries_that_share_a_prefix_share_the_stored_form() {
    let mut seen: HashMap<&str, StorageInfo> = HashMap::new();
    for storage in all().filter_map(|i| i.storage) {
        assert_eq!(*seen.entry(storage.prefix).or_insert(storage), storage);
    }
}

#[test]
fn every_group_has_its_place_in_the_order() {
    let mut order: Vec<&str> = Vec::new();
    for info in all().filter(|i| !i.group.is_empty()) {
        if order.last() != Some(&info.group) {
            order.push(info.group);
        }
    }
    assert_eq!(order, GROUP_ORDER);
}

#[test]
fn keys_are_those_of_a_real_cluster() {
    let key = |g, r, ns, n| find(g, "v1", r).expect("registered").key(ns, n);
    assert_eq!(key("", "nodes", None, "node-1"), "/registry/minions/node-1");
    assert_eq!(key("", "services", Some("default"), "web"), "/registry/services/specs/default/web");
    assert_eq!(key("events.k8s.io", "events", Some("a"), "b"), "/registry/events/a/b");
}
