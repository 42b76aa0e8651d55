//! Stage 3, kube-controller-manager: make it so, again and again.
/// A
pub mod action;
/// A
pub mod cluster_role_aggregation;
/// A
pub mod controller;
/// A
pub mod deployment;
/// A
pub mod discovery;
/// A
pub mod endpoint_slice;
/// A
pub mod endpoints;
/// A
pub mod events;
/// A
pub mod executor;
/// A
pub mod expectations;
/// A
pub mod garbage_collector;
/// A
pub mod indexer;
/// A
pub mod informer;
/// A
pub mod leader_election;
/// A
pub mod manager;
/// A
pub mod namespace;
/// A
pub mod node_ipam;
/// A
pub mod node_lifecycle;
/// A
pub mod options;
/// A
pub mod owner;
/// A
pub mod pipeline;
/// A
pub mod pod;
/// A
pub mod pod_gc;
/// A
pub mod pod_template;
/// A
pub mod reflector;
/// A
pub mod replica_set;
/// A
pub mod root_ca_publisher;
/// A
pub mod service_account;
/// A
pub mod serving;
#[cfg(test)]
mod simulator;
/// A
pub mod taint_eviction;
/// A
pub mod ttl_after_finished;
/// A
pub mod workqueue;
