//! Custom kinds over HTTPS: from their definition to their end, and stock kubectl with them.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: runs kubectl")]

mod support {
    pub mod raw;
}

use std::path::PathBuf;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::raw::{Raw, cluster};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A kind with everything: two versions, defaults, rules, subresources, columns.
fn definition() -> Value {
    let schema = json!({ "type": "object", "required": ["spec"], "properties": {
        "spec": {
            "type": "object",
            "properties": {
                "replicas": { "type": "integer", "minimum": 0, "default": 1 },
                "max": { "type": "integer" },
                "color": { "type": "string", "enum": ["red", "blue"], "description": "What it looks like." },
                "fixed": { "type": "string", "x-kubernetes-validations": [{ "rule": "self == oldSelf", "message": "is immutable" }] },
                "parts": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": { "type": "object", "required": ["name"], "properties": {
                        "name": { "type": "string" }, "size": { "type": "integer" } } },
                },
            },
            "x-kubernetes-validations": [{
                "rule": "!has(self.max) || self.replicas <= self.max",
                "messageExpression": "'at most ' + string(self.max) + ' replicas'",
                "reason": "FieldValueForbidden", "fieldPath": ".replicas",
            }],
        },
        "status": { "type": "object", "properties": { "replicas": { "type": "integer" }, "selector": { "type": "string" } } },
    }});
    let subresources = json!({ "status": {}, "scale": {
        "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector" } });
    let columns = json!([
        { "name": "Color", "type": "string", "jsonPath": ".spec.color" },
        { "name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas", "priority": 1 },
    ]);
    let mut old = schema.clone();
    old["properties"]["spec"]["properties"].as_object_mut().unwrap().remove("parts");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": "widgets.example.com" },
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": { "plural": "widgets", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"] },
            "versions": [
                { "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": schema },
                  "subresources": subresources, "additionalPrinterColumns": columns,
                  "selectableFields": [{ "jsonPath": ".spec.color" }] },
                { "name": "v1beta1", "served": true, "storage": false, "schema": { "openAPIV3Schema": old },
                  "deprecated": true, "deprecationWarning": "use v1" },
            ],
        },
    })
}

fn widget(name: &str, spec: Value) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name }, "spec": spec })
}

async fn define(client: &mut Raw) {
    let created = client.json("POST", DEFINITIONS, &definition()).await;
    assert_eq!(created.code, 201, "{}", created.text());
    until(client, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com", |crd| {
        let conditions = crd["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True")
    })
    .await;
}

