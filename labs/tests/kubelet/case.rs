//! A recorded case: what was posted, what was seen.
//!
//! # In Kubernetes
//! Nothing like it. The format is described in the cases' own README.

use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::Value;

/// One case file.
#[derive(Clone, Debug, Deserialize)]
pub struct Case {
    /// File name, `NNN-name.json`.
    #[serde(skip)]
    pub file: String,
    /// Its name; the namespace is `k-<name>`.
    pub case: String,
    pub input: Vec<Value>,
    pub statuses: Vec<Recorded>,
    pub events: Vec<Event>,
    pub steps: Vec<Step>,
}

/// One watch event of a pod. The same shape is used for what is seen here.
#[derive(Clone, Debug, Deserialize)]
pub struct Recorded {
    /// Seconds since the first POST.
    pub t: f64,
    #[serde(rename = "type")]
    pub kind: String,
    pub pod: String,
    pub metadata: Value,
    #[serde(rename = "nodeName")]
    pub node_name: Value,
    pub status: Value,
}

/// One event object, or a count bump of it.
#[derive(Clone, Debug, Deserialize)]
pub struct Event {
    pub t: f64,
    #[serde(rename = "type")]
    pub kind: Option<String>,
    pub reason: Option<String>,
    pub message: Option<String>,
    pub object: Option<String>,
    #[serde(rename = "fieldPath")]
    pub field_path: Option<String>,
}

/// Something the harness did, and what came back.
#[derive(Clone, Debug, Deserialize)]
pub struct Step {
    /// Seconds since the first POST, at its end.
    pub at: f64,
    pub what: String,
    #[serde(default)]
    pub result: Value,
    /// What was created by it.
    #[serde(default)]
    pub object: Option<Value>,
}

/// Where the cases are, if they are.
pub fn folder() -> Option<PathBuf> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/cases");
    let root = std::env::var_os("STAGES_CASES_DIR").map_or_else(beside, PathBuf::from);
    Some(root.join("kubelet")).filter(|dir| dir.is_dir())
}

/// All cases, by number.
pub fn load(dir: &Path) -> Vec<Case> {
    let names =
        std::fs::read_dir(dir).unwrap().flatten().map(|e| e.file_name().to_string_lossy().into_owned());
    let mut names: Vec<String> =
        names.filter(|n| n.ends_with(".json") && n.starts_with(|c: char| c.is_ascii_digit())).collect();
    names.sort();
    let read = |file: String| {
        let text = std::fs::read_to_string(dir.join(&file)).unwrap();
        let case: Case = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{file}: {error}"));
        Case { file, ..case }
    };
    names.into_iter().map(read).collect()
}

impl Case {
    pub fn namespace(&self) -> String {
        format!("k-{}", self.case)
    }

    /// Whether other pods of the node would notice.
    pub fn changes_the_node(&self) -> bool {
        self.steps
            .iter()
            .any(|s| s.what.starts_with("taint") || matches!(s.what.as_str(), "cordon" | "drain"))
    }

    /// Why it can't be run here, if it can't.
    pub fn not_yet(&self) -> Option<&'static str> {
        let text = serde_json::to_string(&self.input).unwrap_or_default();
        let steps = |word: &str| self.steps.iter().any(|s| s.what.contains(word));
        if text.contains("grpc-health-checking") {
            return Some("no agnhost with a grpc server here");
        }
        if steps("kubelet stopped") {
            return Some("the kubelet of a one-node pipeline lives in its process");
        }
        if steps("/resize") {
            return Some("recorded with the feature off, which 1.33 has on");
        }
        self.statuses.is_empty().then_some("no pod was recorded")
    }
}
