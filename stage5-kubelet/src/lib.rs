//! stage5-kubelet.
pub mod admit;
pub mod backoff;
pub mod container_spec;
pub mod cri;
pub mod dns;
pub mod env;
pub mod etc_hosts;
pub mod pleg;
pub mod pod;
pub mod pod_actions;
pub mod pod_status;
pub mod probes;
pub mod quantity;
pub mod runtime_view;
pub mod kubelet;
pub mod network;
pub mod options;
