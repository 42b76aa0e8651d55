use super::*;

/// Every reference of a document leads somewhere.
fn check_references(value: &Value, document: &Value) {
    match value {
        Value::Object(map) => {
            if let Some(reference) = map.get("$ref").and_then(Value::as_str) {
                let pointer = reference.trim_start_matches('#');
                assert!(document.pointer(pointer).is_some(), "{reference}");
            }
            map.values().for_each(|v| check_references(v, document));
        }
        Value::Array(items) => items.iter().for_each(|v| check_references(v, document)),
        _ => {}
    }
}

#[test]
fn json_in_a_schema_may_be_any_json() {
    let document = v2::document(&Catalog::default());
    let json = &document["definitions"]["io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSON"];
    assert_eq!(
        json.as_object().map(|fields| fields.keys().cloned().collect::<Vec<_>>()),
        Some(vec!["description".to_owned()])
    );
}

#[test]
fn references_lead_to_definitions() {
    for (group, version) in [("", "v1"), ("apps", "v1"), ("events.k8s.io", "v1")] {
        let document = v3::document(&Catalog::default(), group, version).expect("served");
        check_references(&document, &document);
    }
    let document = v2::document(&Catalog::default());
    check_references(&document, &document);
}

#[test]
fn kubectl_finds_field_validation_at_patch() {
    let document = v3::document(&Catalog::default(), "apps", "v1").expect("served");
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    let names: Vec<&str> =
        patch["parameters"].as_array().expect("list").iter().filter_map(|p| p["name"].as_str()).collect();
    assert!(names.contains(&"fieldValidation"), "{names:?}");
}

#[test]
fn kinds_are_marked_in_the_definitions() {
    let document = v2::document(&Catalog::default());
    let pod = &document["definitions"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"][0]["kind"], "Pod");
    assert!(!proto::encode(&document).is_empty());
}

#[test]
fn containers_merge_by_name() {
    let document = v2::document(&Catalog::default());
    let containers = &document["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
}

#[test]
fn a_field_that_is_named_default_stays() {
    let document = v2::document(&Catalog::default());
    let item = &document["definitions"]["io.k8s.api.core.v1.LimitRangeItem"]["properties"];
    assert!(item["default"].is_object(), "{item}");
}
