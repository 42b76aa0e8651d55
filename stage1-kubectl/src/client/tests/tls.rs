//! What the client says about certificates that don't fit.

use std::net::IpAddr;

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair, SanType};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::*;
use crate::tls::TlsOptions;

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
}

/// A TLS server whose certificate has the address 127.0.0.1 (or not) and ends when told.
async fn serve_tls(authority: &Authority, localhost: bool, expired: bool) -> String {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec!["other.example".to_string()]).unwrap();
    if localhost {
        params.subject_alt_names.push(SanType::IpAddress(IpAddr::from([127, 0, 0, 1])));
    }
    if expired {
        params.not_before = rcgen::date_time_ymd(2019, 1, 1);
        params.not_after = rcgen::date_time_ymd(2020, 1, 1);
    }
    let certificate = params.signed_by(&key, &authority.issuer).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config =
        rustls::ServerConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let chain = vec![CertificateDer::from(certificate.der().to_vec())];
    let key = PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap();
    let mut config = config.with_no_client_auth().with_single_cert(chain, key).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    tokio::spawn(async move {
        loop {
            let (socket, _) = listener.accept().await.unwrap();
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(io) = acceptor.accept(socket).await else { return };
                let service = service_fn(|request: Request<Incoming>| async move {
                    assert_eq!(request.version(), http::Version::HTTP_2);
                    Ok::<_, Infallible>(Response::new(Full::<Bytes>::from(r#"{"metadata":{"name":"web"}}"#)))
                });
                let _ = auto::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(io), service)
                    .await;
            });
        }
    });
    url
}

async fn problem(authority: &Authority, url: &str) -> Option<(TlsProblem, String)> {
    let tls = TlsOptions { ca_pem: Some(authority.pem.clone().into_bytes()), ..TlsOptions::default() };
    let client = Client::new(ClientConfig { tls, ..ClientConfig::new(url) }).unwrap();
    match client.api::<Pod>().get("web").await {
        Ok(_) => None,
        Err(ClientError::Tls { problem, message, .. }) => Some((problem, message)),
        Err(other) => panic!("not a TLS problem: {other:?}"),
    }
}

#[tokio::test]
async fn a_good_certificate_is_trusted_and_http2_is_spoken() {
    let ours = authority();
    assert_eq!(problem(&ours, &serve_tls(&ours, true, false).await).await, None);
}

#[tokio::test]
async fn a_bad_certificate_is_refused_with_the_reason() {
    let ours = authority();
    let (name, text) = problem(&ours, &serve_tls(&ours, false, false).await).await.unwrap();
    assert_eq!(name, TlsProblem::WrongName, "{text}");
    assert!(text.ends_with("certificate is valid for other.example, not 127.0.0.1"), "{text}");

    let (unknown, text) = problem(&ours, &serve_tls(&authority(), true, false).await).await.unwrap();
    assert_eq!(unknown, TlsProblem::UnknownAuthority, "{text}");

    let (expired, text) = problem(&ours, &serve_tls(&ours, true, true).await).await.unwrap();
    assert_eq!(expired, TlsProblem::Expired(Some("2020-01-01T00:00:00Z".parse().unwrap())));
    assert!(text.contains("is after 2020-01-01T00:00:00Z"), "{text}");
}
