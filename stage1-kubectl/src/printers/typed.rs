//! JSON in the order of Go's structs: what kubectl prints of objects that it made itself.
//!
//! An object that was only read is a map to kubectl and is printed with sorted names. One that it made (`create deployment`, `run`,
//! `set image`) is a Go struct, whose fields come in the order in which they were declared. That is nearly the order of the protobuf
//! numbers, which were given out once in that order; where a later field was put in between, [`DECLARED`] says so.
//!
//! # Invariants
//! 1. The same names and values come out, in another order.
//!
//! # In Kubernetes
//! `encoding/json` on the structs of `k8s.io/api`. Left out: kinds that kubectl doesn't make have the order of their numbers.

use serde::ser::{Serialize, SerializeMap, SerializeSeq, Serializer};
use serde_json::{Map, Value};

use super::go_json::GoFormatter;
use crate::protobuf::table::{self, Kind, Message};

/// Messages whose fields are not declared in the order of their numbers, by the beginning of the declaration.
const DECLARED: &[(&str, &[&str])] = &[
    ("io.k8s.api.core.v1.ConfigMap", &["metadata", "immutable", "data", "binaryData"]),
    ("io.k8s.api.core.v1.Secret", &["metadata", "immutable", "data", "stringData", "type"]),
    ("io.k8s.api.networking.v1.IngressSpec", &["ingressClassName", "defaultBackend", "tls", "rules"]),
    ("io.k8s.api.networking.v1.HTTPIngressPath", &["path", "pathType", "backend"]),
    ("io.k8s.api.core.v1.ServiceSpec", &["ports", "selector", "clusterIP", "clusterIPs", "type"]),
    ("io.k8s.api.core.v1.ServicePort", &["name", "protocol", "appProtocol", "port"]),
    (
        "io.k8s.api.core.v1.Container",
        &[
            "name",
            "image",
            "command",
            "args",
            "workingDir",
            "ports",
            "envFrom",
            "env",
            "resources",
            "resizePolicy",
            "restartPolicy",
            "volumeMounts",
            "volumeDevices",
            "livenessProbe",
            "readinessProbe",
            "startupProbe",
        ],
    ),
    ("io.k8s.api.core.v1.PodSpec", &["volumes", "initContainers", "containers", "ephemeralContainers"]),
    (
        "io.k8s.api.batch.v1.JobSpec",
        &[
            "parallelism",
            "completions",
            "activeDeadlineSeconds",
            "podFailurePolicy",
            "successPolicy",
            "backoffLimit",
            "backoffLimitPerIndex",
            "maxFailedIndexes",
            "selector",
        ],
    ),
    ("io.k8s.api.batch.v1.CronJobSpec", &["schedule", "timeZone"]),
];

/// A value and the message that orders it.
struct Ordered<'a> {
    value: &'a Value,
    kind: Option<&'a Kind>,
    message: Option<&'static Message>,
}

/// The order of a message's fields in JSON, inline ones in their place.
fn names(message: &'static Message) -> Vec<(&'static str, &'static Kind)> {
    let mut all = Vec::new();
    for field in &message.fields {
        match field.kind {
            Kind::Inline(inner) => all.extend(names(table::message(inner))),
            _ => all.push((field.name, &field.kind)),
        }
    }
    if let Some((_, first)) = DECLARED.iter().find(|(name, _)| *name == message.name) {
        let place = |name: &str| first.iter().position(|one| *one == name).unwrap_or(first.len());
        all.sort_by_key(|(name, _)| place(name));
    }
    all
}

fn map<S: Serializer>(
    fields: &Map<String, Value>,
    message: &'static Message,
    serializer: S,
) -> Result<S::Ok, S::Error> {
    let known = names(message);
    let mut out = serializer.serialize_map(Some(fields.len()))?;
    // An object begins with its kind, which no message has.
    for name in ["kind", "apiVersion"] {
        if let (Some(value), false) = (fields.get(name), known.iter().any(|(known, _)| *known == name)) {
            out.serialize_entry(name, value)?;
        }
    }
    for (name, kind) in &known {
        if let Some(value) = fields.get(*name) {
            out.serialize_entry(name, &Ordered { value, kind: Some(kind), message: None })?;
        }
    }
    for (name, value) in fields {
        if !known.iter().any(|(known, _)| known == name) && !matches!(name.as_str(), "kind" | "apiVersion") {
            out.serialize_entry(name, value)?;
        }
    }
    out.end()
}

impl Serialize for Ordered<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = match self.kind {
            Some(Kind::Message(inner)) => Some(table::message(*inner)),
            _ => self.message,
        };
        match (self.value, self.kind) {
            (Value::Object(fields), _) if message.is_some() => {
                map(fields, message.expect("just asked"), serializer)
            }
            (Value::Array(items), Some(Kind::List(item))) => {
                let mut out = serializer.serialize_seq(Some(items.len()))?;
                for value in items {
                    out.serialize_element(&Ordered { value, kind: Some(item), message: None })?;
                }
                out.end()
            }
            (value, _) => value.serialize(serializer),
        }
    }
}

fn ordered(value: &Value) -> Ordered<'_> {
    let word = |name: &str| value[name].as_str().unwrap_or_default();
    let message = table::message_of(word("apiVersion"), word("kind"));
    Ordered { value, kind: None, message }
}

/// JSON indented by four, in the order of Go's struct.
pub(super) fn to_json(value: &Value) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, GoFormatter::new());
    ordered(value).serialize(&mut serializer).expect("a JSON value serializes");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// The same in one line, as it is kept in the annotation of an object that kubectl made.
pub fn to_line(value: &Value) -> String {
    let text = serde_json::to_string(&ordered(value)).expect("a JSON value serializes");
    // Go's encoder escapes what could end a script in a web page.
    text.replace('&', "\\u0026").replace('<', "\\u003c").replace('>', "\\u003e") + "\n"
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_struct_begins_with_its_kind_and_keeps_the_declared_order() {
        let ingress = json!({
            "apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "metadata": {"name": "i", "creationTimestamp": null, "labels": {"b": "1", "a": "2"}},
            "spec": {"rules": [{"http": {"paths": [{"backend": {}, "path": "/", "pathType": "Exact"}]}, "host": "h"}], "defaultBackend": {}},
        });
        let wanted = r#"{"kind":"Ingress","apiVersion":"networking.k8s.io/v1","metadata":{"name":"i","creationTimestamp":null,"labels":{"a":"2","b":"1"}},"spec":{"defaultBackend":{},"rules":[{"host":"h","http":{"paths":[{"path":"/","pathType":"Exact","backend":{}}]}}]}}"#;
        assert_eq!(to_line(&ingress), format!("{wanted}\n"));
    }
}
