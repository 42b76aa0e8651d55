//! Trouble: why the API server gave no answer, and what can be known from this side.
//!
//! *Step 1 of a pod's journey*, when it ends at once. Before: [`super::gather`] asked for `/version` in vain. After: the
//! rules of stage ① and ② tell whose fault it is.
//!
//! "Connection refused" looks the same whether the kubeconfig names a wrong port or the API server is down. What tells them
//! apart lies outside of the cluster: the other kubeconfigs of this machine. So those are read, and what they name is asked
//! for `/version`. An expired certificate can be told without any server: its date stands in the file.
//!
//! # Invariants
//! 1. No credential is kept: the kind of it, its name and its date are enough.
//!
//! # In Kubernetes
//! No counterpart.

use base64::Engine;
use jiff::Timestamp;

use crate::client::{ClientError, ConnectionProblem, TlsProblem};

/// What went wrong.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TroubleKind {
    /// The kubeconfig can't be used.
    Kubeconfig,
    /// No connection.
    Connection(ConnectionProblem),
    /// No trust.
    Tls(TlsProblem),
    /// 401.
    Unauthorized,
    /// 403 for what was asked about.
    Forbidden,
    /// Something else answers there.
    NotKubernetes,
    /// The server answers with an error of its own.
    ServerError,
}

/// Who the client says it is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Credential {
    /// `client certificate`, `token`, `token file`, `exec plugin`, `password`, or empty for none.
    pub kind: String,
    /// The common name, or the subject of a token.
    pub subject: String,
    /// From when on it is valid.
    pub not_before: Option<Timestamp>,
    /// Until when it is valid.
    pub not_after: Option<Timestamp>,
    /// Who signed it.
    pub issuer: String,
}

/// Another address at which a kubeconfig of this machine expects the API server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Alternative {
    /// The file.
    pub source: String,
    /// The address.
    pub server: String,
    /// Whether a Kubernetes API server answers there.
    pub answers: bool,
}

/// Why there is no answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// What went wrong.
    pub kind: TroubleKind,
    /// In the words of the client or the server.
    pub message: String,
    /// The address that was asked.
    pub server: String,
    /// The kubeconfig's path.
    pub kubeconfig: String,
    /// The context's name.
    pub context: String,
    /// Who the client says it is.
    pub credential: Credential,
    /// Other addresses that this machine knows.
    pub alternatives: Vec<Alternative>,
}

/// What kind of trouble an error is; `None`: it is an answer about one object (404, 409, …), so the server works.
#[must_use]
pub fn classify(error: &ClientError) -> Option<TroubleKind> {
    Some(match error {
        ClientError::Connection { problem, .. } => TroubleKind::Connection(problem.clone()),
        ClientError::Tls { problem, .. } => TroubleKind::Tls(problem.clone()),
        ClientError::NotKubernetes { .. } => TroubleKind::NotKubernetes,
        ClientError::Kubeconfig(_) | ClientError::Config(_) => TroubleKind::Kubeconfig,
        ClientError::Api(status) => match (status.code, status.reason.as_str()) {
            (401, _) | (_, "Unauthorized") => TroubleKind::Unauthorized,
            (403, _) | (_, "Forbidden") => TroubleKind::Forbidden,
            (500.., _) => TroubleKind::ServerError,
            _ => return None,
        },
        _ => return None,
    })
}

/// What a bearer token says about itself, if it is a JWT. The signature isn't looked at.
#[must_use]
pub fn token_facts(token: &str) -> Credential {
    let mut credential = Credential { kind: "token".into(), ..Credential::default() };
    let claims = token.split('.').nth(1).and_then(|part| {
        let bytes =
            base64::engine::general_purpose::URL_SAFE_NO_PAD.decode(part.trim_end_matches('=')).ok()?;
        serde_json::from_slice::<serde_json::Value>(&bytes).ok()
    });
    if let Some(claims) = claims {
        let time =
            |name: &str| claims[name].as_i64().and_then(|seconds| Timestamp::from_second(seconds).ok());
        credential.subject = claims["sub"].as_str().unwrap_or_default().into();
        credential.issuer = claims["iss"].as_str().unwrap_or_default().into();
        credential.not_before = time("nbf");
        credential.not_after = time("exp");
    }
    credential
}

/// What a client certificate (PEM) says about itself.
#[must_use]
pub fn certificate_facts(pem: &[u8]) -> Credential {
    let mut credential = Credential { kind: "client certificate".into(), ..Credential::default() };
    let chain = crate::tls::certificates(pem).unwrap_or_default();
    let Some(first) = chain.first() else { return credential };
    if let Ok((_, certificate)) = x509_parser::parse_x509_certificate(first) {
        let common_name = |name: &x509_parser::x509::X509Name<'_>| {
            let first = name.iter_common_name().next().and_then(|cn| cn.as_str().ok());
            first.unwrap_or_default().to_owned()
        };
        let validity = certificate.validity();
        credential.subject = common_name(certificate.subject());
        credential.issuer = common_name(certificate.issuer());
        credential.not_before = Timestamp::from_second(validity.not_before.timestamp()).ok();
        credential.not_after = Timestamp::from_second(validity.not_after.timestamp()).ok();
    }
    credential
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn a_token_tells_its_owner_and_its_end() {
        let claims = base64::engine::general_purpose::URL_SAFE_NO_PAD
            .encode(r#"{"sub":"system:serviceaccount:d:a","exp":1000}"#);
        let credential = token_facts(&format!("x.{claims}.y"));
        assert_eq!(credential.subject, "system:serviceaccount:d:a");
        assert_eq!(credential.not_after, Timestamp::from_second(1000).ok());
        assert_eq!(token_facts("opaque").not_after, None);
    }

    #[test]
    fn a_certificate_tells_its_name_and_its_end() {
        let mut params = rcgen::CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(rcgen::DnType::CommonName, "jane");
        params.not_after = rcgen::date_time_ymd(2020, 1, 2);
        params.not_before = rcgen::date_time_ymd(2019, 1, 2);
        let key = rcgen::KeyPair::generate().unwrap();
        let pem = params.self_signed(&key).unwrap().pem();
        let credential = certificate_facts(pem.as_bytes());
        assert_eq!(credential.subject, "jane");
        assert_eq!(credential.not_after.unwrap().to_string(), "2020-01-02T00:00:00Z");
        assert_eq!(certificate_facts(b"none").not_after, None);
    }

    #[test]
    fn a_missing_object_is_no_trouble() {
        assert_eq!(classify(&Status::not_found("pods", "x").into()), None);
        assert_eq!(classify(&Status::unauthorized().into()), Some(TroubleKind::Unauthorized));
    }
}
