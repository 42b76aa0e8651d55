//! Client errors: what exactly is wrong, as far as it can be known.
//!
//! "It doesn't work" has very different causes: nothing listens, the name doesn't resolve, the certificate is for another
//! name, or too old, or signed by somebody else, the user is unknown, the user may not. Libraries bury the cause in a
//! chain of errors; here it is dug out once and becomes a variant.
//!
//! # Invariants
//! 1. Display uses the words of Go's network and x509 packages, which kubectl's users know.
//!
//! # In Kubernetes
//! `net.IsConnectionRefused` and `checkErr` in `kubectl/pkg/cmd/util/helpers.go`; Go's `crypto/x509/verify.go`.

use std::error::Error;
use std::io;

use jiff::Timestamp;
use rustls::CertificateError;

use crate::kubeconfig::ConfigError;
use crate::status::Status;

/// Why there is no connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ConnectionProblem {
    /// Nothing listens there.
    Refused,
    /// The name doesn't resolve.
    Dns,
    /// No answer in time.
    Timeout,
    /// The connection broke.
    Interrupted,
    /// Anything else.
    Other,
}

/// Why the TLS handshake failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TlsProblem {
    /// The certificate is for other names.
    WrongName,
    /// A CA that we don't know signed it.
    UnknownAuthority,
    /// It was valid until then.
    Expired(Option<Timestamp>),
    /// It is valid from then on.
    NotYetValid(Option<Timestamp>),
    /// The server refused our certificate, or wants one.
    ClientCertificate,
    /// The server doesn't speak TLS.
    NotTls,
    /// Anything else.
    Other,
}

