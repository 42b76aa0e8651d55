//! Replaying a record: the request as it was sent, the answer against the one that was recorded.
#![allow(dead_code, reason = "each test uses a part")]

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::compare::{difference, expand, matches};
use super::raw::{Answer, Raw, TestCluster, cluster};

pub fn cases_dir(group: &str) -> Option<PathBuf> {
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

pub fn records(directory: &Path) -> Vec<(String, Value)> {
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
pub struct Tally {
    pub passed: usize,
    pub not_yet: usize,
    pub failed: Vec<String>,
}

impl Tally {
    pub fn add(&mut self, name: &str, outcome: Option<String>) {
        match outcome {
            None => self.passed += 1,
            Some(why) => self.failed.push(format!("{name}: {why}")),
        }
    }

    pub fn finish(self, group: &str, floor: usize) {
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

pub async fn ask(client: &mut Raw, request: &Value) -> Answer {
    let mut headers: Vec<(String, String)> = Vec::new();
    if request["headers"].get("User-Agent").is_none() {
        headers.push(("user-agent".into(), "oracle/1.0".into()));
    }
    if let Some(kind) = request.get("contentType").and_then(Value::as_str) {
        headers.push(("content-type".into(), kind.into()));
    }
    for (name, value) in request.get("headers").and_then(Value::as_object).into_iter().flatten() {
        let values = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        headers.extend(values.iter().map(|v| (name.to_lowercase(), v.as_str().unwrap_or("").to_owned())));
    }
    let headers: Vec<(&str, &str)> = headers.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
    let (method, path) =
        (request["method"].as_str().unwrap_or("GET"), request["path"].as_str().unwrap_or("/"));
    client.send(method, path, &headers, body_of(request)).await
}

/// Code, body and warnings.
pub fn judge(response: &Value, answer: &Answer) -> Option<String> {
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

/// In the name of the controller manager, whose entries aren't compared.
pub const BY_CONTROLLERS: &str = "fieldManager=kube-controller-manager";

/// A namespace as controllers leave it: with its default account and CA.
pub async fn namespace(client: &mut Raw, name: &str, labels: Value) {
    let metadata = json!({ "name": name, "labels": labels });
    client.json("POST", "/api/v1/namespaces", &json!({ "metadata": metadata })).await;
    let account = json!({ "metadata": { "name": "default" } });
    client
        .json("POST", &format!("/api/v1/namespaces/{name}/serviceaccounts?{BY_CONTROLLERS}"), &account)
        .await;
    let about = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes clusters.";
    let metadata =
        json!({ "name": "kube-root-ca.crt", "annotations": { "kubernetes.io/description": about } });
    let ca = json!({ "metadata": metadata, "data": { "ca.crt": "PEM\n" } });
    client.json("POST", &format!("/api/v1/namespaces/{name}/configmaps?{BY_CONTROLLERS}"), &ca).await;
}

pub async fn start() -> (TestCluster, Raw) {
    let cluster = cluster().await;
    let client = Raw::admin(&cluster);
    (cluster, client)
}
