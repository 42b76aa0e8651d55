//! Extender: a webhook that has a say in filtering, grading, preempting and binding.
//!
//! *Beside step 10 of a pod's journey through this stage.* Before: the plugins found the nodes that fit. After: the
//! webhook took some of them away and graded the others.
//!
//! Extenders are older than plugins and slower: every pod costs a round trip or two. They live on because they need no
//! other scheduler binary, only a URL in the configuration file. The decision with extenders ([`decide`]) is the
//! same as without, cut at the three places where a webhook is asked; the pieces between the cuts are the pure
//! functions of [`crate::schedule_pod`] and [`crate::decision`].
//!
//! The subtle thing is failure. An extender that doesn't answer makes the pod fail with `SchedulerError`, unless the file
//! says that it is `ignorable`; a grade that doesn't come counts as none in any case.
//!
//! # Invariants
//! 1. An extender can take nodes away, never add any.
//! 2. A pod that no extender is interested in waits for none.
//!
//! # In Kubernetes
//! `pkg/scheduler/extender.go`, `schedule_one.go` (`findNodesThatPassExtenders`, `prioritizeNodes`, `extendersBinding`),
//! `framework/preemption/preemption.go` (`callExtenders`). Grades are asked for one after the other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::{Method, Request, header};
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use stage1_kubectl::client::{Client, ClientConfig, ClientError};

use crate::configuration::{duration, v1};
use crate::decision::{self, Decision};
use crate::fit_error::FitError;
use crate::framework::{MAX_NODE_SCORE, Status};
use crate::node_info::NodeInfo;
use crate::node_to_status::NodeToStatus;
use crate::plugins::default_preemption::{Candidate, PostFilterResult};
use crate::pod_info::PodInfo;
use crate::profile::Profile;
use crate::schedule_pod::{Found, find_nodes_that_fit, select_host};
use crate::snapshot::Snapshot;

mod tls;
mod wire;

/// How long an extender may take.
pub const DEFAULT_EXTENDER_TIMEOUT: Duration = Duration::from_secs(5);
/// The highest grade of an extender; the scheduler's own go to 100.
pub const MAX_EXTENDER_PRIORITY: i64 = 10;
/// Who refused a pod if an extender did: any event may help.
pub const EXTENDER_NAME: &str = "Extender";

/// What went wrong with an extender.
#[derive(Debug, thiserror::Error)]
pub enum ExtenderError {
    /// Its address or certificates can't be used.
    #[error("extender {0}: {1}")]
    Config(String, String),
    /// It answered with another code than 200.
    #[error("failed {verb} with extender at URL {url}, code {code}")]
    Code {
        /// The call.
        verb: String,
        /// Where.
        url: String,
        /// The code.
        code: u16,
    },
    /// It can't be reached.
    #[error(transparent)]
    Connection(ClientError),
    /// It said itself that something is wrong, or something that can't be.
    #[error("{0}")]
    Said(String),
}

/// One webhook.
pub struct Extender {
    settings: v1::Extender,
    client: Client,
}

impl Extender {
    /// A webhook of the configuration file; nothing is dialled yet.
    ///
    /// # Errors
    /// Its address or certificates can't be used.
    pub fn new(settings: &v1::Extender) -> Result<Self, ExtenderError> {
        let failed = |why: String| ExtenderError::Config(settings.url_prefix.clone(), why);
        let url = settings.url_prefix.trim_end_matches('/');
        let timeout = settings.http_timeout.as_deref().and_then(duration).filter(|time| !time.is_zero());
        let mut config = ClientConfig::new(url);
        config.timeout = Some(timeout.unwrap_or(DEFAULT_EXTENDER_TIMEOUT));
        config.tls = tls::options(settings).map_err(failed)?;
        config.tls_server_name =
            settings.tls_config.as_ref().map(|tls| tls.server_name.clone()).filter(|name| !name.is_empty());
        let client = Client::new(config).map_err(|error| failed(error.to_string()))?;
        Ok(Extender { settings: settings.clone(), client })
    }

    /// Its URL.
    pub fn name(&self) -> &str {
        &self.settings.url_prefix
    }

    /// Is it asked about this pod?
    pub fn is_interested(&self, pod: &PodInfo) -> bool {
        let managed = &self.settings.managed_resources;
        let spec = pod.spec();
        let mut containers = spec.containers.iter().chain(spec.init_containers.iter().flatten());
        managed.is_empty()
            || containers.any(|container| {
                let resources = container.resources.iter();
                let lists = resources.flat_map(|r| [&r.requests, &r.limits]).flatten();
                lists.flat_map(BTreeMap::keys).any(|name| managed.iter().any(|m| m.name == *name))
            })
    }

    /// Does it bind?
    pub fn is_binder(&self) -> bool {
        !self.settings.bind_verb.is_empty()
    }

