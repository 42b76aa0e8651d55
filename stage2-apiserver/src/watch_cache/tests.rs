//! The cache over a memory storage: freshness, pages, watches, views.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/cacher/cacher_test.go`.

use bytes::Bytes;
use serde_json::json;

use super::*;
use crate::storage::memory::MemoryStorage;
use crate::storage::{Expect, WatchItem, Write};

const PREFIX: &str = "/registry/pods/";

async fn put(storage: &dyn Storage, name: &str, label: &str) -> Revision {
    let object = json!({"metadata": {"name": name, "labels": {"app": label}}});
    let value = Write::Put(Bytes::from(object.to_string()));
    storage.commit(&format!("{PREFIX}{name}"), Expect::Anything, value).await.unwrap()
}

async fn delete(storage: &dyn Storage, name: &str) -> Revision {
    storage.commit(&format!("{PREFIX}{name}"), Expect::Anything, Write::Delete).await.unwrap()
}

fn start() -> (Arc<dyn Storage>, Arc<Cacher>) {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let cacher = Cacher::start(storage.clone(), PREFIX);
    (storage, cacher)
}

fn all(at: At) -> ListOptions {
    ListOptions { scope: PREFIX.into(), selector: None, at, limit: 0, continue_token: String::new() }
}

fn names(listed: &Listed) -> Vec<String> {
    listed.items.iter().map(|cached| cached.key.trim_start_matches(PREFIX).to_owned()).collect()
}

fn watching(start: WatchStart) -> WatchOptions {
    let scope = PREFIX.into();
    WatchOptions { scope, selector: None, start, bookmarks: false, send_initial_events: false }
}

fn app(label: &'static str) -> Option<Predicate> {
    Some(Arc::new(move |object: &Object| object.label("app") == Some(label)))
}

async fn next(stream: &mut CacheStream) -> String {
    let next = tokio::time::timeout(Duration::from_secs(10), stream.next()).await;
    match next.expect("an event in time").expect("the stream goes on") {
        CacheEvent::Object(kind, cached) => {
            assert_eq!(cached.object.resource_version(), cached.revision.to_string());
            format!(
                "{} {} {}",
                kind.as_str(),
                &cached.key[PREFIX.len()..],
                cached.object.label("app").unwrap()
            )
        }
        CacheEvent::Bookmark { initial_events_end, .. } => format!("BOOKMARK {initial_events_end}"),
    }
}

#[tokio::test]
async fn a_consistent_list_sees_every_write_before_it() {
    let (storage, cacher) = start();
    for n in 0..50 {
        let written = put(&*storage, &format!("p{n:02}"), "a").await;
        let listed = cacher.list(&all(At::Consistent)).await.unwrap();
        assert_eq!((listed.items.len(), listed.revision), (n + 1, written));
    }
    // A write elsewhere moves the revision, and the cache learns it without an event.
    let beside = storage
        .commit("/registry/nodes/n", Expect::Absent, Write::Put(Bytes::from_static(b"{}")))
        .await
        .unwrap();
    assert_eq!(cacher.list(&all(At::Consistent)).await.unwrap().revision, beside);
    assert_eq!(cacher.list(&all(At::NotOlderThan(beside))).await.unwrap().items.len(), 50);
    let future = cacher.list(&all(At::NotOlderThan(Revision(999)))).await.unwrap_err();
    assert_eq!(future.message, "Timeout: Too large resource version: 999, current: 51");
}

#[tokio::test]
async fn a_list_in_pieces_shows_one_moment() {
    let (storage, cacher) = start();
    for name in ["a", "b", "c", "d", "e"] {
        put(&*storage, name, "x").await;
    }
    let mut options = ListOptions { limit: 2, ..all(At::Consistent) };
    let first = cacher.list(&options).await.unwrap();
    assert_eq!((names(&first), first.remaining), (vec!["a".into(), "b".into()], Some(3)));
    put(&*storage, "bb", "late").await;
    delete(&*storage, "d").await;
    options.continue_token = first.continue_token.unwrap();
    let second = cacher.list(&options).await.unwrap();
    assert_eq!((names(&second), second.remaining), (vec!["c".into(), "d".into()], Some(1)));
    assert_eq!(second.revision, first.revision);
    options.continue_token = second.continue_token.unwrap();
    let third = cacher.list(&options).await.unwrap();
    assert_eq!((names(&third), third.continue_token), (vec!["e".into()], None));
}

