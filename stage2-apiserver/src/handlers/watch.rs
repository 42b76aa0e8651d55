//! WATCH: changes as they happen, one JSON line or protobuf frame each.
//!
//! *Step 2 of a pod's journey.* Before: a write was committed. After: the scheduler, the kubelet and every
//! controller that asked for it have it, milliseconds later.
//!
//! The frames come out of the cache encoded; a thousand watchers of the same pods send the same bytes. A watch ends when its
//! time is over, when its client can't keep up, when the server stops, or when its start has been forgotten; the
//! client then watches again from the last resourceVersion that it saw.
//!
//! The subtle thing: a start that is too old is no HTTP error. The answer is 200 and one ERROR event with code 410, since
//! client-go looks for it there.
//!
//! # Invariants
//! 1. A frame is one line (or has its length before it), and frames are never torn.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/handlers/watch.go`. Left out: watching over WebSocket.
#![expect(clippy::disallowed_methods, reason = "shell: spreads the ends of watches")]

use std::pin::Pin;
use std::time::Duration;

use bytes::Bytes;
use futures::{Stream, StreamExt, future, stream};
use http::{HeaderValue, Response, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};
use rand::RngExt;
use serde_json::{Value, json};
use stage1_kubectl::selector::FieldSelector;
use stage1_kubectl::status::Status;

use super::list::selector;
use super::options::ListOptions;
use super::respond::{Answer, BoxError, View, partial_metadata};
use super::selectors::check_field_selector;
use super::{Routed, clock, convert, prepare};
use crate::custom_resources::conversion::known::Prepared;
use crate::negotiation::{Format, PROTOBUF_WATCH, Transform};
use crate::protobuf;
use crate::registry::ResourceInfo;
use crate::storage::Revision;
use crate::table::render_table;
use crate::watch_cache::cached_object::bookmark;
use crate::watch_cache::{At, CacheEvent, CacheStream, WatchOptions, WatchStart};

/// Watches without `timeoutSeconds` end after this long, up to twice: all at once would be a stampede.
const MIN_REQUEST_TIMEOUT_SECONDS: u64 = 1800;

type Frames = Pin<Box<dyn Stream<Item = Bytes> + Send>>;

/// Streams what changes.
///
/// # Errors
/// 400 and 422 for bad options.
pub async fn handle(routed: &Routed<'_>) -> Result<Answer, Status> {
    let mut options = ListOptions::parse(&routed.context.query, true)?;
    check_field_selector(routed.resource, &options.field_selector)?;
    let name = routed.context.info.name.as_str();
    if !name.is_empty() && options.field_selector.is_empty() {
        // The old path of one object, `/api/v1/watch/…/pods/x`.
        options.field_selector = FieldSelector::equals("metadata.name", name);
    }
    let seconds = options.timeout_seconds.unwrap_or_else(|| {
        rand::rng().random_range(MIN_REQUEST_TIMEOUT_SECONDS..2 * MIN_REQUEST_TIMEOUT_SECONDS)
    });
    let watch = WatchOptions {
        scope: routed.resource.key_prefix(routed.context.namespace()),
        selector: selector(routed.resource, &options),
        start: start(&options)?,
        bookmarks: options.allow_watch_bookmarks,
        send_initial_events: options.send_initial_events == Some(true),
    };
    let cache = routed.context.server.stores.of(routed.resource).cacher().clone();
    let frames: Frames = match cache.watch(watch).await {
        Ok(events) => {
            let encoder = Encoder::new(routed);
            match routed.resource.custom_kind().is_some_and(|kind| kind.conversion.is_some()) {
                true => Box::pin(encoder.frames(prepared(routed, events))),
                false => Box::pin(encoder.frames(events.map(|event| Ok((event, Prepared::default()))))),
            }
        }
        Err(status) if status.code == 410 => {
            Box::pin(stream::once(future::ready(error_frame(routed.negotiated.format, &status))))
        }
        Err(status) => return Err(status),
    };
    Ok(answer(routed, frames, Duration::from_secs(seconds)))
}

/// Events whose objects a program has converted; the first that it can't ends the watch.
fn prepared(
    routed: &Routed<'_>,
    events: CacheStream,
) -> impl Stream<Item = Result<(CacheEvent, Prepared), Status>> + Send + use<> {
    let (server, resource) = (routed.context.server.clone(), routed.resource);
    let prepared = events.then(move |event| {
        let server = server.clone();
        async move {
            let made = match &event {
                CacheEvent::Object(_, cached) => {
                    prepare::made(&server, resource, &[&cached.object], &resource.group_version()).await?
                }
                CacheEvent::Bookmark { .. } => Prepared::default(),
            };
            Ok((event, made))
        }
    });
    prepared.scan(false, |is_over, item: Result<(CacheEvent, Prepared), Status>| {
        let last = std::mem::replace(is_over, item.is_err());
        future::ready((!last).then_some(item))
    })
}

