//! Labs: a fault in one stage of a running cluster, to be diagnosed, repaired and graded.
//!
//! *All six steps of a pod's journey, broken one at a time.* A lab gives a symptom in the words of the person who
//! paged you. The learner looks, names the diagnosis (stage, object, mechanism, evidence) and repairs; the two are graded
//! apart. Faults are real: a component's process is gone, a quota is full, a certificate has expired.
//!
//! The parts, in reading order. What decides is pure ([`catalog`], [`variation`], [`probe`], [`grade`], [`guards`], [`session`]); what
//! acts is [`inject`] and [`real_world`] on a [`cluster`] whose components are processes that a learner can stop, edit and start.
//!
//! # Invariants
//! 1. A lab touches only the lab cluster and the lab's own kubeconfig; any other context is refused ([`learner`]).
//! 2. A verdict says what was seen.
//! 3. A fault that did not show is the lab's failure (`HARNESS`), never the learner's.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

/// The closed list of mechanisms that a diagnosis may name.
pub mod vocabulary;
/// The sentences that labs say.
pub(crate) mod texts;
/// A lab as its file says it.
pub mod catalog;
/// Names and numbers that vary with a seed.
pub mod variation;
/// What can be looked at: objects, components, kubeconfig, requests.
pub mod world;
/// Questions with a yes or no, and what was seen.
pub mod probe;
/// A diagnosis, and how it is written.
pub mod answer;
/// From a diagnosis and what was seen to a verdict.
pub mod grade;
/// Repairs that are no repairs, read from the audit log.
pub mod guards;
/// The lab that is under way, and what was reached so far.
pub mod session;
/// The learner's kubeconfig.
pub mod learner;
/// A cluster of processes that can be broken.
pub mod cluster;
/// Breaking things.
pub mod inject;
/// The lab on a copy of the source.
pub mod source_copy;
/// Looking at a real cluster.
pub mod real_world;
/// The engine: start, hint, answer, verify, reset.
pub mod engine;
/// The subcommands and their texts.
pub mod commands;
