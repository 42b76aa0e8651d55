//! Recorded answers of a stock control plane, asked again of this one.
//!
//! The records are in `../shared/cases/server` (or `STAGES_CASES_DIR`); without them the test is skipped. Each group
//! prints how many answers agree and which don't, and may not fall under its floor. What a group can't have yet is
//! counted apart: admission webhooks and CEL policies, server-side apply, custom kinds.

mod support {
    pub mod compare;
    pub mod raw;
}

use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use support::compare::{difference, expand, matches};
use support::raw::{Answer, Raw, TestCluster, cluster};

fn cases_dir(group: &str) -> Option<PathBuf> {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("a workspace");
    let default = workspace.join("../shared/cases");
    let root = std::env::var_os("STAGES_CASES_DIR").map_or(default, PathBuf::from);
    let directory = root.join("server").join(group);
    if directory.is_dir() {
        return Some(directory);
    }
    println!("skipped: no cases");
    None
}

fn records(directory: &Path) -> Vec<(String, Value)> {
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(directory).expect("a folder").filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|p| p.extension().is_some_and(|e| e == "json"));
    files.sort();
    // A record with NaN in it is no JSON, and is left to the decoder's own tests.
    let read = |p: &PathBuf| serde_json::from_str(&std::fs::read_to_string(p).expect("a record")).ok();
    files.iter().filter_map(|p| Some((p.file_stem()?.to_string_lossy().into_owned(), read(p)?))).collect()
}

/// Counts and names.
#[derive(Default)]
struct Tally {
    passed: usize,
    not_yet: usize,
    failed: Vec<String>,
}

impl Tally {
    fn add(&mut self, name: &str, outcome: Option<String>) {
        match outcome {
            None => self.passed += 1,
            Some(why) => self.failed.push(format!("{name}: {why}")),
        }
    }

    fn finish(self, group: &str, floor: usize) {
        for failure in &self.failed {
            println!("  {failure}");
        }
        println!("{group}: {} passed, {} failed, {} not yet", self.passed, self.failed.len(), self.not_yet);
        assert!(self.passed >= floor, "{group}: {} passed, the floor is {floor}", self.passed);
    }
}

fn body_of(request: &Value) -> String {
    match request.get("body") {
        None | Some(Value::Null) => String::new(),
        Some(Value::String(text)) => expand(text),
        Some(other) => expand(&other.to_string()),
    }
}

async fn ask(client: &mut Raw, request: &Value) -> Answer {
    let mut headers: Vec<(String, String)> = vec![("user-agent".into(), "oracle/1.0".into())];
    if let Some(kind) = request.get("contentType").and_then(Value::as_str) {
        headers.push(("content-type".into(), kind.into()));
    }
    for (name, value) in request.get("headers").and_then(Value::as_object).into_iter().flatten() {
        headers.push((name.to_lowercase(), value.as_str().unwrap_or("").into()));
    }
    let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let (method, path) =
        (request["method"].as_str().unwrap_or("GET"), request["path"].as_str().unwrap_or("/"));
    client.send(method, path, &headers, body_of(request)).await
}

/// Code, body and warnings.
fn judge(response: &Value, answer: &Answer) -> Option<String> {
    let code = response["code"].as_u64().unwrap_or(0);
    if u64::from(answer.code) != code {
        return Some(format!(
            "{} should be {code}: {}",
            answer.code,
            answer.text().chars().take(300).collect::<String>()
        ));
    }
    let difference = match &response["body"] {
        Value::Null => None,
        Value::String(text) => {
            (!matches(text, &answer.text())).then(|| format!("{:?} should be {text:?}", answer.text()))
        }
        body => difference(body, &answer.json()),
    };
    if difference.is_some() {
        return difference;
    }
    let sent: Vec<&str> = answer.headers.get_all("warning").iter().filter_map(|v| v.to_str().ok()).collect();
    let wanted: Vec<&str> =
        response["warnings"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    (sent != wanted).then(|| format!("warnings {sent:?} should be {wanted:?}"))
}

/// A namespace as controllers leave it: with its default account and CA.
async fn namespace(client: &mut Raw, name: &str, labels: Value) {
    let metadata = json!({ "name": name, "labels": labels });
    client.json("POST", "/api/v1/namespaces", &json!({ "metadata": metadata })).await;
    let account = json!({ "metadata": { "name": "default" } });
    client.json("POST", &format!("/api/v1/namespaces/{name}/serviceaccounts"), &account).await;
}

async fn start() -> (TestCluster, Raw) {
    let cluster = cluster().await;
    let client = Raw::admin(&cluster);
    (cluster, client)
}

#[tokio::test(flavor = "multi_thread")]
async fn discovery_is_as_recorded() {
    let Some(directory) = cases_dir("discovery") else { return };
    let (_cluster, mut client) = start().await;
    let mut tally = Tally::default();
    for (name, record) in records(&directory) {
        if record.get("request").is_none() {
            tally.not_yet += 1;
            continue;
        }
        let mut answer = ask(&mut client, &record["request"]).await;
        newer_than_recorded(&mut answer);
        tally.add(&name, judge(&record["response"], &answer));
    }
    tally.finish("discovery", 28);
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
    for (name, record) in records(&directory) {
        for step in record.get("setup").and_then(Value::as_array).into_iter().flatten() {
            let (method, path) =
                (step["method"].as_str().unwrap_or("POST"), step["path"].as_str().unwrap_or(""));
            if !path.is_empty() {
                client.json(method, path, &step["body"]).await;
            }
        }
        if ["webhook", "vap-", "compact", "113-delete", "115-delete"].iter().any(|w| name.contains(w)) {
            tally.not_yet += 1;
            continue;
        }
        let answer = ask(&mut client, &record["request"]).await;
        tally.add(&name, judge(&record["response"], &answer));
    }
    tally.finish("errors", 90);
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
    tally.finish("create", 1175);
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
    let mut tally = Tally::default();
    for (name, record) in records(&directory) {
        let steps = record.get("steps").and_then(Value::as_array).cloned().unwrap_or_default();
        let applies = steps.iter().any(|s| s["request"]["contentType"] == "application/apply-patch+yaml");
        if steps.is_empty() || applies || record["kind"] == "Gadget" {
            tally.not_yet += 1;
            continue;
        }
        let mut outcome = None;
        for (index, step) in steps.iter().enumerate() {
            let answer = ask(&mut client, &step["request"]).await;
            outcome = judge(&step["response"], &answer).map(|why| format!("step {index}: {why}"));
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
    tally.finish("patch", 17);
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
    tally.finish("table", 49);
}
