//! Watches: what one costs at rest, how long a write takes to all of them, and what they do to other requests.
//!
//! # In Kubernetes
//! No counterpart.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::ensure;
use bytes::Bytes;
use http::Request;
use http_body_util::BodyExt;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::load::{Done, Load, MAPS};
use super::report::{Report, milliseconds};
use super::server::Server;

/// Watches that share a connection.
const EACH: usize = 50;
const NAMESPACE: &str = "watched";

/// Measures all of it.
pub async fn measure(
    server: &Server,
    watchers: usize,
    spell: Duration,
    report: &mut Report,
) -> anyhow::Result<()> {
    let load = Load::new(server, NAMESPACE)?;
    load.namespace().await?;
    load.create(0..1, 1).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = server.memory()?.anonymous;
    let (heard, mut hearing) = mpsc::unbounded_channel();
    let watching = watch(server, watchers, &heard).await?;
    tokio::time::sleep(Duration::from_secs(1)).await;
    let each = (server.memory()?.anonymous - before) * 1000.0 / watchers as f64;
    report.row(&format!("memory of an idle watch (of {watchers})"), &format!("{each:.1} kB"), "20 kB");

    let (mut times, cpu) = (Vec::new(), server.cpu_time()?);
    for round in 0..20 {
        let started = Instant::now();
        load.create(100 + round..101 + round, 1).await?;
        for _ in 0..watchers {
            ensure!(hearing.recv().await.is_some(), "a watch ended");
        }
        times.push(started.elapsed());
    }
    let cpu = (server.cpu_time()? - cpu) / 20;
    let done = Done::new(Duration::from_secs(1), times);
    let said = format!("{} (median of 20), {} CPU each", milliseconds(done.quantile(0.5)), milliseconds(cpu));
    report.row(&format!("one write to {watchers} watchers"), &said, "");
    drop(watching);

    let (busy, mut events) = mpsc::unbounded_channel();
    let watching = watch(server, watchers / 2, &busy).await?;
    let counting = tokio::spawn(async move { while events.recv().await.is_some() {} });
    let done = beside_writes(&load, spell).await?;
    let said =
        format!("median {}, p99 {}", milliseconds(done.quantile(0.5)), milliseconds(done.quantile(0.99)));
    report.row(&format!("gets beside 20 writes/s and {} watchers", watchers / 2), &said, "");
    drop((watching, busy));
    counting.await?;
    Ok(())
}

/// Opens watches from now on; each event is told.
async fn watch(
    server: &Server,
    watchers: usize,
    heard: &mpsc::UnboundedSender<()>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let open = Arc::new(Semaphore::new(0));
    let mut tasks = JoinSet::new();
    let mut client = server.client()?;
    for number in 0..watchers {
        if number % EACH == 0 {
            client = server.client()?;
        }
        let (client, heard, open) = (client.clone(), heard.clone(), open.clone());
        tasks.spawn(async move {
            let path = format!("/api/v1/namespaces/{NAMESPACE}/{MAPS}?watch=1&resourceVersion=0");
            let mut body = client.stream(Request::get(path).body(Bytes::new())?).await?.into_body();
            let mut first = true;
            while let Some(frame) = body.frame().await {
                let frame = frame?;
                let events = frame.data_ref().map_or(0, |data| events_in(data));
                // The objects that are there already come first, in one go or in several.
                if first {
                    first = false;
                    open.add_permits(1);
                    continue;
                }
                for _ in 0..events {
                    let _ = heard.send(());
                }
            }
            Ok(())
        });
    }
    open.acquire_many(u32::try_from(watchers)?).await?.forget();
    Ok(tasks)
}

/// An event is a line.
fn events_in(data: &[u8]) -> usize {
    data.iter().filter(|byte| **byte == b'\n').count()
}

/// Gets, one after another, while 20 objects a second are written.
async fn beside_writes(load: &Load, spell: Duration) -> anyhow::Result<Done> {
    let writer = load.clone();
    let writing = tokio::spawn(async move {
        let mut tick = tokio::time::interval(Duration::from_millis(50));
        let started = Instant::now();
        let mut number = 1000;
        while started.elapsed() < spell {
            tick.tick().await;
            writer.create(number..number + 1, 1).await?;
            number += 1;
        }
        anyhow::Ok(())
    });
    let (started, mut each) = (Instant::now(), Vec::new());
    while !writing.is_finished() {
        let begun = Instant::now();
        load.get(0..1, 1).await?;
        each.push(begun.elapsed());
    }
    writing.await??;
    Ok(Done::new(started.elapsed(), each))
}