/// Asks until the answer is right; a second is what Kubernetes' users are promised.
async fn until(client: &mut Raw, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    let deadline = Instant::now() + Duration::from_secs(10);
    loop {
        let answer = client.get(path).await.json();
        if is_right(&answer) {
            return answer;
        }
        assert!(Instant::now() < deadline, "{path}: {answer}");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kind_is_discovered_and_its_objects_are_judged() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    define(&mut client).await;
    let group = client.get("/apis/example.com").await.json();
    assert_eq!(group["preferredVersion"]["version"], "v1", "{group}");
    let resources = client.get("/apis/example.com/v1").await.json();
    let names: Vec<&str> =
        resources["resources"].as_array().unwrap().iter().map(|r| r["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["widgets", "widgets/status", "widgets/scale"]);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
    let service = client.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com").await;
    assert_eq!(service.code, 200, "{}", service.text());
    let openapi = client.get("/openapi/v3/apis/example.com/v1").await.json();
    let published = &openapi["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(published["properties"]["spec"]["properties"]["color"]["description"], "What it looks like.");

    let spec = json!({ "color": "red", "odd": 1, "parts": [{ "name": "a", "size": 1 }] });
    let created = client.json("POST", WIDGETS, &widget("a", spec.clone())).await;
    assert_eq!(created.code, 201, "{}", created.text());
    assert_eq!(created.header("warning"), "299 - \"unknown field \\\"spec.odd\\\"\"");
    let object = created.json();
    assert_eq!(
        object["spec"],
        json!({ "color": "red", "replicas": 1, "parts": [{ "name": "a", "size": 1 }] })
    );
    assert_eq!(object["metadata"]["generation"], 1);
    let strict = client.json("POST", &format!("{WIDGETS}?fieldValidation=Strict"), &widget("b", spec)).await;
    assert_eq!(
        strict.json()["message"],
        "Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: unknown field \"spec.odd\""
    );
    let wrong = client.json("POST", WIDGETS, &widget("b", json!({ "color": "green", "replicas": -1 }))).await;
    assert_eq!(wrong.code, 422);
    let message = wrong.json()["message"].as_str().unwrap().to_owned();
    assert!(
        message.contains("spec.color: Unsupported value: \"green\": supported values: \"red\", \"blue\""),
        "{message}"
    );
    assert!(
        message.contains(
            "spec.replicas: Invalid value: -1: spec.replicas in body should be greater than or equal to 0"
        ),
        "{message}"
    );
    let ruled = client.json("POST", WIDGETS, &widget("b", json!({ "replicas": 5, "max": 3 }))).await;
    assert_eq!(
        ruled.json()["message"],
        "Widget.example.com \"b\" is invalid: spec.replicas: Forbidden: at most 3 replicas"
    );
    let none = client.json("POST", "/apis/example.com/v1/namespaces/default/gadgets", &json!({})).await;
    assert_eq!(none.code, 404);
    cluster.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn status_scale_versions_and_tables_work_as_for_built_in_kinds() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    define(&mut client).await;
    for (name, color) in [("a", "red"), ("b", "blue")] {
        let created =
            client.json("POST", WIDGETS, &widget(name, json!({ "color": color, "fixed": "x" }))).await;
        assert_eq!(created.code, 201, "{}", created.text());
    }
    let path = format!("{WIDGETS}/a");
    let merge = [("content-type", "application/merge-patch+json")];
    let status =
        json!({ "status": { "replicas": 7, "selector": "a=b" }, "spec": { "replicas": 9 } }).to_string();
    let patched = client.send("PATCH", &format!("{path}/status"), &merge, status).await.json();
    assert_eq!((&patched["status"]["replicas"], &patched["spec"]["replicas"]), (&json!(7), &json!(1)));
    assert_eq!(patched["metadata"]["generation"], 1);
    let scale = client.get(&format!("{path}/scale")).await.json();
    assert_eq!(scale["spec"]["replicas"], 1, "{scale}");
    assert_eq!(scale["status"], json!({ "replicas": 7, "selector": "a=b" }));
    let scaled = client
        .send("PATCH", &format!("{path}/scale"), &merge, json!({ "spec": { "replicas": 4 } }).to_string())
        .await;
    assert_eq!(scaled.json()["spec"]["replicas"], 4, "{}", scaled.text());
    let object = client.get(&path).await.json();
    assert_eq!((&object["spec"]["replicas"], &object["metadata"]["generation"]), (&json!(4), &json!(2)));
    let changed = client.send("PATCH", &path, &merge, json!({ "spec": { "fixed": "y" } }).to_string()).await;
    assert_eq!(
        changed.json()["message"],
        "Widget.example.com \"a\" is invalid: spec.fixed: Invalid value: \"string\": is immutable"
    );
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    assert_eq!(client.send("PATCH", &path, &strategic, "{}").await.code, 415);

    let other = client.get("/apis/example.com/v1beta1/namespaces/default/widgets/a").await;
    assert_eq!(other.json()["apiVersion"], "example.com/v1beta1");
    assert_eq!(other.header("warning"), "299 - \"use v1\"");
    let selected = client.get(&format!("{WIDGETS}?fieldSelector=spec.color%3Dblue")).await.json();
    assert_eq!(selected["items"].as_array().unwrap().len(), 1, "{selected}");
    let refused = client.get(&format!("{WIDGETS}?fieldSelector=spec.max%3D1")).await.json();
    assert_eq!(refused["message"], "field label not supported: spec.max");
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = client.send("GET", WIDGETS, &table, "").await.json();
    let heads: Vec<&str> =
        table["columnDefinitions"].as_array().unwrap().iter().map(|c| c["name"].as_str().unwrap()).collect();
    assert_eq!(heads, ["Name", "Color", "Replicas"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "red", 4]));

    let apply = [("content-type", "application/apply-patch+yaml")];
    let parts = |names: &[&str]| {
        let parts: Vec<Value> = names.iter().map(|name| json!({ "name": name })).collect();
        widget("a", json!({ "parts": parts })).to_string()
    };
    for (manager, names) in [("one", ["p"]), ("two", ["q"])] {
        let applied =
            client.send("PATCH", &format!("{path}?fieldManager={manager}"), &apply, parts(&names)).await;
        assert_eq!(applied.code, 200, "{}", applied.text());
    }
    let both = client.get(&path).await.json();
    assert_eq!(both["spec"]["parts"], json!([{ "name": "p" }, { "name": "q" }]));
    cluster.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_definition_takes_its_objects_with_it_and_waits_for_their_finalizers() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    define(&mut client).await;
    let mut held = widget("held", json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/hold"]);
    for object in [held, widget("free", json!({}))] {
        assert_eq!(client.json("POST", WIDGETS, &object).await.code, 201);
    }
    let path = format!("{DEFINITIONS}/widgets.example.com");
    let deleted = client.json("DELETE", &path, &json!({})).await;
    assert_eq!(
        deleted.json()["metadata"]["finalizers"],
        json!(["customresourcecleanup.apiextensions.k8s.io"])
    );
    until(&mut client, WIDGETS, |list| list["items"].as_array().is_some_and(|items| items.len() == 1)).await;
    let refused = client.json("POST", WIDGETS, &widget("late", json!({}))).await;
    assert_eq!(refused.code, 405, "{}", refused.text());
    let terminating = client.get(&path).await.json();
    let reasons: Vec<&Value> =
        terminating["status"]["conditions"].as_array().unwrap().iter().map(|c| &c["reason"]).collect();
    assert!(reasons.contains(&&json!("InstanceDeletionInProgress")), "{terminating}");
    let merge = [("content-type", "application/merge-patch+json")];
    let freed = json!({ "metadata": { "finalizers": null } }).to_string();
    assert_eq!(client.send("PATCH", &format!("{WIDGETS}/held"), &merge, freed).await.code, 200);
    until(&mut client, &path, |gone| gone["code"] == 404).await;
    assert_eq!(client.get("/apis/example.com").await.code, 404);
    assert_eq!(client.get(WIDGETS).await.code, 404);
    until(&mut client, "/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com", |gone| {
        gone["code"] == 404
    })
    .await;

    define(&mut client).await;
    assert_eq!(client.get(WIDGETS).await.json()["items"], json!([]));
    cluster.cluster.stop().await;
}

fn programs() -> Vec<PathBuf> {
    let named = std::env::var_os("STAGES_STOCK_KUBECTL").unwrap_or_default();
    // The newest one: what older ones do differently is in `kubectl.rs`.
    let newest = std::env::split_paths(&named).filter(|program| program.is_file()).last();
    let found: Vec<PathBuf> = newest.into_iter().collect();
    if found.is_empty() {
        println!("skipped: no stock kubectl");
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn stock_kubectl_defines_a_kind_and_works_with_it() {
    for program in programs() {
        let cluster = cluster().await;
        let kubeconfig = cluster.cluster.kubeconfig("admin").unwrap();
        let directory = tempfile::tempdir().unwrap();
        let run = |args: &[&str], input: &str| {
            let file = directory.path().join("input.yaml");
            std::fs::write(&file, input).unwrap();
            let mut command = std::process::Command::new(&program);
            command.arg("--kubeconfig").arg(&kubeconfig).arg("--cache-dir").arg(directory.path()).args(args);
            if !input.is_empty() {
                command.arg("-f").arg(&file);
            }
            let output = command.output().unwrap();
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
        };
        let applied = run(&["apply"], &definition().to_string());
        assert!(
            applied.contains("customresourcedefinition.apiextensions.k8s.io/widgets.example.com created"),
            "{applied}"
        );
        let waited =
            run(&["wait", "--for=condition=Established", "crd/widgets.example.com", "--timeout=10s"], "");
        assert!(waited.contains("condition met"), "{waited}");
        let object = widget("a", json!({ "color": "red" })).to_string();
        assert!(run(&["apply"], &object).contains("widget.example.com/a created"));
        assert!(run(&["apply"], &object).contains("widget.example.com/a unchanged"));
        let listed = run(&["get", "wd"], "");
        assert!(listed.contains("NAME   COLOR") && listed.contains("a      red"), "{listed}");
        let all = run(&["get", "all"], "");
        assert!(all.contains("widget.example.com/a"), "{all}");
        let explained = run(&["explain", "widget.spec"], "");
        assert!(explained.contains("What it looks like."), "{explained}");
        let scaled = run(&["scale", "widget/a", "--replicas=3"], "");
        assert!(scaled.contains("scaled"), "{scaled}");
        let wrong = run(&["apply"], &widget("b", json!({ "color": "green" })).to_string());
        assert!(wrong.contains("spec.color: Unsupported value: \"green\""), "{wrong}");
        assert!(run(&["get", "crd"], "").contains("widgets.example.com"));
        assert!(run(&["delete", "crd", "widgets.example.com"], "").contains("deleted"));
        assert!(run(&["get", "crd"], "").contains("No resources found"));
        cluster.cluster.stop().await;
    }
}
