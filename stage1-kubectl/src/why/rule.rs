//! A rule: one fault that operators know, as data with one function.
//!
//! *Beside a pod's journey.* Each file in [`super::rules`] holds one, with a world in which its fault is there.
//!
//! The text fields are what the triage page of the book shows; a test compares them. The function looks at the [`Facts`] and
//! says where the fault is.
//!
//! # Invariants
//! 1. A rule says nothing about a healthy world, and nothing about the world of its twin.
//!
//! # In Kubernetes
//! No counterpart.

use super::facts::Facts;
use super::finding::Finding;
use super::mechanism::Mechanism;
use crate::journey::Stage;

/// What can be the cause of what a rule finds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Explained {
    /// Nothing: what it finds is a cause.
    Never,
    /// These rules, about an object that both share.
    By(&'static [&'static str]),
    /// Any rule about an object that both share: what it finds is a symptom.
    ByAnyCause,
}

/// One fault that operators know.
// ANCHOR: rule
#[derive(Debug)]
pub struct Rule {
    /// Its name, for ever: `image-not-found`.
    pub id: &'static str,
    /// The stage that is at fault.
    pub stage: Stage,
    /// The word for it.
    pub mechanism: Mechanism,
    /// The lab with this fault; empty: none.
    pub lab: &'static str,
    /// What a person sees first.
    pub symptom: &'static str,
    /// The first command that tells it from its neighbours.
    pub first_command: &'static str,
    /// What rules out the faults that look alike.
    pub ruled_out_by: &'static str,
    /// What can be its cause.
    pub explained: Explained,
    /// Where is it?
    pub find: fn(&Facts) -> Vec<Finding>,
}
// ANCHOR_END: rule
