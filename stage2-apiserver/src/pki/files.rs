//! Files of keys: never wider than they must be, never half written.
//!
//! # Invariants
//! 1. A file has its mode before it has content, and its content appears at once (written beside, then renamed).
//!
//! # In Kubernetes
//! `client-go/util/keyutil` writes with mode 0600 and no rename.

#![expect(clippy::disallowed_methods, reason = "shell: reads and writes the files of the PKI")]

use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use super::PkiError;

/// Mode of private keys and of what holds one.
pub(super) const SECRET: u32 = 0o600;
/// Mode of certificates and public keys.
pub(super) const PUBLIC: u32 = 0o644;

fn failed(path: &Path) -> impl Fn(std::io::Error) -> PkiError {
    move |source| PkiError::File { path: path.into(), source }
}

pub(super) fn make_directory(path: &Path) -> Result<(), PkiError> {
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(failed(path))
}

/// The text, or `None` when there is no such file.
pub(super) fn read(path: &Path) -> Result<Option<String>, PkiError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed(path)(error)),
    }
}

pub(super) fn write(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    if let Some(parent) = path.parent() {
        make_directory(parent)?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let beside = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
    let write = || {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(mode).open(&beside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&beside, path)
    };
    write().map_err(failed(path))
}

pub(super) fn write_if_changed(path: &Path, text: &str, mode: u32) -> Result<(), PkiError> {
    match read(path)? {
        Some(there) if there == text => Ok(()),
        _ => write(path, text, mode),
    }
}

pub(super) fn read_or_make(
    path: &Path,
    mode: u32,
    make: impl FnOnce() -> Result<String, PkiError>,
) -> Result<String, PkiError> {
    if let Some(text) = read(path)? {
        return Ok(text);
    }
    let text = make()?;
    write(path, &text, mode)?;
    Ok(text)
}
