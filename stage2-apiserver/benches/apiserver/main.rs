//! What the server as a whole costs: a real process, TLS, client certificates, all gates, and etcd with fsync behind it.
//!
//! `cargo bench -p stage2-apiserver --features etcd --bench apiserver [-- --quick]`
//!
//! Load and server share the machine, as they did when the stock server was measured; ratios against etcd's own puts are taken in
//! the same run, with the same bytes. Without the feature the embedded store is measured, and there are no such ratios.
//!
//! # In Kubernetes
//! `perf-tests/clusterloader2` and etcd's `tools/benchmark`.
#![allow(clippy::disallowed_methods, reason = "measures: starts processes, reads the clock")]

mod load;
mod report;
mod server;
mod watches;

use std::time::{Duration, Instant};

use load::{Load, MAPS};
use report::{Report, milliseconds};
use server::Server;

/// How much is done.
struct Scale {
    sequential: usize,
    parallel: usize,
    lists: [usize; 2],
    watchers: usize,
    spell: Duration,
}

const FULL: Scale = Scale {
    sequential: 2000,
    parallel: 20_000,
    lists: [5000, 50_000],
    watchers: 1000,
    spell: Duration::from_secs(20),
};
const QUICK: Scale = Scale {
    sequential: 200,
    parallel: 2000,
    lists: [500, 5000],
    watchers: 100,
    spell: Duration::from_secs(3),
};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let scale = if std::env::args().any(|argument| argument == "--quick") { QUICK } else { FULL };
    let mut report = Report::new();
    let server = Server::start().await?;
    report.row("start to ready", &format!("{:.2} s", server.start_time.as_secs_f64()), "0.2 s");
    tokio::time::sleep(Duration::from_secs(3)).await;
    report.row("memory, idle", &format!("{:.0} MB", server.memory()?.resident), "30 MB");

    writes_and_reads(&server, &scale, &mut report).await?;
    lists(&server, &scale, &mut report).await?;
    watches::measure(&server, scale.watchers, scale.spell, &mut report).await?;
    report.row("memory, at the end", &format!("{:.0} MB", server.memory()?.resident), "");
    server.stop().await
}

/// Creates and gets of ConfigMaps of 1 KB, one after another and 16 at a time.
async fn writes_and_reads(server: &Server, scale: &Scale, report: &mut Report) -> anyhow::Result<()> {
    let load = Load::new(server, "load")?;
    load.namespace().await?;
    load.create(0..200, 16).await?; // caches, connections, pages
    let mut at = 1000;
    for (workers, count, stock) in [(1, scale.sequential, 827.0), (16, scale.parallel, 2383.0)] {
        let before = server.cpu_time()?;
        let done = load.create(at..at + count, workers).await?;
        at += count;
        let cpu = (server.cpu_time()? - before) / u32::try_from(count)?;
        let what = format!("creates, {workers} at a time");
        report.rate(&what, &done, cpu, &format!("{:.0}/s, 0.12 ms CPU", 2.0 * stock));
        if let Some(bare) = server.etcd_puts(load::body("bare", "p1").len(), count, workers).await? {
            let ratio = done.per_second() / bare.per_second();
            report.row(
                &format!("etcd alone, {workers} at a time"),
                &format!("{:.0}/s", bare.per_second()),
                "",
            );
            report.row(
                &format!("{what}: ratio"),
                &format!("{ratio:.2}"),
                if workers > 1 { "0.8" } else { "" },
            );
        }
    }
    for (workers, count, aim) in [(1, scale.sequential, ""), (16, scale.parallel, "7488/s")] {
        let before = server.cpu_time()?;
        let done = load.get(1000..1000 + count, workers).await?;
        let cpu = (server.cpu_time()? - before) / u32::try_from(count)?;
        report.rate(&format!("gets, {workers} at a time"), &done, cpu, aim);
    }
    Ok(())
}

/// Whole lists: time to the last byte, and what they need above the server at rest.
async fn lists(server: &Server, scale: &Scale, report: &mut Report) -> anyhow::Result<()> {
    for (count, aim) in scale.lists.into_iter().zip(["7.5 ms", "500 ms, 100 MB"]) {
        let load = Load::new(server, &format!("list-{count}"))?;
        load.namespace().await?;
        load.create(0..count, 16).await?;
        tokio::time::sleep(Duration::from_secs(1)).await;
        for (form, accept) in
            [("JSON", "application/json"), ("protobuf", "application/vnd.kubernetes.protobuf")]
        {
            let resting = server.memory()?.resident;
            server.forget_peak()?;
            let mut times = Vec::new();
            let mut bytes = 0;
            for _ in 0..5 {
                let started = Instant::now();
                bytes = load.read(&format!("/api/v1/namespaces/list-{count}/{MAPS}"), accept).await?;
                times.push(started.elapsed());
            }
            times.sort();
            let above = server.memory()?.peak - resting;
            let said = format!(
                "{} (median of 5; {:.1} MB long, peak {above:.0} MB above rest)",
                milliseconds(times[2]),
                bytes as f64 / 1e6
            );
            report.row(&format!("list of {count}, {form}"), &said, aim);
        }
    }
    Ok(())
}
