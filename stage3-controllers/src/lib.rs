//! Stage 3, kube-controller-manager: make it so, again and again.
/// A
pub mod action;
/// A
pub mod controller;
/// A
pub mod deployment;
/// A
pub mod events;
/// A
pub mod executor;
/// A
pub mod expectations;
/// A
pub mod indexer;
/// A
pub mod informer;
/// A
pub mod leader_election;
/// A
pub mod owner;
/// A
pub mod pod;
/// A
pub mod pod_template;
/// A
pub mod reflector;
/// A
pub mod replica_set;
/// A
pub mod serving;
/// A
pub mod workqueue;
