//! Executor: the only one that writes.
//!
//! *Step 8 of a pod's journey.* Before: a controller decided ([`crate::action`]). After: the API server stores it, and every watcher hears.
//!
//! All writes of all controllers go through [`Executor::execute`]. It turns an action into one HTTP request, adds the UID
//! as a precondition, counts "gone already" as success for a deletion, and records the events that tell of the result.
//!
//! Creations that follow one another run together, but not all at once: first one, then two, then four (*slow start*). When
//! a quota refuses the first of 500 pods, one request is refused and not 500.
//!
//! # Invariants
//! 1. The first action that fails ends the list; what came before is done and reported.
//! 2. A patch or a deletion names the UID of the object that was looked at.
//! 3. Every write's revision is reported back, so that the caller can wait for its echo ([`crate::expectations`]).
//!
//! # In Kubernetes
//! `pkg/controller/controller_utils.go` (`RealPodControl`), `replica_set.go` (`slowStartBatch`).
#![expect(clippy::disallowed_methods, reason = "shell: writes to the API server and stamps journey steps")]

use std::time::Duration;

use bytes::Bytes;
use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use stage1_kubectl::client::{Client, ClientError};
use stage1_kubectl::journey;
use tracing::debug;

use crate::action::{Action, Announce, EventText, Target};
use crate::events::EventRecorder;
use crate::expectations::Expected;
use crate::indexer::NamespacedName;

/// Creations in the first batch; each later batch is twice as large.
pub const SLOW_START_INITIAL_BATCH_SIZE: usize = 1;

/// Why an action failed.
#[derive(Debug, thiserror::Error)]
#[error("{verb} {kind} {key}")]
pub struct ExecuteError {
    /// `create`, `patch`, `update status of` or `delete`.
    pub verb: &'static str,
    /// Kind of the object.
    pub kind: String,
    /// The object.
    pub key: NamespacedName,
    /// What the client says.
    #[source]
    pub source: ClientError,
}

impl ExecuteError {
    /// The API server's words, as events quote them.
    pub fn message(&self) -> String {
        message_of(&self.source)
    }

    /// Was it refused because its namespace goes? Then nothing is to be made any more, and trying again is of no use.
    pub fn namespace_terminating(&self) -> bool {
        let ClientError::Api(status) = &self.source else { return false };
        let causes = status.details.iter().flat_map(|details| &details.causes);
        causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
    }
}

