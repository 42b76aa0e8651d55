//! What a commit, a list and a watch event cost. `cargo bench -p stage2-apiserver`.

use std::sync::Arc;

use bytes::Bytes;
use divan::Bencher;
use divan::counter::ItemsCount;
use futures::StreamExt;
use stage2_apiserver::storage::embedded::EmbeddedStorage;
use stage2_apiserver::storage::memory::MemoryStorage;
use stage2_apiserver::storage::{Expect, Storage, Write};
use stage2_apiserver::watch_cache::{At, Cacher, ListOptions, WatchOptions, WatchStart};
use tokio::runtime::Runtime;

const PREFIX: &str = "/registry/pods/";

fn main() {
    divan::main();
}

fn pod(name: usize) -> Bytes {
    let padding = "x".repeat(1000);
    Bytes::from(format!(r#"{{"metadata":{{"name":"p{name}","annotations":{{"a":"{padding}"}}}}}}"#))
}

async fn put(storage: &dyn Storage, n: usize) {
    let key = format!("{PREFIX}default/p{n}");
    storage.commit(&key, Expect::Anything, Write::Put(pod(n))).await.expect("the store takes it");
}

/// Writers at a time: with group commit, 64 of them wait for the disk little more often than one.
#[divan::bench(args = [1, 16, 64], sample_count = 20, sample_size = 1)]
fn embedded_commits(bencher: Bencher, writers: usize) {
    let runtime = Runtime::new().expect("a runtime");
    let dir = tempfile::tempdir().expect("a directory");
    let storage = Arc::new(EmbeddedStorage::open(&dir.path().join("store.redb")).expect("a store"));
    const EACH: usize = 16;
    bencher.counter(ItemsCount::new(writers * EACH)).bench_local(|| {
        let tasks: Vec<_> = (0..writers)
            .map(|writer| {
                let storage = storage.clone();
                runtime.spawn(async move {
                    for n in 0..EACH {
                        put(&*storage, writer * EACH + n).await;
                    }
                })
            })
            .collect();
        runtime.block_on(futures::future::join_all(tasks));
    });
}

fn cache(runtime: &Runtime, objects: usize) -> (Arc<dyn Storage>, Arc<Cacher>) {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::default());
    let cacher = runtime.block_on(async {
        for n in 0..objects {
            put(&*storage, n).await;
        }
        let cacher = Cacher::start(storage.clone(), PREFIX);
        cacher.wait_for(At::Consistent).await.expect("the cache fills");
        cacher
    });
    (storage, cacher)
}

/// A consistent list of everything, and a page of it.
#[divan::bench(args = [0, 500])]
fn cache_list_of_5000(bencher: Bencher, limit: usize) {
    let runtime = Runtime::new().expect("a runtime");
    let (_storage, cacher) = cache(&runtime, 5000);
    let scope = PREFIX.into();
    let options =
        ListOptions { scope, selector: None, at: At::Consistent, limit, continue_token: String::new() };
    bencher.bench_local(|| runtime.block_on(cacher.list(&options)).expect("a list").items.len());
}

/// From a commit until the last of so many watchers has the event.
#[divan::bench(args = [1, 100, 1000])]
fn fan_out(bencher: Bencher, watchers: usize) {
    let runtime = Runtime::new().expect("a runtime");
    let (storage, cacher) = cache(&runtime, 1);
    let options = WatchOptions {
        scope: PREFIX.into(),
        selector: None,
        start: WatchStart::After(cacher.revision()),
        bookmarks: false,
        send_initial_events: false,
    };
    let mut streams: Vec<_> =
        (0..watchers).map(|_| runtime.block_on(cacher.watch(options.clone())).expect("a watch")).collect();
    bencher.counter(ItemsCount::new(watchers)).bench_local(|| {
        runtime.block_on(async {
            put(&*storage, 0).await;
            for stream in &mut streams {
                stream.next().await.expect("the event");
            }
        });
    });
}
