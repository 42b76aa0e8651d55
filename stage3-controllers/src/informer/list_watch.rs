//! List and watch: the shell around the reflector's state machine.
//!
//! It asks what the [`Reflector`] wants asked, tells it what was heard, and puts the resulting change into the store. When the API
//! server cannot be reached it waits, longer each time, up to 30 s, and goes on from where it was: the store keeps what it knew. Of each
//! object all is kept but `metadata.managedFields`, which may be half of it.
//!
//! # In Kubernetes
//! `client-go/tools/cache/reflector.go` (`ListAndWatch`), same back-off (800 ms, doubling, at most 30 s, jitter).
#![expect(
    clippy::disallowed_methods,
    reason = "shell: talks to the API server, and spreads retries at random"
)]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use stage1_kubectl::client::{Client, ClientError};
use stage1_kubectl::watch::{WatchEvent, decode_events};
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::Store;
use crate::indexer::Cached;
use crate::reflector::{Heard, Reflector, Request};

/// The server ends a watch after this time at the earliest; the real time is random up to twice as much.
const MIN_WATCH_TIMEOUT_SECONDS: u32 = 300;
const FIRST_RETRY: Duration = Duration::from_millis(800);
const LAST_RETRY: Duration = Duration::from_secs(30);

/// A list as the server sends it, with nothing but what the reflector needs.
#[derive(Deserialize)]
struct ListAnswer<K> {
    metadata: ListMetadata,
    #[serde(default = "Vec::new")]
    items: Vec<K>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ListMetadata {
    #[serde(default)]
    resource_version: String,
}

/// URL path of all objects of a kind.
pub fn path_of<K: k8s_openapi::Resource>() -> String {
    let root = if K::GROUP.is_empty() { "api" } else { "apis" };
    format!("/{root}/{}/{}", K::API_VERSION, K::URL_PATH_SEGMENT)
}

/// Keeps `store` equal to what is at `path` until `shutdown`. `selection` is a further query: `fieldSelector=spec.nodeName%3Dn1`.
pub async fn run<K: Cached + DeserializeOwned>(
    client: Client,
    path: String,
    selection: String,
    store: Store<K>,
    shutdown: CancellationToken,
) {
    let mut reflector = Reflector::new();
    let mut retry = FIRST_RETRY;
    while !shutdown.is_cancelled() {
        let ended = tokio::select! {
            ended = round(&client, &path, &selection, &store, reflector.clone()) => ended,
            () = shutdown.cancelled() => return,
        };
        reflector = ended.reflector;
        let Some(error) = ended.error else {
            retry = FIRST_RETRY;
            continue;
        };
        if ended.progressed {
            retry = FIRST_RETRY;
        }
        warn!(%path, error = %crate::executor::message_of(&error), "Failed to list or watch, will retry");
        let jitter = 0.5 + rand::random::<f64>();
        tokio::select! {
            () = tokio::time::sleep(retry.mul_f64(jitter)) => {}
            () = shutdown.cancelled() => return,
        }
        retry = (retry * 2).min(LAST_RETRY);
    }
}

/// How one request ended.
struct Ended {
    reflector: Reflector,
    progressed: bool,
    error: Option<ClientError>,
}

/// One request: a list, or a watch until it ends.
async fn round<K: Cached + DeserializeOwned>(
    client: &Client,
    path: &str,
    selection: &str,
    store: &Store<K>,
    reflector: Reflector,
) -> Ended {
    match reflector.request() {
        Request::List { resource_version } => {
            let query = format!("{path}?resourceVersion={resource_version}&{selection}");
            match client.request::<ListAnswer<K>>(get(&query)).await {
                Ok(list) => {
                    let items = list.items.into_iter().map(trimmed).collect();
                    let heard = Heard::Listed { items, resource_version: list.metadata.resource_version };
                    Ended { reflector: hear(reflector, heard, store), progressed: true, error: None }
                }
                Err(error) if error.is_gone() => {
                    Ended { reflector: hear(reflector, Heard::Gone, store), progressed: false, error: None }
                }
                Err(error) => Ended {
                    reflector: hear(reflector, Heard::Closed, store),
                    progressed: false,
                    error: Some(error),
                },
            }
        }
        Request::Watch { resource_version } => {
            let timeout = MIN_WATCH_TIMEOUT_SECONDS + rand::random::<u32>() % MIN_WATCH_TIMEOUT_SECONDS;
            let query = format!(
                "{path}?watch=true&allowWatchBookmarks=true&resourceVersion={resource_version}&timeoutSeconds={timeout}&{selection}"
            );
            // The server ends the watch in time; one that it does not end is dead.
            let limit = Duration::from_secs(u64::from(timeout) + 30);
            watch(client, get(&query), store, reflector, limit).await
        }
    }
}

async fn watch<K: Cached + DeserializeOwned>(
    client: &Client,
    request: http::Request<Bytes>,
    store: &Store<K>,
    reflector: Reflector,
    limit: Duration,
) -> Ended {
    let body = match client.stream(request).await {
        Ok(response) => response.into_body(),
        Err(error) if error.is_gone() => {
            return Ended { reflector: hear(reflector, Heard::Gone, store), progressed: false, error: None };
        }
        Err(error) => {
            return Ended {
                reflector: hear(reflector, Heard::Closed, store),
                progressed: false,
                error: Some(error),
            };
        }
    };
    let events = decode_events::<K, _>(body, client.config().server.clone());
    tokio::pin!(events);
    let mut ended = Ended { reflector, progressed: false, error: None };
    let deadline = tokio::time::sleep(limit);
    tokio::pin!(deadline);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = &mut deadline => None,
        };
        let version = |object: &Arc<K>| object.meta().resource_version.clone().unwrap_or_default();
        let heard = match event {
            Some(Ok(WatchEvent::Added(object) | WatchEvent::Modified(object))) => {
                let object = trimmed(object);
                Heard::Changed(object.clone(), version(&object))
            }
            Some(Ok(WatchEvent::Deleted(object))) => {
                let object = trimmed(object);
                Heard::Deleted(object.clone(), version(&object))
            }
            Some(Ok(WatchEvent::Bookmark(bookmark))) => Heard::Bookmark(bookmark.resource_version),
            Some(Ok(WatchEvent::Error(status))) if status.code == 410 => {
                ended.reflector = hear(ended.reflector, Heard::Gone, store);
                return ended;
            }
            Some(Ok(WatchEvent::Error(status))) => {
                ended.error = Some(ClientError::from(status));
                return ended;
            }
            Some(Err(error)) => {
                // A stream that is cut is everyday life: go on from the last revision, at once if there was any progress.
                debug!(%error, "Watch ended");
                ended.error = (!ended.progressed).then_some(error);
                return ended;
            }
            None => {
                // An answer that ends at once, again and again, must not become a storm of requests.
                if !ended.progressed {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
                return ended;
            }
        };
        ended.progressed = true;
        ended.reflector = hear(ended.reflector, heard, store);
    }
}

/// The object as it is kept.
fn trimmed<K: Cached>(mut object: K) -> Arc<K> {
    object.forget_managers();
    Arc::new(object)
}

fn hear<K: Cached>(reflector: Reflector, heard: Heard<Arc<K>>, store: &Store<K>) -> Reflector {
    let (next, delta) = reflector.step(heard);
    if let Some(delta) = delta {
        store.apply(delta);
    }
    next
}

fn get(path_and_query: &str) -> http::Request<Bytes> {
    http::Request::get(path_and_query.trim_end_matches('&'))
        .header("accept", "application/json")
        .body(Bytes::new())
        .expect("a path made of names is a valid URI")
}
