//! The status manager: the only writer of pod statuses.
//!
//! *Step 5 of a pod's journey.* Before: [`crate::pod_status`] computed a status. After: the API server has it; for a deleted pod whose
//! containers are gone, the object is deleted.
//!
//! Workers hand in statuses as often as they like; only a difference is sent, and of several the latest. The patch carries
//! the UID: the status of a pod never lands on its successor of the same name.
//!
//! The subtle thing is the end. A terminal phase invites controllers to start a replacement and the API server to forget
//! the pod, so it is held back until the worker says that nothing of the pod runs any more.
//!
//! # Invariants
//! 1. Statuses of one pod are sent in order; an older one never after a newer one.
//! 2. A terminal phase is sent only after the pod was terminated on the node.
//! 3. An object is deleted (grace 0) only when its status says that nothing is left.
//!
//! # In Kubernetes
//! `pkg/kubelet/status/status_manager.go`. Left out: mirror pods' translated UIDs, resize state.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use k8s_openapi::api::core::v1::{Pod, PodCondition, PodStatus};
use parking_lot::Mutex;
use serde_json::{Map, Value, json};
use stage1_kubectl::client::ClientError;
use stage1_kubectl::request::{DeleteParams, Patch};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use crate::kubelet::Kubelet;
use crate::pod::PodExt;
use crate::pod_status::conditions::OWNED;

/// Time after which a refused update is tried again.
const RETRY_AFTER: Duration = Duration::from_secs(1);
/// Updates in flight at a time.
const PARALLEL: usize = 8;

#[derive(Clone, Debug)]
struct Entry {
    pod: Arc<Pod>,
    /// What the API server has, as far as we know, and at which version: the patch is the difference to this.
    stored: (PodStatus, u64),
    status: PodStatus,
    terminated: bool,
}

impl Entry {
    fn new(pod: &Arc<Pod>, status: PodStatus) -> Self {
        let stored = (pod.status.clone().unwrap_or_default(), revision(pod));
        Entry { pod: pod.clone(), stored, status, terminated: false }
    }

    /// Takes over what is newer: the watch may be behind the answer to our own patch.
    fn saw(&mut self, pod: &Pod) {
        if revision(pod) >= self.stored.1 {
            self.stored = (pod.status.clone().unwrap_or_default(), revision(pod));
        }
    }
}

fn revision(pod: &Pod) -> u64 {
    pod.metadata.resource_version.as_deref().and_then(|v| v.parse().ok()).unwrap_or(0)
}

/// The statuses of this node's pods, by UID.
#[derive(Default)]
pub struct StatusManager {
    entries: Mutex<Entries>,
    changed: Notify,
}

#[derive(Default)]
struct Entries {
    of: HashMap<String, Entry>,
    /// UIDs of those with something to tell.
    unsent: BTreeSet<String>,
}

impl StatusManager {
    /// The status handed in last.
    pub fn get(&self, uid: &str) -> Option<PodStatus> {
        self.entries.lock().of.get(uid).map(|e| e.status.clone())
    }

    /// Hands in a status. Returns whether it is news.
    pub fn set(&self, pod: &Arc<Pod>, status: PodStatus) -> bool {
        let mut entries = self.entries.lock();
        if let Some(e) = entries.of.get_mut(pod.pod_uid()) {
            e.pod = pod.clone();
            e.saw(pod);
            if e.status == status {
                return false;
            }
            e.status = status;
        } else {
            entries.of.insert(pod.pod_uid().to_owned(), Entry::new(pod, status));
        }
        entries.unsent.insert(pod.pod_uid().to_owned());
        drop(entries);
        self.changed.notify_one();
        true
    }

