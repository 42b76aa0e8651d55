//! Who may do what, over HTTP: recorded answers of a stock API server, tokens, and evictions.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "test: reads recorded cases, waits with a deadline"
)]

mod support {
    pub mod compare;
    pub mod raw;
    pub mod replay;
}

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use stage2_apiserver::pki::Identity;
use support::compare::difference;
use support::raw::{Raw, TestCluster};
use support::replay::{Tally, ask, cases_dir, judge, namespace, records, start};

/// The authorizer follows its caches; a record is asked again until it agrees or this is over.
const PATIENCE: Duration = Duration::from_secs(2);
/// Records that agree, at least.
const FLOOR: usize = 48;

fn as_user(cluster: &TestCluster, name: &str, groups: &[&str]) -> Raw {
    let identity = Identity::new(name, groups);
    let made = cluster.cluster.pki().client(name, &identity).unwrap();
    Raw::with_identity(cluster, Some((made.certificate_pem, made.key_pem)))
}

/// The collection of an RBAC object.
fn collection(object: &Value) -> String {
    let root = "/apis/rbac.authorization.k8s.io/v1";
    let resource = format!("{}s", object["kind"].as_str().unwrap().to_lowercase());
    match object["metadata"]["namespace"].as_str() {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{resource}"),
        None => format!("{root}/{resource}"),
    }
}

/// Asks everything in a record once; `None` when all answers agree.
async fn replay(clients: &mut Clients, record: &Value) -> Option<String> {
    for review in record["reviews"].as_array().into_iter().flatten() {
        let body = json!({ "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": review["spec"] });
        let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
        let answer = clients.admin.json("POST", path, &body).await;
        if u64::from(answer.code) != review["code"].as_u64().unwrap_or(0) {
            return Some(format!("{}: {} {}", review["spec"], answer.code, answer.text()));
        }
        if answer.code == 201
            && let Some(why) = difference(&review["status"], &answer.json()["status"])
        {
            return Some(format!("{}{why}", review["spec"]));
        }
    }
    let mut request = record.get("request").filter(|r| r.is_object())?.clone();
    if request["method"] == "POST" && request.get("body").is_none() {
        // The record doesn't say what was sent; nothing is in it that matters.
        request["body"] = json!({});
    }
    // These were sent by a client that says nothing of itself.
    request["headers"]["User-Agent"] = json!("");
    if let Some(who) = record.get("as") {
        request["headers"]["Impersonate-User"] = who["user"].clone();
        request["headers"]["Impersonate-Group"] = who["groups"].clone();
    }
    let by = request["by"].as_str().unwrap_or("admin").to_owned();
    let client = match () {
        () if by.starts_with("no client") => &mut clients.nobody,
        () if by.contains("kube-scheduler") => &mut clients.scheduler,
        () => &mut clients.admin,
    };
    judge(&record["response"], &ask(client, &request).await)
}

