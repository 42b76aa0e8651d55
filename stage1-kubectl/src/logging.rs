//! Logging: where the lines go.
//!
//! *All steps of a pod's journey.* Every program of the pipeline calls [`init`] once, first thing in main.
//!
//! `-v` has Kubernetes' meaning (0 quiet … 4 debug … 6 every request) and is mapped to tracing's levels. Events with the
//! target [`crate::journey::TARGET`] go to the journey file and nowhere else.
//!
//! # Invariants
//! 1. A journey line is written by one `write` to a file opened for appending, so lines of several processes don't mix.
//!
//! # In Kubernetes
//! `component-base/logs`. Left out: flushing, contextual loggers; `--vmodule` is
//! kubectl's alone ([`crate::client::round_trippers`]).

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::PathBuf;
use std::sync::Arc;

use tracing::field::{Field, Visit};
use tracing::{Event, Subscriber};
use tracing_subscriber::filter::{FilterFn, LevelFilter, Targets};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::util::SubscriberInitExt;

use crate::journey;

/// How a line looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For programs.
    Json,
}

/// Where to log and how much.
#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Kubernetes' `-v`.
    pub v: u8,
    /// How a line looks.
    pub format: LogFormat,
    /// A file instead of stderr.
    pub file: Option<PathBuf>,
    /// Where journey steps are appended.
    pub journey_file: Option<PathBuf>,
}

/// Starts logging for the process. A second call does nothing (several stages in one process, tests).
///
/// # Errors
/// When a log file can't be opened.
pub fn init(options: &LogOptions) -> io::Result<()> {
    let level = match options.v {
        0..=2 => LevelFilter::INFO,
        3..=5 => LevelFilter::DEBUG,
        _ => LevelFilter::TRACE,
    };
    // Libraries below us are only interesting when something is wrong with them.
    let ours = Targets::new().with_default(level).with_targets([
        ("hyper", LevelFilter::WARN),
        ("hyper_util", LevelFilter::WARN),
        ("h2", LevelFilter::WARN),
        ("rustls", LevelFilter::WARN),
        ("tonic", LevelFilter::WARN),
        ("tower", LevelFilter::WARN),
        (journey::TARGET, LevelFilter::OFF),
    ]);
    let writer: Arc<dyn Fn() -> Box<dyn Write> + Send + Sync> = match &options.file {
        None => Arc::new(|| Box::new(io::stderr())),
        Some(path) => {
            let file = Arc::new(append(path)?);
            Arc::new(move || Box::new(SharedFile(file.clone())))
        }
    };
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || writer());
    let lines = match options.format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    let journey = match &options.journey_file {
        Some(path) => {
            Some(JourneyLayer(append(path)?).with_filter(FilterFn::new(|m| m.target() == journey::TARGET)))
        }
        None => None,
    };
    // Fails when a subscriber is installed already: that one stays.
    let _ = tracing_subscriber::registry().with(lines.with_filter(ours)).with(journey).try_init();
    Ok(())
}

fn append(path: &PathBuf) -> io::Result<File> {
    if let Some(dir) = path.parent() {
        crate::state_dir::make_private(dir)?;
    }
    OpenOptions::new().create(true).append(true).open(path)
}

/// One file for all threads; `&File` can write.
struct SharedFile(Arc<File>);

impl Write for SharedFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        (&*self.0).write(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes journey events as JSON lines.
struct JourneyLayer(File);

impl<S: Subscriber> Layer<S> for JourneyLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut fields = Fields(serde_json::Map::new());
        event.record(&mut fields);
        let mut line = serde_json::Value::Object(fields.0).to_string();
        line.push('\n');
        // A full disk must not stop the cluster.
        let _ = (&self.0).write_all(line.as_bytes());
    }
}

struct Fields(serde_json::Map<String, serde_json::Value>);

impl Visit for Fields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_i64(&mut self, field: &Field, value: i64) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_u64(&mut self, field: &Field, value: u64) {
        self.0.insert(field.name().into(), value.into());
    }
    fn record_debug(&mut self, field: &Field, value: &dyn std::fmt::Debug) {
        self.0.insert(field.name().into(), format!("{value:?}").into());
    }
}
