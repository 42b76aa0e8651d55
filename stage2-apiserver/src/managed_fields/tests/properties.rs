//! What is true of any objects: the invariants, on random ConfigMaps and Deployments.

use proptest::prelude::*;

use super::super::walk::without;
use super::*;

fn entries() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[a-e]", "[0-2]", 1..4).prop_map(|map| json!(map))
}

fn containers_of(names: Vec<(String, String)>) -> Value {
    let mut seen = std::collections::BTreeSet::new();
    let unique = names.into_iter().filter(|(name, _)| seen.insert(name.clone()));
    let list: Vec<Value> = unique
        .map(|(name, image)| json!({ "name": name, "image": image, "env": [{ "name": image, "value": name }] }))
        .collect();
    containers(json!(list))
}

fn pods() -> impl Strategy<Value = Value> {
    proptest::collection::vec(("[a-d]", "[0-2]"), 0..4).prop_map(containers_of)
}

fn forced(kind: &OneVersion, manager: &str, live: Option<&Value>, applied: &Value) -> Value {
    let empty = empty(kind);
    writer(kind, manager, 0).apply(live.unwrap_or(&empty), &empty, applied, true).expect("forced")
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    #[test]
    fn applying_twice_is_applying_once(first in pods(), second in pods()) {
        let kind = deployment();
        let live = forced(&kind, "other", None, &first);
        let once = forced(&kind, "m", Some(&live), &second);
        prop_assert_eq!(forced(&kind, "m", Some(&once), &second), once);
    }

    #[test]
    fn what_the_only_applier_gives_up_is_gone(first in pods(), second in pods()) {
        let kind = deployment();
        let live = forced(&kind, "m", Some(&forced(&kind, "m", None, &first)), &second);
        let wanted = second.pointer("/spec/template/spec/containers").and_then(Value::as_array).cloned();
        let found = live.pointer("/spec/template/spec/containers").and_then(Value::as_array).cloned();
        prop_assert_eq!(found.unwrap_or_default(), wanted.unwrap_or_default());
    }

    #[test]
    fn the_owners_of_an_applied_object_own_its_leaves(first in entries(), second in entries()) {
        let kind = config_map();
        let live = forced(&kind, "two", Some(&forced(&kind, "one", None, &data(first))), &data(second));
        let mut union = FieldSet::default();
        let owners = owners(&live);
        for fields in owners.as_object().into_iter().flat_map(|owners| owners.values()) {
            union.union(&FieldSet::from_fields_v1(fields));
        }
        let mut bare = live.clone();
        take_books(&mut bare);
        let mut leaves = fields_of(&kind.1, &bare);
        leaves.difference(&STRIPPED);
        prop_assert_eq!(union, leaves);
    }

    #[test]
    fn a_written_set_reads_the_same(object in pods()) {
        let set = fields_of(&deployment().1, &object);
        let written = set.clone().into_fields_v1();
        prop_assert_eq!(FieldSet::from_fields_v1(&written), set.clone());
        let mut nothing = set.clone();
        nothing.difference(&set);
        prop_assert!(nothing.is_empty());
        prop_assert_eq!(set.intersection(&set), set);
    }

    #[test]
    fn the_comparison_tells_what_to_take_away(old in pods(), new in pods()) {
        let object_type = deployment().1;
        let comparison = compare(&object_type, &old, &new);
        prop_assert!(compare(&object_type, &new, &new).is_empty());
        let back = compare(&object_type, &new, &old);
        prop_assert_eq!(&back.added, &comparison.removed);
        prop_assert_eq!(&back.modified, &comparison.modified);
        let trimmed = without(&object_type, &new, &comparison.added);
        prop_assert!(compare(&object_type, &old, &trimmed).added.is_empty());
    }
}
