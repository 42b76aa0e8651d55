//! Logs: the CRI log format, and what part of it was asked for.
//!
//! *Step 5 of a pod's journey.* Before: a log file that the runtime writes, `TIME STREAM TAGS content` a line. After: the lines that
//! `kubectl logs` prints.
//!
//! A line longer than 16 KiB is written in parts: tag `P` says that its newline is yet to come, `F` ends it. A part is printed without
//! a newline, so the reader sees the line as the program wrote it.
//!
//! # Invariants
//! 1. Bytes are passed on as they are: a log need not be text.
//! 2. `limitBytes` is never exceeded.
//!
//! # In Kubernetes
//! `cri-client/pkg/logs/logs.go`, `validateContainerLogStatus` in `kubelet_pods.go`. Left out: the docker JSON format.
#![expect(clippy::disallowed_methods, reason = "shell: reads the tail of a log")]

use std::io::{Read, Seek, SeekFrom};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, PodStatus};

/// What was asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogOptions {
    /// Last lines only.
    pub tail_lines: Option<usize>,
    /// Go on while the container runs.
    pub follow: bool,
    /// Nothing older.
    pub since: Option<Timestamp>,
    /// A time before each line.
    pub timestamps: bool,
    /// The container before the current one.
    pub previous: bool,
    /// Bytes at most.
    pub limit_bytes: Option<usize>,
    /// `Stdout`, `Stderr`, or both.
    pub stream: Option<String>,
}

/// Reads the query of a log request.
///
/// # Errors
/// A value is not what its key asks for.
pub fn parse_options(query: &str, now: Timestamp) -> Result<LogOptions, String> {
    let first = |key: &str| super::streams::query_values(query, key).next().filter(|v| !v.is_empty());
    let number = |key: &str| {
        let parse = |v: String| {
            v.parse::<i64>().map_err(|_| format!("Invalid value: \"{v}\": {key} must be an integer"))
        };
        first(key).map(parse).transpose()
    };
    let positive = |key: &str| -> Result<Option<usize>, String> {
        let value = number(key)?;
        Ok(value.map(|n| usize::try_from(n).unwrap_or(0)))
    };
    let ago = number("sinceSeconds")?.map(|s| now - SignedDuration::from_secs(s));
    let at = first("sinceTime").map(|t| t.parse::<Timestamp>().map_err(|e| e.to_string())).transpose()?;
    Ok(LogOptions {
        tail_lines: positive("tailLines")?,
        follow: super::streams::flag(query, "follow"),
        since: ago.or(at),
        timestamps: super::streams::flag(query, "timestamps"),
        previous: super::streams::flag(query, "previous"),
        limit_bytes: positive("limitBytes")?,
        stream: first("stream").filter(|s| s != "All"),
    })
}

/// The id of the container whose log was asked for.
///
/// # Errors
/// With the text that users see: it has no log yet, or no log any more.
pub fn container_log_id(status: &PodStatus, pod: &str, name: &str, previous: bool) -> Result<String, String> {
    let all = super::super::pod_status::all_container_statuses(status);
    let mut all = all.chain(status.ephemeral_container_statuses.iter().flatten());
    let named = |what: &str| format!("container \"{name}\" in pod \"{pod}\" {what}");
    let status: &ContainerStatus = all.find(|s| s.name == name).ok_or_else(|| named("is not available"))?;
    let last = status.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let last = last.and_then(|t| t.container_id.clone());
    let state = status.state.clone().unwrap_or_default();
    let id = if previous {
        return last
            .map(bare)
            .ok_or_else(|| format!("previous terminated container \"{name}\" in pod \"{pod}\" not found"));
    } else if state.running.is_some() {
        status.container_id.clone()
    } else if let Some(t) = state.terminated {
        t.container_id.or(last)
    } else if last.is_some() {
        last
    } else {
        let reason = state.waiting.and_then(|w| w.reason).unwrap_or_default();
        return Err(named(&match reason.as_str() {
            "ErrImagePull" => "is waiting to start: image can't be pulled".to_owned(),
            "ImagePullBackOff" => "is waiting to start: trying and failing to pull image".to_owned(),
            "" => "is waiting to start - no logs yet".to_owned(),
            reason => format!("is waiting to start: {reason}"),
        }));
    };
    id.map(bare).ok_or_else(|| named("is terminated"))
}

fn bare(id: String) -> String {
    id.split_once("://").map(|(_, id)| id.to_owned()).unwrap_or(id)
}

/// Turns raw log lines into what is printed.
#[derive(Clone, Debug)]
pub struct Renderer {
    options: LogOptions,
    left: Option<usize>,
    in_line: bool,
}

impl Renderer {
    /// For these options.
    pub fn new(options: LogOptions) -> Self {
        Renderer { left: options.limit_bytes, options, in_line: false }
    }

    /// Whether nothing more may be printed.
    pub fn is_full(&self) -> bool {
        self.left == Some(0)
    }

