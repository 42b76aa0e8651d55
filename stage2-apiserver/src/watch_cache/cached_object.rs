//! Cached objects: decoded once, encoded once, shared by everyone.
//!
//! *Step 2 of a pod's journey.* Before: the store's bytes. After: lists and watch frames that go out as they are.
//!
//! The resourceVersion isn't part of the stored bytes (it isn't known before the commit): it is put in here, once. JSON and watch
//! frames are made when somebody first needs them; with a thousand watchers the other 999 copy a pointer.
//!
//! # Invariants
//! 1. `object.resource_version()` is `revision`.
//!
//! # In Kubernetes
//! `apiserver/pkg/storage/cacher/caching_object.go`. Left out: YAML and tables (handlers make them
//! themselves).

use std::sync::{Arc, OnceLock};

use bytes::{BufMut, Bytes, BytesMut};
use stage1_kubectl::object::Object;

use super::CacheEvent;
use crate::protobuf;
use crate::storage::Revision;

// ANCHOR: cached-object
/// An object at a revision.
#[derive(Debug)]
pub struct CachedObject {
    /// Its storage key.
    pub key: Arc<str>,
    /// The object, with its resourceVersion.
    pub object: Object,
    /// The write that made it so.
    pub revision: Revision,
    encoded: OnceLock<Bytes>,
    frames: [OnceLock<Bytes>; 3],
    message: OnceLock<Option<Bytes>>,
    message_frames: [OnceLock<Option<Bytes>>; 3],
}

/// What happened to an object, in the words of the watch protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum EventType {
    /// It is new (to the watcher).
    Added,
    /// It changed.
    Modified,
    /// It is gone (for the watcher).
    Deleted,
}
// ANCHOR_END: cached-object

impl EventType {
    /// `ADDED`, `MODIFIED`, `DELETED`.
    pub fn as_str(self) -> &'static str {
        match self {
            EventType::Added => "ADDED",
            EventType::Modified => "MODIFIED",
            EventType::Deleted => "DELETED",
        }
    }
}

impl CachedObject {
    /// Takes an object and gives it its resourceVersion.
    pub fn new(key: impl Into<Arc<str>>, mut object: Object, revision: Revision) -> Self {
        object.set_resource_version(&revision.to_string());
        CachedObject {
            key: key.into(),
            object,
            revision,
            encoded: OnceLock::new(),
            frames: Default::default(),
            message: OnceLock::new(),
            message_frames: Default::default(),
        }
    }

    /// Decodes stored bytes.
    ///
    /// # Errors
    /// The bytes aren't a JSON map.
    pub fn decode(key: impl Into<Arc<str>>, value: &[u8], revision: Revision) -> Result<Self, String> {
        let value = serde_json::from_slice(value).map_err(|e| e.to_string())?;
        let object = Object::from_value(value).map_err(|e| e.to_string())?;
        Ok(CachedObject::new(key, object, revision))
    }

    /// The object as JSON.
    pub fn encoded(&self) -> &Bytes {
        self.encoded.get_or_init(|| {
            let json = serde_json::to_vec(self.object.as_value()).expect("a JSON value can be written");
            Bytes::from(json)
        })
    }

    /// The object as a protobuf message, without envelope; `None` if its kind has none.
    pub fn message(&self) -> Option<&Bytes> {
        let make = || {
            let object = &self.object;
            protobuf::encode_raw(object.api_version(), object.kind(), object.as_value()).ok().map(Bytes::from)
        };
        self.message.get_or_init(make).as_ref()
    }

    /// One line of a watch: `{"type":"ADDED","object":…}` and a newline.
    pub fn frame(&self, kind: EventType) -> Bytes {
        let made = self.frames[kind as usize].get_or_init(|| frame(kind.as_str(), self.encoded()));
        made.clone()
    }

    /// One frame of a protobuf watch; `None` if the kind has no message.
    pub fn message_frame(&self, kind: EventType) -> Option<Bytes> {
        let make = || {
            let sealed = protobuf::seal(self.object.api_version(), self.object.kind(), self.message()?);
            Some(protobuf::watch_frame(kind.as_str(), &sealed))
        };
        self.message_frames[kind as usize].get_or_init(make).clone()
    }

    /// The same state at a later revision: what a watcher gets when the object leaves its view.
    pub(super) fn at(&self, revision: Revision) -> Self {
        CachedObject::new(self.key.clone(), self.object.clone(), revision)
    }
}

/// A watch event around an encoded object.
pub fn frame(kind: &str, object: &[u8]) -> Bytes {
    let mut line = BytesMut::with_capacity(object.len() + 32);
    line.put_slice(b"{\"type\":\"");
    line.put_slice(kind.as_bytes());
    line.put_slice(b"\",\"object\":");
    line.put_slice(object);
    line.put_slice(b"}\n");
    line.freeze()
}

impl CacheEvent {
    /// The event as a line of a JSON watch; bookmarks are objects of the given apiVersion and kind.
    pub fn frame(&self, api_version: &str, kind: &str) -> Bytes {
        match self {
            CacheEvent::Object(event, object) => object.frame(*event),
            CacheEvent::Bookmark { revision, initial_events_end } => {
                let bookmark = bookmark(api_version, kind, *revision, *initial_events_end);
                let json = serde_json::to_vec(bookmark.as_value()).expect("a JSON value can be written");
                frame("BOOKMARK", &json)
            }
        }
    }
}

/// The object of a bookmark: nothing but a resourceVersion.
pub fn bookmark(api_version: &str, kind: &str, revision: Revision, initial_events_end: bool) -> Object {
    let mut object = Object::default();
    object.set("/kind", kind);
    object.set("/apiVersion", api_version);
    object.set_resource_version(&revision.to_string());
    object.set("/metadata/creationTimestamp", serde_json::Value::Null);
    if initial_events_end {
        object.set_annotation("k8s.io/initial-events-end", "true");
    }
    object
}
