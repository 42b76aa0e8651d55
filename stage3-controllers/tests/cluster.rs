//! The controllers against the API server of stage 2, over HTTPS, in one process.
//!
//! There is no scheduler and no kubelet here: the test plays both, by writing pods' bindings and statuses.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::time::{Duration, Instant};

use clap::Parser;
use http::Method;
use serde_json::{Value, json};
use stage1_kubectl::client::{Client, ClientError};
use stage2_apiserver::pipeline::Cluster;
use stage3_controllers::pipeline;

#[derive(Parser)]
struct Cli {
    #[command(flatten)]
    flags: pipeline::Flags,
}

struct Harness {
    cluster: Cluster,
    client: Client,
    _dir: tempfile::TempDir,
}

impl Harness {
    async fn start() -> Harness {
        let dir = tempfile::tempdir().unwrap();
        let state_dir = dir.path().to_str().unwrap();
        let cli =
            Cli::parse_from(["test", "--state-dir", state_dir, "--store", "memory", "--secure-port", "0"]);
        let cluster = pipeline::start(&cli.flags).await.unwrap();
        let client = cluster.client("admin").unwrap();
        Harness { cluster, client, _dir: dir }
    }

    async fn call(&self, method: Method, path: &str, body: Option<Value>) -> Result<Value, ClientError> {
        let content_type =
            if method == Method::PATCH { "application/merge-patch+json" } else { "application/json" };
        let body = body.map(|body| body.to_string()).unwrap_or_default();
        let request = http::Request::builder()
            .method(method)
            .uri(path)
            .header("content-type", content_type)
            .body(body.into())
            .unwrap();
        self.client.request(request).await
    }

    async fn get(&self, path: &str) -> Value {
        self.call(Method::GET, path, None).await.unwrap_or(Value::Null)
    }

    async fn items(&self, path: &str) -> Vec<Value> {
        self.get(path).await["items"].as_array().cloned().unwrap_or_default()
    }

    /// Asks again until the answer is yes, at most for 20 s.
    async fn wait_for<F: Future<Output = bool>>(&self, what: &str, mut holds: impl FnMut() -> F) {
        let deadline = Instant::now() + Duration::from_secs(20);
        while !holds().await {
            assert!(Instant::now() < deadline, "{what} did not happen");
            tokio::time::sleep(Duration::from_millis(30)).await;
        }
    }

    /// Plays scheduler and kubelet: binds pods, reports them ready, ends those that are being deleted.
    async fn run_pods(&self, namespace: &str) {
        for (number, pod) in
            self.items(&format!("/api/v1/namespaces/{namespace}/pods")).await.into_iter().enumerate()
        {
            let path =
                format!("/api/v1/namespaces/{namespace}/pods/{}", pod["metadata"]["name"].as_str().unwrap());
            if pod["metadata"]["deletionTimestamp"].is_string() {
                let _ = self.call(Method::DELETE, &path, Some(json!({"gracePeriodSeconds": 0}))).await;
            } else if pod["spec"]["nodeName"].is_null() {
                let target = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": pod["metadata"]["name"]}, "target": {"kind": "Node", "name": "n1"}});
                let _ = self.call(Method::POST, &format!("{path}/binding"), Some(target)).await;
            } else if pod["status"]["phase"] == "Pending" {
                let ip = format!("10.244.0.{}", number + 10);
                let ready = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}],
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
                let _ = self.call(Method::PATCH, &format!("{path}/status"), Some(ready)).await;
            }
        }
    }
}

