//! Stage 2, `kube-apiserver`: remember it, tell everyone.
//!
//! (The story and the reading order grow with the modules; one `pub mod` per line.)

pub mod registry; // the one table of the kinds that are served
