//! TLS of a webhook: whom to trust and who we are, from files or from the configuration file itself.
//!
//! As in Kubernetes, `enableHTTPS` without a CA trusts anyone.
//!
//! # In Kubernetes
//! `pkg/scheduler/extender.go` (`makeTransport`).
#![expect(clippy::disallowed_methods, reason = "shell: reads certificates")]

use base64::Engine as _;
use stage1_kubectl::tls::TlsOptions;

use crate::configuration::v1;

/// What the client needs.
pub(super) fn options(settings: &v1::Extender) -> Result<TlsOptions, String> {
    let tls = settings.tls_config.clone().unwrap_or_default();
    let ca = data_or_file(&tls.ca_data, &tls.ca_file)?;
    let certificate = data_or_file(&tls.cert_data, &tls.cert_file)?;
    let key = data_or_file(&tls.key_data, &tls.key_file)?;
    if certificate.is_some() != key.is_some() {
        return Err("a certificate needs a key, and a key a certificate".to_owned());
    }
    Ok(TlsOptions {
        insecure_skip_verify: tls.insecure || (settings.enable_https && ca.is_none()),
        ca_pem: ca,
        identity_pem: certificate.zip(key),
    })
}

fn data_or_file(data: &str, file: &str) -> Result<Option<Vec<u8>>, String> {
    if !data.is_empty() {
        let decoded = base64::engine::general_purpose::STANDARD.decode(data.trim());
        return decoded.map(Some).map_err(|error| format!("data is no base64: {error}"));
    }
    if file.is_empty() {
        return Ok(None);
    }
    std::fs::read(file).map(Some).map_err(|error| format!("open {file}: {error}"))
}
