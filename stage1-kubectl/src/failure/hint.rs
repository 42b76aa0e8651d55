//! Hints: what to look at next when there is no connection, or no permission.
//!
//! The first lines of stderr are kubectl's own words, which scripts match on. A hint is one line behind them, and only for people: it is
//! printed when stderr is a terminal.
//!
//! # In Kubernetes
//! Nothing: a stock kubectl leaves it at the error.

use jiff::Timestamp;

use super::Failure;
use crate::client::{ClientError, ConnectionProblem, TlsProblem};
use crate::kubeconfig::ConfigError;

impl Failure {
    /// What to look at next, if that can be said. Whom the server doesn't know may have a certificate whose time is over.
    pub fn hint(&self, certificate_end: Option<Timestamp>, now: Timestamp) -> Option<String> {
        match self {
            Failure::Client(error) if is_unknown(error) && certificate_end.is_some_and(|end| end < now) => {
                let end = certificate_end.expect("just looked at");
                Some(format!(
                    "your client certificate expired at {end}: get a new one (a kubeconfig is written anew by whoever manages the cluster)"
                ))
            }
            Failure::Client(error) => of(error),
            Failure::Several(failures) => failures.first().and_then(|first| first.hint(certificate_end, now)),
            Failure::Message(text)
                if text.trim_start_matches("error: ").starts_with("context ")
                    && text.contains("does not exist") =>
            {
                Some("kubectl config get-contexts lists the contexts that there are".into())
            }
            _ => None,
        }
    }
}

/// The server didn't accept who we say we are.
fn is_unknown(error: &ClientError) -> bool {
    match error {
        ClientError::Tls { problem, .. } => *problem == TlsProblem::ClientCertificate,
        error => error.status().is_some_and(|status| status.code == 401),
    }
}

fn of(error: &ClientError) -> Option<String> {
    let text = match error {
        ClientError::Connection { server, problem, .. } => match problem {
            ConnectionProblem::Refused => format!(
                "nothing listens at {server}: is the cluster running, and is this the right context? (kubectl config current-context)"
            ),
            ConnectionProblem::Dns => {
                format!("the name in {server} is unknown here: check the server's address (kubectl config view --minify)")
            }
            ConnectionProblem::Timeout => {
                format!("no answer from {server}: a firewall, a VPN that is down, or the wrong address")
            }
            ConnectionProblem::Interrupted | ConnectionProblem::Other => return None,
        },
        ClientError::Tls { server, problem, .. } => match problem {
            TlsProblem::WrongName => format!(
                "the certificate of {server} is for other names: use one of them as the address, or name it with --tls-server-name"
            ),
            TlsProblem::UnknownAuthority => {
                "the kubeconfig's certificate-authority didn't sign this server's certificate: another cluster may listen there now".into()
            }
            TlsProblem::Expired(Some(until)) => {
                format!("the certificate was valid until {until}: renew it, or check this machine's clock")
            }
            TlsProblem::NotYetValid(Some(from)) => {
                format!("the certificate is valid from {from} on: check this machine's clock")
            }
            TlsProblem::ClientCertificate => {
                "the server didn't accept our client certificate: it may be expired, or of another cluster".into()
            }
            TlsProblem::NotTls => format!("{server} doesn't speak TLS: perhaps its address begins with http://"),
            _ => return None,
        },
        ClientError::Kubeconfig(ConfigError::NoContext(_)) => {
            "kubectl config get-contexts lists the contexts that there are".into()
        }
        ClientError::NotKubernetes { server } => {
            format!("something else than a Kubernetes API server answers at {server}: check port and path")
        }
        ClientError::Api(status) if status.code == 401 => {
            "the server doesn't know who you are: the token or certificate may be expired, or of another cluster (kubectl config view --minify)".into()
        }
        ClientError::Api(status) if status.code == 403 => {
            "the server knows you, but you may not: kubectl auth whoami and kubectl auth can-i --list tell more".into()
        }
        _ => return None,
    };
    Some(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Status;

    #[test]
    fn each_sort_of_trouble_has_its_hint() {
        let connection = |problem| {
            Failure::Client(ClientError::Connection {
                server: "https://a:1".into(),
                problem,
                message: String::new(),
            })
        };
        let now: Timestamp = "2026-06-01T00:00:00Z".parse().unwrap();
        let hint = |failure: Failure| failure.hint(None, now);
        let refused = hint(connection(ConnectionProblem::Refused)).unwrap();
        assert!(refused.contains("nothing listens at https://a:1"), "{refused}");
        assert!(hint(connection(ConnectionProblem::Dns)).unwrap().contains("unknown here"));
        let until: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let expired = ClientError::Tls {
            server: "https://a:1".into(),
            problem: TlsProblem::Expired(Some(until)),
            message: String::new(),
        };
        assert!(hint(Failure::Client(expired)).unwrap().contains("2026-01-01"));
        assert!(hint(Failure::from(Status::forbidden("pods", "web", "no"))).unwrap().contains("can-i"));
        assert_eq!(hint(Failure::from(Status::not_found("pods", "web"))), None);
        // The server says 401 and nothing more; our certificate says why.
        let unauthorized = Failure::from(Status::unauthorized());
        assert!(unauthorized.hint(Some(until), now).unwrap().contains("expired at 2026-01-01T00:00:00Z"));
        assert!(unauthorized.hint(Some(now), until).unwrap().contains("doesn't know who you are"));
    }
}