fn deployment(image: &str) -> Value {
    json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 3, "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": image, "ports": [{"containerPort": 80, "name": "http"}]}]}}}})
}

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn is_available(harness: &Harness, revision: &str) -> bool {
    harness.run_pods("default").await;
    let web = harness.get(&format!("{DEPLOYMENTS}/web")).await;
    let status = &web["status"];
    web["metadata"]["annotations"]["deployment.kubernetes.io/revision"] == revision
        && status["availableReplicas"] == 3
        && status["updatedReplicas"] == 3
        && status["replicas"] == 3
        && status["observedGeneration"] == web["metadata"]["generation"]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deployment_lives_and_dies() {
    let harness = Harness::start().await;
    harness
        .wait_for("the default service account", || async {
            !harness.get("/api/v1/namespaces/default/serviceaccounts/default").await.is_null()
        })
        .await;
    harness
        .wait_for("the root CA", || async {
            harness.get("/api/v1/namespaces/default/configmaps/kube-root-ca.crt").await["data"]["ca.crt"]
                .is_string()
        })
        .await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    harness.call(Method::POST, "/api/v1/nodes", Some(node)).await.unwrap();
    harness
        .wait_for("a pod CIDR", || async {
            harness.get("/api/v1/nodes/n1").await["spec"]["podCIDR"] == "10.244.0.0/24"
        })
        .await;

    harness.call(Method::POST, DEPLOYMENTS, Some(deployment("img:1"))).await.unwrap();
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"selector": {"app": "web"}, "ports": [{"port": 80, "targetPort": "http"}]}});
    harness.call(Method::POST, "/api/v1/namespaces/default/services", Some(service)).await.unwrap();
    harness.wait_for("the first rollout", || is_available(&harness, "1")).await;
    harness.wait_for("three ready endpoints", || async {
        let slices = harness.items("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices?labelSelector=kubernetes.io/service-name%3Dweb").await;
        let endpoints = slices.iter().flat_map(|slice| slice["endpoints"].as_array().cloned().unwrap_or_default());
        endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count() == 3
    }).await;

    let patch = json!({"spec": {"template": {"spec": {"containers": [{"name": "c", "image": "img:2"}]}}}});
    harness.call(Method::PATCH, &format!("{DEPLOYMENTS}/web"), Some(patch)).await.unwrap();
    harness.wait_for("the second rollout", || is_available(&harness, "2")).await;
    let sets = harness.items("/apis/apps/v1/namespaces/default/replicasets").await;
    assert_eq!(sets.len(), 2, "the old ReplicaSet is the history");

    harness
        .wait_for("the events", || async {
            let events = harness.items("/api/v1/namespaces/default/events").await;
            let told = |text: &str| {
                events
                    .iter()
                    .any(|event| event["message"].as_str().is_some_and(|message| message.contains(text)))
            };
            told("Scaled up replica set web-") && told("Created pod: web-") && told("Deleted pod: web-")
        })
        .await;

    harness.call(Method::DELETE, &format!("{DEPLOYMENTS}/web"), None).await.unwrap();
    harness
        .wait_for("the end of all it owned", || async {
            harness.run_pods("default").await;
            harness.items("/apis/apps/v1/namespaces/default/replicasets").await.is_empty()
                && harness.items("/api/v1/namespaces/default/pods").await.is_empty()
        })
        .await;
    harness.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_when_its_content_is_gone() {
    let harness = Harness::start().await;
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "doomed"}});
    harness.call(Method::POST, "/api/v1/namespaces", Some(namespace)).await.unwrap();
    let held = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "held", "finalizers": ["example.com/hold"]}});
    harness.call(Method::POST, "/api/v1/namespaces/doomed/configmaps", Some(held)).await.unwrap();
    harness.call(Method::DELETE, "/api/v1/namespaces/doomed", None).await.unwrap();
    harness.wait_for("the conditions", || async {
        let conditions = harness.get("/api/v1/namespaces/doomed").await["status"]["conditions"].to_string();
        conditions.contains("Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances")
    }).await;
    let release = json!({"metadata": {"finalizers": null}});
    harness.call(Method::PATCH, "/api/v1/namespaces/doomed/configmaps/held", Some(release)).await.unwrap();
    harness
        .wait_for("the end of the namespace", || async {
            harness.get("/api/v1/namespaces/doomed").await.is_null()
        })
        .await;
    harness.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn owners_are_deleted_in_the_foreground_or_leave_orphans() {
    let harness = Harness::start().await;
    let config_maps = "/api/v1/namespaces/default/configmaps";
    let make = |name: &str, owner: Option<Value>| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "ownerReferences": owner.map(|owner| json!([owner]))}});
    for (policy, survives) in [("Foreground", false), ("Orphan", true)] {
        let owner = harness.call(Method::POST, config_maps, Some(make("owner", None))).await.unwrap();
        let reference = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": true});
        harness.call(Method::POST, config_maps, Some(make("dependent", Some(reference)))).await.unwrap();
        harness
            .call(Method::DELETE, &format!("{config_maps}/owner"), Some(json!({"propagationPolicy": policy})))
            .await
            .unwrap();
        harness
            .wait_for(policy, || async { harness.get(&format!("{config_maps}/owner")).await.is_null() })
            .await;
        let dependent = harness.get(&format!("{config_maps}/dependent")).await;
        assert_eq!(!dependent.is_null(), survives, "{policy}: {dependent}");
        assert!(dependent["metadata"]["ownerReferences"].as_array().is_none_or(Vec::is_empty), "{policy}");
    }
    harness.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_echo_of_a_first_revision_brings_its_owner_back() {
    let harness = Harness::start().await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    harness.call(Method::POST, "/api/v1/nodes", Some(node)).await.unwrap();
    let untaint = json!({"spec": {"taints": null}});
    harness
        .wait_for("a node that the controllers know", || async {
            harness.get("/api/v1/nodes/n1").await["spec"]["podCIDR"].is_string()
        })
        .await;
    harness.call(Method::PATCH, "/api/v1/nodes/n1", Some(untaint)).await.unwrap();
    let apps = "/apis/apps/v1/namespaces/default";
    // When this one wants a pod, the controllers have heard all of the node: it will wake nobody any more.
    let witness = json!({"apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": "witness"},
        "spec": {"selector": {"matchLabels": {"app": "witness"}}, "template": {"metadata": {"labels": {"app": "witness"}},
            "spec": {"containers": [{"name": "c", "image": "img"}]}}}});
    harness.call(Method::POST, &format!("{apps}/daemonsets"), Some(witness)).await.unwrap();
    harness
        .wait_for("a DaemonSet that counts on the node", || async {
            harness.get(&format!("{apps}/daemonsets/witness")).await["status"]["desiredNumberScheduled"] == 1
        })
        .await;
    // Nothing else happens to these: only the revision that they wrote can wake them again.
    for (kind, plural) in [("StatefulSet", "statefulsets"), ("DaemonSet", "daemonsets")] {
        let name = kind.to_lowercase();
        let mut set = json!({"apiVersion": "apps/v1", "kind": kind, "metadata": {"name": name},
            "spec": {"selector": {"matchLabels": {"app": name}}, "template": {"metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "c", "image": "img"}]}}}});
        if kind == "StatefulSet" {
            set["spec"]["serviceName"] = json!("none");
        }
        harness.call(Method::POST, &format!("{apps}/{plural}"), Some(set)).await.unwrap();
        harness
            .wait_for(kind, || async {
                harness.get(&format!("{apps}/{plural}/{name}")).await["status"]["observedGeneration"] == 1
            })
            .await;
    }
    harness.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_of_a_job_that_is_gone_are_let_go() {
    let harness = Harness::start().await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let pods = "/api/v1/namespaces/default/pods";
    let job = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "j"},
        "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "img"}]}}}});
    harness.call(Method::POST, jobs, Some(job.clone())).await.unwrap();
    harness.wait_for("a pod", || async { harness.items(pods).await.len() == 1 }).await;
    let first = harness.items(pods).await[0]["metadata"]["uid"].clone();
    let at_once = json!({"propagationPolicy": "Background", "gracePeriodSeconds": 0});
    harness.call(Method::DELETE, &format!("{jobs}/j"), Some(at_once)).await.unwrap();
    // A new Job of the same name neither counts nor keeps the pods of the old one.
    harness.call(Method::POST, jobs, Some(job)).await.unwrap();
    harness
        .wait_for("the end of the first pod", || async {
            harness.run_pods("default").await;
            let left = harness.items(pods).await;
            left.len() == 1 && left[0]["metadata"]["uid"] != first
        })
        .await;
    harness.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quotas_and_budgets_are_kept() {
    let harness = Harness::start().await;
    let default = "/api/v1/namespaces/default";
    let pods = format!("{default}/pods");
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    harness
        .wait_for("the default service account", || async {
            !harness.get(&format!("{default}/serviceaccounts/default")).await.is_null()
        })
        .await;
    let node = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}});
    harness.call(Method::POST, "/api/v1/nodes", Some(node)).await.unwrap();
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "a"}}, "spec": {"containers": [{"name": "c", "image": "img"}]}});

    let quota = json!({"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "2"}}});
    harness.call(Method::POST, &format!("{default}/resourcequotas"), Some(quota)).await.unwrap();
    let used = async |number: &str| {
        let status = harness.get(&format!("{default}/resourcequotas/q")).await["status"].clone();
        status["hard"]["pods"] == "2" && status["used"]["pods"] == number
    };
    harness.wait_for("the first count", || used("0")).await;
    for name in ["a", "b"] {
        harness.call(Method::POST, &pods, Some(pod(name))).await.unwrap();
    }
    let refused = harness.call(Method::POST, &pods, Some(pod("c"))).await.unwrap_err().to_string();
    assert!(
        refused.contains("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"),
        "{refused}"
    );

    let budget = json!({"apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}}});
    harness.call(Method::POST, budgets, Some(budget)).await.unwrap();
    harness
        .wait_for("one allowed disruption", || async {
            harness.run_pods("default").await;
            harness.get(&format!("{budgets}/b")).await["status"]["disruptionsAllowed"] == 1
        })
        .await;
    let evict = async |name: &str| {
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}});
        harness.call(Method::POST, &format!("{pods}/{name}/eviction"), Some(eviction)).await
    };
    evict("a").await.unwrap();
    let refused = evict("b").await.unwrap_err().to_string();
    assert!(
        refused.contains("Cannot evict pod as it would violate the pod's disruption budget."),
        "{refused}"
    );

    harness
        .wait_for("the place of the evicted pod", || async {
            harness.run_pods("default").await;
            used("1").await
        })
        .await;
    harness.call(Method::POST, &pods, Some(pod("c"))).await.unwrap();
    harness.cluster.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_claim_that_no_pod_uses_goes_when_it_is_deleted() {
    let harness = Harness::start().await;
    let claims = "/api/v1/namespaces/default/persistentvolumeclaims";
    let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    let made = harness.call(Method::POST, claims, Some(claim)).await.unwrap();
    assert_eq!(made["metadata"]["finalizers"], json!(["kubernetes.io/pvc-protection"]));
    harness.call(Method::DELETE, &format!("{claims}/data"), None).await.unwrap();
    harness
        .wait_for("the end of the claim", || async { harness.get(&format!("{claims}/data")).await.is_null() })
        .await;
    harness.cluster.stop().await;
}
