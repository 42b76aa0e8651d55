//! What happens here: the watch events of a namespace's pods and events, with the time of each.
//!
//! # In Kubernetes
//! Nothing like it.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use futures::StreamExt as _;
use k8s_openapi::api::core::v1 as core;
use serde_json::Value;
use stage1_kubectl::client::Client;
use stage1_kubectl::object::Object;
use stage1_kubectl::request::WatchParams;
use stage1_kubectl::resource::{ApiResource, of};
use stage1_kubectl::watch::WatchEvent;
use tokio::sync::Notify;

use crate::case::{Event, Recorded};

/// What was seen of one namespace.
pub struct Live {
    pub begun: Instant,
    pub pods: Mutex<Vec<Recorded>>,
    pub events: Mutex<Vec<Event>>,
    /// Rung at each change.
    pub changed: Notify,
}

impl Live {
    /// Begins to watch; the tasks end with the client's connection.
    pub async fn watch(client: &Client, namespace: &str) -> (Arc<Self>, Vec<tokio::task::JoinHandle<()>>) {
        let live = Arc::new(Self {
            begun: Instant::now(),
            pods: Mutex::default(),
            events: Mutex::default(),
            changed: Notify::new(),
        });
        let pods = follow(client, of::<core::Pod>(), namespace, live.clone(), Self::pod).await;
        let events = follow(client, of::<core::Event>(), namespace, live.clone(), Self::event).await;
        (live, vec![pods, events])
    }

    fn pod(&self, t: f64, kind: &str, object: &Object) {
        let at = |pointer: &str| object.get(pointer).cloned().unwrap_or(Value::Null);
        let mut metadata = at("/metadata");
        if let Some(map) = metadata.as_object_mut() {
            map.retain(|k, _| k.starts_with("deletion"));
        }
        self.pods.lock().unwrap().push(Recorded {
            t,
            kind: kind.to_owned(),
            pod: object.name().to_owned(),
            metadata,
            node_name: at("/spec/nodeName"),
            status: at("/status"),
        });
    }

    fn event(&self, t: f64, _: &str, object: &Object) {
        let text = |pointer: &str| object.get_str(pointer).map(str::to_owned);
        let (kind, name) = (text("/involvedObject/kind"), text("/involvedObject/name"));
        self.events.lock().unwrap().push(Event {
            t,
            kind: text("/type"),
            reason: text("/reason"),
            message: text("/message"),
            object: Some(format!("{}/{}", kind.unwrap_or_default(), name.unwrap_or_default())),
            field_path: text("/involvedObject/fieldPath"),
        });
    }

    /// Seconds since the watch began.
    pub fn now(&self) -> f64 {
        self.begun.elapsed().as_secs_f64()
    }

    /// Waits until something holds; false when it doesn't in time.
    pub async fn wait(&self, seconds: f64, mut holds: impl FnMut(&Self) -> bool) -> bool {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs_f64(seconds);
        loop {
            let changed = self.changed.notified();
            if holds(self) {
                return true;
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return holds(self);
            }
        }
    }
}

async fn follow(
    client: &Client,
    resource: ApiResource,
    namespace: &str,
    live: Arc<Live>,
    take: fn(&Live, f64, &str, &Object),
) -> tokio::task::JoinHandle<()> {
    let api = client.objects(&resource, Some(namespace));
    let stream = api.watch(&WatchParams::default()).await.unwrap();
    tokio::spawn(async move {
        let mut stream = std::pin::pin!(stream);
        while let Some(Ok(event)) = stream.next().await {
            let t = live.now();
            match &event {
                WatchEvent::Added(o) => take(&live, t, "ADDED", o),
                WatchEvent::Modified(o) => take(&live, t, "MODIFIED", o),
                WatchEvent::Deleted(o) => take(&live, t, "DELETED", o),
                WatchEvent::Bookmark(_) | WatchEvent::Error(_) => continue,
            }
            live.changed.notify_waiters();
        }
    })
}
