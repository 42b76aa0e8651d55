//! The rules of ownership, told on built-in kinds and on a custom one.

use serde_json::{Value, json};

use super::field_types::{ObjectType, built_in, structural};
use super::updater::Versions;
use super::walk::{compare, fields_of};
use super::*;

mod properties;

/// A kind with one version.
struct OneVersion(GroupVersionKind, ObjectType);

impl Versions for OneVersion {
    fn api_version(&self) -> String {
        self.0.api_version()
    }

    fn object_type(&self, api_version: &str) -> Option<ObjectType> {
        (api_version == self.api_version()).then(|| self.1.clone())
    }

    fn convert(&self, object: &Value, api_version: &str) -> Option<Value> {
        (api_version == self.api_version()).then(|| object.clone())
    }
}

fn built_in_kind(group: &str, version: &str, kind: &str) -> OneVersion {
    let gvk = GroupVersionKind::new(group, version, kind);
    let object_type = built_in::object_type(&gvk);
    OneVersion(gvk, object_type)
}

fn config_map() -> OneVersion {
    built_in_kind("", "v1", "ConfigMap")
}

fn deployment() -> OneVersion {
    built_in_kind("apps", "v1", "Deployment")
}

fn writer<'a>(versions: &'a OneVersion, manager: &'a str, second: i64) -> Writer<'a> {
    let now = Timestamp::from_second(1_700_000_000 + second).expect("a time");
    Writer { manager, subresource: "", now, versions, ignored: &[&["status"]] }
}

fn empty(versions: &OneVersion) -> Value {
    json!({ "apiVersion": versions.0.api_version(), "kind": versions.0.kind, "metadata": {} })
}

fn apply(
    versions: &OneVersion,
    manager: &str,
    live: Option<&Value>,
    applied: &Value,
) -> Result<Value, Status> {
    let empty = empty(versions);
    writer(versions, manager, 0).apply(live.unwrap_or(&empty), &empty, applied, false)
}

fn data(entries: Value) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "x" }, "data": entries })
}

/// manager → fieldsV1.
fn owners(object: &Value) -> Value {
    let entries = object.pointer("/metadata/managedFields").and_then(Value::as_array);
    let owned = entries.into_iter().flatten();
    Value::Object(
        owned.map(|e| (e["manager"].as_str().unwrap_or("").to_owned(), e["fieldsV1"].clone())).collect(),
    )
}

#[test]
fn a_field_that_its_only_owner_no_longer_names_is_gone() {
    let kind = config_map();
    let first = apply(&kind, "m", None, &data(json!({ "a": "1", "b": "2" }))).expect("applied");
    assert_eq!(owners(&first), json!({ "m": { "f:data": { "f:a": {}, "f:b": {} } } }));
    let second = apply(&kind, "m", Some(&first), &data(json!({ "a": "1" }))).expect("applied");
    assert_eq!(second["data"], json!({ "a": "1" }));
    assert_eq!(owners(&second), json!({ "m": { "f:data": { "f:a": {} } } }));
}

#[test]
fn a_shared_field_stays_until_its_last_owner_gives_it_up() {
    let kind = config_map();
    let one = apply(&kind, "one", None, &data(json!({ "a": "1", "b": "2" }))).expect("applied");
    let both =
        apply(&kind, "two", Some(&one), &data(json!({ "a": "1" }))).expect("the same value is no conflict");
    let left = apply(&kind, "one", Some(&both), &data(json!({ "b": "2" }))).expect("applied");
    assert_eq!(left["data"], json!({ "a": "1", "b": "2" }));
    let gone = apply(&kind, "two", Some(&left), &data(json!({ "c": "3" }))).expect("applied");
    assert_eq!(gone["data"], json!({ "b": "2", "c": "3" }));
}

#[test]
fn another_value_for_an_owned_field_is_a_conflict_unless_forced() {
    let kind = config_map();
    let first = apply(&kind, "one", None, &data(json!({ "a": "1", "b": "1" }))).expect("applied");
    let wanted = data(json!({ "a": "2", "b": "2" }));
    let refused = apply(&kind, "two", Some(&first), &wanted).expect_err("a conflict");
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.message,
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\n- .data.b"
    );
    let causes = refused.details.expect("details").causes;
    assert_eq!(causes[1].field, ".data.b");
    assert_eq!(causes[1].reason, "FieldManagerConflict");
    assert_eq!(causes[1].message, "conflict with \"one\"");
    let empty = empty(&kind);
    let forced = writer(&kind, "two", 0).apply(&first, &empty, &wanted, true).expect("forced");
    assert_eq!(owners(&forced), json!({ "two": { "f:data": { "f:a": {}, "f:b": {} } } }));
}

