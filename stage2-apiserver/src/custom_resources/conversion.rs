//! Conversion by webhook: a program outside turns objects of one version into another.
//!
//! *Steps 1 and 6 of a custom object's journey.* Before: a client speaks `v2`, and the object is stored as `v1`. After: each has what it
//! asked for.
//!
//! The program is asked about many objects at once, by a ConversionReview, and what it answers is checked: as many objects as were sent,
//! in the version that was asked for, under the same names. It may change labels and annotations and everything outside of metadata; the
//! rest of the metadata is put back.
//!
//! Serving an object is a function that doesn't wait ([`crate::handlers::convert`]), and asking a program is waiting. So whoever is about to
//! serve objects *prepares* them first: what the program made of an object is kept for a while under what the object was, byte by byte,
//! and the function finds it there. A thousand watchers of one object cost one question.
//!
//! # Invariants
//! 1. An object's name, namespace, uid and everything else that the server owns are never the program's.
//! 2. What was made of an object is found only for exactly this object.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`. Left out: ConversionReview
//! `v1beta1`; selectors and managed fields of other versions, which see an object as if by strategy `None`.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;

use crate::admission::webhook::Webhook;

/// Objects whose conversions are kept, at least.
const MAX_KNOWN: usize = 2048;

/// What an object was, and the version that was asked for.
type Key = ([u8; 32], String);

/// The program of a definition, and what it made of objects.
pub struct Conversion {
    /// Where it is.
    pub webhook: Webhook,
    /// Held while somebody asks: who comes meanwhile finds the answer.
    pub asking: tokio::sync::Mutex<()>,
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    made: HashMap<Key, Arc<Object>>,
    order: VecDeque<Key>,
}

fn key(object: &Object, desired: &str) -> Key {
    (Sha256::digest(object.as_value().to_string()).into(), desired.to_owned())
}

impl Conversion {
    /// By a definition's `spec.conversion`; `None` for strategy `None`.
    pub fn of(definition: &Object) -> Option<Arc<Conversion>> {
        let said = definition.get("/spec/conversion")?;
        let config = said.pointer("/webhook/clientConfig").filter(|_| said["strategy"] == "Webhook")?;
        let webhook = Webhook::of_client_config(definition.name(), config);
        Some(Arc::new(Conversion { webhook, asking: Default::default(), known: Mutex::default() }))
    }

    /// What was made of an object, if somebody prepared it.
    pub fn find(&self, object: &Object, desired: &str) -> Option<Arc<Object>> {
        self.known.lock().made.get(&key(object, desired)).cloned()
    }

    /// Keeps what was made; what was kept first goes first.
    pub fn keep(&self, sent: &[&Object], desired: &str, made: Vec<Object>) {
        let mut known = self.known.lock();
        let most = MAX_KNOWN.max(2 * made.len());
        for (object, made) in sent.iter().zip(made) {
            let key = key(object, desired);
            if known.made.insert(key.clone(), Arc::new(made)).is_none() {
                known.order.push_back(key);
            }
        }
        while known.order.len() > most {
            let Some(oldest) = known.order.pop_front() else { break };
            known.made.remove(&oldest);
        }
    }
}

/// The question.
pub fn review(uid: &str, desired: &str, objects: &[&Object]) -> Value {
    let objects: Vec<&Value> = objects.iter().map(|object| object.as_value()).collect();
    json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": { "uid": uid, "desiredAPIVersion": desired, "objects": objects },
    })
}

/// Why objects couldn't be converted, when the program wasn't even asked.
pub fn not_asked(first: &Object, why: &str) -> String {
    let why = why.strip_prefix("failed to call webhook: ").unwrap_or(why);
    format!("conversion webhook for {} failed: {why}", shown(&first.gvk()))
}

/// `example.com/v1, Kind=Widget`.
fn shown(gvk: &GroupVersionKind) -> String {
    format!("{}, Kind={}", gvk.api_version(), gvk.kind)
}

