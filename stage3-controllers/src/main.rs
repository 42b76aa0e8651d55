//! kube-controller-manager: flags, configuration, logging, wiring, run.
fn main() {}