#[tokio::test]
async fn a_piece_of_a_forgotten_moment_is_refused_with_a_way_on() {
    let (storage, cacher) = start();
    for name in ["a", "b", "c"] {
        put(&*storage, name, "x").await;
    }
    let mut options = ListOptions { limit: 1, ..all(At::Consistent) };
    let first = cacher.list(&options).await.unwrap();
    let now = put(&*storage, "d", "late").await;
    storage.compact(now).await.unwrap();
    options.continue_token = first.continue_token.unwrap();
    let refusal = cacher.list(&options).await.unwrap_err();
    assert_eq!((refusal.code, refusal.reason.as_str()), (410, "Expired"));
    options.continue_token = refusal.metadata["continue"].as_str().unwrap().to_owned();
    options.limit = 0;
    assert_eq!(names(&cacher.list(&options).await.unwrap()), ["b", "c", "d"]);
}

#[tokio::test]
async fn a_selector_with_a_limit_fills_its_piece() {
    let (storage, cacher) = start();
    for n in 0..10 {
        put(&*storage, &format!("p{n}"), if n % 2 == 0 { "even" } else { "odd" }).await;
    }
    let mut options = ListOptions { limit: 3, selector: app("even"), ..all(At::Consistent) };
    let first = cacher.list(&options).await.unwrap();
    assert_eq!((names(&first), first.remaining), (vec!["p0".into(), "p2".into(), "p4".into()], None));
    options.continue_token = first.continue_token.unwrap();
    let second = cacher.list(&options).await.unwrap();
    assert_eq!(names(&second), ["p6", "p8"]);
}

#[tokio::test]
async fn a_watcher_sees_its_view_change() {
    let (storage, cacher) = start();
    put(&*storage, "a", "mine").await;
    let mut options = watching(WatchStart::Initial(At::Consistent));
    options.selector = app("mine");
    let mut stream = cacher.watch(options).await.unwrap();
    assert_eq!(next(&mut stream).await, "ADDED a mine");
    put(&*storage, "b", "theirs").await;
    put(&*storage, "a", "mine").await;
    assert_eq!(next(&mut stream).await, "MODIFIED a mine");
    let left = put(&*storage, "a", "theirs").await;
    let event = stream.next().await.unwrap();
    let CacheEvent::Object(EventType::Deleted, cached) = event else { panic!("{event:?}") };
    assert_eq!(cached.object.label("app"), Some("mine"), "the last state in view");
    assert_eq!(cached.object.resource_version(), left.to_string(), "at the revision at which it left");
    put(&*storage, "b", "mine").await;
    assert_eq!(next(&mut stream).await, "ADDED b mine");
    delete(&*storage, "b").await;
    assert_eq!(next(&mut stream).await, "DELETED b mine");
}

#[tokio::test]
async fn a_watch_goes_on_after_a_revision_or_is_told_that_it_is_too_old() {
    let (storage, cacher) = start();
    cacher.list(&all(At::Consistent)).await.unwrap();
    let first = put(&*storage, "a", "1").await;
    put(&*storage, "a", "2").await;
    put(&*storage, "b", "1").await;
    cacher.wait_for(At::Consistent).await.unwrap();
    let mut stream = cacher.watch(watching(WatchStart::After(first))).await.unwrap();
    assert_eq!(next(&mut stream).await, "MODIFIED a 2");
    assert_eq!(next(&mut stream).await, "ADDED b 1");
    let mut silent = cacher.watch(watching(WatchStart::After(Revision(5)))).await.unwrap();
    for n in 0..WINDOW {
        put(&*storage, "a", &format!("{n}")).await;
    }
    cacher.wait_for(At::Consistent).await.unwrap();
    let refusal = cacher.watch(watching(WatchStart::After(first))).await.err().unwrap();
    assert_eq!((refusal.code, refusal.message), (410, "too old resource version: 1 (3)".into()));
    assert_eq!(next(&mut silent).await, "MODIFIED a 2", "revisions 4 and 5 were before its start");
}

