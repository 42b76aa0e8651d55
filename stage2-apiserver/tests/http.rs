//! The HTTP boundary: bad input gets a clear answer in Kubernetes' words, and the server stays up.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod support {
    pub mod raw;
}

use serde_json::{Value, json};
use support::raw::{Raw, cluster};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

fn config_map(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name }, "data": { "a": "1" } })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_four_mebibytes_is_413_and_the_server_stays_up() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let mut big = config_map("big");
    big["data"]["a"] = json!("x".repeat(4 * 1024 * 1024));
    let refused = client.json("POST", CONFIG_MAPS, &big).await;
    assert_eq!(refused.code, 413);
    assert_eq!(refused.json()["message"], "Request entity too large: limit is 3145728");
    assert_eq!(client.json("POST", CONFIG_MAPS, &config_map("small")).await.code, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_foreign_certificate_is_401_and_no_certificate_is_anonymous() {
    let cluster = cluster().await;
    let elsewhere = tempfile::tempdir().expect("a directory");
    let now = "2026-01-01T00:00:00Z".parse().expect("a time");
    let other = stage2_apiserver::pki::Pki::open(elsewhere.path(), now).expect("another CA");
    let identity = stage2_apiserver::pki::Identity::of_component("admin");
    let foreign = other.client("admin", &identity).expect("a certificate");
    let mut impostor = Raw::with_identity(&cluster, Some((foreign.certificate_pem, foreign.key_pem)));
    let refused = impostor.get("/api/v1/namespaces").await;
    assert_eq!((refused.code, refused.json()["message"].clone()), (401, json!("Unauthorized")));

    let mut nobody = Raw::with_identity(&cluster, None);
    for open in ["/healthz", "/livez", "/readyz", "/version"] {
        assert_eq!(nobody.get(open).await.code, 200, "{open}");
    }
    let forbidden = nobody.get("/api/v1/namespaces").await;
    assert_eq!(forbidden.code, 403);
    assert_eq!(
        forbidden.json()["message"],
        "namespaces is forbidden: User \"system:anonymous\" cannot list resource \"namespaces\" in API group \"\" at the cluster scope"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_user_without_rights_is_403() {
    let cluster = cluster().await;
    let identity = stage2_apiserver::pki::Identity::new("jane", &[]);
    let jane = cluster.cluster.pki().client("jane", &identity).expect("a certificate");
    let mut jane = Raw::with_identity(&cluster, Some((jane.certificate_pem, jane.key_pem)));
    let refused = jane.json("POST", CONFIG_MAPS, &config_map("x")).await;
    assert_eq!(refused.code, 403);
    assert_eq!(
        refused.json()["message"],
        "configmaps is forbidden: User \"jane\" cannot create resource \"configmaps\" in API group \"\" in the namespace \"default\""
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_resource_version_is_409_and_loses_nothing() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let first = client.json("POST", CONFIG_MAPS, &config_map("x")).await.json();
    let mut second = first.clone();
    second["data"]["a"] = json!("2");
    let path = format!("{CONFIG_MAPS}/x");
    assert_eq!(client.json("PUT", &path, &second).await.code, 200);
    let mut stale = first;
    stale["data"]["a"] = json!("3");
    let refused = client.json("PUT", &path, &stale).await;
    assert_eq!(refused.code, 409);
    assert_eq!(
        refused.json()["message"],
        "Operation cannot be fulfilled on configmaps \"x\": the object has been modified; please apply your changes to the latest version and try again"
    );
    assert_eq!(client.get(&path).await.json()["data"]["a"], "2");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_field_is_an_error_or_a_warning() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let mut odd = config_map("odd");
    odd["dat"] = json!({});
    let strict = client.json("POST", &format!("{CONFIG_MAPS}?fieldValidation=Strict"), &odd).await;
    assert_eq!(strict.code, 400);
    assert!(strict.text().contains(r#"strict decoding error: unknown field \"dat\""#), "{}", strict.text());
    let warned = client.json("POST", CONFIG_MAPS, &odd).await;
    assert_eq!(warned.code, 201);
    assert_eq!(warned.header("warning"), r#"299 - "unknown field \"dat\"""#);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_watch_gets_one_event_of_410() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    for round in 0..3 {
        let name = format!("c{round}");
        client.json("POST", CONFIG_MAPS, &config_map(&name)).await;
    }
    // What is older than the store's history and the cache's memory is gone.
    let storage = cluster.cluster.api_server.stores.caches().storage().clone();
    let now = storage.freshness("/").await.expect("a revision").revision;
    storage.compact(now).await.expect("compacted");
    let watch = client.get(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1&timeoutSeconds=1")).await;
    assert_eq!(watch.code, 200);
    let event: Value = serde_json::from_slice(&watch.body).unwrap_or_default();
    assert_eq!(
        (&event["type"], &event["object"]["code"]),
        (&json!("ERROR"), &json!(410)),
        "{}",
        watch.text()
    );
    assert_eq!(event["object"]["reason"], "Expired");
    assert_eq!(event["object"]["message"].as_str().map(|m| &m[..24]), Some("too old resource version"));
}

#[tokio::test(flavor = "multi_thread")]
async fn twenty_creates_at_once_take_what_a_quota_of_five_has() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota =
        json!({ "metadata": { "name": "q" }, "spec": { "hard": { "pods": "5", "requests.cpu": "10" } } });
    let mut quota = client.json("POST", quotas, &quota).await.json();
    quota["status"] = json!({ "hard": quota["spec"]["hard"], "used": { "pods": "0", "requests.cpu": "0" } });
    assert_eq!(client.json("PUT", &format!("{quotas}/q/status"), &quota).await.code, 200);
    let mut creates = tokio::task::JoinSet::new();
    for index in 0..20 {
        let mut client = Raw::admin(&cluster);
        creates.spawn(async move {
            let container =
                json!({ "name": "c", "image": "i", "resources": { "requests": { "cpu": "100m" } } });
            // Half of them let the server choose the name.
            let metadata = if index % 2 == 0 {
                json!({ "name": format!("p{index}") })
            } else {
                json!({ "generateName": "p-" })
            };
            let pod = json!({ "metadata": metadata, "spec": { "containers": [container] } });
            client.json("POST", "/api/v1/namespaces/default/pods", &pod).await
        });
    }
    let answers = creates.join_all().await;
    let made = answers.iter().filter(|a| a.code == 201).count();
    let refused: Vec<_> = answers.iter().filter(|a| a.code != 201).collect();
    assert_eq!(made, 5);
    for answer in refused {
        assert_eq!(answer.code, 403, "{}", answer.text());
        assert!(
            answer.text().contains(
                "is forbidden: exceeded quota: q, requested: pods=1, used: pods=5, limited: pods=5"
            ),
            "{}",
            answer.text()
        );
    }
    let used = client.get(&format!("{quotas}/q")).await.json()["status"]["used"].clone();
    assert_eq!(used, json!({ "pods": "5", "requests.cpu": "500m" }));
    assert_eq!(
        client.get("/api/v1/namespaces/default/pods").await.json()["items"].as_array().map(Vec::len),
        Some(5)
    );
    // A dry run reserves nothing, and neither does what the quota doesn't count.
    assert_eq!(client.json("POST", CONFIG_MAPS, &config_map("free")).await.code, 201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_streams_what_happens() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let mut watcher = Raw::admin(&cluster);
    let from =
        client.get(CONFIG_MAPS).await.json()["metadata"]["resourceVersion"].as_str().unwrap_or("").to_owned();
    let path =
        format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}&timeoutSeconds=2&allowWatchBookmarks=true");
    let watching = tokio::spawn(async move { watcher.get(&path).await });
    client.json("POST", CONFIG_MAPS, &config_map("w")).await;
    client.json("DELETE", &format!("{CONFIG_MAPS}/w"), &json!({})).await;
    let text = watching.await.expect("the watch ends by itself").text();
    let kinds: Vec<String> = text
        .lines()
        .filter_map(|l| serde_json::from_str::<Value>(l).ok())
        .map(|e| {
            format!(
                "{} {}",
                e["type"].as_str().unwrap_or(""),
                e["object"]["metadata"]["name"].as_str().unwrap_or("")
            )
        })
        .filter(|k| !k.starts_with("BOOKMARK"))
        .collect();
    assert_eq!(kinds, ["ADDED w", "DELETED w"], "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_come_in_pieces_of_one_state() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    for index in 0..5 {
        client.json("POST", CONFIG_MAPS, &config_map(&format!("p{index}"))).await;
    }
    let mut names = Vec::new();
    let mut path = format!("{CONFIG_MAPS}?limit=2");
    loop {
        let page = client.get(&path).await.json();
        for item in page["items"].as_array().into_iter().flatten() {
            names.push(item["metadata"]["name"].as_str().unwrap_or("").to_owned());
        }
        match page["metadata"]["continue"].as_str() {
            Some(token) => path = format!("{CONFIG_MAPS}?limit=2&continue={token}"),
            None => break,
        }
        // What is made meanwhile is not in the list.
        client.json("POST", CONFIG_MAPS, &config_map("zz-later")).await;
    }
    names.retain(|n| n.starts_with('p') || n.starts_with("zz"));
    assert_eq!(names, ["p0", "p1", "p2", "p3", "p4"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_goes_when_it_is_finalized() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    client.json("POST", "/api/v1/namespaces", &json!({ "metadata": { "name": "gone" } })).await;
    let path = "/api/v1/namespaces/gone";
    let marked = client.json("DELETE", path, &json!({})).await;
    assert_eq!(marked.json()["status"]["phase"], "Terminating", "{}", marked.text());
    let refused = client.json("POST", &format!("{path}/configmaps"), &config_map("x")).await;
    assert_eq!(refused.code, 403);
    let mut object = client.get(path).await.json();
    object["spec"]["finalizers"] = json!([]);
    assert_eq!(client.json("PUT", &format!("{path}/finalize"), &object).await.code, 200);
    assert_eq!(client.get(path).await.code, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_bound_once() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let pods = "/api/v1/namespaces/default/pods";
    let pod =
        json!({ "metadata": { "name": "p" }, "spec": { "containers": [{ "name": "c", "image": "i" }] } });
    let made = client.json("POST", pods, &pod).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let binding =
        |node: &str| json!({ "metadata": { "name": "p" }, "target": { "kind": "Node", "name": node } });
    assert_eq!(client.json("POST", &format!("{pods}/p/binding"), &binding("n1")).await.code, 201);
    let again = client.json("POST", &format!("{pods}/p/binding"), &binding("n2")).await;
    assert_eq!(again.code, 409);
    assert_eq!(
        again.json()["message"],
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
    );
    let bound = client.get(&format!("{pods}/p")).await.json();
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
}

#[tokio::test(flavor = "multi_thread")]
#[expect(clippy::disallowed_methods, reason = "shell: a deadline")]
async fn objects_are_there_after_a_restart() {
    use stage2_apiserver::pipeline::{self, ClusterFlags, StoreKind};
    let directory = tempfile::tempdir().expect("a directory");
    let flags = ClusterFlags {
        state_dir: Some(directory.path().to_owned()),
        store: Some(StoreKind::Embedded),
        secure_port: 0,
        ..ClusterFlags::default()
    };
    let first = pipeline::start(&flags).await.expect("starts");
    let server = first.server.clone();
    let api = first.client("admin").expect("a client");
    let resource = stage2_apiserver::registry::find("", "v1", "configmaps").expect("registered");
    let path = resource.gvr().path(Some("default"), None, None);
    let request = http::Request::post(&path).header("content-type", "application/json");
    let made = api.send(request.body(config_map("kept").to_string().into()).expect("a request")).await;
    made.expect("created");
    first.stop().await;
    drop((api, first));
    // The store's file is free when the last connection has let go of it.
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
    let second = loop {
        match pipeline::start(&flags).await {
            Ok(cluster) => break cluster,
            Err(error) if std::time::Instant::now() > deadline => panic!("starts again: {error:#}"),
            Err(_) => tokio::task::yield_now().await,
        }
    };
    assert_eq!(second.server, server, "the port is remembered");
    let api = second.client("admin").expect("a client");
    let request = http::Request::get(format!("{path}/kept")).body(bytes::Bytes::new()).expect("a request");
    api.send(request).await.expect("still there");
    second.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn people_get_lines_and_programs_do_not() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let path = "/api/v1/namespaces/default";
    let pretty = |text: &str| text.starts_with("{\n  \"");
    let plain = client.get(path).await;
    assert!(!pretty(&plain.text()));
    let asked = client.get(&format!("{path}?pretty=true")).await;
    assert!(pretty(&asked.text()), "{}", asked.text());
    assert_eq!(asked.json(), plain.json());
    for path in [path, "/api/v1/namespaces", "/apis", "/api/v1/namespaces/none"] {
        let curl = client.send("GET", path, &[("user-agent", "curl/8.5.0")], "").await;
        assert!(pretty(&curl.text()), "{}", curl.text());
    }
    let refused = client.send("GET", &format!("{path}?pretty=0"), &[("user-agent", "curl/8.5.0")], "").await;
    assert_eq!(refused.text(), plain.text());
    assert!(pretty(&client.get("/version").await.text()), "as everybody gets it there");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_that_the_store_does_not_take_is_refused_in_its_words() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let container = json!({ "name": "c", "image": "i", "command": ["x".repeat(2 * 1024 * 1024)] });
    let pod = json!({ "metadata": { "name": "p" }, "spec": { "containers": [container] } });
    let refused = client.json("POST", "/api/v1/namespaces/default/pods", &pod).await;
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "etcdserver: request is too large", "code": 500,
    });
    assert_eq!((refused.code, refused.json()), (500, status));
}
