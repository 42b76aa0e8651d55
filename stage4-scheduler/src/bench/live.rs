//! Live: a workload on a real API server, whoever schedules there.
//!
//! `kube-scheduler bench` makes nodes and pods of a workload, watches the pods get their nodes, prints bound pods a second, and removes
//! all of it again. It measures the whole path: API server, store, watch, decision, binding; with our scheduler or any other.
//!
//! It writes to a cluster that may be somebody's, so it asks for `--yes`. Everything it makes carries a prefix of its own; its pods can
//! only go to its own nodes (a node selector on its label), and other pods don't come there (a taint that only its pods tolerate). What it
//! made it removes, also after an error.
//!
//! Nobody needs to run there but the API server and a scheduler: the bench makes what controllers would make (each namespace's
//! service account), and its pods tolerate that no kubelet ever says that its nodes are ready. A workload's priority becomes a class.
//!
//! # In Kubernetes
//! `test/integration/scheduler_perf`; and `clusterloader2` with hollow nodes for whole clusters.
#![expect(
    clippy::disallowed_methods,
    reason = "shell: reads the clock, draws a name, talks to the API server"
)]

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod, Service, ServiceAccount, Taint, Toleration};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use serde_json::json;
use stage1_kubectl::client::{Client, ClientError};
use stage1_kubectl::request::{DeleteParams, Patch};
use stage1_kubectl::watch::{WatchEvent, decode_events};

use super::workloads::{Plan, Workload};

/// Key of the label and the taint that keep the bench's nodes apart.
const LABEL: &str = "six-stages.dev/bench";
/// Taints of nodes whose kubelet says nothing.
const SILENT: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];
/// The one priority that workloads have besides none.
const HIGH: i32 = 10;
/// Requests at a time.
const CONCURRENT: usize = 64;

