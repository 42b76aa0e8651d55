//! One API server in memory, and schedulers in this process.

use std::sync::Arc;
use std::time::{Duration, Instant};

use clap::Parser;
use http::Method;
use serde_json::{Value, json};
use stage1_kubectl::client::{Client, ClientError};
use stage2_apiserver::pipeline::{self, Cluster, ClusterFlags};
use stage3_controllers::informer::factory::InformerFactory;
use stage4_scheduler::configuration::{self, registry::Registry};
use stage4_scheduler::extender::Extender;
use stage4_scheduler::metrics::Metrics;
use stage4_scheduler::scheduler::{self, Options, Scheduler};
use stage4_scheduler::waiting_pods::WaitingPods;
use tokio_util::sync::CancellationToken;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    flags: ClusterFlags,
}

pub struct Harness {
    pub cluster: Cluster,
    pub client: Client,
    _dir: tempfile::TempDir,
}

/// Long, since the machine may be busy; what is waited for comes in milliseconds.
const PATIENCE: Duration = Duration::from_secs(30);

impl Harness {
    /// An API server with the namespaces `w` and `w2`.
    pub async fn start() -> Harness {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().to_str().unwrap();
        let cli =
            Cli::parse_from(["test", "--state-dir", state_dir, "--store", "memory", "--secure-port", "0"]);
        let cluster = pipeline::start(&cli.flags).await.unwrap();
        let client = cluster.client("admin").unwrap();
        let harness = Harness { cluster, client, _dir: dir };
        for (name, labels) in [("w", json!({})), ("w2", json!({"team": "x"}))] {
            harness.create(&json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}})).await;
            harness.create(&json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default", "namespace": name}})).await;
        }
        harness
    }

    /// A scheduler of this configuration file (its body; empty for none) in this process.
    pub async fn scheduler(&self, body: &str) -> (Arc<Scheduler>, CancellationToken) {
        self.scheduler_with(body, &Registry::default(), WaitingPods::default()).await
    }

    /// The same, with plugins of the test's own.
    pub async fn scheduler_with(
        &self,
        body: &str,
        registry: &Registry,
        waiting_pods: WaitingPods,
    ) -> (Arc<Scheduler>, CancellationToken) {
        let text =
            format!("apiVersion: {}\nkind: {}\n{body}", configuration::API_VERSION, configuration::KIND);
        let configuration =
            configuration::load_with(&text, registry).unwrap_or_else(|error| panic!("{error}"));
        let client = self.cluster.client("kube-scheduler").unwrap();
        let extenders = configuration.file.extenders.iter().map(|one| Extender::new(one).unwrap()).collect();
        let options = Options { extenders, waiting_pods, ..Options::default() };
        let metrics = Metrics::new(&mut Default::default());
        let profiles = Arc::new(configuration.profiles);
        let made = Scheduler::with_options(client.clone(), profiles, "test", metrics, options);
        let shutdown = CancellationToken::new();
        let factory = InformerFactory::new(client, shutdown.clone());
        tokio::spawn(scheduler::run(made.clone(), factory, shutdown.clone()));
        (made, shutdown)
    }

    pub async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, ClientError> {
        let patch = "application/merge-patch+json";
        let content_type = if method == Method::PATCH { patch } else { "application/json" };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = http::Request::builder().method(method).uri(path).header("content-type", content_type);
        self.client.request(request.body(body.into()).unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, None).await.unwrap_or(Value::Null)
    }

    pub async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().cloned().unwrap_or_default()
    }

    /// Creates an object as it is, status included, and nodes without the taint that admission adds.
    pub async fn create(&self, object: &Value) -> Value {
        let path = path_of(object);
        let made = self.call(Method::POST, &path, Some(object.clone())).await;
        let made = made.unwrap_or_else(|error| panic!("{path} {object}: {error}"));
        let of_one = format!("{path}/{}", object["metadata"]["name"].as_str().unwrap());
        if object["kind"] == "Node" {
            let taints = object["spec"]["taints"].clone();
            self.call(Method::PATCH, &of_one, Some(json!({"spec": {"taints": taints}}))).await.unwrap();
        }
        if !object["status"].is_null() {
            let status = json!({"status": object["status"]});
            self.call(Method::PATCH, &format!("{of_one}/status"), Some(status)).await.unwrap();
        }
        made
    }

    pub async fn delete(&self, path: &str) {
        let _ = self.call(Method::DELETE, path, Some(json!({"gracePeriodSeconds": 0}))).await;
    }

    /// Asks again until the answer is `Some`.
    pub async fn wait_for<T, F: Future<Output = Option<T>>>(
        &self,
        what: &str,
        mut ask: impl FnMut() -> F,
    ) -> T {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(answer) = ask().await {
                return answer;
            }
            assert!(Instant::now() < deadline, "{what} did not happen");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    pub async fn node_of(&self, pod: &str) -> Option<String> {
        self.get(&format!("/api/v1/namespaces/w/pods/{pod}")).await["spec"]["nodeName"]
            .as_str()
            .map(str::to_owned)
    }

    pub async fn bound(&self, pod: &str) -> String {
        self.wait_for(&format!("binding of {pod}"), || self.node_of(pod)).await
    }

    /// The message of the pod's `PodScheduled` condition, once it has the reason.
    pub async fn refusal(&self, pod: &str, reason: &str) -> String {
        let ask = || async {
            let condition = self.pod_scheduled(pod).await;
            (condition["reason"] == reason).then(|| condition["message"].as_str().unwrap_or("").to_owned())
        };
        self.wait_for(&format!("{reason} of {pod}"), ask).await
    }

    pub async fn pod_scheduled(&self, pod: &str) -> Value {
        let pod = self.get(&format!("/api/v1/namespaces/w/pods/{pod}")).await;
        let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
        conditions.into_iter().find(|c| c["type"] == "PodScheduled").unwrap_or(Value::Null)
    }

    pub async fn events(&self, pod: &str) -> Vec<Value> {
        let events = self.items("/api/v1/namespaces/w/events").await;
        events.into_iter().filter(|event| event["involvedObject"]["name"] == pod).collect()
    }

    /// Waits until the scheduler has seen so many nodes and pods with a node.
    pub async fn seen(&self, scheduler: &Scheduler, sizes: (usize, usize)) {
        self.wait_for(&format!("{sizes:?} in the cache"), || async {
            (scheduler.state.lock().cache.sizes() == sizes).then_some(())
        })
        .await;
    }
}

fn path_of(object: &Value) -> String {
    let text = |pointer: &str| object.pointer(pointer).and_then(Value::as_str).unwrap_or("").to_owned();
    let (kind, version) = (text("/kind"), text("/apiVersion"));
    let group = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    let plural = match kind.as_str() {
        "StorageClass" | "PriorityClass" => format!("{}es", kind.to_lowercase()),
        _ => format!("{}s", kind.to_lowercase()),
    };
    match text("/metadata/namespace") {
        namespace if namespace.is_empty() => format!("{group}/{plural}"),
        namespace => format!("{group}/namespaces/{namespace}/{plural}"),
    }
}

pub fn node(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}}, "spec": {},
        "status": {"allocatable": {"cpu": cpu, "memory": "8Gi", "pods": "20"}, "capacity": {"cpu": cpu, "memory": "8Gi", "pods": "20"}}})
}

pub fn pod(name: &str, cpu: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "namespace": "w"}, "spec": {
        "containers": [{"name": "c", "image": "img", "resources": {"requests": {"cpu": cpu}}}]}})
}
