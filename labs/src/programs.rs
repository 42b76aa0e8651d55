//! Our own programs: where they lie.
//!
//! One build makes all of them in one folder, so that a program is looked for beside the one that asks; a program that isn't there
//! may still be on the PATH. Everything in this crate that starts another program of ours asks here.
//!
//! # In Kubernetes
//! Nothing of this is in Kubernetes.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, ensure};

/// The folder that our own program lies in.
///
/// # Errors
/// The system doesn't say where that is.
pub fn folder() -> anyhow::Result<PathBuf> {
    let own = std::env::current_exe()?;
    let dir = own.parent().context("the program has no folder")?;
    // A test's program lies one folder deeper.
    let dir = if dir.ends_with("deps") { dir.parent().context("the program has no folder")? } else { dir };
    Ok(dir.to_owned())
}

/// The folder of our own program, if all of these lie in it.
///
/// # Errors
/// One of them isn't there, with what to type.
pub fn folder_with(names: &[&str]) -> anyhow::Result<PathBuf> {
    let dir = folder()?;
    for path in names.iter().map(|name| dir.join(name)) {
        ensure!(
            path.exists(),
            "{} is missing: cargo build --release --workspace --features labs/real",
            path.display()
        );
    }
    Ok(dir)
}

/// A program in a folder, or else the one of this name on the PATH.
pub fn in_folder_or_path(dir: Option<&Path>, program: &Path) -> PathBuf {
    dir.map(|dir| dir.join(program)).filter(|path| path.exists()).unwrap_or_else(|| program.to_owned())
}

#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "test: reads and writes files")]
mod tests {
    use super::*;

    #[test]
    fn a_program_beside_us_comes_before_one_on_the_path_and_a_missing_one_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let (here, path) = (Some(dir.path()), Path::new("kubectl"));
        assert_eq!(in_folder_or_path(here, path), path);
        std::fs::write(dir.path().join("kubectl"), "").unwrap();
        assert_eq!(in_folder_or_path(here, path), dir.path().join("kubectl"));
        assert_eq!(in_folder_or_path(None, path), path);
        assert!(!folder().unwrap().ends_with("deps"));
        let missing = folder_with(&["no-such-program"]).unwrap_err().to_string();
        assert!(missing.contains("/no-such-program is missing: cargo build"), "{missing}");
    }
}
