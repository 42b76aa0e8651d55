//! The pipeline up to stage 5: nodes, and a kubelet on each.
//!
//! *Step 5 of a pod's journey.* Before: stages 1 to 4 of the cluster run in this process. After: pods run.
//!
//! # In Kubernetes
//! kubeadm, systemd, and the machines.

pub mod nodes;
