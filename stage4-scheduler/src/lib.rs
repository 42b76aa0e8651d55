//! Stage 4, kube-scheduler: choose a node.
//!
//! *Before:* a controller created a pod; its `spec.nodeName` is empty. *After:* the pod is bound to a node,
//! and that node's kubelet starts it. Nothing else happens here: the scheduler starts nothing, moves nothing
//! and knows no node but by its API object. It writes one line, `spec.nodeName`, and the whole art is in
//! which name it writes, how fast, and how well it says why there is none.
//!
//! A pod's way through this stage:
//!
//! 1. The watch brings it; [`event_handlers`] parse it into a [`pod_info::PodInfo`] and queue it.
//! 2. [`scheduling_queue`] hands out the most important pod.
//! 3. [`snapshot`]: the cluster as of now, shared, not copied.
//! 4. [`schedule_pod::schedule_pod`]: filter, score, select. Pure; the heart of the stage.
//!    [`equivalence_cache`] gives the same answer sooner to pods that come in crowds.
//! 5. Found: [`cache`] *assumes* the pod on the node, [`binding_cycle`] tells the API server, while
//!    the next pod is being placed already.
//! 6. Not found: [`fit_error`] says why, [`plugins::default_preemption`] may make room, [`failure`] writes
//!    event and condition, and the pod waits for an event that could help.
//!
//! The modules in reading order:

// The words of scheduling, and the pod and the node in numbers.
pub mod framework;
pub mod listers;
pub mod node_info;
pub mod node_selector;
pub mod pod_info;
pub mod resource;
// The cluster, as it is and as one cycle sees it.
pub mod cache;
pub mod snapshot;
// The decision, and how it is made sooner.
pub mod decision;
pub mod equivalence_cache;
pub mod explain;
pub mod fit_error;
pub mod node_to_status;
pub mod plugins;
pub mod profile;
pub mod schedule_pod;
// Waiting.
pub mod event_handlers;
pub mod profiles;
pub mod scheduling_queue;
// The shell: carries decisions out.
pub mod binding_cycle;
pub mod events;
pub mod extender;
pub mod failure;
pub mod metrics;
pub mod scheduling_cycle;
pub mod throttle;
pub mod waiting_pods;
// How fast all that is.
pub mod bench;
// The command line, and the whole of it running.
pub mod commands;
pub mod configuration;
pub mod options;
pub mod pipeline;
pub mod scheduler;
pub mod simulation;
pub mod world;
