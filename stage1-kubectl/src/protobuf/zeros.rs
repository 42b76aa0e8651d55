//! Zero values: what Go writes although it is empty.
//!
//! A Go struct's field that is no pointer is there even when nobody set it, and Kubernetes' generated code writes it: a Pod without a
//! hostname is sent with an empty one. Readers can't tell the difference, recordings of requests can. So before an object is
//! written for the wire as client-go would, the missing fields are put into its JSON, and [`super::encode`] finds them there.
//!
//! # Invariants
//! 1. Only fields that the table marks with `!` are added, and none is changed.
//!
//! # In Kubernetes
//! The `MarshalToSizedBuffer` of every generated.pb.go. Left out: the marks of kinds that kubectl never sends in protobuf.

use serde_json::{Map, Value, json};

use super::table::{self, Kind, Message};

/// Puts empty values where Go would have them, here and in everything below.
pub fn fill(message: &Message, object: &mut Map<String, Value>) {
    for field in &message.fields {
        if let Kind::Inline(inner) = field.kind {
            fill(table::message(inner), object);
            continue;
        }
        let absent = object.get(field.name).is_none_or(Value::is_null);
        if absent {
            match empty(&field.kind).filter(|_| field.always) {
                Some(zero) => drop(object.insert(field.name.to_string(), zero)),
                None => continue,
            }
        }
        if let Some(value) = object.get_mut(field.name) {
            below(&field.kind, value);
        }
    }
}

fn below(kind: &Kind, value: &mut Value) {
    match (kind, value) {
        (Kind::Message(inner), Value::Object(fields)) => fill(table::message(*inner), fields),
        (Kind::List(item), Value::Array(items)) => items.iter_mut().for_each(|each| below(item, each)),
        (Kind::Map(item), Value::Object(entries)) => entries.values_mut().for_each(|each| below(item, each)),
        _ => {}
    }
}

/// The empty value of a kind; lists, maps and bytes have none that is written.
fn empty(kind: &Kind) -> Option<Value> {
    Some(match kind {
        Kind::String | Kind::Time | Kind::MicroTime => json!(""),
        Kind::Bool => json!(false),
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => json!(0),
        Kind::Quantity => json!("0"),
        Kind::Message(_) => json!({}),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use base64::Engine;
    use base64::prelude::BASE64_STANDARD;
    use serde_json::json;

    use crate::protobuf::encode_as_go;

    #[test]
    fn an_autoscaler_is_the_bytes_that_client_go_sends() {
        let autoscaler = json!({
            "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "web", "creationTimestamp": null},
            "spec": {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"},
                "minReplicas": 2, "maxReplicas": 5, "targetCPUUtilizationPercentage": 70},
        });
        let wanted = "azhzAAopCg5hdXRvc2NhbGluZy92MRIXSG9yaXpvbnRhbFBvZEF1dG9zY2FsZXISPwoTCgN3ZWISABoAIgAqADIAOABCABIiChoKCkRlcGxveW1lbnQSA3dlYhoHYXBwcy92MRACGAUgRhoEGAAgABoAIgA=";
        assert_eq!(BASE64_STANDARD.encode(encode_as_go(&autoscaler).unwrap()), wanted);
    }
}
