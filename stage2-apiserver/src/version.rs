//! Version: which Kubernetes this is.
//!
//! The one place where the version stands. Clients compare it with their own (`kubectl version` warns about a difference of
//! more than one minor release), and `/version` is open to everybody.
//!
//! # In Kubernetes
//! `component-base/version/base.go`.

use serde_json::{Value, json};

/// Major version of the API.
pub const MAJOR: &str = "1";
/// Minor version of the API.
pub const MINOR: &str = "33";
/// The release whose behaviour this server has.
pub const GIT_VERSION: &str = "v1.33.0-six-stages";

/// The document at `/version`.
pub fn version() -> Value {
    json!({
        "major": MAJOR,
        "minor": MINOR,
        "emulationMajor": MAJOR,
        "emulationMinor": MINOR,
        "minCompatibilityMajor": MAJOR,
        "minCompatibilityMinor": "32",
        "gitVersion": GIT_VERSION,
        "gitCommit": option_env!("STAGES_GIT_COMMIT").unwrap_or("unknown"),
        "gitTreeState": "clean",
        "buildDate": "1970-01-01T00:00:00Z",
        "goVersion": "none",
        "compiler": "rustc",
        "platform": concat!("linux/", "amd64"),
    })
}
