//! Gathering from a small server of its own: what is asked, and what is made of refusals.
#![expect(clippy::disallowed_methods, reason = "a test server needs a socket")]

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;

use bytes::Bytes;
use http::{Request, Response};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use super::{Question, gather};
use crate::context::{Context, GlobalFlags};
use crate::object::Object;
use crate::status::Status;
use crate::why::worlds::{NOW, World};
use crate::why::{causes, diagnose};

type Asked = Arc<Mutex<Vec<String>>>;

/// Kinds by their resource.
const KINDS: [(&str, &str); 9] = [
    ("pods", "Pod"),
    ("deployments", "Deployment"),
    ("replicasets", "ReplicaSet"),
    ("services", "Service"),
    ("endpointslices", "EndpointSlice"),
    ("events", "Event"),
    ("nodes", "Node"),
    ("leases", "Lease"),
    ("resourcequotas", "ResourceQuota"),
];

/// What the server says to a path.
fn answer(objects: &[Object], forbidden: &[&str], path: &str) -> (u16, Value) {
    let refused = |status: Status| (status.code, serde_json::to_value(status).unwrap());
    let path = path.split('?').next().unwrap();
    match path {
        "/version" => return (200, json!({"gitVersion": "v1.33.0"})),
        "/readyz" => return (200, json!("ok")),
        "/api" => return (200, discovery("", "v1", &[("pods", "Pod"), ("services", "Service")])),
        "/apis" => return (200, discovery("apps", "v1", &[("deployments", "Deployment")])),
        _ => {}
    }
    let parts: Vec<&str> =
        path.trim_start_matches("/apis/").trim_start_matches("/api/v1/").split('/').collect();
    let namespace =
        parts.iter().position(|part| *part == "namespaces").and_then(|at| parts.get(at + 1)).copied();
    let Some((at, (resource, kind))) = parts
        .iter()
        .enumerate()
        .find_map(|(at, part)| Some((at, *KINDS.iter().find(|(resource, _)| resource == part)?)))
    else {
        return refused(Status::generic_not_found());
    };
    if forbidden.contains(&resource) {
        return refused(Status::forbidden(resource, "", "User \"jane\" cannot list resource"));
    }
    let mut found = objects
        .iter()
        .filter(|one| one.kind() == kind && (namespace.is_none() || one.namespace() == namespace));
    match parts.get(at + 1) {
        Some(name) => match found.find(|one| one.name() == *name) {
            Some(object) => (200, object.as_value().clone()),
            None => refused(Status::not_found(resource, name)),
        },
        None => (
            200,
            json!({"kind": format!("{kind}List"), "metadata": {}, "items": found.map(|one| one.as_value().clone()).collect::<Vec<_>>()}),
        ),
    }
}

fn discovery(group: &str, version: &str, resources: &[(&str, &str)]) -> Value {
    let resources: Vec<Value> = resources
        .iter()
        .map(|(resource, kind)| {
            json!({"resource": resource, "responseKind": {"kind": kind}, "scope": "Namespaced",
                   "singularResource": kind.to_lowercase(), "verbs": ["get", "list"]})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "items": [{"metadata": {"name": group}, "versions": [{"version": version, "resources": resources}]}]})
}

/// Serves a world; gives the context of a client and what was asked.
async fn serve(world: World, forbidden: &'static [&'static str]) -> (Context, Asked, tempfile::TempDir) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let asked: Asked = Arc::default();
    let (seen, objects) = (asked.clone(), Arc::new(world.objects));
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let (seen, objects) = (seen.clone(), objects.clone());
            let service = service_fn(move |request: Request<Incoming>| {
                let path = request.uri().path_and_query().unwrap().to_string();
                seen.lock().push(format!("{} {path}", request.method()));
                let (code, body) = answer(&objects, forbidden, &path);
                let date: jiff::Timestamp = NOW.parse().unwrap();
                let date = date.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
                let response = Response::builder()
                    .status(code)
                    .header("date", date)
                    .body(Full::new(Bytes::from(body.to_string())));
                async move { Ok::<_, Infallible>(response.unwrap()) }
            });
            tokio::spawn(async move {
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(socket), service)
                    .await;
            });
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let config = dir.path().join("config");
    std::fs::write(&config, format!("apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {{server: {url}}}\ncontexts:\n- name: c\n  context: {{cluster: c, user: u}}\nusers:\n- name: u\n  user: {{}}\ncurrent-context: c\n")).unwrap();
    let flags = GlobalFlags {
        kubeconfig: config.display().to_string(),
        request_timeout: "0".into(),
        ..GlobalFlags::default()
    };
    (Context::new(flags), asked, dir)
}