    /// May it fail?
    pub fn is_ignorable(&self) -> bool {
        self.settings.ignorable
    }

    async fn send(&self, verb: &str, body: &Value) -> Result<Value, ExtenderError> {
        let request = Request::builder()
            .method(Method::POST)
            .uri(format!("/{verb}"))
            .header(header::CONTENT_TYPE, "application/json")
            .body(Bytes::from(body.to_string()))
            .map_err(|error| ExtenderError::Said(error.to_string()))?;
        self.client.request(request).await.map_err(|error| match &error {
            ClientError::Api(status) => {
                let url = format!("{}/{verb}", self.name().trim_end_matches('/'));
                ExtenderError::Code { verb: verb.to_owned(), url, code: status.code }
            }
            _ => ExtenderError::Connection(error),
        })
    }

    fn args(&self, pod: &PodInfo, nodes: &[&NodeInfo]) -> Value {
        if self.settings.node_cache_capable {
            let names: Vec<&str> = nodes.iter().map(|node| &*node.name).collect();
            return json!({"Pod": &*pod.pod, "Nodes": null, "NodeNames": names});
        }
        let objects: Vec<&Node> =
            nodes.iter().filter_map(|node| node.object.as_ref()).map(|object| &*object.node).collect();
        json!({"Pod": &*pod.pod, "Nodes": {"metadata": {}, "items": objects}, "NodeNames": null})
    }

    /// Takes nodes away; returns those that stay and why the others went.
    async fn filter<'n>(
        &self,
        pod: &PodInfo,
        nodes: Vec<&'n NodeInfo>,
    ) -> Result<(Vec<&'n NodeInfo>, Vec<(Arc<str>, Status)>), ExtenderError> {
        if self.settings.filter_verb.is_empty() {
            return Ok((nodes, Vec::new()));
        }
        let answer = self.send(&self.settings.filter_verb, &self.args(pod, &nodes)).await?;
        let result = wire::filter_result(&answer, self.settings.node_cache_capable);
        if let Some(error) = result.error {
            return Err(ExtenderError::Said(error));
        }
        let mut stay = Vec::new();
        for name in &result.names {
            let Some(node) = nodes.iter().find(|node| *node.name == **name) else {
                return Err(ExtenderError::Said(format!(
                    "extender {:?} claims a filtered node {name:?} which is not found in the input node list",
                    self.name()
                )));
            };
            stay.push(*node);
        }
        let hard = result.failed_and_unresolvable;
        let soft = result.failed.into_iter().filter(|(name, _)| !hard.contains_key(name)).collect::<Vec<_>>();
        let mut refused: Vec<(Arc<str>, Status)> = Vec::new();
        for (name, why) in hard {
            refused.push((Arc::from(name), Status::unresolvable(why).by(EXTENDER_NAME)));
        }
        for (name, why) in soft {
            refused.push((Arc::from(name), Status::unschedulable(why).by(EXTENDER_NAME)));
        }
        Ok((stay, refused))
    }

    /// Grades nodes: what each gets, weight included.
    async fn prioritize(&self, pod: &PodInfo, nodes: &[&NodeInfo]) -> Result<Vec<i64>, ExtenderError> {
        if self.settings.prioritize_verb.is_empty() {
            return Ok(vec![0; nodes.len()]);
        }
        let answer = self.send(&self.settings.prioritize_verb, &self.args(pod, nodes)).await?;
        let grades = wire::priorities(&answer);
        let scale = self.settings.weight.saturating_mul(MAX_NODE_SCORE / MAX_EXTENDER_PRIORITY);
        Ok(nodes.iter().map(|node| grades.get(&*node.name).map_or(0, |grade| grade * scale)).collect())
    }

    /// Says which victims the webhook agrees with.
    async fn preempt(
        &self,
        pod: &PodInfo,
        candidates: &[Candidate],
        snapshot: &Snapshot,
    ) -> Result<Vec<Candidate>, ExtenderError> {
        let body = wire::preemption_args(pod, candidates, self.settings.node_cache_capable);
        let answer = self.send(&self.settings.preempt_verb, &body).await?;
        let mut agreed = Vec::new();
        for (name, victims) in wire::meta_victims(&answer) {
            let Some(node) = snapshot.get(&name) else {
                return Err(ExtenderError::Said(format!("nodeinfo not found for node name {name:?}")));
            };
            let mut pods = Vec::new();
            for uid in &victims.uids {
                let found = node.pods.iter().find(|pod| *pod.uid == **uid);
                pods.push(found.cloned().ok_or_else(|| {
                    ExtenderError::Said(format!(
                        "extender: {} claims to preempt pod (UID: {uid}) on node: {name}, but the pod is not found on that node",
                        self.name()
                    ))
                })?);
            }
            if pods.is_empty() {
                if self.is_ignorable() {
                    continue;
                }
                return Err(ExtenderError::Said(format!(
                    "expected at least one victim pod on node {name:?}"
                )));
            }
            agreed.push(Candidate::new(node.name.clone(), pods, victims.violations));
        }
        Ok(agreed)
    }

    /// Binds the pod.
    ///
    /// # Errors
    /// It couldn't.
    pub async fn bind(&self, pod: &PodInfo, node: &str) -> Result<(), ExtenderError> {
        let uid = pod.pod.metadata.uid.as_deref().unwrap_or("");
        let body =
            json!({"PodName": pod.name(), "PodNamespace": pod.namespace(), "PodUID": uid, "Node": node});
        let answer = self.send(&self.settings.bind_verb, &body).await?;
        match wire::error(&answer) {
            Some(error) => Err(ExtenderError::Said(error)),
            None => Ok(()),
        }
    }
}

