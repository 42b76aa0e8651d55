//! Stage 1, kubectl: say what you want.
//!
//! A pod's journey begins with a YAML file and a command. This stage turns the file into objects ([`object`]), finds the
//! URL that their kind lives at ([`resource`]), and sends a request. Everything that a client of the API needs lives
//! here, so the later stages import their API client from this crate: it is the chapter that built it.
//!
//! The modules stand in reading order.

/// Is a workload fit for production?
pub mod checklist;
/// Sends requests; errors say what is wrong with the connection.
pub mod client;
/// One file a subcommand.
pub mod commands;
/// What every command needs: flags, client, discovery, output.
pub mod context;
/// One object on one page.
pub mod describe;
/// Which resources a server has.
pub mod discovery;
/// Errors and exit codes as kubectl has them.
pub mod failure;
/// What each stage did for an object.
pub mod journey;
/// Clusters, users and contexts: where the server is and who we are.
pub mod kubeconfig;
/// Where log lines go.
pub mod logging;
/// Files become objects.
pub mod manifest;
/// Any API object as JSON; unknown fields survive.
pub mod object;
/// Patches: JSON, merge, strategic, three-way.
pub mod patch;
/// Objects as text: tables, YAML, JSON, JSONPath.
pub mod printers;
/// Exact amounts with units: `500m`, `1.5Gi`.
pub mod quantity;
/// The API's second language, which some bodies are written in.
pub mod protobuf;
/// A verb and a resource become an HTTP request.
pub mod request;
/// Kinds, resources and URL paths.
pub mod resource;
/// From words to resources.
pub mod rest_mapper;
/// Label and field selectors.
pub mod selector;
/// SIGINT and SIGTERM as a future.
pub mod signals;
/// Where a cluster keeps its files.
pub mod state_dir;
/// API errors in Kubernetes' words.
pub mod status;
/// Ages, timestamps, Go durations.
pub mod time;
/// Certificates in, a rustls configuration out.
pub mod tls;
/// Streams for exec, attach and port-forward.
pub mod upgrade;
/// The stream of changes.
pub mod watch;
/// Manifests of others, changed without touching their files.
pub mod kustomize;
/// At which stage is it stuck?
pub mod why;
/// YAML as kubectl writes it.
pub mod yaml;
