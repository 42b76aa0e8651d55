//! The log stream: a file, from where it was asked, as long as it was asked.
//!
//! *Step 5 of a pod's journey.* Before: `/containerLogs/…`. After: bytes, while the container runs and somebody listens.
//!
//! Following looks at the file ten times a second, and only while someone follows. A rotated file is read to its end before the new one
//! is opened.
//!
//! # Invariants
//! 1. A reader that went away costs nothing more.
//! 2. Everything that the container wrote before it ended is sent before the stream ends.
//!
//! # In Kubernetes
//! `getContainerLogs` in `server.go`, `ReadLogs` in `cri-client/pkg/logs/logs.go`. Left out: inotify.
#![expect(clippy::disallowed_methods, reason = "shell: reads files")]

use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Response, StatusCode};
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Pod;
use stage3_controllers::indexer::NamespacedName;
use tokio::io::{AsyncReadExt, AsyncSeekExt, BufReader};
use tokio::sync::mpsc;

use super::logs::{LogOptions, Renderer, container_log_id, parse_options, tail_start};
use super::{Body, text};
use crate::cri::ContainerState;
use crate::kubelet::Kubelet;
use crate::pod::{PodExt, find_container};

/// Pause between two looks at a file that is followed.
const POLL: Duration = Duration::from_millis(100);
/// Looks without news before the container's state is asked for.
const QUIET_LOOKS: u32 = 5;
/// Bytes sent at once.
const CHUNK: usize = 32 << 10;
/// Longest raw line that is kept in memory; the runtime splits at 16 KiB.
const MAX_LINE: usize = 1 << 20;

/// Answers `/containerLogs/{ns}/{pod}/{container}`.
pub(super) async fn container_logs(
    kubelet: &Arc<Kubelet>,
    ns: &str,
    name: &str,
    container: &str,
    query: &str,
) -> Response<Body> {
    let options = match parse_options(query, jiff::Timestamp::now()) {
        Ok(options) => options,
        Err(why) => return text(StatusCode::UNPROCESSABLE_ENTITY, why),
    };
    let Some(pod) = kubelet.pods.get(&NamespacedName::new(ns, name)) else {
        return text(StatusCode::NOT_FOUND, format!("pod \"{name}\" not found\n"));
    };
    if find_container(&pod, container).is_none() {
        return text(
            StatusCode::NOT_FOUND,
            format!("container \"{container}\" not found in pod \"{name}\"\n"),
        );
    }
    let found = locate(kubelet, &pod, container, &options).await;
    let (id, path) = match found {
        Ok(found) => found,
        Err(why) => return text(StatusCode::BAD_REQUEST, why),
    };
    let (send, receive) = mpsc::channel::<Bytes>(8);
    let kubelet = kubelet.clone();
    tokio::spawn(async move {
        if let Err(error) = copy(&kubelet, &id, &path, options, &send).await {
            tracing::debug!(path, %error, "Reading a log failed");
        }
    });
    let frames = futures::stream::unfold(receive, |mut r| async move {
        let bytes = r.recv().await?;
        Some((Ok::<_, std::io::Error>(Frame::data(bytes)), r))
    });
    let mut response = Response::new(StreamBody::new(frames).boxed());
    let plain = http::HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(http::header::CONTENT_TYPE, plain);
    response
}

async fn locate(
    kubelet: &Kubelet,
    pod: &Pod,
    container: &str,
    options: &LogOptions,
) -> Result<(String, String), String> {
    let known = kubelet.status.get(pod.pod_uid()).or_else(|| pod.status.clone()).unwrap_or_default();
    let id = container_log_id(&known, pod.pod_name(), container, options.previous)?;
    let status = kubelet.runtime.container_status(&id).await;
    let status = status.map_err(|e| {
        format!("unable to retrieve container logs for {}://{id}: {e}", kubelet.runtime.scheme())
    })?;
    Ok((id, status.log_path))
}

struct Reader {
    file: BufReader<tokio::fs::File>,
    inode: u64,
    /// A line whose end was not written yet.
    pending: Vec<u8>,
}

impl Reader {
    async fn open(path: &str, tail: Option<usize>) -> std::io::Result<Self> {
        let mut file = std::fs::File::open(path)?;
        let start = tail.map_or(Ok(0), |n| tail_start(&mut file, n))?;
        let inode = file.metadata()?.ino();
        let mut file = tokio::fs::File::from_std(file);
        file.seek(std::io::SeekFrom::Start(start)).await?;
        Ok(Reader { file: BufReader::new(file), inode, pending: Vec::new() })
    }

    /// Reads what is there; complete lines go through `renderer`.
    async fn read(&mut self, renderer: &mut Renderer, out: &mut Vec<u8>) -> std::io::Result<usize> {
        let mut buffer = vec![0; CHUNK];
        let n = self.file.read(&mut buffer).await?;
        self.pending.extend_from_slice(&buffer[..n]);
        while let Some(end) = self.pending.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = self.pending.drain(..=end).collect();
            renderer.push(&line, out);
        }
        if self.pending.len() > MAX_LINE {
            self.pending.clear();
        }
        Ok(n)
    }
}

async fn copy(
    kubelet: &Kubelet,
    id: &str,
    path: &str,
    options: LogOptions,
    send: &mpsc::Sender<Bytes>,
) -> std::io::Result<()> {
    let mut reader = Reader::open(path, options.tail_lines).await?;
    let follow = options.follow;
    let mut renderer = Renderer::new(options);
    let mut out = Vec::new();
    let (mut quiet, mut ended) = (0, false);
    while !renderer.is_full() {
        let n = reader.read(&mut renderer, &mut out).await?;
        if !out.is_empty() && send.send(Bytes::from(std::mem::take(&mut out))).await.is_err() {
            return Ok(());
        }
        if n > 0 {
            quiet = 0;
            continue;
        }
        if !follow || ended {
            return Ok(());
        }
        if std::fs::metadata(path).is_ok_and(|m| m.ino() != reader.inode) {
            reader = Reader::open(path, None).await?;
            continue;
        }
        quiet += 1;
        if quiet % QUIET_LOOKS == 0 {
            // One more read after it ended: it may have written in between.
            let state = kubelet.runtime.container_status(id).await.map(|s| s.state);
            ended = !matches!(state, Ok(ContainerState::Running | ContainerState::Created));
        }
        tokio::select! {
            () = tokio::time::sleep(POLL) => {}
            () = send.closed() => return Ok(()),
        }
    }
    Ok(())
}
