//! The client against small servers of its own on loopback.
#![expect(clippy::disallowed_methods, reason = "a test server needs a socket")]

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};

use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use hyper_util::server::conn::auto;
use k8s_openapi::api::core::v1::Pod;
use tokio::net::TcpListener;

use super::*;

/// Serves `answer` on a free port of loopback; returns the URL.
async fn serve(
    answer: impl Fn(Request<Incoming>) -> Response<Full<Bytes>> + Clone + Send + Sync + 'static,
) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let answer = answer.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let response = answer(request);
                    async move { Ok::<_, Infallible>(response) }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                let _ = builder.serve_connection_with_upgrades(TokioIo::new(socket), service).await;
            });
        }
    });
    url
}

fn client(url: &str) -> Client {
    Client::new(ClientConfig::new(url)).unwrap()
}

#[tokio::test]
async fn a_refusal_becomes_its_status() {
    let url = serve(|_| {
        let body = serde_json::to_vec(&crate::status::Status::not_found("pods", "web")).unwrap();
        Response::builder().status(404).body(Full::from(body)).unwrap()
    })
    .await;
    let error = client(&url).namespaced::<Pod>("default").get("web").await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.to_string(), "pods \"web\" not found");
}

#[tokio::test]
async fn a_busy_server_is_asked_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = calls.clone();
    let url = serve(move |_| {
        let first = seen.fetch_add(1, Ordering::SeqCst) == 0;
        let builder = Response::builder().header("Retry-After", "0");
        match first {
            true => builder.status(429).body(Full::default()).unwrap(),
            false => Response::new(Full::from(r#"{"metadata":{"name":"web"}}"#)),
        }
    })
    .await;
    let pod = client(&url).namespaced::<Pod>("default").get("web").await.unwrap();
    assert_eq!(pod.metadata.name.as_deref(), Some("web"));
    assert_eq!(calls.load(Ordering::SeqCst), 2);
}

#[tokio::test]
async fn the_cause_of_a_failed_connection_is_named() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let free = listener.local_addr().unwrap();
    drop(listener);
    let error = client(&format!("http://{free}")).api::<Pod>().get("x").await.unwrap_err();
    assert!(error.is_refused(), "{error:?}");

    let error = client("http://nowhere.invalid:1").api::<Pod>().get("x").await.unwrap_err();
    assert!(matches!(error, ClientError::Connection { problem: ConnectionProblem::Dns, .. }), "{error:?}");

    let html = serve(|_| Response::new(Full::from("<html>hello"))).await;
    let error = client(&html).api::<Pod>().get("x").await.unwrap_err();
    assert!(matches!(error, ClientError::NotKubernetes { .. }), "{error:?}");

    let error = client(&html.replace("http:", "https:")).api::<Pod>().get("x").await.unwrap_err();
    assert!(matches!(error, ClientError::Tls { problem: TlsProblem::NotTls, .. }), "{error:?}");
}

#[tokio::test]
async fn an_upgraded_connection_carries_bytes_both_ways() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let url = serve(|mut request| {
        tokio::spawn(async move {
            let mut io = TokioIo::new(hyper::upgrade::on(&mut request).await.unwrap());
            let mut word = [0; 4];
            io.read_exact(&mut word).await.unwrap();
            io.write_all(&word).await.unwrap();
        });
        let builder =
            Response::builder().status(101).header("Connection", "Upgrade").header("Upgrade", "test");
        builder.body(Full::default()).unwrap()
    })
    .await;
    let request = Request::get("/exec").header("Upgrade", "test").body(Bytes::new()).unwrap();
    let (_, mut io) = client(&url).upgrade(request).await.unwrap();
    io.write_all(b"ping").await.unwrap();
    let mut word = [0; 4];
    io.read_exact(&mut word).await.unwrap();
    assert_eq!(&word, b"ping");
}

mod tls;

#[tokio::test]
async fn a_list_in_pieces_is_put_together_and_begun_anew_when_its_token_has_expired() {
    let resource = crate::resource::of::<Pod>();
    for expires in [false, true] {
        let url = serve(move |request| {
            let query = request.uri().query().unwrap_or_default().to_owned();
            let pod = |name: &str| format!(r#"{{"metadata":{{"name":"{name}"}}}}"#);
            let list = |items: &[String], more: &str| {
                let body = format!(
                    r#"{{"kind":"PodList","metadata":{{"continue":"{more}"}},"items":[{}]}}"#,
                    items.join(",")
                );
                Response::new(Full::from(body))
            };
            match (query.contains("continue=t%2B"), expires) {
                (true, true) => {
                    let status = r#"{"kind":"Status","status":"Failure","reason":"Expired","code":410}"#;
                    Response::builder().status(410).body(Full::from(status)).unwrap()
                }
                (true, false) => list(&[pod("b")], ""),
                (false, _) if query.contains("limit=1") => list(&[pod("a")], "t+"),
                (false, _) => list(&[pod("a"), pod("c")], ""),
            }
        })
        .await;
        let params = ListParams { limit: Some(1), ..ListParams::default() };
        let all = client(&url).list_all(&resource, None, &params).await.unwrap();
        let names: Vec<_> = all.iter().map(|pod| pod["metadata"]["name"].as_str().unwrap()).collect();
        assert_eq!(names, if expires { ["a", "c"] } else { ["a", "b"] });
        assert!(all.iter().all(|pod| pod["kind"] == "Pod" && pod["apiVersion"] == "v1"));
    }
}
