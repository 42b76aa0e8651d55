//! Events: telling people what happened, without flooding the API server.
//!
//! *Step 8 of a pod's journey.* Before: [`crate::executor`] did something. After: `kubectl describe` shows it.
//!
//! A crash-looping pod says the same sentence every few seconds for days. Stored one by one, these sentences
//! would fill the store; so the same sentence about the same object becomes one Event whose `count` grows
//! (a *series*), many different sentences of one reason become one "(combined from similar events)", and an
//! object that talks too much is cut off. These three rules are pure ([`correlator`]); this file is the shell: a
//! queue and one task that writes.
//!
//! Recording never waits and never fails: when the queue is full the event is dropped. Nothing may depend on an event being there.
//!
//! # Invariants
//! 1. `event()` returns at once.
//! 2. Events of one recorder are written in the order in which they were recorded.
//!
//! # In Kubernetes
//! `client-go/tools/record/{event,events_cache}.go`. Left out: the events.k8s.io/v1 recorder (the scheduler's), log sink.
#![expect(
    clippy::disallowed_methods,
    reason = "shell: stamps events with the time and sends them to the API server"
)]

pub mod correlator;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use stage1_kubectl::client::{Client, ClientError};
use tokio::sync::mpsc;
use tracing::{debug, warn};

use crate::action::{EventText, encode};
use correlator::{Correlated, Correlator};

/// Events that may wait to be written; more are dropped.
pub const QUEUE_LENGTH: usize = 1000;
/// How often a write is tried when the API server cannot be reached.
const MAX_TRIES: u32 = 12;
/// Time between two tries.
const RETRY_AFTER: Duration = Duration::from_secs(10);

/// Records events for one component. Cheap to clone.
#[derive(Clone)]
pub struct EventRecorder {
    source: Arc<EventSource>,
    queue: mpsc::Sender<Event>,
}

impl EventRecorder {
    /// A recorder for `component` (`replicaset-controller`, `default-scheduler`, `kubelet` …) on `host`; starts its writer.
    pub fn new(client: Client, component: &str, host: Option<&str>) -> EventRecorder {
        let (queue, received) = mpsc::channel(QUEUE_LENGTH);
        tokio::spawn(write_events(client, received));
        let source = EventSource { component: Some(component.to_owned()), host: host.map(str::to_owned) };
        EventRecorder { source: Arc::new(source), queue }
    }

    /// A recorder that hands the events to the receiver instead of an API server: for tests and simulations.
    pub fn to_channel(component: &str) -> (EventRecorder, mpsc::Receiver<Event>) {
        let (queue, received) = mpsc::channel(QUEUE_LENGTH);
        let source = EventSource { component: Some(component.to_owned()), host: None };
        (EventRecorder { source: Arc::new(source), queue }, received)
    }

    /// The same queue and correlation, under another component's name.
    pub fn for_component(&self, component: &str) -> EventRecorder {
        let source = EventSource { component: Some(component.to_owned()), host: self.source.host.clone() };
        EventRecorder { source: Arc::new(source), queue: self.queue.clone() }
    }

    /// Records an event about an object.
    pub fn event(&self, about: &ObjectReference, text: &EventText) {
        let event = new_event(about, text, &self.source, Timestamp::now());
        if self.queue.try_send(event).is_err() {
            warn!(reason = %text.reason, "Event queue is full, dropping the event");
        }
    }
}

/// The Event for a sentence about an object.
pub fn new_event(about: &ObjectReference, text: &EventText, source: &EventSource, now: Timestamp) -> Event {
    let namespace = about
        .namespace
        .clone()
        .filter(|namespace| !namespace.is_empty())
        .unwrap_or_else(|| "default".to_owned());
    let name = format!("{}.{:x}", about.name.as_deref().unwrap_or_default(), now.as_nanosecond());
    Event {
        metadata: ObjectMeta { name: Some(name), namespace: Some(namespace), ..ObjectMeta::default() },
        involved_object: about.clone(),
        reason: Some(text.reason.clone()),
        message: Some(text.message.clone()),
        type_: Some(text.kind.to_owned()),
        first_timestamp: Some(Time(now)),
        last_timestamp: Some(Time(now)),
        count: Some(1),
        source: Some(source.clone()),
        reporting_component: source.component.clone(),
        reporting_instance: source.host.clone(),
        ..Event::default()
    }
}

async fn write_events(client: Client, mut received: mpsc::Receiver<Event>) {
    let mut correlator = Correlator::default();
    while let Some(event) = received.recv().await {
        let now = event.last_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let Some(correlated) = correlator.correlate(event, now) else { continue };
        for attempt in 1..=MAX_TRIES {
            match write_event(&client, &correlated).await {
                Ok(()) => break,
                Err(ClientError::Api(status)) => {
                    debug!(%status, "Server rejected event (will not retry!)");
                    break;
                }
                Err(error) if attempt == MAX_TRIES => {
                    warn!(%error, "Unable to write event (retry limit exceeded!)")
                }
                Err(_) => tokio::time::sleep(RETRY_AFTER).await,
            }
        }
    }
}

async fn write_event(client: &Client, correlated: &Correlated) -> Result<(), ClientError> {
    let event = &correlated.event;
    let namespace = event.metadata.namespace.as_deref().unwrap_or("default");
    let collection = format!("/api/v1/namespaces/{namespace}/events");
    if let Some(patch) = &correlated.patch {
        let path = format!("{collection}/{}", event.metadata.name.as_deref().unwrap_or_default());
        let request =
            http::Request::patch(path).header("content-type", "application/strategic-merge-patch+json");
        match client
            .send(request.body(Bytes::from(patch.to_string())).expect("a path of names is a valid URI"))
            .await
        {
            Ok(_) => return Ok(()),
            // The Event expired (they live an hour): tell the story again from here.
            Err(error) if error.is_not_found() => {}
            Err(error) => return Err(error),
        }
    }
    let request = http::Request::post(collection).header("content-type", "application/json");
    client
        .send(request.body(Bytes::from(encode(event).to_string())).expect("a path of names is a valid URI"))
        .await?;
    Ok(())
}
