//! The suite: what every storage must do, asked of all three.
//!
//! Each part works below a prefix of its own, so that the suite can run against an etcd that holds other things.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/testing/store_tests.go` is the same idea.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use super::{
    Expect, ListRequest, MAX_WRITE_BYTES, Revision, Storage, StorageError, WatchItem, WatchStream, Write,
};

fn put(text: &str) -> Write {
    Write::Put(Bytes::copy_from_slice(text.as_bytes()))
}

/// Runs every part below `root`, which ends in a slash.
pub(super) async fn run(storage: Arc<dyn Storage>, root: &str) {
    commits_are_conditional(&*storage, &format!("{root}s-commit/")).await;
    too_large_a_value_is_refused(&*storage, &format!("{root}s-large/")).await;
    lists_are_paged_at_a_revision(&*storage, &format!("{root}s-list/")).await;
    watches_are_in_order_and_complete(&storage, &format!("{root}s-watch/")).await;
    watches_start_in_the_past(&*storage, &format!("{root}s-replay/")).await;
    one_of_many_writers_wins(&storage, &format!("{root}s-race/")).await;
    freshness_covers_own_writes(&*storage, &format!("{root}s-fresh/")).await;
    compacted_history_is_refused(&*storage, &format!("{root}s-compact/")).await;
}

async fn next(stream: &mut WatchStream) -> Result<WatchItem, StorageError> {
    let next = tokio::time::timeout(Duration::from_secs(20), stream.next()).await;
    next.expect("an event within the deadline").expect("the stream goes on")
}

async fn too_large_a_value_is_refused(storage: &dyn Storage, prefix: &str) {
    let key = format!("{prefix}a");
    let of = |bytes: usize| Write::Put(Bytes::from(vec![b'x'; bytes]));
    for bytes in [MAX_WRITE_BYTES + 1, 2 * MAX_WRITE_BYTES] {
        let refused = storage.commit(&key, Expect::Absent, of(bytes)).await;
        assert_eq!(refused, Err(StorageError::TooLarge), "{bytes}");
    }
    let revision = storage.commit(&key, Expect::Absent, of(MAX_WRITE_BYTES - 1024)).await.unwrap();
    assert_eq!(storage.get(&key).await.unwrap().unwrap().revision, revision);
}

async fn commits_are_conditional(storage: &dyn Storage, prefix: &str) {
    let key = format!("{prefix}a");
    assert_eq!(storage.get(&key).await, Ok(None));
    let first = storage.commit(&key, Expect::Absent, put("1")).await.unwrap();
    let conflict = storage.commit(&key, Expect::Absent, put("x")).await.unwrap_err();
    let StorageError::Conflict { current: Some(current), .. } = conflict else { panic!("{conflict:?}") };
    assert_eq!((current.revision, &current.value[..]), (first, &b"1"[..]));
    let second = storage.commit(&key, Expect::At(first), put("2")).await.unwrap();
    assert!(second > first);
    let stale = storage.commit(&key, Expect::At(first), put("3")).await;
    assert!(matches!(stale, Err(StorageError::Conflict { .. })), "{stale:?}");
    let stale = storage.commit(&key, Expect::At(first), Write::Delete).await;
    assert!(matches!(stale, Err(StorageError::Conflict { .. })), "{stale:?}");
    let third = storage.commit(&key, Expect::Anything, put("3")).await.unwrap();
    assert_eq!(storage.get(&key).await.unwrap().unwrap().revision, third);
    let deleted = storage.commit(&key, Expect::At(third), Write::Delete).await.unwrap();
    assert!(deleted > third);
    assert_eq!(storage.get(&key).await, Ok(None));
    for expect in [Expect::Anything, Expect::At(third)] {
        let gone = storage.commit(&key, expect, Write::Delete).await;
        assert!(matches!(gone, Err(StorageError::Conflict { current: None, .. })), "{gone:?}");
    }
    storage.commit(&key, Expect::Absent, put("again")).await.unwrap();
}

async fn lists_are_paged_at_a_revision(storage: &dyn Storage, prefix: &str) {
    for name in ["b", "a", "ns/c", "d", "e"] {
        storage.commit(&format!("{prefix}{name}"), Expect::Absent, put(name)).await.unwrap();
    }
    let request = ListRequest { prefix: prefix.into(), limit: 2, ..ListRequest::default() };
    let first = storage.list(request.clone()).await.unwrap();
    let names = |items: &[super::KeyValue]| -> Vec<String> {
        items.iter().map(|kv| kv.key.trim_start_matches(prefix).to_owned()).collect()
    };
    assert_eq!((names(&first.items), first.remaining), (vec!["a".into(), "b".into()], 3));
    storage.commit(&format!("{prefix}c"), Expect::Absent, put("late")).await.unwrap();
    storage.commit(&format!("{prefix}d"), Expect::Anything, Write::Delete).await.unwrap();
    let start = Some(format!("{prefix}b\0"));
    let rest = ListRequest { start, limit: 0, revision: Some(first.revision), ..request.clone() };
    let rest = storage.list(rest).await.unwrap();
    assert_eq!(names(&rest.items), ["d", "e", "ns/c"], "the second page shows what the first one saw");
    assert_eq!((rest.revision, rest.remaining), (first.revision, 0));
    let now = storage.list(ListRequest::all(prefix)).await.unwrap();
    assert_eq!(names(&now.items), ["a", "b", "c", "e", "ns/c"]);
    let future = ListRequest { revision: Some(Revision(now.revision.0 + 1000)), ..request };
    assert!(matches!(storage.list(future).await, Err(StorageError::Future { .. })));
}

