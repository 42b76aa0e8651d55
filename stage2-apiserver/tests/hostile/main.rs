//! Requests that mean harm: each gets a clear refusal, and the server answers the next one.
//!
//! `requests.rs` sends bombs and forgeries over the wire; `mutations.rs` throws mangled bytes at everything that reads bytes.
//!
//! # In Kubernetes
//! `apiserver/pkg/endpoints/…/fuzz_test.go`, `test/integration/apiserver/max_json_patch_operations_test.go` and others.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, reason = "test")]

#[path = "../support/raw.rs"]
mod raw;

mod mutations;
mod requests;
