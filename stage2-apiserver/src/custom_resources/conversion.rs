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
//! serve objects *prepares* them first ([`crate::handlers::prepare`]), and the function finds there what was made of them. What was made is also
//! kept for a while ([`known`]), under what the object was, byte by byte: a thousand watchers of one object cost one question.
//!
//! # Invariants
//! 1. An object's name, namespace, uid and everything else that the server owns are never the program's.
//! 2. What a definition's program made is forgotten when the definition's spec changes.
//!
//! # In Kubernetes
//! `apiextensions-apiserver/pkg/apiserver/conversion/webhook_converter.go`. Left out: ConversionReview
//! `v1beta1`; selectors and managed fields of other versions, which see an object as if by strategy `None`.

pub mod known; // what it made, and what it is being asked

use std::sync::Arc;

use serde_json::{Value, json};
use stage1_kubectl::object::Object;
use stage1_kubectl::resource::GroupVersionKind;

use crate::admission::webhook::Webhook;

use known::Known;

/// The program of a definition, and what it made of objects.
pub struct Conversion {
    /// Where it is.
    pub webhook: Webhook,
    /// What it made.
    pub known: Arc<Known>,
    /// The definition, by its uid and generation.
    of: (String, i64),
}

impl Conversion {
    /// By a definition's `spec.conversion`; `None` for strategy `None`. What is known is taken over from `before` if the definition's spec
    /// is still the same.
    pub fn new(definition: &Object, before: Option<&Arc<Conversion>>) -> Option<Arc<Conversion>> {
        let said = definition.get("/spec/conversion")?;
        let config = said.pointer("/webhook/clientConfig").filter(|_| said["strategy"] == "Webhook")?;
        let of = (definition.uid().to_owned(), definition.get_i64("/metadata/generation").unwrap_or(0));
        if let Some(before) = before.filter(|before| before.of == of) {
            return Some(before.clone());
        }
        let webhook = Webhook::of_client_config(definition.name(), config);
        Some(Arc::new(Conversion { webhook, known: Arc::default(), of }))
    }
}

/// The question.
pub fn review(uid: &str, desired: &str, objects: &[Object]) -> Value {
    let objects: Vec<&Value> = objects.iter().map(Object::as_value).collect();
    json!({
        "kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1",
        "request": { "uid": uid, "desiredAPIVersion": desired, "objects": objects },
    })
}

/// Why objects couldn't be converted, when the program wasn't even asked.
pub fn not_asked(sent: &[Object], why: &str) -> String {
    let why = why.strip_prefix("failed to call webhook: ").unwrap_or(why);
    let whose = sent.first().map_or_else(String::new, |first| shown(&first.gvk()));
    format!("conversion webhook for {whose} failed: {why}")
}

/// `example.com/v1, Kind=Widget`.
fn shown(gvk: &GroupVersionKind) -> String {
    format!("{}, Kind={}", gvk.api_version(), gvk.kind)
}

/// The answer's objects, with the metadata that isn't the program's to change.
///
/// # Errors
/// What is wrong with the answer.
pub fn converted(
    uid: &str,
    desired: &str,
    sent: &[Object],
    mut answer: Value,
) -> Result<Vec<Object>, String> {
    let Some(first) = sent.first() else { return Ok(Vec::new()) };
    let whose = format!("conversion webhook for {}", shown(&first.gvk()));
    let failed = |why: String| format!("{whose} failed: {why}");
    if answer["kind"] != "ConversionReview" || answer["apiVersion"] != "apiextensions.k8s.io/v1" {
        return Err(failed(
            "expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview".into(),
        ));
    }
    let response = &mut answer["response"];
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
    let objects = match response["convertedObjects"].take() {
        Value::Array(objects) => objects,
        _ => Vec::new(),
    };
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
    fn a_definition_with_the_same_spec_keeps_what_is_known() {
        let definition = |generation: i64, strategy: &str| {
            let conversion =
                json!({ "strategy": strategy, "webhook": { "clientConfig": { "url": "https://a/" } } });
            let metadata = json!({ "name": "widgets.example.com", "uid": "1", "generation": generation });
            Object::from_value(json!({ "metadata": metadata, "spec": { "conversion": conversion } })).unwrap()
        };
        let first = Conversion::new(&definition(1, "Webhook"), None).unwrap();
        let same = Conversion::new(&definition(1, "Webhook"), Some(&first)).unwrap();
        let other = Conversion::new(&definition(2, "Webhook"), Some(&first)).unwrap();
        assert!(Arc::ptr_eq(&first.known, &same.known));
        assert!(!Arc::ptr_eq(&first.known, &other.known));
        assert!(Conversion::new(&definition(1, "None"), Some(&first)).is_none());
    }

    #[test]
    fn a_program_changes_what_it_may() {
        let before = Object::from_value(widget("v1", json!({ "n": 1 }))).unwrap();
        let mut after = widget("v2", json!({ "number": 1 }));
        after["metadata"]["labels"] = json!({ "l": "2" });
        after["metadata"]["finalizers"] = json!([]);
        let made =
            converted("u", "example.com/v2", std::slice::from_ref(&before), answer(json!([after]))).unwrap();
        assert_eq!(made[0].get("/spec/number"), Some(&json!(1)));
        assert_eq!(made[0].label("l"), Some("2"));
        assert_eq!(made[0].finalizers(), ["x"]);
    }

    #[test]
    fn a_wrong_answer_is_told_apart() {
        let before = Object::from_value(widget("v1", json!({}))).unwrap();
        let told = |answer: Value| {
            converted("u", "example.com/v2", std::slice::from_ref(&before), answer).unwrap_err()
        };
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