/// What can go wrong between a request and its answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The server answered with a refusal.
    #[error(transparent)]
    Api(Box<Status>),
    /// There is no connection, or it broke.
    #[error("{message}")]
    Connection {
        /// The server's URL.
        server: String,
        /// What kind of trouble.
        problem: ConnectionProblem,
        /// In Go's words.
        message: String,
    },
    /// The TLS handshake failed.
    #[error("{message}")]
    Tls {
        /// The server's URL.
        server: String,
        /// What kind of trouble.
        problem: TlsProblem,
        /// In Go's words.
        message: String,
    },
    /// Something answers there, but it is no Kubernetes API server.
    #[error("the server at {server} does not answer as a Kubernetes API server")]
    NotKubernetes {
        /// The server's URL.
        server: String,
    },
    /// The answer doesn't have the expected form.
    #[error("decode the answer to {what}")]
    Decode {
        /// Method and path.
        what: String,
        /// The decoder's complaint.
        #[source]
        source: serde_json::Error,
    },
    /// An object can't be sent.
    #[error("encode {0}")]
    Encode(String, #[source] serde_json::Error),
    /// A line of a watch is longer than allowed.
    #[error("a watch event of more than {0} bytes")]
    EventTooLarge(usize),
    /// Address or credentials can't be used.
    #[error("{0}")]
    Config(String),
    /// The kubeconfig can't be used.
    #[error(transparent)]
    Kubeconfig(#[from] ConfigError),
}

impl From<Status> for ClientError {
    fn from(status: Status) -> Self {
        ClientError::Api(Box::new(status))
    }
}

impl ClientError {
    /// The server's refusal, if there is one.
    pub fn status(&self) -> Option<&Status> {
        match self {
            ClientError::Api(status) => Some(status),
            _ => None,
        }
    }

    fn has_reason(&self, reason: &str) -> bool {
        self.status().is_some_and(|s| s.reason == reason)
    }

    /// The object isn't there.
    pub fn is_not_found(&self) -> bool {
        self.status().is_some_and(|s| s.reason == "NotFound" || (s.reason.is_empty() && s.code == 404))
    }

    /// The object isn't valid (422).
    pub fn is_invalid(&self) -> bool {
        self.status().is_some_and(|status| status.code == 422)
    }

    /// Somebody else changed the object first.
    pub fn is_conflict(&self) -> bool {
        self.has_reason("Conflict")
    }

    /// The object is there already.
    pub fn is_already_exists(&self) -> bool {
        self.has_reason("AlreadyExists")
    }

    /// The resourceVersion is older than the server's history.
    pub fn is_gone(&self) -> bool {
        self.has_reason("Expired") || self.has_reason("Gone")
    }

    /// We may not.
    pub fn is_forbidden(&self) -> bool {
        self.has_reason("Forbidden")
    }

    /// The server doesn't know us.
    pub fn is_unauthorized(&self) -> bool {
        self.has_reason("Unauthorized")
    }

    /// Nothing listens at the server's address.
    pub fn is_refused(&self) -> bool {
        matches!(self, ClientError::Connection { problem: ConnectionProblem::Refused, .. })
    }

    pub(crate) fn timed_out(server: &str) -> Self {
        connection(server, ConnectionProblem::Timeout, "context deadline exceeded")
    }

    /// The connection broke while the answer was read.
    pub(crate) fn interrupted(server: &str, error: &(dyn Error + 'static)) -> Self {
        let mut messages = chain(error).map(|e| e.to_string());
        let last = messages.by_ref().last().unwrap_or_default();
        connection(server, ConnectionProblem::Interrupted, &last)
    }

    /// Digs the cause out of a failed call.
    pub(crate) fn from_connection(server: &str, error: &(dyn Error + 'static)) -> Self {
        for cause in chain(error) {
            if let Some(tls) = cause.downcast_ref::<rustls::Error>() {
                return from_tls(server, tls);
            }
            let io = cause.downcast_ref::<io::Error>().filter(|io| io.get_ref().is_none());
            if let Some(found) = io.and_then(|io| from_io(server, io)) {
                return found;
            }
            if cause.to_string() == "tls handshake eof" {
                return connection(server, ConnectionProblem::Interrupted, "EOF");
            }
            if cause.to_string() == "dns error" {
                let host = host_of(server);
                let host = host.rsplit_once(':').map_or(host, |(name, _)| name);
                return connection(
                    server,
                    ConnectionProblem::Dns,
                    &format!("dial tcp: lookup {host}: no such host"),
                );
            }
        }
        let last = chain(error).last().map(|e| e.to_string()).unwrap_or_default();
        connection(server, ConnectionProblem::Other, &last)
    }
}

/// The error and its causes. An `io::Error` that wraps another error skips it in `source`, so it is asked for directly.
fn chain<'a>(error: &'a (dyn Error + 'static)) -> impl Iterator<Item = &'a (dyn Error + 'static)> {
    std::iter::successors(Some(error), |&e| {
        match e.downcast_ref::<io::Error>().and_then(io::Error::get_ref) {
            Some(inner) => Some(inner as &(dyn Error + 'static)),
            None => e.source(),
        }
    })
}

fn connection(server: &str, problem: ConnectionProblem, message: &str) -> ClientError {
    ClientError::Connection { server: server.to_string(), problem, message: message.to_string() }
}

fn host_of(server: &str) -> &str {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    rest.split('/').next().unwrap_or(rest)
}

fn from_io(server: &str, error: &io::Error) -> Option<ClientError> {
    let host = host_of(server);
    let (problem, message) = match error.kind() {
        io::ErrorKind::ConnectionRefused => {
            (ConnectionProblem::Refused, format!("dial tcp {host}: connect: connection refused"))
        }
        io::ErrorKind::TimedOut => (ConnectionProblem::Timeout, format!("dial tcp {host}: i/o timeout")),
        io::ErrorKind::ConnectionReset => {
            (ConnectionProblem::Interrupted, format!("read tcp {host}: connection reset by peer"))
        }
        io::ErrorKind::NetworkUnreachable => {
            (ConnectionProblem::Other, format!("dial tcp {host}: connect: network is unreachable"))
        }
        io::ErrorKind::HostUnreachable => {
            (ConnectionProblem::Other, format!("dial tcp {host}: connect: no route to host"))
        }
        io::ErrorKind::UnexpectedEof => (ConnectionProblem::Interrupted, "EOF".to_string()),
        _ => return None,
    };
    Some(connection(server, problem, &message))
}

fn from_tls(server: &str, error: &rustls::Error) -> ClientError {
    let (problem, message) = describe_tls(error);
    ClientError::Tls { server: server.to_string(), problem, message }
}

fn describe_tls(error: &rustls::Error) -> (TlsProblem, String) {
    let x509 = |text: String| format!("tls: failed to verify certificate: x509: {text}");
    let time = |t: &rustls::pki_types::UnixTime| Timestamp::from_second(t.as_secs() as i64).ok();
    let shown = |t: Option<Timestamp>| t.map(crate::time::format_time).unwrap_or_default();
    let validity = |t: &rustls::pki_types::UnixTime, side: &str, limit: Option<Timestamp>| {
        let now = shown(time(t));
        x509(format!(
            "certificate has expired or is not yet valid: current time {now} is {side} {}",
            shown(limit)
        ))
    };
    match error {
        rustls::Error::InvalidCertificate(why) => match why {
            CertificateError::ExpiredContext { time: now, not_after } => {
                let limit = time(not_after);
                (TlsProblem::Expired(limit), validity(now, "after", limit))
            }
            CertificateError::NotValidYetContext { time: now, not_before } => {
                let limit = time(not_before);
                (TlsProblem::NotYetValid(limit), validity(now, "before", limit))
            }
            CertificateError::NotValidForNameContext { expected, presented } => {
                let names: Vec<&str> = presented.iter().map(|n| presented_name(n)).collect();
                let text =
                    format!("certificate is valid for {}, not {}", names.join(", "), expected.to_str());
                (TlsProblem::WrongName, x509(text))
            }
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                (TlsProblem::UnknownAuthority, x509("certificate signed by unknown authority".into()))
            }
            other => (TlsProblem::Other, x509(other.to_string())),
        },
        rustls::Error::AlertReceived(alert) => {
            let text = format!("remote error: tls: {alert:?}");
            (TlsProblem::ClientCertificate, text)
        }
        rustls::Error::InvalidMessage(_) => {
            let text = "http: server gave HTTP response to HTTPS client".to_string();
            (TlsProblem::NotTls, text)
        }
        other => (TlsProblem::Other, format!("tls: {other}")),
    }
}

/// rustls shows `DnsName("a")` and `IpAddress(127.0.0.1)`.
fn presented_name(shown: &str) -> &str {
    let inner = shown.split_once('(').map_or(shown, |(_, inner)| inner.trim_end_matches(')'));
    inner.trim_matches('"')
}