    /// Notes that nothing of the pod is left on the node: the terminal phase may be told, the object deleted.
    pub fn terminated(&self, pod: &Arc<Pod>, status: PodStatus) {
        let mut entries = self.entries.lock();
        let new = || Entry::new(pod, PodStatus::default());
        let e = entries.of.entry(pod.pod_uid().to_owned()).or_insert_with(new);
        e.pod = pod.clone();
        e.saw(pod);
        e.status = status;
        e.terminated = true;
        entries.unsent.insert(pod.pod_uid().to_owned());
        drop(entries);
        self.changed.notify_one();
    }

    /// A newer version of the object: a deletion of a terminated pod is answered at once.
    pub fn object_changed(&self, pod: &Arc<Pod>) {
        let mut entries = self.entries.lock();
        let Some(e) = entries.of.get_mut(pod.pod_uid()) else { return };
        let newly_deleted = pod.is_deleting() && !e.pod.is_deleting();
        e.pod = pod.clone();
        e.saw(pod);
        if newly_deleted && e.terminated {
            entries.unsent.insert(pod.pod_uid().to_owned());
            drop(entries);
            self.changed.notify_one();
        }
    }

    /// Forgets a pod whose object is gone.
    pub fn forget(&self, uid: &str) {
        let mut entries = self.entries.lock();
        entries.of.remove(uid);
        entries.unsent.remove(uid);
    }

    /// Takes up to `room` statuses to send, none of a busy pod.
    fn take_unsent(&self, room: usize, busy: &HashSet<String>) -> Vec<Entry> {
        let Entries { of, unsent } = &mut *self.entries.lock();
        let free: Vec<String> =
            unsent.iter().filter(|uid| !busy.contains(*uid)).take(room).cloned().collect();
        free.iter().filter(|uid| unsent.remove(*uid)).filter_map(|uid| of.get(uid).cloned()).collect()
    }

    /// A status that did not get through is to be sent again.
    fn not_sent(&self, uid: &str) {
        let mut entries = self.entries.lock();
        if entries.of.contains_key(uid) {
            entries.unsent.insert(uid.to_owned());
        }
    }

    fn answered(&self, pod: &Pod) {
        if let Some(e) = self.entries.lock().of.get_mut(pod.pod_uid()) {
            e.saw(pod);
        }
    }
}

/// Sends statuses until `shutdown`.
pub async fn run(kubelet: Arc<Kubelet>, shutdown: CancellationToken) {
    // One update of a pod at a time; one that takes long delays no other, as long as fewer than [`PARALLEL`] do. One that
    // was refused rests without keeping a place.
    let (mut sending, mut resting) = (FuturesUnordered::new(), FuturesUnordered::new());
    let mut busy = HashSet::new();
    loop {
        for entry in kubelet.status.take_unsent(PARALLEL - sending.len(), &busy) {
            let uid = entry.pod.pod_uid().to_owned();
            busy.insert(uid.clone());
            let kubelet = kubelet.clone();
            sending.push(async move { (uid, sync_pod_status(&kubelet, &entry).await) });
        }
        tokio::select! {
            Some((uid, sent)) = sending.next() => {
                if sent {
                    busy.remove(&uid);
                } else {
                    resting.push(async move {
                        tokio::time::sleep(RETRY_AFTER).await;
                        uid
                    });
                }
            }
            Some(uid) = resting.next() => {
                busy.remove(&uid);
                kubelet.status.not_sent(&uid);
            }
            () = kubelet.status.changed.notified() => {}
            () = shutdown.cancelled() => return,
        }
    }
}

