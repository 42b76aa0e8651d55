//! The journey page: the book with a live panel, at one local address.
//!
//! *All six steps of a pod's journey.* Before: the stages wrote their steps to the journey file. After: a reader sees them in
//! six lanes beside the chapter that explains them, and can break the cluster from the same page.
//!
//! Everything comes out of one program: the book's pages are rendered from their Markdown when they are asked for, scripts,
//! styles and texts are part of the binary, steps arrive as server-sent events. Nothing is built before, nothing is fetched from
//! elsewhere. What decides is pure: who may ask ([`guard`]), what is asked for ([`route`]), which steps belong to an object
//! ([`journal`]), what its lanes say ([`lanes`]), how a page looks ([`markdown`], [`frame`]). What acts is thin: [`server`], [`tail`],
//! [`files`], [`desk`].
//!
//! # Invariants
//! 1. It listens on loopback only, answers only to whoever has the token, and changes something only for requests of its own pages.
//! 2. No file outside the book's source and the repository's sources is ever shown.
//! 3. Every word of the page stands in `static/en.json`.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes; the dashboard and `kubectl proxy` guard themselves in the same way.

/// Who may ask.
pub mod guard;
/// What is asked for.
pub mod route;
/// The recorded steps, by object.
pub mod journal;
/// One object's six lanes.
pub mod lanes;
/// The recorded pod's story, up to each stage.
pub mod story;
/// Following the journey file.
pub mod tail;
/// Files that may be shown.
pub mod files;
/// From Markdown to HTML, and the table of contents.
pub mod markdown;
/// The frame around a page, and all texts.
pub mod frame;
/// Labs from the page.
pub mod desk;
/// What each address answers.
pub mod answers;
/// The server.
pub mod server;

pub use server::run;

use std::path::PathBuf;

use clap::Args;

/// Flags of `labs book`.
#[derive(Debug, Args)]
pub struct BookFlags {
    /// The port on 127.0.0.1; 0 takes a free one
    #[arg(long, default_value_t = 0)]
    pub port: u16,
    /// Show a recorded journey (a journey.jsonl) instead of a cluster's
    #[arg(long, value_name = "FILE")]
    pub replay: Option<PathBuf>,
    /// The repository with the book and the sources (default: where this program was built, else the working directory)
    #[arg(long, value_name = "DIR")]
    pub repository: Option<PathBuf>,
}
