use super::*;

fn transform(accept: &str) -> Transform {
    negotiate(Some(accept), false, true).expect("acceptable").transform
}

#[test]
fn kubectl_get_gets_a_table() {
    let accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json";
    assert_eq!(transform(accept), Transform::Table("meta.k8s.io/v1".into()));
}

#[test]
fn protobuf_is_for_kinds_with_a_message_and_not_for_tables() {
    let accept = Some("application/vnd.kubernetes.protobuf,application/json");
    assert_eq!(negotiate(accept, true, true).expect("acceptable").format, Format::Protobuf);
    assert_eq!(negotiate(accept, false, false).expect("acceptable"), Negotiated::default());
    let metadata =
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";
    let found = negotiate(Some(metadata), false, true).expect("acceptable");
    assert_eq!(found.format, Format::Protobuf);
    assert_eq!(found.transform, Transform::PartialObjectMetadata("meta.k8s.io/v1".into()));
    let table = "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json";
    assert_eq!(negotiate(Some(table), false, true).expect("acceptable"), Negotiated::default());
}

#[test]
fn an_unknown_transformation_is_skipped_or_refused() {
    assert_eq!(transform("application/json;as=Table;v=v9;g=meta.k8s.io,application/json"), Transform::Plain);
    let refused =
        negotiate(Some("application/json;as=Table;v=v9;g=meta.k8s.io"), false, true).expect_err("refused");
    assert_eq!(refused.code, 406);
    assert_eq!(
        refused.message,
        "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"
    );
}

#[test]
fn weights_and_wildcards_are_heeded() {
    assert_eq!(negotiate(Some("*/*"), false, true).expect("acceptable").format, Format::Json);
    assert_eq!(
        negotiate(Some("application/json;q=0.1, application/yaml"), false, true).expect("acceptable").format,
        Format::Yaml
    );
    assert_eq!(negotiate(None, false, true).expect("acceptable"), Negotiated::default());
    assert_eq!(negotiate(Some("text/html"), false, true).expect_err("refused").code, 406);
    assert_eq!(negotiate(Some("application/yaml"), true, true).expect_err("refused").code, 406);
}

#[test]
fn an_unknown_body_type_is_refused() {
    assert_eq!(body_format(Some("application/json; charset=utf-8")), Ok(BodyFormat::Json));
    assert_eq!(body_format(None), Ok(BodyFormat::Json));
    assert_eq!(body_format(Some("application/xml")).expect_err("refused").code, 415);
}
