//! Properties of what `apply`, `patch`, templates and selectors are made of, on generated values.
//!
//! An apply must bring the object where the manifest says, leave alone what others have set, take away what the manifest no longer
//! says, and do nothing the second time. These are promises about all objects, so they are tested on many.

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use stage1_kubectl::manifest;
use stage1_kubectl::patch;
use stage1_kubectl::printers::jsonpath;
use stage1_kubectl::quantity::Quantity;
use stage1_kubectl::resource::GroupVersionKind;
use stage1_kubectl::selector::LabelSelector;
use stage1_kubectl::yaml;

fn deployment() -> GroupVersionKind {
    GroupVersionKind::new("apps", "v1", "Deployment")
}

/// A few keys, so that generated maps meet.
fn labels() -> impl Strategy<Value = Value> {
    proptest::collection::btree_map("[abc]", "[xyz]", 0..3).prop_map(|map| json!(map))
}

fn container() -> impl Strategy<Value = Value> {
    let env = proptest::collection::btree_map("[EFG]", "[12]", 0..3);
    ("[abc]", "[xyz]", env, proptest::option::of(0..3u16)).prop_map(|(name, image, env, port)| {
        let env: Vec<Value> = env.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let mut container = json!({"name": name, "image": image});
        if !env.is_empty() {
            container["env"] = env.into();
        }
        if let Some(port) = port {
            container["ports"] = json!([{"containerPort": 80 + port, "protocol": "TCP"}]);
        }
        container
    })
}

/// A Deployment as a manifest says it: no field that is null, no list that is empty.
fn manifest() -> impl Strategy<Value = Value> {
    let containers = proptest::collection::vec(container(), 1..4);
    (labels(), proptest::option::of(0..3i64), containers).prop_map(|(labels, replicas, mut containers)| {
        containers.sort_by_key(|c| c["name"].to_string());
        containers.dedup_by_key(|c| c["name"].to_string());
        let mut object = json!({
            "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web", "labels": labels},
            "spec": {"template": {"spec": {"containers": containers}}},
        });
        if let Some(replicas) = replicas {
            object["spec"]["replicas"] = replicas.into();
        }
        object
    })
}

/// What the server has after somebody else changed it: a label, a field, a container of theirs.
fn touched(mut object: Value) -> Value {
    object["metadata"]["labels"]["foreign"] = "theirs".into();
    object["spec"]["minReadySeconds"] = 7.into();
    let containers = object["spec"]["template"]["spec"]["containers"].as_array_mut();
    containers.expect("a manifest has containers").push(json!({"name": "sidecar", "image": "theirs"}));
    object
}

fn containers(object: &Value) -> Map<String, Value> {
    let list = object["spec"]["template"]["spec"]["containers"].as_array().cloned().unwrap_or_default();
    list.into_iter().map(|c| (c["name"].as_str().unwrap_or_default().to_string(), c)).collect()
}

/// Lists that merge by key say the same in any order.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            items.into()
        }
        Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), sorted(value))).collect(),
        other => other.clone(),
    }
}

