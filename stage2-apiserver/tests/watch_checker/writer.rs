//! A writer: creates, changes and deletes ConfigMaps of a few names, and notes what it was told.

use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, header};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::{Value, json};
use stage1_kubectl::client::Client;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

pub const NAMESPACES: [&str; 2] = ["default", "kube-public"];
const NAMES: u32 = 15;

/// A write that the server said it had done.
#[derive(Debug, Clone)]
pub struct Acknowledged {
    pub key: (String, String),
    pub revision: u64,
    /// What was written; no two writes write the same.
    pub content: String,
    pub sent: Instant,
}

/// A deletion that may have happened.
#[derive(Debug, Clone)]
pub struct Deletion {
    pub key: (String, String),
    /// `None`: nobody knows when it happened, and whether it did.
    pub answered: Option<Instant>,
}

impl Deletion {
    /// Whether it may be why what was written isn't there.
    pub fn may_follow(&self, write: &Acknowledged) -> bool {
        self.key == write.key && self.answered.is_none_or(|answered| answered >= write.sent)
    }
}

/// What a writer was told.
#[derive(Debug, Default)]
pub struct Told {
    pub writes: Vec<Acknowledged>,
    pub deletions: Vec<Deletion>,
}

impl Told {
    pub fn join(&mut self, other: Told) {
        self.writes.extend(other.writes);
        self.deletions.extend(other.deletions);
    }
}

/// Sends a request with a JSON body.
pub async fn send(client: &Client, method: Method, path: &str, body: &Value) -> Result<Value, Option<u16>> {
    let kind = if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
    let request = Request::builder().method(method).uri(path).header(header::CONTENT_TYPE, kind);
    let request = request.body(Bytes::from(body.to_string())).unwrap();
    match timeout(Duration::from_secs(5), client.request(request)).await {
        Ok(Ok(value)) => Ok(value),
        Ok(Err(error)) => Err(error.status().map(|status| status.code)),
        Err(_) => Err(None),
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|rv| rv.parse().ok()).unwrap_or(0)
}

pub async fn run(client: Client, seed: u64, go_on: watch::Receiver<bool>) -> Told {
    let mut random = StdRng::seed_from_u64(seed);
    let mut told = Told::default();
    let mut number = 0;
    while *go_on.borrow() {
        number += 1;
        let namespace = NAMESPACES[random.random_range(0..NAMESPACES.len())];
        let name = format!("cm-{}", random.random_range(0..NAMES));
        let path = format!("/api/v1/namespaces/{namespace}/configmaps");
        let content = format!("{seed}-{number}");
        let labels = json!({ "half": if random.random_bool(0.5) { "a" } else { "b" } });
        let body = json!({ "metadata": { "name": name, "labels": labels }, "data": { "n": content } });
        let (sent, one) = (Instant::now(), format!("{path}/{name}"));
        let (outcome, is_deletion) = match random.random_range(0..5) {
            0 => (send(&client, Method::POST, &path, &body).await, false),
            1 => (send(&client, Method::DELETE, &one, &json!({})).await, true),
            _ => (send(&client, Method::PATCH, &one, &body).await, false),
        };
        let key = (namespace.to_owned(), name);
        let is_known = |outcome: &Result<Value, Option<u16>>| {
            outcome.is_ok() || outcome.as_ref().is_err_and(|code| code.is_some_and(|code| code < 500))
        };
        match &outcome {
            Ok(_) if is_deletion => {
                told.deletions.push(Deletion { key, answered: Some(Instant::now()) });
            }
            Ok(object) => {
                told.writes.push(Acknowledged { key, revision: revision(object), content, sent });
            }
            Err(_) if is_deletion && !is_known(&outcome) => {
                told.deletions.push(Deletion { key, answered: None });
            }
            Err(_) => {}
        }
        if !is_known(&outcome) {
            // Away or restarting: don't turn in circles.
            sleep(Duration::from_millis(50)).await;
        }
    }
    told
}

/// The revision of a write that comes after all others. There is one for every scope, so that each watcher hears of an end.
pub async fn markers(client: &Client) -> u64 {
    let mut first = u64::MAX;
    for namespace in NAMESPACES {
        for half in ["a", "b"] {
            let metadata = json!({ "name": format!("zz-last-{half}"), "labels": { "half": half } });
            let body = json!({ "metadata": metadata, "data": { "n": "last" } });
            let path = format!("/api/v1/namespaces/{namespace}/configmaps");
            let made = send(client, Method::POST, &path, &body).await.expect("the last writes");
            first = first.min(revision(&made));
        }
    }
    first
}
