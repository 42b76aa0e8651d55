//! stage5-kubelet.
