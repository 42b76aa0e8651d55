//! Failures of commands: the text on stderr and the exit code.
//!
//! *Step 1 of a pod's journey*, when it ends early. Scripts match on these texts and codes.
//!
//! # Invariants
//! 1. A refusal of the server reads `Error from server (Reason): message`; our own mistakes read `error: message`.
//!
//! # In Kubernetes
//! `checkErr` and `StandardErrorMessage` in `kubectl/pkg/cmd/util/helpers.go`.

mod hint;

use crate::client::{ClientError, ConnectionProblem};
use crate::manifest::ManifestError;
use crate::patch::PatchError;
use crate::selector::SelectorError;
use crate::status::{Status, quote};

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// Talking to the server.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// Anything that is printed as `error: …`.
    #[error("{0}")]
    Message(String),
    /// Several failures, one after the other.
    #[error("several failures")]
    Several(Vec<Failure>),
    /// A remote command's exit code; the message, if any, is printed as it is.
    #[error("{message}")]
    Exit {
        /// The code.
        code: i32,
        /// Printed as it is.
        message: String,
    },
}

impl Failure {
    /// A text that is printed as it is, without `error:` before it.
    pub fn verbatim(message: impl Into<String>) -> Self {
        Failure::Exit { code: 1, message: message.into() }
    }
}

impl From<ManifestError> for Failure {
    fn from(error: ManifestError) -> Self {
        Failure::Message(error.to_string())
    }
}

impl From<PatchError> for Failure {
    fn from(error: PatchError) -> Self {
        Failure::Message(error.to_string())
    }
}

impl From<SelectorError> for Failure {
    fn from(error: SelectorError) -> Self {
        Failure::Message(error.to_string())
    }
}

impl From<Status> for Failure {
    fn from(status: Status) -> Self {
        Failure::Client(status.into())
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Failure::Message(error.to_string())
    }
}

impl Failure {
    /// `error: …`.
    pub fn message(text: impl Into<String>) -> Self {
        Failure::Message(text.into())
    }

    /// One failure as itself, several as [`Failure::Several`], none as success.
    ///
    /// # Errors
    /// The collected failures.
    pub fn collect(mut failures: Vec<Failure>) -> Result<(), Failure> {
        match failures.len() {
            0 => Ok(()),
            1 => Err(failures.remove(0)),
            _ => Err(Failure::Several(failures)),
        }
    }

    /// As one of several: what isn't the server's refusal is said without `error: `.
    fn bare(&self) -> String {
        match self {
            Failure::Message(text) => text.clone(),
            Failure::Several(failures) => failures.iter().map(Failure::bare).collect::<Vec<_>>().join("\n"),
            other => other.report().0,
        }
    }

    /// Adds what was being done: `error when creating "x.yaml": …`.
    pub fn while_doing(self, verb: &str, source: &str) -> Self {
        match self {
            Failure::Client(ClientError::Api(mut status)) => {
                status.message = format!("error when {verb} {}: {}", quote(source), status.message);
                Failure::Client(ClientError::Api(status))
            }
            other => other,
        }
    }

    /// The text for stderr (without the last line end) and the exit code.
    pub fn report(&self) -> (String, i32) {
        match self {
            Failure::Client(error) => (client_error(error), 1),
            Failure::Message(text) if text.starts_with("error: ") => (text.clone(), 1),
            Failure::Message(text) => (format!("error: {text}"), 1),
            Failure::Several(failures) => {
                // Several errors stand without the prefix of one.
                let texts: Vec<String> = failures.iter().map(Failure::bare).collect();
                (texts.join("\n"), 1)
            }
            Failure::Exit { code, message } => (message.clone(), *code),
        }
    }
}

fn client_error(error: &ClientError) -> String {
    match error {
        ClientError::Api(status) => status_text(status),
        ClientError::Connection { server, problem: ConnectionProblem::Refused, .. } => {
            let host = server.split_once("://").map_or(server.as_str(), |(_, host)| host);
            format!(
                "The connection to the server {host} was refused - did you specify the right host or port?"
            )
        }
        ClientError::Connection { message, .. } | ClientError::Tls { message, .. } => {
            format!("Unable to connect to the server: {message}")
        }
        ClientError::Decode { what, source } => format!("error: {what}: {source}"),
        other => format!("error: {other}"),
    }
}

fn status_text(status: &Status) -> String {
    match status.reason.as_str() {
        "Invalid" => invalid_text(status),
        "Unauthorized" => format!("error: You must be logged in to the server ({})", status.message),
        "" => format!("Error from server: {}", status.message),
        reason => format!("Error from server ({reason}): {}", status.message),
    }
}

/// One cause in the same line, several as a list.
fn invalid_text(status: &Status) -> String {
    let Some(details) = &status.details else {
        return format!("The request is invalid: {}", status.message);
    };
    let subject = match (details.kind.as_str(), details.name.as_str()) {
        ("", "") if details.causes.is_empty() => {
            return format!("The request is invalid: {}", status.message);
        }
        ("", "") => "The request is invalid".to_string(),
        (kind, name) => format!("The {kind} {} is invalid", quote(name)),
    };
    let mut lines: Vec<String> = Vec::new();
    for cause in &details.causes {
        let line = match cause.field.as_str() {
            "" => cause.message.clone(),
            field => format!("{field}: {}", cause.message),
        };
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    match lines.as_slice() {
        [] => subject,
        [one] => format!("{subject}: {one}"),
        several => format!(
            "{subject}: \n{}",
            several.iter().map(|l| format!("* {l}")).collect::<Vec<_>>().join("\n")
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::FieldError;

    #[test]
    fn failures_read_as_kubectl_prints_them() {
        let text = |failure: Failure| failure.report().0;
        let not_found = Failure::from(Status::not_found("pods", "web"));
        assert_eq!(text(not_found), "Error from server (NotFound): pods \"web\" not found");
        let one = [FieldError::required("spec.x", "")];
        assert_eq!(
            text(Status::invalid("Pod", "web", &one).into()),
            "The Pod \"web\" is invalid: spec.x: Required value"
        );
        let two = [FieldError::required("a", ""), FieldError::required("b", "")];
        let wanted = "The Pod \"web\" is invalid: \n* a: Required value\n* b: Required value";
        assert_eq!(text(Status::invalid("Pod", "web", &two).into()), wanted);
        assert_eq!(text(Failure::message("no")), "error: no");
    }
}
