//! TLS: certificates in, a rustls client configuration out.
//!
//! *Step 1 of a pod's journey.* Before: [`crate::kubeconfig`] named a CA and a client certificate. After: [`crate::client`] dials.
//!
//! The server is trusted because the cluster's CA signed its certificate; we are known because the same CA signed ours.
//! Everything is done with *ring*; a process must have exactly one crypto provider, so it is passed explicitly.
//!
//! # Invariants
//! 1. Verification is off only when the kubeconfig says `insecure-skip-tls-verify`.
//!
//! # In Kubernetes
//! `client-go/transport/transport.go` (`TLSConfigFor`). Left out: reloading a client certificate file that was rotated.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Why certificates or keys can't be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// Not PEM.
    #[error("unable to parse bytes as PEM block ({0})")]
    Pem(String),
    /// The key doesn't belong to the certificate, or is of an unknown type.
    #[error("tls: private key does not match public key ({0})")]
    Key(String),
}

/// Whom to trust and who we are, as PEM.
#[derive(Clone, Default)]
pub struct TlsOptions {
    /// CA certificates; the system's when `None`.
    pub ca_pem: Option<Vec<u8>>,
    /// Client certificate chain and key.
    pub identity_pem: Option<(Vec<u8>, Vec<u8>)>,
    /// Trust anyone.
    pub insecure_skip_verify: bool,
}

impl TlsOptions {
    /// Until when our own certificate is valid.
    pub fn certificate_end(&self) -> Option<jiff::Timestamp> {
        let (pem, _) = self.identity_pem.as_ref()?;
        let first = certificates(pem).ok()?.into_iter().next()?;
        let (_, certificate) = x509_parser::parse_x509_certificate(&first).ok()?;
        jiff::Timestamp::from_second(certificate.validity().not_after.timestamp()).ok()
    }
}

/// The certificates in a PEM text.
///
/// # Errors
/// [`TlsError::Pem`] when it isn't one.
pub fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let found: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    let found = found.map_err(|e| TlsError::Pem(e.to_string()))?;
    match found.is_empty() {
        true => Err(TlsError::Pem("no certificate found".into())),
        false => Ok(found),
    }
}

/// A client configuration without ALPN (the caller decides between HTTP/1.1 and HTTP/2).
///
/// # Errors
/// Unusable certificates or keys.
pub fn client_config(options: &TlsOptions) -> Result<ClientConfig, TlsError> {
    let provider = Arc::new(ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("ring supports TLS 1.2 and 1.3");
    let builder = if options.insecure_skip_verify {
        builder.dangerous().with_custom_certificate_verifier(Arc::new(TrustAnyone(provider)))
    } else {
        let mut roots = RootCertStore::empty();
        for certificate in certificates(options.ca_pem.as_deref().unwrap_or_default()).unwrap_or_default() {
            roots.add(certificate).map_err(|e| TlsError::Pem(e.to_string()))?;
        }
        builder.with_root_certificates(roots)
    };
    match &options.identity_pem {
        None => Ok(builder.with_no_client_auth()),
        Some((certificate, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key).map_err(|e| TlsError::Pem(e.to_string()))?;
            builder
                .with_client_auth_cert(certificates(certificate)?, key)
                .map_err(|e| TlsError::Key(e.to_string()))
        }
    }
}

/// `insecure-skip-tls-verify`: any certificate will do, but the handshake's signatures are still checked.
#[derive(Debug)]
struct TrustAnyone(Arc<CryptoProvider>);

impl ServerCertVerifier for TrustAnyone {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