/// The answer's objects, with the metadata that isn't the program's to change.
///
/// # Errors
/// What is wrong with the answer.
pub fn converted(uid: &str, desired: &str, sent: &[&Object], answer: &Value) -> Result<Vec<Object>, String> {
    let Some(first) = sent.first() else { return Ok(Vec::new()) };
    let whose = format!("conversion webhook for {}", shown(&first.gvk()));
    let response = &answer["response"];
    let failed = |why: String| format!("{whose} failed: {why}");
    if answer["kind"] != "ConversionReview" || answer["apiVersion"] != "apiextensions.k8s.io/v1" {
        return Err(failed(
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview".into(),
        ));
    }
    if response["uid"] != uid {
        let found = response["uid"].as_str().unwrap_or("");
        return Err(failed(format!("expected response.uid={uid:?}, got {found:?}")));
    }
    let result = &response["result"];
    if result["status"] != "Success" {
        let status = result["status"].as_str().unwrap_or("");
        return Err(failed(match result["message"].as_str().filter(|message| !message.is_empty()) {
            Some(message) => message.to_owned(),
            None => format!("response.result.status was '{status}', not 'Success'"),
        }));
    }
    let objects = response["convertedObjects"].as_array().cloned().unwrap_or_default();
    if objects.len() != sent.len() {
        return Err(format!("{whose} returned {} objects, expected {}", objects.len(), sent.len()));
    }
    let judged = sent.iter().zip(objects).enumerate().map(|(at, (before, after))| {
        one(desired, before, after)
            .map_err(|why| format!("{whose} returned invalid converted object at index {at}: {why}"))
    });
    judged.collect()
}

fn one(desired: &str, before: &Object, after: Value) -> Result<Object, String> {
    let mut after = Object::from_value(after).map_err(|error| error.to_string())?;
    if after.api_version() != desired {
        let found = after.api_version();
        return Err(format!("invalid groupVersion (expected {desired}, received {found})"));
    }
    if after.kind() != before.kind() {
        return Err(format!("invalid kind (expected {}, received {})", before.kind(), after.kind()));
    }
    for (what, ours, theirs) in [
        ("name", before.name(), after.name()),
        ("namespace", before.namespace().unwrap_or(""), after.namespace().unwrap_or("")),
        ("UID", before.uid(), after.uid()),
    ] {
        if ours != theirs {
            return Err(format!("must have the same {what}: {theirs} != {ours}"));
        }
    }
    let mut metadata = before.get("/metadata").cloned().unwrap_or_default();
    for changeable in ["labels", "annotations"] {
        let said = after.get(&format!("/metadata/{changeable}")).cloned();
        if let Some(fields) = metadata.as_object_mut() {
            fields.remove(changeable);
            said.and_then(|said| fields.insert(changeable.to_owned(), said));
        }
    }
    after.set("/metadata", metadata);
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widget(version: &str, spec: Value) -> Value {
        json!({ "apiVersion": format!("example.com/{version}"), "kind": "Widget",
                "metadata": { "name": "a", "uid": "1", "finalizers": ["x"], "labels": { "l": "1" } }, "spec": spec })
    }

    fn answer(objects: Value) -> Value {
        json!({ "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
                "response": { "uid": "u", "result": { "status": "Success" }, "convertedObjects": objects } })
    }

    #[test]
    fn a_program_changes_what_it_may() {
        let before = Object::from_value(widget("v1", json!({ "n": 1 }))).unwrap();
        let mut after = widget("v2", json!({ "number": 1 }));
        after["metadata"]["labels"] = json!({ "l": "2" });
        after["metadata"]["finalizers"] = json!([]);
        let made = converted("u", "example.com/v2", &[&before], &answer(json!([after]))).unwrap();
        assert_eq!(made[0].get("/spec/number"), Some(&json!(1)));
        assert_eq!(made[0].label("l"), Some("2"));
        assert_eq!(made[0].finalizers(), ["x"]);
    }

    #[test]
    fn a_wrong_answer_is_told_apart() {
        let before = Object::from_value(widget("v1", json!({}))).unwrap();
        let told = |answer: Value| converted("u", "example.com/v2", &[&before], &answer).unwrap_err();
        let whose = "conversion webhook for example.com/v1, Kind=Widget";
        assert_eq!(told(answer(json!([]))), format!("{whose} returned 0 objects, expected 1"));
        assert_eq!(
            told(answer(json!([widget("v1", json!({}))]))),
            format!(
                "{whose} returned invalid converted object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)"
            )
        );
        let mut refused = answer(json!([]));
        refused["response"]["result"] = json!({ "status": "Failed", "message": "no" });
        assert_eq!(told(refused), format!("{whose} failed: no"));
    }
}
