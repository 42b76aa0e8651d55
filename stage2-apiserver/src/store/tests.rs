//! The store over a memory storage.
//!
//! # In Kubernetes
//! `apiserver/pkg/registry/generic/registry/store_test.go`.

use std::future::ready;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;

use super::*;
use crate::storage::memory::MemoryStorage;

fn store(resource: &str) -> Store {
    let caches = Caches::new(Arc::new(MemoryStorage::default()));
    Stores::new(caches).of(crate::registry::find("", "v1", resource).unwrap())
}

fn object(name: &str) -> Object {
    Object::from_value(json!({"metadata": {"name": name, "namespace": "default", "uid": "u1"}})).unwrap()
}

const NS: Option<&str> = Some("default");

fn set(
    key: &'static str,
    value: &'static str,
) -> impl FnMut(Arc<CachedObject>) -> std::future::Ready<Result<Object, Status>> {
    move |current| {
        let mut changed = current.object.clone();
        changed.set(&format!("/data/{key}"), value);
        ready(Ok(changed))
    }
}

#[tokio::test]
async fn an_object_is_created_once_and_read_back() {
    let store = store("configmaps");
    let created = store.create(object("a"), false).await.unwrap();
    assert_eq!(created.object.resource_version(), "1");
    let again = store.create(object("a"), false).await.unwrap_err();
    assert_eq!(again.message, "configmaps \"a\" already exists");
    let read = store.get(NS, "a", At::Consistent).await.unwrap();
    assert_eq!(read.object, created.object);
    let missing = store.get(NS, "b", At::Consistent).await.unwrap_err();
    assert_eq!(missing.message, "configmaps \"b\" not found");
}

#[tokio::test]
async fn a_dry_run_writes_nothing() {
    let store = store("configmaps");
    let tried = store.create(object("a"), true).await.unwrap();
    assert_eq!(tried.object.resource_version(), "");
    assert_eq!(store.get(NS, "a", At::Consistent).await.unwrap_err().code, 404);
    store.create(object("a"), false).await.unwrap();
    assert_eq!(store.create(object("a"), true).await.unwrap_err().code, 409);
    let tried = store.update(NS, "a", true, set("k", "v")).await.unwrap();
    assert_eq!(tried.object().object.get_str("/data/k"), Some("v"));
    assert_eq!(store.get(NS, "a", At::Consistent).await.unwrap().object.get("/data"), None);
}

#[tokio::test]
async fn many_updates_at_once_lose_nothing() {
    let store = store("configmaps");
    store.create(object("a"), false).await.unwrap();
    let updates = (0..32).map(|n| {
        let store = store.clone();
        tokio::spawn(async move {
            let change = |current: Arc<CachedObject>| {
                let mut changed = current.object.clone();
                changed.set(&format!("/data/k{n}"), "v");
                ready(Ok(changed))
            };
            store.update(NS, "a", false, change).await.unwrap();
        })
    });
    for update in updates.collect::<Vec<_>>() {
        update.await.unwrap();
    }
    let read = store.get(NS, "a", At::Consistent).await.unwrap();
    assert_eq!(read.object.string_map("/data").len(), 32);
}

#[tokio::test]
async fn an_update_that_changes_nothing_writes_nothing() {
    let store = store("configmaps");
    let created = store.create(object("a"), false).await.unwrap();
    let same = |current: Arc<CachedObject>| ready(Ok(current.object.clone()));
    let updated = store.update(NS, "a", false, same).await.unwrap();
    assert_eq!(updated.object().revision, created.revision);
}

#[tokio::test]
async fn a_refusal_is_only_believed_about_the_present() {
    let store = store("configmaps");
    store.create(object("a"), false).await.unwrap();
    store.cacher().wait_for(At::Consistent).await.unwrap();
    let asked = AtomicUsize::new(0);
    let refuse = |_| {
        asked.fetch_add(1, Ordering::SeqCst);
        ready(Err(Status::modified("configmaps", "a")))
    };
    assert_eq!(store.update(NS, "a", false, refuse).await.unwrap_err().code, 409);
    assert_eq!(asked.load(Ordering::SeqCst), 2, "once for the cache's state, once for the store's");
}

#[tokio::test]
async fn an_object_goes_with_its_last_finalizer() {
    let store = store("configmaps");
    let mut held = object("a");
    held.set_finalizers(&["example.com/wait"]);
    store.create(held, false).await.unwrap();
    let request = DeleteRequest::at("2026-01-01T00:00:00Z".parse().unwrap());
    let policy = DeletionPolicy::default();
    let admit = |_| ready(Ok(()));
    let deleted = store.delete(NS, "a", &request, &policy, admit).await.unwrap();
    assert!(matches!(deleted, Deleted::Pending(_)));
    let release = |current: Arc<CachedObject>| {
        let mut changed = current.object.clone();
        changed.set_finalizers(&[]);
        ready(Ok(changed))
    };
    let updated = store.update(NS, "a", false, release).await.unwrap();
    assert!(matches!(updated, Updated::Removed(_)), "{updated:?}");
    assert_eq!(store.get(NS, "a", At::Consistent).await.unwrap_err().code, 404);
    let gone = store.delete(NS, "a", &request, &policy, admit).await.unwrap_err();
    assert_eq!(gone.code, 404);
}

#[tokio::test]
async fn watchers_see_an_object_with_no_time_left_before_it_is_gone() {
    let store = store("pods");
    let mut pod = object("a");
    pod.set("/spec/nodeName", "n");
    pod.set("/spec/terminationGracePeriodSeconds", 30);
    store.create(pod, false).await.unwrap();
    let policy = DeletionPolicy { graceful: true, orphan_by_default: false };
    let mut request = DeleteRequest::at(jiff::Timestamp::UNIX_EPOCH);
    let pending = store.delete(NS, "a", &request, &policy, |_| ready(Ok(()))).await.unwrap();
    assert!(matches!(pending, Deleted::Pending(_)));
    assert_eq!(pending.object().revision, Revision(2));
    request.grace_period_seconds = Some(0);
    let gone = store.delete(NS, "a", &request, &policy, |_| ready(Ok(()))).await.unwrap();
    assert!(matches!(gone, Deleted::Removed(_)));
    // 3: no time left; 4: gone.
    assert_eq!(gone.object().revision, Revision(4));
    assert_eq!(gone.object().object.get_i64("/metadata/deletionGracePeriodSeconds"), Some(0));
    assert_eq!(store.get(NS, "a", At::Consistent).await.unwrap_err().code, 404);
}
