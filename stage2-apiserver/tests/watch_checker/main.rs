//! The watch checker: what 50 watchers saw while 8 clients wrote, connections broke, history was forgotten and the server was killed.
//!
//! Each watcher lists, watches from there, loses its connection at random, goes on from the last revision that it saw, and lists again
//! when that is gone (410). Afterwards [`history`] checks what each of them saw against what all of them saw and what the writers were
//! told: ordered, unique, nothing missing, nothing invented, resumable, bookmarks true. With etcd as its store, the server's etcd is killed,
//! too, and must come back. The seed is printed; `WATCH_SEED` repeats it. `WATCH_KILLS` makes it longer.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: starts and kills the server")]

mod history;
mod server;
mod watcher;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Mutex, watch};
use tokio::time::sleep;

use history::History;
use server::{Server, Store};
use writer::Told;

const WRITERS: u64 = 8;
const WATCHERS: u64 = 50;
/// Watchers of everything that hold their connections as long as the server lets them.
const ANCHORS: u64 = 4;
/// How long it goes on between kills.
const ROUND: Duration = Duration::from_millis(2500);
const KILLS: usize = 2;

fn number<T: std::str::FromStr>(variable: &str) -> Option<T> {
    std::env::var(variable).ok()?.parse().ok()
}

/// One at a time: each keeps the machine busy.
static TURN: Mutex<()> = Mutex::const_new(());

#[tokio::test(flavor = "multi_thread")]
async fn watchers_see_every_change_once_and_in_order() {
    check(Store::Embedded).await;
}

#[cfg(feature = "etcd")]
#[tokio::test(flavor = "multi_thread")]
async fn watchers_see_every_change_once_and_in_order_when_etcd_is_killed() {
    if !["/usr/bin/etcd", "/usr/local/bin/etcd"].iter().any(|path| std::path::Path::new(path).exists()) {
        assert!(std::env::var_os("STAGES_REQUIRE_REAL").is_none(), "etcd is required but not installed");
        println!("skipped: no etcd");
        return;
    }
    check(Store::Etcd).await;
}

async fn check(store: Store) {
    let _turn = TURN.lock().await;
    let seed = number("WATCH_SEED").unwrap_or_else(rand::random::<u32>);
    let kills = number("WATCH_KILLS").unwrap_or(KILLS);
    println!("watch checker: {store:?}, seed {seed}");
    let mut server = Server::start(store).await;
    let client = server.client();
    let (stop_writing, writing) = watch::channel(true);
    let (stop_watching, watching) = watch::channel(None);
    let writers: Vec<_> = (0..WRITERS)
        .map(|n| tokio::spawn(writer::run(client.clone(), u64::from(seed) + n, writing.clone())))
        .collect();
    let watchers: Vec<_> = (0..WATCHERS)
        .map(|n| {
            let (seed, is_anchor) = (u64::from(seed) + 1000 + n, n < ANCHORS);
            tokio::spawn(watcher::run(client.clone(), seed, is_anchor, watching.clone()))
        })
        .collect();
    for kill in 0..=kills {
        sleep(ROUND / 2).await;
        server.compact(&client).await;
        sleep(ROUND / 2).await;
        let is_etcds_turn = store == Store::Etcd && (seed as usize).wrapping_add(kill).is_multiple_of(2);
        match kill < kills {
            true if is_etcds_turn => server.kill_etcd().await,
            true => server.kill_and_start_again().await,
            false => {}
        }
    }
    stop_writing.send_replace(false);
    let mut told = Told::default();
    for writer in writers {
        told.join(writer.await.unwrap());
    }
    let last = writer::markers(&client).await;
    stop_watching.send_replace(Some(last));
    let mut seen = Vec::new();
    for watcher in watchers {
        seen.push(watcher.await.unwrap());
    }
    let now = watcher::list(&client, &watcher::Scope::all()).await.unwrap();
    let history = Arc::new(History::of(&seen, &told.writes));
    println!("watch checker: {} changes, {} acknowledged writes", history.len(), told.writes.len());
    assert!(history.len() > 100, "too little happened to say anything");
    let mut wrong = Vec::new();
    for (number, watcher) in seen.iter().enumerate() {
        wrong.extend(history.check(watcher).into_iter().map(|why| format!("watcher {number}: {why}")));
    }
    // The first watchers are of everything.
    wrong.extend(history.check_acknowledged(&told, &seen[0]));
    wrong.extend(history::check_end(&seen[0], &now));
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
    let restarts: usize = seen.iter().map(|watcher| watcher.resumed).sum();
    let relists: usize = seen.iter().map(|watcher| watcher.segments.len() - 1).sum();
    println!("watch checker: {restarts} resumed, {relists} listed again");
    assert!(restarts > 0, "no watch was ever resumed");
}