/// Sends one status; returns whether it need not be tried again.
async fn sync_pod_status(kubelet: &Kubelet, entry: &Entry) -> bool {
    let pod = &entry.pod;
    let api = kubelet.client.namespaced::<Pod>(pod.pod_namespace());
    if let Some(patch) = status_patch(pod, &entry.stored.0, &entry.status, entry.terminated) {
        match api.patch_subresource(pod.pod_name(), "status", &Patch::Strategic(patch)).await {
            Ok(now) => kubelet.status.answered(&now),
            // The object is gone, or another pod has its name: nobody is interested any more.
            Err(e) if e.is_not_found() => return true,
            Err(e) => return refused(pod, &e),
        }
    }
    if entry.terminated && pod.is_deleting() {
        let params = DeleteParams {
            grace_period_seconds: Some(0),
            uid: pod.metadata.uid.clone(),
            ..DeleteParams::default()
        };
        match api.delete(pod.pod_name(), &params).await {
            Ok(_) => {}
            Err(e) if e.is_not_found() || e.is_conflict() => {}
            Err(e) => return refused(pod, &e),
        }
    }
    true
}

fn refused(pod: &Pod, error: &ClientError) -> bool {
    if error.is_conflict() || error.is_refused() {
        debug!(pod = %pod.key(), %error, "Status update failed, will retry");
    } else {
        warn!(pod = %pod.key(), %error, "Failed to update status for pod");
    }
    false
}

/// Fields of the status that the kubelet owns and that can vanish.
const REMOVABLE: [&str; 9] = [
    "reason",
    "message",
    "podIP",
    "podIPs",
    "hostIP",
    "hostIPs",
    "containerStatuses",
    "initContainerStatuses",
    "ephemeralContainerStatuses",
];

// ANCHOR: status-patch
/// The strategic merge patch from the stored status to ours; `None` when nothing differs.
pub fn status_patch(pod: &Pod, before: &PodStatus, status: &PodStatus, terminated: bool) -> Option<Value> {
    let mut status = status.clone();
    let terminal = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let told = matches!(before.phase.as_deref(), Some("Succeeded" | "Failed"));
    if terminal && !terminated && !told {
        // Not yet: containers may still run.
        status.phase = before.phase.clone().or(Some("Pending".to_owned()));
        status.reason = before.reason.clone();
        status.message = before.message.clone();
    }
    let conditions = status.conditions.take().unwrap_or_default();
    let (old, full) = (to_map(before), to_map(&status));
    let mut patch: Map<String, Value> =
        full.iter().filter(|(k, v)| old.get(*k) != Some(v)).map(clone_entry).collect();
    let gone = REMOVABLE.into_iter().filter(|k| old.contains_key(*k) && !full.contains_key(*k));
    patch.extend(gone.map(|k| (k.to_owned(), Value::Null)));
    for list in ["podIPs", "hostIPs"] {
        // These lists merge by address: without this the old addresses would stay.
        if let (Some(_), Some(Value::Array(items))) = (old.get(list), patch.get_mut(list)) {
            items.insert(0, json!({"$patch": "replace"}));
        }
    }
    let owned: Vec<_> = conditions.iter().filter(|c| OWNED.contains(&c.type_.as_str())).collect();
    if !owned.iter().all(|c| before.conditions.iter().flatten().any(|o| o == *c)) {
        // Those of others come first, whoever wrote last.
        let order: Vec<Value> = conditions.iter().map(|c| json!({"type": c.type_})).collect();
        patch.insert("$setElementOrder/conditions".to_owned(), Value::Array(order));
        let all = owned
            .iter()
            .map(|c| condition_patch(c, before.conditions.iter().flatten().find(|o| o.type_ == c.type_)));
        patch.insert("conditions".to_owned(), all.collect());
    }
    (!patch.is_empty()).then(|| json!({"metadata": {"uid": pod.metadata.uid}, "status": patch}))
}
// ANCHOR_END: status-patch

/// A condition merges into the old one of its type: what it no longer says must be taken out by name.
fn condition_patch(new: &PodCondition, old: Option<&PodCondition>) -> Value {
    let mut value = json!(new);
    let said = |c: &PodCondition| [("reason", c.reason.is_some()), ("message", c.message.is_some())];
    for ((key, was), (_, is)) in old.map(said).into_iter().flatten().zip(said(new)) {
        if was && !is {
            value[key] = Value::Null;
        }
    }
    value
}

