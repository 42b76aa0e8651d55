//! A webhook with a behaviour that a test chooses, on loopback, with a certificate of its own.
#![allow(dead_code, reason = "each test uses a part")]

use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use rustls_pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::{Value, json};

/// What it answers to a request of a review; a text is sent as it is, with the code.
pub type Behaviour = Arc<dyn Fn(&str, &Value) -> (u16, String) + Send + Sync>;

pub struct Webhook {
    pub port: u16,
    pub ca_bundle: String,
    /// The reviews that came, with their paths.
    pub seen: Arc<Mutex<Vec<(String, Value)>>>,
}

/// Starts one; it ends with the runtime.
pub async fn start(names: &[&str], behaviour: Behaviour) -> Webhook {
    let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
    let made = rcgen::generate_simple_self_signed(names).expect("a certificate");
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let tls = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .expect("a TLS configuration");
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let port = listener.local_addr().expect("bound").port();
    let seen: Arc<Mutex<Vec<(String, Value)>>> = Arc::default();
    let (kept, acceptor) = (seen.clone(), acceptor);
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let (acceptor, kept, behaviour) = (acceptor.clone(), kept.clone(), behaviour.clone());
            tokio::spawn(async move {
                let Ok(stream) = acceptor.accept(socket).await else { return };
                let service = service_fn(move |request| answer(request, kept.clone(), behaviour.clone()));
                let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
            });
        }
    });
    let ca_bundle = base64::engine::general_purpose::STANDARD.encode(made.cert.pem());
    Webhook { port, ca_bundle, seen }
}

async fn answer(
    request: Request<Incoming>,
    seen: Arc<Mutex<Vec<(String, Value)>>>,
    behaviour: Behaviour,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.expect("a body").to_bytes();
    // A GET has no body.
    let review: Value = serde_json::from_slice(&body).unwrap_or_default();
    seen.lock().push((path.clone(), review.clone()));
    let (code, text) = behaviour(&path, &review["request"]);
    if text == "slow" {
        // Longer than any webhook may take: the caller gives up first.
        tokio::time::sleep(Duration::from_secs(60)).await;
    }
    Ok(Response::builder().status(code).body(Full::new(text.into())).expect("an answer"))
}

/// A whole answer around `response`, for the review's uid.
pub fn reply(request: &Value, response: Value) -> (u16, String) {
    let mut response = response;
    if response.get("uid").is_none() {
        response["uid"] = request["uid"].clone();
    }
    let review =
        json!({ "apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response });
    (200, review.to_string())
}

/// Lets the request through with a JSON patch.
pub fn patch(request: &Value, operations: Value) -> (u16, String) {
    let patch = base64::engine::general_purpose::STANDARD.encode(operations.to_string());
    reply(request, json!({ "allowed": true, "patchType": "JSONPatch", "patch": patch }))
}

/// The behaviours of the recorded cases, by the words of their notes.
pub fn recorded(mode: &str) -> Behaviour {
    let mode = mode.to_owned();
    Arc::new(move |_, request| {
        let deny = |status: Value| reply(request, json!({ "allowed": false, "status": status }));
        match mode.as_str() {
            "deny" => deny(json!({ "message": "no way" })),
            "deny-bare" => reply(request, json!({ "allowed": false })),
            "deny-code" => deny(json!({ "code": 418, "message": "teapot" })),
            "deny-causes" => deny(json!({
                "code": 422, "reason": "Invalid", "message": "bad field",
                "details": { "causes": [{ "reason": "FieldValueInvalid", "message": "bad", "field": "data.a" }] },
            })),
            "wrong-uid" => reply(request, json!({ "uid": "zz", "allowed": true })),
            "garbage" => (200, "not json".into()),
            "v-missing" => {
                (200, json!({ "response": { "uid": request["uid"], "allowed": true } }).to_string())
            }
            "http500" => (500, String::new()),
            "slow" => (200, "slow".into()),
            "patch" => patch(request, json!([{ "op": "add", "path": "/data/added", "value": "yes" }])),
            "patch-invalid-object" => {
                patch(request, json!([{ "op": "add", "path": "/data/a b", "value": "x" }]))
            }
            _ => reply(request, json!({ "allowed": true })),
        }
    })
}
