//! Bodies in audit events: bytes of any form as one JSON object.
//!
//! # In Kubernetes
//! `LogRequestObject`, `LogRequestPatch` and `LogResponseObject` in `apiserver/pkg/audit/request.go`.

use serde_json::Value;

use crate::decode;
use crate::protobuf;

/// The object in a body, if there is one.
pub fn object(body: &[u8]) -> Option<Value> {
    match body.first()? {
        b'{' | b'[' => serde_json::from_slice(body).ok(),
        b'k' if body.starts_with(b"k8s\0") => of_protobuf(body),
        _ => decode::any_object(body).ok(),
    }
}

fn of_protobuf(body: &[u8]) -> Option<Value> {
    let envelope = protobuf::open(body).ok()?;
    let message = protobuf::message_of(&envelope.api_version, &envelope.kind)?;
    let mut fields = protobuf::decode_raw(message, envelope.raw).ok()?;
    fields.insert("apiVersion".into(), envelope.api_version.as_str().into());
    fields.insert("kind".into(), envelope.kind.as_str().into());
    Some(Value::Object(fields))
}

/// The body as an event shows it.
pub fn shown(body: &Value, without_managed_fields: bool) -> Value {
    let mut body = body.clone();
    if without_managed_fields {
        remove_managed_fields(&mut body);
    }
    body
}

fn remove_managed_fields(body: &mut Value) {
    if let Some(metadata) = body.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
    }
    body.get_mut("items").and_then(Value::as_array_mut).into_iter().flatten().for_each(remove_managed_fields);
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_body_of_any_form_is_shown_as_json() {
        let pod =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
        assert_eq!(object(pod.to_string().as_bytes()), Some(pod.clone()));
        assert_eq!(
            object(b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {k: v}"),
            Some(pod.clone())
        );
        let packed = protobuf::encode_object(&pod).expect("a message");
        let read = object(&packed).expect("an object");
        assert_eq!((&read["kind"], &read["data"]["k"]), (&json!("ConfigMap"), &json!("v")));
        assert_eq!(object(b""), None);
    }

    #[test]
    fn managed_fields_are_left_out_of_objects_and_lists() {
        let list = json!({"items": [{"metadata": {"name": "a", "managedFields": []}}]});
        assert_eq!(shown(&list, true), json!({"items": [{"metadata": {"name": "a"}}]}));
        assert_eq!(shown(&list, false), list);
    }
}
