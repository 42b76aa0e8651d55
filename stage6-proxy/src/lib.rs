//! stage6-proxy.
