//! Why: at which of the six stages is a workload stuck, and what proves it?
//!
//! *Beside a pod's journey, wherever it ends too early.* Before: a person says "it doesn't work". After: they know the stage, the
//! object, the field, and the next command.
//!
//! Operators carry a table in their heads: this symptom, that command, then it's the scheduler. Here the table is written
//! down, one rule a file. What a rule may know is gathered first ([`gather`], a shell that only reads), so that the rules
//! are pure and each has a test with its fault, its twin, and a healthy world. [`rank`] tells causes from consequences.
//!
//! The subtle thing is silence. A tool that always has something to say is soon not read any more, so on a healthy cluster there
//! is no finding at all; and what could not be seen is said, because "nothing found" and "nothing seen" are not the same.
//!
//! # Invariants
//! 1. Nothing is ever written: only GET requests are sent.
//! 2. No finding without evidence.
//! 3. A healthy world gives no finding.
//!
//! # In Kubernetes
//! No counterpart; the knowledge is that of "Debug Pods", "Debug Services" and the sources of the components.

use std::collections::BTreeSet;

/// Who waits for a controller or the scheduler.
pub mod acting;
/// A pod's containers, spec beside status.
pub mod container;
/// Everything that the rules may know.
pub mod facts;
/// What a rule says.
pub mod finding;
/// Reads the facts from a cluster.
pub mod gather;
/// Leases and heartbeats: who lives?
pub mod heartbeat;
/// What went wrong with a pull.
pub mod image_pull;
/// The closed list of words for faults.
pub mod mechanism;
/// How alike two names are.
pub mod near_miss;
/// Causes before consequences.
pub mod rank;
/// Why the API server refuses a controller's pods.
pub mod refusal;
/// Text and JSON.
pub mod report;
/// One fault, as data.
pub mod rule;
/// Every rule, one a file.
pub mod rules;
/// A Service, its slices, and the pods behind it.
pub mod traffic;
/// Why the server gave no answer.
pub mod trouble;
/// What pods request, and what nodes have left.
pub mod usage;
#[cfg(test)]
pub(crate) mod worlds;

pub use facts::Facts;
pub use finding::{Evidence, Finding, ObjectRef, RuledOut, Severity};
pub use mechanism::Mechanism;
pub use rank::Diagnosis;
pub use rule::{Explained, Rule};

/// Asks every rule, and sorts causes from consequences.
#[must_use]
pub fn diagnose(facts: &Facts) -> Vec<Diagnosis> {
    let found = rules::ALL
        .iter()
        .flat_map(|rule| (rule.find)(facts).into_iter().map(move |finding| (*rule, finding)));
    rank::rank(facts, found.collect())
}

/// The worst that was found; `None`: nothing.
#[must_use]
pub fn worst(diagnoses: &[Diagnosis]) -> Option<Severity> {
    diagnoses.iter().map(|one| one.finding.severity).max()
}

/// The exit code: 0 nothing is wrong (or on its way), 2 warnings, 3 something is stuck or broken. (1: the command failed.)
#[must_use]
pub fn exit_code(diagnoses: &[Diagnosis]) -> i32 {
    match worst(diagnoses) {
        None | Some(Severity::Info) => 0,
        Some(Severity::Warning) => 2,
        Some(Severity::Error) => 3,
    }
}

/// The ids of the causes, for tests and labs.
#[must_use]
pub fn causes(diagnoses: &[Diagnosis]) -> BTreeSet<&'static str> {
    diagnoses.iter().map(|one| one.rule.id).collect()
}

#[cfg(test)]
mod tests;