fn about(words: &[&str]) -> Question {
    Question { arguments: words.iter().map(|word| (*word).to_owned()).collect(), ..Question::default() }
}

#[tokio::test]
async fn only_get_requests_are_sent_and_no_secret_is_read() {
    for question in
        [about(&["deployment/web"]), about(&[]), Question { all_namespaces: true, ..Question::default() }]
    {
        let (ctx, asked, _dir) = serve(World::healthy(), &[]).await;
        let facts = gather(&ctx, &question).await.unwrap();
        assert!(diagnose(&facts).is_empty(), "{:#?}", diagnose(&facts));
        assert_eq!(facts.now.to_string(), NOW, "the server's time counts");
        let asked = asked.lock();
        assert!(asked.len() > 20, "{asked:?}");
        assert!(asked.iter().all(|line| line.starts_with("GET ")), "{asked:?}");
        assert!(
            !asked.iter().any(|line| line.contains("secrets") || line.contains("configmaps")),
            "{asked:?}"
        );
        // Each collection is read once.
        let mut lists: BTreeMap<&String, usize> = BTreeMap::new();
        asked.iter().for_each(|line| *lists.entry(line).or_default() += 1);
        assert!(lists.values().all(|count| *count == 1), "{lists:?}");
    }
}

#[tokio::test]
async fn a_workload_is_told_apart_from_its_neighbours() {
    let world = World::healthy().app("other", &["x"]).waiting("other-x", "ErrImagePull", "not found: error");
    let (ctx, _, _dir) = serve(world.clone(), &[]).await;
    assert!(diagnose(&gather(&ctx, &about(&["deployment/web"])).await.unwrap()).is_empty());
    let (ctx, _, _dir) = serve(world, &[]).await;
    let found = diagnose(&gather(&ctx, &about(&["deployments", "other"])).await.unwrap());
    assert_eq!(causes(&found).into_iter().collect::<Vec<_>>(), ["image-not-found"]);
}

#[tokio::test]
async fn what_may_not_be_read_is_said_and_the_rest_is_used() {
    let world = World::healthy().waiting("web-a", "ErrImagePull", "not found: error");
    let (ctx, _, _dir) = serve(world, &["nodes", "leases"]).await;
    let facts = gather(&ctx, &about(&[])).await.unwrap();
    let unseen: Vec<&str> = facts.unseen.iter().map(|one| one.what.as_str()).collect();
    assert_eq!(unseen, ["nodes", "leases in kube-system", "leases in kube-node-lease"]);
    assert_eq!(causes(&diagnose(&facts)).into_iter().collect::<Vec<_>>(), ["image-not-found"]);
}

#[tokio::test]
async fn an_object_that_is_elsewhere_and_one_that_is_nowhere_are_told_apart() {
    let elsewhere = World::healthy().set("Deployment/web", "/metadata/namespace", json!("shop"));
    let (ctx, _, _dir) = serve(elsewhere, &[]).await;
    let found = diagnose(&gather(&ctx, &about(&["deployment/web"])).await.unwrap());
    assert_eq!(found[0].rule.id, "wrong-namespace");
    let (ctx, _, _dir) = serve(World::healthy(), &[]).await;
    let found = diagnose(&gather(&ctx, &about(&["deployment/gone"])).await.unwrap());
    assert_eq!(found[0].rule.id, "not-applied");
}

#[tokio::test]
async fn a_server_that_is_gone_and_a_wrong_address_are_told_apart() {
    let (ctx, _, dir) = serve(World::healthy(), &[]).await;
    let right = ctx.client().await.unwrap().config().server.clone();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let wrong = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let config = dir.path().join("config");
    let text = std::fs::read_to_string(&config).unwrap();
    std::fs::write(&config, text.replace(&right, &wrong)).unwrap();
    let flags = GlobalFlags {
        kubeconfig: config.display().to_string(),
        request_timeout: "0".into(),
        ..GlobalFlags::default()
    };
    let down = diagnose(&gather(&Context::new(flags.clone()), &about(&[])).await.unwrap());
    assert_eq!(down[0].rule.id, "apiserver-down");
    std::fs::write(dir.path().join("kubelet.kubeconfig"), text).unwrap();
    let wrong = diagnose(&gather(&Context::new(flags), &about(&[])).await.unwrap());
    assert_eq!(wrong[0].rule.id, "endpoint-wrong");
}
