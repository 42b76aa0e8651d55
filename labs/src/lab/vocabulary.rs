//! Vocabulary: the mechanisms that a diagnosis may name.
//!
//! A closed list keeps an answer gradable without guessing at prose, and teaches the words: two faults with one symptom
//! differ in their mechanism. It is the list of `kubectl why`, and `healthy`, because sometimes nothing is broken.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; words are Kubernetes' own where it has them.

use stage1_kubectl::why::mechanism::Mechanism;

/// Every mechanism: the word, and what it means.
pub fn mechanisms() -> impl Iterator<Item = (&'static str, &'static str)> {
    let faults = Mechanism::ALL.iter().map(|mechanism| (mechanism.word(), mechanism.meaning()));
    std::iter::once(("healthy", "Nothing is broken.")).chain(faults)
}

/// Is this one of the words?
pub fn is_mechanism(word: &str) -> bool {
    mechanisms().any(|(known, _)| known == word)
}

/// The stages' names, ① first; 0 is "none, it is healthy".
pub const STAGES: [&str; 7] =
    ["healthy", "kubectl", "kube-apiserver", "controller-manager", "scheduler", "kubelet", "kube-proxy"];