struct Clients {
    admin: Raw,
    scheduler: Raw,
    nobody: Raw,
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_are_as_recorded() {
    let Some(directory) = cases_dir("authz") else { return };
    let (cluster, admin) = start().await;
    let scheduler = as_user(&cluster, "system:kube-scheduler", &[]);
    let mut clients = Clients { admin, scheduler, nobody: Raw::with_identity(&cluster, None) };
    namespace(&mut clients.admin, "az", json!({})).await;
    let mut tally = Tally::default();
    let mut escalations = 0;
    for (name, record) in records(&directory) {
        // This server has a Node authorizer, and aggregation is the controller manager's.
        if name.contains("node-group") || name.contains("021-aggregated") {
            tally.not_yet += 1;
            continue;
        }
        let setup: Vec<&Value> = record["setup"].as_array().into_iter().flatten().collect();
        for object in &setup {
            clients.admin.json("POST", &collection(object), object).await;
        }
        let deadline = Instant::now() + PATIENCE;
        let outcome = loop {
            let outcome = replay(&mut clients, &record).await;
            if outcome.is_none() || Instant::now() > deadline {
                break outcome;
            }
        };
        let made = record["request"]["body"].clone();
        for object in setup.into_iter().chain([&made]).filter(|o| o["kind"].is_string()) {
            let name = object["metadata"]["name"].as_str().unwrap_or("");
            clients.admin.json("DELETE", &format!("{}/{name}", collection(object)), &json!({})).await;
        }
        escalations += usize::from(
            outcome.is_none() && (name.contains("escalate") || name.contains("aggregation-needs")),
        );
        tally.add(&name, outcome);
    }
    tally.finish("authz", FLOOR);
    assert!(escalations >= 8, "{escalations} records about escalation agree");
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_gives_away_what_they_do_not_have() {
    let (cluster, mut admin) = start().await;
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let role = json!({ "metadata": { "name": "binder" }, "rules": [
        { "apiGroups": ["rbac.authorization.k8s.io"], "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"], "verbs": ["get", "create", "update", "patch"] },
    ]});
    admin.json("POST", &format!("{rbac}/clusterroles"), &role).await;
    let binding = |role: &str, user: &str| {
        json!({ "metadata": { "name": format!("{role}-{user}") },
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": role },
            "subjects": [{ "apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": user }] })
    };
    admin.json("POST", &format!("{rbac}/clusterrolebindings"), &binding("binder", "eve")).await;
    let mut eve = as_user(&cluster, "eve", &[]);
    let deadline = Instant::now() + PATIENCE;
    let roles = format!("{rbac}/namespaces/default/roles");
    let harmless = json!({ "metadata": { "name": "r" }, "rules": [] });
    while eve.json("POST", &roles, &harmless).await.code == 403 {
        assert!(Instant::now() < deadline, "eve may make roles");
    }
    // Every way to more rights: a binding, a binding to a role that isn't there, a role, an update, a patch, a PUT that creates.
    let bindings = format!("{rbac}/clusterrolebindings");
    let refused = eve.json("POST", &bindings, &binding("cluster-admin", "eve")).await;
    assert_eq!(
        (refused.code, refused.json()["reason"].clone()),
        (403, json!("Forbidden")),
        "{}",
        refused.text()
    );
    assert_eq!(eve.json("POST", &bindings, &binding("nowhere", "eve")).await.code, 404);
    let grab = json!({ "metadata": { "name": "r", "namespace": "default" }, "rules": [{ "apiGroups": [""], "resources": ["secrets"], "verbs": ["get"] }] });
    assert_eq!(eve.json("PUT", &format!("{roles}/r"), &grab).await.code, 403);
    for kind in ["merge-patch", "strategic-merge-patch"] {
        let kind = format!("application/{kind}+json");
        let headers = [("content-type", kind.as_str())];
        let patched = eve
            .send("PATCH", &format!("{roles}/r"), &headers, json!({ "rules": grab["rules"] }).to_string())
            .await;
        assert_eq!(patched.code, 403, "{}", patched.text());
    }
    let mut new = grab.clone();
    new["metadata"]["name"] = json!("new");
    assert_eq!(eve.json("PUT", &format!("{roles}/new"), &new).await.code, 403);
    let cluster_role = json!({ "metadata": { "name": "all" }, "rules": [{ "apiGroups": ["*"], "resources": ["*"], "verbs": ["*"] }] });
    assert_eq!(eve.json("POST", &format!("{rbac}/clusterroles"), &cluster_role).await.code, 403);
    assert_eq!(eve.get("/api/v1/namespaces/default/secrets").await.code, 403, "eve got nothing");
    // What changes no right passes.
    let headers = [("content-type", "application/merge-patch+json")];
    let labelled =
        eve.send("PATCH", &format!("{roles}/r"), &headers, r#"{"metadata":{"labels":{"a":"b"}}}"#).await;
    assert_eq!(labelled.code, 200, "{}", labelled.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_requested_token_identifies_its_account_until_the_pod_is_gone() {
    let (cluster, mut admin) = start().await;
    namespace(&mut admin, "az", json!({})).await;
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let pod = admin.json("POST", "/api/v1/namespaces/az/pods", &pod).await.json();
    let uid = pod["metadata"]["uid"].clone();
    let path = "/api/v1/namespaces/az/serviceaccounts/default/token";
    let reference = json!({ "kind": "Pod", "apiVersion": "v1", "name": "p", "uid": uid });
    let request = json!({ "spec": { "expirationSeconds": 3600, "boundObjectRef": reference } });
    let made = admin.json("POST", path, &request).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let token = made.json()["status"]["token"].as_str().unwrap().to_owned();
    let short = admin.json("POST", path, &json!({ "spec": { "expirationSeconds": 60 } })).await;
    assert_eq!(short.code, 422, "{}", short.text());

    let mut nobody = Raw::with_identity(&cluster, None);
    let bearer = format!("Bearer {token}");
    let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
    let who = nobody.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &headers, "{}").await;
    assert_eq!(who.code, 201, "{}", who.text());
    let info = who.json()["status"]["userInfo"].clone();
    assert_eq!(info["username"], "system:serviceaccount:az:default");
    assert_eq!(
        info["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:az", "system:authenticated"])
    );
    assert_eq!(info["extra"]["authentication.kubernetes.io/pod-name"], json!(["p"]));

    let review = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": { "token": token } });
    let reviews = "/apis/authentication.k8s.io/v1/tokenreviews";
    let reviewed = admin.json("POST", reviews, &review).await.json();
    assert_eq!(reviewed["status"]["authenticated"], true, "{reviewed}");
    assert_eq!(reviewed["status"]["user"]["username"], "system:serviceaccount:az:default");
    let foreign = json!({ "spec": { "token": token, "audiences": ["elsewhere"] } });
    assert_ne!(admin.json("POST", reviews, &foreign).await.json()["status"]["authenticated"], true);
    let forged = json!({ "spec": { "token": format!("{token}x") } });
    assert_ne!(admin.json("POST", reviews, &forged).await.json()["status"]["authenticated"], true);

    let gone = json!({ "gracePeriodSeconds": 0 });
    assert_eq!(admin.json("DELETE", "/api/v1/namespaces/az/pods/p", &gone).await.code, 200);
    let deadline = Instant::now() + PATIENCE;
    while nobody.send("POST", "/apis/authentication.k8s.io/v1/selfsubjectreviews", &headers, "{}").await.code
        != 401
    {
        assert!(Instant::now() < deadline, "the token dies with its pod");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_eviction_asks_the_budget_first() {
    let (_cluster, mut admin) = start().await;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({ "metadata": { "name": "p", "labels": { "a": "b" } }, "spec": { "nodeName": "n", "containers": [{ "name": "c", "image": "i" }] } });
    let mut pod = admin.json("POST", pods, &pod).await.json();
    pod["status"]["phase"] = json!("Running");
    pod["status"]["conditions"] = json!([{ "type": "Ready", "status": "True" }]);
    assert_eq!(admin.json("PUT", &format!("{pods}/p/status"), &pod).await.code, 200);
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let budget = json!({ "metadata": { "name": "b" }, "spec": { "minAvailable": 1, "selector": { "matchLabels": { "a": "b" } } } });
    let mut budget = admin.json("POST", budgets, &budget).await.json();
    let mut allow = async |admin: &mut Raw, allowed: i64| {
        budget["status"] = json!({ "observedGeneration": 1, "disruptionsAllowed": allowed, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1 });
        budget = admin.json("PUT", &format!("{budgets}/b/status"), &budget).await.json();
        assert_eq!(budget["status"]["disruptionsAllowed"], allowed);
    };
    let eviction = json!({ "apiVersion": "policy/v1", "kind": "Eviction", "metadata": { "name": "p" } });
    allow(&mut admin, 0).await;
    let refused = admin.json("POST", &format!("{pods}/p/eviction"), &eviction).await;
    assert_eq!(refused.code, 429, "{}", refused.text());
    assert_eq!(
        refused.json()["message"],
        "Cannot evict pod as it would violate the pod's disruption budget."
    );
    assert!(admin.get(&format!("{pods}/p")).await.json()["metadata"]["deletionTimestamp"].is_null());
    allow(&mut admin, 1).await;
    let evicted = admin.json("POST", &format!("{pods}/p/eviction"), &eviction).await;
    assert_eq!(evicted.code, 201, "{}", evicted.text());
    assert!(admin.get(&format!("{pods}/p")).await.json()["metadata"]["deletionTimestamp"].is_string());
    let used = admin.get(&format!("{budgets}/b")).await.json();
    assert_eq!(used["status"]["disruptionsAllowed"], 0);
    assert!(used["status"]["disruptedPods"]["p"].is_string());
}