/// What is measured, and how.
#[derive(Clone, Debug, clap::Args)]
pub struct Flags {
    /// Workload, as Kubernetes' scheduler_perf names it
    #[arg(long, default_value = "SchedulingBasic")]
    pub workload: String,
    /// How many nodes are made
    #[arg(long, default_value_t = 100)]
    pub nodes: usize,
    /// How many pods are measured; the workload's own number if not given
    #[arg(long)]
    pub pods: Option<usize>,
    /// The cluster may be written to: nodes, namespaces and pods are made, and removed again
    #[arg(long)]
    pub yes: bool,
    /// How long to wait for the last pod, in seconds
    #[arg(long, default_value_t = 300)]
    pub timeout_seconds: u64,
}

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum BenchError {
    /// No workload has that name.
    #[error("no workload \"{0}\"; there are: {1}")]
    Workload(String, String),
    /// Nobody allowed it.
    #[error("this makes {0} nodes and {1} pods on {2}; say --yes if that is meant")]
    NotAllowed(usize, usize, String),
    /// The API server refused or is gone.
    #[error("{0}")]
    Api(#[from] ClientError),
    /// Not all pods got a node in time.
    #[error("{bound} of {all} pods were bound in {seconds} s")]
    Timeout {
        /// Pods that have a node.
        bound: usize,
        /// Pods that should.
        all: usize,
        /// How long that took.
        seconds: u64,
    },
}

/// What came of it.
#[derive(Clone, Copy, Debug)]
pub struct Figures {
    /// Measured pods.
    pub pods: usize,
    /// From the first create to the answer to the last one.
    pub created: Duration,
    /// From the first create to the last binding seen.
    pub bound: Duration,
}

impl Figures {
    /// One line for people.
    pub fn line(&self, workload: &Workload, nodes: usize) -> String {
        format!(
            "{}: {} pods on {nodes} nodes, created in {:.2} s, bound in {:.2} s: {:.0} pods/s",
            workload.name,
            self.pods,
            self.created.as_secs_f64(),
            self.bound.as_secs_f64(),
            self.pods as f64 / self.bound.as_secs_f64(),
        )
    }
}

/// Runs a workload on the API server of this client.
///
/// # Errors
/// See [`BenchError`]. What was made is removed in any case.
pub async fn run(client: &Client, server: &str, flags: &Flags) -> Result<(Workload, Figures), BenchError> {
    let names = || super::workloads::WORKLOADS.map(|workload| workload.name).join(", ");
    let workload = super::workloads::find(&flags.workload)
        .ok_or_else(|| BenchError::Workload(flags.workload.clone(), names()))?;
    let prefix = format!("bench-{:08x}", rand::random::<u32>());
    let mut plan = workload.plan(flags.nodes, &prefix);
    if let Some(pods) = flags.pods {
        let stock = plan.measured.clone();
        plan.measured =
            (0..pods).filter_map(|at| Some(renamed(stock.get(at % stock.len().max(1))?, at))).collect();
    }
    let pods = plan.init.len() + plan.measured.len() + plan.churn.len();
    if !flags.yes {
        return Err(BenchError::NotAllowed(plan.nodes.len(), pods, server.to_owned()));
    }
    keep_apart(&mut plan, &prefix);
    let outcome = match client.api::<PriorityClass>().create(&class(&prefix)).await {
        Ok(_) => measure(client, &plan, flags).await,
        Err(error) => Err(error.into()),
    };
    remove(client, &plan, &prefix).await;
    outcome.map(|figures| (workload, figures))
}

fn renamed(pod: &Pod, at: usize) -> Pod {
    let mut pod = pod.clone();
    pod.metadata.name = Some(format!("m-{at}"));
    pod
}

/// The bench's pods go to its nodes, and no others do.
fn keep_apart(plan: &mut Plan, prefix: &str) {
    for node in &mut plan.nodes {
        let taint = Taint {
            key: LABEL.to_owned(),
            value: Some(prefix.to_owned()),
            effect: "NoSchedule".to_owned(),
            ..Taint::default()
        };
        node.spec.get_or_insert_default().taints.get_or_insert_default().push(taint);
    }
    for pod in plan.init.iter_mut().chain(&mut plan.measured).chain(&mut plan.churn) {
        pod.metadata.uid = None;
        let spec = pod.spec.get_or_insert_default();
        // Only admission may turn a class into a number.
        if spec.priority.take() == Some(HIGH) {
            spec.priority_class_name = Some(class_of(prefix));
        }
        spec.node_selector = Some(BTreeMap::from([(LABEL.to_owned(), prefix.to_owned())]));
        let tolerated = [LABEL].into_iter().chain(SILENT).map(|key| Toleration {
            key: Some(key.to_owned()),
            operator: Some("Exists".to_owned()),
            ..Toleration::default()
        });
        spec.tolerations.get_or_insert_default().extend(tolerated);
    }
}

fn class_of(prefix: &str) -> String {
    format!("{prefix}-high")
}

fn class(prefix: &str) -> PriorityClass {
    let mut class = PriorityClass { value: HIGH, ..PriorityClass::default() };
    class.metadata.name = Some(class_of(prefix));
    class
}

async fn measure(client: &Client, plan: &Plan, flags: &Flags) -> Result<Figures, BenchError> {
    each(&plan.nodes, |node: Node| async move {
        let nodes = client.api::<Node>();
        nodes.create(&node).await?;
        let status = json!({"status": node.status});
        let name = node.metadata.name.unwrap_or_default();
        nodes.patch_subresource(&name, "status", &Patch::Merge(status)).await.map(drop)
    })
    .await?;
    each(&plan.namespaces, |namespace: Namespace| async move {
        client.api::<Namespace>().create(&namespace).await?;
        let mut account = ServiceAccount::default();
        account.metadata.name = Some("default".to_owned());
        let accounts =
            client.namespaced::<ServiceAccount>(namespace.metadata.name.as_deref().unwrap_or_default());
        match accounts.create(&account).await {
            // A controller was quicker.
            Err(error) if !error.is_already_exists() => Err(error),
            _ => Ok(()),
        }
    })
    .await?;
    if let Some((namespace, name, (key, value))) = &plan.service {
        let mut selector = serde_json::Map::new();
        selector.insert(key.clone(), value.as_str().into());
        let service =
            json!({"metadata": {"name": name}, "spec": {"selector": selector, "ports": [{"port": 80}]}});
        let service: Service = serde_json::from_value(service).expect("the template is a service");
        client.namespaced::<Service>(namespace).create(&service).await?;
    }
    let limit = Duration::from_secs(flags.timeout_seconds);
    create_and_wait(client, &plan.init, limit).await?;
    let disturb = create_all(client, &plan.churn);
    let (figures, _) = tokio::join!(create_and_wait(client, &plan.measured, limit), disturb);
    figures
}

async fn create_all(client: &Client, pods: &[Pod]) -> Result<(), ClientError> {
    each(pods, |pod: Pod| async move {
        let namespace = pod.metadata.namespace.clone().unwrap_or_default();
        client.namespaced::<Pod>(&namespace).create(&pod).await.map(drop)
    })
    .await
}

/// Creates the pods and follows them in a watch until each has a node.
async fn create_and_wait(client: &Client, pods: &[Pod], limit: Duration) -> Result<Figures, BenchError> {
    let Some(namespace) = pods.first().and_then(|pod| pod.metadata.namespace.clone()) else {
        return Ok(Figures { pods: 0, created: Duration::ZERO, bound: Duration::ZERO });
    };
    let begin = Instant::now();
    let create = async {
        create_all(client, pods).await?;
        Ok::<_, ClientError>(begin.elapsed())
    };
    let mut names: std::collections::HashSet<&str> =
        pods.iter().filter_map(|pod| pod.metadata.name.as_deref()).collect();
    let wait = async {
        while !names.is_empty() {
            let mut events = std::pin::pin!(watch_bound(client, &namespace).await?);
            while let Some(event) = events.next().await {
                if let WatchEvent::Added(pod) | WatchEvent::Modified(pod) = event? {
                    names.remove(pod.metadata.name.as_str());
                }
                if names.is_empty() {
                    break;
                }
            }
        }
        Ok::<_, ClientError>(begin.elapsed())
    };
    let both = async { tokio::try_join!(create, wait) };
    let finished = tokio::time::timeout(limit, both).await;
    match finished {
        Ok(Ok((created, bound))) => Ok(Figures { pods: pods.len(), created, bound }),
        Ok(Err(error)) => Err(error.into()),
        Err(_) => Err(BenchError::Timeout {
            bound: pods.len() - names.len(),
            all: pods.len(),
            seconds: limit.as_secs(),
        }),
    }
}

/// Of a pod only its name is read: the bench shares the machine with what it measures.
#[derive(serde::Deserialize)]
struct Named {
    metadata: Name,
}

#[derive(serde::Deserialize)]
struct Name {
    name: String,
}

/// The pods of a namespace that have a node, those that have one already first.
async fn watch_bound(
    client: &Client,
    namespace: &str,
) -> Result<impl Stream<Item = Result<WatchEvent<Named>, ClientError>> + use<>, ClientError> {
    let path = format!("/api/v1/namespaces/{namespace}/pods?watch=true&fieldSelector=spec.nodeName!%3D");
    let request = http::Request::get(&path).body(bytes::Bytes::new()).expect("the path is a valid URI");
    let body = client.stream(request).await?.into_body();
    Ok(decode_events(body, "the API server".to_owned()))
}

/// Does something with each object, many at a time; stops at the first error.
async fn each<K: Clone, F: Future<Output = Result<(), ClientError>>>(
    objects: &[K],
    act: impl Fn(K) -> F,
) -> Result<(), ClientError> {
    let mut running = futures::stream::iter(objects.iter().cloned()).map(act).buffer_unordered(CONCURRENT);
    while let Some(outcome) = running.next().await {
        outcome?;
    }
    Ok(())
}

/// Removes what was made; what isn't there (any more) is no problem.
async fn remove(client: &Client, plan: &Plan, prefix: &str) {
    let now = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
    let now = &now;
    let forgive = |outcome: Result<(), ClientError>| {
        if let Err(error) = outcome
            && !error.is_not_found()
        {
            tracing::warn!(%error, "Bench could not remove what it made");
        }
        Ok(())
    };
    let pods: Vec<Pod> = plan.init.iter().chain(&plan.measured).chain(&plan.churn).cloned().collect();
    let _ = each(&pods, |pod: Pod| async move {
        let (namespace, name) =
            (pod.metadata.namespace.unwrap_or_default(), pod.metadata.name.unwrap_or_default());
        forgive(client.namespaced::<Pod>(&namespace).delete(&name, now).await.map(drop))
    })
    .await;
    let _ = each(&plan.nodes, |node: Node| async move {
        forgive(client.api::<Node>().delete(&node.metadata.name.unwrap_or_default(), now).await.map(drop))
    })
    .await;
    let _ = each(&plan.namespaces, |namespace: Namespace| async move {
        forgive(
            client
                .api::<Namespace>()
                .delete(&namespace.metadata.name.unwrap_or_default(), now)
                .await
                .map(drop),
        )
    })
    .await;
    let _ = forgive(client.api::<PriorityClass>().delete(&class_of(prefix), now).await.map(drop));
}
