//! Tests of the schema module, by what users see.

use serde_json::json;

use super::*;

fn decode(kind: (&str, &str, &str), body: &str) -> Decoded {
    let schema = schema_for(&GroupVersionKind::new(kind.0, kind.1, kind.2)).expect("a built-in kind");
    decode_slice(body.as_bytes(), schema).expect("JSON")
}

#[test]
fn unknown_and_duplicate_fields_are_reported_in_document_order() {
    let decoded = decode(
        ("", "v1", "Pod"),
        r#"{"spec": {"containers": [{"name": "c", "name": "d", "imagee": "x"}], "bar": 1}}"#,
    );
    assert_eq!(
        decoded.strict,
        [
            r#"duplicate field "spec.containers[0].name""#,
            r#"unknown field "spec.containers[0].imagee""#,
            r#"unknown field "spec.bar""#
        ]
    );
    assert_eq!(decoded.value["spec"]["containers"][0], json!({"name": "d", "resources": {}}));
}

#[test]
fn a_mismatch_is_told_in_words_of_go() {
    let decoded =
        decode(("", "v1", "Pod"), r#"{"spec": {"containers": [{"ports": [{"containerPort": "80"}]}]}}"#);
    assert_eq!(
        decoded.error.as_deref(),
        Some(
            "json: cannot unmarshal string into Go struct field ContainerPort.spec.containers.ports.containerPort of type int32"
        )
    );
}

#[test]
fn zero_values_vanish_unless_the_go_field_is_a_pointer() {
    let decoded = decode(
        ("", "v1", "Pod"),
        r#"{"spec": {"hostNetwork": false, "automountServiceAccountToken": false, "containers": [{"name": "c", "ports": [], "resources": {"limits": {"cpu": 0.5}}}]}}"#,
    );
    let spec = &decoded.value["spec"];
    assert_eq!(spec.get("hostNetwork"), None);
    assert_eq!(spec["automountServiceAccountToken"], false);
    assert_eq!(spec["containers"][0], json!({"name": "c", "resources": {"limits": {"cpu": "500m"}}}));
}

#[test]
fn decoding_twice_changes_nothing() {
    let schema = schema_for(&GroupVersionKind::new("apps", "v1", "Deployment")).expect("built in");
    let body =
        json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"containers": [{"name": "c"}]}}}});
    let once = decode_value(body, schema).value;
    assert_eq!(decode_value(once.clone(), schema).value, once);
}

#[test]
fn base64_errors_name_the_byte_of_go() {
    assert_eq!(go_json::base64_corrupt_at("aGk="), None);
    assert_eq!(go_json::base64_corrupt_at("abc!"), Some(3));
    assert_eq!(go_json::base64_corrupt_at("not base64"), Some(3));
}

#[test]
fn a_lease_time_without_micros_is_refused_like_go_does() {
    let error = go_time::canonical_micro_time("2024-01-02T03:04:05Z").expect_err("no micros");
    assert_eq!(
        error,
        r#"parsing time "2024-01-02T03:04:05Z" as "2006-01-02T15:04:05.000000Z07:00": cannot parse "Z" as ".000000""#
    );
}
