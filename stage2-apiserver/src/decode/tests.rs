use super::*;

fn config_map(body: &str, validation: FieldValidation) -> Result<DecodedBody, Status> {
    decode_body(body.as_bytes(), BodyFormat::Json, &GroupVersionKind::new("", "v1", "ConfigMap"), validation)
}

#[test]
fn what_isnt_said_is_taken_from_the_path() {
    let decoded = config_map(r#"{"metadata":{"name":"x"}}"#, FieldValidation::Strict).expect("fine");
    assert_eq!((decoded.object.api_version(), decoded.object.kind()), ("v1", "ConfigMap"));
}

#[test]
fn an_unknown_field_is_refused_warned_about_or_dropped() {
    let body = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"x"},"dat":{"a":"b"}}"#;
    let refused = config_map(body, FieldValidation::Strict).expect_err("strict");
    assert_eq!(
        refused.message,
        r#"ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: unknown field "dat""#
    );
    let warned = config_map(body, FieldValidation::Warn).expect("warn");
    assert_eq!(warned.warnings, [r#"unknown field "dat""#]);
    assert!(warned.object.get("/dat").is_none());
    assert!(config_map(body, FieldValidation::Ignore).expect("ignore").warnings.is_empty());
}

#[test]
fn another_kind_is_refused_in_the_words_of_the_conversion() {
    let secret =
        config_map(r#"{"apiVersion":"v1","kind":"Secret"}"#, FieldValidation::Warn).expect_err("refused");
    assert_eq!(
        secret.message,
        r#"Secret in version "v1" cannot be handled as a ConfigMap: converting (v1.Secret) to (core.ConfigMap): unknown conversion"#
    );
    let unknown =
        config_map(r#"{"apiVersion":"v1","kind":"Foo"}"#, FieldValidation::Warn).expect_err("refused");
    assert!(unknown.message.contains(r#"no kind "Foo" is registered for version "v1""#), "{unknown}");
}
