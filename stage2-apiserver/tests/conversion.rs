//! A program that converts between the versions of a custom kind, against a running API server.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod support {
    pub mod raw;
    pub mod webhook;
}

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::raw::{Raw, cluster};
use support::webhook::{Behaviour, Webhook, start};

/// `v1` has `size: 7`, `v2` has `length: "7 cm"`.
fn convert(object: &Value, desired: &str) -> Value {
    let mut object = object.clone();
    object["apiVersion"] = json!(desired);
    let spec = object["spec"].clone();
    object["spec"] = match (spec["size"].as_i64(), spec["length"].as_str()) {
        (Some(size), _) => json!({ "length": format!("{size} cm") }),
        (_, Some(length)) => json!({ "size": length.trim_end_matches(" cm").parse::<i64>().unwrap() }),
        _ => json!({}),
    };
    // It may not do this, and it is undone.
    object["metadata"]["finalizers"] = json!(["example.com/mine"]);
    object
}

fn behaviour(is_broken: Arc<AtomicBool>) -> Behaviour {
    Arc::new(move |_, request| {
        if is_broken.load(Ordering::SeqCst) {
            return (500, String::new());
        }
        let desired = request["desiredAPIVersion"].as_str().unwrap();
        let objects: Vec<Value> =
            request["objects"].as_array().unwrap().iter().map(|object| convert(object, desired)).collect();
        let response =
            json!({ "uid": request["uid"], "result": { "status": "Success" }, "convertedObjects": objects });
        let review = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response });
        (200, review.to_string())
    })
}

async fn define(client: &mut Raw, program: &Webhook) {
    let version = |name: &str, storage: bool, field: &str, kind: &str| {
        let spec = json!({ "type": "object", "properties": { field: { "type": kind } } });
        let schema = json!({ "type": "object", "properties": { "spec": spec } });
        json!({ "name": name, "served": true, "storage": storage, "schema": { "openAPIV3Schema": schema } })
    };
    let config = json!({ "url": format!("https://127.0.0.1:{}/convert", program.port), "caBundle": program.ca_bundle });
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "singular": "widget", "kind": "Widget" },
            "versions": [version("v1", true, "size", "integer"), version("v2", false, "length", "string")],
            "conversion": { "strategy": "Webhook", "webhook": { "conversionReviewVersions": ["v1"], "clientConfig": config } },
        },
    });
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = client.json("POST", path, &definition).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let deadline = Instant::now() + Duration::from_secs(10);
    while client.get(&widgets("v2")).await.code != 200 {
        assert!(Instant::now() < deadline, "the kind isn't served");
    }
}

fn widgets(version: &str) -> String {
    format!("/apis/example.com/{version}/namespaces/default/widgets")
}

fn widget(version: &str, name: &str, spec: Value) -> Value {
    json!({ "apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_converts_what_is_written_read_listed_and_watched() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let is_broken = Arc::new(AtomicBool::new(false));
    let program = start(&["127.0.0.1"], behaviour(is_broken.clone())).await;
    define(&mut client, &program).await;

    let made = client.json("POST", &widgets("v2"), &widget("v2", "a", json!({ "length": "7 cm" }))).await;
    assert_eq!((made.code, &made.json()["spec"]), (201, &json!({ "length": "7 cm" })), "{}", made.text());
    assert_eq!(made.json()["metadata"]["finalizers"], Value::Null);
    let stored = client.get(&format!("{}/a", widgets("v1"))).await.json();
    assert_eq!((&stored["apiVersion"], &stored["spec"]), (&json!("example.com/v1"), &json!({ "size": 7 })));

    assert_eq!(client.json("POST", &widgets("v1"), &widget("v1", "b", json!({ "size": 8 }))).await.code, 201);
    let specs = |list: Value| -> Vec<Value> {
        list["items"].as_array().unwrap().iter().map(|item| item["spec"].clone()).collect()
    };
    let listed = specs(client.get(&widgets("v2")).await.json());
    assert_eq!(listed, [json!({ "length": "7 cm" }), json!({ "length": "8 cm" })]);
    let questions = program.seen.lock().len();
    assert_eq!(specs(client.get(&widgets("v2")).await.json()), listed);
    assert_eq!(program.seen.lock().len(), questions, "what is known isn't asked again");
    assert_eq!(specs(client.get(&widgets("v1")).await.json()), [json!({ "size": 7 }), json!({ "size": 8 })]);

    let merge = [("content-type", "application/merge-patch+json")];
    let patched =
        client.send("PATCH", &format!("{}/a", widgets("v2")), &merge, r#"{"spec":{"length":"9 cm"}}"#).await;
    assert_eq!(
        (patched.code, &patched.json()["spec"]["length"]),
        (200, &json!("9 cm")),
        "{}",
        patched.text()
    );
    assert_eq!(client.get(&format!("{}/a", widgets("v1"))).await.json()["spec"]["size"], 9);

    let query = format!("{}?watch=true&resourceVersion=0", widgets("v2"));
    let events = client.events(&query, 2).await;
    let lengths: Vec<&Value> = events.iter().map(|event| &event["object"]["spec"]["length"]).collect();
    assert_eq!(lengths, [&json!("9 cm"), &json!("8 cm")]);

    is_broken.store(true, Ordering::SeqCst);
    assert_eq!(client.json("POST", &widgets("v1"), &widget("v1", "c", json!({ "size": 1 }))).await.code, 201);
    let refused = client.get(&format!("{}/c", widgets("v2"))).await;
    let message = refused.json()["message"].as_str().unwrap_or("").to_owned();
    assert_eq!(refused.code, 500);
    assert!(message.starts_with("conversion webhook for example.com/v1, Kind=Widget failed: "), "{message}");
    let unwritten =
        client.json("POST", &widgets("v2"), &widget("v2", "d", json!({ "length": "2 cm" }))).await;
    assert_eq!(unwritten.code, 500, "{}", unwritten.text());
    assert_eq!(client.get(&format!("{}/d", widgets("v1"))).await.code, 404);
    let query = format!("{}?watch=true&resourceVersion=0", widgets("v2"));
    let events = client.events(&query, 3).await;
    let last = &events[2];
    assert_eq!((&last["type"], &last["object"]["code"]), (&json!("ERROR"), &json!(500)));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_list_is_converted_in_several_questions() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let program = start(&["127.0.0.1"], behaviour(Arc::default())).await;
    define(&mut client, &program).await;
    for at in 0..300 {
        let made = widget("v1", &format!("w{at:03}"), json!({ "size": at }));
        assert_eq!(client.json("POST", &widgets("v1"), &made).await.code, 201);
    }
    program.seen.lock().clear();
    let list = client.get(&widgets("v2")).await.json();
    let lengths: Vec<&Value> =
        list["items"].as_array().unwrap().iter().map(|item| &item["spec"]["length"]).collect();
    let expected: Vec<Value> = (0..300).map(|at| json!(format!("{at} cm"))).collect();
    assert_eq!(lengths, expected.iter().collect::<Vec<_>>());
    let asked: Vec<usize> = program
        .seen
        .lock()
        .iter()
        .map(|(_, review)| review["request"]["objects"].as_array().unwrap().len())
        .collect();
    assert_eq!(asked, [256, 44]);
}
