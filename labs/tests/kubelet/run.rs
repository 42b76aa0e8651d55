//! One case from its first POST to the end of its pods.
//!
//! Steps are done when the states and events that came before them in the recording have been seen here, not at the recorded time: a
//! loaded machine is slower, and a slower one must not fail.
//!
//! # In Kubernetes
//! Nothing like it.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use http::Method;
use serde_json::{Value, json};
use stage1_kubectl::client::ClientError;
use stage1_kubectl::request;

use crate::case::{Case, Recorded, Step};
use crate::live::Live;
use crate::machine::Here;
use crate::{compare, steps};

/// How a case ended.
pub enum Outcome {
    /// It can't be run here; why.
    NotYet(&'static str),
    /// It ran; what was different.
    Ran(Vec<String>),
}

/// Runs cases, several at a time.
pub async fn all(here: &Arc<Here>, cases: Vec<Case>, at_once: usize) -> Vec<(String, Outcome)> {
    let one = |case: Case| async move {
        let outcome = match case.not_yet() {
            Some(why) => Outcome::NotYet(why),
            None => Outcome::Ran(run(here, &case).await.unwrap_or_else(|e| vec![format!("{e}")])),
        };
        (case.file, outcome)
    };
    let mut outcomes: Vec<_> =
        futures::stream::iter(cases).map(one).buffer_unordered(at_once).collect().await;
    outcomes.sort_by(|a, b| a.0.cmp(&b.0));
    outcomes
}

/// POSTs an object of a core kind.
pub async fn post(here: &Here, namespace: &str, object: &Value) -> Result<Value, ClientError> {
    let kind = object["kind"].as_str().unwrap_or_default().to_lowercase();
    let path = match kind.as_str() {
        "namespace" => "/api/v1/namespaces".to_owned(),
        kind => format!("/api/v1/namespaces/{namespace}/{kind}s"),
    };
    here.client.request(request::request(Method::POST, &path, Some(object))).await
}

async fn prepare(here: &Here, namespace: &str) -> Result<(), ClientError> {
    let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
    post(here, namespace, &object).await?;
    for path in ["serviceaccounts/default", "configmaps/kube-root-ca.crt"] {
        let path = format!("/api/v1/namespaces/{namespace}/{path}");
        let deadline = tokio::time::Instant::now() + Duration::from_secs(20);
        while let Err(error) = here.client.send(request::request(Method::GET, &path, None)).await {
            if tokio::time::Instant::now() >= deadline {
                return Err(error);
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    Ok(())
}

async fn run(here: &Here, case: &Case) -> Result<Vec<String>, ClientError> {
    let namespace = case.namespace();
    prepare(here, &namespace).await?;
    let (live, watches) = Live::watch(&here.client, &namespace).await;
    for object in &case.input {
        let text = object.to_string().replace("\"node-a\"", &format!("\"{}\"", here.node));
        post(here, &namespace, &serde_json::from_str(&text).unwrap()).await?;
    }
    let mut waiter = Waiter { case, live: &live, cursors: Default::default(), done: 0.0 };
    let mut problems = Vec::new();
    for step in case.steps.iter().filter(|s| s.what != "deleted") {
        waiter.before(step).await;
        problems.extend(steps::perform(here, case, &namespace, step, &live).await);
        waiter.done = step.at;
    }
    if let Some(step) = case.steps.iter().find(|s| s.what == "deleted") {
        waiter.before(step).await;
    }
    let pods: Vec<String> = pods(case);
    for pod in &pods {
        let path = format!("/api/v1/namespaces/{namespace}/pods/{pod}");
        // Some are gone by now: that was the case.
        let _ = here.client.send(request::request(Method::DELETE, &path, None)).await;
    }
    let gone = |live: &Live| {
        let seen = live.pods.lock().unwrap();
        pods.iter().all(|p| seen.iter().rev().find(|s| s.pod == *p).is_none_or(|s| s.kind == "DELETED"))
    };
    if !live.wait(50.0, gone).await {
        problems.push("a pod is not gone 50 s after its deletion".to_owned());
    }
    let want = case.events.len();
    live.wait(1.0, |live| live.events.lock().unwrap().len() >= want).await;
    watches.iter().for_each(tokio::task::JoinHandle::abort);
    let (seen, events) = (live.pods.lock().unwrap().clone(), live.events.lock().unwrap().clone());
    if std::env::var_os("STAGES_KUBELET_TRACE").is_some() {
        trace(case, &seen, &events);
    }
    for pod in &pods {
        problems.extend(compare::statuses(&case.statuses, &seen, pod, &here.names));
    }
    problems.extend(compare::events(&case.events, &events, &here.names));
    let path = format!("/api/v1/namespaces/{namespace}");
    here.client.send(request::request(Method::DELETE, &path, None)).await?;
    Ok(problems)
}

fn trace(case: &Case, seen: &[Recorded], events: &[crate::case::Event]) {
    let mut text = format!("--- {}\n", case.file);
    for (word, list) in [("recorded", &case.statuses[..]), ("here", seen)] {
        for s in list {
            let v = json!({"gone": s.kind == "DELETED", "status": s.status, "deletionTimestamp": s.metadata.get("deletionTimestamp").is_some(),
                "deletionGracePeriodSeconds": s.metadata.get("deletionGracePeriodSeconds")});
            text.push_str(&format!("{word:>9} {:>6.2} {} {}\n", s.t, s.pod, compare::brief(&v)));
        }
    }
    for (word, list) in [("recorded", &case.events[..]), ("here", events)] {
        for e in list {
            text.push_str(&format!("{word:>9} {:>6.2} {:?} {:?}\n", e.t, e.reason, e.message));
        }
    }
    println!("{text}");
}

/// The pods of the input, in its order.
pub fn pods(case: &Case) -> Vec<String> {
    let of_kind = case.input.iter().filter(|o| o["kind"] == "Pod");
    of_kind.filter_map(|o| o["metadata"]["name"].as_str().map(str::to_owned)).collect()
}

/// Follows the recording and what is seen side by side.
struct Waiter<'a> {
    case: &'a Case,
    live: &'a Live,
    /// For each pod: recorded states and seen states that were matched.
    cursors: std::collections::BTreeMap<String, (usize, usize)>,
    /// Recorded time of the last step.
    done: f64,
}

/// What a state must have in common to count as the same one for the sake of waiting.
fn fingerprint(s: &Recorded) -> String {
    let value = json!({
        "gone": s.kind == "DELETED",
        "deletionTimestamp": s.metadata.get("deletionTimestamp").is_some(),
        "deletionGracePeriodSeconds": s.metadata.get("deletionGracePeriodSeconds"),
        "status": s.status,
    });
    let ready = s.status["conditions"].as_array().into_iter().flatten().find(|c| c["type"] == "Ready");
    format!("{} {}", compare::brief(&value), ready.map_or(&Value::Null, |c| &c["status"]))
}

impl Waiter<'_> {
    /// Waits until what came before a step has been seen.
    async fn before(&mut self, step: &Step) {
        // These took long themselves: what came meanwhile is their work.
        let slow = ["drain", "delete", "kubelet st"].iter().any(|w| step.what.starts_with(w))
            && step.what != "deleted";
        let work_began = || {
            let first = self.case.statuses.iter().find(|s| s.metadata.get("deletionTimestamp").is_some());
            first.map_or(self.done, |s| s.t.min(step.at)).max(self.done)
        };
        let limit = if slow { work_began() } else { step.at } - 0.01;
        let mut seconds = 15.0 + 1.5 * (step.at - self.done);
        let case = self.case;
        for pod in pods(case) {
            let recorded: Vec<&Recorded> = case.statuses.iter().filter(|s| s.pod == pod).collect();
            loop {
                let (want, from) = self.cursors.get(&pod).copied().unwrap_or_default();
                let Some(next) = recorded.get(want).filter(|s| s.t <= limit) else { break };
                let until = recorded.get(want + 1).map_or(f64::MAX, |s| s.t);
                if until - next.t < 1.2 && until <= limit {
                    self.cursors.insert(pod.clone(), (want + 1, from));
                    continue;
                }
                let (print, mut found) = (fingerprint(next), None);
                let begun = self.live.now();
                self.live
                    .wait(seconds, |live| {
                        let seen = live.pods.lock().unwrap();
                        let mut of_pod = seen.iter().filter(|s| s.pod == pod).skip(from);
                        found = of_pod.position(|s| fingerprint(s) == print);
                        found.is_some()
                    })
                    .await;
                seconds = (seconds - (self.live.now() - begun)).max(0.5);
                self.cursors.insert(pod.clone(), (want + 1, from + found.unwrap_or(0)));
            }
        }
        let reasons = |list: &[crate::case::Event], limit: f64| {
            let before = list
                .iter()
                .filter(|e| e.t <= limit && e.object.as_deref().is_some_and(|o| o.starts_with("Pod/")));
            let kept = before.filter(|e| e.reason.as_deref() != Some("FailedMount"));
            let mut counts = std::collections::BTreeMap::new();
            for e in kept {
                *counts.entry((e.object.clone(), e.reason.clone())).or_insert(0) += 1;
            }
            counts
        };
        let want = reasons(&case.events, limit);
        let heard = |live: &Live| {
            let seen = reasons(&live.events.lock().unwrap(), f64::MAX);
            want.iter().all(|(event, n)| seen.get(event).is_some_and(|m| m >= n))
        };
        self.live.wait(seconds.min(5.0), heard).await;
    }
}
