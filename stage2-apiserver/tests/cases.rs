//! Recorded answers of a stock control plane, asked again of this one.
//!
//! The records are in `../shared/cases/server` (or `STAGES_CASES_DIR`); without them the test is skipped. Each group
//! prints how many answers agree and which don't, and may not fall under its floor. What a group can't have yet is
//! counted apart.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: reads recorded cases")]

mod support {
    pub mod compare;
    pub mod raw;
    pub mod replay;
    pub mod webhook;
}

use serde_json::{Value, json};
use support::compare::difference;
use support::raw::{Answer, Raw};
use support::replay::{BY_CONTROLLERS, Tally, ask, cases_dir, judge, namespace, records, start};

#[tokio::test(flavor = "multi_thread")]
async fn discovery_is_as_recorded() {
    let Some(directory) = cases_dir("discovery") else { return };
    let (_cluster, mut client) = start().await;
    let mut tally = Tally::default();
    for (name, record) in records(&directory) {
        // Aggregated rules and what the controller manager makes are not this server's.
        let others = name.contains("clusterroles") || name.contains("with-kcm");
        if record.get("request").is_none() || others {
            tally.not_yet += 1;
            continue;
        }
        let mut answer = ask(&mut client, &record["request"]).await;
        newer_than_recorded(&mut answer);
        tally.add(&name, judge(&record["response"], &answer));
    }
    tally.finish("discovery", 33);
}

/// The records are of 1.32; what 1.33 added is taken out of the answer before it is compared.
fn newer_than_recorded(answer: &mut Answer) {
    let added = ["ipaddresses", "servicecidrs", "servicecidrs/status", "pods/resize", "resize"];
    let mut value = answer.json();
    fn prune(value: &mut Value, added: &[&str]) {
        match value {
            Value::Object(map) => map.values_mut().for_each(|v| prune(v, added)),
            Value::Array(items) => {
                items.retain(|item| {
                    let name = ["name", "resource", "subresource"]
                        .iter()
                        .find_map(|k| item.get(k).and_then(Value::as_str));
                    !name.is_some_and(|n| added.contains(&n))
                });
                items.iter_mut().for_each(|v| prune(v, added));
            }
            _ => {}
        }
    }
    if value.is_object() {
        prune(&mut value, &added);
        answer.body = value.to_string().into();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_are_as_recorded() {
    let Some(directory) = cases_dir("errors") else { return };
    let (_cluster, mut client) = start().await;
    for name in ["err", "errq", "errl", "errw", "errterm"] {
        namespace(&mut client, name, json!({})).await;
    }
    for (name, label, value) in [("psb", "enforce", "baseline"), ("psr", "enforce", "restricted")] {
        namespace(&mut client, name, json!({ format!("pod-security.kubernetes.io/{label}"): value })).await;
    }
    let warn = json!({ "pod-security.kubernetes.io/warn": "restricted", "pod-security.kubernetes.io/audit": "restricted" });
    namespace(&mut client, "psw", warn).await;
    client.json("DELETE", "/api/v1/namespaces/errterm", &json!({})).await;
    let x = json!({ "metadata": { "name": "x" }, "data": { "a": "1" } });
    client.json("POST", "/api/v1/namespaces/err/configmaps", &x).await;
    let mut tally = Tally::default();
    // One record is the review that a webhook was sent for a request of the others.
    let allow = json!({ "note": "webhook answers: allow", "setup": webhook_setup(), "request": webhook_request(), "response": { "code": 201 } });
    let (_, review) = with_webhook(&mut client, &allow).await;
    let mut reviewed = review.expect("a webhook was asked");
    // The administrator of the records has another name.
    reviewed["request"]["userInfo"]["username"] = json!("admin");
    for (name, record) in records(&directory) {
        if name.contains("webhook") {
            match name.contains("admissionreview-body") {
                true => tally.add(&name, difference(&record["body"], &reviewed)),
                false => tally.add(&name, with_webhook(&mut client, &record).await.0),
            }
            continue;
        }
        if name.contains("vap-") {
            tally.add(&name, with_policies(&mut client, &record).await);
            continue;
        }
        for step in record.get("setup").and_then(Value::as_array).into_iter().flatten() {
            let (method, path) =
                (step["method"].as_str().unwrap_or("POST"), step["path"].as_str().unwrap_or(""));
            if !path.is_empty() {
                let made = client.json(method, path, &step["body"]).await.json();
                count_quota(&mut client, path, made).await;
            }
        }
        if name.contains("quota-second-pod") {
            // The first pod was made by the record before.
            let mut first = record["request"].clone();
            first["body"]["metadata"]["name"] = json!("a");
            assert_eq!(ask(&mut client, &first).await.code, 201);
        }
        if ["compact", "113-delete", "115-delete", "151-ephemeral"].iter().any(|w| name.contains(w)) {
            tally.not_yet += 1;
            continue;
        }
        let answer = ask(&mut client, &record["request"]).await;
        tally.add(&name, judge(&record["response"], &answer));
    }
    tally.finish("errors", 130);
}

/// A configuration as the recorded ones are.
fn webhook_setup() -> Value {
    let rules = json!([{ "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"] }]);
    let chosen = json!({ "matchLabels": { "kubernetes.io/metadata.name": "errw" } });
    json!([{ "body": {
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": { "name": "w1" },
        "webhooks": [{ "name": "w1.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
            "clientConfig": { "url": "https://127.0.0.1:PORT/x", "caBundle": "<ca>" }, "namespaceSelector": chosen, "rules": rules }],
    } }])
}

fn webhook_request() -> Value {
    let body = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "wq" }, "data": { "a": "1" } });
    json!({ "method": "POST", "path": "/api/v1/namespaces/errw/configmaps?dryRun=All", "contentType": "application/json", "body": body })
}

