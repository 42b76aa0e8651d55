//! Answers: a diagnosis, and how it is written.
//!
//! A diagnosis names the stage, the object, the mechanism (a word of the vocabulary), up to three pieces of evidence
//! and, if the learner likes, the stages that are healthy. Evidence is `SUBJECT PATH=VALUE`, so that it can be looked up.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use serde::{Deserialize, Serialize};

use super::texts::say;
use super::vocabulary;

/// At most so many pieces of evidence count.
pub const MAX_EVIDENCE: usize = 3;

/// A diagnosis.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// 1 to 6; 0 for "nothing is broken".
    pub stage: u8,
    /// `Deployment/web`, `Component/kube-scheduler`, `Kubeconfig`, or `none`.
    pub object: String,
    /// A word of the vocabulary.
    pub mechanism: String,
    /// What proves it.
    #[serde(default)]
    pub evidence: Vec<Evidence>,
    /// Stages that were ruled out.
    #[serde(default)]
    pub healthy: Vec<u8>,
}

/// A value that was seen somewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    /// Where.
    pub subject: String,
    /// JSONPath into it.
    pub path: String,
    /// What stood there, or a part of it.
    pub value: String,
}

/// Why an answer can't be read.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum AnswerError {
    /// Not a stage.
    #[error("{}", say("answer.stage", &[("stage", .0)]))]
    Stage(u8),
    /// Not a mechanism.
    #[error("{}", say("answer.mechanism", &[("word", .0)]))]
    Mechanism(String),
    /// Not evidence.
    #[error("{}", say("answer.evidence", &[("text", .0)]))]
    Evidence(String),
    /// Too much of it.
    #[error("{}", say("answer.too-much", &[("count", .0)]))]
    TooMuch(usize),
}

impl Answer {
    /// Reads an answer from its parts.
    ///
    /// # Errors
    /// [`AnswerError`].
    pub fn parse(
        stage: u8,
        object: &str,
        mechanism: &str,
        evidence: &[String],
        healthy: &[u8],
    ) -> Result<Self, AnswerError> {
        if let Some(bad) = [stage].iter().chain(healthy).find(|stage| **stage > 6) {
            return Err(AnswerError::Stage(*bad));
        }
        if !vocabulary::is_mechanism(mechanism) {
            return Err(AnswerError::Mechanism(mechanism.to_owned()));
        }
        if evidence.len() > MAX_EVIDENCE {
            return Err(AnswerError::TooMuch(evidence.len()));
        }
        Ok(Answer {
            stage,
            object: object.to_owned(),
            mechanism: mechanism.to_owned(),
            evidence: evidence.iter().map(|text| parse_evidence(text)).collect::<Result<_, _>>()?,
            healthy: healthy.to_vec(),
        })
    }
}

fn parse_evidence(text: &str) -> Result<Evidence, AnswerError> {
    let bad = || AnswerError::Evidence(text.to_owned());
    let (subject, rest) = text.trim().split_once(' ').ok_or_else(bad)?;
    // A path may hold `=` in a filter: `…[?(@.type=="Ready")].status=True`.
    let mut depth = 0_i32;
    let at = rest
        .char_indices()
        .find(|(_, c)| {
            depth += i32::from(matches!(c, '[' | '(')) - i32::from(matches!(c, ']' | ')'));
            *c == '=' && depth == 0
        })
        .map(|(at, _)| at)
        .ok_or_else(bad)?;
    let (path, value) = rest.split_at(at);
    let path = path.trim();
    let path = if path.starts_with('.') { path.to_owned() } else { format!(".{path}") };
    Ok(Evidence { subject: subject.to_owned(), path, value: value.trim_start_matches('=').trim().to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evidence_is_a_subject_a_path_and_a_value() {
        let evidence =
            parse_evidence("Pod/web-* .status.conditions[?(@.type==\"Ready\")].status=False").unwrap();
        assert_eq!(evidence.subject, "Pod/web-*");
        assert_eq!(evidence.path, ".status.conditions[?(@.type==\"Ready\")].status");
        assert_eq!(evidence.value, "False");
        let short = parse_evidence("Deployment/web spec.replicas = 3").unwrap();
        assert_eq!((short.path.as_str(), short.value.as_str()), (".spec.replicas", "3"));
        for bad in ["", "web", "Deployment/web .spec.replicas"] {
            assert_eq!(parse_evidence(bad), Err(AnswerError::Evidence(bad.to_owned())));
        }
    }

    #[test]
    fn what_is_no_answer_is_refused_with_what_to_write() {
        let parse = |stage, mechanism: &str, evidence: &[String]| {
            Answer::parse(stage, "Pod/x", mechanism, evidence, &[])
        };
        assert_eq!(parse(7, "healthy", &[]), Err(AnswerError::Stage(7)));
        assert_eq!(parse(4, "gremlins", &[]), Err(AnswerError::Mechanism("gremlins".to_owned())));
        assert_eq!(parse(4, "healthy", &vec!["Pod/x .a=1".to_owned(); 4]), Err(AnswerError::TooMuch(4)));
        assert_eq!(parse(4, "oom-killed", &["Pod/x .a=1".to_owned()]).unwrap().evidence.len(), 1);
    }
}
