//! # Stage 5: the kubelet runs it
//!
//! *Step 5 of a pod's journey.* Before: the scheduler wrote this node's name into the pod. After: its containers run, the API server knows
//! how they are, and stage 6 makes them reachable.
//!
//! A kubelet looks after the pods of one node. It starts nothing itself: a container runtime does, through an interface of twenty calls
//! (CRI). What is left is deciding, and the decision is small enough to be one pure function: the pod's spec and what the runtime
//! has go in, a list of actions comes out ([`pod_actions`]). A second pure function turns what the runtime has into the status that
//! everybody else sees ([`pod_status`]). The rest are shells that fill the first and carry out the second.
//!
//! Nothing is remembered between rounds. Labels on the containers say whose they are, so a kubelet that was killed finds its pods again
//! and goes on, without restarting any.
//!
//! Read in this order:

// What a pod is here, and what the runtime has of it.
pub mod pod;
pub mod quantity;
pub mod cri;
pub mod runtime_view;

// The decisions.
pub mod backoff;
pub mod pod_actions;
pub mod pod_status;
pub mod admit;
pub mod probes;

// A pod as the runtime wants it.
pub mod container_spec;
pub mod env;
pub mod dns;
pub mod etc_hosts;

// The machine: files, cgroups, images.
pub mod volumes;
pub mod cgroups;
pub mod images;

// The loop: who wakes whom.
pub mod pleg;
pub mod sync_loop;
pub mod pod_workers;
pub mod sync_pod;
pub mod status_manager;
pub mod pod_events;
pub mod container_gc;

// The node itself.
pub mod node_status;
pub mod node_lease;
pub mod server;
pub mod kubelet;
pub mod options;
pub mod standalone;

// Several nodes on one machine, and the stages before this one.
#[cfg(feature = "containerd")]
pub mod containerd_process;
pub mod network;
pub mod pipeline; // nodes, and a kubelet on each