async fn watches_are_in_order_and_complete(storage: &Arc<dyn Storage>, prefix: &str) {
    let start = storage.freshness(prefix).await.unwrap().revision;
    let mut stream = storage.watch(prefix, start);
    let writers = (0..4).map(|writer| {
        let (storage, prefix) = (storage.clone(), prefix.to_owned());
        tokio::spawn(async move {
            let key = format!("{prefix}{writer}");
            for n in 0..25 {
                storage.commit(&key, Expect::Anything, put(&n.to_string())).await.unwrap();
            }
            storage.commit(&key, Expect::Anything, Write::Delete).await.unwrap();
            // A key beside the prefix is not this watch's business.
            let beside = format!("{}-beside/{writer}", prefix.trim_end_matches('/'));
            storage.commit(&beside, Expect::Anything, put("")).await.unwrap();
        })
    });
    let writers: Vec<_> = writers.collect();
    let mut last = start;
    let mut states = std::collections::BTreeMap::<String, Option<(Revision, Bytes)>>::new();
    for _ in 0..4 * 26 {
        let item = next(&mut stream).await.unwrap();
        assert!(item.revision > last, "in order, none twice");
        last = item.revision;
        let before = states.insert(item.key, item.value.map(|value| (item.revision, value))).flatten();
        assert_eq!(
            item.previous.map(|kv| (kv.revision, kv.value)),
            before,
            "no change in between was left out"
        );
    }
    for writer in writers {
        writer.await.unwrap();
    }
    assert!(states.values().all(Option::is_none), "the last event of each key is its deletion");
}

async fn watches_start_in_the_past(storage: &dyn Storage, prefix: &str) {
    let first = storage.commit(&format!("{prefix}a"), Expect::Absent, put("1")).await.unwrap();
    let second = storage.commit(&format!("{prefix}b"), Expect::Absent, put("1")).await.unwrap();
    let third = storage.commit(&format!("{prefix}a"), Expect::At(first), put("2")).await.unwrap();
    let mut stream = storage.watch(prefix, first);
    assert_eq!(next(&mut stream).await.unwrap().revision, second);
    let replayed = next(&mut stream).await.unwrap();
    assert_eq!((replayed.revision, replayed.previous.map(|kv| kv.revision)), (third, Some(first)));
    let fourth = storage.commit(&format!("{prefix}a"), Expect::At(third), Write::Delete).await.unwrap();
    let live = next(&mut stream).await.unwrap();
    assert_eq!((live.revision, live.value), (fourth, None));
}

async fn one_of_many_writers_wins(storage: &Arc<dyn Storage>, prefix: &str) {
    let writers = (0..16).map(|n| {
        let (storage, key) = (storage.clone(), format!("{prefix}once"));
        tokio::spawn(async move { storage.commit(&key, Expect::Absent, put(&n.to_string())).await.is_ok() })
    });
    let won = futures::future::join_all(writers.collect::<Vec<_>>()).await;
    assert_eq!(won.into_iter().filter(|won| *won.as_ref().unwrap()).count(), 1);
}

async fn freshness_covers_own_writes(storage: &dyn Storage, prefix: &str) {
    let start = storage.freshness(prefix).await.unwrap().revision;
    let mut stream = storage.watch(prefix, start);
    let written = storage.commit(&format!("{prefix}a"), Expect::Absent, put("1")).await.unwrap();
    let fresh = storage.freshness(prefix).await.unwrap();
    assert!(fresh.last_change >= written && fresh.revision >= fresh.last_change, "{fresh:?} {written:?}");
    assert_eq!(next(&mut stream).await.unwrap().revision, written);
    let beside = storage.commit("/registry/s-beside/x", Expect::Anything, put("1")).await.unwrap();
    let fresh = storage.freshness(prefix).await.unwrap();
    assert!(fresh.revision >= beside);
    assert_eq!(fresh.last_change, written, "a change elsewhere isn't one here");
}

async fn compacted_history_is_refused(storage: &dyn Storage, prefix: &str) {
    let first = storage.commit(&format!("{prefix}a"), Expect::Absent, put("1")).await.unwrap();
    let second = storage.commit(&format!("{prefix}a"), Expect::At(first), put("2")).await.unwrap();
    let third = storage.commit(&format!("{prefix}b"), Expect::Absent, put("3")).await.unwrap();
    storage.compact(third).await.unwrap();
    let old = ListRequest { revision: Some(second), ..ListRequest::all(prefix) };
    let refused = storage.list(old).await;
    assert!(matches!(refused, Err(StorageError::Compacted { .. })), "{refused:?}");
    let now = storage.list(ListRequest::all(prefix)).await.unwrap();
    assert_eq!(now.items.iter().map(|kv| kv.revision).collect::<Vec<_>>(), [second, third]);
    storage.compact(second).await.unwrap_or_default(); // older than what is forgotten already: nothing happens
    let mut stream = storage.watch(prefix, third);
    let fourth = storage.commit(&format!("{prefix}c"), Expect::Absent, put("4")).await.unwrap();
    assert_eq!(next(&mut stream).await.unwrap().revision, fourth);
}
