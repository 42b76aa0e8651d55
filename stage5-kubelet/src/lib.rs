//! stage5-kubelet.
pub mod network;
