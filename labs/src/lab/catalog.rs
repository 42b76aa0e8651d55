//! Catalog: a lab as its file says it.
//!
//! One YAML file a lab, in `labs/catalog`. Texts carry the names of [`crate::lab::variation`]; [`Lab::with_seed`] fills them in, so that
//! everything after it sees plain values.
//!
//! # Invariants
//! 1. A file with an unknown field, an unknown mechanism or a twin that isn't there fails the tests, not a class.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use serde::Deserialize;

use super::texts::say;
use super::variation::{fill, names};
use super::{grade::Verdict, inject::Step, probe::Probe};

/// The files, by the lab's id.
const FILES: [(&str, &str); 21] = [
    ("1-B", include_str!("../../catalog/1-B.yaml")),
    ("1-C", include_str!("../../catalog/1-C.yaml")),
    ("2-A", include_str!("../../catalog/2-A.yaml")),
    ("2-B", include_str!("../../catalog/2-B.yaml")),
    ("2-E", include_str!("../../catalog/2-E.yaml")),
    ("2-F", include_str!("../../catalog/2-F.yaml")),
    ("3-A", include_str!("../../catalog/3-A.yaml")),
    ("4-A", include_str!("../../catalog/4-A.yaml")),
    ("4-B", include_str!("../../catalog/4-B.yaml")),
    ("4-D", include_str!("../../catalog/4-D.yaml")),
    ("5-D", include_str!("../../catalog/5-D.yaml")),
    ("5-E", include_str!("../../catalog/5-E.yaml")),
    ("5-F", include_str!("../../catalog/5-F.yaml")),
    ("6-A", include_str!("../../catalog/6-A.yaml")),
    ("6-B", include_str!("../../catalog/6-B.yaml")),
    ("0-A", include_str!("../../catalog/0-A.yaml")),
    ("0-B", include_str!("../../catalog/0-B.yaml")),
    ("0-C", include_str!("../../catalog/0-C.yaml")),
    ("0-D", include_str!("../../catalog/0-D.yaml")),
    ("0-E", include_str!("../../catalog/0-E.yaml")),
    ("0-F", include_str!("../../catalog/0-F.yaml")),
];

/// A lab. Everything but `id`, `symptom`, `title`, `difficulty`, `minutes` and `brief` is hidden from the learner.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lab {
    /// `4-B`: stage and letter. For teachers; a learner starts a symptom.
    pub id: String,
    /// What labs with one symptom have in common: `silent-pending`. Starting it draws one of them by the seed.
    pub symptom: String,
    /// One line for the list: the symptom, not the cause.
    pub title: String,
    /// 1 (easy) to 5.
    pub difficulty: u8,
    /// How long it takes.
    pub minutes: u32,
    /// The look-alike, told after the lab.
    #[serde(default)]
    pub twin: Option<String>,
    /// The page, in the words of the person who sent it.
    pub brief: String,
    /// Objects that are there before the fault, as YAML.
    #[serde(default)]
    pub objects: String,
    /// Waited for before the fault is made.
    #[serde(default)]
    pub healthy: Option<Probe>,
    /// The fault.
    #[serde(default)]
    pub inject: Vec<Step>,
    /// Must become true, or the lab gives up on itself.
    pub broken: Probe,
    /// What is wrong.
    pub truth: Truth,
    /// First the ones whose `when` holds, in order; then the rest, one a call.
    pub hints: Vec<Hint>,
    /// Repairs that are none.
    #[serde(default)]
    pub guards: Vec<Guard>,
    /// The outcome of a repair.
    pub repaired: Probe,
    /// What a repair must not have taken away, and what to say when it has.
    #[serde(default)]
    pub keeps: Vec<Keep>,
    /// The reference repair, a shell script with `kubectl` on its path.
    #[serde(default)]
    pub solution: String,
    /// Answers that learners give, and the verdict on each.
    pub wrong_answers: Vec<WrongAnswer>,
    /// What is told at the end.
    pub debrief: Debrief,
}

/// The diagnosis that is asked for.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Truth {
    /// 1 to 6; 0 where nothing is broken.
    pub stage: u8,
    /// The object; the first is its proper name, the others (with `*`) are taken too.
    pub objects: Vec<String>,
    /// A word of the vocabulary.
    pub mechanism: String,
    /// What proves it: any one of these.
    pub evidence: Vec<EvidenceKey>,
    /// Stage by stage, what proves the earlier ones healthy.
    #[serde(default)]
    pub ruled_out_by: Vec<String>,
}

