//! Simulator: an API server of memory, so that controllers run a whole life in a millisecond.
//!
//! It holds objects as JSON, carries out [`Action`]s as the server would (names, UIDs, revisions, generations, preconditions, graceful
//! deletion), and lets a test put a fake kubelet, a crash or a stale copy in between. Controllers run in it unchanged: `observe` reads the stores that it fills.
//!
//! # In Kubernetes
//! `client-go/testing/fixture.go` (`ObjectTracker`) is the nearest thing.

pub mod harness;
#[cfg(test)]
mod replay;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use crate::action::{Action, Announce, Target};
use crate::controller::{Controller, register};
use crate::indexer::NamespacedName;
use crate::informer::factory::InformerFactory;

/// A refusal, with the server's reason.
#[derive(Debug, PartialEq, Eq, Clone, Copy)]
pub enum Refused {
    /// 409 with reason Conflict.
    Conflict,
    /// 409 with reason AlreadyExists.
    AlreadyExists,
    /// 404.
    NotFound,
    /// 403, by a quota that the test set.
    Quota,
}

/// The state of the cluster.
#[derive(Clone)]
pub struct Cluster {
    /// Objects by resource and key.
    pub objects: BTreeMap<(String, NamespacedName), Value>,
    /// Events in order: `Deployment/d Normal ScalingReplicaSet: Scaled up …`.
    pub events: Vec<String>,
    /// The time.
    pub now: Timestamp,
    /// Pods that may exist; more are refused.
    pub pod_quota: Option<usize>,
    revision: u64,
    named: u64,
}

impl Cluster {
    /// An empty cluster in 2024.
    pub fn new() -> Cluster {
        let now = Timestamp::from_second(1_704_067_200).unwrap();
        Cluster { objects: BTreeMap::new(), events: Vec::new(), now, pod_quota: None, revision: 0, named: 0 }
    }

    fn next_revision(&mut self) -> String {
        self.revision += 1;
        self.revision.to_string()
    }

    /// Creates an object as a user would.
    pub fn create(&mut self, resource: &str, object: Value) -> NamespacedName {
        let key = NamespacedName::new(
            object["metadata"]["namespace"].as_str().unwrap_or_default(),
            object["metadata"]["name"].as_str().unwrap_or_default(),
        );
        self.insert(resource, key, object).unwrap()
    }

    fn insert(
        &mut self,
        resource: &str,
        mut key: NamespacedName,
        mut object: Value,
    ) -> Result<NamespacedName, Refused> {
        if resource == "pods" && self.pod_quota.is_some_and(|quota| self.list("pods").count() >= quota) {
            return Err(Refused::Quota);
        }
        if key.name.is_empty() {
            self.named += 1;
            key.name = format!(
                "{}{:05}",
                object["metadata"]["generateName"].as_str().unwrap_or_default(),
                self.named
            );
        }
        if self.objects.contains_key(&(resource.to_owned(), key.clone())) {
            return Err(Refused::AlreadyExists);
        }
        let revision = self.next_revision();
        let metadata = &mut object["metadata"];
        metadata["name"] = json!(key.name);
        metadata["uid"] = json!(format!("uid-{revision}"));
        metadata["resourceVersion"] = json!(revision);
        metadata["creationTimestamp"] = json!(self.now.to_string());
        metadata["generation"] = json!(1);
        match resource {
            "pods" => object["status"] = json!({"phase": "Pending"}),
            "replicasets" => object["status"] = json!({"replicas": 0}),
            _ if object.get("status").is_none_or(Value::is_null) => object["status"] = json!({}),
            _ => {}
        }
        drop_nulls(&mut object);
        self.objects.insert((resource.to_owned(), key.clone()), object);
        Ok(key)
    }

    /// The object with this name.
    pub fn get(&self, resource: &str, key: &NamespacedName) -> Option<&Value> {
        self.objects.get(&(resource.to_owned(), key.clone()))
    }

