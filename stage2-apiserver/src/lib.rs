//! stage2-apiserver.
