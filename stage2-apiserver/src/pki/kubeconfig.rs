//! Kubeconfigs: server, CA and identity in one file.
//!
//! # In Kubernetes
//! `cmd/kubeadm/app/util/kubeconfig`; the names of cluster and context are kubeadm's.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::Credentials;

/// The file's text. `user` and `server` are names and URLs that we made: they need no quoting beyond the quotes.
pub(super) fn render(server: &str, ca_pem: &str, user: &str, credentials: &Credentials) -> String {
    let ca = STANDARD.encode(ca_pem);
    let certificate = STANDARD.encode(&credentials.certificate_pem);
    let key = STANDARD.encode(&credentials.key_pem);
    format!(
        "apiVersion: v1
clusters:
- cluster:
    certificate-authority-data: {ca}
    server: {server}
  name: kubernetes
contexts:
- context:
    cluster: kubernetes
    user: \"{user}\"
  name: \"{user}@kubernetes\"
current-context: \"{user}@kubernetes\"
kind: Config
preferences: {{}}
users:
- name: \"{user}\"
  user:
    client-certificate-data: {certificate}
    client-key-data: {key}
"
    )
}