/// The API server's words when it answered, the client's otherwise.
pub fn message_of(error: &ClientError) -> String {
    match error {
        ClientError::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// What came of a list of actions.
#[derive(Debug, Default)]
pub struct Outcome {
    /// What the local copies must show before the next decision.
    pub expected: Vec<Expected>,
    /// When the key wants to be looked at again.
    pub requeue_after: Option<Duration>,
    /// The failure that ended the list.
    pub failure: Option<ExecuteError>,
}

/// Carries out actions in the name of one controller.
#[derive(Clone)]
pub struct Executor {
    client: Client,
    recorder: EventRecorder,
}

impl Executor {
    /// An executor that writes through `client` and records events with `recorder`.
    pub fn new(client: Client, recorder: EventRecorder) -> Executor {
        Executor { client, recorder }
    }

    /// The client, for the few shells that read what no informer holds.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// The recorder of this controller's events.
    pub fn recorder(&self) -> &EventRecorder {
        &self.recorder
    }

    /// Carries out the actions in order, until one fails.
    pub async fn execute(&self, actions: Vec<Action>) -> Outcome {
        let mut outcome = Outcome::default();
        let mut batch = Vec::new();
        for action in actions {
            if matches!(action, Action::Create { .. }) {
                batch.push(action);
                continue;
            }
            self.create_all(std::mem::take(&mut batch), &mut outcome).await;
            if outcome.failure.is_some() {
                return outcome;
            }
            match action {
                Action::Record { about, event } => self.recorder.event(&about, &event),
                Action::RequeueAfter(after) => {
                    outcome.requeue_after =
                        Some(outcome.requeue_after.map_or(after, |earlier| earlier.min(after)));
                }
                other => note(self.write(other).await, &mut outcome),
            }
            if outcome.failure.is_some() {
                return outcome;
            }
        }
        self.create_all(batch, &mut outcome).await;
        outcome
    }

    /// Slow start: 1, 2, 4, … at once; a batch with a failure is the last.
    async fn create_all(&self, mut creations: Vec<Action>, outcome: &mut Outcome) {
        let mut size = SLOW_START_INITIAL_BATCH_SIZE;
        while !creations.is_empty() && outcome.failure.is_none() {
            let rest = creations.split_off(size.min(creations.len()));
            let results =
                futures::future::join_all(creations.into_iter().map(|action| self.write(action))).await;
            for result in results {
                note(result, outcome);
            }
            creations = rest;
            size *= 2;
        }
    }

    /// Carries out one writing action.
    async fn write(&self, action: Action) -> Result<Vec<Expected>, ExecuteError> {
        let Some(call) = Call::of(action) else { return Ok(Vec::new()) };
        let failed = |source| ExecuteError {
            verb: call.verb,
            kind: call.target.kind.clone(),
            key: call.target.key.clone(),
            source,
        };
        let answer = match self.client.send(call.request()).await {
            Ok(response) => serde_json::from_slice::<Value>(response.body()).unwrap_or(Value::Null),
            Err(error) if call.verb == "delete" && error.is_not_found() => return Ok(Vec::new()),
            Err(error) => {
                let failure = failed(error);
                self.announce(call.announce.as_deref(), Err(&failure));
                return Err(failure);
            }
        };
        let name = answer
            .pointer("/metadata/name")
            .and_then(Value::as_str)
            .unwrap_or(&call.target.key.name)
            .to_owned();
        self.announce(call.announce.as_deref(), Ok(&name));
        call.record_step(&name);
        debug!(verb = call.verb, kind = %call.target.kind, namespace = %call.target.key.namespace, name = %name, "Wrote");
        Ok(call.expected(&answer).into_iter().collect())
    }

    fn announce(&self, announce: Option<&Announce>, result: Result<&str, &ExecuteError>) {
        let Some(announce) = announce else { return };
        let (text, placeholder, value) = match result {
            Ok(name) => (&announce.success, "{name}", name.to_owned()),
            Err(failure) => (&announce.failure, "{error}", failure.message()),
        };
        if let Some(text) = text {
            let text = EventText { message: text.message.replace(placeholder, &value), ..text.clone() };
            self.recorder.event(&announce.about, &text);
        }
    }
}

fn note(result: Result<Vec<Expected>, ExecuteError>, outcome: &mut Outcome) {
    match result {
        Ok(expected) => outcome.expected.extend(expected),
        Err(failure) if outcome.failure.is_none() => outcome.failure = Some(failure),
        Err(_) => {}
    }
}

/// One HTTP request in the making.
struct Call {
    verb: &'static str,
    method: http::Method,
    path: String,
    content_type: &'static str,
    body: Value,
    target: Target,
    why: String,
    announce: Option<Box<Announce>>,
}

impl Call {
    fn of(action: Action) -> Option<Call> {
        const JSON: &str = "application/json";
        Some(match action {
            Action::Create { target, object, why, announce } => Call {
                verb: "create",
                method: http::Method::POST,
                path: target.collection_path(),
                content_type: JSON,
                body: object,
                target,
                why,
                announce,
            },
            Action::UpdateStatus { target, object } => Call {
                verb: "update status of",
                method: http::Method::PUT,
                path: format!("{}/status", target.path()),
                content_type: JSON,
                body: object,
                target,
                why: String::new(),
                announce: None,
            },
            Action::Patch { target, subresource, mut patch, why, announce } => {
                // The UID in a patch is a precondition: the server answers 409 when the object is another one.
                if let (Some(uid), Some(patch)) = (&target.uid, patch.as_object_mut()) {
                    let metadata = patch.entry("metadata").or_insert_with(|| json!({}));
                    metadata["uid"] = json!(uid);
                }
                let path = if subresource.is_empty() {
                    target.path()
                } else {
                    format!("{}/{subresource}", target.path())
                };
                Call {
                    verb: "patch",
                    method: http::Method::PATCH,
                    path,
                    content_type: "application/merge-patch+json",
                    body: patch,
                    target,
                    why,
                    announce,
                }
            }
            Action::Delete { target, propagation, grace_period_seconds, why, announce } => {
                let mut body = json!({"kind": "DeleteOptions", "apiVersion": "v1"});
                if let Some(uid) = &target.uid {
                    body["preconditions"] = json!({"uid": uid});
                }
                if let Some(policy) = propagation {
                    body["propagationPolicy"] = json!(policy.as_str());
                }
                if let Some(seconds) = grace_period_seconds {
                    body["gracePeriodSeconds"] = json!(seconds);
                }
                Call {
                    verb: "delete",
                    method: http::Method::DELETE,
                    path: target.path(),
                    content_type: JSON,
                    body,
                    target,
                    why,
                    announce,
                }
            }
            Action::Record { .. } | Action::RequeueAfter(_) => return None,
        })
    }

    fn request(&self) -> http::Request<Bytes> {
        http::Request::builder()
            .method(self.method.clone())
            .uri(&self.path)
            .header("content-type", self.content_type)
            .header("accept", "application/json")
            .body(Bytes::from(self.body.to_string()))
            .expect("a path made of names is a valid URI")
    }

    /// What the local copy must show before the next decision.
    fn expected(&self, answer: &Value) -> Option<Expected> {
        let resource = self.target.resource.clone();
        if self.verb == "delete" {
            let uid = self.target.uid.clone()?;
            return Some(Expected::Deleted { resource, key: self.target.key.clone(), uid });
        }
        let revision = answer.pointer("/metadata/resourceVersion")?.as_str()?.parse().ok()?;
        Some(Expected::Revision { resource, revision })
    }

    fn record_step(&self, name: &str) {
        if self.why.is_empty() {
            return;
        }
        let done = match self.verb {
            "create" => "created",
            "delete" => "deleted",
            _ => "changed",
        };
        let object = journey::object_name(&self.target.kind, Some(&self.target.key.namespace), name);
        journey::record(&journey::Step {
            stage: journey::Stage::Controllers,
            decided: format!("{object} {done}"),
            object,
            why: self.why.clone(),
            at_micros: Timestamp::now().as_microsecond(),
            source: concat!(file!(), ":", line!()).to_owned(),
        });
    }
}
