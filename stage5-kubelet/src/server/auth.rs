//! Who may ask the kubelet, and what.
//!
//! *Step 5 of a pod's journey.* Before: a TLS connection. After: the request is answered, or refused with 401 or 403.
//!
//! # Invariants
//! 1. A certificate counts only when the cluster's CA signed it.
//! 2. Who is not the API server (or an administrator) is allowed only what the API server says: the kubelet has no rules of its own.
//!
//! # In Kubernetes
//! `pkg/kubelet/server/auth.go`, `DelegatingAuthenticator`. Left out: caching of the API server's answers.
#![expect(clippy::disallowed_methods, reason = "shell: reads certificates")]

use std::sync::Arc;

use http::{Method, Request, Response, StatusCode};
use hyper::body::Incoming;
use k8s_openapi::api::authentication::v1::TokenReview;
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use rustls::server::WebPkiClientVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use x509_parser::prelude::{FromDer, X509Certificate};

use super::{Body, text};
use crate::kubelet::Kubelet;
use crate::options::Config;

/// Who asks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Identity {
    /// User name.
    pub user: String,
    /// Groups.
    pub groups: Vec<String>,
}

/// The identity in a verified client certificate: CN and O.
pub fn identity(certificate: &CertificateDer<'_>) -> Option<Identity> {
    let (_, parsed) = X509Certificate::from_der(certificate).ok()?;
    let subject = parsed.subject();
    let user = subject.iter_common_name().next()?.as_str().ok()?.to_owned();
    let groups = subject.iter_organization().filter_map(|o| o.as_str().ok()).map(str::to_owned).collect();
    Some(Identity { user, groups })
}

/// Why the server has no TLS.
#[derive(Debug, thiserror::Error)]
#[error("{what}: {why}")]
pub struct TlsSetupError {
    what: String,
    why: String,
}

/// The server's certificate, and the CA of its clients.
///
/// # Errors
/// A file can't be read or used.
pub fn tls_config(config: &Config) -> Result<rustls::ServerConfig, TlsSetupError> {
    let bad = |what: &str, why: &dyn std::fmt::Display| TlsSetupError {
        what: what.to_owned(),
        why: why.to_string(),
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| bad("tls", &e))?;
    let builder = match &config.client_ca_file {
        None => builder.with_no_client_auth(),
        Some(file) => {
            let name = file.display().to_string();
            let pem = std::fs::read(file).map_err(|e| bad(&name, &e))?;
            let mut roots = rustls::RootCertStore::empty();
            for ca in stage1_kubectl::tls::certificates(&pem).map_err(|e| bad(&name, &e))? {
                roots.add(ca).map_err(|e| bad(&name, &e))?;
            }
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
                .allow_unauthenticated()
                .build();
            builder.with_client_cert_verifier(verifier.map_err(|e| bad(&name, &e))?)
        }
    };
    let (chain, key) = match &config.tls_files {
        Some((certificate, key)) => {
            let pem = std::fs::read(certificate).map_err(|e| bad(&certificate.display().to_string(), &e))?;
            let chain = stage1_kubectl::tls::certificates(&pem)
                .map_err(|e| bad(&certificate.display().to_string(), &e))?;
            let key_pem = std::fs::read(key).map_err(|e| bad(&key.display().to_string(), &e))?;
            (chain, PrivateKeyDer::from_pem_slice(&key_pem).map_err(|e| bad(&key.display().to_string(), &e))?)
        }
        None => self_signed(config).map_err(|e| bad("self-signed certificate", &e))?,
    };
    let mut tls = builder.with_single_cert(chain, key).map_err(|e| bad("serving certificate", &e))?;
    tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(tls)
}

fn self_signed(
    config: &Config,
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), rcgen::Error> {
    let names = vec![
        config.node_name.clone(),
        config.node_ip.to_string(),
        "127.0.0.1".to_owned(),
        "localhost".to_owned(),
    ];
    let made = rcgen::generate_simple_self_signed(names)?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    Ok((vec![made.cert.der().clone()], key))
}

/// Which part of the node a request is about: `nodes/log`, `nodes/stats`, …
pub fn subresource(parts: &[&str]) -> &'static str {
    match parts.first() {
        Some(&"stats") => "stats",
        Some(&"metrics") => "metrics",
        Some(&"logs") => "log",
        Some(&"checkpoint") => "checkpoint",
        _ => "proxy",
    }
}

/// Lets a request pass or refuses it.
pub(super) async fn check(
    kubelet: &Kubelet,
    peer: Option<&Identity>,
    request: &Request<Incoming>,
    parts: &[&str],
) -> Result<(), Box<Response<Body>>> {
    let refuse = |status, message: String| Err(Box::new(text(status, message)));
    let who = match peer {
        Some(identity) => Some(identity.clone()),
        None => by_token(kubelet, request).await,
    };
    let Some(who) = who else { return refuse(StatusCode::UNAUTHORIZED, "Unauthorized".to_owned()) };
    if who.groups.iter().any(|g| g == "system:masters") || who.user == "kube-apiserver-kubelet-client" {
        return Ok(());
    }
    let verb = match *request.method() {
        Method::GET | Method::HEAD => "get",
        Method::POST => "create",
        Method::PUT => "update",
        Method::DELETE => "delete",
        _ => "patch",
    };
    let sub = subresource(parts);
    let name = &kubelet.config.node_name;
    if allowed(kubelet, &who, verb, sub).await {
        return Ok(());
    }
    let user = &who.user;
    refuse(
        StatusCode::FORBIDDEN,
        format!("Forbidden (user={user}, verb={verb}, resource=nodes, subresource(s)=[{sub}], name={name})"),
    )
}

async fn by_token(kubelet: &Kubelet, request: &Request<Incoming>) -> Option<Identity> {
    let header = request.headers().get(http::header::AUTHORIZATION)?.to_str().ok()?;
    let token = header.strip_prefix("Bearer ")?;
    let review: TokenReview = serde_json::from_value(json!({"spec": {"token": token}})).ok()?;
    let status = kubelet.client.api::<TokenReview>().create(&review).await.ok()?.status?;
    let user = status.user.filter(|_| status.authenticated == Some(true))?;
    Some(Identity { user: user.username?, groups: user.groups.unwrap_or_default() })
}

async fn allowed(kubelet: &Kubelet, who: &Identity, verb: &str, subresource: &str) -> bool {
    let review = json!({"spec": {"user": who.user, "groups": who.groups, "resourceAttributes": {
        "verb": verb, "version": "v1", "resource": "nodes", "subresource": subresource, "name": kubelet.config.node_name}}});
    let Ok(review) = serde_json::from_value::<SubjectAccessReview>(review) else { return false };
    let answer = kubelet.client.api::<SubjectAccessReview>().create(&review).await;
    answer.ok().and_then(|a| a.status).is_some_and(|s| s.allowed)
}