    /// All objects of a resource.
    pub fn list<'a>(&'a self, resource: &'a str) -> impl Iterator<Item = (&'a NamespacedName, &'a Value)> {
        self.objects.iter().filter(move |((of, _), _)| of == resource).map(|((_, key), object)| (key, object))
    }

    /// Changes an object as a user or a kubelet would; a change of `spec` raises the generation.
    pub fn change(&mut self, resource: &str, key: &NamespacedName, change: impl FnOnce(&mut Value)) {
        let Some(before) = self.get(resource, key).cloned() else { return };
        let mut after = before.clone();
        change(&mut after);
        drop_nulls(&mut after);
        if after == before {
            return;
        }
        if after["spec"] != before["spec"] {
            after["metadata"]["generation"] =
                json!(before["metadata"]["generation"].as_i64().unwrap_or(0) + 1);
        }
        after["metadata"]["resourceVersion"] = json!(self.next_revision());
        let id = (resource.to_owned(), key.clone());
        let gone = after["metadata"]["deletionTimestamp"].is_string()
            && resource != "pods"
            && after["metadata"]["finalizers"].as_array().is_none_or(Vec::is_empty);
        if gone {
            self.objects.remove(&id);
        } else {
            self.objects.insert(id, after);
        }
    }

    /// Deletes an object as the server does: pods on a node end gracefully, objects with finalizers wait.
    pub fn delete(&mut self, resource: &str, key: &NamespacedName, force: bool) {
        let Some(object) = self.get(resource, key) else { return };
        let on_node = resource == "pods"
            && object["spec"]["nodeName"].is_string()
            && !matches!(object["status"]["phase"].as_str(), Some("Succeeded" | "Failed"));
        let waits =
            object["metadata"]["finalizers"].as_array().is_some_and(|finalizers| !finalizers.is_empty());
        if (on_node && !force) || waits {
            let now = self.now.to_string();
            self.change(resource, key, |object| {
                if !object["metadata"]["deletionTimestamp"].is_string() {
                    object["metadata"]["deletionTimestamp"] = json!(now);
                }
            });
        } else {
            self.next_revision();
            self.objects.remove(&(resource.to_owned(), key.clone()));
        }
    }

    /// Carries out one action.
    pub fn apply(&mut self, action: &Action) -> Result<(), Refused> {
        match action {
            Action::Create { target, object, announce, .. } => {
                let created = self.insert(&target.resource, target.key.clone(), object.clone());
                self.announce(
                    announce.as_deref(),
                    created.as_ref().map(|key| key.name.as_str()).map_err(|refused| *refused),
                );
                created.map(drop)
            }
            Action::UpdateStatus { target, object } => {
                let current = self.check(target)?;
                if current["metadata"]["resourceVersion"] != object["metadata"]["resourceVersion"] {
                    return Err(Refused::Conflict);
                }
                self.change(&target.resource, &target.key, |current| {
                    current["status"] = object["status"].clone();
                    current["metadata"]["annotations"] = object["metadata"]["annotations"].clone();
                });
                Ok(())
            }
            Action::Patch { target, patch, announce, .. } => {
                let current = self.check(target)?;
                let asked = &patch["metadata"]["resourceVersion"];
                if asked.is_string() && *asked != current["metadata"]["resourceVersion"] {
                    return Err(Refused::Conflict);
                }
                let mut patch = patch.clone();
                if let Some(metadata) = patch["metadata"].as_object_mut() {
                    metadata.remove("resourceVersion");
                }
                self.change(&target.resource, &target.key, |current| merge(current, &patch));
                self.announce(announce.as_deref(), Ok(&target.key.name));
                Ok(())
            }
            Action::Delete { target, grace_period_seconds, announce, .. } => {
                match self.check(target) {
                    Err(Refused::NotFound) => return Ok(()),
                    Err(refused) => return Err(refused),
                    Ok(_) => {}
                }
                self.delete(&target.resource, &target.key, *grace_period_seconds == Some(0));
                self.announce(announce.as_deref(), Ok(&target.key.name));
                Ok(())
            }
            Action::Record { about, event } => {
                let (kind, name) =
                    (about.kind.clone().unwrap_or_default(), about.name.clone().unwrap_or_default());
                self.events.push(format!("{kind}/{name} {} {}: {}", event.kind, event.reason, event.message));
                Ok(())
            }
            Action::RequeueAfter(_) => Ok(()),
        }
    }

    fn check(&self, target: &Target) -> Result<Value, Refused> {
        let current = self.get(&target.resource, &target.key).ok_or(Refused::NotFound)?;
        match &target.uid {
            Some(uid) if current["metadata"]["uid"] != json!(uid) => Err(Refused::Conflict),
            _ => Ok(current.clone()),
        }
    }

    fn announce(&mut self, announce: Option<&Announce>, result: Result<&str, Refused>) {
        let Some(announce) = announce else { return };
        let text = match result {
            Ok(name) => announce.success.as_ref().map(|text| (text, text.message.replace("{name}", name))),
            Err(refused) => announce
                .failure
                .as_ref()
                .map(|text| (text, text.message.replace("{error}", &format!("{refused:?}")))),
        };
        if let Some((text, message)) = text {
            let (kind, name) = (
                announce.about.kind.clone().unwrap_or_default(),
                announce.about.name.clone().unwrap_or_default(),
            );
            self.events.push(format!("{kind}/{name} {} {}: {message}", text.kind, text.reason));
        }
    }

    /// What the garbage collector would do: what names only owners that are gone goes.
    pub fn collect_garbage(&mut self) {
        loop {
            let uids: BTreeSet<String> = self
                .objects
                .values()
                .filter_map(|object| object["metadata"]["uid"].as_str().map(str::to_owned))
                .collect();
            let orphaned = |object: &Value| {
                let owners = object["metadata"]["ownerReferences"].as_array().cloned().unwrap_or_default();
                !owners.is_empty()
                    && owners.iter().all(|owner| !uids.contains(owner["uid"].as_str().unwrap_or_default()))
                    && !object["metadata"]["deletionTimestamp"].is_string()
            };
            let gone: Vec<(String, NamespacedName)> = self
                .objects
                .iter()
                .filter(|(_, object)| orphaned(object))
                .map(|(id, _)| id.clone())
                .collect();
            if gone.is_empty() {
                return;
            }
            gone.iter().for_each(|(resource, key)| self.delete(resource, key, false));
        }
    }

    /// A kubelet and a scheduler of one sentence: bind pending pods, make them ready, end those that are being deleted.
    pub fn run_pods(&mut self) {
        let pods: Vec<(NamespacedName, Value)> =
            self.list("pods").map(|(key, pod)| (key.clone(), pod.clone())).collect();
        for (number, (key, pod)) in pods.into_iter().enumerate() {
            let behaviour = pod["metadata"]["annotations"]["fake"].as_str().unwrap_or("ready").to_owned();
            if pod["metadata"]["deletionTimestamp"].is_string() {
                self.change("pods", &key, |pod| pod["metadata"]["finalizers"] = Value::Null);
                self.delete("pods", &key, true);
            } else if pod["status"]["phase"] == "Pending" && behaviour != "pending" {
                self.start_pod(&key, &behaviour, number);
            }
        }
    }

    fn start_pod(&mut self, key: &NamespacedName, behaviour: &str, number: usize) {
        let now = self.now.to_string();
        let (kind, argument) = behaviour.split_once(':').unwrap_or((behaviour, ""));
        let argument = argument.to_owned();
        self.change("pods", key, |pod| {
            if !pod["spec"]["nodeName"].is_string() {
                pod["spec"]["nodeName"] = json!(format!("n{}", 1 + number % 2));
            }
            let index = pod["metadata"]["annotations"]["batch.kubernetes.io/job-completion-index"].as_str().unwrap_or_default().to_owned();
            let (phase, ready, code) = match kind {
                "succeed" => ("Succeeded", "False", Some(0)),
                "fail" => ("Failed", "False", argument.parse::<i64>().ok()),
                "fail-index" if index == argument => ("Failed", "False", Some(1)),
                "fail-index" => ("Succeeded", "False", Some(0)),
                "notready" => ("Running", "False", None),
                _ => ("Running", "True", None),
            };
            let ended = code.map(|code| json!([{"name": "c", "state": {"terminated": {"exitCode": code, "finishedAt": now}}, "restartCount": 0, "ready": false, "image": "", "imageID": ""}]));
            let ip = format!("10.244.0.{}", 1 + number);
            pod["status"] = json!({"phase": phase, "podIP": ip, "podIPs": [{"ip": ip}], "containerStatuses": ended,
                "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": now}]});
        });
    }

    /// Lets time pass.
    pub fn wait(&mut self, seconds: i64) {
        self.now += SignedDuration::from_secs(seconds);
    }
}

/// JSON merge patch.
pub fn merge(target: &mut Value, patch: &Value) {
    let Some(patch) = patch.as_object() else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = json!({});
    }
    for (key, value) in patch {
        if value.is_null() {
            target.as_object_mut().unwrap().remove(key);
        } else {
            merge(&mut target[key], value);
        }
    }
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, value| !value.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// A controller without its type.
pub trait Decide {
    /// Looks at a key and decides.
    fn decide(&self, key: &NamespacedName, now: Timestamp) -> Vec<Action>;
}

impl<C: Controller> Decide for Arc<C> {
    fn decide(&self, key: &NamespacedName, now: Timestamp) -> Vec<Action> {
        self.observe(key, now).map(|world| C::reconcile(&world)).unwrap_or_default()
    }
}

/// Makes a controller on stores and lets it name those that it reads.
pub fn make<C: Controller>(
    factory: &InformerFactory,
    new: impl FnOnce(&InformerFactory) -> C,
) -> Box<dyn Decide> {
    let controller = Arc::new(new(factory));
    register(&controller, factory);
    Box::new(controller)
}