    /// One raw line (with its newline) as it is printed; appended to `out`.
    pub fn push(&mut self, raw: &[u8], out: &mut Vec<u8>) {
        let Some((time, stream, tags, content)) = split(raw) else { return };
        let unwanted = self.options.stream.as_ref().is_some_and(|s| !s.eq_ignore_ascii_case(stream));
        if unwanted
            || self.options.since.is_some_and(|since| time.parse::<Timestamp>().is_ok_and(|t| t < since))
        {
            return;
        }
        let begin = out.len();
        if self.options.timestamps && !self.in_line {
            out.extend_from_slice(time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(content);
        self.in_line = tags.split(':').next() == Some("P");
        if !self.in_line {
            out.push(b'\n');
        }
        if let Some(left) = &mut self.left {
            let used = (out.len() - begin).min(*left);
            out.truncate(begin + used);
            *left -= used;
        }
    }
}

fn split(raw: &[u8]) -> Option<(&str, &str, &str, &[u8])> {
    let raw = raw.strip_suffix(b"\n").unwrap_or(raw);
    let mut parts = raw.splitn(4, |b| *b == b' ');
    let mut word = || std::str::from_utf8(parts.next()?).ok();
    let (time, stream, tags) = (word()?, word()?, word()?);
    Some((time, stream, tags, parts.next().unwrap_or_default()))
}

/// Where the last `lines` lines of a file begin.
///
/// # Errors
/// The file can't be read.
pub fn tail_start(file: &mut std::fs::File, lines: usize) -> std::io::Result<u64> {
    const BLOCK: u64 = 4096;
    let end = file.seek(SeekFrom::End(0))?;
    let (mut at, mut seen) = (end, 0);
    let mut buffer = [0; BLOCK as usize];
    if lines == 0 {
        return Ok(end);
    }
    while at > 0 {
        let size = BLOCK.min(at);
        at -= size;
        file.seek(SeekFrom::Start(at))?;
        let block = &mut buffer[..usize::try_from(size).unwrap_or(0)];
        file.read_exact(block)?;
        for (i, byte) in block.iter().enumerate().rev() {
            let position = at + i as u64;
            // The newline at the very end closes the last line, it does not begin one.
            if *byte == b'\n' && position + 1 < end {
                seen += 1;
                if seen == lines {
                    return Ok(position + 1);
                }
            }
        }
    }
    Ok(0)
}

/// The last lines of a log as they are printed; empty when there is none.
pub fn tail_of_file(path: &str, lines: usize) -> Vec<u8> {
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(path)?;
        let start = tail_start(&mut file, lines)?;
        file.seek(SeekFrom::Start(start))?;
        let mut raw = Vec::new();
        file.take(1 << 20).read_to_end(&mut raw)?;
        let (mut renderer, mut out) = (Renderer::new(LogOptions::default()), Vec::new());
        raw.split_inclusive(|b| *b == b'\n').for_each(|line| renderer.push(line, &mut out));
        Ok(out)
    };
    read().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const LOG: &str = "2026-11-30T03:58:13.5Z stdout F line 1\n2026-11-30T03:58:14.5Z stdout P lin\n2026-11-30T03:58:14.6Z stdout F e 2\n2026-11-30T03:58:15.5Z stderr F \n";

    fn render(options: LogOptions) -> String {
        let (mut r, mut out) = (Renderer::new(options), Vec::new());
        LOG.split_inclusive('\n').for_each(|l| r.push(l.as_bytes(), &mut out));
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn parts_are_joined_and_options_cut() {
        assert_eq!(render(LogOptions::default()), "line 1\nline 2\n\n");
        assert_eq!(render(LogOptions { limit_bytes: Some(9), ..Default::default() }), "line 1\nli");
        assert_eq!(
            render(LogOptions {
                timestamps: true,
                since: Some("2026-11-30T03:58:14Z".parse().unwrap()),
                ..Default::default()
            }),
            "2026-11-30T03:58:14.5Z line 2\n2026-11-30T03:58:15.5Z \n"
        );
        assert_eq!(render(LogOptions { stream: Some("Stderr".into()), ..Default::default() }), "\n");
    }

    #[test]
    fn the_tail_begins_at_a_line() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("log");
        std::fs::write(&path, LOG).unwrap();
        let mut file = std::fs::File::open(&path).unwrap();
        let mut from = |n| LOG[usize::try_from(tail_start(&mut file, n).unwrap()).unwrap()..].lines().count();
        assert_eq!([from(0), from(1), from(3), from(4), from(9)], [0, 1, 3, 4, 4]);
        assert_eq!(tail_of_file(path.to_str().unwrap(), 2), b"e 2\n\n");
    }

    #[test]
    fn a_waiting_container_says_why_it_has_no_log() {
        let status = |state: serde_json::Value| -> PodStatus {
            serde_json::from_value(
                json!({"containerStatuses": [{"name": "c", "image": "i", "imageID": "", "ready": false,
                "restartCount": 0, "containerID": "containerd://1", "state": state}]}),
            )
            .unwrap()
        };
        let waiting = |r: &str| {
            container_log_id(&status(json!({"waiting": {"reason": r}})), "p", "c", false).unwrap_err()
        };
        assert_eq!(
            waiting("ContainerCreating"),
            "container \"c\" in pod \"p\" is waiting to start: ContainerCreating"
        );
        assert_eq!(
            waiting("ImagePullBackOff"),
            "container \"c\" in pod \"p\" is waiting to start: trying and failing to pull image"
        );
        let running = status(json!({"running": {}}));
        assert_eq!(container_log_id(&running, "p", "c", false).unwrap(), "1");
        assert_eq!(
            container_log_id(&running, "p", "c", true).unwrap_err(),
            "previous terminated container \"c\" in pod \"p\" not found"
        );
    }
}
