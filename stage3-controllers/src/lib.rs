//! Stage 3, kube-controller-manager: make it so, again and again.
//!
//! The API server remembers what somebody asked for. It does nothing about it. This stage does: it compares what is asked for with what is, and
//! makes one step towards it; and again, as long as it runs. A Deployment becomes ReplicaSets, a ReplicaSet becomes pods, a Service
//! becomes a list of addresses, a silent node loses its pods, what belongs to something deleted goes, too.
//!
//! All controllers have one shape. `observe` collects a *world* from local copies, `reconcile` looks at the world and returns actions, the executor carries them out.
//! `reconcile` is pure: it never asks what happened, only what is. So a lost event, a crash or a stale copy costs time
//! and nothing else; one test harness proves that for each controller.
//!
//! ```text
//!  API server ──list+watch──▶ reflector ─▶ indexer ─▶ informer ─▶ work queue ─▶ controller ─▶ executor ──writes──▶ API server
//!                                            (copy)     (events)     (keys)     observe,        (the only
//!                                                                               reconcile        writer)
//! ```
//!
//! The first half of the list below is that machine; the later stages use it, too. The second half are the controllers, each in
//! one file or folder, simplest first. The modules stand in reading order.

/// The closed set of things that a controller may do.
pub mod action;
/// The loop that all controllers share.
pub mod controller;
/// Telling people what happened.
pub mod events;
/// The only one that writes.
pub mod executor;
/// Read your own writes before deciding again.
pub mod expectations;
/// A local copy of one kind, with indices.
pub mod indexer;
/// One watch per kind, shared by all who care.
pub mod informer;
/// Of several controller managers, one works.
pub mod leader_election;
/// Which objects a controller owns, may adopt, or must let go.
pub mod owner;
/// List once, then watch: the state machine.
pub mod reflector;
/// Health, metrics and version, over TLS.
pub mod serving;
/// Which keys need work, each at most once.
pub mod workqueue;

/// Roles made of other roles.
pub mod cluster_role_aggregation;
/// Old templates of StatefulSets and DaemonSets.
pub mod controller_revision;
/// Jobs by the clock.
pub mod cron_job;
/// One pod on every node.
pub mod daemon_set;
/// From one template to the next, without going dark.
pub mod deployment;
/// Which kinds this API server has.
pub mod discovery;
/// How many pods of a kind may go at the same time.
pub mod disruption;
/// Which pods stand behind a Service.
pub mod endpoint_slice;
/// The older form of the same.
pub mod endpoints;
/// What belongs to something that is gone goes, too.
pub mod garbage_collector;
/// Pods that run to an end.
pub mod job;
/// Emptying a namespace before it goes.
pub mod namespace;
/// Each node gets its own range of pod addresses.
pub mod node_ipam;
/// Noticing that a node fell silent.
pub mod node_lifecycle;
/// What controllers ask of a pod.
pub mod pod;
/// Pods that nobody else will ever finish.
pub mod pod_gc;
/// A pod from a template, and the hash that names a template.
pub mod pod_template;
/// As many pods as asked for: the model of all controllers.
pub mod replica_set;
/// Counting what a namespace uses.
pub mod resource_quota;
/// Every namespace has the cluster's CA.
pub mod root_ca_publisher;
/// Every namespace has its `default` ServiceAccount.
pub mod service_account;
/// Pods with names, one after the other.
pub mod stateful_set;
/// Pods leave a node that does not want them any longer.
pub mod taint_eviction;
/// Finished Jobs go away by themselves.
pub mod ttl_after_finished;
/// A volume goes only when nobody uses it.
pub mod volume_protection;

/// All controllers in one process, on shared copies.
pub mod manager;
/// Flags and configuration.
pub mod options;
/// The API server and the controllers in one process.
pub mod pipeline;

#[cfg(test)]
mod simulator;
