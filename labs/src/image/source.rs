//! Files of this machine as image entries: a program comes with the libraries it needs.
//!
//! *Before a pod's journey.* [`super::build`] is pure; this is its shell: it reads files, asks `ldd` which shared
//! libraries a program loads and `cc` to compile the one program no package has (pause).
//!
//! # In Kubernetes
//! `build/pause/linux/pause.c` is the program of the pause image; ours has the same duties (see `pause.c` beside this file).
//! Left out: libraries that a program opens by name while it runs (`dlopen`): name them with `--file`.
#![expect(clippy::disallowed_methods, reason = "shell: reads the files an image is made of, runs ldd and cc")]

use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Entry, ImageError, ImageSpec};

/// Why a file of this machine could not become part of an image.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// The file could not be read.
    #[error("read {path}")]
    Read {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program was not found or failed.
    #[error("run {program}: {message}")]
    Run {
        /// Which program.
        program: &'static str,
        /// Its last words.
        message: String,
    },
    /// The entry is not allowed in an image.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// Adds the file `from` of this machine at `to`, with `mode` or the mode it has.
///
/// # Errors
/// [`SourceError::Read`] when the file can't be read, [`SourceError::Image`] when `to` leaves the image.
pub fn add_file(spec: &mut ImageSpec, from: &Path, to: &str, mode: Option<u32>) -> Result<(), SourceError> {
    use std::os::unix::fs::PermissionsExt as _;
    let failed = |source| SourceError::Read { path: from.to_owned(), source };
    let bytes = std::fs::read(from).map_err(failed)?;
    let found = from.metadata().map_err(failed)?.permissions().mode() & 0o7777;
    Ok(spec.add(to, Entry::File(bytes, mode.unwrap_or(found)))?)
}

/// Adds a program at its own path together with the loader and every library that `ldd` names.
///
/// # Errors
/// As [`add_file`], and [`SourceError::Run`] when `ldd` fails.
pub fn add_program(spec: &mut ImageSpec, program: &Path) -> Result<(), SourceError> {
    add_file(spec, program, &program.display().to_string(), Some(0o755))?;
    let output = Command::new("ldd")
        .arg(program)
        .output()
        .map_err(|error| SourceError::Run { program: "ldd", message: error.to_string() })?;
    for library in libraries(&String::from_utf8_lossy(&output.stdout)) {
        add_file(spec, Path::new(&library), &library, Some(0o755))?;
    }
    Ok(())
}

/// The paths in the output of `ldd`; a static program has none.
fn libraries(ldd: &str) -> Vec<String> {
    ldd.lines()
        .flat_map(|line| line.split_whitespace().find(|word| word.starts_with('/')))
        .map(str::to_owned)
        .collect()
}

/// Compiles C source to a static program and gives its bytes.
///
/// # Errors
/// [`SourceError::Run`] with the compiler's message, [`SourceError::Read`] when the result can't be read.
pub fn compile_static(source: &str) -> Result<Vec<u8>, SourceError> {
    let failed = |message: String| SourceError::Run { program: "cc", message };
    let dir = tempfile::tempdir().map_err(|error| failed(error.to_string()))?;
    let (c_file, program) = (dir.path().join("main.c"), dir.path().join("main"));
    std::fs::write(&c_file, source).map_err(|error| failed(error.to_string()))?;
    let output = Command::new("cc")
        .args(["-Os", "-static", "-s", "-o"])
        .args([&program, &c_file])
        .output()
        .map_err(|error| failed(error.to_string()))?;
    if !output.status.success() {
        return Err(failed(String::from_utf8_lossy(&output.stderr).into_owned()));
    }
    std::fs::read(&program).map_err(|source| SourceError::Read { path: program, source })
}

#[cfg(test)]
mod tests {
    use super::libraries;

    #[test]
    fn ldd_names_libraries_and_the_loader_but_not_the_vdso() {
        let output = "\tlinux-vdso.so.1 (0x00007ffc)\n\tlibz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x00007f)\n\
                      \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        assert_eq!(libraries(output), ["/lib/x86_64-linux-gnu/libz.so.1", "/lib64/ld-linux-x86-64.so.2"]);
        assert!(libraries("\tnot a dynamic executable\n").is_empty());
    }
}