/// A value that proves the cause.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, serde::Serialize)]
#[serde(deny_unknown_fields)]
pub struct EvidenceKey {
    /// `Deployment/web`, `Component/kube-scheduler`, `Event/FailedCreate`, `Kubeconfig`.
    pub subject: String,
    /// JSONPath into it.
    pub path: String,
    /// A pattern (with `*`) that the value matches.
    pub matches: String,
}

/// A hint.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Hint {
    /// Given while this holds.
    #[serde(default)]
    pub when: Option<Probe>,
    /// The hint.
    pub text: String,
}

/// A change that a learner must not make.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Guard {
    /// `delete`, `create`, `patch`, …
    pub verbs: Vec<String>,
    /// Plural name of the resource; `*` for any.
    pub resource: String,
    /// A pattern for the object's name; absent: any.
    #[serde(default)]
    pub name: Option<String>,
    /// Why it is none.
    pub why: String,
}

/// What must still be so after the repair.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Keep {
    /// Must hold.
    pub probe: Probe,
    /// What to say when it doesn't.
    pub why: String,
}

/// An answer that learners give.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrongAnswer {
    /// Stage that is named.
    pub stage: u8,
    /// Object that is named.
    pub object: String,
    /// Mechanism that is named.
    pub mechanism: String,
    /// The verdict on it.
    pub verdict: Verdict,
}

/// What is told at the end.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Debrief {
    /// The chain from cause to symptom.
    pub what_happened: String,
    /// Why it looks like its twin, and what tells them apart.
    #[serde(default)]
    pub twin: Option<String>,
    /// The source that decided: `stage4-scheduler/src/scheduling_queue.rs`.
    pub code: String,
    /// The chapter: a file of `book/src`.
    pub chapter: String,
}

/// Why a lab can't be had.
#[derive(Debug, thiserror::Error)]
pub enum CatalogError {
    /// A file that isn't a lab.
    #[error("catalog/{id}.yaml")]
    File {
        /// The lab.
        id: String,
        /// Why.
        source: Box<dyn std::error::Error + Send + Sync>,
    },
    /// Nobody knows this name.
    #[error("{}", say("start.unknown", &[("word", .0)]))]
    Unknown(String),
}

impl Lab {
    /// The lab with the names that a seed gives.
    ///
    /// # Errors
    /// [`CatalogError`].
    pub fn with_seed(id: &str, seed: u64) -> Result<Self, CatalogError> {
        let (id, text) = FILES
            .iter()
            .find(|(known, _)| *known == id)
            .ok_or_else(|| CatalogError::Unknown(id.to_owned()))?;
        let error = |source: Box<dyn std::error::Error + Send + Sync>| CatalogError::File {
            id: (*id).to_owned(),
            source,
        };
        let documents = stage1_kubectl::manifest::documents(&fill(text, &names(id, seed)), id)
            .map_err(|source| error(Box::new(source)))?;
        let [document] =
            <[_; 1]>::try_from(documents).map_err(|_| error("one document is expected".into()))?;
        serde_json::from_value(document).map_err(|source| error(Box::new(source)))
    }

    /// The lab for a word that a learner typed: an id, or a symptom, of whose labs the seed draws one.
    ///
    /// # Errors
    /// [`CatalogError`].
    pub fn find(word: &str, seed: u64) -> Result<Self, CatalogError> {
        let labs = all(seed)?;
        if let Some(lab) = labs.iter().find(|lab| lab.id.eq_ignore_ascii_case(word)) {
            return Ok(lab.clone());
        }
        let alike: Vec<&Lab> = labs.iter().filter(|lab| lab.symptom == word).collect();
        let draw = usize::try_from(seed).unwrap_or_default() % alike.len().max(1);
        alike.get(draw).map(|lab| (*lab).clone()).ok_or_else(|| CatalogError::Unknown(word.to_owned()))
    }

    /// The namespace that its objects are in.
    pub fn namespace(&self, seed: u64) -> String {
        names(&self.id, seed).remove("ns").unwrap_or_default()
    }
}

/// All labs with the names that a seed gives.
///
/// # Errors
/// [`CatalogError::File`].
pub fn all(seed: u64) -> Result<Vec<Lab>, CatalogError> {
    FILES.iter().map(|(id, _)| Lab::with_seed(id, seed)).collect()
}

#[cfg(test)]
mod tests;
