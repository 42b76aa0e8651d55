//! Serving TLS: which certificate we show, and that we ask for one.
//!
//! Clients are asked for a certificate but need none, and one that isn't believed is let through the handshake:
//! [`crate::authentication::x509`] judges it, so that the client reads 401 in HTTP and not an alert of its TLS library.
//!
//! # In Kubernetes
//! `tls.RequestClientCert` in `apiserver/pkg/server/secure_serving.go`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the machine's certificates")]

use std::sync::Arc;

use rustls::crypto::ring;
use rustls::server::danger::ClientCertVerifier;
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

/// Why a serving certificate can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// The PEM can't be read.
    #[error("serving certificate is not PEM")]
    Pem(#[source] rustls_pki_types::pem::Error),
    /// Certificate and key don't fit.
    #[error("serving certificate is unusable")]
    Certificate(#[source] rustls::Error),
}

/// CA certificates of the machine.
const SYSTEM_ROOTS: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

/// Whom the machine trusts, as PEM: for servers outside that name no CA of their own.
pub fn system_roots() -> Option<Vec<u8>> {
    SYSTEM_ROOTS.iter().find_map(|path| std::fs::read(path).ok())
}

/// A server configuration with a certificate chain and key, offering HTTP/2 and HTTP/1.1.
///
/// # Errors
/// The PEM or the pair is unusable.
pub fn server_config(
    certificate_pem: &[u8],
    key_pem: &[u8],
    clients: Arc<dyn ClientCertVerifier>,
) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(certificate_pem).collect();
    let key = PrivateKeyDer::from_pem_slice(key_pem).map_err(TlsError::Pem)?;
    let mut config = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports TLS 1.2 and 1.3")
        .with_client_cert_verifier(clients)
        .with_single_cert(chain.map_err(TlsError::Pem)?, key)
        .map_err(TlsError::Certificate)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
