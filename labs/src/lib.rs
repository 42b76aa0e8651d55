//! What stands around the six stages: images for machines without a registry, the demo, and the checks of the repository.
//!
//! The stages are one pipeline; this crate is what a reader, a class or a test needs beside it. Modules in reading order.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

/// The book's own checks: anchors, includes, links.
pub mod book;
/// The demo of `labs/up --demo`: a web Deployment behind two Services, and its way through the stages.
pub mod demo;
/// Exercises: one public trait of a stage each, to be implemented.
pub mod exercises;
/// Container images from files of this machine.
pub mod image;
/// Labs: a fault in one stage, to be diagnosed, repaired and graded.
pub mod lab;
/// How fast a pipeline starts and rolls out, and what it costs at rest.
#[cfg_attr(not(feature = "real"), allow(dead_code, reason = "containers are measured with real parts only"))]
pub mod measure;
/// The book with a live panel.
pub mod page;
/// Where our own programs lie.
pub mod programs;
/// Sentences by key.
pub mod texts;
/// The command line of `labs`.
pub mod options;