/// Any JSON, with the texts that YAML 1.1 reads as something else.
fn any_json() -> impl Strategy<Value = Value> {
    let words = prop_oneof![
        Just("yes"),
        Just("No"),
        Just("on"),
        Just("0644"),
        Just("0o17"),
        Just("1_000"),
        Just("1e3"),
        Just(".5"),
        Just("~"),
        Just("null"),
        Just(""),
        Just(" a "),
        Just("a: b"),
        Just("# c"),
        Just("- d"),
        Just("a\nb\n"),
        Just("\ttab"),
        Just("é\u{1F600}"),
        Just("190:20:30"),
        Just("2001-01-01"),
        Just("=="),
        Just("!x"),
        Just("&a"),
        Just("*a"),
        Just("'q'"),
        Just("\"d\""),
        Just("0x1F"),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        words.prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[a-z0-9_ ]{0,6}", inner, 0..4).prop_map(|map| json!(map)),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn an_apply_leads_to_the_manifest_keeps_what_is_foreign_and_does_nothing_twice(last in manifest(), next in manifest()) {
        let live = touched(last.clone());
        let change = patch::three_way(&last, &next, &live, &deployment()).expect("a patch");
        let mut after = live.clone();
        patch::apply_strategic(&mut after, &change, &deployment()).expect("it applies");
        // What is foreign stays.
        prop_assert_eq!(&after["metadata"]["labels"]["foreign"], &json!("theirs"));
        prop_assert_eq!(&after["spec"]["minReadySeconds"], &json!(7));
        // Without it, what is there is what the manifest says: what it no longer says is gone.
        let mut ours = after.clone();
        ours["metadata"]["labels"].as_object_mut().expect("labels").remove("foreign");
        ours["spec"].as_object_mut().expect("a spec").remove("minReadySeconds");
        ours["spec"]["template"]["spec"]["containers"].as_array_mut().expect("containers").retain(|c| c["name"] != "sidecar");
        prop_assert!(containers(&after).contains_key("sidecar"));
        prop_assert_eq!(sorted(&ours), sorted(&next));
        // The same manifest again changes nothing (a foreign element of a list makes kubectl send the order, and no more).
        let again = patch::three_way(&next, &next, &after, &deployment()).expect("a patch");
        let mut twice = after.clone();
        patch::apply_strategic(&mut twice, &again, &deployment()).expect("it applies");
        prop_assert_eq!(sorted(&twice), sorted(&after));
        let alone = patch::three_way(&next, &next, &next, &deployment()).expect("a patch");
        prop_assert_eq!(alone, json!({}));
    }

    #[test]
    fn the_difference_of_two_objects_makes_one_the_other(from in manifest(), to in manifest()) {
        let change = patch::three_way(&from, &to, &from, &deployment()).expect("a patch");
        let mut after = from.clone();
        patch::apply_strategic(&mut after, &change, &deployment()).expect("it applies");
        prop_assert_eq!(sorted(&after), sorted(&to));
    }

    #[test]
    fn custom_objects_are_applied_the_same_way_without_merge_keys(last in manifest(), next in manifest()) {
        let mut live = last.clone();
        live["metadata"]["labels"]["foreign"] = "theirs".into();
        let change = patch::three_way_merge(&last, &next, &live);
        let mut after = live.clone();
        patch::apply_merge_patch(&mut after, &change);
        prop_assert_eq!(after["metadata"]["labels"].as_object_mut().expect("labels").remove("foreign"), Some(json!("theirs")));
        prop_assert_eq!(&after, &next);
        prop_assert_eq!(patch::three_way_merge(&next, &next, &after), json!({}));
    }

    #[test]
    fn yaml_that_we_write_reads_back_as_the_same_value(value in any_json()) {
        let object = json!({"apiVersion": "x/v1", "kind": "X", "metadata": {"name": "a"}, "spec": value});
        let text = yaml::to_yaml(&object);
        let back = manifest::documents(&text, "test").map_err(|e| TestCaseError::fail(format!("{e}: {text}")))?;
        prop_assert_eq!(back, vec![object], "{}", text);
    }

    #[test]
    fn a_quantity_prints_as_what_it_is_and_adds_up(a in -1_000_000i64..1_000_000, b in 0i64..1_000_000, unit in "(|m|k|Ki|M|Mi|G|Gi)") {
        let one = Quantity::parse(&format!("{a}{unit}")).expect("a quantity");
        let two = Quantity::parse(&format!("{b}{unit}")).expect("a quantity");
        let again = Quantity::parse(&one.to_string()).expect("it prints as one");
        prop_assert_eq!(again.cmp(&one), std::cmp::Ordering::Equal);
        prop_assert_eq!(one.cmp(&two), a.cmp(&b));
        prop_assert_eq!(again.to_string(), one.to_string());
    }

    #[test]
    fn a_selector_reads_its_own_text_and_matches_the_same(
        key in "[abc]", values in proptest::collection::btree_set("[xyz]", 1..3), form in 0..5, labels in proptest::collection::btree_map("[abc]", "[xyz]", 0..3),
    ) {
        let list = values.iter().cloned().collect::<Vec<_>>().join(",");
        let first = values.iter().next().expect("at least one").clone();
        let holds = |has: Option<&String>| match form {
            0 => has == Some(&first),
            1 => has != Some(&first),
            2 => has.is_some_and(|value| values.contains(value)),
            3 => has.is_none_or(|value| !values.contains(value)),
            _ => has.is_some(),
        };
        let text = match form {
            0 => format!("{key}={first}"),
            1 => format!("{key}!={first}"),
            2 => format!("{key} in ({list})"),
            3 => format!("{key} notin ({list})"),
            _ => key.clone(),
        };
        let selector = LabelSelector::parse(&text).expect("a selector");
        prop_assert_eq!(selector.matches(&labels), holds(labels.get(&key)), "{}", text);
        let again = LabelSelector::parse(&selector.to_string()).expect("its text is one");
        prop_assert_eq!(again.matches(&labels), selector.matches(&labels));
    }

    #[test]
    fn a_path_finds_what_lies_at_its_end(names in proptest::collection::vec("[a-z]{1,5}", 1..4), at in 0usize..3, leaf in "[a-z]{1,5}") {
        let mut value = json!({"end": [leaf, leaf, leaf]});
        value["end"][at] = leaf.clone().into();
        for name in names.iter().rev() {
            value = json!({name.as_str(): value});
        }
        let path = names.join(".");
        prop_assert_eq!(jsonpath::render(&format!("{{.{path}.end[{at}]}}"), &value), Ok(leaf.clone()));
        prop_assert_eq!(jsonpath::render(&format!("{{..end[{at}]}}"), &value), Ok(leaf.clone()));
        prop_assert_eq!(jsonpath::render(&format!("{{.{path}.none}}x"), &value), Ok("x".to_string()));
    }
}
