//! PKI: who may say that they are whom.
//!
//! *Step 2 of a pod's journey.* Before: nothing; this runs when a cluster is made. After: [`crate::authentication`] believes the
//! certificates that were issued here, and every component has a kubeconfig with its own.
//!
//! A Kubernetes cluster's identities are certificates: the subject's CN is the user, each O a group. Whoever holds the CA's key
//! can be anyone, so keys are 0600 and made on the spot. Files are called as kubeadm calls them; they are made when they are
//! missing, about to expire, or no longer say what they should (another address, another group), and left alone otherwise,
//! so that a restart changes nothing.
//!
//! The subtle thing: etcd gets a CA of its own. It trusts every client certificate of its CA, and the cluster's CA signs one for
//! each node; with one CA for both, any kubelet could read all Secrets past the API server.
//!
//! # Invariants
//! 1. A private key is readable by its owner only, from the moment it exists.
//! 2. A certificate that is handed out is signed by the present CA and valid for 30 more days at least.
//!
//! # In Kubernetes
//! `cmd/kubeadm/app/phases/certs`, `…/kubeconfig`. Left out: front-proxy CA, external CAs, RSA keys.

use std::path::{Path, PathBuf};

use jiff::{Span, Timestamp, ToSpan};
use rcgen::KeyPair;
use stage1_kubectl::status::quote;

mod certificate;
mod files;
mod kubeconfig;
mod subject;

pub(crate) use certificate::inspect_der;
pub use certificate::{CertificateInfo, Purpose, inspect};

/// How long the CA is valid.
const CA_YEARS: i64 = 10;
/// How long everything else is valid.
const LEAF_DAYS: i64 = 365;
/// A certificate with less than this left is made anew.
const RENEW_DAYS: i64 = 30;

/// As whom this server shows itself to other API servers.
pub const FRONT_PROXY_CLIENT: &str = "front-proxy-client";

/// What went wrong with keys and certificates.
#[derive(Debug, thiserror::Error)]
pub enum PkiError {
    /// Reading or writing a file.
    #[error("{path}")]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A file that isn't what it should be.
    #[error("{path} is not a usable {what}")]
    Damaged {
        /// The file.
        path: PathBuf,
        /// `certificate` or `private key`.
        what: &'static str,
    },
    /// Making a key or certificate.
    #[error("making the certificate of {}", quote(name))]
    Make {
        /// Whose.
        name: String,
        /// Why.
        source: rcgen::Error,
    },
}

/// Who a certificate is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// The user: CN.
    pub user: String,
    /// The groups: one O each.
    pub groups: Vec<String>,
}

impl Identity {
    /// A user in groups.
    pub fn new(user: &str, groups: &[&str]) -> Self {
        Identity { user: user.into(), groups: groups.iter().map(|g| (*g).to_owned()).collect() }
    }

    /// The kubelet of a node.
    pub fn node(name: &str) -> Self {
        Identity::new(&format!("system:node:{name}"), &["system:nodes"])
    }

    /// The identity of a component, by the name of its kubeconfig; `admin` may do everything.
    pub fn of_component(name: &str) -> Self {
        match name {
            "admin" => Identity::new("kubernetes-admin", &["system:masters"]),
            "kube-apiserver-kubelet-client" => Identity::new(name, &["system:masters"]),
            component => Identity::new(&format!("system:{component}"), &[]),
        }
    }
}

/// A certificate and its key, as PEM text.
#[derive(Clone)]
pub struct Credentials {
    /// The certificate.
    pub certificate_pem: String,
    /// The private key (PKCS#8).
    pub key_pem: String,
}

/// The files of an etcd of our own.
#[derive(Clone)]
pub struct EtcdFiles {
    /// CA of servers, peers and clients.
    pub ca: PathBuf,
    /// Certificate of server and peer.
    pub server_certificate: PathBuf,
    /// Its key.
    pub server_key: PathBuf,
    /// The API server's client certificate and key, PEM text.
    pub client_pem: (String, String),
}

/// A CA that can sign.
struct Authority {
    certificate_pem: String,
    key: KeyPair,
}

/// The directory `pki/` of a cluster.
pub struct Pki {
    directory: PathBuf,
    now: Timestamp,
    ca: Authority,
    service_account_key_pem: String,
}

fn days(days: i64) -> Span {
    // Timestamps know no calendar days.
    (days * 24).hours()
}

impl Pki {
    /// Opens the directory; makes it, the CA and the service-account key when they are missing.
    ///
    /// # Errors
    /// Files can't be read or written, or aren't what they should be.
    pub fn open(directory: &Path, now: Timestamp) -> Result<Self, PkiError> {
        files::make_directory(directory)?;
        let ca = authority(directory, "ca", "kubernetes", now)?;
        let key = files::read_or_make(&directory.join("sa.key"), files::SECRET, new_key)?;
        let public = key_pair(&key, &directory.join("sa.key"))?.public_key_pem();
        files::write_if_changed(&directory.join("sa.pub"), &public, files::PUBLIC)?;
        Ok(Pki { directory: directory.to_owned(), now, ca, service_account_key_pem: key })
    }

    /// The cluster CA's certificate.
    pub fn ca_pem(&self) -> &str {
        &self.ca.certificate_pem
    }

    /// The key that signs service-account tokens (P-256, PKCS#8 PEM).
    pub fn service_account_key_pem(&self) -> &str {
        &self.service_account_key_pem
    }

    /// A client certificate, kept in `pki/STEM.crt` and `.key`.
    ///
    /// # Errors
    /// As for [`Pki::open`].
    pub fn client(&self, stem: &str, identity: &Identity) -> Result<Credentials, PkiError> {
        self.keep(&self.ca, stem, &Purpose::Client(identity.clone()))
    }

