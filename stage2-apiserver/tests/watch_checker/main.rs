//! The watch checker: what 50 watchers saw while 8 clients wrote, connections broke, history was forgotten and the server was killed.
//!
//! Each watcher lists, watches from there, loses its connection at random, goes on from the last revision that it saw, and lists again
//! when that is gone (410). Afterwards [`history`] checks what each of them saw against what all of them saw and what the writers were
//! told: ordered, unique, nothing missing, nothing invented, resumable, bookmarks true. The seed is printed; `WATCH_SEED` repeats it.
//! `WATCH_KILLS` makes it longer.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test: starts and kills the server")]

mod history;
mod server;
mod watcher;
mod writer;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use history::History;
use server::Server;

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

#[tokio::test(flavor = "multi_thread")]
async fn watchers_see_every_change_once_and_in_order() {
    let seed = number("WATCH_SEED").unwrap_or_else(rand::random::<u32>);
    let kills = number("WATCH_KILLS").unwrap_or(KILLS);
    println!("watch checker: seed {seed}");
    let mut server = Server::start().await;
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
        if kill < kills {
            server.kill_and_start_again().await;
        }
    }
    stop_writing.send_replace(false);
    let mut acknowledged = Vec::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    let last = writer::markers(&client).await;
    stop_watching.send_replace(Some(last));
    let mut seen = Vec::new();
    for watcher in watchers {
        seen.push(watcher.await.unwrap());
    }
    let now = watcher::list(&client, &watcher::Scope::all()).await.unwrap();
    let history = Arc::new(History::of(&seen, &acknowledged));
    println!("watch checker: {} changes, {} acknowledged writes", history.len(), acknowledged.len());
    assert!(history.len() > 100, "too little happened to say anything");
    let mut wrong = Vec::new();
    for (number, watcher) in seen.iter().enumerate() {
        wrong.extend(history.check(watcher).into_iter().map(|why| format!("watcher {number}: {why}")));
    }
    // The first watchers are of everything.
    wrong.extend(history.check_acknowledged(&acknowledged, &seen[0]));
    wrong.extend(history::check_end(&seen[0], &now));
    assert!(wrong.is_empty(), "seed {seed}:\n{}", wrong.join("\n"));
    let restarts: usize = seen.iter().map(|watcher| watcher.resumed).sum();
    let relists: usize = seen.iter().map(|watcher| watcher.segments.len() - 1).sum();
    println!("watch checker: {restarts} resumed, {relists} listed again");
    assert!(restarts > 0, "no watch was ever resumed");
}
