//! The embedded store keeps its promises on a real disk, killed without warning.
//!
//! # In Kubernetes
//! etcd's robustness tests do this to whole clusters.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::io::{BufRead, BufReader};
use std::process::{Command as Process, Stdio};
use std::sync::Arc;

use super::*;

#[tokio::test]
async fn embedded_storage_passes_the_suite() {
    let dir = tempfile::tempdir().unwrap();
    let storage = EmbeddedStorage::open(&dir.path().join("store.redb")).unwrap();
    crate::storage::suite::run(Arc::new(storage), "/registry/").await;
}

#[tokio::test]
async fn a_reopened_store_goes_on_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let put = |text: &'static str| Write::Put(Bytes::from_static(text.as_bytes()));
    let last = {
        let storage = EmbeddedStorage::open(&path).unwrap();
        storage.commit("/r/a", Expect::Absent, put("1")).await.unwrap();
        storage.commit("/r/b", Expect::Absent, put("2")).await.unwrap();
        let deleted = storage.commit("/r/b", Expect::Anything, Write::Delete).await.unwrap();
        storage.compact(deleted).await.unwrap();
        deleted
    };
    let storage = EmbeddedStorage::open(&path).unwrap();
    let page = storage.list(ListRequest::all("/r/")).await.unwrap();
    assert_eq!(page.revision, last, "the revision of a compacted deletion is not given twice");
    assert_eq!(page.items.len(), 1);
    assert_eq!(storage.commit("/r/c", Expect::Absent, put("3")).await.unwrap(), Revision(last.0 + 1));
    let missed: Vec<_> = storage.watch("/r/", last).take(1).collect().await;
    assert_eq!(missed[0].as_ref().unwrap().key, "/r/c");
}

#[tokio::test]
async fn a_file_of_another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    drop(EmbeddedStorage::open(&path).unwrap());
    let database = Database::create(&path).unwrap();
    let write = database.begin_write().unwrap();
    write.open_table(META).unwrap().insert("format", 9).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = EmbeddedStorage::open(&path).err().unwrap();
    assert_eq!(error.to_string(), "storage unavailable: the store's file has format 9, this version reads 1");
}

/// Not a test of its own: what the child process of the next test runs.
#[test]
#[ignore = "run by killed_store_has_every_acknowledged_write in a process of its own"]
fn writer_child() {
    let path = std::env::var_os("STAGES_TEST_STORE").unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let storage = Arc::new(EmbeddedStorage::open(Path::new(&path)).unwrap());
    let writers = (0..8).map(|writer| {
        let storage = storage.clone();
        runtime.spawn(async move {
            for n in 0.. {
                let key = format!("/r/{writer}/{n}");
                let value = Write::Put(Bytes::from(key.clone()));
                let revision = storage.commit(&key, Expect::Absent, value).await.unwrap();
                println!("\nack {key} {revision}");
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        runtime.block_on(writer).unwrap();
    }
}

#[tokio::test]
async fn killed_store_has_every_acknowledged_write() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let mut child = Process::new(std::env::current_exe().unwrap())
        .args(["--exact", "storage::embedded::tests::writer_child", "--ignored", "--nocapture"])
        .env("STAGES_TEST_STORE", &path)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let mut acknowledged = Vec::new();
    for line in lines {
        let line = line.unwrap();
        let Some(ack) = line.strip_prefix("ack ") else { continue };
        let (key, revision) = ack.split_once(' ').unwrap();
        let Ok(revision) = revision.parse() else { continue };
        acknowledged.push((key.to_owned(), Revision(revision)));
        if acknowledged.len() == 500 {
            child.kill().unwrap(); // SIGKILL, in the middle of whatever it is doing
        }
    }
    child.wait().unwrap();
    assert!(acknowledged.len() >= 500);

    let storage = EmbeddedStorage::open(&path).unwrap();
    for (key, revision) in acknowledged {
        let found = storage.get(&key).await.unwrap();
        let want = KeyValue { key: key.clone(), value: Bytes::from(key), revision };
        assert_eq!(found, Some(want));
    }
}
