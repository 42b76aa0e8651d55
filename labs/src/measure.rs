//! Measuring: how fast a pipeline starts and rolls out, and what it costs while nothing happens.
//!
//! *All six steps of a pod's journey.* Each round has a fresh state directory, release binaries and processes of its own, as a
//! user's machine has; nothing of this program takes part but as a client.
//!
//! Three pipelines: the one that needs no package (simulated containers, embedded store), real containers with the embedded store,
//! and real containers with etcd. The first round of each isn't counted: it warms the page cache, which a user's second try has,
//! too. The figures are printed, not asserted: a busy machine is no bug.
//!
//! # Invariants
//! 1. A round that fails ends the measurement with its reason; no figure is made up.
//! 2. Nothing is left behind.
//!
//! # In Kubernetes
//! `perf-tests`. The aims are this project's.
#![expect(clippy::disallowed_methods, reason = "shell: writes the report")]

use std::io::Write as _;
use std::path::Path;
use std::time::Duration;

use anyhow::Context as _;
use serde_json::json;

use crate::options::MeasureFlags;

mod binaries;
mod cluster;
#[cfg(feature = "real")]
mod direct;
mod process;
mod report;
#[cfg(feature = "real")]
mod rollout;

use binaries::Programs;
use cluster::{Pipeline, Setup};
use report::{Figure, Unit};

/// Time that a fresh pipeline gets to finish what it began.
const SETTLE: Duration = Duration::from_secs(5);

/// Runs `labs measure` and returns the table and, as the last line, the JSON.
///
/// # Errors
/// A program can't be built, or a pipeline doesn't start, roll out or stop.
pub fn run(flags: &MeasureFlags) -> anyhow::Result<String> {
    let scratch = tempfile::Builder::new().prefix("six-measure").tempdir()?;
    let programs = binaries::find(flags, scratch.path())?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let figures = runtime.block_on(measure_all(flags, &programs, scratch.path()))?;
    let json = report::to_json(&figures, &machine()).to_string();
    if let Some(path) = &flags.json {
        std::fs::write(path, &json).with_context(|| format!("write {}", path.display()))?;
    }
    Ok(format!("{}\n{json}\n", report::table(&figures)))
}

/// For people who wait.
fn say(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}

async fn measure_all(
    flags: &MeasureFlags,
    programs: &Programs,
    scratch: &Path,
) -> anyhow::Result<Vec<Figure>> {
    let mut figures = Vec::new();
    let simulated =
        Kind { name: "simulated", program: &programs.featureless, args: &[], aim: 1.5, images: None };
    figures.extend(simulated.starts(flags.repeat).await?);
    figures.extend(simulated.idle(flags).await?);
    let Some(real) = &programs.real else {
        say("Built without --features labs/real: real containers and etcd are not measured");
        return Ok(figures);
    };
    let images = scratch.join("images");
    crate::image::command::write_presets(&images)?;
    let images = Some(images.as_path());
    let embedded =
        Kind { name: "embedded store", program: real, args: &["--store", "embedded"], aim: 1.5, images };
    figures.extend(embedded.starts(flags.repeat).await?);
    let etcd = Kind { name: "etcd", program: real, args: &["--store", "etcd"], aim: 3.0, images };
    figures.extend(etcd.starts(flags.repeat).await?);
    figures.extend(etcd.idle(flags).await?);
    #[cfg(feature = "real")]
    figures.extend(etcd.rollouts(flags.repeat, &programs.kubectl).await?);
    Ok(figures)
}

/// One kind of pipeline.
struct Kind<'a> {
    name: &'a str,
    program: &'a Path,
    args: &'a [&'a str],
    /// Seconds to Ready.
    aim: f64,
    /// Archives to import at the first start.
    images: Option<&'a Path>,
}

