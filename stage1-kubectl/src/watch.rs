//! Watch: the stream of changes after a list.
//!
//! *All steps of a pod's journey.* Before: a list at some version. After: every component hears what changes, in order.
//!
//! A watch is one long answer: a line of JSON per change. TCP cuts it anywhere, so a framer collects pieces into lines
//! ([`LineFramer`], pure), and each line becomes a [`WatchEvent`]. The object is decoded straight from the line into its
//! type, without an intermediate tree: with thousands of pods that is where the time goes.
//!
//! The subtle thing: an error arrives *inside* the stream, as an event with a `Status`. `410 Expired` means: the version
//! is older than the server's history; list again.
//!
//! # Invariants
//! 1. A line never grows beyond [`MAX_EVENT_BYTES`].
//! 2. Events come out in the order in which the server sent them.
//!
//! # In Kubernetes
//! `apimachinery/pkg/watch/{watch,streamwatcher}.go`, `client-go/rest/watch/decoder.go`.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::marker::PhantomData;

use bytes::{Buf, Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use http_body_util::BodyExt;
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use crate::client::ClientError;
use crate::status::Status;

/// The longest line that is accepted: larger than any object that a server stores.
pub const MAX_EVENT_BYTES: usize = 16 << 20;

/// One change.
// ANCHOR: watch-event
#[derive(Debug, Clone, PartialEq)]
#[expect(clippy::large_enum_variant, reason = "the objects in it are larger")]
pub enum WatchEvent<K> {
    /// The object is new (or new to this selection).
    Added(K),
    /// The object changed.
    Modified(K),
    /// The object is gone (or left this selection); its last state.
    Deleted(K),
    /// Nothing changed, but the version moved on.
    Bookmark(Bookmark),
    /// The watch failed.
    Error(Status),
}
// ANCHOR_END: watch-event

/// A version to go on from.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// The version.
    pub resource_version: String,
    /// `k8s.io/initial-events-end` marks the end of the objects that existed.
    pub annotations: BTreeMap<String, String>,
}

impl Bookmark {
    fn from_value(object: &Value) -> Self {
        let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
        let annotations = object.pointer("/metadata/annotations").and_then(Value::as_object);
        Bookmark {
            resource_version: object.pointer("/metadata/resourceVersion").map(text).unwrap_or_default(),
            annotations: annotations.into_iter().flatten().map(|(k, v)| (k.clone(), text(v))).collect(),
        }
    }

    /// Whether the objects that existed have all been sent.
    pub fn is_initial_events_end(&self) -> bool {
        self.annotations.get("k8s.io/initial-events-end").is_some_and(|v| v == "true")
    }
}

impl<'de, K: DeserializeOwned> Deserialize<'de> for WatchEvent<K> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(EventVisitor(PhantomData))
    }
}

struct EventVisitor<K>(PhantomData<fn() -> K>);

/// Decodes the object with the type that the event's type asks for. Servers write `type` first; if not, the object waits as a tree.
impl<'de, K: DeserializeOwned> Visitor<'de> for EventVisitor<K> {
    type Value = WatchEvent<K>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a watch event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        use serde::de::Error;
        let (mut kind, mut early, mut event) = (None::<String>, None::<Value>, None);
        while let Some(key) = map.next_key::<String>()? {
            match (key.as_str(), kind.as_deref()) {
                ("type", _) => kind = Some(map.next_value()?),
                ("object", None) => early = Some(map.next_value()?),
                ("object", Some("ADDED")) => event = Some(WatchEvent::Added(map.next_value()?)),
                ("object", Some("MODIFIED")) => event = Some(WatchEvent::Modified(map.next_value()?)),
                ("object", Some("DELETED")) => event = Some(WatchEvent::Deleted(map.next_value()?)),
                ("object", Some(_)) => early = Some(map.next_value()?),
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        if let Some(event) = event {
            return Ok(event);
        }
        let object = early.unwrap_or_default();
        let typed = |object| serde_json::from_value(object).map_err(A::Error::custom);
        match kind.as_deref() {
            Some("ADDED") => Ok(WatchEvent::Added(typed(object)?)),
            Some("MODIFIED") => Ok(WatchEvent::Modified(typed(object)?)),
            Some("DELETED") => Ok(WatchEvent::Deleted(typed(object)?)),
            Some("BOOKMARK") => Ok(WatchEvent::Bookmark(Bookmark::from_value(&object))),
            Some("ERROR") => serde_json::from_value(object).map(WatchEvent::Error).map_err(A::Error::custom),
            other => Err(A::Error::custom(format!("unknown watch event type {other:?}"))),
        }
    }
}

/// Collects pieces of a stream into lines.
#[derive(Debug)]
pub struct LineFramer {
    pending: BytesMut,
    scanned: usize,
    lines: VecDeque<Bytes>,
    max_line_bytes: usize,
}

impl LineFramer {
    /// A framer that refuses longer lines.
    pub fn new(max_line_bytes: usize) -> Self {
        LineFramer { pending: BytesMut::new(), scanned: 0, lines: VecDeque::new(), max_line_bytes }
    }

    /// Takes a piece.
    ///
    /// # Errors
    /// [`ClientError::EventTooLarge`] when the line that is being collected is too long.
    pub fn push(&mut self, piece: &[u8]) -> Result<(), ClientError> {
        self.pending.extend_from_slice(piece);
        while let Some(at) = self.pending[self.scanned..].iter().position(|b| *b == b'\n') {
            let line = self.pending.split_to(self.scanned + at).freeze();
            self.pending.advance(1);
            self.scanned = 0;
            if line.len() > self.max_line_bytes {
                return Err(ClientError::EventTooLarge(self.max_line_bytes));
            }
            if !line.trim_ascii().is_empty() {
                self.lines.push_back(line);
            }
        }
        self.scanned = self.pending.len();
        match self.pending.len() > self.max_line_bytes {
            true => Err(ClientError::EventTooLarge(self.max_line_bytes)),
            false => Ok(()),
        }
    }

    /// The next whole line, without its end.
    pub fn next_line(&mut self) -> Option<Bytes> {
        self.lines.pop_front()
    }
}

/// The events in the body of a watch's answer. After an error the stream ends.
pub fn decode_events<K, B>(
    body: B,
    server: String,
) -> impl Stream<Item = Result<WatchEvent<K>, ClientError>> + Send
where
    K: DeserializeOwned + Send,
    B: http_body::Body<Data = Bytes, Error: std::error::Error + 'static> + Send + Unpin,
{
    lines(body, server).map(|line| {
        let line = line?;
        serde_json::from_slice(&line)
            .map_err(|source| ClientError::Decode { what: "the watch's event".into(), source })
    })
}

/// The lines of a body. After an error the stream ends.
pub fn lines<B>(body: B, server: String) -> impl Stream<Item = Result<Bytes, ClientError>> + Send
where
    B: http_body::Body<Data = Bytes, Error: std::error::Error + 'static> + Send + Unpin,
{
    let state = Some((body, LineFramer::new(MAX_EVENT_BYTES), server));
    stream::unfold(state, |state| async move {
        let (mut body, mut framer, server) = state?;
        loop {
            if let Some(line) = framer.next_line() {
                return Some((Ok(line), Some((body, framer, server))));
            }
            match body.frame().await? {
                Ok(frame) => {
                    if let Some(piece) = frame.data_ref()
                        && let Err(error) = framer.push(piece)
                    {
                        return Some((Err(error), None));
                    }
                }
                Err(error) => return Some((Err(ClientError::interrupted(&server, &error)), None)),
            }
        }
    })
}

#[cfg(test)]
mod tests;
