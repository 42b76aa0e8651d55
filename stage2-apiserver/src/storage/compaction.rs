//! Compaction: every five minutes, forget what is older than five minutes.
//!
//! A watch or a paged list that is older than the history is answered with 410 and starts over; five to ten minutes of
//! history are what clients of Kubernetes are used to.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/etcd3/compact.go`. Left out: the election between several API servers by the key
//! `compact_rev_key` (compacting twice does no harm).

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use super::{Revision, Storage};

/// `--etcd-compaction-interval`. Shorter: clients that lose their connection must list everything again. Longer: the store grows.
pub const COMPACTION_INTERVAL: Duration = Duration::from_secs(300);

/// Compacts to the revision of one interval ago, until cancelled.
pub async fn run(storage: Arc<dyn Storage>, interval: Duration, stop: CancellationToken) {
    let mut previous = Revision(0);
    loop {
        match storage.freshness("/").await {
            Ok(now) => {
                if previous > Revision(0)
                    && let Err(error) = storage.compact(previous).await
                {
                    tracing::warn!(%error, revision = previous.0, "Compaction failed");
                }
                previous = now.revision;
            }
            Err(error) => tracing::warn!(%error, "Compaction could not read the revision"),
        }
        tokio::select! {
            () = tokio::time::sleep(interval) => {}
            () = stop.cancelled() => return,
        }
    }
}