/// Replays a record with a webhook that behaves as its note says; the first review that it was sent.
async fn with_webhook(client: &mut Raw, record: &Value) -> (Option<String>, Option<Value>) {
    let note = record["note"].as_str().unwrap_or("");
    let mode = note.strip_prefix("webhook answers: ");
    let hook =
        support::webhook::start(&["127.0.0.1"], support::webhook::recorded(mode.unwrap_or("allow"))).await;
    let port = if mode.is_some() { hook.port } else { 1 };
    let setup = record["setup"].to_string().replace(":PORT/", &format!(":{port}/"));
    let setup: Value = serde_json::from_str(&setup.replace("<ca>", &hook.ca_bundle)).expect("JSON");
    let mut made = Vec::new();
    for step in setup.as_array().into_iter().flatten() {
        let kind = step["body"]["kind"].as_str().expect("a kind").to_lowercase();
        let path = format!("/apis/admissionregistration.k8s.io/v1/{kind}s");
        let answer = client.json("POST", &path, &step["body"]).await;
        assert_eq!(answer.code, 201, "{}", answer.text());
        made.push(format!("{path}/{}", step["body"]["metadata"]["name"].as_str().expect("a name")));
    }
    // A list that is consistent has waited for the cache from which admission reads.
    for path in &made {
        client.get(path.rsplit_once('/').expect("a path").0).await;
    }
    let answer = ask(client, &record["request"]).await;
    for path in made {
        client.json("DELETE", &path, &json!({})).await;
        client.get(path.rsplit_once('/').expect("a path").0).await;
    }
    let review = hook.seen.lock().first().map(|(_, review)| review.clone());
    (judge(&record["response"], &answer), review)
}

/// Replays a record with policies that are gone afterwards. One of them is refused, as it was when the record was made.
async fn with_policies(client: &mut Raw, record: &Value) -> Option<String> {
    let mut made = Vec::new();
    for step in record["setup"].as_array().into_iter().flatten() {
        let resource = match step["body"]["kind"].as_str() {
            Some("ValidatingAdmissionPolicy") => "validatingadmissionpolicies",
            _ => "validatingadmissionpolicybindings",
        };
        let path = format!("/apis/admissionregistration.k8s.io/v1/{resource}");
        client.json("POST", &path, &step["body"]).await;
        made.push((format!("{path}/{}", step["body"]["metadata"]["name"].as_str().expect("a name")), path));
    }
    let mut answer = ask(client, &record["request"]).await;
    // The administrator of the records has another name.
    answer.body = answer.text().replace("kubernetes-admin", "admin").into();
    for (object, list) in made {
        client.json("DELETE", &object, &json!({})).await;
        client.get(&list).await;
    }
    judge(&record["response"], &answer)
}

