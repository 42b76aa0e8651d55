//! An API server behind this one: requests pass to it in the name of whoever sent them, and it stands in discovery.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

mod support {
    pub mod raw;
}

use std::convert::Infallible;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls::RootCertStore;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};
use support::raw::{Raw, cluster};

/// A request as the other server got it.
#[derive(Debug, Clone)]
struct Seen {
    method: String,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// Another API server, which lets in nobody but who shows the front proxy's certificate.
struct Other {
    port: u16,
    ca_bundle: String,
    seen: Arc<Mutex<Vec<Seen>>>,
}

async fn start(front_proxy_ca_pem: &str) -> Other {
    let made = rcgen::generate_simple_self_signed(vec!["numbers.default.svc".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(front_proxy_ca_pem.as_bytes()).unwrap()).unwrap();
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone()).build().unwrap();
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen: Arc<Mutex<Vec<Seen>>> = Arc::default();
    let kept = seen.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, kept) = (acceptor.clone(), kept.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(socket).await else { return };
                let service = service_fn(move |request| answer(request, kept.clone()));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    Other { port, ca_bundle: STANDARD.encode(made.cert.pem()), seen }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<Seen>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    let path = head.uri.path_and_query().unwrap().to_string();
    let body = body.collect().await.unwrap().to_bytes();
    let (code, said) = match (head.method.as_str(), head.uri.path()) {
        ("GET", "/apis/numbers.example.com/v1") => {
            let resource = json!({ "name": "primes", "singularName": "prime", "namespaced": true, "kind": "Prime", "verbs": ["get", "list"] });
            (
                200,
                json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "numbers.example.com/v1", "resources": [resource] }),
            )
        }
        ("POST", _) => (201, serde_json::from_slice(&body).unwrap_or_default()),
        _ => (418, json!({ "kind": "Status", "message": "as it came" })),
    };
    seen.lock().push(Seen { method: head.method.to_string(), path, headers: head.headers, body });
    let answer = Response::builder()
        .status(code)
        .header("content-type", "application/json")
        .header("x-made-by", "other");
    Ok(answer.body(Full::new(said.to_string().into())).unwrap())
}

const SERVICES: &str = "/apis/apiregistration.k8s.io/v1/apiservices";

/// Waits for the condition; the answer is it.
async fn condition(client: &mut Raw, status: &str) -> Value {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let service = client.get(&format!("{SERVICES}/v1.numbers.example.com")).await.json();
        let found = service["status"]["conditions"][0].clone();
        if found["status"] == status {
            return found;
        }
        assert!(Instant::now() < deadline, "{service}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_group_of_another_server_is_served_in_the_name_of_the_client() {
    let cluster = cluster().await;
    let mut client = Raw::admin(&cluster);
    let authentication = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    let published = client.get(authentication).await.json()["data"].clone();
    assert_eq!(published["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    let other = start(published["requestheader-client-ca-file"].as_str().unwrap()).await;

    let spec = json!({
        "group": "numbers.example.com", "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 100, "caBundle": other.ca_bundle,
        "service": { "namespace": "default", "name": "numbers", "port": other.port },
    });
    let service = json!({ "metadata": { "name": "v1.numbers.example.com" }, "spec": spec });
    let made = client.json("POST", SERVICES, &service).await;
    assert_eq!(made.code, 201, "{}", made.text());
    let missing = condition(&mut client, "False").await;
    let text = "service/numbers in \"default\" is not present";
    assert_eq!((&missing["reason"], &missing["message"]), (&json!("ServiceNotFound"), &json!(text)));
    let primes = "/apis/numbers.example.com/v1/namespaces/default/primes";
    let nobody = client.get(primes).await;
    assert_eq!((nobody.code, nobody.text().as_str()), (503, "service unavailable\n"));

    // Loopback is no address of an endpoint, so the Service names the machine.
    let alias = json!({ "metadata": { "name": "numbers" }, "spec": { "type": "ExternalName", "externalName": "localhost" } });
    assert_eq!(client.json("POST", "/api/v1/namespaces/default/services", &alias).await.code, 201);
    let there = condition(&mut client, "True").await;
    assert_eq!((&there["reason"], &there["message"]), (&json!("Passed"), &json!("all checks passed")));

    let claims = [
        ("x-remote-user", "somebody"),
        ("x-remote-group", "system:masters"),
        ("impersonate-user", "jane"),
        ("impersonate-group", "counters"),
        ("content-type", "application/json"),
    ];
    let refused = client.send("POST", &format!("{primes}?dryRun=All"), &claims, "{\"n\":7}").await;
    assert_eq!(refused.code, 403, "jane may not: {}", refused.text());
    let role = json!({ "metadata": { "name": "count" }, "rules": [{ "apiGroups": ["numbers.example.com"], "resources": ["primes"], "verbs": ["*"] }] });
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    assert_eq!(client.json("POST", &format!("{rbac}/clusterroles"), &role).await.code, 201);
    let subject = json!({ "kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "counters" });
    let bound = json!({ "metadata": { "name": "count" }, "subjects": [subject],
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "count" } });
    assert_eq!(client.json("POST", &format!("{rbac}/clusterrolebindings"), &bound).await.code, 201);
    let passed =
        client.send_when_allowed("POST", &format!("{primes}?dryRun=All"), &claims, "{\"n\":7}").await;
    assert_eq!(
        (passed.code, passed.json(), passed.header("x-made-by")),
        (201, json!({ "n": 7 }), "other".to_owned())
    );
    let seen = other.seen.lock().last().cloned().unwrap();
    assert_eq!((seen.method.as_str(), seen.path.as_str()), ("POST", format!("{primes}?dryRun=All").as_str()));
    assert_eq!(&*seen.body, b"{\"n\":7}");
    let all = |name: &str| -> Vec<String> {
        seen.headers.get_all(name).iter().map(|value| value.to_str().unwrap().to_owned()).collect()
    };
    assert_eq!(all("x-remote-user"), ["jane"]);
    assert_eq!(all("x-remote-group"), ["counters", "system:authenticated"]);
    assert!(all("impersonate-user").is_empty() && all("authorization").is_empty());
    let teapot = client.get(primes).await;
    assert_eq!((teapot.code, teapot.json()["message"].as_str().unwrap()), (418, "as it came"));

    let groups = client.get("/apis").await.json()["groups"].clone();
    let version = json!({ "groupVersion": "numbers.example.com/v1", "version": "v1" });
    let group = json!({ "name": "numbers.example.com", "preferredVersion": version, "versions": [version] });
    assert_eq!(groups.as_array().unwrap().last(), Some(&group));
    assert_eq!(client.get("/apis/numbers.example.com").await.json()["kind"], "APIGroup");
    assert_eq!(client.get("/apis/numbers.example.com/v1").await.json()["resources"][0]["name"], "primes");
    let newer = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let document = client.send("GET", "/apis", &newer, "").await.json();
    let item = document["items"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&item["metadata"]["name"], &item["versions"][0]["freshness"]),
        (&json!("numbers.example.com"), &json!("Current"))
    );
    assert_eq!(item["versions"][0]["resources"][0]["responseKind"]["kind"], "Prime");
}