/// Who binds this pod, if not the scheduler itself.
pub fn binder<'e>(extenders: &'e [Extender], pod: &PodInfo) -> Option<&'e Extender> {
    extenders.iter().find(|extender| extender.is_binder() && extender.is_interested(pod))
}

// ANCHOR: decide-with-extenders
/// As [`crate::decision::decide`], with the extenders that are interested in the pod.
pub async fn decide(
    extenders: &[&Extender],
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    chance: u64,
) -> Decision {
    let found = match find_nodes_that_fit(profile, pod, snapshot) {
        Ok(found) => ask_filters(extenders, pod, snapshot, found).await,
        Err(error) => Err(error),
    };
    match found {
        Ok(found) => {
            let mut grades = vec![0; found.feasible.len()];
            if found.feasible.len() > 1 {
                for extender in extenders {
                    match extender.prioritize(pod, &found.feasible).await {
                        Ok(given) => grades.iter_mut().zip(given).for_each(|(sum, grade)| *sum += grade),
                        Err(error) => tracing::debug!(extender = extender.name(), %error, "Ignore extender"),
                    }
                }
            }
            let result = select_host(profile, pod, snapshot, found, &grades, chance);
            decision::bind(profile, pod, snapshot, result)
        }
        Err(error) => {
            let preemption = preempt(extenders, profile, pod, snapshot, &error, chance).await;
            decision::refuse(error, preemption)
        }
    }
}
// ANCHOR_END: decide-with-extenders

async fn ask_filters<'n>(
    extenders: &[&Extender],
    pod: &PodInfo,
    snapshot: &Snapshot,
    mut found: Found<'n>,
) -> Result<Found<'n>, FitError> {
    for extender in extenders {
        let asked: BTreeSet<Arc<str>> = found.feasible.iter().map(|node| node.name.clone()).collect();
        match extender.filter(pod, found.feasible.clone()).await {
            Ok((stay, refused)) => {
                // Before the filters refused a node there was nothing to number.
                if found.refused.is_empty() {
                    found.refused = NodeToStatus::new(snapshot.names().clone());
                }
                for (name, status) in refused.into_iter().filter(|(name, _)| asked.contains(name)) {
                    if let Some(at) = snapshot.position(&name) {
                        found.refused.push(at, status);
                    }
                }
                found.feasible = stay;
            }
            Err(error) if extender.is_ignorable() => {
                tracing::debug!(extender = extender.name(), %error, "Skipping extender as it returned error and has ignorable flag set");
            }
            Err(error) => return Err(FitError { internal: Some(error.to_string()), ..FitError::default() }),
        }
        if found.feasible.is_empty() {
            let absent = Status { plugin: EXTENDER_NAME, ..Status::unresolvable("") };
            return Err(FitError {
                num_all_nodes: snapshot.nodes().len(),
                statuses: found.refused,
                absent: Status { reasons: Vec::new(), ..absent },
                ..FitError::default()
            });
        }
    }
    Ok(found)
}

async fn preempt(
    extenders: &[&Extender],
    profile: &Profile,
    pod: &PodInfo,
    snapshot: &Snapshot,
    error: &FitError,
    chance: u64,
) -> PostFilterResult {
    let Some(preemption) = decision::preemption_of(profile, error) else {
        return PostFilterResult::default();
    };
    let mut found = match preemption.find_candidates(profile, pod, snapshot, error, chance as usize) {
        Ok(found) => found,
        Err(refusal) => return refusal,
    };
    for extender in extenders.iter().filter(|extender| !extender.settings.preempt_verb.is_empty()) {
        match extender.preempt(pod, &found, snapshot).await {
            Ok(agreed) => found = agreed,
            Err(error) if extender.is_ignorable() => {
                tracing::info!(extender = extender.name(), %error, "Skipped extender as it returned error and has ignorable flag set");
            }
            Err(error) => {
                return PostFilterResult {
                    message: format!("preemption: {error}"),
                    ..PostFilterResult::default()
                };
            }
        }
        if found.is_empty() {
            break;
        }
    }
    preemption.conclude(&found, snapshot)
}
