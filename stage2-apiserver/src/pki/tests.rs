//! Certificates that say what they should, verified by rustls as the server will.
//!
//! # In Kubernetes
//! `cmd/kubeadm/app/phases/certs/certs_test.go`.

#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;

use rustls::RootCertStore;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;

use super::*;

fn now() -> Timestamp {
    "2026-06-01T12:00:00Z".parse().unwrap()
}

fn der(pem: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_slice(pem.as_bytes()).unwrap()
}

fn verified_by_rustls(ca_pem: &str, certificate_pem: &str, at: Timestamp) -> bool {
    let mut roots = RootCertStore::empty();
    roots.add(der(ca_pem)).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
    let at = UnixTime::since_unix_epoch(std::time::Duration::from_secs(at.as_second().unsigned_abs()));
    verifier.verify_client_cert(&der(certificate_pem), &[], at).is_ok()
}

#[test]
fn a_client_certificate_carries_every_group() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::open(dir.path(), now()).unwrap();
    let groups: Vec<String> = (0..40).map(|n| format!("group-{n}")).collect();
    for count in [0, 1, 2, 3, 40] {
        let identity = Identity { user: "jane".into(), groups: groups[..count].to_vec() };
        let made = pki.client(&format!("jane-{count}"), &identity).unwrap();
        let info = inspect(&made.certificate_pem).unwrap();
        assert_eq!(info.identity, identity);
        assert!(info.client && !info.server);
        assert!(verified_by_rustls(pki.ca_pem(), &made.certificate_pem, now()), "{count} groups");
    }
}

#[test]
fn a_stranger_is_not_believed() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let pki = Pki::open(dir.path(), now()).unwrap();
    let strange = Pki::open(other.path(), now()).unwrap();
    let made = strange.client("admin", &Identity::of_component("admin")).unwrap();
    assert!(!verified_by_rustls(pki.ca_pem(), &made.certificate_pem, now()));
    let serving = pki.serving("apiserver", "kube-apiserver", &["localhost".into()]).unwrap();
    assert!(!verified_by_rustls(pki.ca_pem(), &serving.certificate_pem, now()), "a server isn't a client");
    let own = pki.client("admin", &Identity::of_component("admin")).unwrap();
    assert!(!verified_by_rustls(pki.ca_pem(), &own.certificate_pem, now() + days(400)), "expired");
}

#[test]
fn files_are_made_once_and_again_when_they_no_longer_do() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::open(dir.path(), now()).unwrap();
    let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect::<Vec<_>>();
    let first = pki.serving("apiserver", "kube-apiserver", &names(&["localhost", "127.0.0.1"])).unwrap();
    let info = inspect(&first.certificate_pem).unwrap();
    assert_eq!(info.names, ["localhost", "127.0.0.1"]);
    let again = Pki::open(dir.path(), now() + days(300)).unwrap();
    assert_eq!(again.ca_pem(), pki.ca_pem());
    assert_eq!(again.service_account_key_pem(), pki.service_account_key_pem());
    let kept = again.serving("apiserver", "kube-apiserver", &names(&["127.0.0.1"])).unwrap();
    assert_eq!(kept.certificate_pem, first.certificate_pem);
    let wider = again.serving("apiserver", "kube-apiserver", &names(&["10.96.0.1"])).unwrap();
    assert_ne!(wider.certificate_pem, first.certificate_pem, "another address");
    let late = Pki::open(dir.path(), now() + days(300 + 340)).unwrap();
    let renewed = late.serving("apiserver", "kube-apiserver", &names(&["10.96.0.1"])).unwrap();
    assert_ne!(renewed.certificate_pem, wider.certificate_pem, "25 days left");
    for (file, mode) in [("ca.key", 0o600), ("sa.key", 0o600), ("apiserver.key", 0o600), ("ca.crt", 0o644)] {
        let metadata = std::fs::metadata(dir.path().join(file)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{file}");
    }
}

#[test]
fn a_new_ca_makes_new_certificates() {
    let dir = tempfile::tempdir().unwrap();
    let first =
        Pki::open(dir.path(), now()).unwrap().client("admin", &Identity::of_component("admin")).unwrap();
    for file in ["ca.crt", "ca.key"] {
        std::fs::remove_file(dir.path().join(file)).unwrap();
    }
    let pki = Pki::open(dir.path(), now()).unwrap();
    let second = pki.client("admin", &Identity::of_component("admin")).unwrap();
    assert_ne!(first.certificate_pem, second.certificate_pem);
    assert!(verified_by_rustls(pki.ca_pem(), &second.certificate_pem, now()));
}

#[test]
fn a_kubeconfig_is_read_back_by_the_client() {
    let dir = tempfile::tempdir().unwrap();
    let pki = Pki::open(&dir.path().join("pki"), now()).unwrap();
    let path = dir.path().join("node-1.kubeconfig");
    let identity = Identity::node("node-1");
    pki.kubeconfig(&path, "nodes/node-1", &identity, "https://127.0.0.1:6443").unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    let config: serde_json::Value = serde_yaml::from_str(&text).unwrap();
    assert_eq!(config["clusters"][0]["cluster"]["server"], "https://127.0.0.1:6443");
    assert_eq!(config["users"][0]["name"], "system:node:node-1");
    pki.kubeconfig(&path, "nodes/node-1", &identity, "https://127.0.0.1:6443").unwrap();
    assert_eq!(std::fs::read_to_string(&path).unwrap(), text, "nothing changed, nothing written");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
}