/// Where the client left off.
fn start(options: &ListOptions) -> Result<WatchStart, Status> {
    let version = options.resource_version.as_str();
    let bad = || {
        Status::failure(
            500,
            "",
            format!(
                "resourceVersion: Invalid value: {version:?}: strconv.ParseUint: parsing {version:?}: invalid syntax"
            ),
        )
    };
    let number = || version.parse().map(Revision).map_err(|_| bad());
    Ok(match (version, options.send_initial_events) {
        ("", _) => WatchStart::Initial(At::Consistent),
        ("0", Some(false)) => WatchStart::Initial(At::Any),
        ("0", _) => WatchStart::Initial(At::Any),
        (_, Some(true)) => WatchStart::Initial(At::NotOlderThan(number()?)),
        _ => WatchStart::After(number()?),
    })
}

fn error_frame(format: Format, status: &Status) -> Bytes {
    frame(format, "ERROR", &json!(status))
}

/// An event around an object that is encoded for this watcher alone.
fn frame(format: Format, kind: &str, object: &Value) -> Bytes {
    if format == Format::Protobuf
        && let Ok(sealed) = protobuf::encode_object(object)
    {
        return protobuf::watch_frame(kind, &sealed);
    }
    Bytes::from(format!("{}\n", json!({ "type": kind, "object": object })))
}

/// Turns events into frames in the form that was negotiated.
struct Encoder {
    resource: &'static ResourceInfo,
    format: Format,
    transform: Transform,
    view: View,
    headers_sent: bool,
}

impl Encoder {
    fn new(routed: &Routed<'_>) -> Self {
        let transform = routed.negotiated.transform.clone();
        let format = routed.negotiated.format;
        Self { resource: routed.resource, format, transform, view: routed.view(), headers_sent: false }
    }

    fn frames(
        mut self,
        events: impl Stream<Item = Result<(CacheEvent, Prepared), Status>> + Send,
    ) -> impl Stream<Item = Bytes> + Send {
        events.map(move |event| match event {
            Ok((event, prepared)) => self.frame(&event, &prepared),
            Err(status) => error_frame(self.format, &status),
        })
    }

    fn frame(&mut self, event: &CacheEvent, prepared: &Prepared) -> Bytes {
        let api_version = self.resource.group_version();
        if self.transform == Transform::Plain && !convert::is_converted(self.resource) {
            match (self.format, event) {
                (Format::Protobuf, CacheEvent::Object(kind, cached)) => {
                    if let Some(frame) = cached.message_frame(*kind) {
                        return frame;
                    }
                }
                (Format::Protobuf, CacheEvent::Bookmark { .. }) => {}
                _ => return event.frame(&api_version, self.resource.kind),
            }
        }
        let (kind, object) = match event {
            CacheEvent::Object(kind, cached) => {
                (kind.as_str(), convert::to_served(self.resource, &cached.object, prepared).into_owned())
            }
            CacheEvent::Bookmark { revision, initial_events_end } => {
                ("BOOKMARK", bookmark(&api_version, self.resource.kind, *revision, *initial_events_end))
            }
        };
        let rendered = self.transform(kind, object.into_value());
        frame(self.format, kind, &rendered)
    }

    fn transform(&mut self, kind: &str, object: Value) -> Value {
        match &self.transform {
            Transform::Plain => object,
            Transform::PartialObjectMetadata(api) | Transform::PartialObjectMetadataList(api) => {
                partial_metadata(api, &object)
            }
            Transform::Table(api) => {
                // Ages are those of the event, not of the watch's beginning.
                self.view.now = clock();
                let options = self.view.table_options(api, self.headers_sent);
                let version = json!({ "resourceVersion": object.pointer("/metadata/resourceVersion") });
                let rows: &[&Value] = if kind == "BOOKMARK" { &[] } else { &[&object] };
                let table = render_table(self.view.group, self.view.kind, rows, version, &options);
                self.headers_sent = true;
                table
            }
        }
    }
}

/// The streaming answer: until the time is over or the server stops.
fn answer(routed: &Routed<'_>, frames: Frames, timeout: Duration) -> Answer {
    let gauge = routed.context.server.metrics.long_running.clone();
    gauge.inc();
    let running = Running(gauge);
    let stop = routed.context.server.shutdown.clone();
    let end = async move {
        tokio::select! {
            () = tokio::time::sleep(timeout) => {}
            () = stop.cancelled() => {}
        }
    };
    let lines = frames.take_until(end).map(move |line| {
        let _counted = &running;
        Ok::<_, BoxError>(Frame::data(line))
    });
    let mut response = Response::new(StreamBody::new(lines).boxed_unsync());
    let content_type =
        if routed.negotiated.format == Format::Protobuf { PROTOBUF_WATCH } else { "application/json" };
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(content_type));
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
    response
}

/// Counts a watch as long as its stream lives.
struct Running(prometheus_client::metrics::gauge::Gauge<i64, std::sync::atomic::AtomicI64>);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dec();
    }
}