#[test]
fn an_update_takes_what_it_changes_and_names_its_version_in_a_conflict() {
    let kind = config_map();
    let live = apply(&kind, "one", None, &data(json!({ "a": "1" }))).expect("applied");
    let mut live = live;
    live["metadata"]["uid"] = json!("u");
    let mut new = live.clone();
    new["data"]["a"] = json!("2");
    writer(&kind, "kubectl-edit", 5).record_update(&live, &mut new);
    assert_eq!(owners(&new), json!({ "kubectl-edit": { "f:data": { "f:a": {} } } }));
    let refused = apply(&kind, "one", Some(&new), &data(json!({ "a": "1" }))).expect_err("a conflict");
    let message = "Apply failed with 1 conflict: conflict with \"kubectl-edit\" using v1: .data.a";
    assert_eq!(refused.message, message);
}

#[test]
fn a_write_that_changes_nothing_leaves_the_times_of_the_books() {
    let kind = config_map();
    let mut live = apply(&kind, "one", None, &data(json!({ "a": "1" }))).expect("applied");
    live["metadata"]["uid"] = json!("u");
    let mut new = live.clone();
    new["metadata"].as_object_mut().expect("a map").remove("managedFields");
    writer(&kind, "other", 99).record_update(&live, &mut new);
    assert_eq!(new, live);
    let empty = empty(&kind);
    let again = writer(&kind, "one", 99).apply(&live, &empty, &data(json!({ "a": "1" })), false);
    assert_eq!(again.expect("applied"), live);
}

#[test]
fn emptied_books_stay_empty_until_the_next_apply() {
    let kind = config_map();
    let mut live = apply(&kind, "one", None, &data(json!({ "a": "1" }))).expect("applied");
    live["metadata"]["uid"] = json!("u");
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    writer(&kind, "other", 1).record_update(&live, &mut new);
    assert_eq!(new["metadata"].get("managedFields"), None);
    let mut later = new.clone();
    later["data"]["a"] = json!("2");
    writer(&kind, "other", 2).record_update(&new, &mut later);
    assert_eq!(later["metadata"].get("managedFields"), None);
    let refused =
        apply(&kind, "one", Some(&later), &data(json!({ "a": "3" }))).expect_err("somebody had it before");
    assert_eq!(
        refused.message,
        "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.a"
    );
}

#[test]
fn the_eleventh_updater_merges_the_two_oldest() {
    let kind = config_map();
    let mut live = empty(&kind);
    for second in 0..11 {
        let mut new = live.clone();
        new["data"][format!("k{second:02}")] = json!("v");
        writer(&kind, &format!("m{second:02}"), second).record_update(&live, &mut new);
        new["metadata"]["uid"] = json!("u");
        live = new;
    }
    let owners = owners(&live);
    assert_eq!(owners.as_object().map(|o| o.len()), Some(10));
    assert_eq!(owners["ancient-changes"]["f:data"], json!({ ".": {}, "f:k00": {}, "f:k01": {} }));
    assert_eq!(owners["m10"]["f:data"], json!({ "f:k10": {} }));
}

#[test]
fn kubectl_may_take_what_its_client_side_apply_set() {
    let kind = config_map();
    let mut live = data(json!({ "a": "1" }));
    let last = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"1\"},\"kind\":\"ConfigMap\"}\n";
    live["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": last });
    writer(&kind, "kubectl-client-side-apply", 0).record_update(&empty(&kind), &mut live);
    live["metadata"]["uid"] = json!("u");
    let wanted = data(json!({ "a": "<2>" }));
    assert_eq!(apply(&kind, "somebody", Some(&live), &wanted).expect_err("a conflict").code, 409);
    let taken = apply(&kind, "kubectl", Some(&live), &wanted).expect("its own past");
    assert_eq!(taken["data"]["a"], "<2>");
    let renewed = taken.pointer("/metadata/annotations/kubectl.kubernetes.io~1last-applied-configuration");
    let text = "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"\\u003c2\\u003e\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"x\"}}\n";
    assert_eq!(renewed, Some(&json!(text)));
}

fn containers(list: Value) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "x" },
        "spec": { "template": { "spec": { "containers": list } } },
    })
}

#[test]
fn list_items_are_owned_by_their_keys_and_absent_keys_have_their_default() {
    let kind = deployment();
    let wanted = containers(json!([{ "name": "c", "ports": [{ "containerPort": 80 }], "args": ["a"] }]));
    let applied = apply(&kind, "m", None, &wanted).expect("applied");
    let container = json!({
        ".": {}, "f:name": {}, "f:args": {},
        "f:ports": { "k:{\"containerPort\":80,\"protocol\":\"TCP\"}": { ".": {}, "f:containerPort": {} } },
    });
    let owned = &owners(&applied)["m"]["f:spec"]["f:template"]["f:spec"]["f:containers"];
    assert_eq!(owned, &json!({ "k:{\"name\":\"c\"}": container }));
}

