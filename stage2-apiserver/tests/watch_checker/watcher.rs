//! A watcher: lists, watches, loses its connection, goes on, and notes everything.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use serde_json::Value;
use stage1_kubectl::client::{Client, ClientError};
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout_at};

use super::writer::NAMESPACES;

pub type Key = (String, String);

/// What it watches.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    pub namespace: Option<String>,
    pub half: Option<String>,
}

impl Scope {
    pub fn all() -> Self {
        Scope::default()
    }

    fn path(&self, query: &str) -> String {
        let base = match &self.namespace {
            Some(namespace) => format!("/api/v1/namespaces/{namespace}/configmaps"),
            None => "/api/v1/configmaps".to_owned(),
        };
        let selector = self.half.as_ref().map(|half| format!("&labelSelector=half%3D{half}"));
        format!("{base}?{query}{}", selector.unwrap_or_default())
    }
}

/// Something that a watch said.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub kind: String,
    pub key: Key,
    pub revision: u64,
    pub content: String,
    pub half: String,
}

/// From a list to the next one.
#[derive(Debug, Default)]
pub struct Segment {
    pub listed: BTreeMap<Key, Event>,
    pub from: u64,
    pub events: Vec<Event>,
    /// The last revision that it knew of, by an event or a bookmark.
    pub to: u64,
}

#[derive(Debug, Default)]
pub struct Seen {
    pub scope: Scope,
    pub segments: Vec<Segment>,
    pub resumed: usize,
}

fn event(kind: &str, object: &Value) -> Event {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    Event {
        kind: kind.to_owned(),
        key: (text("/metadata/namespace"), text("/metadata/name")),
        revision: text("/metadata/resourceVersion").parse().unwrap_or(0),
        content: text("/data/n"),
        half: text("/metadata/labels/half"),
    }
}

/// The present, and its revision.
pub async fn list(client: &Client, scope: &Scope) -> Result<Segment, ClientError> {
    let request = Request::get(scope.path("limit=0")).body(Bytes::new()).unwrap();
    let list: Value = client.request(request).await?;
    let from = list["metadata"]["resourceVersion"].as_str().and_then(|rv| rv.parse().ok()).unwrap_or(0);
    let items = list["items"].as_array().into_iter().flatten().map(|item| event("LISTED", item));
    let listed = items.map(|item| (item.key.clone(), item)).collect();
    Ok(Segment { listed, from, events: Vec::new(), to: from })
}

/// An anchor watches everything and holds its connection, so that whatever happens has a witness.
pub async fn run(client: Client, seed: u64, is_anchor: bool, until: watch::Receiver<Option<u64>>) -> Seen {
    let mut random = StdRng::seed_from_u64(seed);
    let chosen = Scope {
        namespace: random.random_bool(0.4).then(|| NAMESPACES[random.random_range(0..2)].to_owned()),
        half: random.random_bool(0.3).then(|| if random.random_bool(0.5) { "a" } else { "b" }.to_owned()),
    };
    let scope = if is_anchor { Scope::all() } else { chosen };
    let longest_millis = if is_anchor { 10_000 } else { 1500 };
    let mut seen = Seen { scope: scope.clone(), ..Seen::default() };
    let hard_end = Instant::now() + Duration::from_secs(120);
    while !over(&seen, &until) {
        assert!(
            Instant::now() < hard_end,
            "a watcher of {scope:?} never came to the end: {:?}",
            until.borrow()
        );
        let Some(to) = seen.segments.last().map(|segment| segment.to) else {
            match list(&client, &scope).await {
                Ok(segment) => seen.segments.push(segment),
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
            continue;
        };
        let patience = Instant::now() + Duration::from_millis(random.random_range(50..longest_millis));
        let segment = seen.segments.last_mut().unwrap();
        if watch(&client, &scope, to, segment, patience, &until).await == Ended::Gone {
            // Too old: what is true now, and on from there.
            if let Ok(segment) = list(&client, &scope).await {
                seen.segments.push(segment);
            }
        } else {
            seen.resumed += 1;
        }
    }
    seen
}

fn over(seen: &Seen, until: &watch::Receiver<Option<u64>>) -> bool {
    let last = *until.borrow();
    last.is_some_and(|last| seen.segments.last().is_some_and(|segment| segment.to >= last))
}

#[derive(PartialEq)]
enum Ended {
    /// The connection is over, by whomever.
    Cut,
    /// 410.
    Gone,
}

/// Watches until patience ends, the server does, or the history is gone.
async fn watch(
    client: &Client,
    scope: &Scope,
    after: u64,
    segment: &mut Segment,
    patience: Instant,
    until: &watch::Receiver<Option<u64>>,
) -> Ended {
    let query = format!("watch=true&allowWatchBookmarks=true&resourceVersion={after}");
    let request = Request::get(scope.path(&query)).body(Bytes::new()).unwrap();
    let mut body = match timeout_at(patience, client.stream(request)).await {
        Ok(Ok(response)) => response.into_body(),
        Ok(Err(error)) if error.is_gone() => return Ended::Gone,
        Ok(Err(_)) => {
            sleep(Duration::from_millis(50)).await;
            return Ended::Cut;
        }
        Err(_) => return Ended::Cut,
    };
    let mut buffer = Vec::new();
    while let Ok(Some(Ok(frame))) = timeout_at(patience, body.frame()).await {
        buffer.extend_from_slice(frame.data_ref().map_or(&[][..], |data| data.as_ref()));
        while let Some(end) = buffer.iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = buffer.drain(..=end).collect();
            let said: Value = serde_json::from_slice(&line).expect("a whole line is JSON");
            let kind = said["type"].as_str().unwrap_or("");
            match kind {
                "ERROR" if said["object"]["code"] == 410 => return Ended::Gone,
                "ERROR" => return Ended::Cut,
                _ => {}
            }
            let event = event(kind, &said["object"]);
            segment.to = segment.to.max(event.revision);
            segment.events.push(event);
        }
        if until.borrow().is_some_and(|last| segment.to >= last) {
            return Ended::Cut;
        }
    }
    Ended::Cut
}