#[tokio::test]
async fn initial_events_end_with_a_marked_bookmark() {
    let (storage, cacher) = start();
    put(&*storage, "a", "1").await;
    let options = WatchOptions { send_initial_events: true, ..watching(WatchStart::Initial(At::Consistent)) };
    let mut stream = cacher.watch(options).await.unwrap();
    assert_eq!(next(&mut stream).await, "ADDED a 1");
    assert_eq!(next(&mut stream).await, "BOOKMARK true");
    let end = CacheEvent::Bookmark { revision: Revision(1), initial_events_end: true }.frame("v1", "Pod");
    let want = r#"{"type":"BOOKMARK","object":{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"k8s.io/initial-events-end":"true"},"creationTimestamp":null,"resourceVersion":"1"}}}"#;
    assert_eq!(std::str::from_utf8(&end).unwrap(), format!("{want}\n"));
}

#[tokio::test]
async fn a_watcher_that_sleeps_is_ended_and_the_others_go_on() {
    let (storage, cacher) = start();
    let mut sleeper = cacher.watch(watching(WatchStart::Initial(At::Consistent))).await.unwrap();
    for n in 0..5000 {
        put(&*storage, "a", &n.to_string()).await;
        if n % 1000 == 0 {
            cacher.wait_for(At::Consistent).await.unwrap();
        }
    }
    cacher.wait_for(At::Consistent).await.unwrap();
    let mut heard = 0;
    while sleeper.next().await.is_some() {
        heard += 1;
    }
    assert_eq!(heard, 4096, "what was queued arrives, then the stream ends");
    let mut fresh = cacher.watch(watching(WatchStart::Initial(At::Any))).await.unwrap();
    assert_eq!(next(&mut fresh).await, "ADDED a 4999");
}

#[tokio::test]
async fn an_idle_watcher_hears_how_far_it_is() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let cacher = Cacher::start_with(storage.clone(), PREFIX, Duration::from_millis(5));
    let options = WatchOptions { bookmarks: true, ..watching(WatchStart::Initial(At::Consistent)) };
    let mut stream = cacher.watch(options).await.unwrap();
    let value = Write::Put(Bytes::from_static(b"{}"));
    let beside = storage.commit("/registry/nodes/n", Expect::Absent, value).await.unwrap();
    let event = tokio::time::timeout(Duration::from_secs(10), stream.next()).await.unwrap().unwrap();
    let CacheEvent::Bookmark { revision, initial_events_end: false } = event else { panic!("{event:?}") };
    assert_eq!(revision, beside, "progress without an event of its own");
}

#[test]
fn a_quiet_hour_leaves_the_last_hundred_events_and_a_busy_minute_all() {
    let mut window = window::Window::new(WINDOW);
    let mut revision = 0;
    let mut changes = |window: &mut window::Window, count: usize| {
        for _ in 0..count {
            revision += 1;
            let value = Some(Bytes::from_static(b"{\"metadata\":{}}"));
            window.apply(WatchItem {
                key: "/a/x".into(),
                value,
                revision: Revision(revision),
                previous: None,
            });
        }
    };
    let oldest = |window: &window::Window| window.since(Revision(0)).err();
    changes(&mut window, 500);
    window.forget_old();
    assert_eq!(oldest(&window), None, "they may have come a second ago");
    changes(&mut window, 20);
    window.forget_old();
    assert_eq!(oldest(&window), Some(Revision(420)), "a hundred stay, though eighty of them are old");
    changes(&mut window, 300);
    window.forget_old();
    window.forget_old();
    assert_eq!(oldest(&window), Some(Revision(720)));
    assert_eq!(window.since(Revision(720)).unwrap().count(), window::LEAST);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn who_waits_for_freshness_and_who_writes_never_wait_for_each_other() {
    const WRITES: usize = 3000;
    let (storage, cacher) = start();
    let writer = tokio::spawn(async move {
        for number in 0..WRITES {
            put(&*storage, &format!("p{}", number % 10), "a").await;
        }
    });
    let readers = (0..8).map(|_| {
        let cacher = cacher.clone();
        tokio::spawn(async move {
            for _ in 0..WRITES {
                cacher.wait_for(At::Consistent).await.expect("fresh");
            }
        })
    });
    let all = futures::future::join_all(readers.chain([writer]));
    let ended = tokio::time::timeout(Duration::from_secs(60), all).await;
    ended.expect("nobody hangs").into_iter().for_each(|task| task.expect("no panic"));
}
