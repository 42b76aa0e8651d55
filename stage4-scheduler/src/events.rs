//! Events: what the scheduler tells people about a pod.
//!
//! *Beside a pod's journey through this stage.* `kubectl describe pod` shows them.
//!
//! The scheduler writes the newer form of Event: with `eventTime`, an action (`Binding`, `Scheduling`,
//! `Preempting`) and the reporting controller, without a count. A sentence of the same reason about the same pod
//! within six minutes doesn't make a second Event but a *series* on the first one.
//!
//! Telling never waits and never fails: when the queue is full the event is dropped.
//!
//! # In Kubernetes
//! `client-go/tools/events/{event_recorder,event_broadcaster}.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the clock and writes to the API server")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSeries, ObjectReference, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use serde_json::json;
use stage1_kubectl::client::Client;
use stage1_kubectl::request::Patch;
use tokio::sync::{Semaphore, mpsc};

use crate::pod_info::PodInfo;
use crate::throttle::Throttle;

/// Events that may wait to be written.
const QUEUE_LENGTH: usize = 2000;
/// Writes in flight: one after another would be slower than bindings are.
const WRITES_AT_A_TIME: usize = 16;
/// A series without news for so long has ended.
const FINISH_TIME: Duration = Duration::from_secs(6 * 60);
/// Longest message of an event.
const NOTE_LENGTH_LIMIT: usize = 1024;

/// Tells people about pods. Cheap to clone.
#[derive(Clone)]
pub struct Recorder {
    queue: mpsc::Sender<Event>,
    instance: String,
}

/// One sentence.
pub struct Sentence<'t> {
    /// `Normal` or `Warning`.
    pub kind: &'t str,
    /// `Scheduled`, `FailedScheduling`, `Preempted`.
    pub reason: &'t str,
    /// `Binding`, `Scheduling`, `Preempting`.
    pub action: &'t str,
    /// For people.
    pub note: String,
}

impl Recorder {
    /// A recorder for this scheduler on this host; starts its writer.
    pub fn new(client: Client, host: &str, throttle: Arc<Throttle>) -> Self {
        let (queue, received) = mpsc::channel(QUEUE_LENGTH);
        tokio::spawn(write(client, received, throttle));
        Recorder { queue, instance: host.to_owned() }
    }

    /// Tells something about a pod; `related` is the other one concerned.
    pub fn tell(&self, pod: &PodInfo, related: Option<&PodInfo>, sentence: Sentence<'_>) {
        let now = Timestamp::now();
        let controller = pod.scheduler_name().to_owned();
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", pod.name(), now.as_nanosecond())),
                namespace: Some(pod.namespace().to_owned()),
                ..ObjectMeta::default()
            },
            event_time: Some(MicroTime(now)),
            involved_object: reference(&pod.pod),
            related: related.map(|pod| reference(&pod.pod)),
            reason: Some(sentence.reason.to_owned()),
            action: Some(sentence.action.to_owned()),
            message: Some(truncated(sentence.note)),
            type_: Some(sentence.kind.to_owned()),
            reporting_instance: Some(format!("{controller}-{}", self.instance)),
            reporting_component: Some(controller),
            ..Event::default()
        };
        if self.queue.try_send(event).is_err() {
            tracing::warn!(pod = %pod.key, "Event queue is full, dropping the event");
        }
    }
}

fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: pod.metadata.name.clone(),
        namespace: pod.metadata.namespace.clone(),
        uid: pod.metadata.uid.clone(),
        resource_version: pod.metadata.resource_version.clone(),
        field_path: None,
    }
}

/// Cuts a text that an Event can't hold, between two characters.
fn truncated(mut note: String) -> String {
    if note.len() > NOTE_LENGTH_LIMIT {
        let end = (0..=NOTE_LENGTH_LIMIT - 4).rev().find(|at| note.is_char_boundary(*at)).unwrap_or(0);
        note.truncate(end);
        note.push_str(" ...");
    }
    note
}

/// What makes two events one series.
type Key = (Option<String>, Option<String>, Option<String>, Option<String>);

fn key(event: &Event) -> Key {
    (
        event.involved_object.uid.clone(),
        event.reason.clone(),
        event.action.clone(),
        event.related.as_ref().and_then(|r| r.uid.clone()),
    )
}

async fn write(client: Client, mut received: mpsc::Receiver<Event>, throttle: Arc<Throttle>) {
    let mut series: HashMap<Key, (Event, i32)> = HashMap::new();
    let places = Arc::new(Semaphore::new(WRITES_AT_A_TIME));
    while let Some(event) = received.recv().await {
        let at = event.event_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let fresh = |known: &Event| {
            let last = known
                .series
                .as_ref()
                .and_then(|s| s.last_observed_time.as_ref())
                .or(known.event_time.as_ref());
            last.is_some_and(|last| at.duration_since(last.0).unsigned_abs() < FINISH_TIME)
        };
        // Keeps the table as small as the news of six minutes.
        if series.len() >= 4096 {
            series.retain(|_, (known, _)| fresh(known));
        }
        let continued =
            series.get_mut(&key(&event)).filter(|(known, _)| fresh(known)).map(|(known, count)| {
                *count += 1;
                known.series =
                    Some(EventSeries { count: Some(*count), last_observed_time: event.event_time.clone() });
                let name = known.metadata.name.clone().unwrap_or_default();
                (name, Patch::Strategic(json!({"series": known.series, "message": event.message})))
            });
        if continued.is_none() {
            series.insert(key(&event), (event.clone(), 1));
        }
        throttle.acquire().await;
        // Closed never: the writer owns it.
        let Ok(place) = places.clone().acquire_owned().await else { return };
        let api = client.namespaced::<Event>(event.metadata.namespace.as_deref().unwrap_or(""));
        tokio::spawn(async move {
            let _place = place;
            if let Some((name, patch)) = continued
                && api.patch(&name, &patch).await.is_ok()
            {
                return;
            }
            if let Err(error) = api.create(&event).await {
                tracing::debug!(%error, "Unable to write event");
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_note_is_cut_between_characters() {
        let cut = truncated("ä".repeat(2000));
        assert!(cut.len() <= NOTE_LENGTH_LIMIT && cut.ends_with("ä ..."));
        assert_eq!(truncated("short".to_owned()), "short");
    }
}