    /// A serving certificate for these names and addresses, kept in `pki/STEM.crt` and `.key`. A certificate that has more
    /// names already is kept.
    ///
    /// # Errors
    /// As for [`Pki::open`].
    pub fn serving(&self, stem: &str, user: &str, names: &[String]) -> Result<Credentials, PkiError> {
        let purpose = Purpose::Serving { user: user.into(), names: names.to_vec(), client_too: false };
        self.keep(&self.ca, stem, &purpose)
    }

    /// What other API servers know us by: the certificate of a CA that signs nothing else, and our client certificate.
    ///
    /// # Errors
    /// As for [`Pki::open`].
    pub fn front_proxy(&self) -> Result<(String, Credentials), PkiError> {
        let ca = authority(&self.directory, "front-proxy-ca", "front-proxy-ca", self.now)?;
        let identity = Identity::new(FRONT_PROXY_CLIENT, &[]);
        let client = self.keep(&ca, FRONT_PROXY_CLIENT, &Purpose::Client(identity))?;
        Ok((ca.certificate_pem, client))
    }

    /// The certificates of an etcd of our own, signed by a CA of its own.
    ///
    /// # Errors
    /// As for [`Pki::open`].
    pub fn etcd_files(&self) -> Result<EtcdFiles, PkiError> {
        let directory = self.directory.join("etcd");
        files::make_directory(&directory)?;
        let ca = authority(&directory, "ca", "etcd-ca", self.now)?;
        let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
        let server = Purpose::Serving { user: "six-stages".into(), names, client_too: true };
        self.keep(&ca, "etcd/server", &server)?;
        let client = Purpose::Client(Identity::new("kube-apiserver-etcd-client", &[]));
        let client = self.keep(&ca, "apiserver-etcd-client", &client)?;
        Ok(EtcdFiles {
            ca: directory.join("ca.crt"),
            server_certificate: directory.join("server.crt"),
            server_key: directory.join("server.key"),
            client_pem: (client.certificate_pem, client.key_pem),
        })
    }

    /// Writes a kubeconfig (0600) for a component or `admin`, whose certificate is kept in `pki/STEM.crt`; a file that says the
    /// same already is left alone.
    ///
    /// # Errors
    /// As for [`Pki::open`].
    pub fn kubeconfig(
        &self,
        path: &Path,
        stem: &str,
        identity: &Identity,
        server: &str,
    ) -> Result<(), PkiError> {
        let credentials = self.client(stem, identity)?;
        let user = identity.user.as_str();
        let text = kubeconfig::render(server, self.ca_pem(), user, &credentials);
        files::write_if_changed(path, &text, files::SECRET)
    }

    /// Reads what is kept, or makes it.
    fn keep(&self, ca: &Authority, stem: &str, purpose: &Purpose) -> Result<Credentials, PkiError> {
        let certificate_path = self.directory.join(format!("{stem}.crt"));
        let key_path = self.directory.join(format!("{stem}.key"));
        if let (Some(certificate_pem), Some(key_pem)) =
            (files::read(&certificate_path)?, files::read(&key_path)?)
        {
            let until = self.now + days(RENEW_DAYS);
            let usable = inspect(&certificate_pem).is_some_and(|info| {
                info.serves(purpose) && info.not_after > until && info.signed_by(&ca.certificate_pem)
            });
            if usable && KeyPair::from_pem(&key_pem).is_ok() {
                return Ok(Credentials { certificate_pem, key_pem });
            }
        }
        let key = KeyPair::generate().map_err(|source| PkiError::Make { name: stem.into(), source })?;
        let certificate_pem =
            certificate::issue(&ca.certificate_pem, &ca.key, &key, purpose, self.now, LEAF_DAYS)
                .map_err(|source| PkiError::Make { name: stem.into(), source })?;
        let key_pem = key.serialize_pem();
        files::write(&key_path, &key_pem, files::SECRET)?;
        files::write(&certificate_path, &certificate_pem, files::PUBLIC)?;
        Ok(Credentials { certificate_pem, key_pem })
    }
}

fn new_key() -> Result<String, PkiError> {
    let make = |source| PkiError::Make { name: "sa".into(), source };
    KeyPair::generate().map(|key| key.serialize_pem()).map_err(make)
}

fn key_pair(pem: &str, path: &Path) -> Result<KeyPair, PkiError> {
    KeyPair::from_pem(pem).map_err(|_| PkiError::Damaged { path: path.into(), what: "private key" })
}

/// A CA from its files, or a new one. A CA that is about to expire is *not* replaced: everything hangs on it.
fn authority(directory: &Path, stem: &str, name: &str, now: Timestamp) -> Result<Authority, PkiError> {
    let (certificate_path, key_path) =
        (directory.join(format!("{stem}.crt")), directory.join(format!("{stem}.key")));
    let make = |source| PkiError::Make { name: name.into(), source };
    let key_pem = files::read_or_make(&key_path, files::SECRET, || {
        KeyPair::generate().map(|key| key.serialize_pem()).map_err(make)
    })?;
    let key = key_pair(&key_pem, &key_path)?;
    let certificate_pem = files::read_or_make(&certificate_path, files::PUBLIC, || {
        certificate::issue_ca(name, &key, now, CA_YEARS * 365).map_err(make)
    })?;
    inspect(&certificate_pem).ok_or(PkiError::Damaged { path: certificate_path, what: "certificate" })?;
    Ok(Authority { certificate_pem, key })
}

#[cfg(test)]
mod tests;
