use serde_json::json;

use super::*;

fn pod() -> Object {
    Object::from_value(json!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "web", "labels": {"app": "web"}, "finalizers": ["a/b"]},
        "spec": {"containers": [{"name": "c", "unknown": 1}]}
    }))
    .unwrap()
}

#[test]
fn only_a_map_is_an_object() {
    assert!(Object::from_value(json!([1])).is_err());
    assert!(serde_json::from_str::<Object>("3").is_err());
}

#[test]
fn unknown_fields_survive_a_change() {
    let mut pod = pod();
    pod.set_label("six/stages", "1");
    pod.set("/spec/containers/0/image", "nginx");
    assert_eq!(pod.get("/spec/containers/0/unknown"), Some(&json!(1)));
    assert_eq!(pod.label("six/stages"), Some("1"));
    assert_eq!(pod.get_str("/spec/containers/0/image"), Some("nginx"));
}

#[test]
fn set_makes_missing_maps_and_remove_takes_them_out() {
    let mut pod = pod();
    pod.set("/status/phase", "Running");
    assert_eq!(pod.remove("/status/phase"), Some(json!("Running")));
    assert_eq!(pod.remove("/status/phase"), None);
    pod.set_finalizers(&[]);
    assert!(pod.finalizers().is_empty());
}

#[test]
fn a_typed_view_decodes_what_it_knows() {
    let typed: k8s_openapi::api::core::v1::Pod = pod().decode().unwrap();
    assert_eq!(typed.spec.unwrap().containers[0].name, "c");
}