#[test]
fn appliers_of_different_containers_share_a_list_and_the_order_is_the_appliers() {
    let kind = deployment();
    let one =
        apply(&kind, "one", None, &containers(json!([{ "name": "b" }, { "name": "c" }]))).expect("applied");
    let two = containers(json!([{ "name": "z" }, { "name": "c" }, { "name": "a" }]));
    let both = apply(&kind, "two", Some(&one), &two).expect("applied");
    let names = |object: &Value| -> Vec<String> {
        let list = object.pointer("/spec/template/spec/containers").and_then(Value::as_array);
        list.into_iter().flatten().map(|c| c["name"].as_str().unwrap_or("").to_owned()).collect()
    };
    assert_eq!(names(&both), ["b", "z", "c", "a"]);
    let left = apply(&kind, "two", Some(&both), &containers(json!([{ "name": "a" }]))).expect("applied");
    assert_eq!(names(&left), ["b", "c", "a"]);
}

#[test]
fn what_does_not_fit_the_schema_is_refused_in_its_words() {
    let kind = deployment();
    let refused = |applied: Value| apply(&kind, "m", None, &applied).expect_err("refused").message;
    let twice = refused(containers(json!([{ "name": "c" }, { "name": "c" }])));
    let head = "failed to create typed patch object (/x; apps/v1, Kind=Deployment): ";
    assert_eq!(
        twice,
        format!("{head}.spec.template.spec.containers: duplicate entries for key [name=\"c\"]")
    );
    let mut odd = containers(json!([{ "name": "c", "image": 5 }]));
    odd["spec"]["replicas"] = json!("three");
    odd["spec"]["foo"] = json!(1);
    assert_eq!(
        refused(odd),
        format!(
            "{head}errors:\n  .spec.foo: field not declared in schema\n  .spec.replicas: expected numeric (int or float), got string\n  .spec.template.spec.containers[name=\"c\"].image: expected string, got &value.valueUnstructured{{Value:5}}"
        )
    );
    let mut other = containers(json!([]));
    other["apiVersion"] = json!("v1");
    assert_eq!(refused(other), "invalid object type: /v1, Kind=Deployment");
}

fn gadget() -> OneVersion {
    let schema = json!({
        "type": "object",
        "properties": { "spec": { "type": "object", "properties": {
            "items": {
                "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                "items": { "type": "object", "properties": { "name": { "type": "string" }, "v": { "type": "integer" } } },
            },
            "tags": { "type": "array", "x-kubernetes-list-type": "set", "items": { "type": "string" } },
            "plain": { "type": "array", "items": { "type": "string" } },
            "atomicMap": {
                "type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": { "type": "string" },
            },
            "free": { "type": "object", "x-kubernetes-preserve-unknown-fields": true },
        } } },
    });
    OneVersion(GroupVersionKind::new("patch.example.com", "v1", "Gadget"), structural::object_type(&schema))
}

#[test]
fn a_structural_schema_gives_custom_kinds_the_same_books() {
    let kind = gadget();
    let mut new = json!({
        "apiVersion": "patch.example.com/v1", "kind": "Gadget", "metadata": { "name": "x", "labels": { "l": "1" } },
        "spec": {
            "items": [{ "name": "i1", "v": 1 }], "tags": ["t1"], "plain": ["p1"], "atomicMap": { "x": "1" },
            "free": { "any": { "thing": 1 } },
        },
    });
    writer(&kind, "creator", 0).record_update(&empty(&kind), &mut new);
    let expected = json!({
        "f:metadata": { "f:labels": { ".": {}, "f:l": {} } },
        "f:spec": {
            ".": {}, "f:atomicMap": {}, "f:free": { ".": {}, "f:any": { ".": {}, "f:thing": {} } },
            "f:items": { ".": {}, "k:{\"name\":\"i1\"}": { ".": {}, "f:name": {}, "f:v": {} } },
            "f:plain": {}, "f:tags": { ".": {}, "v:\"t1\"": {} },
        },
    });
    assert_eq!(owners(&new), json!({ "creator": expected }));
    let applied = json!({
        "apiVersion": "patch.example.com/v1", "kind": "Gadget", "metadata": { "name": "x" },
        "spec": { "tags": ["t2"] },
    });
    let live = apply(&kind, "tagger", Some(&new), &applied).expect("sets are shared");
    assert_eq!(live["spec"]["tags"], json!(["t1", "t2"]));
}

#[test]
fn a_user_agent_names_its_manager_by_its_first_part() {
    assert_eq!(manager_of_user_agent("kubectl/v1.33.0 (linux/amd64)"), "kubectl");
    assert_eq!(manager_of_user_agent(""), "");
    assert_eq!(manager_of_user_agent(&"é".repeat(100)).len(), 128);
}

#[test]
fn a_type_that_changes_is_a_change_of_one_field() {
    let deduced = ObjectType::deduced();
    let comparison = compare(&deduced, &json!({ "a": { "b": 1 } }), &json!({ "a": "text" }));
    assert_eq!(comparison.modified, FieldSet::from_fields_v1(&json!({ "f:a": {} })));
    let set = fields_of(&deduced, &json!({ "a": { "b": 1 }, "c": [] }));
    assert_eq!(set.paths().len(), 3);
}
