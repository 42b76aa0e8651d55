//! Watch: one stream of requests, one of answers, and as many watches on it as the client likes.
//!
//! # In Kubernetes
//! etcd's `server/etcdserver/api/v3rpc/watch.go`. Left out: progress without being asked for, fragments.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use futures::StreamExt;
use http::Response;
use hyper::body::Incoming;
use tokio::sync::mpsc::Sender;
use tokio_util::sync::CancellationToken;

use super::grpc::{Body, Failure, Messages, framed, streaming};
use super::kv::{Keys, shown};
use super::messages as pb;
use super::{Server, header_at};
use crate::storage::{KeyValue, Revision, StorageError, WatchItem};

/// `mvccpb.Event`'s kinds.
const DELETE: i32 = 1;
/// `WatchCreateRequest.filters`.
const NO_PUT: i32 = 0;
const NO_DELETE: i32 = 1;

type Out = Sender<Result<Bytes, Failure>>;

/// Serves a watch stream until either side ends it.
pub fn serve(server: Arc<Server>, body: Incoming) -> Response<Body> {
    let (out, response) = streaming();
    tokio::spawn(async move {
        let mut requests = Messages::new(body);
        let all = CancellationToken::new();
        let _guard = all.clone().drop_guard();
        let mut watches: HashMap<i64, CancellationToken> = HashMap::new();
        let mut next_id = 0;
        while let Ok(Some(request)) = requests.next::<pb::WatchRequest>().await {
            if let Some(create) = request.create {
                let id = if create.watch_id > 0 { create.watch_id } else { next_id };
                next_id = next_id.max(id) + 1;
                let stop = all.child_token();
                watches.insert(id, stop.clone());
                begin(server.clone(), create, id, out.clone(), stop).await;
            }
            if let Some(stop) = request.cancel.as_ref().and_then(|c| watches.remove(&c.watch_id)) {
                stop.cancel();
                let watch_id = request.cancel.map_or(0, |cancel| cancel.watch_id);
                tell(&server, &out, pb::WatchResponse { watch_id, canceled: true, ..Default::default() })
                    .await;
            }
            if request.progress.is_some() {
                tell(&server, &out, pb::WatchResponse { watch_id: -1, ..Default::default() }).await;
            }
        }
    });
    response
}

async fn tell(server: &Server, out: &Out, mut response: pb::WatchResponse) {
    let header = server.header().await;
    let sent = header.map(|header| {
        response.header = header;
        framed(&response)
    });
    let _ = out.send(sent).await;
}

async fn begin(
    server: Arc<Server>,
    create: pb::WatchCreateRequest,
    id: i64,
    out: Out,
    stop: CancellationToken,
) {
    let keys = match Keys::new(&create.key, &create.range_end) {
        Ok(keys) => keys,
        Err(failure) => return drop(out.send(Err(failure)).await),
    };
    let now = match server.storage.freshness("").await {
        Ok(now) => now.revision,
        Err(error) => return drop(out.send(Err(error.into())).await),
    };
    // "From revision N" includes N; none means: what is to come.
    let after = match u64::try_from(create.start_revision) {
        Ok(start) if start > 0 => Revision(start - 1),
        _ => now,
    };
    let created =
        pb::WatchResponse { header: header_at(now), watch_id: id, created: true, ..Default::default() };
    let _ = out.send(Ok(framed(&created))).await;
    tokio::spawn(async move { stop.run_until_cancelled(follow(server, create, keys, id, after, out)).await });
}

async fn follow(
    server: Arc<Server>,
    create: pb::WatchCreateRequest,
    keys: Keys,
    id: i64,
    after: Revision,
    out: Out,
) {
    let mut items = server.storage.watch("", after);
    while let Some(item) = items.next().await {
        let response = match item {
            Ok(item) if keys.contain(&item.key) && wanted(&create, &item) => pb::WatchResponse {
                header: header_at(item.revision),
                watch_id: id,
                events: vec![event(&item, create.prev_kv)],
                ..Default::default()
            },
            Ok(_) => continue,
            Err(error) => ended(id, &error),
        };
        let over = response.canceled;
        if out.send(Ok(framed(&response))).await.is_err() || over {
            return;
        }
    }
}

fn wanted(create: &pb::WatchCreateRequest, item: &WatchItem) -> bool {
    let unwanted = if item.value.is_some() { NO_PUT } else { NO_DELETE };
    !create.filters.contains(&unwanted)
}

fn ended(id: i64, error: &StorageError) -> pb::WatchResponse {
    let compact_revision = match error {
        StorageError::Compacted { oldest, .. } => i64::try_from(oldest.0).unwrap_or(i64::MAX),
        _ => 0,
    };
    let cancel_reason = match error {
        StorageError::Compacted { .. } => "etcdserver: mvcc: required revision has been compacted".to_owned(),
        other => other.to_string(),
    };
    pb::WatchResponse { watch_id: id, canceled: true, compact_revision, cancel_reason, ..Default::default() }
}

fn event(item: &WatchItem, with_previous: bool) -> pb::Event {
    let value = item.value.clone().unwrap_or_default();
    let now = KeyValue { key: item.key.clone(), value, revision: item.revision };
    let mut kv = shown(&now, false, 0);
    if item.value.is_none() {
        (kv.create_revision, kv.version) = (0, 0);
    } else if let Some(previous) = &item.previous {
        kv.create_revision = i64::try_from(previous.revision.0).unwrap_or(0);
        kv.version = 2;
    }
    pb::Event {
        kind: if item.value.is_some() { 0 } else { DELETE },
        kv: Some(kv),
        prev_kv: item.previous.as_ref().filter(|_| with_previous).map(|previous| shown(previous, false, 0)),
    }
}
