//! Events are forgotten after an hour.
//!
//! Nobody deletes Events, and a cluster makes many. Kubernetes gives each a lease in etcd; a lease a write would be costly to
//! build into the embedded store, so one sweep looks at the watch cache now and then, and deletes what is old enough.
//!
//! # Invariants
//! 1. An Event lives for `--event-ttl` after it was last seen, and at most one sweep longer.
//!
//! # In Kubernetes
//! `pkg/registry/core/event/storage/storage.go` (`TTLFunc`), `--event-ttl`.

#![expect(clippy::disallowed_methods, reason = "shell: compares with the present time")]

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use stage1_kubectl::object::Object;
use tokio_util::sync::CancellationToken;

use super::{DeleteRequest, DeletionPolicy, Store};

/// `--event-ttl`. Longer: the store grows; shorter: `kubectl describe` forgets why a pod failed last night.
pub const EVENT_TTL: Duration = Duration::from_secs(3600);
/// Pause between sweeps.
const SWEEP_INTERVAL: Duration = Duration::from_secs(300);

/// When an Event was last seen.
fn last_seen(event: &Object) -> Option<Timestamp> {
    let fields = ["/series/lastObservedTime", "/lastTimestamp", "/eventTime", "/metadata/creationTimestamp"];
    fields.iter().filter_map(|field| event.get_str(field)?.parse::<Timestamp>().ok()).max()
}

/// Whether an Event's time is over. One that says no time at all stays until somebody deletes it.
pub fn is_expired(event: &Object, now: Timestamp, ttl: Duration) -> bool {
    let ttl = SignedDuration::try_from(ttl).unwrap_or(SignedDuration::MAX);
    last_seen(event).is_some_and(|seen| now.duration_since(seen) > ttl)
}

/// Sweeps until stopped; `events` is the store of core Events.
pub async fn run(events: Store, ttl: Duration, stop: CancellationToken) {
    let mut sweeps = tokio::time::interval(SWEEP_INTERVAL);
    loop {
        tokio::select! {
            _ = sweeps.tick() => {}
            () = stop.cancelled() => return,
        }
        let now = Timestamp::now();
        let Ok(all) = events.cacher().snapshot(&events.info().key_prefix(None)).await else { continue };
        for event in all.iter().filter(|event| is_expired(&event.object, now, ttl)) {
            let request = DeleteRequest {
                resource_version: Some(event.object.resource_version().to_owned()),
                ..DeleteRequest::at(now)
            };
            let (namespace, name) = (event.object.namespace(), event.object.name());
            let admit = |_| std::future::ready(Ok(()));
            // One that was counted up in this moment stays; the next sweep looks again.
            let swept = events.delete(namespace, name, &request, &DeletionPolicy::default(), admit).await;
            if let Err(status) = swept
                && status.code >= 500
            {
                tracing::warn!(%status, "Sweeping Events failed");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_lives_an_hour_after_it_was_last_seen() {
        let event = |fields: serde_json::Value| Object::from_value(fields).unwrap();
        let now: Timestamp = "2026-01-01T02:00:00Z".parse().unwrap();
        let old = json!({"creationTimestamp": "2026-01-01T00:00:00Z"});
        assert!(is_expired(&event(json!({"metadata": old})), now, EVENT_TTL));
        let counted = json!({"metadata": old, "lastTimestamp": "2026-01-01T01:30:00Z"});
        assert!(!is_expired(&event(counted), now, EVENT_TTL));
        let series = json!({"metadata": old, "series": {"lastObservedTime": "2026-01-01T01:59:59.000001Z"}});
        assert!(!is_expired(&event(series), now, EVENT_TTL));
        assert!(!is_expired(&event(json!({})), now, EVENT_TTL));
    }

    #[tokio::test]
    async fn a_sweep_removes_old_events_only() {
        let storage = std::sync::Arc::new(crate::storage::memory::MemoryStorage::default());
        let stores = crate::store::Stores::new(crate::watch_cache::Caches::new(storage));
        let store = stores.of(crate::registry::find("", "v1", "events").unwrap());
        for (name, time) in
            [("old", "2020-01-01T00:00:00Z".to_owned()), ("new", Timestamp::now().to_string())]
        {
            let event =
                json!({"metadata": {"name": name, "namespace": "default", "creationTimestamp": time}});
            store.create(Object::from_value(event).unwrap(), false).await.unwrap();
        }
        store.cacher().wait_for(crate::watch_cache::At::Consistent).await.unwrap();
        let stop = CancellationToken::new();
        let sweeping = tokio::spawn(run(store.clone(), EVENT_TTL, stop.clone()));
        let gone = async {
            while store.get(Some("default"), "old", crate::watch_cache::At::Consistent).await.is_ok() {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(10), gone).await.unwrap();
        assert!(store.get(Some("default"), "new", crate::watch_cache::At::Consistent).await.is_ok());
        stop.cancel();
        sweeping.await.unwrap();
    }
}
