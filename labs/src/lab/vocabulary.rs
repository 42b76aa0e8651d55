//! Vocabulary: the mechanisms that a diagnosis may name.
//!
//! A closed list keeps an answer gradable without guessing at prose, and teaches the words: two faults with one symptom
//! differ in their mechanism. It is the list of `kubectl why`, and `healthy`, because sometimes nothing is broken.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; words are Kubernetes' own where it has them.

use std::sync::LazyLock;

use stage1_kubectl::why::mechanism::Mechanism;

use super::texts::say;

/// The word for "nothing is broken".
pub const HEALTHY: &str = "healthy";

fn healthy() -> &'static str {
    static MEANING: LazyLock<String> = LazyLock::new(|| say("mechanism.healthy", &[]));
    &MEANING
}

/// Every mechanism: the word, and what it means.
pub fn mechanisms() -> impl Iterator<Item = (&'static str, &'static str)> {
    let faults = Mechanism::ALL.iter().map(|mechanism| (mechanism.word(), mechanism.meaning()));
    std::iter::once((HEALTHY, healthy())).chain(faults)
}

/// Is this one of the words?
pub fn is_mechanism(word: &str) -> bool {
    mechanisms().any(|(known, _)| known == word)
}

/// The name of a stage, as its program is called; 0 is "none, it is healthy".
pub fn stage_name(stage: u8) -> &'static str {
    const NAMES: [&str; 7] =
        [HEALTHY, "kubectl", "kube-apiserver", "controller-manager", "scheduler", "kubelet", "kube-proxy"];
    NAMES.get(usize::from(stage)).copied().unwrap_or_default()
}
