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
