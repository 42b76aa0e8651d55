//! Client certificates: CN is the user, each O a group.
//!
//! The TLS handshake only asks for a certificate and checks that the client holds its key; whether we *believe* it is decided
//! here, with the request. If the handshake refused what it doesn't know, a user with a wrong certificate would see a
//! broken connection instead of `401 Unauthorized`.
//!
//! # Invariants
//! 1. A certificate makes a user only if it is signed by the client CA, is valid now, and is for clients.
//! 2. Signatures are checked once a connection, and again when the time at which they were found good is left.
//!
//! # In Kubernetes
//! `apiserver/pkg/authentication/request/x509/x509.go`; Go's `tls.RequestClientCert`.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use jiff::Timestamp;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};

use sha2::{Digest, Sha256};

use super::UserInfo;
use crate::pki;

/// The extra attribute that says which credential was used.
const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// The certificates that a client showed, its own first (maybe none), and whom they were found to make.
#[derive(Debug, Default)]
pub struct PeerCertificates {
    chain: Vec<CertificateDer<'static>>,
    believed: OnceLock<Believed>,
}

/// A user, for as long as the chain needn't be looked at again.
#[derive(Debug)]
struct Believed {
    from: Timestamp,
    until: Timestamp,
    user: Arc<UserInfo>,
}

impl PeerCertificates {
    /// Of a new connection: nobody believes them yet.
    pub fn new(chain: Vec<CertificateDer<'static>>) -> Self {
        Self { chain, believed: OnceLock::new() }
    }

    /// Whether the client showed none.
    pub fn is_empty(&self) -> bool {
        self.chain.is_empty()
    }
}

/// Checks client certificates against the client CA.
#[derive(Debug, Clone)]
pub struct Verifier {
    inner: Arc<dyn ClientCertVerifier>,
}

impl Verifier {
    /// A verifier for the CAs in a PEM text.
    ///
    /// # Errors
    /// The text has no usable certificate.
    pub fn new(ca_pem: &str) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
            let certificate = certificate.map_err(|e| format!("client CA: {e}"))?;
            roots.add(certificate).map_err(|e| format!("client CA: {e}"))?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let inner = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .build()
            .map_err(|e| format!("client CA: {e}"))?;
        Ok(Verifier { inner })
    }

    /// The user of a connection's certificates, counted among the authenticated.
    ///
    /// # Errors
    /// The chain isn't to be believed; the text is for the log.
    pub fn user(&self, peer: &PeerCertificates, now: Timestamp) -> Result<Arc<UserInfo>, String> {
        if let Some(known) = peer.believed.get().filter(|known| (known.from..=known.until).contains(&now)) {
            return Ok(known.user.clone());
        }
        let believed = self.believe(&peer.chain, now)?;
        Ok(peer.believed.get_or_init(|| believed).user.clone())
    }

    fn believe(&self, chain: &[CertificateDer<'_>], now: Timestamp) -> Result<Believed, String> {
        let (leaf, intermediates) = chain.split_first().ok_or("no certificate")?;
        let at = UnixTime::since_unix_epoch(Duration::from_secs(now.as_second().unsigned_abs()));
        self.inner
            .verify_client_cert(leaf, intermediates, at)
            .map_err(|e| format!("verifying the client certificate failed: {e}"))?;
        let read = |der: &CertificateDer<'_>| pki::inspect_der(der);
        let info = read(leaf).ok_or("the client certificate can't be read")?;
        if info.identity.user.is_empty() {
            return Err("the client certificate has no CN".into());
        }
        let ends = intermediates.iter().map(|der| read(der).map_or(now, |info| info.not_after));
        let hash: String = Sha256::digest(leaf).iter().map(|byte| format!("{byte:02x}")).collect();
        let extra = BTreeMap::from([(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={hash}")])]);
        let user =
            UserInfo { name: info.identity.user, groups: info.identity.groups, extra, ..UserInfo::default() };
        Ok(Believed {
            from: now,
            until: ends.fold(info.not_after, Timestamp::min),
            user: Arc::new(user.authenticated()),
        })
    }

    /// What the TLS server uses: it asks for a certificate, takes any or none, and checks that the client holds the key.
    pub fn for_handshake(&self) -> Arc<dyn ClientCertVerifier> {
        Arc::new(RequestClientCert { inner: self.inner.clone() })
    }
}

/// A verifier that lets nobody in without a certificate of this CA.
///
/// # Errors
/// The CA can't be read.
pub fn required(ca_pem: &str) -> Result<Arc<dyn ClientCertVerifier>, String> {
    Verifier::new(ca_pem).map(|verifier| verifier.inner)
}

#[derive(Debug)]
struct RequestClientCert {
    inner: Arc<dyn ClientCertVerifier>,
}

impl ClientCertVerifier for RequestClientCert {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.inner.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Ok(ClientCertVerified::assertion()) // decided per request, see the module's text
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        self.inner.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}
