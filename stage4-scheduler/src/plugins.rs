//! Plugins: the rules, one per file, under Kubernetes' names.
//!
//! *Step 13 of a pod's journey through this stage.* [`crate::profile`] puts them into an order.
//!
//! Read `node_name` first (the smallest), then `node_resources_fit` (the one that matters most), then
//! `pod_topology_spread` and `inter_pod_affinity` (the ones that look at the whole cluster), and
//! `default_preemption` last.
//!
//! # In Kubernetes
//! `pkg/scheduler/framework/plugins/`. PrioritySort is the order of [`crate::scheduling_queue`],
//! DefaultBinder is [`crate::binding_cycle`]. Left out: DynamicResources (a feature behind a gate).

pub mod balanced_allocation;
pub mod default_preemption;
pub mod image_locality;
pub mod inter_pod_affinity;
pub mod node_affinity;
pub mod node_name;
pub mod node_ports;
pub mod node_resources_fit;
pub mod node_unschedulable;
pub mod node_volume_limits;
pub mod pod_topology_spread;
pub mod scheduling_gates;
pub mod taint_toleration;
pub mod volume_binding;
pub mod volume_restrictions;
pub mod volume_zone;
