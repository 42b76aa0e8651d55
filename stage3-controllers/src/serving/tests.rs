//! Answers of the server, without a socket, and one with.
//!
//! # In Kubernetes
//! `staging/src/k8s.io/apiserver/pkg/server/healthz/healthz_test.go`.

use super::*;
use http_body_util::BodyExt;

fn serving(ready: bool) -> Serving {
    let checks = vec![
        HealthCheck::live("leaderElection", || Ok(())),
        HealthCheck::ready("informer-sync", move || if ready { Ok(()) } else { Err("pods".to_owned()) }),
    ];
    Serving {
        component: "test".into(),
        checks,
        metrics: Arc::new(Registry::default()),
        certificate: ServingCertificate::SelfSigned,
    }
}

async fn ask(ready: bool, method: Method, path: &str) -> (u16, String) {
    let response = answer(&serving(ready), &method, &path.parse().unwrap());
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.unwrap().to_bytes();
    (status, String::from_utf8(body.to_vec()).unwrap())
}

#[tokio::test]
async fn health_answers_as_kubernetes_does() {
    assert_eq!(ask(true, Method::GET, "/healthz").await, (200, "ok".into()));
    let verbose = "[+]ping ok\n[+]leaderElection ok\n[+]informer-sync ok\nreadyz check passed\n";
    assert_eq!(ask(true, Method::GET, "/readyz?verbose").await, (200, verbose.into()));
    let failed =
        "[+]ping ok\n[+]leaderElection ok\n[-]informer-sync failed: reason withheld\nreadyz check failed\n";
    assert_eq!(ask(false, Method::GET, "/readyz").await, (500, failed.into()));
    assert_eq!(ask(false, Method::GET, "/livez").await, (200, "ok".into()), "not ready is still alive");
}

#[tokio::test]
async fn unknown_paths_and_methods_are_refused() {
    assert_eq!(ask(true, Method::GET, "/").await.0, 404);
    assert_eq!(ask(true, Method::POST, "/healthz").await.0, 405);
    let (status, version) = ask(true, Method::GET, "/version").await;
    assert!(status == 200 && version.contains(GIT_VERSION));
    assert_eq!(ask(true, Method::GET, "/metrics").await, (200, "# EOF\n".into()));
}

#[tokio::test]
async fn a_server_with_its_own_certificate_answers_over_tls_and_stops() {
    let shutdown = CancellationToken::new();
    let address = serve(serving(true), "127.0.0.1:0".parse().unwrap(), shutdown.clone()).await.unwrap();
    assert!(address.ip().is_loopback() && address.port() != 0);
    let taken = serve(serving(true), address, shutdown.clone()).await;
    assert!(matches!(taken, Err(ServingError::Bind { .. })), "the port is taken");
    shutdown.cancel();
}
