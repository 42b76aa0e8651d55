//! Stage 1, kubectl: say what you want.
//!
//! A pod's journey begins with a YAML file and a command. This stage turns the file into objects ([`object`]), finds the
//! URL that their kind lives at ([`resource`]), and sends a request. Everything that a client of the API needs lives
//! here, so the later stages import their API client from this crate: it is the chapter that built it.
//!
//! The modules stand in reading order.

/// Any API object as JSON; unknown fields survive.
pub mod object;
/// Exact amounts with units: `500m`, `1.5Gi`.
pub mod quantity;
/// Kinds, resources and URL paths.
pub mod resource;
/// Label and field selectors.
pub mod selector;
/// API errors in Kubernetes' words.
pub mod status;
/// Ages, timestamps, Go durations.
pub mod time;