fn to_map(status: &PodStatus) -> Map<String, Value> {
    match serde_json::to_value(status) {
        Ok(Value::Object(map)) => map,
        _ => Map::new(),
    }
}

fn clone_entry((key, value): (&String, &Value)) -> (String, Value) {
    (key.clone(), value.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(status: Value) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "p", "uid": "u"}, "status": status})).unwrap()
    }

    fn patch(before: Value, after: Value, terminated: bool) -> Option<Value> {
        let after: PodStatus = serde_json::from_value(after).unwrap();
        {
            let pod = pod(before);
            status_patch(&pod, &pod.status.clone().unwrap_or_default(), &after, terminated)
        }
        .map(|p| p["status"].clone())
    }

    #[test]
    fn of_several_statuses_the_latest_is_sent_once_and_never_beside_another_of_its_pod() {
        let manager = StatusManager::default();
        let pod = Arc::new(pod(json!({})));
        let phase = |phase: &str| PodStatus { phase: Some(phase.to_owned()), ..PodStatus::default() };
        let taken = |busy: &HashSet<String>| -> Vec<Option<String>> {
            manager.take_unsent(8, busy).into_iter().map(|e| e.status.phase).collect()
        };
        let (nobody, busy) = (HashSet::new(), HashSet::from(["u".to_owned()]));
        assert!(manager.set(&pod, phase("Pending")));
        assert!(manager.set(&pod, phase("Running")));
        assert_eq!(taken(&nobody), [Some("Running".to_owned())]);
        assert_eq!(taken(&nobody), []);
        assert!(!manager.set(&pod, phase("Running")));
        assert_eq!(taken(&nobody), []);
        manager.not_sent("u");
        assert_eq!((taken(&busy), taken(&nobody)), (vec![], vec![Some("Running".to_owned())]));
        manager.forget("u");
        manager.not_sent("u");
        assert_eq!(taken(&nobody), []);
    }

    #[test]
    fn an_equal_status_is_not_sent() {
        let s = json!({"phase": "Running", "podIP": "1.1.1.1"});
        assert_eq!(patch(s.clone(), s, false), None);
    }

    #[test]
    fn only_differences_are_sent_and_vanished_fields_are_nulled() {
        let before = json!({"phase": "Pending", "reason": "X", "qosClass": "BestEffort"});
        let after = json!({"phase": "Running", "qosClass": "BestEffort"});
        assert_eq!(patch(before, after, false), Some(json!({"phase": "Running", "reason": null})));
    }

    #[test]
    fn a_condition_that_says_less_takes_its_old_words_back() {
        let before =
            json!({"conditions": [{"type": "Ready", "status": "False", "reason": "R", "message": "m"}]});
        let after = json!({"conditions": [{"type": "Ready", "status": "True"}]});
        let sent = patch(before, after, false).unwrap();
        assert_eq!(
            sent["conditions"],
            json!([{"type": "Ready", "status": "True", "reason": null, "message": null}])
        );
    }

    #[test]
    fn conditions_of_others_come_first() {
        let target = json!({"type": "DisruptionTarget", "status": "True"});
        let ready = |answer: &str| json!({"type": "Ready", "status": answer});
        let before = json!({"conditions": [ready("True"), target]});
        let sent = patch(before, json!({"conditions": [target, ready("False")]}), false).unwrap();
        assert_eq!(sent["conditions"], json!([ready("False")]));
        assert_eq!(
            sent["$setElementOrder/conditions"],
            json!([{"type": "DisruptionTarget"}, {"type": "Ready"}])
        );
    }

    #[test]
    fn a_terminal_phase_waits_for_the_worker() {
        let before = json!({"phase": "Running"});
        let after = json!({"phase": "Failed", "reason": "DeadlineExceeded"});
        assert_eq!(patch(before.clone(), after.clone(), false), None);
        assert_eq!(patch(before, after.clone(), true), Some(after));
    }
}
