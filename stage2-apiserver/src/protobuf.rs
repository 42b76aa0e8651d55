//! Protobuf: the second language of the API. The codec is stage 1's, because kubectl speaks it too; here is what ties it to the server.
//!
//! *Step 2 of a pod's journey.* Before: [`crate::negotiation`] found `application/vnd.kubernetes.protobuf` in a header. After:
//! [`crate::decode`] has an object, or [`crate::handlers::respond`] has the bytes of an answer.
//!
//! What was decoded goes through [`crate::schema`] like JSON does. The tests hold the codec's table against that schema, so a field
//! that one of them has and the other hasn't is found at once.
//!
//! # In Kubernetes
//! `apimachinery/pkg/runtime/serializer/protobuf/protobuf.go`. Left out: content encodings inside the envelope, CBOR.

pub use stage1_kubectl::protobuf::*;

#[cfg(test)]
mod tests;
