//! The one watch stream on etcd, and how it finds its place again.
//!
//! *Step 2 of a pod's journey.* Before: etcd committed a write of ours or of another API server. After: the hub gives it to
//! the caches.
//!
//! # Invariants
//! 1. The stream is opened after the hub's position, so nothing is skipped and nothing comes twice.
//! 2. If that position is compacted, the hub is reset: its watchers end and list again.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/etcd3/watcher.go`. Left out: fragments of huge responses.

use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, KvClient, WatchClient, WatchOptions, WatchResponse};
use tokio_util::sync::CancellationToken;

use super::etcd::{current_revision, key_value, unavailable};
use super::hub::Hub;
use super::{Revision, StorageError, WatchItem};

/// Changes that are kept for caches that start a little in the past.
pub(super) const RECENT: usize = 4096;
/// Pause before the stream is opened again.
const RECONNECT: Duration = Duration::from_millis(200);

/// Feeds the hub until stopped.
pub(super) async fn run(mut watcher: WatchClient, mut kv: KvClient, hub: Arc<Hub>, stop: CancellationToken) {
    loop {
        let outcome = tokio::select! {
            // Etcd ends right after we say that we are done with it; that end is no news.
            biased;
            () = stop.cancelled() => return,
            outcome = follow(&mut watcher, &hub) => outcome,
        };
        match outcome {
            Err(StorageError::Compacted { oldest, .. }) => {
                let now = current_revision(&mut kv).await.unwrap_or(oldest);
                tracing::warn!(revision = now.0, "Watch on etcd fell behind compaction, caches list again");
                hub.reset(now);
            }
            Err(error) => tracing::warn!(%error, "Watch on etcd broke, opening it again"),
            Ok(()) => tracing::warn!("Watch on etcd ended, opening it again"),
        }
        tokio::select! {
            () = tokio::time::sleep(RECONNECT) => {}
            () = stop.cancelled() => return,
        }
    }
}

async fn follow(watcher: &mut WatchClient, hub: &Hub) -> Result<(), StorageError> {
    let after = hub.position();
    let options = WatchOptions::new()
        .with_all_keys()
        .with_start_revision(i64::try_from(after.0 + 1).unwrap_or(i64::MAX))
        .with_prev_key()
        .with_progress_notify();
    // with_all_keys makes the range [0, end); the key given here is replaced by it.
    let mut stream = watcher.watch(vec![0], Some(options)).await.map_err(unavailable)?;
    while let Some(response) = stream.message().await.map_err(unavailable)? {
        if response.compact_revision() > 0 {
            let oldest = Revision(u64::try_from(response.compact_revision()).unwrap_or_default());
            return Err(StorageError::Compacted { requested: after, oldest });
        }
        if response.canceled() {
            return Err(unavailable(response.cancel_reason()));
        }
        hub.publish(changes(&response));
    }
    Ok(())
}

fn changes(response: &WatchResponse) -> Vec<WatchItem> {
    let change = |event: &etcd_client::Event| {
        let kv = key_value(event.kv()?.clone());
        let value = match event.event_type() {
            EventType::Put => Some(kv.value),
            EventType::Delete => None,
        };
        let previous = event.prev_kv().cloned().map(key_value);
        Some(WatchItem { key: kv.key, revision: kv.revision, value, previous })
    };
    response.events().iter().filter_map(change).collect()
}