impl Kind<'_> {
    fn setup<'a>(&'a self, dir: &'a Path) -> Setup<'a> {
        Setup { program: self.program, dir, args: self.args }
    }

    /// A fresh state directory; with the images, as `labs/up` leaves it.
    fn fresh(&self) -> anyhow::Result<tempfile::TempDir> {
        let dir = tempfile::Builder::new().prefix("six-measure").tempdir()?;
        if let Some(images) = self.images {
            std::os::unix::fs::symlink(images, dir.path().join("images"))?;
        }
        Ok(dir)
    }

    /// First and second start in a state directory, `repeat` times.
    async fn starts(&self, repeat: u32) -> anyhow::Result<[Figure; 2]> {
        let figure = |which: &str| {
            Figure::new(format!("{}: {which} start to node Ready", self.name), Unit::Seconds, Some(self.aim))
        };
        let mut figures = [figure("first"), figure("second")];
        for round in 0..=repeat {
            let dir = self.fresh()?;
            let mut heartbeat = None;
            for figure in &mut figures {
                let pipeline = Pipeline::start(&self.setup(dir.path()), heartbeat).await?;
                let seconds = pipeline.start_time.as_secs_f64();
                say(&format!("{}: {seconds:.2} s{}", figure.name, not_counted(round)));
                if round > 0 {
                    figure.samples.push(seconds);
                }
                heartbeat = pipeline.heartbeat().await?;
                pipeline.stop().await?;
            }
        }
        Ok(figures)
    }

    /// What a pipeline costs while nothing happens, in three windows.
    async fn idle(&self, flags: &MeasureFlags) -> anyhow::Result<Vec<Figure>> {
        let dir = self.fresh()?;
        let pipeline = Pipeline::start(&self.setup(dir.path()), None).await?;
        tokio::time::sleep(SETTLE).await;
        // Images are still being imported: that is no rest.
        while process::children(pipeline.pid()).iter().any(|(_, program)| program == "ctr") {
            tokio::time::sleep(SETTLE).await;
        }
        let name = |what: &str| format!("{}: idle, {what}", self.name);
        let mut cpu = Figure::new(name("all six stages, CPU"), Unit::PercentOfACore, Some(2.0));
        let mut resident = Figure::new(name("all six stages, memory"), Unit::Mebibytes, Some(80.0));
        let mut anonymous = Figure::new(name("of that, not the program file"), Unit::Mebibytes, None);
        let mut others: Vec<(u32, Figure, Figure)> = process::children(pipeline.pid())
            .into_iter()
            .map(|(pid, program)| {
                let cpu = Figure::new(name(&format!("{program}, CPU")), Unit::PercentOfACore, None);
                (pid, cpu, Figure::new(name(&format!("{program}, memory")), Unit::Mebibytes, None))
            })
            .collect();
        let window = Duration::from_secs(flags.idle_seconds.max(1));
        for _ in 0..3 {
            let pids: Vec<u32> = std::iter::once(pipeline.pid()).chain(others.iter().map(|o| o.0)).collect();
            let before: Vec<_> = pids.iter().map(|pid| process::cpu_time(*pid).unwrap_or_default()).collect();
            tokio::time::sleep(window).await;
            let percent = |at: usize| {
                let used = process::cpu_time(pids[at]).unwrap_or_default().saturating_sub(before[at]);
                100.0 * used.as_secs_f64() / window.as_secs_f64()
            };
            let memory = process::memory(pipeline.pid()).context("the pipeline runs")?;
            cpu.samples.push(percent(0));
            resident.samples.push(memory.resident);
            anonymous.samples.push(memory.anonymous);
            say(&format!("{}: {:.2} % of a core, {:.1} MiB", self.name, percent(0), memory.resident));
            for (at, (pid, cpu, memory)) in others.iter_mut().enumerate() {
                cpu.samples.push(percent(at + 1));
                memory.samples.push(process::memory(*pid).map_or(0.0, |memory| memory.resident));
            }
        }
        pipeline.stop().await?;
        let others = others.into_iter().flat_map(|(_, cpu, memory)| [cpu, memory]);
        Ok([cpu, resident, anonymous].into_iter().chain(others).collect())
    }

    /// Rollouts of three replicas, each against the same pods by bare CRI calls.
    #[cfg(feature = "real")]
    async fn rollouts(&self, repeat: u32, kubectl: &Path) -> anyhow::Result<[Figure; 3]> {
        let name = |what: &str| format!("{}: three pods, {what}", self.name);
        let mut applies = Figure::new(name("kubectl apply to 3/3 Ready"), Unit::Seconds, None);
        let mut directs = Figure::new(name("the same by CRI calls in a row"), Unit::Seconds, None);
        let mut ratios = Figure::new(name("apply / CRI calls"), Unit::Ratio, Some(1.3));
        let dir = self.fresh()?;
        let pipeline = Pipeline::start(&self.setup(dir.path()), None).await?;
        for round in 0..=repeat {
            let apply = rollout::apply(&pipeline, kubectl).await?.as_secs_f64();
            let direct = direct::make_again(&pipeline, &rollout::pods(&pipeline).await?).await?.as_secs_f64();
            rollout::delete(&pipeline).await?;
            say(&format!("{}: apply {apply:.2} s, direct {direct:.2} s{}", self.name, not_counted(round)));
            if round > 0 {
                applies.samples.push(apply);
                directs.samples.push(direct);
                ratios.samples.push(apply / direct);
            }
        }
        pipeline.stop().await?;
        Ok([applies, directs, ratios])
    }
}

fn not_counted(round: u32) -> &'static str {
    if round == 0 { " (not counted)" } else { "" }
}

/// What the figures depend on most.
fn machine() -> serde_json::Value {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpu_info = read("/proc/cpuinfo");
    let model = cpu_info.lines().find_map(|line| line.strip_prefix("model name")).unwrap_or_default();
    json!({
        "cpus": std::thread::available_parallelism().map_or(1, usize::from),
        "model": model.trim_start_matches([' ', '\t', ':']),
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "loadAverage": read("/proc/loadavg").split_whitespace().take(3).collect::<Vec<_>>(),
    })
}