/// Does the quota controller's first count: nothing is used.
async fn count_quota(client: &mut Raw, path: &str, mut quota: Value) {
    if quota["kind"] != "ResourceQuota" {
        return;
    }
    let hard = quota["spec"]["hard"].clone();
    let names = hard.as_object().into_iter().flatten();
    let used: serde_json::Map<String, Value> = names.map(|(name, _)| (name.clone(), json!("0"))).collect();
    quota["status"] = json!({ "hard": hard, "used": used });
    let name = quota["metadata"]["name"].as_str().unwrap_or("").to_owned();
    assert_eq!(client.json("PUT", &format!("{path}/{name}/status?{BY_CONTROLLERS}"), &quota).await.code, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn creates_are_as_recorded() {
    let Some(directory) = cases_dir("create") else { return };
    let (_cluster, mut client) = start().await;
    let mut tally = Tally::default();
    let all = records(&directory);
    let is_namespace =
        |r: &Value| r["request"]["path"].as_str().is_some_and(|p| p.starts_with("/api/v1/namespaces?"));
    let (first, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|(_, r)| is_namespace(r));
    let mut known = std::collections::BTreeSet::new();
    for (name, record) in first.into_iter().chain(rest) {
        let path = record["request"]["path"].as_str().unwrap_or("").to_owned();
        let in_namespace = path.split("/namespaces/").nth(1).and_then(|p| p.split('/').next());
        if let Some(space) = in_namespace.filter(|n| !n.contains('?'))
            && known.insert(space.to_owned())
        {
            namespace(&mut client, space, json!({})).await;
        }
        for step in record.get("setup").and_then(Value::as_array).into_iter().flatten() {
            let (method, path) =
                (step["method"].as_str().unwrap_or("POST"), step["path"].as_str().unwrap_or("/"));
            client.json(method, path, &step["body"]).await;
        }
        let mut request = record["request"].clone();
        if request.get("contentType").is_none() {
            request["contentType"] = json!("application/json");
        }
        if let Some(change) = request.get("change").and_then(Value::as_object).cloned() {
            let object = client.get(path.split('?').next().unwrap_or("")).await.json();
            request["body"] = changed(object, &change);
        }
        let answer = ask(&mut client, &request).await;
        tally.add(&name, judge(&record["response"], &answer));
    }
    tally.finish("create", 1250);
}

/// The object as it was read, with some fields set or (`<removed>`) taken away.
fn changed(object: Value, change: &serde_json::Map<String, Value>) -> Value {
    let mut object = stage1_kubectl::object::Object::from_value(object).unwrap_or_default();
    for (path, value) in change {
        let pointer = format!("/{path}");
        match value.as_str() {
            Some("<removed>") => drop(object.remove(&pointer)),
            _ => object.set(&pointer, value.clone()),
        }
    }
    object.into_value()
}

#[tokio::test(flavor = "multi_thread")]
async fn patches_are_as_recorded() {
    let Some(directory) = cases_dir("patch") else { return };
    let (_cluster, mut client) = start().await;
    namespace(&mut client, "patch", json!({})).await;
    let all = records(&directory);
    for definition in all.iter().map(|(_, record)| &record["object"]).filter(|object| object.is_object()) {
        established(&mut client, definition).await;
    }
    let mut tally = Tally::default();
    for (name, record) in all {
        let steps = record.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
        if steps.is_empty() {
            tally.not_yet += 1;
            continue;
        }
        let mut outcome = None;
        for (index, step) in steps.iter().enumerate() {
            let mut request = step["request"].clone();
            if let Some(change) = request.get("change").and_then(Value::as_object).cloned() {
                let path = request["path"].as_str().unwrap_or("").split('?').next().unwrap_or("").to_owned();
                request["body"] = changed(client.get(&path).await.json(), &change);
            }
            let mut answer = ask(&mut client, &request).await;
            let mut expected = step["response"].clone();
            without_controllers(&mut expected["body"], &mut answer);
            outcome = judge(&expected, &answer).map(|why| format!("step {index}: {why}"));
            if outcome.is_some() {
                break;
            }
        }
        let path =
            steps[0]["request"]["path"].as_str().unwrap_or("").split('?').next().unwrap_or("").to_owned();
        let object = if path.ends_with("/x") { path } else { format!("{path}/x") };
        client.json("DELETE", &object, &json!({ "gracePeriodSeconds": 0 })).await;
        tally.add(&name, outcome);
    }
    tally.finish("patch", 37);
}

/// Defines a custom kind, and waits until it is served.
async fn established(client: &mut Raw, definition: &Value) {
    let path = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(client.json("POST", path, definition).await.code, 201);
    let name = definition["metadata"]["name"].as_str().unwrap_or("");
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(5);
    loop {
        let now = client.get(&format!("{path}/{name}")).await.json();
        let conditions = now["status"]["conditions"].as_array().cloned().unwrap_or_default();
        if conditions.iter().any(|c| c["type"] == "Established" && c["status"] == "True") {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{now}");
        tokio::task::yield_now().await;
    }
}

/// A controller manager was running when the records were made, and wrote a Deployment's status.
fn without_controllers(expected: &mut Value, answer: &mut Answer) {
    let entries = expected.pointer("/metadata/managedFields").and_then(Value::as_array);
    let wrote = entries.into_iter().flatten().any(|e| e["manager"] == "kube-controller-manager");
    if wrote && expected["kind"] == "Deployment" {
        let mut actual = answer.json();
        actual["status"] = expected["status"].clone();
        answer.body = actual.to_string().into();
    }
}

#[test]
fn tables_are_as_recorded() {
    use stage2_apiserver::registry;
    use stage2_apiserver::table::{IncludeObject, TableOptions, render_table};
    let Some(directory) = cases_dir("table") else { return };
    let mut tally = Tally::default();
    for (name, record) in records(&directory) {
        let path = record["request"]["path"].as_str().unwrap_or("");
        let words: Vec<&str> = path.split('?').next().unwrap_or("").split('/').collect();
        let found = registry::all().find(|i| {
            let group_fits =
                if i.group.is_empty() { words.get(1) == Some(&"api") } else { words.contains(&i.group) };
            group_fits && words.contains(&i.resource) && (i.resource != "namespaces" || words.len() < 6)
        });
        let expected = &record["response"]["body"];
        let (Some(info), true) = (found, expected["kind"] == "Table") else {
            tally.not_yet += 1;
            continue;
        };
        let objects: Vec<&Value> = record["objects"].as_array().into_iter().flatten().collect();
        let options = TableOptions {
            api_version: "meta.k8s.io/v1".into(),
            include_object: IncludeObject::Metadata,
            no_headers: false,
            now: "2030-01-01T00:00:00Z".parse().expect("a time"),
            columns: None,
        };
        let table = render_table(info.group, info.kind, &objects, json!({}), &options);
        let heads = |t: &Value| -> Vec<Value> {
            let head = |c: &Value| json!([c["name"], c["type"], c["format"], c["priority"]]);
            t["columnDefinitions"].as_array().into_iter().flatten().map(head).collect()
        };
        let limit = expected["rows"].as_array().map_or(0, Vec::len);
        let cells = |t: &Value| -> Vec<Value> {
            let mut rows: Vec<Value> =
                t["rows"].as_array().into_iter().flatten().map(|r| r["cells"].clone()).collect();
            rows.sort_by_key(|r| r[0].to_string());
            rows.truncate(limit);
            rows
        };
        let outcome = difference(&json!(heads(expected)), &json!(heads(&table)))
            .or_else(|| difference(&json!(cells(expected)), &json!(cells(&table))));
        tally.add(&name, outcome);
    }
    tally.finish("table", 50);
}
