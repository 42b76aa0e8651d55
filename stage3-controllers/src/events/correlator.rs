//! Correlator: same sentences are counted, similar ones combined, endless ones cut off.
//!
//! Pure: time comes with each event. The three rules in the order in which they apply:
//!
//! 1. *Aggregation.* More than ten different messages with the same object, type and reason within ten minutes become
//!    one Event whose message begins with `(combined from similar events): `.
//! 2. *Series.* The same message again: `count` grows, `lastTimestamp` moves, the Event keeps its name.
//! 3. *Spam filter.* Each source and object has 25 tokens, one more every five minutes; an event without a token is dropped.
//!
//! # Invariants
//! 1. Memory is bounded: each table forgets its oldest entries beyond 4096.
//!
//! # In Kubernetes
//! `client-go/tools/record/events_cache.go`, same numbers.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::hash::Hash;
use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

/// Different messages of one reason before they are combined.
pub const MAX_SIMILAR: usize = 10;
/// Similar events are those within this time.
pub const SIMILAR_WITHIN: SignedDuration = SignedDuration::from_secs(600);
/// Events about one object that may come at once.
pub const SPAM_BURST: f64 = 25.0;
/// Tokens a second that come back.
pub const SPAM_QPS: f64 = 1.0 / 300.0;
/// Entries of each table.
const CACHE_SIZE: usize = 4096;
const COMBINED: &str = "(combined from similar events): ";

/// What to write: a new event, or a patch of the one written before.
#[derive(Clone, Debug)]
pub struct Correlated {
    /// The event with its count and the name it was first written under.
    pub event: Event,
    /// The change, when it was written before.
    pub patch: Option<Value>,
}

/// A map that forgets its oldest entries.
struct Bounded<K, V> {
    entries: HashMap<K, V>,
    order: VecDeque<K>,
}

impl<K: Hash + Eq + Clone, V: Default> Bounded<K, V> {
    fn new() -> Self {
        Bounded { entries: HashMap::new(), order: VecDeque::new() }
    }

    fn entry(&mut self, key: K) -> &mut V {
        if !self.entries.contains_key(&key) {
            self.order.push_back(key.clone());
            if self.order.len() > CACHE_SIZE
                && let Some(oldest) = self.order.pop_front()
            {
                self.entries.remove(&oldest);
            }
        }
        self.entries.entry(key).or_default()
    }
}

#[derive(Default)]
struct Similar {
    messages: BTreeSet<String>,
    last: Option<Timestamp>,
}

#[derive(Default)]
struct Seen {
    count: i32,
    name: String,
    first: Option<Time>,
}

#[derive(Default)]
struct Bucket {
    used: f64,
    last: Option<Timestamp>,
}

/// The memory of what was said.
pub struct Correlator {
    similar: Bounded<String, Similar>,
    seen: Bounded<String, Seen>,
    spam: Bounded<String, Bucket>,
}

impl Default for Correlator {
    fn default() -> Self {
        Correlator { similar: Bounded::new(), seen: Bounded::new(), spam: Bounded::new() }
    }
}

impl Correlator {
    /// Applies the three rules; `None`: drop the event.
    pub fn correlate(&mut self, mut event: Event, now: Timestamp) -> Option<Correlated> {
        let about = about(&event);
        let reason_key = format!(
            "{about}\0{}\0{}",
            event.type_.as_deref().unwrap_or_default(),
            event.reason.as_deref().unwrap_or_default()
        );
        let message = event.message.clone().unwrap_or_default();
        let mut key = format!(
            "{reason_key}\0{message}\0{}",
            event.involved_object.field_path.as_deref().unwrap_or_default()
        );

        let similar = self.similar.entry(reason_key.clone());
        if similar.last.is_none_or(|last| now.duration_since(last) > SIMILAR_WITHIN) {
            similar.messages.clear();
        }
        similar.last = Some(now);
        similar.messages.insert(message.clone());
        if similar.messages.len() >= MAX_SIMILAR {
            similar.messages.pop_first();
            event.message = Some(format!("{COMBINED}{message}"));
            key = reason_key;
        }

        let seen = self.seen.entry(key);
        let patch = if seen.count > 0 {
            seen.count += 1;
            event.metadata.name = Some(seen.name.clone());
            event.first_timestamp = seen.first.clone();
            event.count = Some(seen.count);
            Some(
                json!({"count": seen.count, "lastTimestamp": event.last_timestamp, "message": event.message}),
            )
        } else {
            *seen = Seen {
                count: 1,
                name: event.metadata.name.clone().unwrap_or_default(),
                first: event.first_timestamp.clone(),
            };
            None
        };
        self.has_token(about, now).then_some(Correlated { event, patch })
    }

    fn has_token(&mut self, about: String, now: Timestamp) -> bool {
        let bucket = self.spam.entry(about);
        let passed = bucket
            .last
            .map_or(Duration::ZERO, |last| now.duration_since(last).try_into().unwrap_or_default());
        bucket.used = (bucket.used - passed.as_secs_f64() * SPAM_QPS).max(0.0);
        bucket.last = Some(now);
        let fits = bucket.used + 1.0 <= SPAM_BURST;
        if fits {
            bucket.used += 1.0;
        }
        fits
    }
}

/// Source and object of an event, as one string.
fn about(event: &Event) -> String {
    let source = event.source.clone().unwrap_or_default();
    let object = &event.involved_object;
    [
        &source.component,
        &source.host,
        &object.kind,
        &object.namespace,
        &object.name,
        &object.uid,
        &object.api_version,
    ]
    .map(|part| part.as_deref().unwrap_or_default())
    .join("\0")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::action::EventText;
    use crate::events::new_event;
    use k8s_openapi::api::core::v1::{EventSource, ObjectReference};

    fn event(message: &str, second: i64) -> (Event, Timestamp) {
        let now = Timestamp::from_second(1_700_000_000 + second).unwrap();
        let about =
            ObjectReference { kind: Some("Pod".into()), name: Some("web".into()), ..Default::default() };
        (new_event(&about, &EventText::warning("BackOff", message), &EventSource::default(), now), now)
    }

    #[test]
    fn the_same_sentence_is_counted_under_its_first_name() {
        let mut correlator = Correlator::default();
        let (first, at) = event("Back-off", 0);
        let name = first.metadata.name.clone();
        assert!(correlator.correlate(first, at).unwrap().patch.is_none());
        let (second, at) = event("Back-off", 10);
        let correlated = correlator.correlate(second, at).unwrap();
        assert_eq!((correlated.event.metadata.name, correlated.event.count), (name, Some(2)));
        assert_eq!(correlated.patch.unwrap()["count"], 2);
    }

    #[test]
    fn the_tenth_different_sentence_is_combined() {
        let mut correlator = Correlator::default();
        let messages: Vec<String> = (0..11)
            .map(|n| {
                let (event, at) = event(&format!("try {n}"), n);
                correlator.correlate(event, at).unwrap().event.message.unwrap()
            })
            .collect();
        assert_eq!(messages[8], "try 8");
        assert_eq!(messages[9], "(combined from similar events): try 9");
        assert_eq!(messages[10], "(combined from similar events): try 10");
    }

    #[test]
    fn an_object_that_talks_too_much_is_cut_off() {
        let mut correlator = Correlator::default();
        let passed = (0..100)
            .filter(|n| {
                let (event, at) = event("again", *n / 100);
                correlator.correlate(event, at).is_some()
            })
            .count();
        assert_eq!(passed, 25);
        let (later, at) = event("again", 301);
        assert!(correlator.correlate(later, at).is_some(), "a token comes back every five minutes");
    }
}
